"""Derivatives of the minimiser that `adapters.jax.minimize` finds: exact ones, and differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import continuized as cz
from continuized.adapters.jax import minimize

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(30, 5)), RNG.normal(size=30)
V, C = RNG.normal(size=(20, 5)), RNG.normal(size=20)  # validation
L = 5.0  # of both, at least; the loop with L compiles in half the time of the other
EXACT = {"float64": (1e-11, 1e-8), "float32": (1e-6, 1e-4)}  # tol of the run, and of the test


@pytest.fixture(params=EXACT)
def dtype(request: Any) -> Any:
    with jax.enable_x64(request.param == "float64"):
        yield request.param


def ridge(x: Any, l2: Any) -> Any:
    a, b = jnp.asarray(A, x.dtype), jnp.asarray(B, x.dtype)
    return 0.5 * jnp.mean((a @ x - b) ** 2) + 0.5 * l2 * jnp.sum(x * x)


def validate(x: Any) -> Any:
    return 0.5 * jnp.mean((jnp.asarray(V, x.dtype) @ x - jnp.asarray(C, x.dtype)) ** 2)


def solve_ridge(l2: Any) -> Any:
    """The minimiser in closed form."""
    hessian = A.T @ A / 30 + l2 * jnp.eye(5)
    return jnp.linalg.solve(hessian, A.T @ B / 30)


def derive_exactly(of: Callable[..., Any], *at: float) -> np.ndarray:
    """What `of` says of the closed form, in float64."""
    with jax.enable_x64(True):
        return np.asarray(of(lambda l2: validate(solve_ridge(l2)))(*at))


def test_forward_reverse_and_second_derivatives_of_ridge(dtype: str) -> None:
    tol, rtol = EXACT[dtype]
    x0 = jnp.zeros(5, dtype)

    def loss(l2: Any) -> Any:
        return validate(minimize(ridge, x0, l2, L=L, tol=tol).x)

    l2 = jnp.asarray(0.3, dtype)
    exact = derive_exactly(jax.grad, 0.3)
    np.testing.assert_allclose(jax.grad(loss)(l2), exact, rtol=rtol)
    if dtype == "float32":
        return
    np.testing.assert_allclose(jax.jit(jax.jacfwd(loss))(l2), exact, rtol=rtol)
    second = derive_exactly(lambda f: jax.grad(jax.grad(f)), 0.3)
    np.testing.assert_allclose(jax.jacfwd(jax.grad(loss))(l2), second, rtol=10 * rtol)


def test_grad_of_grad_and_many_at_once() -> None:
    with jax.enable_x64(True):

        def loss(l2: Any) -> Any:
            return validate(minimize(ridge, jnp.zeros(5), l2, L=L, tol=1e-11).x)

        twice = jax.grad(jax.grad(loss))(0.3)
        np.testing.assert_allclose(
            twice, derive_exactly(lambda f: jax.grad(jax.grad(f)), 0.3), rtol=1e-7
        )
        given = np.array([0.1, 0.3, 1.0])
        many = jax.vmap(jax.grad(loss))(given)
        np.testing.assert_allclose(many, [derive_exactly(jax.grad, l2) for l2 in given], rtol=1e-8)


def test_value_and_gradient_at_the_minimum_too() -> None:
    """The envelope theorem: f* has the partial derivative, and the gradient stays 0."""
    with jax.enable_x64(True):

        def run(l2: Any) -> Any:
            return minimize(ridge, jnp.zeros(5), l2, tol=1e-11)

        found, changes = jax.jvp(lambda l2: run(l2)[:3], (0.3,), (1.0,))
        np.testing.assert_allclose(changes[1], 0.5 * jnp.sum(found[0] ** 2), rtol=1e-10)
        np.testing.assert_allclose(changes[2], np.zeros(5), atol=1e-12)
        from_start = jax.grad(lambda x0: jnp.sum(minimize(ridge, x0, 0.3).x))(jnp.zeros(5))
        assert from_start.tolist() == [0.0] * 5


def test_what_a_function_closes_over_is_differentiated() -> None:
    """In JAX a derivative in a closure may be lost without a word."""
    with jax.enable_x64(True):

        def loss(l2: Any) -> Any:
            return validate(minimize(lambda x: ridge(x, l2), jnp.zeros(5), L=L, tol=1e-11).x)

        def loss_by_prox(l2: Any) -> Any:
            def shrink(v: Any, step: Any) -> Any:
                return v / (1.0 + step * l2)

            r = minimize(ridge, jnp.zeros(5), 0.0, prox=shrink, L=L, tol=1e-11)
            return validate(r.x)

        exact = derive_exactly(jax.grad, 0.3)
        np.testing.assert_allclose(jax.grad(loss)(0.3), exact, rtol=1e-8)
        np.testing.assert_allclose(jax.jit(jax.grad(loss_by_prox))(0.3), exact, rtol=1e-8)


NORMAL = np.arange(1.0, 6.0)
BY_CLASS = [
    (cz.prox.L1, (0.15,)),
    (cz.prox.ElasticNet, (0.15, 0.2)),
    (cz.prox.Box, (-0.1, 0.12)),
    (cz.prox.NonNegative, (0.05,)),
    (cz.prox.LInfBall, (0.12,)),
    (cz.prox.L2Ball, (0.2,)),
    (cz.prox.L1Ball, (0.3,)),
    (cz.prox.Simplex, (0.7,)),
    (cz.prox.Hyperplane, (NORMAL, 0.5)),
    (cz.prox.Halfspace, (NORMAL, -0.5)),
]
SLOW = [pytest.param(*case, marks=pytest.mark.slow) for case in BY_CLASS[1:]]


@pytest.mark.parametrize(("kind", "constants"), [BY_CLASS[0], *SLOW])
def test_derivatives_with_prox_are_finite_differences(kind: Any, constants: Any) -> None:
    """In the data and in the constants of h, along one direction."""
    step, tol = 1e-6, 1e-12

    def fit(x: Any, b: Any) -> Any:
        return 0.5 * jnp.mean((A @ x - b) ** 2)

    rng = np.random.default_rng(1)
    moves = [rng.normal(size=np.shape(each)) for each in (B, *constants)]
    with jax.enable_x64(True):

        @jax.jit
        def loss(b: Any, *constants: Any) -> Any:
            r = minimize(fit, jnp.zeros(5), b, prox=kind, prox_args=constants, L=L, tol=tol)
            return validate(r.x)

        at = [jnp.asarray(each) for each in (B, *constants)]
        ahead, behind = (
            loss(*(each + sign * step * move for each, move in zip(at, moves, strict=True)))
            for sign in (1.0, -1.0)
        )
        gradients = jax.grad(loss, tuple(range(len(at))))(*at)
        along = sum(np.sum(g * move) for g, move in zip(gradients, moves, strict=True))
        forward = jax.jvp(loss, tuple(at), tuple(jnp.asarray(move) for move in moves))[1]
        along, forward, difference = map(float, (along, forward, (ahead - behind) / (2.0 * step)))
    # The difference of losses near 0.5, each wrong by tol / mu and a few roundings, over 2e-6,
    # and its bend.
    np.testing.assert_allclose(along, difference, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(forward, along, rtol=1e-9)


def test_a_run_that_did_not_converge() -> None:
    """Its derivative is that of the equation at x, which has the error of x; without any minimum
    there is none."""
    with jax.enable_x64(True):

        def loss(l2: Any, maxiter: int) -> Any:
            r = minimize(ridge, jnp.zeros(5), l2, L=L, tol=1e-12, maxiter=maxiter)
            return validate(r.x), r.success

        errors = []
        for maxiter in (5, 50, 200):
            slope, success = jax.grad(loss, has_aux=True)(0.3, maxiter)
            errors.append(abs(float(slope - derive_exactly(jax.grad, 0.3))))
            assert not success
        assert errors[0] > 5 * errors[1] > 25 * errors[2] > 0.0
        assert np.isnan(jax.grad(leave_the_domain)(3.0))
        falls = jax.grad(lambda c: jnp.sum(minimize(lambda x, c: c * jnp.sum(x), X0, c).x))(1.0)
        assert np.isnan(falls)
        flat = jax.grad(lambda c: jnp.sum(minimize(quartic, X0, c, L=1.0).x))
        assert not np.isfinite(flat(0.0))  # the Hessian at the minimum is 0


X0 = np.zeros(2)


def leave_the_domain(c: Any) -> Any:
    """A step too long, to where the Hessian looks like a good one."""
    barrier = lambda x, c: -jnp.sum(jnp.log(1.0 - x) + c * x)  # noqa: E731
    return jnp.sum(minimize(barrier, X0, c, L=0.1).x)


def quartic(x: Any, c: Any) -> Any:
    return jnp.sum(x**4 + c * x)


def test_labels_and_keys_that_have_no_derivative() -> None:
    """Integers among the arguments are left alone."""
    labels = jnp.array([0, 1, 1])

    def loss(x: Any, weight: Any, labels: Any) -> Any:
        return jnp.sum((x[labels] - 1.0) ** 2) + weight * jnp.sum(x**2)

    def total(weight: Any, key: Any) -> Any:
        return jnp.sum(minimize(loss, jnp.zeros(2), (weight, labels), key=key, tol=1e-5).x)

    # x = n / (n + w) with n = 1 and 2 labels.
    exact = -(1.0 / 2.0**2 + 2.0 / 3.0**2)
    many = jax.vmap(jax.grad(total), (None, 0))(1.0, jnp.arange(2))
    np.testing.assert_allclose(many, [exact, exact], rtol=1e-4)
