"""Products for metrics, compiled.  Imports Numba: load it only where it is used.

Not by BLAS: its threads go on spinning after a call, on the cores that the next pass over the
data wants (`problems.threads`).
"""

from __future__ import annotations

import numpy as np

from continuized.jit import jit


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
def add_sparse_gram(values, indptr, indices, weights, rows, out):
    """out += sum over the rows i of weights_i x_i x_i^T, in the upper triangle.  Sorted indices."""
    for k in range(rows.size):
        begin, end = np.uintp(indptr[rows[k]]), np.uintp(indptr[rows[k] + 1])
        for p in range(begin, end):
            scaled, line = weights[k] * values[p], out[np.uintp(indices[p])]
            for q in range(p, end):
                line[np.uintp(indices[q])] += scaled * values[q]
