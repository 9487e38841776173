"""Multinomial logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, flat
from continuized.problems.losses import SOFTMAX
from continuized.problems.regression.data import checked_classes
from continuized.problems.regression.linear import Linear

ROWS = 8192  # at once: their predictions stay in cache, and float32 rows are widened


class SoftmaxRegression(Linear):
    """f(W) = mean_i [log sum_k exp(<x_i, W_k>) - <x_i, W_{y_i}>] + l2/2 |W|^2.

    X, l2, weights and intercept as for `LeastSquares`; y: labels 0, ..., classes - 1 (by default
    as many as there are).  W has shape (d, classes), with the intercepts as one row more, and
    may be given flattened.  The second derivative of the loss in the predictions is
    diag(p) - p p^T, at most 1/2.

    Adding the same vector to every column of W changes no loss: with l2 > 0 the columns of the
    minimiser add up to zero, but the intercepts are determined up to a constant only.

    Raises TypeError or ValueError for data that are not finite real numbers, or do not fit, and
    for labels that are none of these.

    >>> p = SoftmaxRegression([[1.0], [1.0]], [0, 2], l2=0.5)
    >>> p.dim, p.curvature, round(p.L, 9), round(p.fun(np.zeros((1, 3))), 9)
    (3, 0.5, 1.0, 1.098612289)
    """

    loss = SOFTMAX
    curvature = 0.5

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        l2: float = 1e-4,
        *,
        classes: int | None = None,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        super().__init__(X, y, l2, weights=weights, intercept=intercept)
        self.labels, self.classes = checked_classes(self.y, classes)

    @property
    def dim(self) -> int:
        """The number of entries of W."""
        return self.variables * self.classes

    def fun(self, x: ArrayLike) -> float:
        """f(W); ValueError where x has not so many entries."""
        return self.value_and_gradient(x)[0]

    def grad(self, x: ArrayLike) -> Array:
        """The gradient of f at W, in the shape of x."""
        return self.value_and_gradient(x)[1]

    def value_and_gradient(self, x: ArrayLike) -> tuple[float, Array]:
        """f(W) and its gradient, in the shape and the precision of x."""
        point = flat(x, self.dim)
        W = point.astype(np.float64).reshape(-1, self.classes)
        n, d = self.X.shape
        gradient, total = np.zeros_like(W), 0.0
        for first in range(0, n, ROWS):
            rows = slice(first, min(first + ROWS, n))
            value, slopes = self._losses(self.predictions(W, rows), rows)
            total += value
            gradient[:d] += self.X[rows].T @ slopes
            gradient[d:] += slopes.sum(axis=0)
        gradient[:d] += self.l2 * W[:d]
        f = total + 0.5 * self.l2 * float(np.vdot(W[:d], W[:d]))
        return f, gradient.astype(point.dtype, copy=False).reshape(np.shape(x))

    def _second_slopes(self, predictions: Array) -> Array:
        """A bound on diag(p) - p p^T, the largest 2 p_k (1 - p_k) (Gershgorin)."""
        p = np.exp(predictions - predictions.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return np.asarray((2.0 * p * (1.0 - p)).max(axis=1))

    def _losses(self, scores: Array, rows: slice) -> tuple[float, Array]:
        """The part of these rows in the mean loss, and its slopes in their scores."""
        labels = self.labels[rows]
        each = np.arange(len(labels))
        scores = scores - scores.max(axis=1, keepdims=True)
        slopes = np.exp(scores)
        sums = slopes.sum(axis=1)
        losses = np.log(sums) - scores[each, labels]
        slopes /= sums[:, np.newaxis]
        slopes[each, labels] -= 1.0
        share = 1.0 / len(self.y) if self.shares is None else self.shares[rows] / len(self.y)
        return float(np.sum(share * losses)), slopes * np.reshape(share, (-1, 1))

    def compiled(self, dtype: Any = np.float64) -> None:
        """None: the gradient is NumPy's."""
        return
