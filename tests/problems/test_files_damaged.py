"""Files of data damaged at random, or on purpose: refused, or read as a plain reader does."""

from __future__ import annotations

import gzip
import os
import random
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized.problems import DataError, read
from tests.helpers.data_files import (
    NUMBER,
    PARTS,
    claim,
    npy,
    npz,
    plain_csv,
    plain_svmlight,
    put,
    refused,
    same_bits,
)

FILES = 400  # of every format


def damaged(good: bytes, rng: random.Random) -> bytes:
    content = bytearray(good)
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(content) + 1)
        match rng.randrange(5):
            case 0 if place < len(content):
                content[place] ^= 1 << rng.randrange(8)
            case 1 if place:
                del content[place:]
            case 2:
                content[place:place] = rng.randbytes(rng.choice([1, 3, 40]))
            case 3:
                content[place:place] = rng.choice(list(JUNK))
            case 4:
                del content[place : place + rng.choice([1, 2, 9])]
    return bytes(content)


JUNK = (b"\n", b"\r\n", b" ", b"#", b":", b",", b"-", b".", b"e", b"0", b"9", b"1" * 30, b"1:1 ")
JUNK += (b"nan", b"1e999", b"qid:3 ", b"\0", b"\r", b"\t", b"\xff", b"\n\n1 1:2\n")

ROWS = [(1.0, {1: 0.5, 3: -2e-7}), (-1.0, {}), (2.0, {2: 1.2345678901234567, 5: 1e300, 6: 7.0})]
SVMLIGHT = "".join(
    f"{label!r} qid:1 " + " ".join(f"{j}:{v!r}" for j, v in row.items()) + " # end\r\n"
    for label, row in ROWS
).encode()  # fmt: skip
CSV = b"a,y,c\n" + b"".join(b"%d.5,-%de-3,.25\n" % (i, i) for i in range(5))


def outcome(path: Path, **options: Any) -> Any:
    """What is read, or None if it is refused; any other exception is an error."""
    try:
        return read(path, **options)
    except DataError as error:
        one_line = "\n" not in str(error)
    assert one_line
    return None


def test_damaged_svmlight(tmp_path: Path) -> None:
    rng, kept = random.Random(1), 0
    for _ in range(FILES):
        content = damaged(SVMLIGHT, rng)
        found = outcome(put(tmp_path, "a", content), n_features=20)
        expected = plain_svmlight(content, 20)
        assert (found is None) == (expected is None), content
        if found is not None:
            kept += 1
            same_bits(found.X.toarray() + 0.0, expected[0] + 0.0)
            same_bits(found.y, expected[1])
    assert FILES / 20 < kept < FILES


def test_damaged_csv(tmp_path: Path) -> None:
    rng, kept = random.Random(2), 0
    for _ in range(FILES):
        content = damaged(CSV, rng)
        found = outcome(put(tmp_path, "a.csv", content))
        if content.startswith((b"a,y,c\n", b"a,y,c\r\n")) and b'"' not in content:
            expected = plain_csv(content, 3, 1)
            assert (found is None) == (expected is None), content
            if found is not None:
                kept += 1
                same_bits(found.X, expected[0])
                if found.classes is None:
                    same_bits(found.y, [float(label) for label in expected[1]])
                else:
                    words = {label for label in expected[1] if not NUMBER.fullmatch(label)}
                    assert words == {name for name in found.classes if not NUMBER.fullmatch(name)}
    assert FILES / 20 < kept < FILES


GOOD_ARRAYS = {
    "a.npy": npy(np.arange(12.0).reshape(4, 3)),
    "b.npy": npy(np.asfortranarray(np.arange(12).reshape(4, 3))),
    "a.npz": npz(X=np.arange(8.0).reshape(4, 2), y=np.ones(4)),
    "b.npz": npz(**PARTS),
    "a.svm.gz": gzip.compress(SVMLIGHT, mtime=0),
    "a.csv.gz": gzip.compress(CSV, mtime=0),
}


@pytest.mark.parametrize("name", GOOD_ARRAYS)
def test_damaged_binary_files(tmp_path: Path, name: str) -> None:
    rng, kept = random.Random(name), 0
    for _ in range(FILES):
        path = tmp_path / name
        path.write_bytes(damaged(GOOD_ARRAYS[name], rng))
        found = outcome(path)
        if found is not None:
            kept += 1
            assert np.isfinite(found.X.sum() + found.y.sum())
            assert found.X.shape[0] == found.y.size > 0
    assert kept < FILES


# Claims and bombs: refused before memory is taken.


def peak(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def test_a_line_that_unpacks_to_much_is_not_unpacked(tmp_path: Path) -> None:
    bomb = put(tmp_path, "a.gz", b"1 " + b" " * 60_000_000)
    read(put(tmp_path, "b.gz", b"1 1:1\n"))  # compile
    used = peak(lambda: refused(bomb, "line 1: more than max_line = 1000000 characters",
                                max_line=1_000_000))  # fmt: skip
    assert used < 12_000_000


def lying(size: int) -> bytes:
    """An archive whose directory and whose header claim so many bytes for X."""
    content = claim(shape=f"({size // 16}, 2)")
    archive = bytearray(npz(X=content, y=np.ones(2)))
    directory = archive.index(b"PK\1\2")
    claimed = size + len(content) - 32
    archive[directory + 24 : directory + 28] = struct.pack("<I", claimed)
    return bytes(archive)


def test_an_archive_that_claims_more_than_it_can_hold(tmp_path: Path) -> None:
    path = put(tmp_path, "a.npz", lying(4_000_000_000))
    assert peak(lambda: refused(path, "X claims 40000000", "packed bytes can hold")) < 10_000_000
    path = put(tmp_path, "a.npy", claim(shape="(625000000, 2)"))
    assert peak(lambda: refused(path, "should take 10000000000 bytes")) < 10_000_000


def test_other_ways_of_packing_and_two_arrays_of_one_name(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", npy(np.ones((2, 2))))
        archive.writestr("y.npy", npy(np.ones(2)))
    refused(path, "X is compressed in a way that np.savez_compressed does not use")
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("X", "X.npy", "y.npy"):
            archive.writestr(name, npy(np.ones((2, 2))))
    refused(path, "two arrays have the same name")


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "sprung"),)

    trap = npy(np.array([[Trap(), 1]], dtype=object), allow_pickle=True)
    refused(put(tmp_path, "a.npy", trap), "Python objects")
    refused(put(tmp_path, "a.npz", npz(X=trap, y=trap)), "Python objects")
    assert not (tmp_path / "sprung").exists()
