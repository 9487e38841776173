"""The sparse, Poisson and Huber estimators agree with scikit-learn's, and with their objectives."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    ElasticNet,
    HuberRegressor,
    Lasso,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)

from continuized.adapters.sklearn import (
    ContinuizedElasticNet,
    ContinuizedHuberRegressor,
    ContinuizedLasso,
    ContinuizedLogisticRegression,
    ContinuizedPoissonRegressor,
    ContinuizedRidge,
)
from tests.helpers.sklearn_data import CLOSE, agree, classification, given, regression, weights_of

pytestmark = pytest.mark.blas

BOTH = pytest.mark.parametrize("weighted", [False, True])
INTERCEPT = pytest.mark.parametrize("intercept", [False, True])
FORMS = pytest.mark.parametrize("form", ["dense", "int32"])


def sparse_data(n: int = 80, d: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Columns that are alike, and a target of few of them with a large mean."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.8) + 0.5
    X[:, 1:] += 0.7 * X[:, :-1]
    return X, 30.0 + 5.0 * X[:, 0] - 3.0 * X[:, 4] + rng.standard_normal(n)


def counts(n: int = 120, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    X, _ = regression(n, d)
    y = np.random.default_rng(1).poisson(np.exp(0.4 * X[:, 0] - 0.2 * X[:, 1] + 1.0))
    return X, y


def with_outliers(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    X, _ = regression(n)
    rng = np.random.default_rng(2)
    y = 3.0 + X @ np.arange(6.0) + 0.3 * rng.standard_normal(n)
    y[::10] += 40.0 * rng.random(len(y[::10]))
    return X, y


# Sparse


@FORMS
@BOTH
@INTERCEPT
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("alpha", "l1_ratio"), [(0.01, 1.0), (1.0, 1.0), (0.1, 0.5)])
def test_elastic_net_agrees(
    alpha: float, l1_ratio: float, positive: bool, intercept: bool, weighted: bool, form: str
) -> None:
    X, y = sparse_data()
    weights = weights_of(len(y)) if weighted else None
    options: dict[str, Any] = {"fit_intercept": intercept, "positive": positive}
    theirs = ElasticNet(alpha=alpha, l1_ratio=l1_ratio, tol=1e-13, max_iter=10**6, **options)
    theirs.fit(X, y, weights)
    ours = ContinuizedElasticNet(alpha, l1_ratio=l1_ratio, random_state=0, tol=1e-12, **options)
    agree(ours.fit(given(X, form), y, weights), theirs)
    np.testing.assert_array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    np.testing.assert_allclose(ours.predict(given(X, form)), theirs.predict(X), rtol=1e-6)
    assert ours.sparse_coef_.shape == (1, X.shape[1])


@BOTH
@INTERCEPT
@pytest.mark.parametrize(
    ("form", "positive", "l1_ratio"),
    [("dense", False, 1.0), ("dense", True, 1.0), ("dense", False, 0.5), ("int32", False, 1.0)],
)
def test_more_columns_than_rows(
    form: str, positive: bool, l1_ratio: float, intercept: bool, weighted: bool
) -> None:
    """Fitted by coordinates, but for sparse columns beside an intercept."""
    X, y = sparse_data(30, 60)
    weights = weights_of(len(y)) if weighted else None
    options: dict[str, Any] = {"fit_intercept": intercept, "positive": positive}
    theirs = ElasticNet(alpha=0.3, l1_ratio=l1_ratio, tol=1e-13, max_iter=10**6, **options)
    theirs.fit(X, y, weights)
    ours = ContinuizedElasticNet(0.3, l1_ratio=l1_ratio, tol=1e-12, max_iter=10**5, **options)
    ours.set_params(random_state=0, warm_start=True).fit(given(X, form), y, weights)
    agree(ours, theirs)
    np.testing.assert_array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    first = int(ours.n_iter_[0])
    assert ours.fit(given(X, form), y, weights).n_iter_[0] < first  # from where it ended
    agree(ours, theirs)


@pytest.mark.parametrize("tol", [1.0, 1e-2, 1e-4, 1e-8])
def test_tol_bounds_the_gap_and_that_what_is_left(tol: float) -> None:
    X, y = sparse_data(80, 200)

    def objective(model: Any) -> float:
        r = y - X @ model.coef_ - model.intercept_
        return float(r @ r / (2 * len(y)) + 0.05 * np.abs(model.coef_).sum())

    best = objective(Lasso(0.05, tol=1e-12, max_iter=10**6).fit(X, y))
    for seed in range(3):
        ours = ContinuizedLasso(0.05, tol=tol, random_state=seed).fit(X, y)
        left = objective(ours) - best
        assert left <= ours.dual_gap_ + 1e-9
        assert ours.dual_gap_ <= tol * np.var(y)
        if tol >= 1e-2:  # in units a thousand times as small, the gap is a million times as large
            larger = ContinuizedLasso(50.0, tol=tol, random_state=seed).fit(X, 1000.0 * y)
            assert larger.dual_gap_ == pytest.approx(1e6 * ours.dual_gap_, rel=1e-6)
            assert ours.dual_gap_ > 1e-6


@FORMS
def test_columns_of_any_units(form: str) -> None:
    X, y = sparse_data()
    labels = (y > np.median(y)).astype(int)
    units = 10.0 ** np.random.default_rng(0).integers(-4, 5, X.shape[1])
    scaled = given(X * units, form)
    net = ElasticNet(alpha=0.5, l1_ratio=0.9, tol=1e-14, max_iter=10**6).fit(X * units, y)
    ours = ContinuizedElasticNet(0.5, l1_ratio=0.9, tol=1e-12, random_state=0).fit(scaled, y)
    np.testing.assert_allclose(ours.predict(scaled), net.predict(X * units), rtol=1e-6)
    for model, target in (
        (ours, y),
        (ContinuizedRidge(positive=True, random_state=0), y),
        (ContinuizedLogisticRegression(l1_ratio=0.5, tol=1e-9, random_state=0), labels),
    ):
        assert np.max(model.fit(scaled, target).n_iter_) <= 100


def test_many_targets_of_a_lasso() -> None:
    X, y = sparse_data()
    Y = np.column_stack([y, -2.0 * y + X[:, 2], X[:, 5]])
    ours = ContinuizedLasso(0.1, random_state=0, tol=1e-12).fit(X, Y)
    theirs = Lasso(0.1, tol=1e-13, max_iter=10**6).fit(X, Y)
    agree(ours, theirs)
    assert ours.dual_gap_.shape == ours.n_iter_.shape == (3,)
    assert ours.sparse_coef_.shape == (3, 12)


def test_penalties_that_are_zero_or_everything() -> None:
    X, y = sparse_data()
    least = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    free = ContinuizedLasso(0.0, tol=1e-10, random_state=0).fit(X, y)
    np.testing.assert_allclose(free.coef_, least, **CLOSE)
    assert np.isnan(free.dual_gap_)
    ridge = Ridge(0.1 * len(y), solver="cholesky").fit(X, y)
    agree(ContinuizedElasticNet(0.1, l1_ratio=0.0, tol=1e-10).fit(X, y), ridge)
    none = ContinuizedLasso(1e6).fit(X, y)
    assert not np.any(none.coef_)
    assert none.intercept_ == pytest.approx(y.mean())


@INTERCEPT
@BOTH
def test_positive_ridge_agrees(weighted: bool, intercept: bool) -> None:
    X, y = sparse_data()
    weights = weights_of(len(y)) if weighted else None
    options: dict[str, Any] = {"positive": True, "fit_intercept": intercept}
    theirs = Ridge(1.0, tol=1e-12, max_iter=10**6, **options).fit(X, y, weights)
    ours = ContinuizedRidge(1.0, random_state=0, **options).fit(X, y, weights)
    agree(ours, theirs, rtol=1e-5, atol=1e-5)  # theirs is by L-BFGS
    assert np.any(ours.coef_ == 0.0)


@INTERCEPT
@BOTH
@pytest.mark.parametrize("l1_ratio", [0.3, 1.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_sparse_logistic_regression_agrees(
    classes: int, l1_ratio: float, weighted: bool, intercept: bool
) -> None:
    X, y = classification(classes)
    weights = weights_of(len(y)) if weighted else None
    options: dict[str, Any] = {"C": 0.1, "l1_ratio": l1_ratio, "fit_intercept": intercept}
    theirs = LogisticRegression(solver="saga", tol=1e-12, max_iter=10**5, random_state=0, **options)
    if LogisticRegression().l1_ratio is None:  # before 1.8
        theirs.set_params(penalty="elasticnet")
    theirs.fit(X, y, weights)
    ours = ContinuizedLogisticRegression(tol=1e-9, random_state=0, **options).fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert np.array_equal(ours.coef_ == 0.0, np.abs(theirs.coef_) < 1e-7)


# Counts


@FORMS
@BOTH
@INTERCEPT
@pytest.mark.parametrize("alpha", [0.0, 0.1, 10.0])
def test_poisson_agrees(alpha: float, intercept: bool, weighted: bool, form: str) -> None:
    X, y = counts()
    weights = weights_of(len(y)) if weighted else None
    options: dict[str, Any] = {"alpha": alpha, "fit_intercept": intercept}
    theirs = PoissonRegressor(solver="newton-cholesky", tol=1e-12, **options).fit(X, y, weights)
    ours = ContinuizedPoissonRegressor(random_state=0, tol=1e-9, **options)
    agree(ours.fit(given(X, form), y, weights), theirs)
    np.testing.assert_allclose(ours.predict(given(X, form)), theirs.predict(X), rtol=1e-6)
    own, other = (model.score(X, y, weights) for model in (ours, theirs))
    assert own == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_tol_is_relative_to_the_size_of_the_counts(scale: float) -> None:
    X, y = counts()
    ours = ContinuizedPoissonRegressor(alpha=0.0, random_state=0).fit(X, scale * y)
    exact = ContinuizedPoissonRegressor(alpha=0.0, random_state=0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), scale * exact.predict(X), rtol=1e-3)


# Outliers


def huber_objective(model: Any, X: Any, y: Any, weights: Any) -> float:
    s, e = model.scale_, model.epsilon
    z = np.abs(y - X @ model.coef_ - model.intercept_) / s
    h = np.where(z <= e, z * z, 2.0 * e * z - e * e)
    each = np.ones(len(y)) if weights is None else weights
    return float((each * (s + s * h)).sum() + model.alpha * model.coef_ @ model.coef_)


@FORMS
@BOTH
@INTERCEPT
@pytest.mark.parametrize(
    ("epsilon", "alpha"), [(1.1, 1e-4), (1.35, 1e-4), (1.35, 30.0), (4.0, 1.0)]
)
def test_huber_agrees(
    epsilon: float, alpha: float, intercept: bool, weighted: bool, form: str
) -> None:
    X, y = with_outliers()
    weights = weights_of(len(y)) if weighted else None
    options: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "fit_intercept": intercept}
    theirs = HuberRegressor(tol=1e-9, max_iter=10_000, **options).fit(X, y, weights)
    ours = ContinuizedHuberRegressor(random_state=0, tol=1e-7, **options)
    ours.fit(given(X, form), y, weights)
    agree(ours, theirs, rtol=1e-3, atol=1e-3)  # theirs is by L-BFGS, whose last steps are rough
    assert ours.scale_ == pytest.approx(theirs.scale_, rel=1e-3)
    np.testing.assert_array_equal(ours.outliers_, theirs.outliers_)
    mine, own = (huber_objective(model, X, y, weights) for model in (ours, theirs))
    assert mine <= own * (1.0 + 1e-9)
    # No w, b or s nearby is better: the objective is convex.
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = clone(ours)
        other.coef_ = ours.coef_ + 1e-3 * rng.standard_normal(6)
        other.intercept_ = ours.intercept_ + (1e-3 * rng.standard_normal() if intercept else 0.0)
        other.scale_ = ours.scale_ * (1.0 + 1e-3 * rng.standard_normal())
        assert huber_objective(other, X, y, weights) >= mine * (1.0 - 1e-12)


def test_data_that_are_fitted_exactly_have_no_scale() -> None:
    """Nor may rows that fit by chance at the start, as integers do, let it shrink too early."""
    X, _ = regression(15, 30)
    y = np.arange(15) % 3
    ours = ContinuizedHuberRegressor(random_state=0, alpha=0.0, max_iter=5000).fit(X, y)
    assert ours.scale_ <= 1e-8
    np.testing.assert_allclose(ours.predict(X), y, atol=1e-6)


# What all of them have


MODELS = [
    (ContinuizedLasso(0.05), sparse_data),
    (ContinuizedElasticNet(0.05), sparse_data),
    (ContinuizedPoissonRegressor(), counts),
    (ContinuizedHuberRegressor(), with_outliers),
]


@pytest.mark.parametrize(("model", "make"), MODELS)
def test_warm_starts_and_seeds(model: Any, make: Any) -> None:
    X, y = make()
    fits = [clone(model).set_params(random_state=5).fit(X, y) for _ in range(2)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].intercept_ == fits[1].intercept_
    warm = clone(model).set_params(warm_start=True, random_state=5).fit(X, y)
    first = warm.n_iter_
    warm.fit(X, y)
    assert warm.n_iter_ <= first
    np.testing.assert_allclose(warm.coef_, fits[0].coef_, atol=1e-3)
    with pytest.raises(ValueError, match="warm_start: the last fit left coefficients of shape"):
        warm.fit(X[:, :3], y)


@pytest.mark.parametrize(("model", "make"), MODELS)
def test_too_few_iterations_are_said(model: Any, make: Any) -> None:
    X, y = make()
    with pytest.warns(ConvergenceWarning, match="took 1 iterations") as said:
        clone(model).set_params(max_iter=1, tol=0.0).fit(X, y)
    assert said[0].filename == __file__


def test_verbose_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    X, y = counts()
    ContinuizedPoissonRegressor(verbose=1).fit(X, y)
    assert "ContinuizedPoissonRegressor" in capsys.readouterr().err
    ContinuizedPoissonRegressor().fit(X, y)
    assert not capsys.readouterr().err


@pytest.mark.needs("pandas")
@pytest.mark.parametrize(("model", "make"), MODELS)
def test_frames_keep_their_names(model: Any, make: Any) -> None:
    import pandas as pd

    X, y = make()
    names = [f"column {j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    fitted = clone(model).set_params(random_state=0).fit(frame, pd.Series(y))
    assert fitted.feature_names_in_.tolist() == names
    plain = clone(model).set_params(random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.coef_, plain.coef_)
    np.testing.assert_allclose(fitted.predict(frame), plain.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame[names[::-1]])


ARRAYS = """
import numpy as np, sklearn, array_api_strict, torch
from continuized.adapters.sklearn import ContinuizedLasso, ContinuizedLogisticRegression
X = np.random.default_rng(0).standard_normal((40, 3))
y = X[:, 0] + 0.1 * X[:, 1]
for xp in (array_api_strict, torch):
    for model, target in ((ContinuizedLasso(0.1), y), (ContinuizedLogisticRegression(), y > 0)):
        target = target.astype(np.int64) if target.dtype == bool else target
        model.set_params(random_state=0)
        plain = model.fit(X, target)
        coef, answer = plain.coef_, plain.predict(X)
        A, b = xp.asarray(X), xp.asarray(target)
        for dispatch in (False, True):
            with sklearn.config_context(array_api_dispatch=dispatch):
                fitted = model.fit(A, b)
                assert type(fitted.coef_) is np.ndarray and np.array_equal(fitted.coef_, coef)
                found = fitted.predict(A)
            assert type(found) is (type(A) if dispatch else np.ndarray), (xp, type(found))
            assert np.array_equal(np.asarray(found), answer)
print("done")
"""


@pytest.mark.needs("torch")
@pytest.mark.needs("array_api_strict")
def test_arrays_of_other_libraries() -> None:
    """In a process of its own: SciPy must be told of them before it is imported."""
    result = subprocess.run(
        [sys.executable, "-c", ARRAYS], capture_output=True, text=True, check=False,
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
    )  # fmt: skip
    assert result.stdout == "done\n", result.stderr


def test_default_fits_are_as_exact_as_scikit_learns() -> None:
    """In the objective, to twice what is left there by its own defaults, or to 1e-7 of it."""
    X, y = sparse_data(300)
    labels = (y > np.median(y)).astype(int)

    def logistic(model: Any) -> float:
        margins = (2 * labels - 1) * (X @ model.coef_[0] + model.intercept_)
        return float(np.logaddexp(0.0, -margins).sum() + 0.5 * (model.coef_**2).sum())

    best = logistic(LogisticRegression(solver="newton-cholesky", tol=1e-13).fit(X, labels))
    theirs = logistic(LogisticRegression(max_iter=1000).fit(X, labels)) - best
    for seed in range(3):
        ours = logistic(ContinuizedLogisticRegression(random_state=seed).fit(X, labels)) - best
        assert ours <= max(2.0 * theirs, 1e-7 * best)


def wide_case(kind: str) -> tuple[Any, Any, np.ndarray, np.ndarray, Any]:
    """Two estimators, data of more columns than rows, and the objective of both."""
    rng = np.random.default_rng(7)
    n, d = 100, 800
    X = rng.standard_normal((n, d))
    signal = X[:, :80] @ rng.standard_normal(80) / 9.0
    if kind == "poisson":
        y = rng.poisson(np.exp(0.5 * signal)).astype(np.float64)

        def find_deviance(m: Any) -> float:
            p = X @ m.coef_ + m.intercept_
            return float(np.mean(np.exp(p) - y * p) + 0.5 * m.coef_ @ m.coef_)

        return ContinuizedPoissonRegressor, PoissonRegressor, X, y, find_deviance
    edges = [0.0] if kind == "logistic" else [-0.5, 0.5]
    labels = np.digitize(signal + 0.5 * rng.standard_normal(n), edges)

    def find_loss(m: Any) -> float:
        scores = X @ m.coef_.T + m.intercept_
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros((n, 1)), scores])
        own = log_softmax(scores, axis=1)[np.arange(n), labels]
        return float(-own.sum() + 0.5 * (m.coef_**2).sum())

    return ContinuizedLogisticRegression, LogisticRegression, X, labels, find_loss


@pytest.mark.parametrize("kind", ["logistic", "3 classes", "poisson"])
def test_wide_default_fits_are_as_exact_and_take_as_many_steps(kind: str) -> None:
    """To half as much again as is left by scikit-learn's own, within as many steps and a half."""
    ours, theirs, X, y, find = wide_case(kind)
    best = find(ours(random_state=0, tol=1e-10).fit(X, y))
    its = theirs().fit(X, y)
    fits = [ours(random_state=seed).fit(X, y) for seed in range(3)]
    for fit in fits:
        assert find(fit) - best <= 1.5 * (find(its) - best)
        assert np.max(fit.n_iter_) <= 1.5 * np.max(its.n_iter_)
    # The last step, which is not measured, does not lead away from where a fit begins that is good.
    again = ours(random_state=0, warm_start=True).fit(X, y)
    before = find(again)
    again.fit(X, y)
    assert find(again) <= before + 1e-12 * best


def test_a_fit_ends_where_the_units_of_columns_say_so() -> None:
    """In units a million times as large, slopes are as much smaller, but the fit is no rougher."""
    ours, _, X, y, _ = wide_case("logistic")
    penalised = ours(random_state=0, C=1.0).fit(X, y)
    small = ours(random_state=0, C=1e12).fit(1e-6 * X, y)
    np.testing.assert_allclose(1e-6 * small.coef_, penalised.coef_, atol=1e-4)
    assert small.n_iter_ >= penalised.n_iter_


def test_a_sparse_matrix_of_many_columns() -> None:
    rng = np.random.default_rng(0)
    X = sparse.random_array((200, 2000), density=0.02, rng=rng, format="csr")
    y = np.asarray(X[:, [0, 3, 7]] @ np.array([5.0, -4.0, 3.0])) + 0.05 * rng.standard_normal(200)
    ours = ContinuizedLasso(0.005, random_state=0, tol=1e-8).fit(X, y)
    theirs = Lasso(0.005, tol=1e-10, max_iter=10**5).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert np.count_nonzero(ours.coef_) == np.count_nonzero(theirs.coef_)


@pytest.mark.parametrize("seed", [220, 576])
def test_a_logistic_fit_that_newtons_steps_do_not_end_goes_on(seed: int) -> None:
    """Heavy tails, and columns of scales from 0.01 to 100: two steps lead away from the end."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(10, 200)), int(rng.integers(1, 9))
    X = rng.standard_t(1.5, (n, d)) * 10.0 ** rng.uniform(-2.0, 2.0, d)
    w = 2.0 * rng.standard_normal(d) / np.sqrt(d) / X.std(axis=0)
    C = 10.0 ** rng.uniform(1.0, 5.0)
    y = (X @ w + rng.logistic(size=n) > 0.0).astype(int)
    model = ContinuizedLogisticRegression(C=C, max_iter=1000, random_state=0).fit(X, y)
    A, penalty = np.c_[X, np.ones(n)], np.append(np.full(d, 1.0 / (C * n)), 0.0)
    at = np.append(model.coef_, model.intercept_)
    p = expit(A @ at)
    g = A.T @ (p - y) / n + penalty * at
    H = (A.T * (p * (1.0 - p))) @ A / n + np.diag(penalty)
    assert np.sqrt(g @ np.linalg.solve(H, g)) <= 2e-4


def test_a_huber_fit_that_newtons_steps_do_not_end_goes_on() -> None:
    """Errors of heavy tails, where rows change sides on the way."""
    rng = np.random.default_rng(276)
    n, d = int(rng.integers(8, 200)), int(rng.integers(1, 12))
    X = rng.standard_normal((n, d))
    y = X @ (rng.standard_normal(d) / np.sqrt(d)) + 0.3 * rng.standard_t(1.5, n)
    near, exact = (
        ContinuizedHuberRegressor(tol=tol, epsilon=1.05, max_iter=20_000, random_state=0).fit(X, y)
        for tol in (1e-4, 1e-9)
    )
    error = np.sqrt(np.mean((near.predict(X) - exact.predict(X)) ** 2))
    assert error <= 1e-4 * exact.scale_


def test_labels_are_looked_at_where_they_may_be_wrong() -> None:
    """Of integers, bools and strings only their number can be."""
    X, y = classification(2, n=40)
    few, many = (y > 0).astype(int), np.arange(len(y))
    model = ContinuizedLogisticRegression(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for labels in (few, few.astype(bool), few.astype(str), few.astype(float)):
            model.fit(X, labels)
    with pytest.warns(UserWarning, match="unique classes is greater than 50%"):
        model.fit(X, many)
    with pytest.raises(ValueError, match="Unknown label type"):
        model.fit(X, few + 0.5 * (many % 3))
    with pytest.raises(TypeError, match="bytes"):
        model.fit(X, few.astype("S"))


@BOTH
@pytest.mark.parametrize("ratio", [0.0, 1.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_columns_far_from_zero_are_fitted_as_those_around_it(
    classes: int, ratio: float, weighted: bool
) -> None:
    rng = np.random.default_rng(classes)
    X, w = rng.standard_normal((300, 5)), rng.standard_normal((5, classes))
    labels = (X @ w + rng.gumbel(size=(300, classes))).argmax(axis=1)
    weights = rng.uniform(size=300) if weighted else None
    offsets = np.array([0.0, 1e4, -3e3, 1e6, 2.0])
    model = ContinuizedLogisticRegression(l1_ratio=ratio, tol=1e-7, random_state=0)
    near = clone(model).fit(X, labels, weights)
    far = model.set_params(warm_start=True).fit(X + offsets, labels, weights)
    assert np.allclose(far.coef_, near.coef_, atol=1e-6)
    assert np.allclose(far.predict_proba(X + offsets), near.predict_proba(X), atol=1e-6)
    assert far.fit(X + offsets, labels, weights).n_iter_[0] <= 2  # from where it was


@BOTH
@pytest.mark.parametrize("positive", [False, True])
def test_a_ridge_fit_to_columns_far_from_zero_does_not_warn(positive: bool, weighted: bool) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((300, 8)) + 1e6
        y = X @ rng.uniform(size=8) + rng.standard_normal(300)
        weights = rng.uniform(size=300) if weighted else None
        ours = ContinuizedRidge(positive=positive, warm_start=True, random_state=0)
        theirs = Ridge(positive=positive, tol=1e-10).fit(X, y, weights)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ours.fit(X, y, weights)
            ours.fit(X, y, weights)
        assert np.allclose(ours.coef_, theirs.coef_, atol=1e-6)
        assert np.allclose(ours.predict(X), theirs.predict(X), rtol=1e-9)


@pytest.mark.parametrize("rows", [300, 20_000])
def test_columns_that_are_much_alike_do_not_pass_for_fitted(rows: int) -> None:
    # A diagonal says nothing of what they have in common, here nearly all.
    rng = np.random.default_rng(rows)
    own = rng.standard_normal((rows, 6))
    X, signal = own + 1e5 * rng.standard_normal((rows, 1)), own @ [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]
    labels = (signal + rng.logistic(size=rows) > 0.0).astype(int)
    logistic = ContinuizedLogisticRegression(random_state=0).fit(X, labels)
    poisson = ContinuizedPoissonRegressor(alpha=1e-6).fit(X, rng.poisson(np.exp(0.5 * signal)))
    huber = ContinuizedHuberRegressor().fit(X, signal + rng.standard_normal(rows))
    assert np.corrcoef(logistic.decision_function(X), signal)[0, 1] > 0.9
    assert np.corrcoef(np.log(poisson.predict(X)), signal)[0, 1] > 0.9
    assert np.corrcoef(huber.predict(X), signal)[0, 1] > 0.9


def test_a_fit_that_is_cut_short_beside_a_diagonal_is_no_success() -> None:
    rng = np.random.default_rng(0)
    own, shared = rng.standard_normal((2_000, 100)), 1e6 * rng.standard_normal((2_000, 1))
    signal = own @ rng.standard_normal(100)
    X, labels = np.vstack([own + shared, own - shared]), signal > np.median(signal)
    with pytest.warns(ConvergenceWarning, match="took 1 iterations"):
        ContinuizedLogisticRegression(max_iter=1).fit(X, np.tile(labels, 2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_column_is_not_centred_to_its_rounding(dtype: Any) -> None:
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.standard_normal(500), np.full(500, 0.1)]).astype(dtype)
    y, weights = X[:, 0] + rng.standard_normal(500), rng.uniform(size=500)
    models = [
        ContinuizedLogisticRegression(C=np.inf).fit(X, y > 0.0, weights),
        ContinuizedRidge(alpha=0.0).fit(X, y, weights),  # whose Hessian is singular
        ContinuizedRidge(alpha=0.0, positive=True).fit(X, y, weights),
    ]
    assert all(np.abs(model.coef_).max() < 10.0 for model in models)


def test_rows_without_weight_do_not_say_where_columns_are() -> None:
    rng = np.random.default_rng(1)
    own, weights = rng.standard_normal((300, 2)), np.ones(300)
    X, y, weights[0] = own + 1e9, own @ [1.0, 2.0] + rng.standard_normal(300), 0.0
    for model, target in (
        (ContinuizedLogisticRegression(), y > 0.0),
        (ContinuizedRidge(positive=True), y),
    ):
        before = model.fit(X, target, weights).coef_.copy()
        moved = np.vstack([np.zeros((1, 2)), X[1:]])
        np.testing.assert_array_equal(model.fit(moved, target, weights).coef_, before)
        assert np.all(before > 0.5)


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_a_doubt_does_not_end_in_a_hessian_that_is_singular(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3_000, 40))
    y = X[:, 0] + rng.normal(size=3_000)
    X = np.c_[1e3 * X, np.full(3_000, 100.0)]  # the last is another intercept, without penalty
    model = ContinuizedHuberRegressor(alpha=0.0, tol=0.1, random_state=0).fit(X, y)
    assert 1e3 * model.coef_[0] == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_handwritten_digits_take_few_events(seed: int) -> None:
    """At most 60 to a relative f - f* of 1e-8, which Newton's decrement tells."""
    X, y = load_digits(return_X_y=True)
    n, classes = len(X), 10
    model = ContinuizedLogisticRegression(tol=1e-6, random_state=seed).fit(X, y)
    A, w = np.c_[X, np.ones(n)], np.c_[model.coef_, model.intercept_]
    scores = A @ w.T
    p = softmax(scores, axis=1)
    f = np.mean(logsumexp(scores, axis=1) - scores[np.arange(n), y])
    f += 0.5 * np.sum(model.coef_**2) / n
    penalty = np.append(np.ones(64), 0.0) / n
    g = (p - np.eye(classes)[y]).T @ A / n + penalty * w
    H = np.zeros((classes, 65, classes, 65))
    for j in range(classes):
        for k in range(classes):
            H[j, :, k] = (A.T * (p[:, j] * ((j == k) - p[:, k]))) @ A / n
        H[j, :, j] += np.diag(penalty)
    # The intercepts may all move by the same, along which nothing changes.
    step = np.linalg.lstsq(H.reshape(650, 650), g.ravel(), rcond=1e-13)[0]
    assert 0.5 * g.ravel() @ step <= 1e-8 * f
    assert model.n_iter_[0] <= 60


@pytest.mark.parametrize("seed", range(3))
def test_newtons_last_steps_go_far_beyond_tol(seed: int) -> None:
    """The third one, too: after two, the gradient here is 2e-9 and more in the Hessian's norm."""
    rng = np.random.default_rng(seed)
    X, n = rng.standard_normal((300, 5)), 300
    y = X @ rng.standard_normal(5) + rng.logistic(size=n) > 0.0
    model = ContinuizedLogisticRegression(random_state=0).fit(X, y)
    A, penalty = np.c_[X, np.ones(n)], np.append(np.full(5, 1.0 / n), 0.0)
    w = np.append(model.coef_, model.intercept_)
    p = expit(A @ w)
    g = A.T @ (p - y) / n + penalty * w
    H = (A.T * (p * (1.0 - p))) @ A / n + np.diag(penalty)
    assert np.sqrt(g @ np.linalg.solve(H, g)) <= 3e-10


@FORMS
@BOTH
@INTERCEPT
@pytest.mark.parametrize("alpha", [1e-6, 1e-10, 1e-14, 0.0])
def test_a_ridge_of_few_rows_and_hardly_a_penalty_is_the_solution_of_least_norm(
    alpha: float, intercept: bool, weighted: bool, form: str
) -> None:
    """Steps alone leave parts in the null space of X: 0.01 of |w| at 1e-10, 4 |w| without alpha.

    On its rows X has a condition number below 100, which 1e-11 allows some 500 roundings for.
    """
    X, y = load_digits(return_X_y=True)
    X, y, weights = X[:20] + 0.5, y[:20].astype(float), weights_of(20) if weighted else None
    ours = ContinuizedRidge(alpha=alpha, fit_intercept=intercept, random_state=0)
    ours.fit(given(X, form), y, weights)
    each = np.ones(20) if weights is None else weights
    row = np.average(X, axis=0, weights=each) if intercept else np.zeros(64)
    middle = np.average(y, weights=each) if intercept else 0.0
    A, b = (X - row) * np.sqrt(each)[:, None], (y - middle) * np.sqrt(each)
    U, s, V = np.linalg.svd(A, full_matrices=False)
    U, s, V = U[:, s > 1e-10 * s[0]], s[s > 1e-10 * s[0]], V[s > 1e-10 * s[0]]
    expected = V.T @ (s / (s**2 + alpha) * (U.T @ b))
    assert np.linalg.norm(ours.coef_ - expected) <= 1e-11 * np.linalg.norm(expected)
    np.testing.assert_allclose(ours.predict(X), X @ expected + middle - row @ expected, atol=1e-10)


@pytest.mark.parametrize("shift", [1.0, 30.0])
@pytest.mark.parametrize("classes", [2, 3])
def test_with_an_l1_penalty_the_means_of_columns_take_no_events(classes: int, shift: float) -> None:
    """The proximal run is in the plain norm: 1,000 events were not enough from 10 times on."""
    X, y = classification(classes)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    at_zero = ContinuizedLogisticRegression(l1_ratio=1.0, C=0.5, tol=1e-6, random_state=0).fit(X, y)
    moved = clone(at_zero).fit(X + shift, y)
    assert moved.n_iter_.max() <= at_zero.n_iter_.max() + 20
    np.testing.assert_allclose(moved.coef_, at_zero.coef_, atol=1e-4)
    scores = moved.decision_function(X + shift)
    np.testing.assert_allclose(scores, at_zero.decision_function(X), atol=1e-3)
