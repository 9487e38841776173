"""Regressions with weights and an intercept, data for them, and f by its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse, special

import continuized as cz

KINDS = {
    "squared": cz.problems.LeastSquares,
    "logistic": cz.problems.LogisticRegression,
    "softmax": cz.problems.SoftmaxRegression,
    "poisson": cz.problems.PoissonRegression,
    "huber": cz.problems.HuberRegression,
}
FORMS = {"dense": np.array, "sparse": sparse.csr_array}
CLASSES = 4
DELTA = 0.7  # of Huber's loss: some residuals are below it, and some above
OPTIONS: dict[str, dict[str, Any]] = {"softmax": {"classes": CLASSES}, "huber": {"delta": DELTA}}
EXTRAS = [(weighted, intercept) for weighted in (False, True) for intercept in (False, True)]


def data(kind: str, n: int = 37, d: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and weights, some of which are 0."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6) + 0.3
    y = {
        "squared": rng.standard_normal(n),
        "logistic": np.where(rng.random(n) < 0.5, -1.0, 1.0),
        "softmax": rng.integers(0, CLASSES, n).astype(float),
        "poisson": rng.poisson(2.0, n).astype(float),
        "huber": rng.standard_normal(n),
    }[kind]
    return X, y, np.where(rng.random(n) < 0.2, 0.0, rng.exponential(3.0, n))


def make(kind: str, form: str, weighted: bool, intercept: bool, l2: float = 0.2, **o: int) -> Any:
    X, y, weights = data(kind, **o)
    options = OPTIONS.get(kind, {}) | ({"weights": weights} if weighted else {})
    return KINDS[kind](FORMS[form](X), y, l2=l2, intercept=intercept, **options)


def by_definition(p: Any, kind: str, w: np.ndarray) -> float:
    """f from its definition, row by row, with the constant column written out."""
    X = p.X.toarray() if p.is_sparse else p.X
    A = np.column_stack([X, np.ones(len(X))]) if p.intercept else X
    weights = np.ones(len(X)) if p.weights is None else p.weights
    W = w.reshape(A.shape[1], -1)
    scores = A @ W
    if kind == "softmax":
        labels = p.y.astype(int)
        losses = [special.logsumexp(s) - s[k] for s, k in zip(scores, labels, strict=True)]
    elif kind == "logistic":
        losses = [np.logaddexp(0.0, -y * s) for y, s in zip(p.y, scores[:, 0], strict=True)]
    elif kind == "poisson":
        losses = [np.exp(s) - y * s for y, s in zip(p.y, scores[:, 0], strict=True)]
    elif kind == "huber":
        losses = [special.huber(DELTA, s - y) for y, s in zip(p.y, scores[:, 0], strict=True)]
    else:
        losses = [0.5 * (s - y) ** 2 for y, s in zip(p.y, scores[:, 0], strict=True)]
    penalised = W[: X.shape[1]]
    total = sum(c * v for c, v in zip(weights, losses, strict=True))
    return float(total / weights.sum() + 0.5 * p.l2 * np.sum(penalised**2))
