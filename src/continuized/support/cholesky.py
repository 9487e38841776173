"""Cholesky's factor of a symmetric matrix, and systems solved with it, compiled.

Not by BLAS: its threads go on spinning after a call, on the cores that the next pass over the
data wants (`support.threads`).  Both loops go along rows, as they stand in memory.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.support.jit import in_numpy, uncounted


def _factor_in_numpy(matrix: Any) -> bool:
    try:
        matrix[:] = np.tril(np.linalg.cholesky(matrix)) + np.triu(matrix, 1)
    except np.linalg.LinAlgError:
        return False
    return True


@uncounted
@in_numpy(_factor_in_numpy)
def factor_in_place(matrix: Any) -> bool:
    """Make the lower triangle Cholesky's factor, the upper one stays; return whether the matrix is
    positive definite."""
    for i in range(matrix.shape[0]):
        line = matrix[i]
        for j in range(i + 1):
            other, total = matrix[j], line[j]
            for c in range(j):
                total -= line[c] * other[c]
            if j < i:
                line[j] = total / other[j]
            elif total > 0.0:
                line[i] = math.sqrt(total)
            else:
                return False
    return True


def _solve_in_numpy(factor: Any, v: Any) -> None:
    from scipy.linalg import cho_solve

    v[:] = cho_solve((factor, True), v, check_finite=False)


@uncounted
@in_numpy(_solve_in_numpy)
def solve_in_place(factor: Any, v: Any) -> None:
    """Solve F F^T x = v in place; F is the lower triangle of `factor`."""
    for i in range(v.size):
        line, total = factor[i], v[i]
        for j in range(i):
            total -= line[j] * v[j]
        v[i] = total / line[i]
    for i in range(v.size - 1, -1, -1):
        line = factor[i]
        v[i] /= line[i]
        value = v[i]
        for j in range(i):
            v[j] -= line[j] * value
