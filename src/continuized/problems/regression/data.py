"""Checks of the data of a regression as users give it, which is copied only where it must be.

The parts of a sparse matrix are checked before SciPy converts it, in every format: SciPy does that
in compiled code that trusts each index, and a wrong one reads or writes anywhere in memory.  The
user's own matrix is never changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from continuized.problems.base import Array, float_type
from continuized.support import validation as check

INT32_MAX = int(np.iinfo(np.int32).max)


def check_data(X: Any, y: Any) -> tuple[Any, Array]:
    """Return X as a C-ordered or a canonical CSR array, float32 or float64, and y as float64."""
    labels = check.array(y, "y", dtype=np.float64, finite=True)
    X = _convert_sparse(X) if is_sparse(X) else _convert_dense(X)
    if X.ndim != 2:
        raise ValueError(f"X must be a matrix with a row for each entry of y, got shape {X.shape}")
    n = X.shape[0]
    if n == 0:
        raise ValueError("X has no rows: a mean over no rows is not defined")
    if labels.ndim == 2 and 1 in labels.shape and labels.size == n:
        raise ValueError(f"y must be a vector, got shape {labels.shape}: give y.ravel()")
    if labels.shape != (n,):
        raise ValueError(
            f"X must be a matrix with a row for each entry of y, got shapes {X.shape} and "
            f"{labels.shape}"
        )
    _refuse_not_finite(X)
    return X, labels


def check_labels(y: Array) -> None:
    """Raise ValueError unless y has only -1 and +1, and say which others there are."""
    wrong = y[np.abs(y) != 1.0]
    if wrong.size:
        others = np.unique(wrong)
        shown = ", ".join(repr(float(other)) for other in others[:5])
        raise ValueError(
            f"y must hold only the labels -1 and +1, but {wrong.size} of its {y.size} entries "
            f"differ: {shown}{', ...' if others.size > 5 else ''}"
            + ("; give 2 * y - 1 instead" if set(np.unique(y)) <= {0.0, 1.0} else "")
        )


def check_weights(weights: Any, n: int, name: str = "weights") -> Array:
    """Return a weight >= 0 for each of n rows, not all 0, or say in a sentence what is wrong."""
    values = check.array(weights, name, dtype=np.float64, minimum=0.0)
    check.shape(values, name, (n,), each="row")
    with np.errstate(over="ignore"):
        total = float(values.sum())
    if total == 0.0:
        each = name.removesuffix("s")
        raise ValueError(f"every {each} is zero: a mean over no rows is not defined")
    if total == np.inf:
        raise ValueError("the sum of the weights overflows: divide them by a common factor")
    return values


def check_class_labels(y: Array, classes: Any) -> tuple[Array, int]:
    """Return labels 0, ..., classes - 1 as integers, and how many classes there are."""
    if classes is None:
        classes = int(max(y.max(), 0.0)) + 1 if y.max() < INT32_MAX else 0
    else:
        classes = check.whole(classes, "classes", minimum=1, maximum=INT32_MAX, other="None")
    wrong = y[(y != np.floor(y)) | (y < 0.0) | (y >= classes)]
    if wrong.size:
        raise ValueError(
            f"y must hold labels 0, 1, ..., classes - 1 (classes = {classes}), but {wrong.size} of "
            f"its {y.size} entries differ, the first is {wrong[0]}"
        )
    return y.astype(np.intp), classes


def is_sparse(X: Any) -> bool:
    """Tell whether X is a sparse matrix of SciPy, which need not be loaded to know an array."""
    if isinstance(X, np.ndarray):
        return False
    from scipy import sparse

    return bool(sparse.issparse(X))


def _convert_dense(X: Any) -> Array:
    given = check.array(X, "X")
    dtype, flags = float_type(given.dtype), given.flags
    if given.dtype == dtype and flags.c_contiguous and flags.aligned:
        return given  # not copied
    return np.require(given, dtype, ("C_CONTIGUOUS", "ALIGNED"))


def _convert_sparse(X: Any) -> Any:
    from scipy import sparse

    if X.ndim != 2:
        return X
    if X.dtype.kind not in check.NUMBERS:
        raise TypeError(f"X must be an array of real numbers, got dtype {X.dtype}")
    check_format(X)  # before it is converted: compiled code would follow a wrong index anywhere
    # Of a CSR matrix, it shares the arrays; where it is an array already, without SciPy's checks.
    is_right = type(X) is sparse.csr_array and X.dtype in (np.float64, np.float32)
    if is_right and X.indices.dtype == X.indptr.dtype:
        csr = sparse.csr_array.__new__(sparse.csr_array)
        # Not what was found of the entries before: they may have changed since.
        known = ("_has_canonical_format", "_has_sorted_indices")
        vars(csr).update({name: own for name, own in vars(X).items() if name not in known})
    else:
        csr = sparse.csr_array(X, dtype=float_type(X.dtype))
    if not len(csr.indices) == len(csr.data) == csr.indptr[-1]:
        csr.prune()  # drops what stands after the last entry
    if not csr.has_canonical_format:
        csr = csr.copy()  # the user's own matrix stays as it is
        csr.sum_duplicates()  # sorts too
    if csr.indices.dtype != np.int32 and max(*csr.shape, csr.nnz) <= INT32_MAX:
        indices, indptr = csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
        csr = sparse.csr_array((csr.data, indices, indptr), shape=csr.shape)
    return csr


def _refuse_not_finite(X: Any) -> None:
    entries = X if isinstance(X, np.ndarray) else X.data
    wrong = find_not_finite(entries)
    if not wrong.size:
        return
    first = int(wrong[0])
    if isinstance(X, np.ndarray):
        i, j = (int(k) for k in np.unravel_index(first, X.shape))
    else:
        i, j = int(np.searchsorted(X.indptr, first, side="right")) - 1, int(X.indices[first])
    raise ValueError(
        f"X must be finite, but X[{i}, {j}] is {entries.flat[first]} "
        f"({wrong.size} such {'entry' if wrong.size == 1 else 'entries'} in all)"
    )


@np.errstate(over="ignore", invalid="ignore")
def find_not_finite(entries: Array) -> Array:
    """Find the entries that are NaN or infinite; return their places in a flat array."""
    # The sum shows them in one pass, without an array as large as X; it may overflow itself.
    if math.isfinite(entries.sum(dtype=np.float64)):
        return np.zeros(0, np.intp)
    return np.flatnonzero(~np.isfinite(entries))


def check_format(X: Any) -> None:
    """Raise ValueError unless the parts of a two-dimensional sparse matrix X fit together."""
    if X.format in CHECKS:
        CHECKS[X.format](X)


def check_lines(data: Array, indices: Array, indptr: Array, lines: int, across: int) -> None:
    """Check lines of entries, from indptr[i] to indptr[i + 1], with indices below `across`."""
    _check_integers(indptr, "indptr")
    _check_integers(indices, "indices")
    held = min(len(indices), len(data))
    if len(indptr) != lines + 1:
        raise _fault(f"indptr has {len(indptr)} entries, it must have {lines + 1}")
    if indptr[0] != 0 or indptr[-1] > held:
        raise _fault(f"indptr must run from 0 to at most {held}, not {indptr[0]} to {indptr[-1]}")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        raise _fault(f"indptr[{falls.argmax() + 1}] is less than the entry before it")
    _check_inside(indices[: indptr[-1]], "indices", across)


def _check_compressed(X: Any) -> None:
    """Check CSR, CSC or BSR, whose entries are blocks."""
    _check_array(X.data, "data", 3 if X.format == "bsr" else 1)
    sides = X.data.shape[1:] or (1, 1)
    if 0 in sides or X.shape[0] % sides[0] or X.shape[1] % sides[1]:
        raise _fault(f"blocks of {sides} do not fill the shape {X.shape}")
    lines, across = X.shape[0] // sides[0], X.shape[1] // sides[1]
    if X.format == "csc":
        lines, across = across, lines
    check_lines(X.data, X.indices, X.indptr, lines, across)


def _check_coordinates(X: Any) -> None:
    _check_array(X.data, "data", 1)
    for name, indices, size in (("row", X.row, X.shape[0]), ("col", X.col, X.shape[1])):
        _check_integers(indices, name)
        if len(indices) != len(X.data):
            raise _fault(f"{name} has {len(indices)} entries, but data has {len(X.data)}")
        _check_inside(indices, name, size)


def _check_diagonals(X: Any) -> None:
    _check_integers(X.offsets, "offsets")
    _check_array(X.data, "data", 2)
    if len(X.offsets) != len(X.data):
        raise _fault(f"there are {len(X.offsets)} offsets, but data has {len(X.data)} rows")
    if len(np.unique(X.offsets)) != len(X.offsets):
        raise _fault("offsets has an entry twice")


def _check_lists(X: Any) -> None:
    """Check LIL: a list of columns and a list of entries for each row."""
    _check_array(X.rows, "rows", 1)
    _check_array(X.data, "data", 1)
    if not len(X.rows) == len(X.data) == X.shape[0]:
        raise _fault(f"there must be {X.shape[0]} lists in rows and in data")
    for i, (columns, entries) in enumerate(zip(X.rows, X.data, strict=True)):
        if not (isinstance(columns, list) and isinstance(entries, list)):
            raise _fault(f"rows[{i}] and data[{i}] must be lists")
        if len(columns) != len(entries):
            raise _fault(f"rows[{i}] has {len(columns)} entries, but data[{i}] has {len(entries)}")
        if not all(0 <= j < X.shape[1] for j in columns):
            raise _fault(f"rows[{i}] must hold columns in [0, {X.shape[1]})")


def _check_keys(X: Any) -> None:
    for i, j in X.keys():  # noqa: SIM118 (a matrix is no dictionary: iterating gives its rows)
        if not (0 <= i < X.shape[0] and 0 <= j < X.shape[1]):
            raise _fault(f"the entry ({i}, {j}) is outside the shape {X.shape}")


def _check_array(part: Any, name: str, ndim: int) -> None:
    if not isinstance(part, np.ndarray) or part.ndim != ndim:
        raise _fault(f"{name} must be an array of dimension {ndim}")


def _check_integers(part: Any, name: str) -> None:
    if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind not in "iu":
        raise _fault(f"{name} must be a vector of integers")


def _check_inside(indices: Array, name: str, size: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        k = int(np.argmax((indices < 0) | (indices >= size)))
        raise _fault(f"{name}[{k}] is {indices[k]}, it must be in [0, {size})")


def _fault(what: str) -> ValueError:
    return ValueError(f"X is not a valid sparse matrix: {what}")


CHECKS: dict[str, Callable[[Any], None]] = {
    "csr": _check_compressed,
    "csc": _check_compressed,
    "bsr": _check_compressed,
    "coo": _check_coordinates,
    "dia": _check_diagonals,
    "lil": _check_lists,
    "dok": _check_keys,
}
