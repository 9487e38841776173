"""Products for metrics, compiled.  Imports Numba: load it only where it is used.

Not by BLAS: its threads go on spinning after a call, on the cores that the next pass over the
data wants (`support.threads`).
"""

from __future__ import annotations

import numpy as np

from continuized.support.jit import jit


@jit
def symmetric_product(matrix, v, out):
    """out = matrix v, for a vector or for each column of v."""
    for i in range(matrix.shape[0]):
        for c in range(v.shape[1]):
            total = 0.0
            for j in range(matrix.shape[0]):
                total += matrix[i, j] * v[j, c]
            out[i, c] = total


@jit
def add_sparse_gram(values, indptr, indices, first, last, out):
    """out += sum of x_i x_i^T over rows first, ..., last - 1, in the upper triangle.

    The indices of a row are sorted.
    """
    for i in range(first, last):
        begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
        for p in range(begin, end):
            value, line = values[p], out[np.uintp(indices[p])]
            for q in range(p, end):
                line[np.uintp(indices[q])] += value * values[q]
