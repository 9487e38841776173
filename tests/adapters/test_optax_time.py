"""`adapters.optax.continuized`: its clock, and learning rates that change."""

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
from continuized.adapters._jax_process import Time
from continuized.adapters.optax import continuized, gaps
from continuized.solver.steppers.adaptive import AdaptiveSchedule
from tests.helpers.optax_steps import (
    EIGENVALUES,
    LR,
    MU,
    Y0,
    assert_same_bits,
    gradient,
    scanned,
    xs_of,
)

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
    rng, schedule = np.random.default_rng(5), AdaptiveSchedule(2.0)
    rates, drawn = rng.uniform(0.1, 0.5, 9), rng.exponential(size=9)
    rates[0] = 0.5
    x, z, rows = Y0.astype(float), Y0.astype(float), []
    for k, (rate, dt) in enumerate(zip(rates, drawn, strict=True), 1):
        x, z = flow.mix(x, z, *schedule.weights(cz.clock.Event(k, 0.0, dt)))
        schedule.change_L(1.0 / rate)
        gamma, gamma_prime = schedule.steps()
        x, z = x - gamma * gradient(x), z - gamma_prime * gradient(x)
        rows.append(x)
    np.testing.assert_allclose(carried(rates, drawn, 0.0, 0.0), rows, rtol=1e-12)


def test_a_warm_up_from_zero() -> None:
    optimiser = continuized(optax.linear_schedule(0.0, LR, 5), nonfinite="raise")
    xs = xs_of(optimiser, 200)
    np.testing.assert_array_equal(xs[0], Y0)
    np.testing.assert_allclose(xs[-1], np.ones(3), atol=0.05)
    np.testing.assert_array_equal(xs_of(continuized(lambda count: 0.0, MU), 3), [Y0] * 3)
