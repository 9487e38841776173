"""Runs in metrics: to the minimum, in flat places, at all scales and shapes."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized import Status
from continuized.problems.regression.huber import ScaledHuber
from continuized.process.random_streams import seed_sequence
from continuized.solver.metric_factory import make_factory
from tests.helpers.metric_problems import RNG, definite, regression

pytestmark = pytest.mark.blas

NAMED = ("auto", "gram", "blocks", "nystrom", "diag")


def newton(p: Any) -> tuple[np.ndarray, float]:
    """The minimiser and the minimum, by Newton's method with an exact Hessian written here."""
    X = p.X.toarray() if p.is_sparse else p.X
    w = np.zeros(p.dim)
    for _ in range(60):
        m = X @ w
        q = 1.0 / (2.0 + 2.0 * np.cosh(m)) if p.curvature == 0.25 else np.ones_like(m)
        H = (X.T * q) @ X / len(m) + p.l2 * np.eye(p.dim)
        step = np.linalg.solve(H, p.grad(w))
        while p.fun(w - step) > p.fun(w) + 1e-13:
            step *= 0.5
        w = w - step
    assert np.linalg.norm(p.grad(w)) < 1e-12
    return w, p.fun(w)


@pytest.mark.parametrize("metric", NAMED)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_regressions(kind: str, form: str, metric: str) -> None:
    p = regression(kind, form, 1e-3)
    star, best = newton(p)
    r = cz.minimize(p, np.ones(8), metric=metric, tol=1e-10, rng=0)
    assert r.status is Status.CONVERGED
    assert r.message.startswith("The duality gap is at most tol.")
    assert -1e-14 <= r.fun - best <= r.gap + 1e-14
    assert r.gap <= 1e-10
    assert r.constants["metrics_made"] >= 1
    np.testing.assert_allclose(r.x, star, atol=1e-3)
    flat = regression(kind, form, 0.0)
    r = cz.minimize(flat, np.ones(8), metric=metric, tol=1e-9, rng=0)
    assert (r.gap, r.message) == (None, "The gradient norm is at most tol.")
    assert abs(r.fun - newton(flat)[1]) <= 1e-8


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_the_gap_is_that_of_the_dual(kind: str) -> None:
    """f(w) minus the dual at a = -(slopes at w): mean -loss*(-a) - l2/2 |X^T a / (n l2)|^2."""
    p = regression(kind, l2=0.05)
    best = newton(p)[1]
    for maxiter in (1, 3, 8):
        r = cz.minimize(p, 2.0 * np.ones(8), metric="diag", maxiter=maxiter, rng=0)
        m = p.X @ r.x
        if kind == "squared":
            slope = m - p.y
            conjugate = 0.5 * slope**2 + slope * p.y
        else:
            b = 1.0 / (1.0 + np.exp(p.y * m))  # slope = -y b, and loss*(-y b) is the entropy
            slope = -p.y * b
            conjugate = b * np.log(b) + (1.0 - b) * np.log1p(-b)
        u = p.X.T @ slope / len(m)
        dual = -conjugate.mean() - u @ u / (2.0 * p.l2)
        assert r.gap == pytest.approx(r.fun - dual, rel=1e-9)
        assert dual <= best <= r.fun


@pytest.mark.parametrize("metric", NAMED)
def test_flat_places_and_empty_columns(metric: str) -> None:
    """Far away the losses are straight lines; an empty column has no curvature at all."""
    p = regression("logistic", l2=1e-3)
    far = cz.minimize(p, np.full(8, 1e4), metric=metric, tol=1e-8, rng=0)
    assert far.fun == pytest.approx(newton(p)[1], rel=1e-7)
    X = p.X.copy()
    X[:, 3] = 0.0
    for data in (X, 0.0 * X):
        empty = cz.problems.LogisticRegression(data, p.y, l2=0.0)
        r = cz.minimize(empty, np.ones(8), metric=metric, rng=0)
        assert (r.success, r.x[3]) == (True, 1.0)


@pytest.mark.parametrize("metric", ["gram", "nystrom", "diag"])
def test_the_user_is_told_of_data_that_can_be_separated(metric: str) -> None:
    X = RNG(0).standard_normal((60, 4))
    p = cz.problems.LogisticRegression(X, np.sign(X[:, 0]), l2=0.0)
    for tol, maxiter in ((1e-6, 5000), (0.0, 300)):
        r = cz.minimize(p, np.zeros(4), metric=metric, tol=tol, maxiter=maxiter, rng=0)
        assert "x separates the data" in r.message
    mixed = cz.minimize(regression("logistic", l2=0.0), np.zeros(8), metric=metric)
    assert "separates" not in mixed.message


@pytest.mark.parametrize("metric", NAMED)
def test_shapes_seeds_and_float32(metric: str) -> None:
    p = regression("logistic")
    flat = cz.minimize(p, np.ones(8), metric=metric, tol=1e-9, rng=3)
    for shape in ((2, 4), (8, 1)):
        r = cz.minimize(p, np.ones(shape), metric=metric, tol=1e-9, rng=3)
        np.testing.assert_array_equal(r.x, flat.x.reshape(shape))
    small = cz.minimize(p, np.ones(8, np.float32), metric=metric, tol=1e-6, rng=3)
    assert (small.x.dtype, small.success) == (np.float32, True)


def test_a_metric_for_the_rows_of_a_matrix() -> None:
    """P for each column is the block-diagonal metric of all entries."""
    H, P = np.diag([1.0, 5.0, 30.0]), definite(3)
    x0 = RNG(4).standard_normal((3, 2))
    options: dict[str, Any] = {"jac": lambda x: H @ x, "L": 500.0, "maxiter": 25, "rng": 0}
    r = cz.minimize(lambda x: 0.5 * float(np.sum(x * (H @ x))), x0, metric=P, **options)
    for c in range(2):
        one = cz.minimize(lambda x: 0.5 * float(x @ H @ x), x0[:, c], metric=P, **options)
        np.testing.assert_allclose(r.x[:, c], one.x, atol=1e-12)


# Scales, sizes and threads


@pytest.mark.parametrize("scale", [1e6, 1e9])
@pytest.mark.parametrize("metric", ["gram", "nystrom"])
def test_large_columns_beside_an_intercept(scale: float, metric: str) -> None:
    """A floor relative to the largest column would hide the intercept: "converged" far away."""
    Z = RNG(0).standard_normal((200, 2))
    y = np.where(RNG(1).random(200) < 0.9, 1.0, -1.0)
    plain = cz.problems.LogisticRegression(Z, y, l2=0.0, intercept=True)
    best = cz.minimize(plain, np.zeros(3), metric="gram", tol=1e-10, rng=0).fun
    p = cz.problems.LogisticRegression(scale * Z, y, l2=0.0, intercept=True)
    r = cz.minimize(p, np.zeros(3), metric=metric, tol=1e-6, rng=0, maxiter=300)
    assert not r.success or r.fun - best <= 1e-6
    if metric == "gram":
        assert r.success
        assert r.nit < 40


def dependent(kind: str, form: str, seed: int) -> Any:
    """A regression without a penalty whose columns depend on each other: what is 1 for each of
    three groups, two sums of these, and an intercept."""
    rng = RNG(seed)
    groups = np.eye(3)[rng.integers(0, 3, 200)]
    X = np.hstack([groups, groups @ rng.standard_normal((3, 2))])
    X = sparse.csr_array(X) if form == "csr" else X
    if kind == "scaled Huber":
        y = rng.standard_t(1.5, 200)
        return ScaledHuber(X, y, 0.0, epsilon=1.0, least_scale=1e-9, intercept=True)
    if kind == "softmax":
        return cz.problems.SoftmaxRegression(X, rng.integers(0, 3, 200), l2=0.0, intercept=True)
    if kind == "logistic":
        y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
        return cz.problems.LogisticRegression(X, y, l2=0.0, intercept=True)
    return cz.problems.LeastSquares(X, rng.standard_normal(200), intercept=True)


@pytest.mark.parametrize("metric", ["gram", "blocks"])
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kind", ["squared", "logistic", "softmax", "scaled Huber"])
def test_columns_that_depend_on_each_other(kind: str, form: str, metric: str) -> None:
    """Rounding makes their Hessians indefinite, dense or sparse, whole or in blocks."""
    for seed in range(5):
        p = dependent(kind, form, seed)
        r = cz.minimize(p, np.zeros(p.dim), metric=metric, tol=1e-9, rng=0)
        assert r.success
        assert np.linalg.norm(p.grad(r.x)) < 1e-5


def test_data_that_no_metric_can_be_made_of() -> None:
    A = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0], [1.0, 1.0]])
    signs = [1.0, -1.0, 1.0, -1.0]
    for metric in NAMED:
        p = cz.problems.LogisticRegression(1e155 * A, signs, l2=0.0)
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="squares overflow"):
            cz.minimize(p, np.zeros(2), metric=metric)
        with pytest.raises(ValueError, match="no variables"):
            cz.minimize(cz.problems.LeastSquares(np.zeros((3, 0)), np.ones(3)), [], metric=metric)
        empty = cz.problems.LogisticRegression(
            sparse.csr_array((4, 2)), signs, l2=0.0, intercept=True
        )
        assert cz.minimize(empty, np.zeros(3), metric=metric, rng=0).success


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", [(6, 2), (2, 6)])
@pytest.mark.parametrize("metric", [*NAMED, "rows"])
def test_squares_that_overflow_are_told_in_a_sentence(
    metric: str, shape: tuple[int, int], intercept: bool
) -> None:
    """Whether the scales of the columns are asked for, or the metric shows it by itself."""
    X = 1e160 * RNG(0).standard_normal(shape)
    p = cz.problems.LeastSquares(X, np.ones(len(X)), l2=1e300, intercept=intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="squares overflow"):
            cz.minimize(p, np.zeros(p.dim), metric=metric)


def test_a_slow_diagonal_is_left_sooner() -> None:
    X, y = RNG(0).standard_normal((400, 12)), np.sign(RNG(1).standard_normal(400))
    p = cz.problems.LogisticRegression(X, y, 1e-3)
    learning, plain = (
        make_factory("gram", p, seed_sequence(0), learns) for learns in (True, False)
    )
    assert learning.leaves_diagonal
    for left, steps in ((41.0, 6), (math.inf, 6), (40.0, 12), (1.0, 12)):
        assert learning.steps_before_renewal("diag", left) == steps
        assert learning.steps_before_renewal("gram", left) == learning.steps["gram"]
    assert plain.steps_before_renewal("gram", math.inf) == plain.steps["gram"]
