"""Entries of the inverse of a sparse matrix, where its factor has entries (Takahashi 1973).

From A = L D L^T follows Z = A^{-1} = D^{-1} L^{-1} + (1 - L^T) Z, whose rows, taken from the last to
the first and only where L^T has entries, need nothing but entries already found there.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.problems.base import Array


def of(factor: Any, edges: Array) -> tuple[Array, Array]:
    """The diagonal of the inverse, and its entries at `edges` (0 where an index is negative).

    factor: of a symmetric M-matrix, from scipy's splu, with rows and columns in one order.
    No entry of such a factor is zero by cancellation, so that its pattern is complete.
    """
    L = factor.L.tocsc()
    L.sort_indices()
    place = np.asarray(factor.perm_c, dtype=np.int64)
    if not np.array_equal(place, factor.perm_r):
        raise ArithmeticError("the factorisation changed the order of rows: it is not symmetric")
    Z, pivots = np.zeros(L.nnz), factor.U.diagonal()
    diagonal, between = np.zeros(L.shape[0]), np.zeros(len(edges))
    ends = np.where(edges < 0, -1, place[edges])
    _compiled()(
        L.indptr.astype(np.int64), L.indices.astype(np.int64), L.data, pivots, Z,
        diagonal, np.sort(ends, axis=1), between,
    )  # fmt: skip
    return diagonal[place], between


@cache
def _compiled() -> Any:
    from continuized.jit import jit

    return jit(_entries)


def _entries(
    indptr: Array, indices: Array, L: Array, pivots: Array, Z: Array, diagonal: Array,
    ends: Array, between: Array,
) -> None:  # fmt: skip
    """Z in the places of L, column by column from the last."""
    n = len(pivots)
    slot = np.full(n, -1)  # of row i in the column at work
    for j in range(n - 1, -1, -1):
        start, stop = indptr[j] + 1, indptr[j + 1]
        for p in range(start, stop):
            slot[indices[p]] = p
        for p in range(start, stop):
            k = indices[p]
            Z[p] -= Z[indptr[k]] * L[p]
            for q in range(indptr[k] + 1, indptr[k + 1]):
                s = slot[indices[q]]
                if s >= 0:  # Z is symmetric: its entry (i, k) serves as (k, i) too
                    Z[s] -= Z[q] * L[p]
                    Z[p] -= Z[q] * L[s]
        first = 1.0 / pivots[j]
        for p in range(start, stop):
            first -= Z[p] * L[p]
            slot[indices[p]] = -1
        Z[indptr[j]] = diagonal[j] = first
    for e in range(len(ends)):
        low, high = ends[e]
        if low >= 0:
            column = indices[indptr[low] : indptr[low + 1]]
            between[e] = Z[indptr[low] + np.searchsorted(column, high)]
