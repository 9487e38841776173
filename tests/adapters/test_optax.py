"""`adapters.optax.continuized`: optax's contract, its wrappers, failures."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import continuized as cz
from continuized.adapters.optax import ContinuizedState, continuized, continuized_eval_params, gaps
from tests.helpers.optax_steps import LR, MU, Y0, assert_same_bits, gradient, xs_of

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


@pytest.mark.parametrize(("mu", "start"), [(0.0, None), (0.1, None), (0.1, 1.0)])
def test_an_injected_learning_rate_compiles_nothing_anew_outside_of_jit(
    mu: float, start: float | None
) -> None:
    """optax makes the optimiser again at each update: all of its functions are other ones."""
    compiled: list[str] = []

    def listen(event: str, seconds: float, **extra: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    optimiser = optax.inject_hyperparams(continuized)(learning_rate=LR, mu=mu, start=start)
    y = Y0
    state = optimiser.init(y)
    for turn in range(4):
        if turn == 2:
            jax.monitoring.register_event_duration_secs_listener(listen)
        updates, state = optimiser.update(gradient(y), state, y)
        y = optax.apply_updates(y, updates)
    jax.monitoring.clear_event_listeners()
    assert not compiled


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


# Gradients that are not finite


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
        ({"learning_rate": 0.0}, ValueError, r"learning_rate must be a number in .*, got 0.0"),
        ({"learning_rate": math.nan}, ValueError, r"learning_rate must be a number in .*, got nan"),
        ({"learning_rate": "fast"}, TypeError, r"learning_rate must be a number in .*, got 'fast'"),
        ({"learning_rate": jnp.ones(2)}, TypeError, r"must be one number, .* of shape \(2,\)"),
        ({"mu": jnp.zeros(2)}, TypeError, "mu must be one number"),
        ({"mu": -1.0}, ValueError, "mu must be a finite number >= 0, got -1.0"),
        ({"mu": 3.0}, ValueError, "mu must not exceed L"),
        ({"start": -1.0}, ValueError, "start must be a number >= 0"),
        ({"start": math.inf}, ValueError, "start = inf needs mu > 0"),
        ({"key": 0.5}, TypeError, "key must be an integer or one key of jax.random, got 0.5"),
        ({"clock": cz.clock.Poisson(0)}, TypeError, "clock must be cz.clock.Recorded"),
        ({"method": "fast"}, ValueError, 'method must be "continuized" or "sharp"'),
        ({"method": "sharp"}, ValueError, "needs mu > 0"),
        ({"method": "sharp", "mu": 0.1, "start": 1.0}, ValueError, "has no start="),
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


def test_bad_gradients() -> None:
    """One of another shape would be broadcast, and the parameters with it."""
    optimiser, params = continuized(LR), {"w": Y0}
    for gradients, error, words in (
        (Y0, ValueError, "the gradients must have the structure of params"),
        ({"w": np.zeros((2, 3))}, ValueError, r"the shape of its parameter, \(3,\), got \(2, 3\)"),
        ({"w": Y0 + 1j}, TypeError, "gradients must be real, got one of dtype complex64"),
    ):
        with pytest.raises(error, match=words) as caught:
            jax.jit(optimiser.update)(gradients, optimiser.init(params), params)
        assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    given = (np.float32(LR), np.float32(MU), np.float32(2.0))
    np.testing.assert_allclose(xs_of(continuized(*given), 5), xs_of(continuized(LR, MU, 2.0), 5))


def test_fractions_are_numbers_and_a_huge_integer_gets_a_sentence() -> None:
    def update(**options: Any) -> Any:
        optimiser = continuized(**options)
        return optimiser.update(jnp.ones(2), optimiser.init(jnp.ones(2)), jnp.ones(2))[0]

    half = update(learning_rate=Fraction(1, 2), mu=Fraction(1, 2), start=Fraction(1, 2))
    assert_same_bits(half, update(learning_rate=0.5, mu=0.5, start=0.5))
    for name in ("learning_rate", "mu"):
        with pytest.raises(ValueError, match=f"^{name} must be .*, got 1000"):
            update(**{"learning_rate": 0.1, name: 10**400})
    with pytest.raises(ValueError, match=r"^what learning_rate gives must be .*, got 1000"):
        update(learning_rate=lambda count: 10**400)


def test_the_sharp_constants_are_those_of_the_library() -> None:
    curvatures, L, mu = np.array([0.1, 1.0, 4.0]), 4.0, 0.1
    p = cz.problems.Quadratic(curvatures, np.ones(3))
    events = cz.clock.Poisson(3).stream().draw(40)
    clock = cz.clock.Recorded(events.t, events.dt)
    method = cz.SharpContinuized(L, mu)
    ours = cz.minimize(p, np.zeros(3), method=method, clock=clock, maxiter=39)
    with jax.enable_x64(True):
        optimiser = continuized(1.0 / L, mu, clock=clock, method="sharp")
        w = jnp.zeros(3)
        state = optimiser.init(w)
        for _ in range(39):
            updates, state = optimiser.update(jnp.asarray(curvatures) * (w - 1.0), state, w)
            w = optax.apply_updates(w, updates)
        np.testing.assert_allclose(continuized_eval_params(state, w), ours.x, rtol=1e-10)
