"""`minimize`: when it stops, and where, be it converged, at its limits or not finite."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized import Status
from continuized.solver.constant_checks import EPS
from continuized.solver.steppers import fixed
from tests.helpers.half_square import X0, identity, square
from tests.invariants.registry import problem, same_bits, user_fun


@pytest.mark.parametrize("method", ["continuized", "nesterov", "gradient-descent"])
@pytest.mark.parametrize("on", ["paper strongly convex", "user", "user, Numba gradient"])
def test_tol(method: str, on: str) -> None:
    r = cz.minimize(problem(on), X0, method=method, tol=1e-8, rng=0)
    assert (r.success, r.status) == (True, Status.CONVERGED)
    assert np.linalg.norm(r.jac) <= 1e-8
    assert 0 < r.nit < 5000
    earlier = cz.minimize(problem(on), X0, method=method, tol=1e-4, rng=0)
    assert 0 < earlier.nit < r.nit


def test_tol_holds_without_noise() -> None:
    p = problem("paper strongly convex")
    r = cz.minimize(p, X0, noise=cz.noise.Gaussian(1e-6), tol=1e-2, rng=0)
    assert r.status is Status.CONVERGED
    assert np.linalg.norm(p.grad(r.x)) <= 1e-2


def test_the_default_tol() -> None:
    r = cz.minimize(problem("user"), X0, rng=0)
    assert r.status is Status.CONVERGED
    assert np.linalg.norm(r.jac) <= 1e-6
    assert np.max(np.abs(r.x - problem("user").x_star)) < 1e-5


def test_maxiter_alone_takes_all_steps() -> None:
    r = cz.minimize(problem("user"), X0, rng=0, maxiter=2000)
    assert (r.nit, r.status, r.success) == (2000, Status.COMPLETED, True)


def test_maxiter_before_tol() -> None:
    r = cz.minimize(problem("user"), X0, rng=0, maxiter=5, tol=1e-12)
    assert (r.nit, r.status, r.success) == (5, Status.MAXITER, False)


@pytest.mark.parametrize("tol", [0.0, 5e-324, 1e-200, 1e200, math.inf, np.float32(1e-6), 10**400])
def test_any_tol(tol: Any) -> None:
    r = cz.minimize(problem("user"), X0, rng=0, maxiter=5, tol=tol)
    assert r.status is (Status.CONVERGED if tol > 1.0 else Status.MAXITER)


@pytest.mark.parametrize("record", [True, False, "path"])
def test_no_steps_at_all(record: Any) -> None:
    r = cz.minimize(problem("user"), X0, maxiter=0, record=record)
    assert (r.nit, r.njev, r.status) == (0, 1, Status.COMPLETED)
    assert same_bits(r.x, X0)
    assert len(r.trace) == 1
    assert r.fun == r.trace.fun[0] == user_fun(X0)
    assert cz.minimize(problem("user"), X0, maxiter=0, tol=1e-3).status is Status.MAXITER
    assert cz.minimize(problem("user"), X0, maxiter=0, tol=1e3).status is Status.CONVERGED


@pytest.mark.parametrize("record", [True, False, "path"])
def test_no_variables_at_all(record: Any) -> None:
    for fun in (cz.Problem(square, identity, L=1.0), cz.problems.Quadratic([])):
        method = cz.Continuized(1.0)
        r = cz.minimize(fun, [], method=method, maxiter=5, record=record)
        assert (r.x.shape, r.fun, r.nit, r.success) == ((0,), 0.0, 5, True)
        assert cz.minimize(fun, [], method=method).status is Status.CONVERGED


def test_a_start_at_the_minimum() -> None:
    p = problem("paper strongly convex")
    r = cz.minimize(p, p.x_star, rng=0, maxiter=50)
    assert same_bits(r.x, p.x_star)
    assert r.fun == 0.0


def test_a_gradient_norm_that_is_tol_is_enough() -> None:
    p = cz.problems.Quadratic([1.0])
    for given in ({"L": 1.0}, {"metric": np.ones(1)}):
        assert cz.minimize(p, [2.0], tol=2.0, maxiter=0, **given).status is Status.CONVERGED
        assert cz.minimize(p, [2.0], tol=1.9, maxiter=0, **given).status is Status.MAXITER


def test_a_callback_that_stops_at_the_end_does_not_hide_that_it_is_one() -> None:
    def stop(x: np.ndarray) -> None:
        raise StopIteration

    r = cz.minimize(square, 1e-9 * X0, identity, tol=1e-6, callback=stop, rng=0)
    assert (r.status, r.nit) == (Status.CONVERGED, 1)
    assert cz.minimize(square, X0, identity, callback=stop, rng=0).status is Status.CALLBACK


def test_a_gradient_that_noise_makes_small_is_not_convergence() -> None:
    noise = cz.noise.Gaussian(1.0)
    for seed in range(10):  # of 300 noisy gradients, one or two are below tol by chance
        r = cz.minimize(
            square, np.array([3.0]), identity, L=4.0, noise=noise, tol=5e-3, maxiter=300, rng=seed
        )
        assert (r.status is Status.CONVERGED) == (abs(r.jac[0]) <= 5e-3)


def test_small_gradients_between_slices_of_compiled_events_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slow compiled events are taken a few at once; after each of these the next one is mixed."""
    p = cz.problems.Quadratic([1.0], [3.0])
    how: Any = {"noise": cz.noise.Gaussian(4.0), "tol": 0.02, "maxiter": 300, "rng": 0}
    whole = cz.minimize(p, [0.0], **how)
    monkeypatch.setattr(fixed, "BLOCK_SECONDS", -1.0)
    monkeypatch.setattr(fixed, "QUICK_NUMBERS", 0)
    sliced = cz.minimize(p, [0.0], **how)
    assert whole.njev > whole.nit + 2  # gradients that were small, but not at x
    assert sliced.trace.fun.tolist() == whole.trace.fun.tolist()


@pytest.mark.parametrize("python", [False, True], ids=["compiled", "Python"])
def test_the_carry_is_that_of_the_last_event_done(python):
    """A block that ends early leaves the carry of its last event, not of its end."""
    from continuized.process.coefficients import CARRY
    from continuized.process.compiled import coefficients
    from continuized.process.stepper import Limits
    from continuized.solver.loop import Loop
    from continuized.solver.steppers.fixed import FixedStepper

    class Python(cz.Nesterov):
        def coefficients(self, k, t0, t, dt, carry):
            return super().coefficients(k, t0, t, dt, carry)

    method = (Python if python else cz.Nesterov)(1.0)
    p = cz.problems.Quadratic([1.0, 0.5], [1.0, 1.0])
    limits = Limits(1e-3, 1000)
    stream = cz.clock.Unit().stream()
    run = FixedStepper(method, p, np.zeros(2), limits.tol, record=False)
    assert Loop(run, stream, limits).run() is cz.Status.CONVERGED
    assert 1 < run.k < 1000
    A = 0.0
    for _ in range(run.k):
        A += 0.5 * (1.0 + np.sqrt(4.0 * A + 1.0))
    assert run.carry == pytest.approx(A, rel=1e-12)
    block = cz.clock.Unit().stream().draw(run.k)
    assert coefficients(method, block, 0.0)[-1, CARRY] == run.carry


# Failures: the last good finite point


@pytest.mark.filterwarnings("ignore::continuized.ConstantsWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["continuized", "nesterov", "gradient-descent"])
@pytest.mark.parametrize("L", [0.3, 1e-3, 1e-8, 1e-25, 1e-60, 1e-200])
@pytest.mark.parametrize("compiled", [True, False])
def test_an_L_far_too_small(compiled: bool, L: float, method: str, dtype: Any) -> None:
    p = problem("paper strongly convex") if compiled else cz.Problem(square, identity)
    with np.errstate(over="ignore"):
        r = cz.minimize(p, X0.astype(dtype), method=method, L=L, mu=0.0, rng=0, record="path")
    assert r.status in (Status.DIVERGED, Status.NOT_FINITE)
    assert not r.success
    for values in (r.x, r.path.x, r.path.z, r.trace.fun, r.fun, r.jac):
        assert np.all(np.isfinite(values))
    assert same_bits(r.x, r.path.x[-1])
    assert len(r.trace) == r.nit + 1 < 1000
    if L == 0.3:  # it grows little by little, and is stopped long before the end of the floats
        assert r.status is Status.DIVERGED
        assert np.max(np.abs(r.x)) < 1e18
    with np.errstate(over="ignore"):
        r = cz.minimize(p, X0.astype(dtype), method=method, L=L, mu=0.0, rng=0, record=False)
    assert np.all(np.isfinite(r.x))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("record", [True, False])
def test_a_gradient_that_is_not_finite(bad: float, record: bool) -> None:
    calls = []

    def grad(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return np.full_like(x, bad) if len(calls) > 7 else x

    r = cz.minimize(square, X0, grad, L=1.0, rng=0, maxiter=50, record=record)
    assert (r.nit, r.status) == (7, Status.NOT_FINITE)
    assert np.all(np.isfinite(r.x))
    good = cz.minimize(square, X0, identity, L=1.0, rng=0, maxiter=7)
    assert same_bits(r.x, good.x)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite(bad: float) -> None:
    good = cz.minimize(square, X0, identity, L=4.0, rng=0, maxiter=20)
    edge = good.trace.fun[5] if good.trace.fun[5] < np.min(good.trace.fun[:5]) else None
    assert edge is not None

    def fun(x: np.ndarray) -> float:
        return square(x) if square(x) > edge else bad

    for callback in (None, lambda xk: None):
        r = cz.minimize(fun, X0, identity, L=4.0, rng=0, maxiter=20, callback=callback)
        assert (r.nit, r.status) == (4, Status.NOT_FINITE)
        assert same_bits(r.trace.fun, good.trace.fun[:5])
        assert r.fun == square(r.x)
    r = cz.minimize(fun, X0, identity, L=4.0, rng=0, maxiter=20, record=False)
    assert r.status is Status.NOT_FINITE
    assert same_bits(r.x, X0)  # f was asked for at the two ends only
    assert (r.nit, r.fun, len(r.trace)) == (0, square(X0), 1)
    assert same_bits(r.jac, X0)


def test_nothing_is_finite_from_the_start() -> None:
    def nan(x: np.ndarray) -> Any:
        return math.nan * x

    r = cz.minimize(square, X0, nan, L=1.0)
    assert (r.nit, r.status) == (0, Status.NOT_FINITE)
    assert same_bits(r.x, X0)
    r = cz.minimize(lambda x: math.nan, X0, identity, L=1.0)
    assert (r.nit, r.status) == (0, Status.NOT_FINITE)


@pytest.mark.parametrize("prox", [None, cz.prox.L1(0.1)])
def test_a_gradient_that_ends_a_run_is_counted(prox: Any) -> None:
    asked = 0

    def grad(x: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += 1
        return x if asked != 5 else np.full(3, math.nan)

    r = cz.minimize(square, X0, grad, L=1.0, prox=prox, rng=0)
    assert (r.status, r.nit) == (Status.NOT_FINITE, 4)
    assert r.njev == asked


def test_f_is_asked_for_once_an_event_however_many_look_at_it() -> None:
    asked = 0

    def fun(x: np.ndarray) -> float:
        nonlocal asked
        asked += 1
        return square(x)

    r = cz.minimize(
        fun, X0, identity, L=1.0, mu=0.1, maxiter=20, rng=0, record=False, progress=True,
        callback=lambda intermediate_result: None,
    )  # fmt: skip
    assert r.nfev == asked == 22  # the start, the events, and the end


def test_a_minimum_far_away_is_no_sign_that_there_is_none() -> None:
    p = cz.problems.Quadratic([1.0, 0.1], [1e6, -1e6])
    r = cz.minimize(p, [0.0, 0.0], rng=0)
    assert r.status is Status.CONVERGED
    assert r.message == Status.CONVERGED.value


@pytest.mark.filterwarnings("ignore::continuized.ConstantsWarning")
def test_no_step_is_taken_beyond_the_last_event_that_would_raise_f() -> None:
    """As it would where L is too small."""
    p = cz.problems.Quadratic([1.0, 0.5, 0.1], [1.0, -1.0, 1.0])
    for L in (0.1, 0.2, 2.0):
        r = cz.minimize(p, X0, L=L, mu=0.0, prox=cz.prox.L1(0.01), tol=1e-12, maxiter=3, rng=0)
        assert r.fun <= r.trace.fun[-1]


def test_sums_over_many_entries_are_less_exact() -> None:
    def watch(d: int) -> Any:
        p = cz.Problem(square, identity, L=1.0)
        run = fixed.FixedStepper(cz.Continuized(1.0), p, np.ones(d, np.float32), None)
        return run.watch[EPS]

    assert watch(64**2) == watch(3) == np.finfo(np.float32).eps
    assert watch(4 * 64**2) == 2.0 * watch(3)


# What is no success


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("unit", "start"), [(1e-8, 1e10), (1e-6, 1e10), (1e-22, 0.0)])
def test_in_a_box_no_gradient_mapping_is_small_because_L_is(
    unit: float, start: float, seed: int
) -> None:
    """Beside the gradient at the start all others seemed rounding, and L fell while x went from
    corner to corner: the mapping is at most L times the diameter."""
    star, curvatures = unit * np.array([1.0, -8.0, 14.0, 5.0]), np.array([0.13, 0.03, 0.04, 0.01])

    def gradient(x: Any) -> Any:
        return curvatures * (x - star)

    def f(x: Any) -> float:
        return 0.5 * float(curvatures @ (x - star) ** 2)

    box = cz.prox.Box(-3.0 * unit, 4.0 * unit)
    r = cz.minimize(f, np.full(4, start), gradient, prox=box, tol=1e-3 * unit, rng=seed)
    assert r.status is Status.CONVERGED
    L = curvatures.max()
    mapping = L * (r.x - np.clip(r.x - gradient(r.x) / L, -3.0 * unit, 4.0 * unit))
    assert np.linalg.norm(mapping) <= 1e-2 * unit
    np.testing.assert_allclose(r.x, np.clip(star, -3.0 * unit, 4.0 * unit), atol=0.5 * unit)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_square_that_rounding_made_negative_is_not_small(seed: int, intercept: bool) -> None:
    """l2 is 1e-17 of the Hessian, and metric="rows" divides by it."""
    rng = np.random.default_rng(seed)
    X, y = 1e7 * rng.standard_normal((9, 12)), rng.standard_normal(9)
    p = cz.problems.LeastSquares(X, y, l2=1e-3, intercept=intercept)
    options = {"tol": 1e-8, "maxiter": 200, "rng": 0}
    best = cz.minimize(p, np.zeros(p.dim), metric="gram", **options).fun
    r = cz.minimize(p, np.zeros(p.dim), metric="rows", **options)
    assert not r.success or r.fun <= best + 1e-6


@pytest.mark.parametrize(
    ("dtype", "curvature", "star", "tol"),
    [(np.float64, 1e-60, 1e-105, 1e-175), (np.float32, 1e-12, 1e-12, 1e-26)],
)
@pytest.mark.parametrize(
    "given", [{}, {"metric": [1.0]}, {"prox": cz.prox.L1(0.0)}, {"L": 1.0}, {"L": 1.0, "mu": 0.1}]
)
def test_a_gradient_whose_square_underflows_is_not_small(
    given: dict[str, Any], dtype: Any, curvature: float, star: float, tol: float
) -> None:
    def f(x: Any) -> float:
        return 0.5 * curvature * float(((x.astype(float) - star) ** 2).sum())

    def gradient(x: Any) -> Any:
        return (curvature * (x.astype(float) - star)).astype(dtype)

    constants = {name: curvature * given[name] for name in ("L", "mu") if name in given}
    r = cz.minimize(f, np.zeros(1, dtype), gradient, tol=tol, rng=0, **(given | constants))
    assert r.success
    assert abs(float(gradient(r.x)[0])) <= 2.0 * tol
    assert r.nit > 0
