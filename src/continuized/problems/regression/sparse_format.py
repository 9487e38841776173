"""Whether the parts of a SciPy sparse matrix fit together, asked before anything follows them.

SciPy converts one format to another in compiled code that trusts every index: a wrong one reads
or writes anywhere in memory.  Nothing here calls such code, and nothing of the matrix is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from continuized.problems.base import Array


def check_format(X: Any) -> None:
    """Raise ValueError unless the parts of a two-dimensional sparse matrix X fit together.

    >>> from scipy import sparse
    >>> X = sparse.csc_array([[1.0], [2.0]])
    >>> X.indices[0] = 7
    >>> check_format(X)
    Traceback (most recent call last):
    ...
    ValueError: X is not a valid sparse matrix: indices[0] is 7, it must be in [0, 2)
    """
    check = CHECKS.get(X.format)
    wrong = None if check is None else check(X)
    if wrong is not None:
        raise ValueError(f"X is not a valid sparse matrix: {wrong}")


def _compressed(X: Any) -> str | None:
    """Of CSR and CSC: lines of entries, from indptr[i] to indptr[i + 1]."""
    lines, across = X.shape if X.format == "csr" else X.shape[::-1]
    return _not_a(X.data, "data", 1) or _lines(X, lines, across)


def _blocks(X: Any) -> str | None:
    wrong = _not_a(X.data, "data", 3)
    if wrong is not None:
        return wrong
    sides = X.data.shape[1:]
    if 0 in sides or X.shape[0] % sides[0] or X.shape[1] % sides[1]:
        return f"blocks of {sides} do not fill the shape {X.shape}"
    return _lines(X, X.shape[0] // sides[0], X.shape[1] // sides[1])


def _lines(X: Any, lines: int, across: int) -> str | None:
    wrong = _not_whole(X.indptr, "indptr") or _not_whole(X.indices, "indices")
    if wrong is not None:
        return wrong
    held = min(len(X.indices), len(X.data))
    if len(X.indptr) != lines + 1:
        return f"indptr has {len(X.indptr)} entries, it must have {lines + 1}"
    if X.indptr[0] != 0 or X.indptr[-1] > held:
        return f"indptr must run from 0 to at most {held}, not {X.indptr[0]} to {X.indptr[-1]}"
    falls = np.flatnonzero(X.indptr[1:] < X.indptr[:-1])
    if falls.size:
        return f"indptr[{falls[0] + 1}] is less than the entry before it"
    return _outside(X.indices[: X.indptr[-1]], "indices", across)


def _coordinates(X: Any) -> str | None:
    parts = {"row": (X.row, X.shape[0]), "col": (X.col, X.shape[1])}
    wrong = _not_a(X.data, "data", 1)
    for name, (indices, size) in parts.items():
        wrong = wrong or _not_whole(indices, name)
        if wrong is None and len(indices) != len(X.data):
            wrong = f"{name} has {len(indices)} entries, but data has {len(X.data)}"
        wrong = wrong or _outside(indices, name, size)
    return wrong


def _diagonals(X: Any) -> str | None:
    wrong = _not_whole(X.offsets, "offsets") or _not_a(X.data, "data", 2)
    if wrong is None and len(X.offsets) != len(X.data):
        return f"there are {len(X.offsets)} offsets, but data has {len(X.data)} rows"
    if wrong is None and len(np.unique(X.offsets)) != len(X.offsets):
        return "offsets has an entry twice"
    return wrong


def _lists(X: Any) -> str | None:
    """Of LIL, a list of columns and a list of entries for each row."""
    wrong = _not_a(X.rows, "rows", 1) or _not_a(X.data, "data", 1)
    if wrong is not None:
        return wrong
    if not len(X.rows) == len(X.data) == X.shape[0]:
        return f"there must be {X.shape[0]} lists in rows and in data"
    for i, (columns, entries) in enumerate(zip(X.rows, X.data, strict=True)):
        if not (isinstance(columns, list) and isinstance(entries, list)):
            return f"rows[{i}] and data[{i}] must be lists"
        if len(columns) != len(entries):
            return f"rows[{i}] has {len(columns)} entries, but data[{i}] has {len(entries)}"
        if not all(0 <= j < X.shape[1] for j in columns):
            return f"rows[{i}] must hold columns in [0, {X.shape[1]})"
    return None


def _keys(X: Any) -> str | None:
    for i, j in X.keys():  # noqa: SIM118 (a matrix is no dictionary: iterating gives its rows)
        if not (0 <= i < X.shape[0] and 0 <= j < X.shape[1]):
            return f"the entry ({i}, {j}) is outside the shape {X.shape}"
    return None


def _not_a(part: Any, name: str, ndim: int) -> str | None:
    if not isinstance(part, np.ndarray) or part.ndim != ndim:
        return f"{name} must be an array of dimension {ndim}"
    return None


def _not_whole(part: Any, name: str) -> str | None:
    if _not_a(part, name, 1) or part.dtype.kind not in "iu":
        return f"{name} must be a vector of integers"
    return None


def _outside(indices: Array, name: str, size: int) -> str | None:
    if not indices.size or (indices.min() >= 0 and indices.max() < size):
        return None
    k = int(np.argmax((indices < 0) | (indices >= size)))
    return f"{name}[{k}] is {indices[k]}, it must be in [0, {size})"


CHECKS: dict[str, Callable[[Any], str | None]] = {
    "csr": _compressed,
    "csc": _compressed,
    "bsr": _blocks,
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
    "dok": _keys,
}
