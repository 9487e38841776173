"""Regression that outliers do not spoil: Huber's loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array
from continuized.problems.regression.models import SingleOutput
from continuized.support import validation as check
from continuized.support.blas import inner, transposed_product

MOST_STEPS = 50  # of Newton to a scale
CLOSE = 1e-14  # relative: the scale stays as it is


class HuberRegression(SingleOutput):
    """f(w) = mean_i h(<x_i, w> - y_i) + l2/2 |w|^2, with Huber's h.

    h(r) = r^2 / 2 where |r| <= delta, and delta (|r| - delta / 2) beyond: far away it is a straight
    line, so that an outlier pulls no harder than a row that is off by delta, which is finite, > 0
    and in the unit of y.  X, l2, weights and intercept as for `LeastSquares`; so are the errors.

    >>> p = HuberRegression([[1.0], [1.0]], [0.0, 10.0], delta=2.0)
    >>> p.fun([0.0]), p.grad(np.array([0.0])).tolist(), round(p.L, 9)
    (9.0, [-1.0], 1.0)
    """

    curvature = 1.0

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        l2: float = 0.0,
        *,
        delta: float = 1.0,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        super().__init__(X, y, l2, weights=weights, intercept=intercept)
        self.delta = check.real(delta, "delta", above=0.0)
        self.loss = -self.delta

    def second_slopes(self, predictions: Array, index: Any) -> Array:
        """The curvatures of parabolas that touch the losses here, and lie above them everywhere.

        Beyond delta the second derivative is 0, which says nothing of a loss that bends nearby: a
        metric made of it allows steps of any length.
        """
        residuals = np.abs(predictions[:, 0] - self.y[index])
        return np.asarray(self.delta / np.maximum(residuals, self.delta))


class ScaledHuber(SingleOutput):
    """Huber's joint estimate of location and scale, as a function of the location alone.

    f(w) is the least value over s >= least_scale of mean_i (s + s h(r_i / s)) / 2 + l2/2 |w|^2, of
    r_i = y_i - <x_i, w> and h(z) = z^2 for |z| <= epsilon, 2 epsilon |z| - epsilon^2 beyond.  The
    sum is convex in w and s together, so that f is convex; and the gradient of f is that of the sum
    in w, for s is where the sum is least.

    >>> p = ScaledHuber([[1.0], [1.0]], [1.0, 3.0], epsilon=2.0, least_scale=1e-9)
    >>> p.find_best_scale(np.array([2.0])), p.fun([2.0]), p.grad([2.0]).tolist()
    (1.0, 1.0, [0.0])
    """

    curvature = math.inf  # 1 / s, where no row is beyond
    L = None  # type: ignore[assignment]
    loss = math.nan  # not one of the compiled ones

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        l2: float = 0.0,
        *,
        epsilon: float,
        least_scale: float,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        super().__init__(X, y, l2, weights=weights, intercept=intercept)
        self._set_options(epsilon, least_scale)

    def _set_options(self, epsilon: float, least_scale: float) -> None:
        self.epsilon, self.least_scale, self._last = epsilon, least_scale, 0.0

    @property
    def typical_curvature(self) -> float:
        """The curvature of a squared loss, for a y in units of about its scale."""
        return 1.0

    def _evaluate(self, x: ArrayLike, value: bool, gradient: bool) -> tuple[float, Array]:
        x = np.asarray(x)
        w, d, n = x.astype(np.float64, copy=False).ravel(), self.X.shape[1], len(self.y)
        r = self.y - self.predictions(w, slice(None))
        s = self._choose_scale(r)
        inside = np.minimum(np.maximum(r, -self.epsilon * s), self.epsilon * s)
        slopes = inside if self.shares is None else self.shares * inside
        f = 0.5 * (s + inner(slopes, 2.0 * r - inside) / (n * s))
        f += 0.5 * self.l2 * inner(w[:d], w[:d])
        g = np.empty(self.dim)
        g[:d] = self.l2 * w[:d] - transposed_product(self.X, slopes) / (n * s)
        g[d:] = -slopes.sum() / (n * s)
        return f, g.astype(x.dtype, copy=False).reshape(x.shape)

    def find_best_scale(self, w: Array) -> float:
        """Find the s of these coefficients."""
        return self._choose_scale(self.y - self.predictions(w, slice(None)))

    def _choose_scale(self, residuals: Array) -> float:
        """Find it by Newton's method for 1/s^2, of which the slope is convex and made of straight
        lines: it ends at the zero itself, and soon if that of the last point is near."""
        size, s = np.abs(residuals), self._last
        squares = size * size
        for _ in range(MOST_STEPS if s > 0.0 else 0):
            is_inside = size <= self.epsilon * s
            within = is_inside if self.shares is None else is_inside * self.shares
            share = np.count_nonzero(within) if self.shares is None else float(within.sum())
            room = 1.0 - self.epsilon**2 * (1.0 - share / len(size))
            square = inner(within, squares) / len(size)
            if not (room > 0.0 and square > 0.0):
                break
            s, before = math.sqrt(square / room), s
            if abs(s - before) <= CLOSE * s:
                self._last = s
                return max(s, self.least_scale)
        self._last = find_scale(residuals, self.epsilon, self.weights)
        return max(self._last, self.least_scale)

    def find_second_derivative(self, w: Array) -> Array:
        """Find the matrix of Newton's step at w, for the s that is best everywhere: of the rows
        within epsilon s, and less by what s gains as it follows.

        Beside it, the parabolas of `second_slopes` are a bound: safe, but not as near.
        """
        r = self.y - self.predictions(w.ravel(), slice(None))
        s = self._choose_scale(r)
        within = (np.abs(r) <= self.epsilon * s).astype(np.float64)
        q = within if self.shares is None else within * self.shares
        found, d = np.empty((self.dim, self.dim)), self.X.shape[1]
        found[:d, :d] = self._weighted_gram(self.X, q)
        if self.intercept:
            found[d, :d] = found[:d, d] = transposed_product(self.X, q)
            found[d, d] = q.sum()
        square = inner(q * r, r)
        if s > self.least_scale and square > 0.0:
            along = transposed_product(self.X, q * r)
            change = np.append(along, (q * r).sum())[: self.dim]
            found -= np.outer(change, change) / square
        found /= len(r) * s
        found[np.arange(d), np.arange(d)] += self.l2
        return found

    def second_slopes(self, predictions: Array, index: Any) -> Array:
        """As those of `HuberRegression`, over s."""
        residuals = self.y[index] - predictions[:, 0]
        s = self._choose_scale(residuals)
        return np.asarray(self.epsilon / np.maximum(np.abs(residuals), self.epsilon * s))


def find_scale(residuals: Array, epsilon: float, weights: Array | None = None) -> float:
    """Find the s >= 0 that minimises sum_i weights_i (s + s h(r_i / s)), of the h of Huber's joint
    estimate of location and scale: z^2 for |z| <= epsilon, and 2 epsilon |z| - epsilon^2 beyond.

    Its slope in s, W - S / s^2 - epsilon^2 V with W the sum of the weights, V that of the rows
    beyond epsilon s and S the sum of weights_i r_i^2 of the others, increases with s.

    >>> find_scale(np.array([3.0, -3.0]), 2.0), find_scale(np.array([2.0, 2.0, 2.0, 100.0]), 1.0)
    (3.0, 2.0)
    """
    order = np.argsort(np.abs(residuals))
    size = np.abs(residuals)[order]
    each = np.ones(len(size)) if weights is None else weights[order]
    unit = float(size[-1]) or 1.0  # squares may overflow
    size = size / unit
    squares, within, total = np.cumsum(each * size**2), np.cumsum(each), float(each.sum())
    # Rows 0, ..., k are within epsilon s for s from size[k] / epsilon to the next one: the zero of
    # the slope is before the first k where it is >= 0 already.
    room = total - epsilon**2 * (total - within)
    past = np.flatnonzero((room * size**2 >= epsilon**2 * squares) & (size > 0.0))
    k = int(past[0]) if past.size else len(size)
    if k == 0:  # with epsilon = 1, where every smaller s is as good
        return unit * float(size[0]) / epsilon
    return unit * math.sqrt(squares[k - 1] / room[k - 1]) if room[k - 1] > 0.0 else 0.0
