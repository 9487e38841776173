"""The formulas in JAX are those of the package, in float64 and in float32."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from continuized import flow, parameters
from continuized.adapters._jax_process import in_jax
from continuized.process import methods

# Of the epsilon of the dtype, relative: 8 of the weights, the rest for omega and omega t, and for
# the functions of XLA, which are not always rounded to the last digit.
UNITS = 24

CONSTANTS = [
    (1.5, 0.0, 0.0),
    (1.5, 0.0, 2.0),
    (1.5, 0.1, 0.0),
    (1.5, 0.1, 2.0),
    (1.5, 1.5, 0.3),
    (40.0, 1e-4, math.inf),
]


def rates(t0: Any, t: Any, dt: Any, L: Any, mu: Any, start: Any) -> tuple[Any, ...]:
    """Every formula of the process, at plain numbers."""
    return (
        *flow.weights(t0, t, dt, L, mu, start),
        parameters.eta(t, L, mu, start),
        parameters.eta_prime(t, L, mu, start),
        parameters.gamma(L),
        parameters.gamma_prime(t, L, mu, start),
        parameters.unit_time(dt, L),
        *parameters.unit_start(start, L),
        parameters.carried_gamma_prime(t, L, mu, start),
        parameters.default_start(mu),
    )


def rates_in_jax(t0: Any, t: Any, dt: Any, L: Any, mu: Any, start: Any) -> tuple[Any, ...]:
    return (
        *in_jax(flow.weights)(t0, t, dt, L, mu, start),
        in_jax(parameters.eta)(t, L, mu, start),
        in_jax(parameters.eta_prime)(t, L, mu, start),
        in_jax(parameters.gamma)(L),
        in_jax(parameters.gamma_prime)(t, L, mu, start),
        in_jax(parameters.unit_time)(dt, L),
        *in_jax(parameters.unit_start)(start, L),
        in_jax(parameters.carried_gamma_prime)(t, L, mu, start),
        in_jax(parameters.default_start)(mu),
    )


def rows(dtype: Any) -> np.ndarray:
    """(t0, t, dt, L, mu, start), exact in the dtype: it is the formulas that are compared."""
    rng = np.random.default_rng(0)
    made = [(0.0, 0.5, 0.5, *constants) for constants in CONSTANTS]  # at u = 0
    made += [(0.5, 0.5, 0.0, *constants) for constants in CONSTANTS]  # no gap
    for constants in CONSTANTS * 60:
        t0, dt = (float(np.asarray(10.0 ** rng.uniform(*e), dtype)) for e in ((-5, 6), (-5, 1.5)))
        made.append((t0, t0 + dt, dt, *constants))
    return np.array(made).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_traced_numbers_give_what_plain_ones_do(dtype: Any) -> None:
    given = rows(dtype)
    expected = np.array([rates(*row) for row in given.astype(np.float64).tolist()]).T
    with jax.enable_x64(dtype is np.float64):
        got = jax.jit(jax.vmap(rates_in_jax))(*given.T)
    for name, exact, values in zip(NAMES, expected, got, strict=True):
        assert values.dtype == dtype
        np.testing.assert_allclose(
            np.asarray(values, np.float64),
            exact,
            rtol=UNITS * float(np.finfo(dtype).eps),
            atol=0.0,
            err_msg=name,
        )


NAMES = (
    *("a", "b", "eta", "eta'", "gamma", "gamma'"),
    *("unit time", "tau", "start", "carried gamma'", "default start"),
)


def test_plain_numbers_stay_plain_and_give_the_same_bits() -> None:
    for row in rows(np.float64)[:60].tolist():
        got = rates_in_jax(*row)
        assert got == rates(*row)
        assert {type(value) for value in got} == {float}
        k, carry, L, mu, start = 1, 0.0, *row[3:]
        rule = methods.Continuized(L, mu, start).rule
        assert in_jax(rule)(k, *row[:3], carry, L, mu, start) == rule(
            k, *row[:3], carry, L, mu, start
        )


def test_the_logarithms_of_A_and_B() -> None:
    with jax.enable_x64(True):
        for formula in (parameters.log_A, parameters.log_B):
            for t, L, mu, start in ((0.5, 2.0, 0.3, 0.1), (9.0, 2.0, 0.3, 0.1)):
                got = in_jax(formula)(jnp.asarray(t), L, mu, start)
                assert float(got) == pytest.approx(formula(t, L, mu, start), rel=1e-14)


def with_for(x: float) -> float:
    for _ in range(3):
        x *= 2.0
    return x


def with_or(x: float) -> float:
    return 1.0 if x < 0.0 or x > 1.0 else 2.0


def without_return(x: float) -> float:
    if x > 0.0:
        x = -x
    return x


@pytest.mark.parametrize(
    ("formula", "named"), [(with_for, "For"), (with_or, "`or`"), (without_return, "`return`")]
)
def test_what_is_not_translated_is_refused(formula: Any, named: str) -> None:
    with pytest.raises(NotImplementedError, match=named):
        in_jax(formula)
