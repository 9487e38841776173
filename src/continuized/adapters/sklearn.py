"""Estimators for scikit-learn: ridge regression and l2-regularised logistic regression.

The problems are scikit-learn's divided by the sum of the weights, a mean over the rows, so that
`tol` means the same for any number of rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax

from continuized.problems import LeastSquares, LogisticRegression, SoftmaxRegression
from continuized.problems.base import Array
from continuized.problems.regression.data import check_format, check_weights
from continuized.process import clock
from continuized.process.random_streams import seed_sequence
from continuized.process.stepper import Limits
from continuized.solver.loop import Loop
from continuized.solver.metric import make_factory
from continuized.solver.result import Result
from continuized.solver.steppers.adaptive import AdaptiveOptions, AdaptiveStepper
from continuized.support import validation as check
from continuized.support.validation import short_repr

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils import check_array, check_random_state, compute_class_weight
    from sklearn.utils.extmath import safe_sparse_dot
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        'the estimators need scikit-learn >= 1.6: run pip install "continuized[sklearn]"',
        name="sklearn",
    ) from error

__all__ = ["ContinuizedLogisticRegression", "ContinuizedRidge"]

FLOATS = (np.float64, np.float32)  # X is used as it is; other numbers become float64
LARGEST_SEED = 2**31 - 1


class LinearEstimator(BaseEstimator):
    """Checks what a fit is given, finds its start, counts its iterations, and scores."""

    fit_intercept: Any
    tol: Any
    max_iter: Any
    random_state: Any
    warm_start: Any
    coef_: Array
    intercept_: Any

    def _check_data(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> tuple[Any, ...]:
        """Check X, y and the weights of the rows, and return them; no weights are None."""
        check.real(self.tol, "tol", minimum=0.0, finite=False)
        check.flag(self.fit_intercept, "fit_intercept")
        check.flag(self.warm_start, "warm_start")
        most = check.real(
            self.max_iter, "max_iter", minimum=1.0, maximum=float(check.LARGEST), noun="an integer"
        )
        if not most.is_integer():  # floats such as 1e4 are taken
            raise check.refusal(ValueError, "max_iter", "an integer >= 1", self.max_iter)
        _check_sparse(X)
        options |= {"accept_sparse": "csr", "dtype": FLOATS, "order": "C"}
        with _refuse_huge("X or y"):
            X, y = validate_data(self, X, y, **options)
        if sample_weight is None:
            return X, y, None
        n = X.shape[0]
        if check.is_real(sample_weight):
            sample_weight = np.full(n, check.real(sample_weight, "sample_weight", minimum=0.0))
        with _refuse_huge("sample_weight"):
            weights = check_array(
                sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
            )
        return X, y, check_weights(weights, n, "sample_weight")

    def _find_start(self, targets: int, features: int) -> Array | None:
        """Return the coefficients and, in a row below, the intercepts of the last fit, if asked."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        coef = np.atleast_2d(self.coef_)
        if coef.shape != (targets, features):
            raise ValueError(
                f"warm_start: the last fit left coefficients of shape {coef.shape}, but these data "
                f"need {(targets, features)}; set warm_start=False"
            )
        return np.vstack([coef.T, np.broadcast_to(self.intercept_, targets)])

    def _draw_seed(self) -> int | None:
        """Draw a seed; None leaves NumPy's global random state alone."""
        if self.random_state is None:
            return None
        try:
            state = check_random_state(self.random_state)
        except ValueError as error:  # whose words may be many lines
            what = "None, an integer or a RandomState"
            raise check.refusal(ValueError, "random_state", what, self.random_state) from error
        return int(state.randint(LARGEST_SEED))

    def _solve(self, problem: Any, w0: Array, seed: int | None) -> Result:
        """Find the minimiser from w0.

        tol is that of the gradient in the dual norm of the Hessian, which is the norm of the error
        in the Hessian's: the error of the predictions, whatever the scales of the columns.
        """
        root, tol = seed_sequence(seed), check.as_float(self.tol)
        factory = make_factory("auto", problem, root)
        options = AdaptiveOptions(tol, factory=factory, record=False, certified=False)
        stepper = AdaptiveStepper(problem, w0, options)
        loop = Loop(stepper, clock.Poisson(root).stream(), Limits(tol, int(self.max_iter)))
        loop.run()
        return loop.result()

    def _set_iterations(self, results: list[Result]) -> None:
        """Keep the numbers of iterations, and warn where tol was not reached."""
        n_iter = [int(r.nit) for r in results]
        self.n_iter_ = np.maximum(np.array(n_iter, dtype=np.intp), 1)
        if not all(r.success for r in results):
            warnings.warn(
                f"{type(self).__name__} took {max(n_iter)} iterations (max_iter = "
                f"{self.max_iter}) without reaching tol = {self.tol}: raise one of them, or "
                "regularise more",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _score(self, X: Any) -> Array:
        """Compute X coef^T + intercept."""
        check_is_fitted(self)
        _check_sparse(X)
        with _refuse_huge("X"):
            X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ContinuizedRidge(MultiOutputMixin, RegressorMixin, LinearEstimator):
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
        alphas = check_alphas(self.alpha, count)
        start, rng = self._find_start(count, X.shape[1]), self._draw_seed()
        starts = [None] * count if start is None else start.T
        fits = [
            self._fit_one(X, target, weights, alpha, start, rng)
            for target, alpha, start in zip(targets.T, alphas, starts, strict=True)
        ]
        coefs, intercepts, results = map(list, zip(*fits, strict=True))
        self.coef_ = coefs[0] if count == 1 else np.stack(coefs)
        self.intercept_ = 0.0
        if self.fit_intercept:
            self.intercept_ = intercepts[0] if np.ndim(y) == 1 else np.array(intercepts)
        self._set_iterations(results)
        return self

    def _fit_one(
        self, X: Any, y: Array, weights: Any, alpha: float, start: Array | None, seed: int | None
    ) -> tuple[Array, float, Result]:
        """Fit one target: coefficients, intercept, and the result of the run.

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
        r = self._solve(problem, w0, seed)
        return scale * r.x[:d], middle + scale * float(r.x[d:].sum()), r

    def predict(self, X: Any) -> Array:
        """Predict Xw + b."""
        return self._score(X)


class ContinuizedLogisticRegression(ClassifierMixin, LinearEstimator):
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
    class_weight : None, "balanced", or {class: weight}
        Multiplies the weights of the rows; "balanced" gives each class the same total.
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
        r = self._solve(problem, w0, self._draw_seed())
        W = r.x.reshape(-1, columns)
        self.coef_ = np.ascontiguousarray(W[:d].T)
        self.intercept_ = W[d:].sum(axis=0)
        if count > 2:
            self.intercept_ -= self.intercept_.mean()  # free: a common constant changes nothing
        self._set_iterations([r])
        return self

    def _label_rows(self, y: Array, weights: Array | None) -> tuple[Array, Array | None]:
        """Label the rows 0, 1, ..., and multiply their weights by those of their classes."""
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
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

    def decision_function(self, X: Any) -> Array:
        """Score the rows: the second of two classes (rows,), or each class (rows, classes)."""
        scores = self._score(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """Predict the most probable class of each row."""
        scores = self.decision_function(X)
        index = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def predict_log_proba(self, X: Any) -> Array:
        """Predict the logarithm of the probability of each class, also where that underflows."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.asarray(-np.logaddexp(0.0, np.stack([scores, -scores], axis=1)))
        return np.asarray(log_softmax(scores, axis=1))

    def predict_proba(self, X: Any) -> Array:
        """Predict the probability of each class, in the order of classes_."""
        return np.exp(self.predict_log_proba(X))


def check_alphas(alpha: Any, targets: int) -> Array:
    """Check alpha, and return a finite number >= 0 for each target."""
    noun = "a number, or one for each target"
    alphas = check.array(alpha, "alpha", dtype=np.float64, minimum=0.0, noun=noun)
    if alphas.ndim > 1 or alphas.size not in (1, targets):
        what = f"one number, or one for each of {targets} targets"
        raise check.refusal(ValueError, "alpha", what, alpha)
    return np.broadcast_to(alphas.ravel(), targets)


def check_classes(classes: Array, labels: Array, weights: Array | None) -> None:
    """Raise ValueError unless there are two classes, and rows of positive weight in each.

    A class without weight would drive its intercept to minus infinity.
    """
    if len(classes) < 2:
        raise ValueError(f"y holds only one class, {short_repr(classes[0])}: at least 2 are needed")
    empty = np.flatnonzero(~(np.bincount(labels, weights) > 0.0))
    if empty.size:
        label = short_repr(classes[empty[0]])
        raise ValueError(
            f"the class {label} has no row of positive weight: drop its rows, or give them weight"
        )


def root_mean_square(y: Array, weights: Array | None) -> float:
    """Compute that of y, or 1 where it is 0; by way of y / max |y|, as squares may overflow."""
    largest = float(np.abs(y).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    mean = float(np.average((y / largest) ** 2, weights=weights))
    return largest * math.sqrt(mean) if mean > 0.0 else 1.0


@contextmanager
def _refuse_huge(what: str) -> Iterator[None]:
    """Say what scikit-learn does not: that an integer is too large for a float."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(
            f"{what} has an integer in it that is too large for a float; drop its row, or scale it"
        ) from error


def _check_sparse(X: Any) -> None:
    """Refuse wrong indices, which scikit-learn would follow to anywhere in memory."""
    from scipy import sparse

    if sparse.issparse(X) and X.ndim == 2:
        check_format(X)
