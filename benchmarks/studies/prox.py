"""Proximal steps beside FISTA: gradients to a relative suboptimality of 1e-6 on the lasso.

    python -m benchmarks.studies.prox

FISTA is told L (the largest eigenvalue of X^T X / n); ours is told nothing.  Problems: Gaussian
rows with feature scales j^-power, a tenth of the coefficients not zero, weight of the l1 norm a
hundredth of the least one at which all coefficients are zero.  Medians over five seeds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import continuized as cz

PRECISION = 1e-6


def lasso(power: float, n: int, d: int, seed: int) -> tuple[cz.problems.LeastSquares, cz.prox.L1]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -power
    w = np.where(rng.random(d) < 0.1, rng.standard_normal(d), 0.0)
    y = X @ w + 0.1 * rng.standard_normal(n)
    p = cz.problems.LeastSquares(X, y)
    return p, cz.prox.L1(0.01 * float(np.abs(X.T @ y).max()) / n)


def fista(p: cz.problems.LeastSquares, h: cz.prox.L1, steps: int) -> np.ndarray:
    """The objective after every gradient."""
    x = y = np.zeros(p.dim)
    t, values = 1.0, []
    for _ in range(steps):
        new = h(y - p.grad(y) / p.L, 1.0 / p.L)
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        x, y, t = new, new + (t - 1.0) / following * (new - x), following
        values.append(p.fun(x) + h.value(x))
    return np.array(values)


def ours(p: cz.problems.LeastSquares, h: cz.prox.L1, steps: int, seed: int) -> np.ndarray:
    """The same; the objective is measured anew, for the trace holds estimates."""
    values = []

    def look(intermediate_result: Any) -> None:
        x = intermediate_result.x
        values.append(p.fun(x) + h.value(x))

    cz.minimize(p, np.zeros(p.dim), prox=h, tol=0.0, maxiter=steps, rng=seed, callback=look)
    return np.array(values)


def gradients_to(values: np.ndarray, best: float) -> int:
    reached = np.flatnonzero(values - best <= PRECISION * best)
    return int(reached[0]) + 1 if reached.size else 10**9


def main() -> None:
    for power in (0.0, 0.5, 1.0):
        for n, d in ((500, 100), (500, 300), (200, 400)):
            counts = []
            for seed in range(5):
                p, h = lasso(power, n, d, seed)
                theirs, mine = fista(p, h, 6000), ours(p, h, 6000, seed)
                best = min(theirs.min(), mine.min())
                counts.append((gradients_to(mine, best), gradients_to(theirs, best)))
            a, b = np.median(counts, axis=0)
            print(
                f"scales j^-{power}, {n} x {d}: ours {a:.0f}, FISTA {b:.0f}: {a / b:.2f} x",
                flush=True,
            )


if __name__ == "__main__":
    main()
