"""Data for the estimators of scikit-learn, and what it is for two of them to agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def regression(n: int = 80, d: int = 6, targets: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7) + 0.5
    shape = (n, targets) if targets else n
    return X, 30.0 + 10.0 * rng.standard_normal(shape) + (X[:, :1] if targets else X[:, 0])


def classification(classes: int, n: int = 150, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(
        n, d, n_informative=d - 1, n_redundant=0, n_classes=classes, flip_y=0.1, random_state=1
    )
    return X + 0.5, y


def weights_of(n: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.where(rng.random(n) < 0.2, 0.0, rng.exponential(2.0, n))


def given(X: np.ndarray, form: str) -> Any:
    if form == "dense":
        return X
    csr = sparse.csr_array(X)
    index = np.int64 if form == "int64" else np.int32
    return sparse.csr_array((csr.data, csr.indices.astype(index), csr.indptr.astype(index)))


def agree(ours: Any, theirs: Any, **tolerance: float) -> None:
    assert np.shape(ours.coef_) == np.shape(theirs.coef_)
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, **(tolerance or CLOSE))
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, **(tolerance or CLOSE))


def logistic(ours: Any) -> Any:
    """Scikit-learn's own with the same parameters, solved to the last digits."""
    own = {"C": ours.C, "fit_intercept": ours.fit_intercept, "class_weight": ours.class_weight}
    return LogisticRegression(**own, solver="newton-cholesky", tol=1e-13, max_iter=1000)
