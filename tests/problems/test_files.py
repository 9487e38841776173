"""Files of data: what is read is what was written, bit for bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

import continuized as cz
from continuized.problems import read
from continuized.problems import sources as source
from tests.helpers.data_files import plain_svmlight, put, same_bits

quick = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
finite = st.floats(allow_nan=False, allow_infinity=False)
tokens = st.from_regex(
    r"[+-]?([0-9]{1,25}\.?[0-9]{0,25}|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?", fullmatch=True
)
numbers = st.one_of(finite.map(repr), tokens).filter(lambda token: math.isfinite(float(token)))
blocks = st.sampled_from([16, 64, 2**20])  # bytes read at once: tokens cut at every place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@st.composite
def svmlight_files(draw: Any) -> tuple[bytes, list[str], list[dict[int, str]]]:
    rows = draw(
        st.lists(st.tuples(numbers, st.dictionaries(st.integers(1, 50), numbers)), min_size=1)
    )
    pick = lambda *choices: draw(st.sampled_from(choices))  # noqa: E731
    text = ""
    for label, row in rows:
        words = [label, *pick([], ["qid:7"]), *(f"{j}:{row[j]}" for j in sorted(row))]
        text += (
            pick("", "", " \t\n# a comment\n\n") + pick("", " ") + pick(" ", "\t", "  ").join(words)
        )
        text += pick("", " ", "# 1:2", " # x") + pick("\n", "\r\n")
    if draw(st.booleans()):
        text = text.rstrip("\r\n")
    return text.encode(), [label for label, _ in rows], [row for _, row in rows]


@quick
@given(file=svmlight_files(), block=blocks, suffix=st.sampled_from(["", ".svm", ".txt.gz"]))
def test_svmlight(folder: Path, file: Any, block: int, suffix: str) -> None:
    content, labels, rows = file
    with mock.patch.object(source, "BLOCK", block):
        X, y = read(put(folder, "data" + suffix, content), n_features=50)
    assert isinstance(X, sparse.csr_array)
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.has_canonical_format
    same_bits(y, [float(label) for label in labels])
    entries = [float(row[j]) for row in rows for j in sorted(row)]
    same_bits(X.data, entries)
    assert X.indices.tolist() == [j - 1 for row in rows for j in sorted(row)]
    assert np.diff(X.indptr).tolist() == [len(row) for row in rows]
    expected = plain_svmlight(content, 50)
    same_bits(X.toarray() + 0.0, expected[0] + 0.0)  # + 0: a sparse -0 is 0 in a dense array


@quick
@given(
    table=st.integers(2, 5).flatmap(
        lambda width: st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=1)
    ),
    target=st.integers(0, 4),
    name=st.sampled_from(["y", "label", "target", None]),
    block=blocks,
    end=st.sampled_from(["\n", "\r\n", " \n", "\n\n"]),
    suffix=st.sampled_from([".csv", ".CSV", ".csv.gz"]),
)
def test_csv(
    folder: Path, table: list[list[str]], target: int, name: Any, block: int, end: str, suffix: str
) -> None:
    width = len(table[0])
    names = [f'"x {j}"' if j % 2 else f"x{j}" for j in range(width)]
    target = target % width if name else width - 1
    names[target] = name or names[target]
    text = "".join(",".join(row) + end for row in [names, *table]).replace(" \n", "\n", 1)
    with mock.patch.object(source, "BLOCK", block):
        X, y = read(put(folder, "data" + suffix, text.encode()), n_features=width - 1)
    numbers = np.array([[float(field) for field in row] for row in table])
    same_bits(y, numbers[:, target])
    same_bits(X, np.delete(numbers, target, axis=1))
    assert X.flags.c_contiguous


@quick
@given(
    dtype=st.sampled_from(["<f8", ">f8", "<f4", "<f2", "<i4", ">i8", "|u1", "g"]),
    shape=st.tuples(st.integers(1, 30), st.integers(2, 6)),
    order=st.sampled_from(["C", "F"]),
    packed=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_arrays(folder: Path, dtype: str, shape: Any, order: Any, packed: bool, seed: int) -> None:
    table = np.random.default_rng(seed).normal(20.0, 5.0, shape).astype(dtype, order=order)
    np.save(folder / "a.npy", table)
    save = np.savez_compressed if packed else np.savez
    save(folder / "a.npz", X=table[:, :-1], y=table[:, -1], other=np.array(["not read"]))
    for name in ("a.npy", "a.npz"):
        X, y = read(folder / name)
        same_bits(X, table[:, :-1].astype(np.float64))
        same_bits(y, table[:, -1].astype(np.float64))
        assert X.flags.c_contiguous


@quick
@given(
    seed=st.integers(0, 2**32),
    density=st.sampled_from([0.0, 0.1, 0.9]),
    index=st.sampled_from([np.int32, np.int64, ">i4", np.uint64]),
    kind=st.sampled_from([b"csr", "csr"]),
)
def test_csr_parts(folder: Path, seed: int, density: float, index: Any, kind: Any) -> None:
    rng = np.random.default_rng(seed)
    A = sparse.random_array((9, 7), density=density, format="csr", rng=rng)
    y = rng.standard_normal(9)
    parts = {"data": A.data, "indices": A.indices.astype(index), "indptr": A.indptr.astype(index)}
    np.savez(folder / "a.npz", **parts, shape=A.shape, format=kind, y=y, _is_array=True)
    X, labels = read(folder / "a.npz")
    same_bits(X.toarray(), A.toarray())
    same_bits(labels, y)
    assert X.indices.dtype == X.indptr.dtype == np.int32


def test_what_save_npz_writes_is_read_when_y_is_added(folder: Path) -> None:
    A = sparse.random_array((5, 4), density=0.5, format="csr", rng=np.random.default_rng(0))
    sparse.save_npz(folder / "a.npz", A)
    with np.load(folder / "a.npz") as parts:
        np.savez(folder / "b.npz", y=np.arange(5), **parts)
    same_bits(read(folder / "b.npz").X.toarray(), A.toarray())


HARD = """9007199254740993 9007199254740992.5 18446744073709551616 18446744073709551615 1e23 8.41e21
5e-324 2.4703282292062328e-324 2.2250738585072011e-308 1.7976931348623157e308 1e-400 0e999999999999
-0 -0.0e5 .5 5. 00000000000000000000000001 0.00000000000000000000000000000000000123 1e-200 1e200
1e201 123456789012345678901234567890 9.5367431640625e-7 1e0000000000000000000001 4.5e15 6.02e+23
179769313486231580793728971405301e276 7.2057594037927933e16 1.00000000000000011102230246251565e0"""


def test_hard_decimals(folder: Path) -> None:
    halves = [f"{(2**53 + 2 * k + 1) * 5**s}e-{s}" for k in range(40) for s in range(12)]
    words = (
        HARD.split() + halves + [f"{w}e{q}" for w in (1, 7, 10**19 - 1) for q in range(-340, 289)]
    )
    path = put(folder, "hard", "".join(f"{word}\n" for word in words).encode())
    same_bits(read(path, n_features=1).y, [float(word) for word in words])


def test_a_line_longer_than_a_block_and_explicit_zeros(folder: Path) -> None:
    long = "1 " + " ".join(f"{j}:{j % 3}" for j in range(1, 300_000))
    X, y = read(put(folder, "long", f"-1 1:5\n{long}".encode()))
    assert X.shape == (2, 299_999)
    assert X.nnz == 300_000
    assert X[[1], :].toarray().tolist() == [[j % 3 for j in range(1, 300_000)]]
    assert y.tolist() == [-1.0, 1.0]


def test_large_indices_are_read_when_they_are_allowed(folder: Path) -> None:
    path = put(folder, "wide", b"1 5000000000:2\n")
    X, _ = read(path, max_index=10**10)
    assert X.shape == (1, 5_000_000_000)
    assert X.indices.tolist() == [4_999_999_999]


def test_the_format_overrides_the_suffix(folder: Path) -> None:
    same_bits(read(put(folder, "a.npz", b"1 1:2\n"), format="svmlight").X.data, [2.0])
    same_bits(read(str(put(folder, "b.txt", b"y,x\n1,2\n")), format="csv").X, [[2.0]])
    same_bits(cz.problems.read(put(folder, ".csv", b"1 1:2\n")).y, [1.0])  # a name, no suffix
