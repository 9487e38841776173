"""Gradient descent and Nesterov acceleration, as the paper writes them (Theorems 1 and 2)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import continuized as cz

LAMBDA = np.array([0.05, 0.4, 2.0])
X_STAR = np.array([1.0, -1.0, 0.5])
L, MU, STEPS = 2.0, 0.05, 60

P = cz.problems.Quadratic(LAMBDA, X_STAR)


def grad(x: np.ndarray) -> np.ndarray:
    return LAMBDA * (x - X_STAR)


def convex_sequences() -> Iterator[tuple[float, float, float]]:
    """tau_k, tau'_k, gamma'_k of Theorem 2, first part."""
    A = 0.0
    while True:
        following = A + 0.5 * (1.0 + math.sqrt(4.0 * A + 1.0))
        yield 1.0 - A / following, 0.0, (following - A) / L
        A = following


def strongly_convex_sequences() -> Iterator[tuple[float, float, float]]:
    """The same of its second part."""
    root = math.sqrt(MU / L)
    while True:
        yield root / (1.0 + root), root, 1.0 / math.sqrt(MU * L)


@pytest.mark.parametrize(
    ("method", "sequences"),
    [(cz.Nesterov(L), convex_sequences), (cz.Nesterov(L, MU), strongly_convex_sequences)],
)
def test_nesterov(method: Any, sequences: Any) -> None:
    r = cz.minimize(P, np.zeros(3), method=method, maxiter=STEPS, record="path")
    x = z = np.zeros(3)
    for k, (tau, tau_prime, gamma_prime) in zip(range(1, STEPS + 1), sequences(), strict=False):
        y = x + tau * (z - x)
        x, z = y - grad(y) / L, z + tau_prime * (y - z) - gamma_prime * grad(y)
        np.testing.assert_allclose(r.path.x[k], x, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(r.path.z[k], z, rtol=1e-11, atol=1e-12)


def test_gradient_descent() -> None:
    r = cz.minimize(P, np.zeros(3), method="gradient-descent", maxiter=STEPS, record="path")
    wanted = X_STAR * (1.0 - (1.0 - LAMBDA / L) ** np.arange(STEPS + 1)[:, np.newaxis])
    np.testing.assert_allclose(r.path.x, wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(r.path.z, r.path.x)


@pytest.mark.parametrize("k", [1, 5, 20, STEPS])
def test_the_theorems_hold(k: int) -> None:
    R2 = float(X_STAR @ X_STAR)
    f0 = P.fun(np.zeros(3))
    for method, bound in (
        (cz.GradientDescent(L), min(2 * L * R2 / (k + 4), L / 2 * (1 - MU / L) ** k * R2)),
        (cz.Nesterov(L), 2 * L * R2 / k**2),
        (cz.Nesterov(L, MU), (f0 + MU / 2 * R2) * (1 - math.sqrt(MU / L)) ** k),
    ):
        assert cz.minimize(P, np.zeros(3), method=method, maxiter=k).fun <= bound
