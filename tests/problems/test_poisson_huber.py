"""Poisson's and Huber's regression: against 40 digits, scikit-learn and SciPy."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import minimize_scalar

import continuized as cz
from continuized.problems import losses
from continuized.problems.regression.huber import ScaledHuber
from tests.helpers.weighted_regressions import EXTRAS, FORMS, by_definition, make

HuberRegression, PoissonRegression = cz.problems.HuberRegression, cz.problems.PoissonRegression
FAR = st.floats(-1e3, 1e3)


def by_mpmath(kind: float, prediction: float, y: float) -> tuple[Any, Any]:
    """The loss and its slope from their definitions, with 40 digits."""
    p, y = mp.mpf(prediction), mp.mpf(y)
    if kind == losses.POISSON:
        return mp.exp(p) - y * p, mp.exp(p) - y
    delta, r = mp.mpf(-kind), p - y
    if abs(r) <= delta:
        return r**2 / 2, r
    return delta * (abs(r) - delta / 2), delta * mp.sign(r)


@settings(max_examples=200, deadline=None)
@given(FAR, st.floats(0.0, 1e3), st.sampled_from([losses.POISSON, -1e-3, -0.5, -40.0]))
def test_a_loss_and_its_slope_have_all_their_digits(p: float, y: float, kind: float) -> None:
    if kind == losses.POISSON:
        p *= 0.7  # exp(700) is a float
    with mp.workdps(40):
        value, slope = by_mpmath(kind, p, y)
        # A few roundings of the terms of each difference, and what that of p - y does to the loss.
        if kind == losses.POISSON:
            of_slope, of_value = mp.exp(p) + y, mp.exp(p) + abs(y * p)
        else:
            of_slope = abs(p) + y
            of_value = abs(value) + abs(slope) * of_slope + of_slope**2 * math.ulp(1.0)
        eps, least = 4.0 * math.ulp(1.0), 1e-320
        assert abs(losses.loss(kind, p, y) - value) <= eps * of_value + least
        assert abs(losses.loss_slope(kind, p, y) - slope) <= eps * of_slope + least


def test_far_out_a_loss_is_infinite_or_linear_and_raises_nothing() -> None:
    assert losses.loss(losses.POISSON, 1e4, 1.0) == math.inf
    assert losses.loss_slope(losses.POISSON, 1e4, 1.0) == math.inf
    assert losses.loss(losses.POISSON, -1e300, 0.0) == 0.0
    assert losses.loss(-2.0, 1e300, 0.0) == 2e300
    assert math.isnan(losses.loss_slope(-2.0, math.nan, 0.0))


@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
def test_the_parabolas_lie_above_hubers_losses(form: str, weighted: bool, intercept: bool) -> None:
    p = make("huber", form, weighted, intercept)
    rng = np.random.default_rng(1)
    w = rng.standard_normal(p.dim)
    rows, q = p.sample_curvatures(w, slice(None))
    residuals = p.predictions(w, slice(None)) - p.y
    assert np.any(np.abs(residuals) > p.delta)
    assert np.any(np.abs(residuals) < p.delta)
    np.testing.assert_array_equal(q[np.abs(residuals) <= p.delta], 1.0)
    rows = rows.toarray() if p.is_sparse else rows
    hessian = rows.T @ (q[:, None] * rows) / len(p.y)
    f, g = p.value_and_gradient(w)
    for scale in (0.01, 1.0, 100.0):
        move = scale * rng.standard_normal(p.dim)
        penalty = p.l2 * float(move[: p.X.shape[1]] @ move[: p.X.shape[1]])
        above = f + g @ move + 0.5 * (move @ hessian @ move + penalty)
        assert p.fun(w + move) <= above * (1.0 + 1e-12)


@pytest.mark.parametrize("metric", ["gram", "diag", "nystrom", None])
@pytest.mark.parametrize("kind", ["poisson", "huber"])
def test_minimize_in_every_metric(kind: str, metric: str | None) -> None:
    p = make(kind, "sparse", True, True, l2=0.05)
    r = cz.minimize(p, np.zeros(p.dim), metric=metric, tol=1e-10, rng=0)
    assert r.success
    theirs = scipy_minimize(lambda w: by_definition(p, kind, w), np.zeros(p.dim), method="BFGS")
    assert r.fun <= theirs.fun + 1e-12
    np.testing.assert_allclose(r.x, theirs.x, atol=1e-4)


@pytest.mark.parametrize("mean", [1e-2, 1.0, 1e4])
@pytest.mark.parametrize("form", FORMS)
def test_poisson_is_that_of_scikit_learn(form: str, mean: float) -> None:
    from sklearn.linear_model import PoissonRegressor

    rng = np.random.default_rng(2)
    X = rng.standard_normal((300, 4))
    y = rng.poisson(mean * np.exp(0.3 * X[:, 0])).astype(float)
    p = PoissonRegression(FORMS[form](X), y, l2=0.01, intercept=True)
    theirs = PoissonRegressor(alpha=0.01, tol=1e-12, max_iter=10_000).fit(X, y)
    expected = np.append(theirs.coef_, theirs.intercept_)
    r = cz.minimize(p, np.zeros(5), method="auto", tol=1e-9, rng=0)
    assert r.success
    np.testing.assert_allclose(r.x, expected, atol=1e-4)
    np.testing.assert_allclose(p.x_star, r.x, atol=1e-6)
    assert np.linalg.norm(p.grad(p.x_star)) <= 1e-13 * mean * 300


@pytest.mark.parametrize("l2", [1e-6, 100.0])
def test_tol_is_for_the_gap_in_a_metric_alone(l2: float) -> None:
    """Without one it is for the gradient norm, be the gap far below or far above it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 5))
    p = PoissonRegression(X, rng.poisson(np.exp(0.3 * X.sum(axis=1))).astype(float), l2=l2)
    plain = cz.minimize(p, np.zeros(5), tol=1e-3, rng=0)
    assert (plain.success, plain.gap) == (True, None)
    assert plain.message == "The gradient norm is at most tol."
    assert 1e-5 < np.linalg.norm(p.grad(plain.x)) <= 1e-3
    made = cz.minimize(p, np.zeros(5), metric="gram", tol=1e-3, rng=0)
    assert made.message == "The duality gap is at most tol."
    assert made.gap == pytest.approx(np.sum(p.grad(made.x) ** 2) / (2.0 * l2))


def test_huber_with_a_large_delta_is_least_squares() -> None:
    X, y = np.random.default_rng(3).standard_normal((2, 40, 1))
    p = HuberRegression(X, y.ravel(), 0.1, delta=1e3, intercept=True)
    q = cz.problems.LeastSquares(X, y.ravel(), 0.1, intercept=True)
    w = np.array([2.0, -1.0])
    assert p.fun(w) == pytest.approx(q.fun(w), rel=1e-14)
    np.testing.assert_allclose(p.grad(w), q.grad(w), rtol=1e-13)
    assert pytest.approx(q.L) == p.L


def test_outliers_pull_no_harder_than_delta() -> None:
    X = np.ones((5, 1))
    near = HuberRegression(X, [0.0, 0.1, 0.2, 0.3, 10.0], delta=0.5)
    far = HuberRegression(X, [0.0, 0.1, 0.2, 0.3, 1e9], delta=0.5)
    fits = [cz.minimize(p, np.zeros(1), method="auto", tol=1e-10, rng=0).x[0] for p in (near, far)]
    assert fits[0] == pytest.approx(fits[1], abs=1e-6)
    assert fits[0] == pytest.approx(0.275, abs=1e-6)  # 0.6 + 0.5 = 4 w


@pytest.mark.parametrize("extras", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_the_best_scale_at_each_point(form: str, extras: bool) -> None:
    """The least value over the scale, by SciPy; its gradient, by differences; and warm starts."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((40, 3)).astype(np.float32).astype(np.float64)
    y = X @ [1.0, -2.0, 0.5] + rng.standard_t(2, 40)
    weights = rng.uniform(0.2, 3.0, 40) if extras else np.ones(40)
    options: dict[str, Any] = {"weights": weights, "intercept": True} if extras else {}
    p = ScaledHuber(FORMS[form](X), y, 0.1, epsilon=1.35, least_scale=1e-9, **options)

    def joint(s: float, w: np.ndarray) -> float:
        z = np.abs(y - X @ w[:3] - w[3:].sum()) / s
        h = np.where(z <= 1.35, z**2, 2.7 * z - 1.35**2)
        return float(0.5 * np.average(s + s * h, weights=weights) + 0.05 * w[:3] @ w[:3])

    for size in (0.1, 3.0, 100.0, 0.0):  # the scale of the point before is far off
        w = size * rng.standard_normal(p.dim)
        best = minimize_scalar(joint, (0.1, 1.0), args=(w,), tol=1e-12)
        assert p.fun(w) == pytest.approx(best.fun, rel=1e-10)
        assert p.find_best_scale(w) == pytest.approx(abs(best.x), rel=1e-5)
        differences = [(p.fun(w + 1e-5 * e) - p.fun(w - 1e-5 * e)) / 2e-5 for e in np.eye(p.dim)]
        np.testing.assert_allclose(p.grad(w), differences, rtol=1e-5, atol=1e-6)
        second = [(p.grad(w + 1e-6 * e) - p.grad(w - 1e-6 * e)) / 2e-6 for e in np.eye(p.dim)]
        np.testing.assert_allclose(p.find_second_derivative(w), second, rtol=1e-5, atol=1e-6)
    exact = ScaledHuber(X, X @ [1.0, -2.0, 0.5], 0.0, epsilon=1.35, least_scale=1e-3)
    assert exact.find_best_scale(np.array([1.0, -2.0, 0.5])) == 1e-3


def test_what_has_no_bound_is_not_claimed() -> None:
    p = PoissonRegression(np.eye(2), [1.0, 3.0], l2=1e-4, intercept=True)
    assert p.L is None
    assert p.mu == 0.0
    assert np.all(np.isinf(p.coordinate_L))
    np.testing.assert_allclose(p.column_scales, [2.0 / 2 + 1e-4, 2.0 / 2 + 1e-4, 2.0])
    with pytest.raises(ValueError, match="the smoothness constant is not known: give L="):
        cz.minimize(p, np.zeros(3), method="nesterov")
    assert PoissonRegression(np.eye(2), [0.0, 0.0], l2=0.1, intercept=True).x_star is None
    assert PoissonRegression(np.eye(2), [0.0, 1.0], l2=0.0).x_star is None


@pytest.mark.parametrize("kind", [HuberRegression, PoissonRegression])
def test_wide_data_take_a_method_that_knows_the_loss(kind: Any) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((20, 400)), rng.poisson(1.0, 20)
    r = cz.minimize(kind(X, y, 0.1), np.zeros(400), method="auto", rng=0)
    assert r.success
    for method in (cz.DualCoordinate(), cz.CoordinateDescent()):
        with pytest.raises(TypeError, match=f"LogisticRegression, got {kind.__name__}"):
            cz.minimize(kind(X, y, 0.1), np.zeros(400), method=method)


def test_refused() -> None:
    with pytest.raises(ValueError, match=r"y must be counts >= 0, but y\[1\] is -2.0 \(1 such ent"):
        PoissonRegression(np.eye(2), [1, -2])
    for delta in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="delta must be a finite number > 0, got"):
            HuberRegression(sparse.eye(2), [1, 2], delta=delta)
    with pytest.raises(TypeError, match="delta must be a"):
        HuberRegression(np.eye(2), [1, 2], delta="1")  # type: ignore[arg-type]
