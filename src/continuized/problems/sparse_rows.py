"""Products with sparse rows, and the order of rows and entries in which they are quick.

A loop over a short row costs more at its end, where the processor guesses wrongly whether it goes
on, than in its entries.  So short rows are kept eight side by side: rows near each other are sorted
by their lengths, and of each eight the first entries stand together, then the second ones, as far
as the shortest of them goes; what is left of the others follows, row by row.  One loop then serves
eight rows, whose sums do not wait for each other.

`arrange` makes a copy of X in this order, where its rows are short; long rows stay where they are.
Sparse rows are a tuple (entries, indptr, indices, side by side): indptr is that of the rows in
their order, whatever the order of entries within each eight.

Importing this module imports Numba: load it only where it is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.support.jit import HAS_NUMBA, fetch, jit_uncounted, scratch, uncounted

ABREAST = 8  # rows side by side
SHORT_ROW = 32  # entries a row on average, below which they are,
FEW_ENTRIES = 2**15  # unless X has fewer entries: to compile what makes the copy would take longer
NEAR = 4096  # rows that are sorted among each other: they stay near in memory
AHEAD = 512  # entries that are asked for before they are used,
LINE = 16  # of which a line of the cache holds so many indices, and half as many values


def arrange(X: Any) -> tuple[Array | None, tuple[Any, ...]]:
    """Return the order in which the rows of a CSR array are taken, None for their own, and the
    tuple of them."""
    n = X.shape[0]
    if not HAS_NUMBA or not FEW_ENTRIES <= X.size < SHORT_ROW * n or n < ABREAST:
        return None, (X.data, X.indptr, X.indices, False)
    order = np.lexsort((np.diff(X.indptr), np.arange(n) // NEAR))
    parts = np.empty_like(X.data), np.empty_like(X.indptr), np.empty_like(X.indices)
    PLACE(X.data, X.indptr, X.indices, order, *parts)
    return order, (*parts, True)


def place(values, indptr, indices, order, to_values, to_indptr, to_indices):
    """Write the rows in this order, eight side by side; those that are fewer than eight, at the
    end, one after the other."""
    n, q = order.size, 0
    to_indptr[0] = 0
    for i in range(n):
        to_indptr[i + 1] = to_indptr[i] + indptr[order[i] + 1] - indptr[order[i]]
    for start in range(0, n, ABREAST):
        stop = min(start + ABREAST, n)
        shared = indptr[order[start] + 1] - indptr[order[start]] if stop - start == ABREAST else 0
        for k in range(shared):
            for i in range(start, stop):
                p = indptr[order[i]] + k
                to_values[q], to_indices[q] = values[p], indices[p]
                q += 1
        for i in range(start, stop):
            for p in range(indptr[order[i]] + shared, indptr[order[i] + 1]):
                to_values[q], to_indices[q] = values[p], indices[p]
                q += 1


PLACE = jit_uncounted(place)


@uncounted
def count_side_by_side(X, start, stop):
    """How many of the rows start, ..., stop - 1 are side by side: the first ones."""
    return (stop - start) // ABREAST * ABREAST if X[3] else 0


# Unsigned, an index is not tested for counting from the end: up to twice as quick.


@uncounted
def predict_sparse(X, w, start, stop, out):
    """Write <x_i, w> for rows start, ..., stop - 1."""
    values, indptr, indices, _ = X
    alone = start + count_side_by_side(X, start, stop)
    sums = scratch(ABREAST, np.float64)
    for first in range(start, alone, ABREAST):
        for i in range(ABREAST):
            sums[i] = 0.0
        p = np.uintp(indptr[first])
        shared = np.uintp(indptr[first + 1]) - p
        end = p + np.uintp(ABREAST) * shared
        while p < end:
            fetch(values, p + np.uintp(AHEAD))
            fetch(indices, p + np.uintp(AHEAD))
            for i in range(np.uintp(ABREAST)):
                sums[i] += values[p + i] * w[np.uintp(indices[p + i])]
            p += np.uintp(ABREAST)
        if end < np.uintp(indptr[first + ABREAST]):
            for i in range(1, ABREAST):
                end += np.uintp(indptr[first + i + 1]) - np.uintp(indptr[first + i]) - shared
                while p < end:
                    sums[i] += values[p] * w[np.uintp(indices[p])]
                    p += np.uintp(1)
        for i in range(ABREAST):
            out[first - start + i] = sums[i]
    # Before each row equally many lines are asked for: the processor guesses the end of that loop.
    mean = np.uintp((indptr[stop] - indptr[alone]) // max(stop - alone, 1))
    for row in range(alone, stop):
        total, ahead = w.dtype.type(0.0), np.uintp(indptr[row]) + np.uintp(AHEAD)
        for q in range(ahead, ahead + mean, np.uintp(LINE)):
            fetch(values, q)
            fetch(values, q + np.uintp(LINE // 2))
            fetch(indices, q)
        for q in range(np.uintp(indptr[row]), np.uintp(indptr[row + 1])):
            total += values[q] * w[np.uintp(indices[q])]
        out[row - start] = total


@uncounted
def add_sparse(X, slopes, start, out):
    """Add slopes_k x_i, i = start + k, to out."""
    values, indptr, indices, _ = X
    real, stop = out.dtype.type, start + slopes.size
    alone = start + count_side_by_side(X, start, stop)
    factors = scratch(ABREAST, np.float64)  # for all that LLVM knows, slopes might overlap with out
    for first in range(start, alone, ABREAST):
        for i in range(ABREAST):
            factors[i] = slopes[first - start + i]
        p = np.uintp(indptr[first])
        shared = np.uintp(indptr[first + 1]) - p
        end = p + np.uintp(ABREAST) * shared
        while p < end:
            for i in range(np.uintp(ABREAST)):
                out[np.uintp(indices[p + i])] += real(factors[i]) * values[p + i]
            p += np.uintp(ABREAST)
        if end < np.uintp(indptr[first + ABREAST]):
            for i in range(1, ABREAST):
                end += np.uintp(indptr[first + i + 1]) - np.uintp(indptr[first + i]) - shared
                while p < end:
                    out[np.uintp(indices[p])] += real(factors[i]) * values[p]
                    p += np.uintp(1)
    for row in range(alone, stop):
        c = real(slopes[row - start])
        for q in range(np.uintp(indptr[row]), np.uintp(indptr[row + 1])):
            out[np.uintp(indices[q])] += c * values[q]
