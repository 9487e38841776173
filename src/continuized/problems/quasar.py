"""Functions that are quasar-convex and not convex, with a tau that is known.

f is (tau, mu)-quasar-convex, 0 < tau <= 1, where for all x

    f* >= f(x) + <grad f(x), x* - x> / tau + mu/2 |x - x*|^2.

`cz.Continuized(L, mu, tau=tau)` minimises it with a theorem (docs/proofs/quasar.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import NOT_FINITE, Array, Compiled, Problem, flat
from continuized.support import validation as check

STEEPEST = 0.25  # of the logistic function
MOST_BENT = 1.0 / (6.0 * math.sqrt(3.0))  # its largest second derivative
MOST_BENT_FAR = 0.16  # and the largest of |u| times it, 0.15995 at u = 2.019


# Of numbers and of arrays: compiled loops use the same.


def well(square: Any, tau: Any) -> Any:
    """((1 + s)^{tau/2} - 1) / tau, s being the squared distance."""
    return np.expm1(0.5 * tau * np.log1p(square)) / tau


def well_slope(square: Any, tau: Any) -> Any:
    """Twice its derivative in s, (1 + s)^{tau/2 - 1}."""
    return np.exp((0.5 * tau - 1.0) * np.log1p(square))


def link(u: Any, leak: Any) -> Any:
    """The logistic function, plus leak u."""
    return 0.5 * (1.0 + np.tanh(0.5 * u)) + leak * u


def link_slope(u: Any, leak: Any) -> Any:
    """Its derivative, between leak and leak + 1/4."""
    t = np.tanh(0.5 * u)
    return STEEPEST * (1.0 - t * t) + leak


FORMULAS = (well, well_slope, link, link_slope)


class _Quasar(Problem):
    """What both have: rows of points in NumPy, and two functions for Numba."""

    is_defined_everywhere = True
    x_star: Array
    L: float
    mu: float

    def _begin(self, x_star: Array, L: float, mu: float, tau: float) -> None:
        self.x_star, self.f_star = x_star, 0.0
        self.L, self.mu, self.tau = L, min(mu, L), tau

    def fun(self, x: Array) -> float:
        """f(x); ValueError where x is not of this dimension."""
        return float(self.values(flat(x, self.x_star.size)[np.newaxis])[0])

    def grad(self, x: Array) -> Array:
        """The gradient of f at x, in the shape of x."""
        x = np.asarray(x)
        g: Array = self.grads(flat(x, self.x_star.size)[np.newaxis])[0].reshape(x.shape)
        return g.astype(x.dtype if x.dtype.kind == "f" else np.float64, copy=False)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """Return f(x) and its gradient."""
        return self.fun(x), self.grad(x)

    def _compile(self, dtype: Any) -> Compiled | None:
        from continuized.problems.kernels import compile_user
        from continuized.support.jit import HAS_NUMBA, compile_formulas, njit

        if not HAS_NUMBA:
            return None
        compile_formulas(*FORMULAS)
        fun, grad = (njit(function) for function in self._functions())
        return compile_user(grad, fun, dtype)

    def _functions(self) -> tuple[Any, Any]:
        """f(x) and its gradient into out, of plain loops."""
        raise NotImplementedError


class Charbonnier(_Quasar):
    """f(x) = ((1 + |x - x*|^2)^{tau/2} - 1) / tau + l2/2 |x - x*|^2, 0 < tau <= 1.

    The generalised Charbonnier penalty: a well whose sides flatten.  It is convex for tau = 1 only
    (l2 = 0): along a ray it bends down from |x - x*|^2 = 1/(1 - tau) on.  L = 1 + l2, and it is
    (tau, mu)-quasar-convex with mu = l2 (2/tau - 1), or L if that is less; for l2 = 0,
    tau (f - f*) <= <grad f, x - x*> says (1 + s)^{tau/2 - 1} <= 1.

    tau: a number in (0, 1].  x_star: the minimiser, a number or a vector.  l2: a number >= 0.
    Raises TypeError or ValueError where they are none of these.

    >>> p = Charbonnier(0.5, [1.0])
    >>> p.tau, p.L, p.mu, round(p.fun(np.array([1.0 + np.sqrt(15.0)])), 12)
    (0.5, 1.0, 0.0, 2.0)
    """

    def __init__(self, tau: float, x_star: ArrayLike = 0.0, *, l2: float = 0.0) -> None:
        tau = check.real(tau, "tau", above=0.0, maximum=1.0)
        l2 = check.real(l2, "l2", minimum=0.0)
        star = np.atleast_1d(check.array(x_star, "x_star", dtype=np.float64, finite=True)).ravel()
        self.l2 = l2
        self._begin(star, 1.0 + l2, l2 * (2.0 / tau - 1.0), tau)

    def values(self, points: Array) -> Array:
        """f at each of points[0], points[1], ..."""
        with np.errstate(**NOT_FINITE):
            square = self._squares(points)
            return np.asarray(well(square, self.tau) + 0.5 * self.l2 * square)

    def grads(self, points: Array) -> Array:
        """The gradient at each of points[0], points[1], ..."""
        with np.errstate(**NOT_FINITE):
            slope = well_slope(self._squares(points), self.tau) + self.l2
            difference = np.asarray(points) - self.x_star.reshape(np.shape(points)[1:])
            return np.asarray(slope.reshape(-1, *[1] * (difference.ndim - 1)) * difference)

    def _squares(self, points: Array) -> Array:
        rows = np.asarray(points).reshape(len(points), -1) - self.x_star
        return np.asarray((rows * rows).sum(axis=1))

    def _functions(self) -> tuple[Any, Any]:
        star, tau, l2 = self.x_star, self.tau, self.l2

        def square(x):  # type: ignore[no-untyped-def]
            total = 0.0
            for i in range(star.size):
                total += (x[i] - star[i]) ** 2
            return total

        from continuized.support.jit import njit

        squared = njit(square)

        def fun(x):  # type: ignore[no-untyped-def]
            s = squared(x)
            return well(s, tau) + 0.5 * l2 * s

        def grad(x, out):  # type: ignore[no-untyped-def]
            slope = well_slope(squared(x), tau) + l2
            for i in range(star.size):
                out[i] = slope * (x[i] - star[i])

        return fun, grad


class SigmoidRegression(_Quasar):
    """f(x) = mean_i (s(<a_i, x>) - y_i)^2 / 2 with y_i = s(<a_i, x*>): data without noise.

    A generalised linear model with the sigmoid link s(u) = 1/(1 + e^{-u}) + leak u.  f is not
    convex.  The slope of s lies between c = leak and m = leak + 1/4, so that f is
    (tau, mu)-quasar-convex with tau = 2c/m, or 1 if that is less, and mu = 0; and for a smaller tau
    with mu = 2 lambda min(c^2 (1/tau - 1/2), m (c/tau - m/2)), lambda the smallest eigenvalue of
    X^T X / n (docs/proofs/quasar.md).  With leak = 0 no tau > 0 would hold for all x, for the link
    is flat far away.  L is an upper bound.

    X: the rows a_i, a matrix.  x_star: a minimiser, a vector.  leak: a number > 0.  tau: a number
    in (0, 2c/m], by default the largest.  Raises TypeError or ValueError where they are none of
    these.

    >>> p = SigmoidRegression([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0])
    >>> round(p.tau, 12), p.mu, p.fun(np.array([1.0, -1.0]))
    (0.5, 0.0, 0.0)
    """

    def __init__(
        self, X: ArrayLike, x_star: ArrayLike, *, leak: float = 1.0 / 12.0, tau: float | None = None
    ) -> None:
        self.X = check.array(X, "X", dtype=np.float64, ndim=2, finite=True)
        star = check.array(x_star, "x_star", dtype=np.float64, finite=True)
        check.shape(star, "x_star", (self.X.shape[1],), each="column of X")
        if not len(self.X):
            raise ValueError("X must have one row or more, got none")
        c = self.leak = check.real(leak, "leak", above=0.0)
        m = c + STEEPEST
        largest = min(1.0, 2.0 * c / m)
        chosen = largest
        if tau is not None:
            advice = "the largest that is proved is 2 leak / (leak + 1/4), or 1"
            chosen = check.real(tau, "tau", above=0.0, maximum=largest, advice=advice)
        u = self.X @ star
        self.y = link(u, c)
        bend = m * m + MOST_BENT * (1.0 + c * np.abs(u)) + c * MOST_BENT_FAR
        L = float(np.linalg.eigvalsh((self.X.T * bend) @ self.X / len(u))[-1])
        least = float(np.linalg.eigvalsh(self.X.T @ self.X / len(u))[0])
        share = min(c * c * (1.0 / chosen - 0.5), m * (c / chosen - 0.5 * m))
        if not (math.isfinite(L) and L > 0.0):
            raise ValueError(
                f"X must have a finite L > 0, got L = {L:.6g}: its entries are too extreme"
            )
        self._begin(star, L * (1.0 + 1e-12), max(2.0 * least * share, 0.0), chosen)

    def values(self, points: Array) -> Array:
        """f at each of points[0], points[1], ..."""
        with np.errstate(**NOT_FINITE):
            r = link(self._predict(points), self.leak) - self.y
            return np.asarray(0.5 * (r * r).mean(axis=1))

    def grads(self, points: Array) -> Array:
        """The gradient at each of points[0], points[1], ..."""
        with np.errstate(**NOT_FINITE):
            u = self._predict(points)
            slopes = (link(u, self.leak) - self.y) * link_slope(u, self.leak)
            return np.asarray((slopes @ self.X / len(self.y)).reshape(np.shape(points)))

    def _predict(self, points: Array) -> Array:
        return np.asarray(np.asarray(points).reshape(len(points), -1) @ self.X.T)

    def _functions(self) -> tuple[Any, Any]:
        X, y, leak = self.X, self.y, self.leak
        n, d = X.shape

        def fun(x):  # type: ignore[no-untyped-def]
            total = 0.0
            for i in range(n):
                u = 0.0
                for j in range(d):
                    u += X[i, j] * x[j]
                total += (link(u, leak) - y[i]) ** 2
            return 0.5 * total / n

        def grad(x, out):  # type: ignore[no-untyped-def]
            out[:] = 0.0
            for i in range(n):
                u = 0.0
                for j in range(d):
                    u += X[i, j] * x[j]
                slope = (link(u, leak) - y[i]) * link_slope(u, leak) / n
                for j in range(d):
                    out[j] += slope * X[i, j]

        return fun, grad
