"""`adapters.jax.minimize` without L: the run of `cz.minimize` that finds it on the way."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import continuized as cz
from continuized import Status
from continuized.adapters import jax as jax_adaptive
from continuized.adapters.jax import gaps, minimize

EIGENVALUES = np.array([0.1, 1.0, 20.0], np.float32)


def f(x: Any, eigenvalues: Any) -> Any:
    return 0.5 * jnp.sum(eigenvalues * (x - 1.0) ** 2)


def recorded(key: int, n: int) -> cz.clock.Recorded:
    drawn = np.asarray(gaps(key, n), float)
    return cz.clock.Recorded(np.cumsum(drawn), drawn)


def test_it_is_the_run_of_minimize_on_the_gaps_of_the_key(monkeypatch: Any) -> None:
    monkeypatch.setattr(jax_adaptive, "BLOCK", 7)  # so that there are several
    found = minimize(f, np.zeros(3, np.float32), EIGENVALUES, key=3, maxiter=30)
    both = jax.jit(jax.value_and_grad(lambda x: f(x, EIGENVALUES)))
    same = cz.minimize(both, jnp.zeros(3), True, clock=recorded(3, 30))
    assert (int(found.nit), found.message) == (30, Status.COMPLETED.value)
    np.testing.assert_allclose(found.x, same.x, rtol=1e-6)
    np.testing.assert_allclose(float(found.t), same.trace.t[-1], rtol=1e-6)
    assert int(found.njev) == same.njev
    other = minimize(f, np.zeros(3), EIGENVALUES, key=4, maxiter=30)
    assert not np.allclose(found.x, other.x, rtol=1e-3)


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
    assert np.array_equal(r.x, same.x)


def test_inside_jit_and_vmap_L_must_be_given() -> None:
    def run(key: Any) -> Any:
        return minimize(f, np.zeros(3), EIGENVALUES, key=key)

    for traced in (lambda: jax.vmap(run)(jnp.arange(2)), lambda: jax.jit(run)(0)):
        with pytest.raises(ValueError, match="L is missing: give L= inside jit or vmap"):
            traced()
