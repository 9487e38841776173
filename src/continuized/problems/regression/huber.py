"""Regression that outliers do not spoil: Huber's loss."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array
from continuized.problems.regression.models import SingleOutput
from continuized.support import validation as check


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

    def _second_slopes(self, predictions: Array, index: Any) -> Array:
        """The curvatures of parabolas that touch the losses here, and lie above them everywhere.

        Beyond delta the second derivative is 0, which says nothing of a loss that bends nearby: a
        metric made of it allows steps of any length.
        """
        residuals = np.abs(predictions[:, 0] - self.y[index])
        return np.asarray(self.delta / np.maximum(residuals, self.delta))


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
