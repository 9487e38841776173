"""The derivative of a minimiser in the parameters of its problem.

x minimises f + psi where x = prox(v), v = x - s grad f(x).  With H the Hessian of f at x and J the
derivative of prox at v, both symmetric, and with dg and dp what grad f and prox change by where x
and v stay, the equation is differentiated to

    dx = J (dx - s H dx - s dg) + dp.

Written as dx = dp + J w, it is solved where

    J (w - J w + s H J w) = J (dp - s H dp - s dg),

whose operator is symmetric and positive: 0 <= J <= 1, as prox is the gradient of a convex function
and no expansion.  So conjugate gradients solve it, forward and reverse alike; without psi it is
H dx = -dg.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from continuized.adapters._jax_loops import Objective
from continuized.adapters._jax_process import Tree, eps_of, jax, jnp, lax, norm, subtract, where
from continuized.adapters._jax_prox import Operator

PRECISION = 8.0  # epsilons, the residual of the linear system that ends its iterations
LARGEST_RESIDUAL = 0.01  # of the right-hand side; beyond, there is no derivative


class Functions(NamedTuple):
    """What a run is compiled for."""

    fun: Callable[..., Any]
    operator: Operator | None


class Minimum(NamedTuple):
    """A point that is taken for a minimiser: with it, f + psi, the gradient of f, and a step."""

    x: Tree
    fun: Any
    jac: Tree
    step: Any
    is_one: Any  # False: there is no derivative


class Parameters(NamedTuple):
    """What f and psi depend on."""

    args: tuple[Any, ...]
    prox_args: tuple[Any, ...]


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def differentiate(
    functions: Functions, minimum: Minimum, parameters: Parameters
) -> tuple[Tree, Any, Tree]:
    """Return (x, fun, jac), whose derivatives in the parameters are those of a minimiser."""
    return minimum.x, minimum.fun, minimum.jac


@differentiate.defjvp
def _push_forward(functions: Functions, primals: Any, tangents: Any) -> Any:
    minimum, parameters = primals
    _, changes = tangents
    x, value, jac = differentiate(functions, minimum, parameters)

    def gradient(x: Tree, args: Any) -> Tree:
        return jax.grad(functions.fun)(x, *args)

    def evaluate(x: Tree, parameters: Parameters) -> Any:
        objective = Objective(*functions, *parameters)
        return objective.add_psi(functions.fun(x, *parameters.args), x)

    def hessian(u: Tree) -> Tree:
        return jax.jvp(lambda x: gradient(x, parameters.args), (x,), (u,))[1]

    _, dg = jax.jvp(lambda args: gradient(x, args), (parameters.args,), (changes.args,))
    dx = _solve(functions.operator, minimum.step, (x, jac), hessian, dg, parameters, changes)
    factor = jnp.where(minimum.is_one, 1.0, jnp.nan)
    dx = jax.tree.map(lambda leaf: leaf * factor.astype(leaf.dtype), dx)
    _, dvalue = jax.jvp(evaluate, (x, parameters), (dx, changes))
    _, djac = jax.jvp(gradient, (x, parameters.args), (dx, changes.args))
    return (x, value, jac), (dx, dvalue, djac)


def _solve(
    operator: Operator | None, s: Any, at: tuple[Tree, Tree], hessian: Any, dg: Tree,
    parameters: Parameters, changes: Parameters,
) -> Tree:  # fmt: skip
    """Return dx; see above."""
    x, jac = at
    v = subtract(x, jac, s)
    dp = jax.tree.map(jnp.zeros_like, x)

    def apply_J(u: Tree) -> Tree:
        if operator is None:
            return u
        step = lambda v: operator.apply(v, s, parameters.prox_args)  # noqa: E731
        return jax.jvp(step, (v,), (u,))[1]

    def apply(w: Tree) -> Tree:
        u = apply_J(w)
        return apply_J(subtract(subtract(w, u), hessian(u), -s))

    right = subtract(dp, dg, s)
    if operator is not None:
        in_prox = lambda given: operator.apply(v, s, given)  # noqa: E731
        _, dp = jax.jvp(in_prox, (parameters.prox_args,), (changes.prox_args,))
        right = subtract(subtract(dp, hessian(dp), s), dg, s)
    w = lax.custom_linear_solve(apply, apply_J(right), _solve_linear_system, symmetric=True)
    return subtract(dp, apply_J(w), -1.0)


def _solve_linear_system(apply: Callable[[Tree], Tree], right: Tree) -> Tree:
    """Return w with apply(w) = right, by conjugate gradients; NaN where they find none."""
    # Here, for where there is no JAX `_jax_process` is the one to say so.
    from jax.scipy.sparse.linalg import cg

    solve: Any = cg
    w, _ = solve(apply, right, tol=PRECISION * eps_of(right))
    solved = norm(subtract(right, apply(w))) <= LARGEST_RESIDUAL * norm(right)
    return where(solved, w, jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), w))
