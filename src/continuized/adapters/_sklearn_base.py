"""What the estimators for scikit-learn share: checks, starts, runs and scores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.problems.regression.data import check_format, check_weights
from continuized.process.prox import Separable
from continuized.process.random_streams import seed_sequence
from continuized.solver.array_api import copy, namespace
from continuized.solver.fit import Fit, fit_regression
from continuized.support import blas
from continuized.support import validation as check
from continuized.support.progress import warn_caller

try:
    from sklearn import get_config
    from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import d2_tweedie_score
    from sklearn.utils import check_array, check_random_state, compute_class_weight
    from sklearn.utils.extmath import safe_sparse_dot
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        'the estimators need scikit-learn >= 1.8: run pip install "continuized[sklearn]"',
        name="sklearn",
    ) from error

__all__ = [
    "OFFSET",
    "PROXIMAL_OFFSET",
    "ClassifierMixin",
    "Fit",
    "LinearEstimator",
    "MultiOutputMixin",
    "RegressorMixin",
    "as_given",
    "as_numpy",
    "check_alphas",
    "check_classification_targets",
    "compute_class_weight",
    "d2_tweedie_score",
    "equalise_columns",
    "find_mean",
    "find_offsets",
    "make_problem",
    "make_prox",
    "root_mean_square",
]

FLOATS = (np.float64, np.float32)  # X is used as it is; other numbers become float64
LARGEST_SEED = 2**31 - 1
OFFSET = 100.0  # times the spread of a column: its mean is taken off,
PROXIMAL_OFFSET = 0.25  # and where the run is in the plain norm, in which means take events


class LinearEstimator(BaseEstimator):
    """Checks what a fit is given, finds its start, counts its iterations, and scores."""

    fit_intercept: Any
    tol: Any
    max_iter: Any
    random_state: Any
    warm_start: Any
    coef_: Array
    intercept_: Any
    n_iter_: Any

    def _check_data(self, X: Any, y: Any, sample_weight: Any, **options: Any) -> tuple[Any, ...]:
        """Check X, y and the weights of the rows, and return them; no weights are None."""
        check.real(self.tol, "tol", minimum=0.0, finite=False)
        check.flag(self.fit_intercept, "fit_intercept")
        check.flag(self.warm_start, "warm_start")
        most = check.real(self.max_iter, "max_iter", minimum=1.0, noun="an integer")
        check.real(most, "max_iter", maximum=float(check.LARGEST), noun="an integer")
        if not most.is_integer():  # floats such as 1e4 are taken
            raise check.refusal(ValueError, "max_iter", "an integer >= 1", self.max_iter)
        X, y, sample_weight = as_numpy(X), as_numpy(y), as_numpy(sample_weight)
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
        if type(self.random_state) is int and 0 <= self.random_state <= LARGEST_SEED:
            return self.random_state
        try:
            state = check_random_state(self.random_state)
        except (TypeError, ValueError) as error:  # whose words may be many lines
            what = "None, an integer or a RandomState"
            raise check.refusal(ValueError, "random_state", what, self.random_state) from error
        return int(state.randint(LARGEST_SEED))

    def _solve(
        self,
        problem: Any,
        w0: Array,
        seed: int | None,
        *,
        prox: Separable | None = None,
        unit: float = 1.0,
        slope: float | None = None,
        most: int | None = None,
    ) -> Fit:
        """Find the minimiser from w0, in at most so many events, to tol in a unit."""
        verbose = check.whole(getattr(self, "verbose", 0), "verbose", minimum=0)
        return fit_regression(
            problem, w0, seed_sequence(seed), unit * check.as_float(self.tol),
            int(self.max_iter) if most is None else most,
            prox=prox, unit=unit, slope=slope, title=type(self).__name__ if verbose else "",
        )  # fmt: skip

    def _set_iterations(self, results: list[Fit]) -> None:
        """Keep the numbers of iterations, and warn where tol was not reached."""
        n_iter = [int(r.nit) for r in results]
        self.n_iter_ = np.maximum(np.array(n_iter, dtype=np.intp), 1)
        self._warn_unless(all(r.success for r in results), max(n_iter))

    def _warn_unless(self, success: bool, n_iter: int) -> None:
        """Warn where tol was not reached."""
        if not success:
            warn_caller(
                f"{type(self).__name__} took {n_iter} iterations (max_iter = "
                f"{self.max_iter}) without reaching tol = {self.tol}: raise one of them, or "
                "regularise more",
                ConvergenceWarning,
            )

    def _score(self, X: Any) -> Array:
        """Compute X coef^T + intercept."""
        check_is_fitted(self)
        X = as_numpy(X)
        _check_sparse(X)
        with _refuse_huge("X"):
            X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)
        return np.asarray(safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def equalise_columns(X: Any, weights: Array | None) -> tuple[Any, Array]:
    """Return X with columns of the mean square 1, a copy, and what they were divided by.

    A proximal run is in the plain norm: without that, it would take the slowest column's time.
    """
    squares = X.multiply(X) if hasattr(X, "multiply") else X * X
    each = np.ones(X.shape[0]) if weights is None else weights
    means = blas.transposed_product(squares, each).ravel() / each.sum()
    scales = np.sqrt(np.where(means > 0.0, means, 1.0)).astype(X.dtype)
    if not hasattr(X, "multiply"):
        return X / scales, scales
    X = X.copy()
    X.data /= scales[X.indices]
    return X, scales


def find_offsets(X: Any, weights: Array | None, times: float = OFFSET) -> Array | None:
    """Return the means of the columns of a dense X that are so many times their spread, 0 for
    others; None where no column is so.

    With an intercept, it is all the same whether they are taken off; but in products of columns
    that are nearly constant the digits are lost by which they differ.  Of a column that is constant
    nothing but rounding would be left.  Rows of no weight do not count.
    """
    if not isinstance(X, np.ndarray):
        return None
    if weights is not None and not weights.all():
        X, weights = X[weights > 0.0], weights[weights > 0.0]
    some = X[[0, len(X) // 2, -1]]  # by which most X are known to have no such column
    with np.errstate(over="ignore", invalid="ignore"):
        high, low = some.max(axis=0), some.min(axis=0)
        if not (np.maximum(high, -low) > times * (high - low)).any():
            return None
        means = np.average(X.astype(np.float64, copy=False), axis=0, weights=weights)
        spread = np.sqrt(np.average((X - means) ** 2, axis=0, weights=weights))
        is_offset = np.abs(means) > times * spread
    is_offset &= X.max(axis=0) > X.min(axis=0)
    return np.where(is_offset, means, 0.0).astype(X.dtype) if is_offset.any() else None


def make_problem(kind: Any, X: Any, y: Array, l2: float, **options: Any) -> Any:
    """Make a regression of what was checked before; of a sparse X it puts the entries in order."""
    make = kind.of_checked if isinstance(X, np.ndarray) and X.flags.aligned else kind
    return make(X, y, l2, **options)


def make_prox(problem: Any, l1: float, l2: float, positive: bool, scales: Array) -> Separable:
    """Make the prox of l1 |w|_1 + l2/2 |w|^2 and, if positive, w >= 0, none of it for an intercept,
    for the coefficients w times these scales."""
    each = np.repeat(np.asarray(scales, np.float64), problem.classes)
    free = np.zeros(problem.dim - len(each))
    low = np.full(len(each), 0.0 if positive else -math.inf)
    return Separable(
        np.append(l1 / each, free), np.append(l2 / each**2, free), np.append(low, free - math.inf)
    )


def as_numpy(x: Any) -> Any:
    """Return an array of another library as one of NumPy, on the host; anything else as it is."""
    if namespace(x) is None:
        return x
    x = copy(x)
    for to_host in ("cpu", "get"):  # of PyTorch, and of CuPy
        x = getattr(x, to_host)() if hasattr(x, to_host) else x
    try:
        return np.asarray(x)
    except TypeError:
        return np.from_dlpack(x)


def as_given(answer: Array, X: Any) -> Any:
    """Return an answer in the library of X, on its device, where scikit-learn is configured so."""
    xp = namespace(X)
    if xp is None or answer.dtype.kind not in "fiu" or not get_config()["array_api_dispatch"]:
        return answer
    return xp.asarray(answer, device=X.device)


def check_alphas(alpha: Any, targets: int) -> Array:
    """Check alpha, and return a finite number >= 0 for each target."""
    noun = "a number, or one for each target"
    alphas = check.array(alpha, "alpha", dtype=np.float64, minimum=0.0, noun=noun)
    if alphas.ndim > 1 or alphas.size not in (1, targets):
        what = f"one number, or one for each of {targets} targets"
        raise check.refusal(ValueError, "alpha", what, alpha)
    return np.full(targets, alphas.ravel())


def find_mean(y: Array, weights: Array | None) -> float:
    """Compute that of y, weighted; `np.average` is slow on few numbers."""
    return float(y.mean() if weights is None else np.average(y, weights=weights))


def root_mean_square(y: Array, weights: Array | None) -> float:
    """Compute that of y, or 1 where it is 0; by way of y / max |y|, as squares may overflow."""
    largest = float(np.abs(y).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    mean = find_mean((y / largest) ** 2, weights)
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
