"""The estimators for scikit-learn agree with its own solvers, and weights with repeated rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge

from continuized import minimize
from continuized.adapters.sklearn import ContinuizedLogisticRegression, ContinuizedRidge
from continuized.problems import SoftmaxRegression
from tests.helpers.sklearn_data import (
    CLOSE,
    agree,
    classification,
    given,
    logistic,
    regression,
    weights_of,
)

pytestmark = pytest.mark.blas


@pytest.mark.parametrize("form", ["dense", "int32", "int64"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("alpha", [1e-3, 1.0, 300.0])
def test_ridge_agrees(alpha: float, intercept: bool, weighted: bool, form: str) -> None:
    X, y = regression()
    weights = weights_of(len(y)) if weighted else None
    theirs = Ridge(alpha, fit_intercept=intercept, solver="cholesky").fit(X, y, weights)
    ours = ContinuizedRidge(alpha, fit_intercept=intercept, random_state=0)
    agree(ours.fit(given(X, form), y, weights), theirs)
    np.testing.assert_allclose(ours.predict(given(X, form)), theirs.predict(X), rtol=1e-6)


@pytest.mark.parametrize("form", ["dense", "int32", pytest.param("int64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("C", [1e-3, pytest.param(1.0, marks=pytest.mark.slow), 100.0])
@pytest.mark.parametrize("classes", [2, 5])
def test_logistic_regression_agrees(
    classes: int, C: float, intercept: bool, weighted: bool, form: str
) -> None:
    X, y = classification(classes)
    weights = weights_of(len(y)) if weighted else None
    ours = ContinuizedLogisticRegression(C, fit_intercept=intercept, random_state=0, tol=1e-10)
    theirs = logistic(ours).fit(X, y, weights)
    agree(ours.fit(given(X, form), y, weights), theirs)
    for name in ("decision_function", "predict_proba", "predict_log_proba", "predict"):
        mine, own = getattr(ours, name)(given(X, form)), getattr(theirs, name)(X)
        np.testing.assert_allclose(mine, own, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 5])
def test_logistic_regression_agrees_with_lbfgs(classes: int) -> None:
    X, y = classification(classes)
    theirs = LogisticRegression(tol=1e-12, max_iter=10_000).fit(X, y)
    agree(ContinuizedLogisticRegression(random_state=0, tol=1e-10).fit(X, y), theirs)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_few_steps_on_handwritten_digits(seed: int) -> None:
    """At most 60 to a relative 1e-8 of the objective, from nearly separable data with C = 1."""
    X, y = load_digits(return_X_y=True)
    p = SoftmaxRegression(X, y, 1.0 / len(y), intercept=True)
    theirs = logistic(ContinuizedLogisticRegression()).fit(X, y)
    best = p.fun(np.vstack([theirs.coef_.T, theirs.intercept_]))
    r = minimize(p, np.zeros(p.dim), metric="auto", tol=0.0, maxiter=60, rng=seed)
    assert -1e-12 <= r.fun / best - 1.0 <= 1e-8
    agree(ContinuizedLogisticRegression(random_state=seed, tol=1e-10).fit(X, y), theirs)


SCALES = 10.0 ** np.array([-3, 3, 0, -1, 2, 4])


def test_columns_of_very_different_scale() -> None:
    # Compared by what they add to a prediction: a column of size 1e4 has a coefficient of 1e-4.
    X, y = regression()
    ours = ContinuizedRidge(1e-2, random_state=0).fit(X * SCALES, y)
    theirs = Ridge(1e-2, solver="cholesky").fit(X * SCALES, y)
    np.testing.assert_allclose(ours.coef_ * SCALES, theirs.coef_ * SCALES, **CLOSE)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, **CLOSE)
    for classes in (2, 5):
        X, y = classification(classes)
        model = ContinuizedLogisticRegression(random_state=0, tol=1e-9).fit(X * SCALES, y)
        own = logistic(model).fit(X * SCALES, y)
        np.testing.assert_allclose(model.coef_ * SCALES, own.coef_ * SCALES, **CLOSE)
        np.testing.assert_allclose(model.intercept_, own.intercept_, **CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0}, {0: 0.5, 1: 2.0}])
def test_class_weights(class_weight: Any, classes: int, weighted: bool) -> None:
    X, y = classification(classes)
    if class_weight == {0: 3.0}:
        class_weight = {k: 3.0 if k == 0 else 1.0 for k in range(classes)}
    elif isinstance(class_weight, dict):
        class_weight = {k: class_weight.get(k, 1.0) for k in range(classes)}
    keep = (y != 0) | (np.arange(len(y)) % 3 == 0)
    X, y = X[keep], y[keep]
    weights = weights_of(len(y)) if weighted else None
    ours = ContinuizedLogisticRegression(class_weight=class_weight, random_state=0, tol=1e-10)
    agree(ours.fit(X, y, weights), logistic(ours).fit(X, y, weights))


@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_many_targets(targets: int, intercept: bool) -> None:
    X, y = regression(targets=targets)
    alphas = np.array([0.1, 10.0, 0.0])[:targets]
    for alpha in (2.0, alphas):
        ours = ContinuizedRidge(alpha, fit_intercept=intercept, random_state=0).fit(X, y)
        theirs = Ridge(alpha, fit_intercept=intercept, solver="cholesky").fit(X, y)
        agree(ours, theirs)
        assert ours.predict(X).shape == theirs.predict(X).shape
        assert ours.n_iter_.shape == (targets,)
    with pytest.raises(ValueError, match="alpha must be one number, or one for each of"):
        ContinuizedRidge([1.0] * 4).fit(X, y)


@pytest.mark.parametrize("form", ["dense", "int32"])
def test_weights_are_repeated_rows(form: str) -> None:
    counts = np.random.default_rng(2).integers(0, 4, 80)
    X, y = regression()
    one = ContinuizedRidge(random_state=0).fit(given(X, form), y, counts)
    two = ContinuizedRidge(random_state=0).fit(given(X.repeat(counts, 0), form), y.repeat(counts))
    agree(one, two)
    for classes in (2, 5):
        X, y = (part[:80] for part in classification(classes))
        model = ContinuizedLogisticRegression(random_state=0, tol=1e-10)
        one = clone(model).fit(given(X, form), y, counts)
        two = clone(model).fit(given(X.repeat(counts, 0), form), y.repeat(counts))
        agree(one, two)
