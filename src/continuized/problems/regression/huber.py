"""Regression that outliers do not spoil: Huber's loss."""

from __future__ import annotations

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
