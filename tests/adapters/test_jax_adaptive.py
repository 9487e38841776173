"""`adapters.jax.minimize` without L: the run of `cz.minimize` that finds it, compiled."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import continuized as cz
from continuized import Status
from continuized.adapters._jax_loops import STATUSES
from continuized.adapters.jax import gaps, minimize

EIGENVALUES = np.array([0.1, 1.0, 20.0], np.float32)


def f(x: Any, eigenvalues: Any) -> Any:
    return 0.5 * jnp.sum(eigenvalues * (x - 1.0) ** 2)


def barrier(x: Any, slopes: Any) -> Any:
    """Not finite from 1 on, so that events are rejected on the way there."""
    return -jnp.sum(slopes * x + 0.01 * jnp.log(1.0 - x))


def recorded(key: int, n: int) -> cz.clock.Recorded:
    drawn = np.asarray(gaps(key, n), float)
    return cz.clock.Recorded(np.cumsum(drawn), drawn)


def run_both(fun: Any, x0: Any, args: Any, prox: Any = None, **options: Any) -> tuple[Any, Any]:
    """A run of this adapter and that of `cz.minimize` on the same events, in float64."""
    value_and_grad = jax.jit(jax.value_and_grad(fun))

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_grad(x, *args)
        return float(value), np.asarray(gradient)

    with jax.enable_x64(True):
        found = minimize(fun, x0, args, prox=prox, key=3, **options)
        clock = recorded(3, options["maxiter"])
        same = cz.minimize(both, x0, True, prox=prox, clock=clock, **options)
        return found, same


def test_it_is_the_run_of_minimize_on_the_gaps_of_the_key() -> None:
    slopes, x0 = np.array([0.5, 1.0, 3.0]), np.array([-3.0, -2.0, -1.0])
    restarts, rejected = 0, 0
    for options in ({"maxiter": 30}, {"maxiter": 400, "tol": 0.49}):
        found, same = run_both(barrier, x0, (slopes,), **options)
        assert (int(found.nit), int(found.njev)) == (same.nit, same.njev)
        assert found.message == same.message
        # The barrier enlarges what is rounded differently; another decision would be seen.
        np.testing.assert_allclose(found.x, same.x, rtol=1e-4)
        np.testing.assert_allclose(found.t, same.trace.t[-1], rtol=1e-12)
        np.testing.assert_allclose(found.L, same.constants["L"], rtol=1e-3)
        np.testing.assert_allclose(found.error, np.linalg.norm(same.jac), rtol=1e-3)
        restarts += same.constants["restarts"]
        rejected += same.constants["rejected"]
    assert restarts > 0 < rejected  # the run went through all that may happen


@pytest.mark.parametrize("prox", [cz.prox.L1(0.3), cz.prox.Box(-0.5, 0.7)], ids=["L1", "Box"])
def test_with_prox_too(prox: Any) -> None:
    matrix = np.random.default_rng(0).normal(size=(4, 5))

    def fit(x: Any, matrix: Any) -> Any:
        return 0.5 * jnp.sum((matrix @ x - 1.0) ** 2)

    how: Any = {"maxiter": 600, "tol": 1e-5}
    found, same = run_both(fit, np.zeros(5), (matrix,), prox, **how)
    assert (int(found.nit), int(found.njev), bool(found.success)) == (same.nit, same.njev, True)
    np.testing.assert_allclose(found.x, same.x, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(found.fun, same.fun, rtol=1e-12)  # f + h
    assert float(found.error) <= 1e-5
    with jax.enable_x64(True):  # with L, to the same minimum, by steps of another run
        known = minimize(fit, np.zeros(5), matrix, prox=prox, L=25.0, **how)
    assert known.success
    assert float(known.error) <= 1e-5
    # Each is above the minimum by at most tol times its distance from there, which is below 2.
    np.testing.assert_allclose(known.fun, found.fun, rtol=0.0, atol=2e-5)


def test_in_a_box_no_gradient_mapping_is_small_because_L_is() -> None:
    """Beside the gradient far away all others seemed rounding, and L fell for ever."""
    unit, curvatures = 1e-8, np.array([0.13, 0.03, 0.04, 0.01])
    star = unit * np.array([1.0, -8.0, 14.0, 5.0])

    def fit(x: Any, curvatures: Any) -> Any:
        return 0.5 * jnp.sum(curvatures * (x - star) ** 2)

    box, how = cz.prox.Box(-3.0 * unit, 4.0 * unit), {"maxiter": 5000, "tol": 1e-3 * unit}
    found, same = run_both(fit, np.full(4, 1e10), (curvatures,), box, **how)
    assert bool(found.success)
    assert same.success
    np.testing.assert_allclose(found.x, np.clip(star, -3.0 * unit, 4.0 * unit), atol=0.5 * unit)


def test_in_jit_and_vmap() -> None:
    """Each of many runs stops by itself, where it does alone."""

    def run(scale: Any) -> Any:
        return minimize(f, jnp.zeros(3), scale * EIGENVALUES, tol=1e-4)

    with jax.enable_x64(True):
        scales = np.array([0.1, 1.0, 50.0])
        many = jax.jit(jax.vmap(run))(scales)
        alone = [run(scale) for scale in scales]
    assert many.success.tolist() == [True] * 3
    assert len(set(many.nit.tolist())) > 1
    assert many.nit.tolist() == [int(r.nit) for r in alone]
    np.testing.assert_allclose(many.x, np.stack([r.x for r in alone]), rtol=1e-9)


def test_trees_keep_their_structure_and_the_end_is_certified() -> None:
    def g(x: Any) -> Any:
        return jnp.sum(jnp.cosh(x["a"] - 1.0)) + 0.5 * jnp.sum((x["b"][0] + 2.0) ** 2)

    x0 = {"a": jnp.zeros((2, 2)), "b": [jnp.zeros(3)]}
    r = minimize(g, x0, tol=1e-4)
    assert bool(r.success)
    assert r.message == Status.CONVERGED.value
    assert jax.tree.structure(r.x) == jax.tree.structure(r.jac) == jax.tree.structure(x0)
    gradient = jax.grad(g)(r.x)
    assert float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)))) <= 1e-4
    np.testing.assert_allclose(r.x["a"], np.ones((2, 2)), atol=1e-3)
    np.testing.assert_allclose(float(r.fun), 4.0, rtol=1e-6)


@pytest.mark.parametrize("given", [recorded(0, 7), gaps(0, 7)], ids=["Recorded", "gaps"])
def test_a_recorded_clock_ends_the_run(given: Any) -> None:
    r = minimize(f, np.zeros(3), EIGENVALUES, clock=given, tol=1e-9)
    assert (int(r.nit), r.message) == (7, Status.CLOCK_ENDED.value)
    same = minimize(f, np.zeros(3), EIGENVALUES, key=0, maxiter=7)
    np.testing.assert_allclose(r.x, same.x, rtol=1e-6)


def falls(x: Any) -> Any:
    return -jnp.sum(x)


def is_nowhere_finite(x: Any) -> Any:
    return jnp.nan * jnp.sum(x)


def rises_at_once(x: Any) -> Any:
    """However short the step from 0 is."""
    return jnp.where(jnp.any(x != 0.0), 1.0, 0.0) + jnp.sum(x)


@pytest.mark.parametrize(
    ("fun", "status"),
    [
        (falls, Status.NO_MINIMUM),
        (is_nowhere_finite, Status.NOT_FINITE),
        (rises_at_once, Status.NO_DESCENT),
    ],
)
def test_how_hopeless_runs_end(fun: Any, status: Status) -> None:
    r = minimize(fun, jnp.zeros(2))
    assert r.message == status.value
    assert not r.success
    assert bool(jnp.all(jnp.isfinite(r.x)))
    if status is Status.NOT_FINITE:
        with pytest.raises(FloatingPointError, match="after 0 events"):
            minimize(fun, jnp.zeros(2), nonfinite="raise")


def test_where_f_overflows_L_grows() -> None:
    r = minimize(lambda x: jnp.sum(jnp.exp(x * x)), jnp.full(2, 3.0), tol=1e-3)
    assert bool(r.success)
    np.testing.assert_allclose(r.x, np.zeros(2), atol=1e-3)


def test_a_run_that_ends_among_rejected_events_is_no_success() -> None:
    """f is defined near the start only, where the first L is looked for."""

    def fun(x: Any) -> Any:
        return jnp.where(jnp.all(jnp.abs(x - 10.0) < 1e-2), 1e-3 * jnp.sum(x**2), jnp.nan)

    r = minimize(fun, jnp.full(2, 10.0), maxiter=3)
    assert STATUSES[int(r.status)] is Status.NOT_FINITE
    assert not r.success
    assert r.x.tolist() == [10.0, 10.0]
