"""Functions and arrays of the user's own: what they may do, and what is left alone."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

import continuized as cz
from tests.helpers.half_square import X0, identity, square
from tests.invariants.registry import same_bits, user_both, user_fun, user_grad


@pytest.mark.parametrize("where", ["fun", "grad"])
def test_exceptions_of_the_function_come_through(where: str) -> None:
    def fails(x: np.ndarray) -> Any:
        raise ZeroDivisionError("mine")

    functions = {"fun": square, "grad": identity} | {where: fails}
    with pytest.raises(ZeroDivisionError, match="mine"):
        cz.minimize(functions["fun"], X0, functions["grad"], L=1.0)


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
            options = {"record": record, "callback": callback, "maxiter": 30, "rng": 0}
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
    r = cz.minimize(fun, x0, grad, L=1.5, maxiter=30, rng=0, record="path")
    clean = cz.minimize(square, x0, identity, L=1.5, maxiter=30, rng=0, record="path")
    assert same_bits(r.path.x, clean.path.x)
    assert same_bits(x0, X0)


def test_a_function_that_writes_into_x_does_not_change_x_star():
    def fun(x):
        x[:] = 7.0
        return 0.0

    assert cz.Problem(fun, lambda x: x, x_star=[1.0, 2.0]).x_star.tolist() == [1.0, 2.0]


def test_a_gradient_that_uses_one_array_again() -> None:
    out = np.empty(3)

    def grad(x: np.ndarray) -> np.ndarray:
        out[:] = x
        return out

    r = cz.minimize(square, X0, grad, L=1.5, maxiter=30, rng=0)
    jac = r.jac.copy()
    assert same_bits(r.x, cz.minimize(square, X0, identity, L=1.5, maxiter=30, rng=0).x)
    grad(np.full(3, 9.0))
    assert same_bits(r.jac, jac)


def test_gradients_of_every_kind_of_array() -> None:
    wanted = cz.minimize(square, X0, identity, L=1.5, maxiter=9, rng=0).x

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
        assert same_bits(cz.minimize(square, X0, grad, L=1.5, maxiter=9, rng=0).x, wanted)
    ints = cz.minimize(square, X0, lambda x: np.array([1, -1, 0]), L=1.5, maxiter=3, rng=0)
    assert ints.jac.dtype == np.float64


def test_jac_true() -> None:
    calls = []

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        calls.append(x)
        return user_both(x)

    options = {"L": 1.5, "mu": 0.5, "rng": 0, "maxiter": 20}
    r = cz.minimize(both, X0, True, **options)
    assert len(calls) == r.nfev + r.njev
    assert same_bits(r.x, cz.minimize(user_fun, X0, jac=user_grad, **options).x)


def test_integers_make_a_float_start() -> None:
    assert cz.minimize(square, [1, 2], identity, L=1.0, maxiter=3).x.dtype == np.float64
    assert cz.minimize(square, np.float16([1, 2]), identity, L=1.0, maxiter=3).x.dtype == np.float64


# What users write


def test_a_value_in_an_array_of_one() -> None:
    r = cz.minimize(lambda x: np.array([square(x)]), X0, identity, L=1.0, rng=0, maxiter=5)
    assert same_bits(
        r.trace.fun, cz.minimize(square, X0, identity, L=1.0, rng=0, maxiter=5).trace.fun
    )


def test_a_ufunc_made_by_numba_is_a_gradient() -> None:
    @numba.vectorize
    def ufunc(x: float) -> float:
        return x

    r = cz.minimize(square, X0, ufunc, L=1.0, rng=0, maxiter=5)
    assert same_bits(r.x, cz.minimize(square, X0, identity, L=1.0, rng=0, maxiter=5).x)
