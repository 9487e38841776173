"""The functions that the checks run on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.problems import Problem, Quadratic, paper_convex, paper_strongly_convex


class LogCosh(Problem):
    """sum_i log cosh(x_i - x*_i): convex, 1-smooth, not strongly convex, and no quadratic."""

    def __init__(self, x_star: Any) -> None:
        from numba import njit

        star = np.array(x_star, dtype=np.float64)

        @njit
        def fun(x):  # type: ignore[no-untyped-def]
            total = 0.0
            for i in range(x.size):
                u = abs(x[i] - star[i])
                total += u + np.log1p(np.exp(-2.0 * u)) - np.log(2.0)
            return total

        @njit
        def grad(x, out):  # type: ignore[no-untyped-def]
            for i in range(x.size):
                out[i] = np.tanh(x[i] - star[i])

        super().__init__(fun, grad, L=1.0, mu=0.0, x_star=star, f_star=0.0)

    def values(self, points: Any) -> Any:
        u = np.abs(points - self.x_star)
        return (u + np.log1p(np.exp(-2.0 * u)) - np.log(2.0)).sum(axis=-1)

    def grads(self, points: Any) -> Any:
        """The gradient at each row."""
        return np.tanh(points - self.x_star)


@cache
def log_cosh() -> LogCosh:
    """Three coordinates, some far from the minimiser, where f is nearly linear."""
    return LogCosh([3.0, -1.0, 0.2])


def convex() -> Quadratic:
    """Figure 1, left."""
    return paper_convex()


def strongly_convex() -> Quadratic:
    """Figure 1, right."""
    return paper_strongly_convex()


def round_quadratic(mu: float) -> Quadratic:
    """Fifty eigenvalues in [0.2, 1]: so many that noise makes f nearly normal."""
    return Quadratic(np.linspace(0.2, 1.0, 50), np.ones(50), mu=mu)


def small_convex() -> Quadratic:
    """A few eigenvalues between 0 and 1, run with the convex parameters."""
    return Quadratic([1.0, 0.3, 0.05, 0.0], [1.0, -2.0, 3.0, 0.0], mu=0.0)
