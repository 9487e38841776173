"""Arrays as the lazy kernels take them: pairs (s, d), with x = s + alpha d and z = s + beta d."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array

S, D = 0, 1  # the columns of pairs: side by side, for one cache line instead of two
ALPHA, BETA = 0, 1  # the entries of `scalars`
REBASED = (0.5, -0.5)  # those at the start, and after a `events.rebase`


L1, LOW, HIGH = 0, 1, 2  # the columns of `CoordinateTerms.entries`


class SparseColumns(NamedTuple):
    """The columns of A: column i is values[indptr[i]:indptr[i + 1]], in the rows `indices`; where
    it is dense there are no indices (None)."""

    indptr: Array
    indices: Any
    values: Array


class Loss(NamedTuple):
    """c times the sum of the losses of a kind at u = A diag(scale) x; the squared loss has no
    targets (None), for its images are the residuals."""

    kind: float
    c: float
    targets: Any


class CoordinateTerms(NamedTuple):
    """What an event needs of its coordinate: the steps of x and z, and the separable terms.

    psi: entries, a row (l1, low, high) for each coordinate, of cz.prox.Separable; or norms, the
    weight of the norm of each block; or entropy, its factor.  What there is not is None.
    """

    steps: Array
    weights: Array
    ridge: Array
    center: Array
    scale: Array
    entries: Any
    norms: Any
    entropy: Any


def pairs_at(x: Array) -> Array:
    """Return the pairs (s, d) for x = z = the given vector; float64 whatever x is."""
    return np.column_stack([x, np.zeros(x.size)])


def at_factor(pairs: Array, factor: float) -> Array:
    """Return s + factor d: x at alpha, z at beta.  A vector, for there is no z, is x itself."""
    return pairs.copy() if pairs.ndim == 1 else np.asarray(pairs[:, S] + factor * pairs[:, D])


def columns_of(rows: Any) -> tuple[Any, SparseColumns]:
    """Return the rows of a matrix as the columns of another, in their own memory, and which entries
    of a row are kept (`keep_occurring`).

    Indices are unsigned, for Numba tests every signed one for being negative.
    """
    n, d = rows.shape
    if isinstance(rows, np.ndarray):
        indptr = np.arange(n + 1, dtype=np.uint64) * np.uint64(d)
        return slice(None), SparseColumns(indptr, None, np.ascontiguousarray(rows).ravel())
    indices = rows.indices.astype(np.int32, copy=False).view(np.uint32)
    kept, indices = keep_occurring(indices, d)
    return kept, SparseColumns(rows.indptr.astype(np.uint64), indices, rows.data)


def keep_occurring(indices: Array, length: int) -> tuple[Any, Array]:
    """Return the entries of a vector that occur among the indices, and the indices as
    places among those; (a slice of all, the same indices) where the indices are as many as the
    entries, or there are none.

    They are in the order in which they occur, so that what a row meets alone lies side by side.

    >>> kept, places = keep_occurring(np.array([7, 2, 7, 4], np.uint32), 9)
    >>> kept.tolist(), places.tolist()
    ([7, 2, 4], [0, 1, 0, 2])
    """
    if not 0 < indices.size < length:
        return slice(None), indices
    order, place = np.arange(indices.size), np.empty(length, np.int64)
    place[indices[::-1]] = order[::-1]  # of equal indices the last one, here the first, counts
    kept = indices[place[indices] == order]
    place[kept] = np.arange(kept.size)
    return kept, place[indices].astype(indices.dtype)
