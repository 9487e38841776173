"""Regressions for the tests of metrics, and a matrix that is positive definite."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import continuized as cz

RNG = np.random.default_rng


def definite(d: int) -> np.ndarray:
    A = RNG(0).standard_normal((d, d))
    return A @ A.T + 0.1 * np.eye(d)


def regression(
    kind: str, form: str = "dense", l2: float = 1e-2, n: int = 120, d: int = 8, seed: int = 0
) -> Any:
    rng = RNG(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7) * np.geomspace(3.0, 0.1, d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    given = X if form == "dense" else sparse.csr_array(X)
    if form == "unsorted":
        for i in range(n):
            row = slice(given.indptr[i], given.indptr[i + 1])
            given.indices[row], given.data[row] = given.indices[row][::-1], given.data[row][::-1]
        given.has_sorted_indices = False
    if kind == "squared":
        return cz.problems.LeastSquares(given, y, l2=l2)
    return cz.problems.LogisticRegression(given, np.where(y > 0.0, 1.0, -1.0), l2=l2)
