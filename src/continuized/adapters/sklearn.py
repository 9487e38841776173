"""Estimators for scikit-learn: ridge regression and l2-regularised logistic regression.

The problems are scikit-learn's divided by the sum of the weights, a mean over the rows, so that
`tol` means the same for any number of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.adapters._sklearn_base import (
    LinearClassifier,
    LinearRegressor,
    checked_alphas,
    root_mean_square,
    solve,
)
from continuized.problems import LeastSquares, LogisticRegression, SoftmaxRegression
from continuized.problems.base import Array
from continuized.support import validation as check

__all__ = ["ContinuizedLogisticRegression", "ContinuizedRidge"]


class ContinuizedRidge(LinearRegressor):
    """Ridge regression: minimises |y - Xw - b|^2 + alpha |w|^2, as scikit-learn's `Ridge`.

    Parameters
    ----------
    alpha : float >= 0, or one for each target
    fit_intercept : bool
        Whether there is an intercept b, which is not penalised.
    tol : float
        How exactly to solve: about the error of the predictions (root mean square), relative to
        the size of y.
    max_iter : int
        The largest number of iterations, for each target; a ConvergenceWarning tells of it.
    random_state : int, RandomState or None
        Of the event times.
    warm_start : bool
        Whether to start from the coefficients of the last fit.

    Attributes: coef_, intercept_, n_iter_ (for each target), n_features_in_, feature_names_in_;
    their shapes are those of `Ridge`.

    >>> X, y = [[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]
    >>> model = ContinuizedRidge(alpha=0.0, random_state=0).fit(X, y)
    >>> model.predict([[3.0]]).round(6).tolist()
    [7.0]
    """

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        max_iter: int = 1000,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> ContinuizedRidge:
        """Fit to the rows of X, weighted if sample_weight (numbers >= 0) is given."""
        X, y, weights = self._check_data(X, y, sample_weight, multi_output=True, y_numeric=True)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        count = targets.shape[1]
        alphas = checked_alphas(self.alpha, count)
        start, rng = self._find_start(count, X.shape[1]), self._draw_seed()
        fits = [
            self._fit_one(
                X, target, weights, alphas[k], None if start is None else start[:, k], rng
            )
            for k, target in enumerate(targets.T)
        ]
        coef, intercept = np.stack([f[0] for f in fits]), np.array([f[1] for f in fits])
        self.coef_ = coef[0] if count == 1 else coef
        self.intercept_ = 0.0
        if self.fit_intercept:
            self.intercept_ = float(intercept[0]) if np.ndim(y) == 1 else intercept
        self._set_iterations([f[2] for f in fits], all(f[3] for f in fits))
        return self

    def _fit_one(
        self, X: Any, y: Array, weights: Any, alpha: float, start: Array | None, seed: int | None
    ) -> tuple[Array, float, int, bool]:
        """Fit one target: coefficients, intercept, iterations and whether tol was reached.

        The target is centred and scaled first, so that `tol` is relative to its size.
        """
        intercept, d = self.fit_intercept, X.shape[1]
        middle = float(np.average(y, weights=weights)) if intercept else 0.0
        scale = root_mean_square(y - middle, weights)
        l2 = float(alpha) / (len(y) if weights is None else float(weights.sum()))
        problem = LeastSquares(X, (y - middle) / scale, l2, weights=weights, intercept=intercept)
        w0 = np.zeros(problem.dim)
        if start is not None:
            w0 = np.append(start[:d], start[d] - middle)[: problem.dim] / scale
        w, n_iter, reached = solve(problem, w0, check.as_float(self.tol), int(self.max_iter), seed)
        return scale * w[:d], middle + scale * float(w[d:].sum()), n_iter, reached


class ContinuizedLogisticRegression(LinearClassifier):
    """Logistic regression: minimises C sum_i weight_i loss_i + |w|^2 / 2, as scikit-learn's own.

    The loss is the logistic one for two classes and that of the softmax for more.

    Parameters
    ----------
    C : float > 0
        The inverse of the regularisation; infinity for none.
    fit_intercept : bool
        Whether there is an intercept for each class, which is not penalised.
    tol : float
        How exactly to solve: about the error of the decision function (root mean square).
    max_iter : int
        The largest number of iterations; a ConvergenceWarning tells that it was reached.
    class_weight : None, "balanced", or {class: weight}
        Multiplies the weights of the rows; "balanced" gives each class the same total.
    random_state : int, RandomState or None
        Of the event times.
    warm_start : bool
        Whether to start from the coefficients of the last fit.

    Attributes: classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_.

    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], ["no", "no", "yes", "yes"]
    >>> model = ContinuizedLogisticRegression(random_state=0).fit(X, y)
    >>> model.predict([[-3.0], [3.0]]).tolist()
    ['no', 'yes']
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-10,
        max_iter: int = 10_000,
        class_weight: Any = None,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.random_state = random_state
        self.warm_start = warm_start

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> ContinuizedLogisticRegression:
        """Fit to the rows of X, weighted if sample_weight (numbers >= 0) is given."""
        C = check.real(self.C, "C", above=0.0, finite=False, other="infinity")
        X, y, weights = self._check_data(X, y, sample_weight)
        labels, weights = self._label_rows(y, weights)
        count, d = len(self.classes_), X.shape[1]
        l2 = 1.0 / (C * (len(labels) if weights is None else float(weights.sum())))
        options: dict[str, Any] = {"weights": weights, "intercept": self.fit_intercept}
        if count == 2:
            problem: Any = LogisticRegression(X, 2.0 * labels - 1.0, l2, **options)
        else:
            problem = SoftmaxRegression(X, labels, l2, classes=count, **options)
        columns = 1 if count == 2 else count
        start = self._find_start(columns, d)
        w0 = np.zeros(problem.dim) if start is None else start.ravel()[: problem.dim]
        w, n_iter, reached = solve(
            problem, w0, check.as_float(self.tol), int(self.max_iter), self._draw_seed()
        )
        W = w.reshape(-1, columns)
        self.coef_ = np.ascontiguousarray(W[:d].T)
        self.intercept_ = W[d:].sum(axis=0)
        if count > 2:
            self.intercept_ -= self.intercept_.mean()  # free: a common constant changes nothing
        self._set_iterations([n_iter], reached)
        return self
