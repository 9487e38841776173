"""Every method on every problem keeps one protocol."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.process.random_streams import MARKS, generator, seed_sequence
from tests.invariants.registry import (
    METHODS,
    PROBLEMS,
    PYTHON_PROBLEMS,
    SOME_PAIRS,
    STEPS,
    events_of,
    every_method,
    every_pair,
    method,
    oracle_of,
    plain_loop,
    problem,
    run,
    same_bits,
    some_pairs,
    user_fun,
    user_grad,
    x0_of,
)


@some_pairs
def test_init_and_step_change_nothing_given(name: str, on: str) -> None:
    p = problem(on)
    m, x0 = method(name, p), x0_of(p)
    x0.flags.writeable = False
    state = m.init(x0)
    assert (state.k, state.t) == (0, 0.0)
    for event in events_of(m, 0, 3).each():
        before = (state.x.copy(), state.z.copy())
        following, info = m.step(state, event, oracle_of(p))
        assert same_bits(state.x, before[0])
        assert same_bits(state.z, before[1])
        assert (following.k, following.t) == (event.k, event.t)
        assert same_bits(info.g, p.grad(info.y))
        again, _ = m.step(state, event, oracle_of(p))
        assert same_bits(again.x, following.x)
        assert same_bits(again.z, following.z)
        state = following


@pytest.mark.blas
@every_pair
def test_minimize_is_a_plain_loop_of_steps(name: str, on: str) -> None:
    p = problem(on)
    m = method(name, p)
    r = run(m, p)
    states = plain_loop(m, p, x0_of(p), events_of(m, 4, STEPS))
    scale = max(np.max(np.abs(s.z)) for s in states)
    for k, state in enumerate(states):
        assert np.max(np.abs(r.path.x[k] - state.x)) <= 1e-13 * scale
        assert np.max(np.abs(r.path.z[k] - state.z)) <= 1e-13 * scale
        assert r.trace.t[k] == state.t
        assert r.trace.fun[k] == pytest.approx(p.fun(state.x), rel=1e-9, abs=1e-15)


@some_pairs
def test_the_result_is_complete(name: str, on: str) -> None:
    p = problem(on)
    r = run(method(name, p), p)
    assert r.nit == STEPS
    assert same_bits(r.trace.k, np.arange(STEPS + 1))
    assert r.trace.t.shape == r.trace.fun.shape == (STEPS + 1,)
    assert r.trace.t[0] == 0.0
    assert np.all(np.diff(r.trace.t) > 0.0)
    assert r.path.x.shape == r.path.z.shape == (STEPS + 1, p.dim)
    assert same_bits(r.x, r.path.x[-1])
    assert r.fun == r.trace.fun[-1]
    assert r.fun == pytest.approx(p.fun(r.x), rel=1e-14)
    np.testing.assert_allclose(r.jac, p.grad(r.x), rtol=1e-14, atol=1e-300)
    assert (r.success, r.status) == (True, cz.Status.COMPLETED)
    assert r.message == cz.Status.COMPLETED.value


@some_pairs
def test_a_seed_gives_the_same_run_to_the_last_bit(name: str, on: str) -> None:
    p = problem(on)
    m = method(name, p)
    first, again, other = run(m, p), run(m, p), run(m, p, rng=5)
    for a, b in zip(first.path, again.path, strict=True):
        assert same_bits(a, b)
    assert same_bits(first.trace.fun, again.trace.fun)
    poisson = isinstance(m.clock(0), cz.clock.Poisson)
    assert same_bits(first.trace.t, other.trace.t) == (not poisson)


@every_method
@pytest.mark.parametrize("on", ["quadratic", "least squares, sparse", *PYTHON_PROBLEMS])
def test_how_a_run_is_watched_does_not_change_it(name: str, on: str) -> None:
    p = problem(on)
    m = method(name, p)
    path = run(m, p)
    callback = run(m, p, callback=lambda xk: None)  # one event at a time
    for other in (run(m, p, record=True), run(m, p, record=False), callback):
        assert same_bits(other.x, path.x)
    assert same_bits(callback.path.z, path.path.z)
    assert same_bits(run(m, p, record=True).trace.fun, path.trace.fun)
    ends = run(m, p, record=False).trace
    assert ends.k.tolist() == [0, STEPS]
    assert ends.fun.tolist() == [path.trace.fun[0], path.trace.fun[-1]]
    assert ends.t.tolist() == [0.0, path.trace.t[-1]]


def test_blocks_do_not_change_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from continuized.solver.steppers import fixed

    p = problem("quadratic")
    options = {"maxiter": 2500, "noise": cz.noise.Gaussian(1e-3)}
    whole = run(cz.Nesterov(p.L), p, **options)
    monkeypatch.setattr(fixed, "BLOCK", 7)
    for other in (run(cz.Nesterov(p.L), p, **options), run(cz.Nesterov(p.L), p, **options)):
        assert same_bits(whole.path.z, other.path.z)


@some_pairs
def test_float32_stays_float32(name: str, on: str) -> None:
    p = problem(on)
    m = method(name, p)
    r = run(m, p, x0=x0_of(p, np.float32))
    assert r.x.dtype == r.jac.dtype == r.path.x.dtype == r.path.z.dtype == np.float32
    assert r.trace.t.dtype == r.path.dt.dtype == np.float64
    wide = run(m, p)
    assert same_bits(r.trace.t, wide.trace.t)
    scale = np.max(np.abs(wide.path.z)) + 1.0
    assert np.max(np.abs(r.path.x - wide.path.x)) < 1e-4 * scale
    x, z = r.at(0.5 * r.trace.t[-1])
    assert x.dtype == z.dtype == np.float32


@every_method
@pytest.mark.parametrize("on", ["quadratic", "logistic", "user", "user, Numba gradient"])
def test_noise_is_the_clocks_marks(name: str, on: str) -> None:
    p = problem(on)
    m = method(name, p)
    noise = cz.noise.Gaussian(0.01)
    r = run(m, p, noise=noise)
    rng = generator(seed_sequence(4), MARKS)
    marks = 0.1 * rng.standard_normal((STEPS, p.dim))
    states = plain_loop(m, p, x0_of(p), events_of(m, 4, STEPS), marks)
    scale = max(np.max(np.abs(s.z)) for s in states)
    assert np.max(np.abs(r.path.z - [s.z for s in states])) <= 1e-12 * scale
    assert same_bits(run(m, p, noise=noise).path.z, r.path.z)
    assert not same_bits(run(m, p).path.z, r.path.z)
    np.testing.assert_allclose(r.jac, p.grad(r.x), rtol=1e-14)  # without noise


@every_method
@pytest.mark.parametrize("shape", [(), (1,), (6,), (2, 3), (3, 1, 2), (0,), (2, 0)])
def test_any_shape(name: str, shape: tuple[int, ...]) -> None:
    m = METHODS[name](1.5, 0.5)
    seen = []

    def grad(x: np.ndarray) -> np.ndarray:
        seen.append(x.shape)
        return user_grad(x)

    x0 = np.linspace(-1.0, 1.0, math.prod(shape)).reshape(shape)
    before = x0.copy()
    r = cz.minimize(user_fun, x0, grad, method=m, rng=4, maxiter=5, record="path")
    assert set(seen) == {shape}
    assert same_bits(x0, before)
    assert r.x.shape == r.jac.shape == shape
    assert r.path.x.shape == (6, *shape)
    flat = cz.minimize(user_fun, x0.ravel(), user_grad, method=m, rng=4, maxiter=5)
    np.testing.assert_allclose(r.x.ravel(), flat.x, rtol=1e-13)
    x, z = r.at(r.trace.t[-1] / 2)
    assert x.shape == z.shape == shape


@pytest.mark.parametrize("on", ["quadratic", "least squares", "logistic, sparse"])
def test_any_shape_on_the_librarys_problems(on: str) -> None:
    p = problem(on)
    m = cz.Nesterov(p.L, p.mu)
    r = cz.minimize(p, x0_of(p).reshape(-1, 1), method=m, maxiter=5)
    flat = cz.minimize(p, x0_of(p), method=m, maxiter=5)
    assert r.x.shape == r.jac.shape == (p.dim, 1)
    assert same_bits(r.x.ravel(), flat.x)
    assert same_bits(r.trace.fun, flat.trace.fun)


def test_a_fortran_ordered_start() -> None:
    x0 = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    options = {"L": 1.5, "rng": 0, "maxiter": 5}
    r = cz.minimize(user_fun, x0, user_grad, **options)
    c = cz.minimize(user_fun, np.ascontiguousarray(x0), user_grad, **options)
    assert same_bits(r.x, c.x)


@every_method
@pytest.mark.parametrize("record", [True, False, "path"])
def test_calls_are_counted(name: str, record: Any) -> None:
    calls = {"fun": 0, "grad": 0}

    def fun(x: np.ndarray) -> float:
        calls["fun"] += 1
        return user_fun(x)

    def grad(x: np.ndarray) -> np.ndarray:
        calls["grad"] += 1
        return user_grad(x)

    m = METHODS[name](1.5, 0.5)
    for extra in ({}, {"tol": 1e-3}, {"callback": lambda xk: None}):
        calls.update(fun=0, grad=0)
        r = cz.minimize(
            fun, np.ones(3), grad, method=m, rng=4, maxiter=STEPS, record=record, **extra
        )
        assert (r.nfev, r.njev) == (calls["fun"], calls["grad"])
        assert r.njev >= r.nit


def test_compiled_calls_are_counted() -> None:
    p, q = problem("user"), problem("user, Numba gradient")
    for tol in (None, 1e-3):
        options = {"rng": 4, "maxiter": STEPS, "tol": tol}
        plain, compiled = (cz.minimize(on, np.ones(3), **options) for on in (p, q))
        assert (plain.nit, plain.nfev, plain.njev) == (compiled.nit, compiled.nfev, compiled.njev)


def test_some_pairs_have_every_method_and_every_problem() -> None:
    for i, names in enumerate((METHODS, PROBLEMS)):
        assert {pair[i] for pair in SOME_PAIRS} == set(names)


@some_pairs
def test_every_method_descends(name: str, on: str) -> None:
    p = problem(on)
    r = run(method(name, p), p, maxiter=300, record=True)
    low = np.min(r.trace.fun) if p.f_star is None else p.f_star
    assert r.fun - low < 0.2 * (r.trace.fun[0] - low)
    if name == "gradient-descent":
        assert np.all(np.diff(r.trace.fun) <= 1e-15 * np.abs(r.trace.fun[0]))
