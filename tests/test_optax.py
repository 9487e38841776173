"""`adapters.optax.continuized`: optax's contract, its wrappers, changing rates, failures."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import continuized as cz
from continuized import flow, parameters
from continuized.adapters.jax_process import Time
from continuized.adapters.optax import (
    ContinuizedState,
    continuized,
    continuized_eval_params,
    gaps,
)
from continuized.pace import Carried

EIGENVALUES = np.array([0.1, 1.0, 2.0], np.float32)
LR, MU = 0.5, 0.1
Y0 = np.zeros(3, np.float32)


def gradient(y: Any) -> Any:
    return EIGENVALUES * (y - 1.0)


def scanned(optimiser: Any, n: int, rates: Any = None) -> Any:
    """y -> x_1, ..., x_n; `rates` are set by hand in the state of inject_hyperparams."""

    def step(carry: Any, rate: Any) -> Any:
        y, state = carry
        if rates is not None:
            state.hyperparams["learning_rate"] = rate
        updates, state = optimiser.update(gradient(y), state, y)
        return (optax.apply_updates(y, updates), state), continuized_eval_params(state, y)

    return lambda y: jax.lax.scan(step, (y, optimiser.init(y)), rates, length=n)[1]


def xs_of(optimiser: Any, n: int, rates: Any = None) -> np.ndarray:
    return np.asarray(jax.jit(scanned(optimiser, n, rates))(Y0))


# The contract


def test_dtypes_and_structure_are_kept_and_nothing_is_compiled_again() -> None:
    params = {
        "half": (jnp.zeros((2, 3), jnp.bfloat16), jnp.ones(2, jnp.float16)),
        "scalar": jnp.zeros(()),
        "empty": [jnp.zeros((0, 4))],
        "none": None,
    }
    optimiser = continuized(LR, MU, 1.0)
    update = jax.jit(optimiser.update)
    state = first = optimiser.init(params)
    y = params
    for _ in range(3):
        updates, state = update(jax.tree.map(lambda v: v - 1.0, y), state, y)
        y = optax.apply_updates(y, updates)
        for made, like in ((updates, params), (state.x, params), (state, first)):
            assert jax.tree.structure(made) == jax.tree.structure(like)
            for one, other in zip(jax.tree.leaves(made), jax.tree.leaves(like), strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                assert not one.weak_type
    assert update._cache_size() == 1
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(first))
    assert int(state.count) == 3


def test_buffers_may_be_donated() -> None:
    key = jax.random.key(1)
    optimiser = continuized(LR, MU, key=key, nonfinite="skip")  # reads all of the state
    update = jax.jit(lambda y, s: optimiser.update(gradient(y), s, y), donate_argnums=(0, 1))
    ends = []
    for _ in range(2):
        y = jnp.array(Y0)
        ends.append(update(y, optimiser.init(y)))
    assert_same_bits(*ends)
    assert gaps(key, 1).shape == (1,)  # the user's key is still there


def test_nothing_given_is_changed() -> None:
    y, g = Y0.copy(), gradient(Y0)
    optimiser = continuized(LR, MU)
    optimiser.update(g, optimiser.init(y), y)
    np.testing.assert_array_equal(y, Y0)
    np.testing.assert_array_equal(g, gradient(Y0))


def test_plain_numbers_are_params_too() -> None:
    optimiser = continuized(LR, MU)
    updates, state = optimiser.update({"w": 3.0}, optimiser.init({"w": 1.0}), {"w": 1.0})
    assert updates["w"].dtype == state.x["w"].dtype == np.float32
    assert float(state.x["w"]) == 1.0 - 3.0 * LR


def test_half_precision_is_rounded_once_a_step() -> None:
    y, g = jnp.asarray([1.0, -3.0], jnp.bfloat16), jnp.asarray([0.3, 0.7], jnp.bfloat16)
    half, full = ({"y": v} for v in (y, y.astype(jnp.float32)))
    optimiser = continuized(LR, MU)
    _, rounded = optimiser.update({"y": g}, optimiser.init(half), half)
    _, exact = optimiser.update({"y": g}, optimiser.init(full), full)
    for name in ("x", "z"):
        expected = getattr(exact, name)["y"].astype(jnp.bfloat16)
        np.testing.assert_array_equal(getattr(rounded, name)["y"], expected)


# Wrappers


def test_wrappers_take_the_same_steps() -> None:
    expected = xs_of(continuized(LR, MU, key=3), 12)
    near = {"rtol": 1e-5, "atol": 1e-6}
    key = jax.random.key(3)
    injected = optax.inject_hyperparams(continuized)
    np.testing.assert_allclose(xs_of(injected(LR, MU, key=key), 12), expected, **near)
    chained = optax.chain(optax.clip_by_global_norm(1e6), continuized(LR, MU, key=3))
    np.testing.assert_allclose(xs_of(chained, 12), expected, **near)
    guarded = optax.apply_if_finite(continuized(LR, MU, key=3), 2)
    np.testing.assert_allclose(xs_of(guarded, 12), expected, **near)
    twice = optax.MultiSteps(continuized(LR, MU, key=3), 2)
    np.testing.assert_allclose(xs_of(twice, 24)[1::2], expected, **near)


def test_parts_of_a_tree() -> None:
    params = {"a": jnp.asarray(Y0), "b": jnp.ones(2)}
    labels = {"a": "fast", "b": "still"}
    optimiser = optax.partition({"fast": continuized(LR, MU), "still": optax.sgd(0.1)}, labels)
    state = optimiser.init(params)
    updates, state = optimiser.update({"a": gradient(Y0), "b": jnp.ones(2)}, state, params)
    y = optax.apply_updates(params, updates)
    alone = continuized(LR, MU)
    _, expected = alone.update(gradient(Y0), alone.init(Y0), Y0)
    x = continuized_eval_params(state, y)
    np.testing.assert_array_equal(x["a"], expected.x)
    np.testing.assert_array_equal(x["b"], y["b"])
    with pytest.raises(ValueError, match="no ContinuizedState in the state given"):
        continuized_eval_params(optax.sgd(0.1).init(params), params)


# The clock


def test_keys_at_once_are_the_keys_one_by_one_and_can_be_replayed() -> None:
    keys = jax.random.split(jax.random.key(0), 3)

    def run(**clock: Any) -> Any:
        return scanned(continuized(LR, MU, **clock), 4)(Y0)

    many = jax.jit(jax.vmap(lambda key: run(key=key)))(keys)
    one, replay = jax.jit(lambda key: run(key=key)), jax.jit(lambda gaps: run(clock=gaps))
    for key, xs in zip(keys, many, strict=True):
        drawn = np.asarray(gaps(key, 4), float)
        r = cz.minimize(
            cz.problems.Quadratic(EIGENVALUES, np.ones(3)),
            Y0,
            method=cz.Continuized(1.0 / LR, MU),
            clock=cz.clock.Recorded(np.cumsum(drawn), drawn),
        )
        for got in (one(key), replay(gaps(key, 4)), xs):
            np.testing.assert_allclose(got[-1], r.x, rtol=1e-5)
    assert len(np.unique(many[:, -1, 0])) == 3


def test_a_recorded_clock_that_has_ended() -> None:
    optimiser = continuized(LR, MU, clock=cz.clock.Recorded([0.5, 2.0]))
    y, state = jnp.asarray(Y0), optimiser.init(Y0)
    for _ in range(2):
        updates, state = optimiser.update(gradient(y), state, y)
        y = optax.apply_updates(y, updates)
    np.testing.assert_allclose(y, state.x, rtol=1e-6)
    updates, after = optimiser.update(gradient(y), state, y)
    assert not np.any(updates)
    assert_same_bits(after, state)


def test_a_hundred_million_events_in_float32() -> None:
    """From there on, the steps in float64 of the formulas themselves."""
    drawn = np.random.default_rng(1).exponential(size=30)
    L, t = 1.0 / LR, 1e8
    optimiser = continuized(LR, clock=jnp.asarray(drawn))
    begin = parameters.unit_time(t, L)
    hi = np.float32(begin)
    state = optimiser.init(Y0)._replace(tau=Time(hi, np.float32(begin - float(hi))))
    state = state._replace(count=jnp.zeros((), jnp.int32))
    update = jax.jit(optimiser.update)
    y, scale = jnp.asarray(Y0), 1e-6  # small gradients: gamma' is 2.5e7
    x = z = Y0.astype(float)
    at = x
    for dt in drawn[1:]:
        updates, state = update(scale * gradient(y), state, y)
        y = optax.apply_updates(y, updates)
        g = scale * gradient(at)
        x, z = at - parameters.gamma(L) * g, z - parameters.convex_gamma_prime(t, L, 0.0) * g
        at, z = flow.mix(x, z, *flow.weights(t, t + dt, dt, L, 0.0, 0.0))
        t += dt
    np.testing.assert_allclose(state.z, z, rtol=1e-5)
    np.testing.assert_allclose(y, at, rtol=1e-5)
    assert float(state.tau.hi) + float(state.tau.lo) == pytest.approx(t / L**0.5, rel=1e-12)


# A learning rate that changes


def carried(rates: np.ndarray, drawn: np.ndarray, mu: float, start: float) -> np.ndarray:
    """x_1, ..., x_n in float64: at a change of L, the time of the parameters is that of the pair.

    sqrt(A / B) is a function of t / sqrt(L), so that time is multiplied by sqrt(L_new / L).
    """
    x, z, s, L, rows = Y0.astype(float), Y0.astype(float), start, 1.0 / rates[0], []
    for rate, dt in zip(rates, drawn, strict=True):
        x, z = flow.mix(x, z, *flow.weights(s, s + dt, dt, L, mu, 0.0))
        s = (s + dt) * math.sqrt(1.0 / (rate * L))
        L = 1.0 / rate
        g = gradient(x)
        x, z = x - g / L, z - parameters.gamma_prime(s, L, mu, 0.0) * g
        rows.append(x)
    return np.array(rows)


@pytest.mark.parametrize(("mu", "start"), [(0.0, 0.0), (MU, 2.0)])
def test_a_learning_rate_that_changes_carries_the_pair_on(mu: float, start: float) -> None:
    rng = np.random.default_rng(4)
    rates, drawn = rng.uniform(0.1, 0.5, 25).astype(np.float32), rng.exponential(size=25)
    expected = carried(rates.astype(float), drawn, mu, start)
    near = {"rtol": 1e-5, "atol": 1e-5}
    clock = jnp.asarray(drawn)
    scheduled = continuized(lambda count: jnp.asarray(rates)[count], mu, start, clock=clock)
    np.testing.assert_allclose(xs_of(scheduled, 25), expected, **near)
    by_hand = optax.inject_hyperparams(continuized)(float(rates[0]), mu, start, clock=clock)
    np.testing.assert_allclose(xs_of(by_hand, 25, jnp.asarray(rates)), expected, **near)


def test_the_pair_is_that_of_the_solver_for_unknown_L() -> None:
    rng, pace = np.random.default_rng(5), Carried(2.0)
    rates, drawn = rng.uniform(0.1, 0.5, 9), rng.exponential(size=9)
    rates[0] = 0.5
    x, z, rows = Y0.astype(float), Y0.astype(float), []
    for k, (rate, dt) in enumerate(zip(rates, drawn, strict=True), 1):
        x, z = flow.mix(x, z, *pace.weights(cz.clock.Event(k, 0.0, dt)))
        pace.change_L(1.0 / rate)
        gamma, gamma_prime = pace.steps()
        x, z = x - gamma * gradient(x), z - gamma_prime * gradient(x)
        rows.append(x)
    np.testing.assert_allclose(carried(rates, drawn, 0.0, 0.0), rows, rtol=1e-12)


def test_a_warm_up_from_zero() -> None:
    optimiser = continuized(optax.linear_schedule(0.0, LR, 5), nonfinite="raise")
    xs = xs_of(optimiser, 200)
    np.testing.assert_array_equal(xs[0], Y0)
    np.testing.assert_allclose(xs[-1], np.ones(3), atol=0.05)
    np.testing.assert_array_equal(xs_of(continuized(lambda count: 0.0, MU), 3), [Y0] * 3)


# Gradients that are not finite


def assert_same_bits(one: Any, other: Any) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("bad", [math.nan, math.inf, 3e38])
def test_a_skipped_gradient_was_never_there(bad: float) -> None:
    optimiser = continuized(LR, MU, nonfinite="skip")
    update = jax.jit(optimiser.update)
    _, state = update(gradient(Y0), optimiser.init(Y0), Y0)
    broken = jnp.asarray([1.0, bad, 1.0])
    updates, after = update(broken, state, Y0)
    assert not np.any(updates)
    assert int(after.skipped) == 1
    assert_same_bits(after._replace(skipped=state.skipped), state)
    assert_same_bits(update(gradient(Y0), after, Y0)[1].z, update(gradient(Y0), state, Y0)[1].z)


def test_a_gradient_that_is_not_finite_raises() -> None:
    optimiser = continuized(LR, MU)
    state, broken = optimiser.init(Y0), jnp.full(3, jnp.nan)
    with pytest.raises(FloatingPointError, match="no step was taken: give a smaller"):
        optimiser.update(broken, state, Y0)
    compiled = jax.jit(optimiser.update)
    with pytest.raises(jax.errors.JaxRuntimeError, match="FloatingPointError: a gradient, or"):
        jax.block_until_ready(compiled(broken, state, Y0))
    assert np.all(np.isfinite(compiled(gradient(Y0), state, Y0)[0]))


# What is given


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be finite and > 0, got 0.0"),
        ({"learning_rate": math.nan}, ValueError, "learning_rate must be finite and > 0, got nan"),
        ({"learning_rate": "fast"}, TypeError, "learning_rate must be a number, got 'fast'"),
        ({"mu": -1.0}, ValueError, "mu must be a finite number >= 0, got -1.0"),
        ({"mu": 3.0}, ValueError, "mu must not exceed L"),
        ({"start": -1.0}, ValueError, "start must be a number >= 0"),
        ({"start": math.inf}, ValueError, "start = inf needs mu > 0"),
        ({"key": 0.5}, TypeError, "key must be an integer or one key of jax.random, got 0.5"),
        ({"clock": cz.clock.Poisson(0)}, TypeError, "clock must be cz.clock.Recorded"),
        ({"nonfinite": "ignore"}, ValueError, 'nonfinite must be "raise" or "skip"'),
    ],
)
def test_bad_arguments(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        continuized(**({"learning_rate": LR} | options))


def test_bad_params() -> None:
    optimiser = continuized(LR)
    for params in (np.zeros(2, int), np.zeros(2, complex)):
        with pytest.raises(TypeError, match="params must be arrays of real floats, got one of"):
            optimiser.init(params)
    with pytest.raises(ValueError, match="params is missing: call update"):
        optimiser.update(Y0, optimiser.init(Y0))
    assert isinstance(optimiser.init(Y0), ContinuizedState)
