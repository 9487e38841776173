"""Quadratics with a matrix, and f + psi on them, solved by SciPy and not by us."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import LinearConstraint, lsq_linear, minimize

import continuized as cz


class FullQuadratic(cz.Problem):
    """f(x) = x' H x / 2 - <c, x>, for x of any shape, many points at once."""

    def __init__(self, H: np.ndarray, c: np.ndarray) -> None:
        self.H, self.c = H, c
        eigenvalues = np.linalg.eigvalsh(H)
        # A little more and less than LAPACK says, for its rounding.
        self.L = float(eigenvalues[-1] * (1.0 + 1e-12))
        self.mu = float(max(eigenvalues[0] * (1.0 - 1e-9), 0.0))
        self.x_star = self.f_star = None

    def values(self, points: np.ndarray) -> np.ndarray:
        rows = np.asarray(points, np.float64).reshape(len(points), -1)
        return 0.5 * np.einsum("ij,ij->i", rows @ self.H, rows) - rows @ self.c

    def grads(self, points: np.ndarray) -> np.ndarray:
        points = np.asarray(points)
        rows = points.reshape(len(points), -1)
        return (rows @ self.H - self.c).reshape(points.shape)

    def fun(self, x: np.ndarray) -> float:
        return float(self.values(np.asarray(x)[np.newaxis])[0])

    def grad(self, x: np.ndarray) -> np.ndarray:
        return self.grads(np.asarray(x)[np.newaxis])[0].astype(np.asarray(x).dtype)

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        return self.fun(x), self.grad(x)


class Case(NamedTuple):
    """f, psi, the minimiser of f + psi by SciPy, and a start in the domain."""

    f: FullQuadratic
    prox: Any
    x_star: np.ndarray
    x0: np.ndarray

    def F(self, x: np.ndarray) -> float:
        return self.f.fun(x) + self.prox.value(x)


def quadratic(d: int, seed: int, scale: float = 1.0, kappa: float = 100.0) -> FullQuadratic:
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    H = (Q * np.geomspace(1.0 / kappa, 1.0, d)) @ Q.T
    return FullQuadratic(0.5 * (H + H.T), scale * rng.standard_normal(d))


def lasso(d: int = 8, seed: int = 0, weight: float = 0.4) -> Case:
    """Split x = u - v with u, v >= 0, which SciPy solves as a function with bounds."""
    f = quadratic(d, seed)
    root = np.linalg.cholesky(f.H).T
    A = np.hstack([root, -root])
    w = _non_negative(A.T @ A, A.T @ np.linalg.solve(root.T, f.c) - weight)
    return Case(f, cz.prox.L1(weight), w[:d] - w[d:], np.full(d, 0.3))


def _non_negative(H: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The minimiser of w' H w / 2 - <c, w> over w >= 0, by SciPy, then solved on its support."""
    found = minimize(
        lambda w: (0.5 * w @ H @ w - c @ w, H @ w - c), np.zeros(len(c)), jac=True,
        method="L-BFGS-B", bounds=[(0.0, None)] * len(c),
        options={"maxiter": 50_000, "maxfun": 10**6, "ftol": 0.0, "gtol": 1e-11},
    )  # fmt: skip
    support, w = found.x > 1e-6, np.zeros(len(c))
    w[support] = np.linalg.solve(H[np.ix_(support, support)], c[support])
    assert np.all(w >= 0.0)
    assert np.all((H @ w - c)[~support] >= -1e-9)
    return w


def box(d: int = 8, seed: int = 0) -> Case:
    f = quadratic(d, seed)
    root = np.linalg.cholesky(f.H).T
    low, high = -0.2, 0.7
    star = lsq_linear(root, np.linalg.solve(root.T, f.c), (low, high), tol=1e-15).x
    held = np.where(star < low + 1e-6, low, np.where(star > high - 1e-6, high, np.nan))
    free = np.isnan(held)
    fixed = np.where(free, 0.0, held)
    fixed[free] = np.linalg.solve(f.H[np.ix_(free, free)], (f.c - f.H @ fixed)[free])
    return Case(f, cz.prox.Box(low, high), fixed, np.zeros(d))


def simplex(d: int = 8, seed: int = 0) -> Case:
    f = quadratic(d, seed, scale=0.1)
    found = minimize(
        f.fun, np.full(d, 1.0 / d), jac=f.grad, method="SLSQP", bounds=[(0.0, None)] * d,
        constraints=LinearConstraint(np.ones((1, d)), 1.0, 1.0),
        options={"ftol": 1e-16, "maxiter": 1000},
    )  # fmt: skip
    support = found.x > 1e-6
    n = int(support.sum())
    # On the support: the gradient is one number, and the sum is 1.
    system = np.block([[f.H[np.ix_(support, support)], np.ones((n, 1))], [np.ones((1, n)), 0.0]])
    star = np.zeros(d)
    star[support] = np.linalg.solve(system, np.append(f.c[support], 1.0))[:n]
    assert np.all(star >= 0.0)
    slope = f.grad(star)
    assert slope[~support].min(initial=np.inf) >= slope[support].max() - 1e-9
    return Case(f, cz.prox.Simplex(), star, np.full(d, 1.0 / d))


CASES = {"lasso": lasso, "box": box, "simplex": simplex}
