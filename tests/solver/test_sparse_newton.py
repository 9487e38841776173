"""Newton's steps on the support of a sparse regression."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import lsq_linear, minimize

import continuized as cz
from continuized.problems.regression.huber import find_scale
from continuized.process import clock
from continuized.process.prox import Separable
from continuized.process.random_streams import seed_sequence
from continuized.process.stepper import Limits, Status
from continuized.solver.loop import Loop
from continuized.solver.metric import Identity
from continuized.solver.result import Result
from continuized.solver.sparse_newton import SupportSolver
from continuized.solver.steppers.adaptive import AdaptiveOptions, AdaptiveStepper
from continuized.solver.steppers.evaluations import Evaluator

pytestmark = pytest.mark.blas


def data(n: int = 60, d: int = 25, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Neighbouring columns are alike, which makes a lasso change its mind about the support."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = 0.9 * X[:, j - 1] + 0.44 * X[:, j]
    w = rng.standard_normal(d) * (rng.random(d) < 0.3)
    return X + 0.5, X @ w + 2.0 + 0.3 * rng.standard_normal(n)


def make(
    kind: str, weighted: bool = False, intercept: bool = True, form: str = "dense", l2: float = 0.0
) -> Any:
    X, y = data()
    weights = np.random.default_rng(1).exponential(1.0, len(y)) if weighted else None
    given: Any = X if form == "dense" else sparse.csr_array(X * (np.abs(X) > 0.8))
    options: dict[str, Any] = {"weights": weights, "intercept": intercept}
    if kind == "squares":
        return cz.problems.LeastSquares(given, y, l2, **options)
    if kind == "logistic":
        return cz.problems.LogisticRegression(given, np.where(y > 2.0, 1.0, -1.0), l2, **options)
    return cz.problems.PoissonRegression(given, np.round(np.abs(y)), l2, **options)


def penalty(p: Any, l1: float, *, positive: bool = False, l2: float = 0.0) -> Separable:
    is_coefficient = np.arange(p.dim) < p.X.shape[1]
    low = np.where(is_coefficient & positive, 0.0, -math.inf)
    return Separable(np.where(is_coefficient, l1, 0.0), np.where(is_coefficient, l2, 0.0), low)


def run(p: Any, prox: Separable, tol: float, *, maxiter: int = 500) -> Result:
    support = SupportSolver(p, prox)
    options = AdaptiveOptions(tol, prox=prox, record=False, certified=False, support=support)
    stepper = AdaptiveStepper(p, np.zeros(p.dim), options)
    loop = Loop(stepper, clock.Poisson(seed_sequence(0)).stream(), Limits(tol, maxiter))
    loop.run()
    return loop.result()


def violation(p: Any, prox: Separable, x: np.ndarray) -> float:
    """How far x is from a fixed point of the proximal gradient step, which a minimiser is."""
    return float(np.abs(x - prox(x - p.grad(x), 1.0)).max())


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("kind", ["squares", "logistic", "poisson"])
def test_few_events_to_rounding(kind: str, intercept: bool, weighted: bool, form: str) -> None:
    p = make(kind, weighted, intercept, form, l2=0.01)
    for l1 in (0.1, 0.02):
        prox = penalty(p, l1)
        r = run(p, prox, 1e-12)
        assert r.status is Status.CONVERGED
        assert r.nit <= 30
        assert violation(p, prox, r.x) <= 1e-11
        assert 0 < np.count_nonzero(r.x) < p.dim


def test_the_run_alone_takes_longer() -> None:
    p = make("squares")
    prox = penalty(p, 0.02)
    quick = run(p, prox, 1e-9)
    plain = cz.minimize(p, np.zeros(p.dim), prox=prox, tol=1e-9, maxiter=100_000, rng=0)
    assert plain.success
    assert 5 * quick.nit < plain.nit
    np.testing.assert_allclose(quick.x, plain.x, atol=1e-6)
    np.testing.assert_array_equal(quick.x == 0.0, plain.x == 0.0)


def test_bounds_without_a_penalty() -> None:
    """Non-negative least squares, against SciPy's active sets."""
    X, y = data()
    p = cz.problems.LeastSquares(X, y)
    r = run(p, penalty(p, 0.0, positive=True), 1e-11)
    star = lsq_linear(X, y, bounds=(0.0, np.inf), method="bvls", tol=1e-15).x
    assert r.success
    assert np.all(r.x >= 0.0)
    np.testing.assert_allclose(r.x, star, atol=1e-8)


def test_more_columns_than_rows() -> None:
    """There the Hessian of a support of many is singular."""
    X, y = data(20, 80)
    p = cz.problems.LeastSquares(X, y, intercept=True)
    for l1 in (0.3, 0.01):
        prox = penalty(p, l1)
        r = run(p, prox, 1e-8, maxiter=3000)
        assert r.success
        assert violation(p, prox, r.x) <= 1e-4


def test_a_column_twice_and_an_empty_one() -> None:
    X, y = data()
    X = np.column_stack([X, X[:, 0], np.zeros(len(y))])
    p = cz.problems.LeastSquares(X, y, intercept=True)
    prox = penalty(p, 0.05)
    r = run(p, prox, 1e-8)
    assert r.success
    assert r.x[-2] == 0.0
    assert violation(p, prox, r.x) <= 1e-6


def test_a_block_of_the_hessian() -> None:
    """Against differences of the gradient."""
    for kind in ("squares", "logistic", "poisson"):
        for form in ("dense", "sparse"):
            p = make(kind, weighted=True, form=form, l2=0.1)
            w = 0.1 * np.random.default_rng(0).standard_normal(p.dim)
            step = 1e-5 * np.eye(p.dim)
            whole = np.array([(p.grad(w + e) - p.grad(w - e)) / 2e-5 for e in step])
            np.testing.assert_allclose(p.hessian_block(w), whole, atol=1e-7)
            for chosen in ([0, 3, 7], [2, p.dim - 1]):
                block = whole[np.ix_(chosen, chosen)]
                np.testing.assert_allclose(p.hessian_block(w, chosen), block, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("epsilon", [1.05, 1.35, 3.0])
def test_the_scale_of_huber(epsilon: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    for count in (1, 2, 7, 50):
        r = rng.standard_cauchy(count)
        weights = rng.exponential(1.0, count) if weighted else None
        each = np.ones(count) if weights is None else weights

        def total(log_s: Any, r: Any = r, each: Any = each) -> float:
            s = math.exp(float(np.squeeze(log_s)))
            z = np.abs(r) / s
            h = np.where(z <= epsilon, z * z, 2 * epsilon * z - epsilon**2)
            return float((each * (s + s * h)).sum())

        s = find_scale(r, epsilon, weights)
        starts = np.log(np.quantile(np.abs(r), [0.01, 0.5, 0.99]) + 1e-12)
        options = {"xatol": 1e-10, "fatol": 1e-14}
        found = min(
            minimize(total, start, method="Nelder-Mead", options=options).fun for start in starts
        )
        assert total(math.log(s)) <= found * (1.0 + 1e-12)
    assert find_scale(np.zeros(3), epsilon) == 0.0
    assert find_scale(np.array([0.0, 0.0, 0.0, 1e-300]), epsilon) >= 0.0


def test_a_run_begins_where_the_steps_on_the_support_end() -> None:
    p = make("squares")
    prox = penalty(p, 0.3)
    options = AdaptiveOptions(1e-8, prox=prox, support=SupportSolver(p, prox))
    stepper = AdaptiveStepper(p, np.zeros(p.dim), options)
    stepper.begin()
    assert violation(p, prox, stepper.last.y) <= 1e-9
    for point in (stepper.x, stepper.z):
        np.testing.assert_array_equal(point, stepper.last.y)
    loop = Loop(
        AdaptiveStepper(p, np.zeros(p.dim), options), clock.Poisson(0).stream(), Limits(1e-8, 9)
    )
    assert loop.run() is Status.CONVERGED
    assert loop.stepper.k == 1
    np.testing.assert_allclose(loop.result().x, stepper.last.y, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", ["squares", "logistic"])
def test_auto_steps_on_the_support_where_nothing_is_kept(loss: str, tmp_path: Path) -> None:
    """Columns of sizes from 1 to 1e4, with which proximal steps alone come to no end."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 6)) * 10.0 ** np.arange(-2, 4)
    y = X @ np.array([30.0, 0.0, 2.0, 0.0, 0.01, 0.0]) + 0.1 * rng.normal(size=80)
    make = {"squares": cz.problems.LeastSquares, "logistic": cz.problems.LogisticRegression}[loss]
    p = make(X, y if loss == "squares" else np.sign(y), intercept=True)
    prox = cz.prox.L1(np.append(np.full(6, 0.05), 0.0))
    r = cz.minimize(p, np.zeros(7), prox=prox, method="auto", tol=1e-7, rng=0)
    assert r.success
    assert r.nit < 20
    assert "Newton's steps on the entries that are not zero" in r.message
    g = p.grad(r.x)
    assert np.all(np.abs(g[:6]) <= 0.05 + 1e-6)  # the optimality of a lasso
    assert np.allclose(g[:6][r.x[:6] != 0.0], -0.05 * np.sign(r.x[:6][r.x[:6] != 0.0]), atol=1e-6)
    kept = cz.minimize(
        p, np.zeros(7), prox=prox, method="auto", rng=0, maxiter=20, checkpoint=tmp_path / "run"
    )
    assert "with checkpoint= there are no Newton's steps on the entries" in kept.message
    other = cz.minimize(p, np.zeros(7), method="auto", rng=0, maxiter=1, checkpoint=tmp_path / "no")
    assert "Newton" not in other.message


@pytest.mark.parametrize("seed", range(8))
def test_coordinate_steps_are_done_where_the_slope_of_the_intercept_is_small_too(seed: int) -> None:
    """Of columns with large means, rounding leaves a slope there that the others do not show."""
    rng = np.random.default_rng(seed)
    X, y, tol = rng.standard_normal((40, 8)) + 100.0, 1e6 * rng.standard_normal(40), 1e-7
    p = cz.problems.LeastSquares(X, y, intercept=True)
    prox = penalty(p, 5e4)
    evaluator = Evaluator(p, np.zeros(9), Identity())
    at = evaluator.evaluate(np.zeros(9))
    support = SupportSolver(p, prox, tol)
    found = support.improve(evaluator, at, at.f)
    assert found is not None
    y_hat, g = found.y, found.g
    slopes = np.where(y_hat != 0.0, g + prox.l1 * np.sign(y_hat), np.maximum(abs(g) - prox.l1, 0.0))
    assert not support.is_done or np.linalg.norm(slopes) <= tol
