"""Files of data for the tests, and readers as plain as they can be: None for what they refuse."""

from __future__ import annotations

import gzip
import io
import math
import re
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized.problems import DataError, read

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def number(token: str) -> float:
    if not NUMBER.fullmatch(token) or math.isinf(float(token)):
        raise ValueError
    return float(token)


def lines_of(content: bytes) -> Iterator[str]:
    if b"\0" in content:
        raise ValueError
    for line in content.decode("ascii").split("\n"):
        yield line.removesuffix("\r")


def plain_svmlight(content: bytes, n_features: int) -> Any:
    y, rows = [], []
    try:
        for line in lines_of(content):
            words = re.split("[ \t]+", line.split("#")[0].strip(" \t"))
            if words == [""]:
                continue
            y.append(number(words.pop(0)))
            if words and re.fullmatch(r"qid:\d+", words[0], re.ASCII):
                words.pop(0)
            row: dict[int, float] = {}
            for word in words:
                index, value = word.split(":")
                if not re.fullmatch(r"\d+", index, re.ASCII):
                    raise ValueError
                if not max(row, default=-1) + 1 < int(index) <= n_features:
                    raise ValueError
                row[int(index) - 1] = number(value)
            rows.append(row)
    except ValueError:
        return None
    X = np.zeros((len(rows), n_features))
    for i, row in enumerate(rows):
        for j, value in row.items():
            X[i, j] = value
    return (X, np.array(y)) if rows else None


def plain_csv(content: bytes, columns: int, label: int) -> Any:
    """X and the labels, as text; without quotes."""
    X, labels = [], []
    try:
        for line in content.decode().split("\n")[1:]:
            if not line.removesuffix("\r").strip(" \t"):
                continue
            cells = [cell.strip(" \t") for cell in line.removesuffix("\r").split(",")]
            labels.append(cells.pop(label))
            if not labels[-1].isprintable() or labels[-1].casefold() in ("", "nan", "na", "none"):
                return None
            X.append([number(cell) for cell in cells])
            if len(cells) != columns - 1:
                return None
    except (ValueError, IndexError):
        return None
    return (np.array(X), labels) if X else None


def same_bits(given: np.ndarray, expected: Any) -> None:
    expected = np.asarray(expected, np.float64)
    assert given.dtype == np.float64
    assert given.shape == expected.shape
    assert np.array_equal(given.view(np.int64), expected.view(np.int64))


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def refused(path: Path, *words: str, **options: Any) -> str:
    with pytest.raises(DataError) as caught:
        read(path, **options)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < len(str(path)) + 250
    for word in words:
        assert word in message
    return message


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def claim(descr: str = "'<f8'", shape: str = "(2, 2)", body: bytes = bytes(32)) -> bytes:
    """A .npy file with a header of one's own."""
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + body


def npz(**members: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content if isinstance(content, bytes) else npy(content))
    return file.getvalue()


PARTS = {"data": np.ones(3), "indices": np.array([0, 2, 1]), "indptr": np.array([0, 2, 3])}
PARTS |= {"shape": np.array([2, 3]), "format": np.array(b"csr"), "y": np.ones(2)}
