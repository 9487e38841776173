"""Estimators for scikit-learn: linear models with its parameters and minimisers.

The problems are scikit-learn's divided by the sum of the weights, a mean over the rows, so that
`tol` means the same for any number of rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from continuized.adapters._sklearn_base import (
    OFFSET,
    PROXIMAL_OFFSET,
    ClassifierMixin,
    Fit,
    LinearEstimator,
    MultiOutputMixin,
    RegressorMixin,
    as_given,
    check_alphas,
    check_classification_targets,
    compute_class_weight,
    d2_tweedie_score,
    equalise_columns,
    find_mean,
    find_offsets,
    make_problem,
    make_prox,
    root_mean_square,
)
from continuized.problems import (
    LeastSquares,
    LogisticRegression,
    PoissonRegression,
    SoftmaxRegression,
)
from continuized.problems.base import Array
from continuized.problems.regression.huber import ScaledHuber, find_scale
from continuized.support import blas
from continuized.support import validation as check
from continuized.support.validation import short_repr

__all__ = [
    "ContinuizedElasticNet",
    "ContinuizedHuberRegressor",
    "ContinuizedLasso",
    "ContinuizedLogisticRegression",
    "ContinuizedPoissonRegressor",
    "ContinuizedRidge",
]

SLOPE = 0.7  # of scikit-learn's tol: at its own, what is left would be more as often as less
SMALLEST_SCALE = 1e-9  # of the size of y: of data that are fitted exactly, it would go to 0
SMALLER = 10.0  # times a scale may be smaller than the one that tol was made for
# Kinds of y (bools, integers, strings) of which scikit-learn's check, which takes longer than some
# steps, can only say that the classes are many: more than one for each two rows.
LABELS, MANY_CLASSES = "biuU", 2
NO_SCALE = 1e-3  # of the size of residuals: a scale at which most rows are outliers


class LeastSquaresEstimator(MultiOutputMixin, RegressorMixin, LinearEstimator):
    """A squared loss with some penalty, fitted to each target of its own."""

    alpha: Any
    positive: Any

    def _choose_penalty(self, alpha: float, total: float) -> tuple[float, float]:
        """Return (l1, l2) of the mean over the rows, whose weights have this sum."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Any:
        """Fit to the rows of X, weighted if sample_weight (numbers >= 0) is given."""
        check.flag(self.positive, "positive")
        X, y, weights = self._check_data(X, y, sample_weight, multi_output=True, y_numeric=True)
        targets = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        count = targets.shape[1]
        alphas = check_alphas(self.alpha, count)
        start, rng = self._find_start(count, X.shape[1]), self._draw_seed()
        starts = [None] * count if start is None else start.T
        fits = [
            self._fit_one(X, target, weights, alpha, start, rng)
            for target, alpha, start in zip(targets.T, alphas, starts, strict=True)
        ]
        coefs, intercepts, results, gaps = map(list, zip(*fits, strict=True))
        self.coef_ = coefs[0] if count == 1 else np.stack(coefs)
        self.intercept_ = 0.0
        if self.fit_intercept:
            self.intercept_ = intercepts[0] if np.ndim(y) == 1 else np.array(intercepts)
        self._set_gaps(gaps)
        self._set_iterations(results)
        return self

    def _fit_one(
        self, X: Any, y: Array, weights: Any, alpha: float, start: Array | None, seed: int | None
    ) -> tuple[Array, float, Fit, float]:
        """Fit one target: coefficients, intercept, the result of the run and the duality gap.

        The target is centred and scaled first, so that `tol` is relative to its size.
        """
        intercept, d = self.fit_intercept, X.shape[1]
        middle = find_mean(y, weights) if intercept else 0.0
        scale = root_mean_square(y - middle, weights)
        total = len(y) if weights is None else float(weights.sum())
        l1, l2 = self._choose_penalty(float(alpha), total)
        offsets = find_offsets(X, weights) if intercept and l1 == 0.0 else None
        if offsets is not None:
            X = X - offsets
            start = None if start is None else np.append(start[:d], start[d] + offsets @ start[:d])
        is_plain = l1 > 0.0 or not self.positive
        X, columns = (X, np.ones(d)) if is_plain else equalise_columns(X, weights)
        options: dict[str, Any] = {"weights": weights, "intercept": intercept}
        is_smooth = l1 == 0.0 and not self.positive
        smooth = l2 if is_smooth else 0.0
        problem = make_problem(LeastSquares, X, (y - middle) / scale, smooth, **options)
        w0 = np.zeros(problem.dim)
        if start is not None:
            w0 = np.append(columns * start[:d], start[d] - middle)[: problem.dim] / scale
        if l1 > 0.0:
            r = self._solve_by_columns(problem, w0, l1 / scale, l2)
        else:
            direct = problem.minimise_in_row_space() if is_smooth else None
            prox = None if is_smooth else make_prox(problem, 0.0, l2, True, columns)
            r = self._solve(problem, w0, seed, prox=prox) if direct is None else Fit(direct)
        coef, shift = scale * r.x[:d] / columns, middle + scale * float(r.x[d:].sum())
        if offsets is not None:
            shift -= float(offsets @ coef)
        return coef, shift, r, r.gap * scale * scale

    def _solve_by_columns(self, problem: LeastSquares, w0: Array, l1: float, l2: float) -> Fit:
        """Find the minimiser with an l1 norm by plain coordinate steps.

        A pass over the coordinates that move counts as one iteration.
        """
        from continuized.solver.lasso import solve_lasso  # which brings Numba with it

        d, low = problem.X.shape[1], 0.0 if self.positive else -math.inf
        w0[:d] = np.maximum(w0[:d], low)
        psi = np.repeat([[l1], [l2], [low], [math.inf]], d, axis=1)
        tol, most = check.as_float(self.tol), int(self.max_iter)
        x, gap, passes, success = solve_lasso(problem, psi, w0, tol, most)
        return Fit(x, passes, success, gap)

    def _set_gaps(self, gaps: list[float]) -> None:
        """Keep the duality gaps of the targets, where they are known."""

    def predict(self, X: Any) -> Any:
        """Predict Xw + b."""
        return as_given(self._score(X), X)


class ContinuizedRidge(LeastSquaresEstimator):
    """Ridge regression: minimises |y - Xw - b|^2 + alpha |w|^2, as scikit-learn's `Ridge`.

    Parameters
    ----------
    alpha : float >= 0, or one for each target
        With 0 and fewer rows than columns, the solution of least |w| is found, unless X is so large
        (n^2 d > 1e10) that it would take many seconds.
    fit_intercept : bool
        Whether there is an intercept b, which is not penalised.
    tol : float
        How exactly to solve: about the error of the predictions (root mean square), relative to
        the size of y.
    max_iter : int
        The largest number of iterations, for each target; a ConvergenceWarning tells of it.
    positive : bool
        Whether no coefficient may be negative.
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
        tol: float = 1e-8,
        max_iter: int = 1000,
        positive: bool = False,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.positive = positive
        self.random_state = random_state
        self.warm_start = warm_start

    def _choose_penalty(self, alpha: float, total: float) -> tuple[float, float]:
        return 0.0, alpha / total


class ContinuizedElasticNet(LeastSquaresEstimator):
    """Minimises |y - Xw - b|^2 / (2n) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2), as
    scikit-learn's `ElasticNet`.

    With weights, 1/n times the sum over the rows is their weighted mean.  Coefficients that are
    zero in the minimiser are zero.

    Parameters
    ----------
    alpha : float >= 0, or one for each target
    l1_ratio : float
        From 0, the penalty of `Ridge`, to 1, that of `Lasso`.
    fit_intercept : bool
        Whether there is an intercept b, which is not penalised.
    tol : float
        How exactly to solve: the duality gap, a bound of what is left to gain, relative to the mean
        square of y less its mean.
    positive : bool
        Whether no coefficient may be negative.
    max_iter, warm_start
        As in `ContinuizedRidge`.
    random_state : int, RandomState or None
        Of the event times where l1_ratio is 0; with an l1 norm coordinates take turns, and there
        are none.

    Attributes: coef_, sparse_coef_, intercept_, dual_gap_ (NaN where none is known), n_iter_ (for
    each target), n_features_in_, feature_names_in_.

    >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]], [1.0, 3.0, 5.0]
    >>> model = ContinuizedElasticNet(alpha=0.1, random_state=0).fit(X, y)
    >>> model.coef_.round(4).tolist()
    [1.7907, 0.0]
    """

    dual_gap_: Any

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        positive: bool = False,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.positive = positive
        self.random_state = random_state
        self.warm_start = warm_start

    def _choose_penalty(self, alpha: float, total: float) -> tuple[float, float]:
        ratio = check.real(self.l1_ratio, "l1_ratio", minimum=0.0, maximum=1.0)
        return alpha * ratio, alpha * (1.0 - ratio)

    def _set_gaps(self, gaps: list[float]) -> None:
        self.dual_gap_ = gaps[0] if len(gaps) == 1 else np.array(gaps)

    @property
    def sparse_coef_(self) -> Any:
        """The coefficients as a sparse matrix, a target a row."""
        from scipy import sparse

        return sparse.csr_matrix(np.atleast_2d(self.coef_))


class ContinuizedLasso(ContinuizedElasticNet):
    """Minimises |y - Xw - b|^2 / (2n) + alpha |w|_1, as scikit-learn's `Lasso`.

    alpha, fit_intercept, tol, max_iter, positive, random_state, warm_start and the attributes are
    as in `ContinuizedElasticNet`.

    >>> X, y = [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]], [1.0, 3.0, 5.0]
    >>> model = ContinuizedLasso(alpha=0.1, random_state=0).fit(X, y)
    >>> model.coef_.round(4).tolist()
    [1.85, 0.0]
    """

    l1_ratio = 1.0

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        positive: bool = False,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        super().__init__(
            alpha,
            l1_ratio=1.0,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
            positive=positive,
            random_state=random_state,
            warm_start=warm_start,
        )


class ContinuizedPoissonRegressor(RegressorMixin, LinearEstimator):
    """Regression of counts: minimises mean_i weight_i [exp(p_i) - y_i p_i] + alpha/2 |w|^2 with
    p = Xw + b, as scikit-learn's `PoissonRegressor`; exp(p) is what is predicted.

    Parameters
    ----------
    alpha : float >= 0
    fit_intercept : bool
        Whether there is an intercept b, which is not penalised.
    tol : float
        How exactly to solve, as in scikit-learn's own: no entry of the gradient is larger, for
        columns smaller than 1, and counts, in their own units; or the relative error of the
        predictions (root mean square, the large ones weighing more) is at most this.
    verbose : int
        Above 0, a progress bar is shown on standard error.
    max_iter, random_state, warm_start
        As in `ContinuizedRidge`.

    Attributes: coef_, intercept_, n_iter_, n_features_in_, feature_names_in_.

    >>> X, y = [[0.0], [1.0], [2.0]], [1.0, 3.0, 9.0]
    >>> model = ContinuizedPoissonRegressor(alpha=0.0, random_state=0).fit(X, y)
    >>> model.predict([[3.0]]).round(2).tolist()
    [27.0]
    """

    alpha: Any

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        verbose: int = 0,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose
        self.random_state = random_state
        self.warm_start = warm_start

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> ContinuizedPoissonRegressor:
        """Fit to the rows of X, weighted if sample_weight (numbers >= 0) is given; y >= 0."""
        alpha = check.real(self.alpha, "alpha", minimum=0.0)
        X, y, weights = self._check_data(X, y, sample_weight, y_numeric=True)
        intercept, d = self.fit_intercept, X.shape[1]
        options: dict[str, Any] = {"weights": weights, "intercept": intercept}
        problem = make_problem(PoissonRegression, X, y, alpha, **options)
        if problem.mean == 0.0:
            raise ValueError("every y is 0, or has no weight; there is nothing to fit")
        start = self._find_start(1, d)
        w0 = np.append(np.zeros(d), math.log(problem.mean)) if start is None else start.ravel()
        unit = math.sqrt(problem.mean)
        r = self._solve(problem, w0[: problem.dim], self._draw_seed(), unit=unit, slope=SLOPE)
        self.coef_, self.intercept_ = r.x[:d], float(r.x[d:].sum())
        self.n_iter_ = max(int(r.nit), 1)
        self._warn_unless(r.success, self.n_iter_)
        return self

    def predict(self, X: Any) -> Any:
        """Predict exp(Xw + b)."""
        return as_given(np.exp(self._score(X)), X)

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Compute D^2, the part of the deviance that is explained, as `PoissonRegressor` does."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


class ContinuizedHuberRegressor(RegressorMixin, LinearEstimator):
    """Regression that outliers do not spoil, and its scale, as scikit-learn's `HuberRegressor`.

    Minimises sum_i weight_i (s + s h((y_i - p_i) / s)) + alpha |w|^2 over w, b and the scale s > 0,
    with p = Xw + b, and h(z) = z^2 for |z| <= epsilon, 2 epsilon |z| - epsilon^2 beyond.  The sum
    is convex in all of them: what is run is the function of w and b that has the best s everywhere.
    s is kept above 1e-9 of the size of y, for it would go to 0 where y is fitted exactly.

    Parameters
    ----------
    epsilon : float >= 1
        Of how many scales an outlier is off.
    alpha : float >= 0
    fit_intercept : bool
        Whether there is an intercept b, which is not penalised.
    tol : float
        How exactly to solve: about the error of the predictions (root mean square), relative to the
        scale.
    max_iter, random_state, warm_start
        As in `ContinuizedRidge`.

    Attributes: coef_, intercept_, scale_, outliers_, n_iter_, n_features_in_, feature_names_in_.

    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0]], [0.1, 1.0, 1.9, 3.0, 400.0]
    >>> model = ContinuizedHuberRegressor(random_state=0).fit(X, y)
    >>> model.coef_.round(1).tolist(), model.outliers_.tolist()
    ([1.1], [False, False, False, False, True])
    """

    epsilon: Any
    alpha: Any
    scale_: float

    def __init__(
        self,
        *,
        epsilon: float = 1.35,
        alpha: float = 1e-4,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> ContinuizedHuberRegressor:
        """Fit to the rows of X, weighted if sample_weight (numbers >= 0) is given."""
        epsilon = check.real(self.epsilon, "epsilon", minimum=1.0)
        alpha = check.real(self.alpha, "alpha", minimum=0.0)
        X, y, weights = self._check_data(X, y, sample_weight, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        intercept, d = self.fit_intercept, X.shape[1]
        total = len(y) if weights is None else float(weights.sum())
        (w, unit), seed = self._find_first(X, y, weights, epsilon), self._draw_seed()
        least = SMALLEST_SCALE * root_mean_square(y, weights)
        # Of w / unit, and divided by 2 unit times the sum of the weights.
        problem = make_problem(
            ScaledHuber, X, y / unit, alpha * unit / total, epsilon=epsilon,
            least_scale=least / unit, weights=weights, intercept=intercept,
        )  # fmt: skip
        scale, events, is_done, is_due = 1.0, 0, False, True
        while is_due and not is_done:
            left = int(self.max_iter) - events
            # An error of tol s in the predictions is one of tol sqrt(s) in the norm of the Hessian,
            # for an s of which it is known in the end that it was not much too large.
            tolerance = math.sqrt(scale / SMALLER)
            r = self._solve(problem, w / unit, seed, unit=tolerance, most=left)
            w, events = unit * r.x, events + max(int(r.nit), 1)
            before, scale = scale, problem.find_best_scale(w / unit)
            is_done = r.success and SMALLER * scale >= before
            is_due = r.success and events < int(self.max_iter)
        scale, residuals = unit * scale, y - blas.product(X, w[:d]) - w[d:].sum()
        self.coef_, self.intercept_, self.scale_ = w[:d], float(w[d:].sum()), scale
        self.outliers_ = np.abs(residuals) > scale * epsilon
        self.n_iter_ = max(events, 1)
        self._warn_unless(is_done, events)
        return self

    def _find_first(
        self, X: Any, y: Array, weights: Array | None, epsilon: float
    ) -> tuple[Array, float]:
        """Find where to start, the last fit or the intercept alone, and the unit of y there."""
        d, intercept = X.shape[1], bool(self.fit_intercept)
        start = self._find_start(1, d)
        w = (np.zeros(d + 1) if start is None else start.ravel())[: d + intercept]
        is_new = start is None and intercept
        if is_new:
            w[d] = np.median(y if weights is None else y[weights > 0.0])
        unit, is_scale = _find_unit(y - blas.product(X, w[:d]) - w[d:].sum(), weights, epsilon)
        if is_new and not is_scale:
            # Where most rows have the median itself, as counts may, the scale there says nothing.
            w[d] = np.average(y, weights=weights)
            unit, _ = _find_unit(y - w[d], weights, epsilon)
        return w, unit

    def predict(self, X: Any) -> Any:
        """Predict Xw + b."""
        return as_given(self._score(X), X)


def _find_unit(residuals: Array, weights: Array | None, epsilon: float) -> tuple[float, bool]:
    """Find the scale of residuals, or their size where most would be outliers at it; and tell
    whether it is the scale."""
    size, scale = root_mean_square(residuals, weights), find_scale(residuals, epsilon, weights)
    return (scale, True) if scale > NO_SCALE * size else (size, False)


class ContinuizedLogisticRegression(ClassifierMixin, LinearEstimator):
    """Logistic regression: minimises C sum_i weight_i loss_i + |w|^2 / 2, as scikit-learn's own.

    The loss is the logistic one for two classes and that of the softmax for more.

    Parameters
    ----------
    C : float > 0
        The inverse of the regularisation; infinity for none.
    fit_intercept : bool
        Whether there is an intercept for each class, which is not penalised.
    l1_ratio : float
        The penalty is l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2, with 0 the usual one.
    tol : float
        How exactly to solve, as in scikit-learn's own: no entry of the gradient (of the mean of the
        losses) is larger, for columns smaller than 1 in their own units; or the error of the
        decision function (root mean square) is at most twice this.  Where l1_ratio > 0, the norm of
        the gradient mapping.
    class_weight : None, "balanced", or {class: weight}
        Multiplies the weights of the rows; "balanced" gives each class the same total.
    verbose : int
        Above 0, a progress bar is shown on standard error.
    max_iter, random_state, warm_start
        As in `ContinuizedRidge`.

    Attributes: classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_.

    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0]], ["no", "no", "yes", "yes"]
    >>> model = ContinuizedLogisticRegression(random_state=0).fit(X, y)
    >>> model.predict([[-3.0], [3.0]]).tolist()
    ['no', 'yes']
    """

    classes_: Array

    def __init__(
        self,
        C: float = 1.0,
        *,
        l1_ratio: float = 0.0,
        fit_intercept: bool = True,
        tol: float = 1e-4,
        max_iter: int = 1000,
        class_weight: Any = None,
        verbose: int = 0,
        random_state: Any = None,
        warm_start: bool = False,
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.warm_start = warm_start

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> ContinuizedLogisticRegression:
        """Fit to the rows of X, weighted if sample_weight (numbers >= 0) is given."""
        C = check.real(self.C, "C", above=0.0, finite=False, other="infinity")
        ratio = check.real(self.l1_ratio, "l1_ratio", minimum=0.0, maximum=1.0)
        X, y, weights = self._check_data(X, y, sample_weight)
        labels, weights = self._label_rows(y, weights)
        count, d = len(self.classes_), X.shape[1]
        penalty = 1.0 / (C * (len(labels) if weights is None else float(weights.sum())))
        l1, l2 = ratio * penalty, (1.0 - ratio) * penalty
        times = OFFSET if ratio == 0.0 else PROXIMAL_OFFSET
        offsets = find_offsets(X, weights, times) if self.fit_intercept else None
        X = X if offsets is None else X - offsets
        X, scales = (X, np.ones(d)) if ratio == 0.0 else equalise_columns(X, weights)
        options: dict[str, Any] = {"weights": weights, "intercept": self.fit_intercept}
        smooth = l2 if ratio == 0.0 else 0.0
        if count == 2:
            problem = make_problem(LogisticRegression, X, 2.0 * labels - 1.0, smooth, **options)
        else:
            problem = make_problem(SoftmaxRegression, X, labels, smooth, classes=count, **options)
        prox = None if ratio == 0.0 else make_prox(problem, l1, l2, False, scales)
        columns = 1 if count == 2 else count
        start = self._find_start(columns, d)
        w0 = np.zeros(problem.dim)
        if start is not None:
            if offsets is not None:
                start[d] += offsets @ start[:d]
            w0 = (start * np.append(scales, 1.0)[:, np.newaxis]).ravel()[: problem.dim]
        unit = 1.0 if prox is not None else 2.0  # the curvature of the loss is at most 1/4
        r = self._solve(problem, w0, self._draw_seed(), prox=prox, unit=unit, slope=SLOPE)
        W = r.x.reshape(-1, columns)
        self.coef_ = np.ascontiguousarray((W[:d] / scales[:, np.newaxis]).T)
        self.intercept_ = W[d:].sum(axis=0)
        if count > 2:
            self.intercept_ -= self.intercept_.mean()  # free: a common constant changes nothing
        if offsets is not None:
            self.intercept_ -= self.coef_ @ offsets
        self._set_iterations([r])
        return self

    def _label_rows(self, y: Array, weights: Array | None) -> tuple[Array, Array | None]:
        """Label the rows 0, 1, ..., and multiply their weights by those of their classes."""
        are_labels = y.dtype.kind in LABELS
        if not are_labels:
            check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if are_labels and MANY_CLASSES * len(self.classes_) > len(y):
            check_classification_targets(y)  # for its warning
        check_classes(self.classes_, labels, weights)
        if self.class_weight is None:
            return labels, weights
        rows = np.ones(len(y)) if weights is None else weights
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(labels, rows)
            factors = totals.sum() / (len(totals) * totals)
        elif isinstance(self.class_weight, dict):
            factors = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        else:
            what = 'None, "balanced" or a dictionary'
            error = ValueError if isinstance(self.class_weight, str) else TypeError
            raise check.refusal(error, "class_weight", what, self.class_weight)
        weights = np.asarray(rows * factors[labels])
        check_classes(self.classes_, labels, weights)  # a class may have the weight 0
        return labels, weights

    def decision_function(self, X: Any) -> Any:
        """Score the rows: the second of two classes (rows,), or each class (rows, classes)."""
        return as_given(self._decide(X), X)

    def _decide(self, X: Any) -> Array:
        scores = self._score(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Any:
        """Predict the most probable class of each row."""
        scores = self._decide(X)
        index = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return as_given(np.asarray(self.classes_[index]), X)

    def predict_log_proba(self, X: Any) -> Any:
        """Predict the logarithm of the probability of each class, also where that underflows."""
        return as_given(self._find_log_proba(X), X)

    def _find_log_proba(self, X: Any) -> Array:
        scores = self._decide(X)
        if scores.ndim == 1:
            return np.asarray(-np.logaddexp(0.0, np.stack([scores, -scores], axis=1)))
        return np.asarray(log_softmax(scores, axis=1))

    def predict_proba(self, X: Any) -> Any:
        """Predict the probability of each class, in the order of classes_."""
        return as_given(np.exp(self._find_log_proba(X)), X)


def check_classes(classes: Array, labels: Array, weights: Array | None) -> None:
    """Raise ValueError unless there are two classes, and rows of positive weight in each.

    A class without weight would drive its intercept to minus infinity.
    """
    if len(classes) < 2:
        (one,) = classes.tolist()
        raise ValueError(f"y holds only one class, {short_repr(one)}: at least 2 are needed")
    empty = np.flatnonzero(~(np.bincount(labels, weights) > 0.0))
    if empty.size:
        label = short_repr(classes.tolist()[empty[0]])
        raise ValueError(
            f"the class {label} has no row of positive weight: drop its rows, or give them weight"
        )


def __dir__() -> list[str]:
    return sorted(__all__)
