"""Regression of counts: Poisson's loss, whose curvature has no bound."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.problems.losses import POISSON
from continuized.problems.regression.models import SingleOutput

LARGEST_EXPONENT = 709.7  # beyond, exp is infinite


class PoissonRegression(SingleOutput):
    """f(w) = mean_i [exp(<x_i, w>) - y_i <x_i, w>] + l2/2 |w|^2, y >= 0.

    exp(<x_i, w>) is the mean that is predicted of the count y_i; counts need not be whole.  X, l2,
    weights and intercept as for `LeastSquares`, and so are the errors; ValueError, too, if a y < 0.

    The second derivative of the loss is the predicted mean, which has no bound: L is None, and
    `cz.minimize` finds one on the way.

    >>> p = PoissonRegression([[0.0], [1.0]], [1.0, 2.0], l2=0.0)
    >>> p.L is None, round(p.fun([0.0]), 9), p.grad(np.array([0.0])).tolist()
    (True, 1.0, [-0.5])
    """

    loss = POISSON
    curvature = math.inf
    L = None  # type: ignore[assignment]

    def _check_y(self) -> None:
        below = np.flatnonzero(self.y < 0.0)
        if below.size:
            first, many = int(below[0]), "entry" if below.size == 1 else "entries"
            raise ValueError(
                f"y must be counts >= 0, but y[{first}] is {self.y[first]} ({below.size} such "
                f"{many} in all)"
            )

    @property
    def mean(self) -> float:  # type: ignore[override]
        """The mean of y, weighted: what a model without columns predicts."""
        return float(np.average(self.y, weights=self.shares))

    @cached_property
    def least_loss(self) -> float:  # type: ignore[override]
        """The mean of y - y log y: no prediction has a smaller one."""
        from scipy.special import xlogy

        least = self.y - xlogy(self.y, self.y)
        return float(np.average(least, weights=self.shares))

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The minimiser, by Newton's method, to rounding.

        None where X is too large for that, l2 is 0 (there may be no minimum), or there is an
        intercept but no count above 0.
        """
        is_bounded = not self.intercept or self.mean > 0.0
        if not (self.l2 > 0.0 and is_bounded and self._is_small):
            return None
        return self._minimise_by_newton()

    def second_slopes(self, predictions: Array, index: Any) -> Array:
        return np.asarray(np.exp(np.minimum(predictions[:, 0], LARGEST_EXPONENT)))
