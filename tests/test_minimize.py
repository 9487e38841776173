"""`minimize`: when it stops, what it says, and what it leaves alone."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

import continuized as cz
from continuized import Status
from registry import problem, same_bits, user_both, user_fun, user_grad

X0 = np.array([0.3, -1.0, 4.0])
USER = {"L": 1.5, "mu": 0.5}


def square(x: np.ndarray) -> float:
    return 0.5 * float(np.sum(x * x))


def identity(x: np.ndarray) -> np.ndarray:
    return x


# Stopping


@pytest.mark.parametrize("method", ["continuized", "nesterov", "gradient-descent"])
@pytest.mark.parametrize("on", ["paper strongly convex", "user", "user, Numba gradient"])
def test_tol(method: str, on: str) -> None:
    r = cz.minimize(problem(on), X0, method=method, tol=1e-8, seed=0)
    assert (r.success, r.status) == (True, Status.CONVERGED)
    assert np.linalg.norm(r.jac) <= 1e-8
    assert 0 < r.nit < 5000
    earlier = cz.minimize(problem(on), X0, method=method, tol=1e-4, seed=0)
    assert 0 < earlier.nit < r.nit


def test_tol_holds_without_noise() -> None:
    p = problem("paper strongly convex")
    r = cz.minimize(p, X0, noise=cz.noise.Gaussian(1e-6), tol=1e-2, seed=0)
    assert r.status is Status.CONVERGED
    assert np.linalg.norm(p.grad(r.x)) <= 1e-2


def test_the_default_tol() -> None:
    r = cz.minimize(problem("user"), X0, seed=0)
    assert r.status is Status.CONVERGED
    assert np.linalg.norm(r.jac) <= 1e-6
    assert np.max(np.abs(r.x - problem("user").x_star)) < 1e-5


def test_maxiter_alone_takes_all_steps() -> None:
    r = cz.minimize(problem("user"), X0, seed=0, maxiter=2000)
    assert (r.nit, r.status, r.success) == (2000, Status.COMPLETED, True)


def test_maxiter_before_tol() -> None:
    r = cz.minimize(problem("user"), X0, seed=0, maxiter=5, tol=1e-12)
    assert (r.nit, r.status, r.success) == (5, Status.MAXITER, False)


@pytest.mark.parametrize("tol", [0.0, 5e-324, 1e-200, 1e200, math.inf, np.float32(1e-6), 10**400])
def test_any_tol(tol: Any) -> None:
    r = cz.minimize(problem("user"), X0, seed=0, maxiter=5, tol=tol)
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
    r = cz.minimize(p, p.x_star, seed=0, maxiter=50)
    assert same_bits(r.x, p.x_star)
    assert r.fun == 0.0


# Callbacks


def test_a_callback_with_xk() -> None:
    seen: list[np.ndarray] = []
    r = cz.minimize(problem("user"), X0, seed=0, maxiter=4, record="path", callback=seen.append)
    assert same_bits(np.array(seen), r.path.x[1:])


@pytest.mark.parametrize("record", [True, False])
def test_a_callback_with_intermediate_result(record: bool) -> None:
    seen = []

    def callback(intermediate_result: Any) -> None:
        seen.append(intermediate_result)

    r = cz.minimize(problem("user"), X0, seed=0, maxiter=4, record=record, callback=callback)
    full = cz.minimize(problem("user"), X0, seed=0, maxiter=4)
    assert [s.nit for s in seen] == [1, 2, 3, 4]
    assert [s.fun for s in seen] == full.trace.fun[1:].tolist()
    assert [s.t for s in seen] == full.trace.t[1:].tolist()
    assert same_bits(seen[-1].x, r.x)


def test_a_callback_that_stops() -> None:
    calls = []

    def callback(xk: np.ndarray) -> None:
        calls.append(xk)
        if len(calls) == 3:
            raise StopIteration

    r = cz.minimize(problem("user"), X0, seed=0, maxiter=100, callback=callback)
    assert (r.nit, r.status, r.success) == (3, Status.CALLBACK, False)
    assert same_bits(r.x, calls[-1])


def test_a_callback_that_raises() -> None:
    class Mine(Exception):
        pass

    def callback(xk: np.ndarray) -> None:
        raise Mine("at once")

    with pytest.raises(Mine, match="at once"):
        cz.minimize(problem("user"), X0, callback=callback)


def test_a_callback_may_write_into_what_it_is_given() -> None:
    def callback(xk: np.ndarray) -> None:
        xk[:] = 1e9

    r = cz.minimize(problem("user"), X0, seed=0, maxiter=9, callback=callback)
    assert same_bits(r.x, cz.minimize(problem("user"), X0, seed=0, maxiter=9).x)


@pytest.mark.parametrize("where", ["fun", "grad"])
def test_exceptions_of_the_function_come_through(where: str) -> None:
    def fails(x: np.ndarray) -> Any:
        raise ZeroDivisionError("mine")

    functions = {"fun": square, "grad": identity} | {where: fails}
    with pytest.raises(ZeroDivisionError, match="mine"):
        cz.minimize(functions["fun"], X0, functions["grad"], L=1.0)


# Failures: the last good finite point


@pytest.mark.filterwarnings("ignore::continuized.ConstantsWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["continuized", "nesterov", "gradient-descent"])
@pytest.mark.parametrize("L", [0.3, 1e-3, 1e-8, 1e-25, 1e-60, 1e-200])
@pytest.mark.parametrize("compiled", [True, False])
def test_an_L_far_too_small(compiled: bool, L: float, method: str, dtype: Any) -> None:
    p = problem("paper strongly convex") if compiled else cz.Problem(square, identity)
    with np.errstate(over="ignore"):
        r = cz.minimize(p, X0.astype(dtype), method=method, L=L, mu=0.0, seed=0, record="path")
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
        r = cz.minimize(p, X0.astype(dtype), method=method, L=L, mu=0.0, seed=0, record=False)
    assert np.all(np.isfinite(r.x))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("record", [True, False])
def test_a_gradient_that_is_not_finite(bad: float, record: bool) -> None:
    calls = []

    def grad(x: np.ndarray) -> np.ndarray:
        calls.append(x)
        return np.full_like(x, bad) if len(calls) > 7 else x

    r = cz.minimize(square, X0, grad, L=1.0, seed=0, maxiter=50, record=record)
    assert (r.nit, r.status) == (7, Status.NOT_FINITE)
    assert np.all(np.isfinite(r.x))
    good = cz.minimize(square, X0, identity, L=1.0, seed=0, maxiter=7)
    assert same_bits(r.x, good.x)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite(bad: float) -> None:
    good = cz.minimize(square, X0, identity, L=4.0, seed=0, maxiter=20)
    edge = good.trace.fun[5] if good.trace.fun[5] < np.min(good.trace.fun[:5]) else None
    assert edge is not None

    def fun(x: np.ndarray) -> float:
        return square(x) if square(x) > edge else bad

    for callback in (None, lambda xk: None):
        r = cz.minimize(fun, X0, identity, L=4.0, seed=0, maxiter=20, callback=callback)
        assert (r.nit, r.status) == (4, Status.NOT_FINITE)
        assert same_bits(r.trace.fun, good.trace.fun[:5])
        assert r.fun == square(r.x)
    r = cz.minimize(fun, X0, identity, L=4.0, seed=0, maxiter=20, record=False)
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


# What the user gives, and keeps


def test_what_the_function_was_given_does_not_change_later() -> None:
    kept: list[tuple[np.ndarray, np.ndarray]] = []

    def fun(x: np.ndarray) -> float:
        kept.append((x, x.copy()))
        return square(x)

    def grad(x: np.ndarray) -> np.ndarray:
        kept.append((x, x.copy()))
        return x

    for record in (True, False, "path"):
        for callback in (None, lambda xk: kept.append((xk, xk.copy()))):
            options = {"record": record, "callback": callback, "maxiter": 30, "seed": 0}
            cz.minimize(fun, X0, grad, L=1.0, **options)
    assert all(same_bits(now, then) for now, then in kept)


def test_a_function_that_writes_into_x() -> None:
    def fun(x: np.ndarray) -> float:
        value = square(x)
        x[:] = 7e7
        return value

    def grad(x: np.ndarray) -> np.ndarray:
        g = x.copy()
        x[:] = 7e7
        return g

    x0 = X0.copy()
    r = cz.minimize(fun, x0, grad, L=1.5, maxiter=30, seed=0, record="path")
    clean = cz.minimize(square, x0, identity, L=1.5, maxiter=30, seed=0, record="path")
    assert same_bits(r.path.x, clean.path.x)
    assert same_bits(x0, X0)


def test_a_gradient_that_uses_one_array_again() -> None:
    out = np.empty(3)

    def grad(x: np.ndarray) -> np.ndarray:
        out[:] = x
        return out

    r = cz.minimize(square, X0, grad, L=1.5, maxiter=30, seed=0)
    jac = r.jac.copy()
    assert same_bits(r.x, cz.minimize(square, X0, identity, L=1.5, maxiter=30, seed=0).x)
    grad(np.full(3, 9.0))
    assert same_bits(r.jac, jac)


def test_gradients_of_every_kind_of_array() -> None:
    wanted = cz.minimize(square, X0, identity, L=1.5, maxiter=9, seed=0).x

    def read_only(x: np.ndarray) -> np.ndarray:
        x.flags.writeable = False
        return x

    for grad in (
        read_only,
        lambda x: x.tolist(),
        lambda x: np.repeat(x, 2)[::2],
        lambda x: x.astype(">f8"),
        lambda x: x.astype(np.longdouble),
    ):
        assert same_bits(cz.minimize(square, X0, grad, L=1.5, maxiter=9, seed=0).x, wanted)
    ints = cz.minimize(square, X0, lambda x: np.array([1, -1, 0]), L=1.5, maxiter=3, seed=0)
    assert ints.jac.dtype == np.float64


def test_jac_true() -> None:
    calls = []

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        calls.append(x)
        return user_both(x)

    options = {"L": 1.5, "mu": 0.5, "seed": 0, "maxiter": 20}
    r = cz.minimize(both, X0, True, **options)
    assert len(calls) == r.nfev + r.njev
    assert same_bits(r.x, cz.minimize(user_fun, X0, jac=user_grad, **options).x)


def test_integers_make_a_float_start() -> None:
    assert cz.minimize(square, [1, 2], identity, L=1.0, maxiter=3).x.dtype == np.float64
    assert cz.minimize(square, np.float16([1, 2]), identity, L=1.0, maxiter=3).x.dtype == np.float64


# Methods, clocks, words


def test_methods_by_name() -> None:
    p = problem("user")
    for name, same in (
        ("continuized", cz.Continuized(1.5, 0.5)),
        ("nesterov", cz.Nesterov(1.5, 0.5)),
        ("gradient-descent", cz.GradientDescent(1.5)),
    ):
        r = cz.minimize(p, X0, method=name, seed=0, maxiter=5)
        assert r.method == same
        assert same_bits(r.x, cz.minimize(p, X0, method=same, seed=0, maxiter=5).x)
    assert cz.minimize(p, X0, L=2.0, mu=0.1, maxiter=1).method == cz.Continuized(2.0, 0.1)
    assert cz.minimize(p, X0, L=2.0, maxiter=1).method == cz.Continuized(2.0, 0.5)


def test_a_recorded_clock_replays_a_run() -> None:
    p = problem("user")
    r = cz.minimize(p, X0, seed=3, maxiter=200, record="path")
    replay = cz.clock.Recorded(r.path.t[1:], r.path.dt[1:])
    again = cz.minimize(p, X0, clock=replay, record="path")
    assert (again.nit, again.status) == (200, Status.COMPLETED)
    assert same_bits(again.path.x, r.path.x)
    assert same_bits(again.path.z, r.path.z)
    by_times = cz.minimize(p, X0, clock=cz.clock.Recorded(r.trace.t[1:]), record="path")
    np.testing.assert_allclose(by_times.path.x, r.path.x, rtol=1e-11)


def test_a_recorded_clock_ends() -> None:
    p, clock = problem("user"), cz.clock.Recorded([0.5, 2.0, 3.0])
    for options, nit, status in (
        ({}, 3, Status.COMPLETED),
        ({"maxiter": 2}, 2, Status.COMPLETED),
        ({"maxiter": 3}, 3, Status.COMPLETED),
        ({"maxiter": 9}, 3, Status.CLOCK_ENDED),
        ({"tol": 1e-9}, 3, Status.CLOCK_ENDED),
        ({"tol": 1e-9, "maxiter": 9}, 3, Status.CLOCK_ENDED),
        ({"tol": 1e-9, "maxiter": 2}, 2, Status.MAXITER),
    ):
        r = cz.minimize(p, X0, clock=clock, **options)
        assert (r.nit, r.status) == (nit, status)
    none = cz.clock.Recorded([])
    assert cz.minimize(p, X0, clock=none).nit == 0
    assert cz.minimize(p, X0, clock=none, maxiter=4).nit == 0


def test_a_clock_may_be_exchanged() -> None:
    p = problem("user")
    unit = cz.minimize(p, X0, clock=cz.clock.Unit(), maxiter=5)
    assert unit.trace.t.tolist() == [0, 1, 2, 3, 4, 5]
    poisson = cz.minimize(p, X0, clock=cz.clock.Poisson(3), seed=8, maxiter=5)
    assert same_bits(poisson.x, cz.minimize(p, X0, seed=3, maxiter=5).x)
    nesterov = cz.minimize(p, X0, method="nesterov", clock=cz.clock.Poisson(3), maxiter=5)
    assert same_bits(nesterov.x, cz.minimize(p, X0, method="nesterov", maxiter=5).x)


def test_every_status_is_a_sentence() -> None:
    for status in Status:
        assert status.value.endswith(".")
        assert "\n" not in status.value
        assert status.value[0].isupper()
    assert [s for s in Status if s.success] == [Status.CONVERGED, Status.COMPLETED]


def test_the_result_is_scipys() -> None:
    from scipy.optimize import OptimizeResult

    r = cz.minimize(problem("user"), X0, seed=0, maxiter=3, record="path")
    assert isinstance(r, OptimizeResult)
    assert r["nit"] == r.nit == 3
    assert "message: All the steps" in repr(r)


def test_a_gradient_that_noise_makes_small_is_not_convergence() -> None:
    noise = cz.noise.Gaussian(1.0)
    for seed in range(10):  # of 300 noisy gradients, one or two are below tol by chance
        r = cz.minimize(
            square, np.array([3.0]), identity, L=4.0, noise=noise, tol=5e-3, maxiter=300, seed=seed
        )
        assert (r.status is Status.CONVERGED) == (abs(r.jac[0]) <= 5e-3)


# What users write


def test_a_value_in_an_array_of_one() -> None:
    r = cz.minimize(lambda x: np.array([square(x)]), X0, identity, L=1.0, seed=0, maxiter=5)
    assert same_bits(
        r.trace.fun, cz.minimize(square, X0, identity, L=1.0, seed=0, maxiter=5).trace.fun
    )


def test_a_ufunc_made_by_numba_is_a_gradient() -> None:
    @numba.vectorize
    def ufunc(x: float) -> float:
        return x

    r = cz.minimize(square, X0, ufunc, L=1.0, seed=0, maxiter=5)
    assert same_bits(r.x, cz.minimize(square, X0, identity, L=1.0, seed=0, maxiter=5).x)


def test_dir_of_a_result_has_all_of_it() -> None:
    assert {"x", "fun", "trace", "at"} <= set(dir(cz.minimize(problem("user"), X0, maxiter=1)))


# Progress


def test_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    cz.minimize(problem("user"), X0, seed=0, maxiter=30)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("record", [True, False])
def test_progress_in_a_pipe(record: bool, capsys: pytest.CaptureFixture[str]) -> None:
    cz.minimize(problem("user"), X0, seed=0, maxiter=30, progress=True, record=record)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("continuized 30/30")
    assert "f = " in err
    assert "steps/s" in err
    assert "\x1b" not in err


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for name, value in (("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    r = cz.minimize(problem("user"), X0, seed=0, maxiter=30, progress=True)
    shown = terminal.getvalue()
    assert "\x1b" in shown
    for part in ("continuized", "30/30", f"f = {r.fun:.6g}", "steps/s"):
        assert part in shown


@pytest.mark.parametrize("record", [True, False, "path"])
def test_progress_does_not_change_the_run(record: bool | str) -> None:
    p, noise = problem("user"), cz.noise.Gaussian(1e-4)
    options: dict[str, Any] = {"seed": 0, "maxiter": 300, "noise": noise, "record": record}
    shown, silent = (cz.minimize(p, X0, progress=show, **options) for show in (True, False))
    assert same_bits(shown.x, silent.x)
    assert same_bits(shown.trace.fun, silent.trace.fun)


def test_progress_of_a_slow_function_is_shown_while_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Seen between the gradients: what the bar was told last.  Every look at the time is a second.
    told: list[int] = []
    asked: list[int] = []
    clock = iter(range(10**6))
    slow = SimpleNamespace(perf_counter=lambda: float(next(clock)))
    monkeypatch.setattr("continuized.driver.time", slow)

    @contextmanager
    def bar(*_: object) -> Iterator[Any]:
        yield lambda done, words="": told.append(done)

    monkeypatch.setattr("continuized.minimizer.bar", bar)

    def grad(x: np.ndarray) -> np.ndarray:
        asked.append(told[-1] if told else 0)
        return user_grad(x)

    cz.minimize(user_fun, X0, grad, **USER, seed=0, maxiter=20, progress=True)
    assert told == list(range(1, 21))
    assert asked[:20] == list(range(20))


@pytest.mark.parametrize("python", [False, True], ids=["compiled", "Python"])
def test_the_carry_is_that_of_the_last_event_done(python):
    """A block that ends early leaves the carry of its last event, not of its end."""
    from continuized import driver
    from continuized.kernels.schedule import CARRY, coefficients
    from continuized.stopping import Limits

    class Python(cz.Nesterov):
        def coefficients(self, k, t0, t, dt, carry):
            return super().coefficients(k, t0, t, dt, carry)

    method = (Python if python else cz.Nesterov)(1.0)
    p = cz.problems.Quadratic([1.0, 0.5], [1.0, 1.0])
    limits = Limits(1e-3, 1000)
    stream = cz.clock.Unit().stream()
    run = driver.Run(method, p, np.zeros(2), stream, limits, record=False)
    assert run.go().status is cz.Status.CONVERGED
    assert 1 < run.k < 1000
    A = 0.0
    for _ in range(run.k):
        A += 0.5 * (1.0 + np.sqrt(4.0 * A + 1.0))
    assert run.carry == pytest.approx(A, rel=1e-12)
    block = cz.clock.Unit().stream().draw(run.k)
    assert coefficients(method, block, 0.0)[-1, CARRY] == run.carry
