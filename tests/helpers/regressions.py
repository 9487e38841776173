"""Least squares and logistic regression, dense and sparse, and data for them."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import continuized as cz

KINDS = (cz.problems.LeastSquares, cz.problems.LogisticRegression)
FORMS = {"dense": np.array, "sparse": sparse.csr_array}


def data(n: int, d: int, seed: int = 0, density: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)
