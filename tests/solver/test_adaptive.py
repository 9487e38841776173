"""Unknown constants: L found on the way, restarts in place of mu, and what the user is told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized import Status
from continuized.solver.metric import Diagonal, Identity
from continuized.solver.steppers.adaptive import AdaptiveStepper
from continuized.solver.steppers.evaluations import Evaluation, Evaluator
from continuized.solver.stopping import Criterion
from tests.invariants.registry import (
    USER_STAR,
    numba_grad,
    same_bits,
    user_both,
    user_fun,
    user_grad,
)

X0 = np.array([0.3, -1.0, 4.0])


class Counted:
    """A quadratic whose constants nobody is told; counts and keeps the points asked."""

    def __init__(self, eigenvalues: Any, star: Any, scale: float = 1.0) -> None:
        self.known = cz.problems.Quadratic(scale * np.asarray(eigenvalues), star)
        self.values = self.gradients = 0  # calls
        self.points: list[np.ndarray] = []

    def fun(self, x: np.ndarray) -> float:
        self.values += 1
        return self.known.fun(x)

    def grad(self, x: np.ndarray) -> np.ndarray:
        self.gradients += 1
        self.points.append(np.array(x))
        return self.known.grad(x)

    def both(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        return self.fun(x), self.grad(x)


# How many gradients


@pytest.mark.parametrize(("far", "scale"), [(1.0, 1e-8), (1.0, 1e8), (1e6, 1.0)])
@pytest.mark.parametrize(("condition", "d"), [(1e1, 3), (1e2, 50), (1e3, 10), (1e4, 50), (1e5, 5)])
def test_the_gradients_of_hidden_constants(
    condition: float, d: int, far: float, scale: float
) -> None:
    """At most twice those of the run that is told L and mu; both to |g| <= 1e-8 |g_0|."""
    rng = np.random.default_rng(3)
    hidden = Counted(np.geomspace(1.0 / condition, 1.0, d), rng.standard_normal(d), scale)
    x0 = hidden.known.x_star + far * rng.standard_normal(d)
    tol = 1e-8 * float(np.linalg.norm(hidden.known.grad(x0)))
    for seed in range(2):
        informed = cz.minimize(hidden.known, x0, tol=tol, rng=seed, record=False)
        hidden.gradients = 0
        r = cz.minimize(hidden.both, x0, jac=True, tol=tol, rng=seed)
        assert (r.status, informed.status) == (Status.CONVERGED, Status.CONVERGED)
        assert np.linalg.norm(r.jac) <= tol
        assert hidden.gradients <= 2 * informed.njev


def test_restarts_are_worth_it() -> None:
    """They stand in for mu: without them, the rate would be that of mu = 0."""
    hidden = Counted(np.geomspace(1e-3, 1.0, 20), np.ones(20))
    r = cz.minimize(hidden.both, np.zeros(20), jac=True, tol=1e-10, rng=0)
    convex = cz.minimize(hidden.known, np.zeros(20), mu=0.0, tol=1e-10, rng=0)
    assert r.nit < 0.25 * convex.nit
    assert 1e-3 * (1 - 1e-9) <= r.constants["mu_estimate"] <= 1.1e-2
    assert 1e-3 <= r.constants["L"] <= 1.05  # of the directions that are left


@pytest.mark.parametrize("both", [True, False])
def test_evaluations_are_counted(both: bool) -> None:
    hidden = Counted([0.1, 1.0, 7.0], [1.0, 2.0, 3.0])
    fun, jac = (hidden.both, True) if both else (hidden.fun, hidden.grad)
    r = cz.minimize(fun, X0, jac=jac, tol=1e-8, rng=0)
    assert r.nfev == r.njev == hidden.values == hidden.gradients
    assert r.nfev == r.nit + 1  # the first estimate of L; no event costs a second evaluation
    assert len(r.trace) == r.nit + 1


# What is left alone, and what repeats


@pytest.mark.parametrize("shape", [(6,), (2, 3), (6, 1), (1, 2, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: Any) -> None:
    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        assert (x.shape, x.dtype) == (shape, dtype)
        g = (x - 1.0) * np.arange(1, 7, dtype=dtype).reshape(shape)
        f = 0.5 * float(np.sum((x - 1.0) * g))
        x[...] = 7.0  # the user may write into what is theirs
        return f, g

    x0 = np.full(shape, 3.0, dtype)
    for metric in (None, np.linspace(1.0, 2.0, 6), np.diag(np.linspace(1.0, 2.0, 6))):
        r = cz.minimize(both, x0, jac=True, metric=metric, tol=1e-4, rng=0)
        assert r.success
        assert (r.x.shape, r.x.dtype, r.jac.dtype) == (shape, dtype, dtype)
        np.testing.assert_allclose(r.x, 1.0, atol=1e-4)
    assert np.all(x0 == 3.0)


def test_a_number_for_x0() -> None:
    r = cz.minimize(lambda x: (float((x - 2.0) ** 2), 2.0 * (x - 2.0)), 5.0, jac=True, rng=0)
    assert (r.success, r.x.shape, float(r.x)) == (True, (), pytest.approx(2.0))


def test_the_same_seed_gives_the_same_bits() -> None:
    runs = [cz.minimize(user_both, X0, jac=True, tol=1e-9, rng=s) for s in (4, 4, 5)]
    assert same_bits(runs[0].x, runs[1].x)
    assert same_bits(runs[0].trace.fun, runs[1].trace.fun)
    assert not same_bits(runs[0].trace.t, runs[2].trace.t)


def test_clocks() -> None:
    r = cz.minimize(user_both, X0, jac=True, tol=1e-9, rng=4)
    again = cz.minimize(user_both, X0, jac=True, tol=1e-9, clock=cz.clock.Recorded(r.trace.t[1:]))
    np.testing.assert_allclose(again.x, r.x, atol=1e-12)
    unit = cz.minimize(user_both, X0, jac=True, tol=1e-9, clock=cz.clock.Unit())
    assert (unit.success, unit.trace.t.tolist()) == (True, list(range(unit.nit + 1)))
    short = cz.clock.Recorded([0.5, 1.0, 1.7])
    ended = cz.minimize(user_both, X0, jac=True, tol=1e-9, clock=short)
    assert (ended.status, ended.nit) == (Status.CLOCK_ENDED, 3)
    assert cz.minimize(user_both, X0, jac=True, clock=short).status is Status.COMPLETED


def test_a_numba_gradient() -> None:
    r = cz.minimize(user_fun, X0, jac=numba_grad, tol=1e-8, rng=0)
    np.testing.assert_allclose(r.x, USER_STAR, atol=1e-7)


# Stopping


def test_callbacks() -> None:
    seen: list[Any] = []

    def scipy_style(intermediate_result: Any) -> None:
        seen.append(intermediate_result)
        if len(seen) == 7:
            raise StopIteration

    r = cz.minimize(user_fun, X0, jac=user_grad, callback=scipy_style, rng=0)
    assert (r.status, r.nit, r.success) == (Status.CALLBACK, 7, False)
    assert [s.nit for s in seen] == list(range(1, 8))
    assert all(s.fun == user_fun(s.x) for s in seen)
    assert same_bits(seen[-1].x, r.x)
    points: list[Any] = []
    cz.minimize(user_fun, X0, jac=user_grad, callback=points.append, rng=0, maxiter=4)
    assert [p.shape for p in points] == [(3,)] * 4


def test_maxiter_and_tol() -> None:
    r = cz.minimize(user_both, X0, jac=True, maxiter=5, rng=0)
    assert (r.status, r.nit, r.success) == (Status.COMPLETED, 5, True)
    assert r.fun == min(r.trace.fun)
    assert user_fun(r.x) == r.fun
    r = cz.minimize(user_both, X0, jac=True, maxiter=5, tol=1e-12, rng=0, record=False)
    assert (r.status, r.success, len(r.trace)) == (Status.MAXITER, False, 2)
    for start, status in ((X0, Status.MAXITER), (USER_STAR, Status.CONVERGED)):
        r = cz.minimize(user_both, start, jac=True, maxiter=0, tol=1e-9)
        assert (r.status, r.nit, same_bits(r.x, start)) == (status, 0, True)


def test_starts_where_nothing_is_to_be_done() -> None:
    for fun in (user_both, lambda x: (4.0, np.zeros_like(x))):
        r = cz.minimize(fun, USER_STAR, jac=True, tol=1e-9, rng=0)
        assert (r.status, r.nit) == (Status.CONVERGED, 1)
        np.testing.assert_array_equal(r.x, USER_STAR)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: (float(x.sum()), np.ones_like(x)),
        lambda x: (-float(x @ x), -2.0 * x),
        lambda x: (float(x @ x), -2.0 * x),
        lambda x: (float(x @ x) if np.array_equal(x, X0) else math.nan, 2.0 * x),
        lambda x: (0.0 if not x.any() else math.nan, np.ones_like(x)),
    ],
    ids=["unbounded", "concave", "a wrong sign", "finite at the start only", "at 0 only"],
)
def test_hopeless_functions_end(fun: Any) -> None:
    for x0 in (X0, np.zeros(3)):
        r = cz.minimize(fun, x0, jac=True, tol=1e-6, maxiter=1500, rng=0)
        assert r.status is not Status.COMPLETED
        assert np.all(np.isfinite(r.x))
        assert r.status is Status.NOT_FINITE or r.success == bool(np.linalg.norm(r.jac) <= 1e-6)


@pytest.mark.parametrize("f0", [math.nan, math.inf, 1e200])
def test_a_start_that_is_not_finite(f0: float) -> None:
    r = cz.minimize(lambda x: (f0, np.full_like(x, 1e200)), X0, jac=True, rng=0)
    assert (r.status, r.nit, r.nfev, r.success) == (Status.NOT_FINITE, 0, 1, False)
    np.testing.assert_array_equal(r.x, X0)


@pytest.mark.parametrize("outside", [math.nan, math.inf])
def test_steps_out_of_the_domain_are_rejected(outside: float) -> None:
    """A logarithm, and a wall near the minimum, into which momentum runs."""

    def barrier(x: np.ndarray) -> tuple[float, np.ndarray]:
        if x[0] <= 0.0 or x[1] > 1.02:
            return outside, np.full_like(x, outside)
        f = float(x[0] - np.log(x[0]) + 0.005 * (x[1] - 1.0) ** 2)
        return f, np.array([1.0 - 1.0 / x[0], 0.01 * (x[1] - 1.0)])

    rejected = 0
    for seed in range(10):
        r = cz.minimize(barrier, np.array([0.1, -5.0]), jac=True, tol=1e-8, rng=seed)
        assert r.status is Status.CONVERGED
        np.testing.assert_allclose(r.x, 1.0, atol=2e-6)
        rejected += r.constants["rejected"]
    assert rejected > 0


def test_a_first_L_that_is_far_too_small() -> None:
    """x - log x is nearly a straight line where it starts; a step of 1/L leaves the domain."""

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(np.sum(x - np.log(x))) if np.all(x > 0.0) else math.nan, 1.0 - 1.0 / x

    r = cz.minimize(both, np.full(2, 1e4), jac=True, tol=1e-8, rng=0, maxiter=5000)
    assert r.status is Status.CONVERGED
    assert r.constants["rejected"] > 3


def test_a_first_L_that_is_far_too_large() -> None:
    """The curvature of x^4 falls by 1e10 on the way."""
    fun = lambda x: (float(np.sum(x**4)), 4.0 * x**3)  # noqa: E731
    r = cz.minimize(fun, np.full(3, 1e3), jac=True, tol=1e-6, rng=0, maxiter=1000)
    assert r.status is Status.CONVERGED


def test_no_event_is_kept_that_raises_f() -> None:
    """f is never above its value at the last restart, but where the event is rejected."""

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        slope = 40.1 * 0.5 * (1.0 + np.tanh(20.05 * x)) - 0.1
        return float(np.sum(np.logaddexp(40.0 * x, -0.1 * x))), slope

    rejected = 0
    for seed in range(5):
        r = cz.minimize(both, np.array([-30.0, -20.0]), jac=True, maxiter=300, rng=seed)
        rejected += r.constants["rejected"]
        assert r.fun == min(r.trace.fun)
    assert rejected > 0


def test_a_function_that_is_not_convex() -> None:
    def rosenbrock(x: np.ndarray) -> tuple[float, np.ndarray]:
        u, v = 1.0 - x[0], x[1] - x[0] ** 2
        return u * u + 100.0 * v * v, np.array([-2.0 * u - 400.0 * x[0] * v, 200.0 * v])

    r = cz.minimize(rosenbrock, np.array([-1.2, 1.0]), jac=True, tol=1e-7, rng=0)
    np.testing.assert_allclose(r.x, 1.0, atol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_points_that_nearly_coincide_are_no_error(seed: int) -> None:
    """f is not smooth: L grows until two points differ by less than a square can tell."""
    r = cz.minimize(lambda x: float(abs(x).sum()), [1.0, 2.0], np.sign, rng=seed, maxiter=2000)
    assert r.fun <= 3.0


def test_a_run_may_end_by_the_slopes_of_its_variables() -> None:
    """Where no entry of the gradient is larger than tol times its own, whatever the norm is."""
    at = Evaluation(np.zeros(2), 0.0, np.array([3.0, -4.0]), np.array([3.0, -4.0]))
    problem = cz.problems.Quadratic([1.0, 1.0], [0.0, 0.0])
    assert Criterion(problem, None).evaluate(at, at.y, 1.0) == 5.0
    for slopes, found in (([1.0, 2.0], 3.0), ([1.0, 0.5], 5.0), ([4.0, 1.0], 4.0)):
        criterion = Criterion(problem, None, slopes=np.array(slopes))
        assert criterion.evaluate(at, at.y, 1.0) == found


def test_an_estimate_of_mu_is_told_only_where_there_is_one() -> None:
    """In a metric, nothing is seen of mu in the norm of x."""
    p = cz.problems.Quadratic(np.geomspace(1e-4, 1.0, 20), np.ones(20))
    fun: Any = (p.fun, np.zeros(20), p.grad)
    plain, scaled = (
        cz.minimize(*fun, tol=1e-7, rng=0, metric=metric) for metric in (None, np.full(20, 2.0))
    )
    assert plain.constants["restarts"] > 0
    assert scaled.constants["restarts"] > 0
    assert 1e-4 <= plain.constants["mu_estimate"] <= 1.0
    assert "mu_estimate" not in scaled.constants


def test_a_gradient_is_doubted_less_and_less_often() -> None:
    """After 16 rejected events, 64 and 256: each doubt asks for f six times at most."""
    r = cz.minimize(
        lambda x: (float(np.abs(x).sum()) if np.array_equal(x, X0) else 1e3, np.sign(x)),
        X0, jac=True, tol=1e-6, rng=0,
    )  # fmt: skip
    assert r.status is Status.NO_DESCENT
    assert 64 < r.constants["rejected"] < 256
    assert 0 < r.nfev - r.njev <= 12


def test_gradients_are_compared_with_those_in_the_same_metric() -> None:
    """In a metric that is 1e40 times another, what was seen in that one is no scale."""
    evaluator = Evaluator(cz.problems.Quadratic([1.0, 1.0]), X0[:2], Diagonal([1e-20, 1e-20]))
    evaluator.evaluate(X0[:2])
    evaluator.change_metric(Diagonal([1e20, 1e20]))
    one, two = (evaluator.evaluate(factor * X0[:2]) for factor in (1.0, 2.0))
    assert evaluator.least_L(one, two) == pytest.approx(1e-20, rel=1e-9, abs=0.0)


def test_a_gradient_where_f_is_not_finite_says_nothing_of_L() -> None:
    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        inside = np.array_equal(x, X0)
        return float(x @ x) if inside else math.inf, 2.0 * x if inside else -1e100 * x

    evaluator = Evaluator(cz.Problem(both, value_and_grad=True), X0, Identity())
    start = evaluator.evaluate(X0)
    size = np.linalg.norm(X0)
    assert evaluator.first_L(start) == pytest.approx(2.0 * size / (1e-4 * max(size, 1.0)))


def test_after_a_rejected_event_the_next_is_compared_with_the_best_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    back, seen, was_another = AdaptiveStepper._return_to_best, [], 0

    def go_back(self: AdaptiveStepper) -> None:
        nonlocal was_another
        was_another += self.last is not self.best
        back(self)
        seen.append((self.last is self.best, self.anchor == self.best.f, self.x is self.z))

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float(np.sum(np.exp(5.0 * x) - 0.1 * x)), 5.0 * np.exp(5.0 * x) - 0.1

    monkeypatch.setattr(AdaptiveStepper, "_return_to_best", go_back)
    for seed in range(5):
        cz.minimize(both, np.array([-3.0, -2.0, -9.0]), jac=True, maxiter=400, rng=seed)
    assert was_another > 0
    assert set(seen) == {(True, True, True)}
