"""Convex functions for the tests of `cz.scipy_method`, and a call of it through SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

import continuized as cz

# SciPy's own convex test problem, a model of maximum entropy; the others are textbook ones.
FEATURES = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1], [1, 0, 0], [1, 0, 0]], dtype=float)
EXPECTED = np.array([1.0, 0.3, 0.5])
HALVES = 0.5 * np.arange(1, 6)
BOOTH = np.array([[1.0, 2.0], [2.0, 1.0]])


def entropy(x: Any) -> Any:
    return np.log(np.exp(FEATURES @ x).sum()) - EXPECTED @ x


def entropy_grad(x: Any) -> Any:
    p = np.exp(FEATURES @ x)
    return FEATURES.T @ (p / p.sum()) - EXPECTED


def zakharov(x: Any) -> Any:
    s = HALVES @ x
    return x @ x + s**2 + s**4


def zakharov_grad(x: Any) -> Any:
    s = HALVES @ x
    return 2.0 * x + (2.0 * s + 4.0 * s**3) * HALVES


def booth(x: Any) -> Any:
    r = BOOTH @ x - [7.0, 5.0]
    return r @ r


def booth_grad(x: Any) -> Any:
    return 2.0 * BOOTH.T @ (BOOTH @ x - [7.0, 5.0])


def matyas(x: Any) -> Any:
    return 0.26 * (x @ x) - 0.48 * x[0] * x[1]


def matyas_grad(x: Any) -> Any:
    return 0.52 * x - 0.48 * x[::-1]


def log_cosh(x: Any) -> Any:
    return np.sum(np.log(np.cosh(x - HALVES)))


def log_cosh_grad(x: Any) -> Any:
    return np.tanh(x - HALVES)


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[float]]] = {
    "maximum entropy": (entropy, entropy_grad, [0.0, 0.0, 0.0]),
    "Zakharov": (zakharov, zakharov_grad, [1.0] * 5),
    "Booth": (booth, booth_grad, [0.0, 0.0]),
    "Matyas": (matyas, matyas_grad, [5.0, -3.0]),
    "log cosh": (log_cosh, log_cosh_grad, [0.0] * 5),
}


def run(fun: Any, x0: Any, *, options: dict[str, Any] | None = None, **rest: Any) -> Any:
    chosen = {"rng": 0, **(options or {})}
    return optimize.minimize(fun, x0, method=cz.scipy_method, options=chosen, **rest)
