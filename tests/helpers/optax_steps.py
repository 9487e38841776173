"""A quadratic for the tests of the optax optimiser, and runs on it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax

from continuized.adapters.optax import continuized_eval_params

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


def assert_same_bits(one: Any, other: Any) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
