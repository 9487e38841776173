"""Quadratics with a diagonal Hessian, the paper's two functions among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import NOT_FINITE, Array, Compiled, Problem, flat, pack
from continuized.support import validation as check
from continuized.support.alignment import aligned_zeros, padded_size


def weighted_square(half: Any, distance: Any) -> Any:
    """One coordinate of a quadratic, lambda (x - x*)^2 / 2, given lambda / 2."""
    return half * distance * distance


def linear_slope(eigenvalue: Any, distance: Any) -> Any:
    """The derivative of one coordinate of a quadratic, lambda (x - x*)."""
    return eigenvalue * distance


FORMULAS = (weighted_square, linear_slope)
BATCH_NUMBERS = 2**15  # of points computed at once: what is made on the way stays in the cache


class Quadratic(Problem):
    """f(x) = 1/2 sum_i lambda_i (x_i - x*_i)^2, with eigenvalues lambda_i >= 0.

    L is the largest eigenvalue, mu the smallest, unless a smaller mu is given (0 asks for
    the convex parameters).  eigenvalues, x_star: vectors of one length; x_star is 0 by default.
    Raises ValueError where they, or mu, are none of these.

    >>> p = Quadratic([1.0, 4.0], [1.0, 1.0])
    >>> p.fun(np.zeros(2)), p.grad(np.zeros(2)).tolist(), p.L, p.mu
    (2.5, [-1.0, -4.0], 4.0, 1.0)
    """

    is_defined_everywhere = True

    x_star: Array
    L: float
    mu: float

    def __init__(
        self, eigenvalues: ArrayLike, x_star: ArrayLike | None = None, *, mu: float | None = None
    ) -> None:
        lam = check.array(eigenvalues, "eigenvalues", dtype=np.float64, ndim=1, minimum=0.0)
        star = np.zeros_like(lam)
        if x_star is not None:
            star = check.array(x_star, "x_star", dtype=np.float64, finite=True)
            check.shape(star, "x_star", lam.shape, like="eigenvalues")
        smallest = float(lam.min(initial=np.inf)) if lam.size else 0.0
        if mu is not None:
            advice = f"the smallest eigenvalue is {smallest}"
            mu = check.real(mu, "mu", minimum=0.0, maximum=smallest, advice=advice)
        self.eigenvalues = lam
        self.x_star = star
        self.f_star = 0.0
        self.L = float(lam.max(initial=0.0))
        self.mu = smallest if mu is None else mu

    @property
    def dim(self) -> int:
        """The number of variables."""
        return int(self.eigenvalues.size)

    def fun(self, x: Array) -> float:
        """f(x); ValueError where x is not of this dimension."""
        return float(self.values(flat(x, self.dim)[np.newaxis])[0])

    def grad(self, x: Array) -> Array:
        """The gradient of f at x, in the shape of x."""
        x = np.asarray(x)
        distance = flat(x, self.dim) - self.x_star
        with np.errstate(**NOT_FINITE):
            g: Array = linear_slope(self.eigenvalues, distance).reshape(x.shape)
        return g.astype(x.dtype if x.dtype.kind == "f" else np.float64, copy=False)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """Return f(x) and its gradient."""
        return self.fun(x), self.grad(x)

    def values(self, points: Array) -> Array:
        """f at each of points[0], points[1], ..."""
        points = np.asarray(points).reshape(len(points), self.dim)
        batch, halves = max(1, BATCH_NUMBERS // max(1, self.dim)), 0.5 * self.eigenvalues
        with np.errstate(**NOT_FINITE):
            totals = [
                weighted_square(halves, points[i : i + batch] - self.x_star).sum(axis=-1)
                for i in range(0, max(1, len(points)), batch)
            ]
        return totals[0] if len(totals) == 1 else np.concatenate(totals)

    def grads(self, points: Array) -> Array:
        """The gradient at each of points[0], points[1], ..."""
        points = np.asarray(points)
        rows = points.reshape(len(points), self.dim) - self.x_star
        with np.errstate(**NOT_FINITE):
            slopes: Array = linear_slope(self.eigenvalues, rows)
        return slopes.reshape(points.shape)

    def proves(self, L: float, mu: float) -> bool:
        """Tell whether all eigenvalues lie between mu and L."""
        return bool(self.L <= L and np.all(self.eigenvalues >= mu))

    def compile(self, dtype: Any = np.float64) -> Compiled | None:
        """Return the problem for compiled loops, made anew: the arrays may have changed."""
        from continuized.problems.kernels import compile_problem

        matrix = aligned_zeros((3, padded_size(self.dim, dtype)), dtype)
        matrix[:, : self.dim] = self.eigenvalues, self.x_star, 0.5 * self.eigenvalues
        return compile_problem("quadratic", pack(matrix, dtype=dtype))


def paper_convex() -> Quadratic:
    """Figure 1, left: f(x) = 1/2 sum_{i=1}^{100} (x_i - 1/i)^2 / i^2, L = 1.

    Its strong convexity, 1e-4, is negligible; mu = 0 asks for the convex parameters.

    >>> p = paper_convex()
    >>> p.dim, p.L, p.mu
    (100, 1.0, 0.0)
    """
    i = np.arange(1.0, 101.0)
    return Quadratic(1.0 / i**2, 1.0 / i, mu=0.0)


def paper_strongly_convex() -> Quadratic:
    """Figure 1, right: mu/2 (x_1-1)^2 + 3mu/2 (x_2-1)^2 + L/2 (x_3-1)^2, mu = 0.01, L = 1.

    >>> p = paper_strongly_convex()
    >>> p.dim, p.L, p.mu
    (3, 1.0, 0.01)
    """
    mu, L = 1e-2, 1.0
    return Quadratic([mu, 3.0 * mu, L], [1.0, 1.0, 1.0])
