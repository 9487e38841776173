"""Proximal steps in JAX: the operators of `cz.prox`, and functions of the user's.

The operators that act on each entry are `prox.entry_step`, translated, and that of the simplex is
`prox.nearest_in_simplex`.  The others are written for arrays that are traced: where one has a
condition, NumPy looks at it, and JAX differentiates both sides of it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from continuized.adapters._jax_process import (
    Tree,
    cast_like,
    check_like,
    hoist,
    in_jax,
    jax,
    jnp,
    lax,
    norm,
    real_dtype,
)
from continuized.process import prox as operators
from continuized.support import validation as check

INF = math.inf
ONE_ARRAY = "is for x0 that is one array; give a function prox(v, step) in operations of JAX"


class Operator(NamedTuple):
    """step(v, s, *constants) = argmin psi(x) + |x - v|^2 / (2 s); value(x, *constants) = psi(x).

    It is what a run is compiled for, while the constants may change.  value None: psi is not known.
    """

    step: Callable[..., Any]
    value: Callable[..., Any] | None = None

    def apply(self, v: Tree, step: Any, constants: tuple[Any, ...]) -> Tree:
        """Take the step, in the dtypes of v; TypeError or ValueError for another kind of tree."""
        x = self.step(v, step, *constants)
        check_like(x, v, "what prox returns", "x", ("what prox returns", "x"))
        return cast_like(x, v)

    def evaluate(self, x: Tree, constants: tuple[Any, ...]) -> Any:
        """Return psi(x), or 0 where it is not known."""
        return 0.0 if self.value is None else self.value(x, *constants)


def _act_on_entries(constants: Callable[..., tuple[Any, ...]]) -> Operator:
    """Make the operator of `prox.Separable`, whose four constants are made of its own."""

    def step(v: Tree, step: Any, *given: Any) -> Tree:
        four = constants(*given)
        return jax.tree.map(lambda v: in_jax(operators.entry_step)(v, step, *four), v)

    def value(x: Tree, *given: Any) -> Any:
        l1, l2, *_ = constants(*given)  # x is between the bounds, up to the rounding of these
        entry_value = in_jax(operators.entry_value)
        sums = [entry_value(x, l1, l2, -math.inf, math.inf).sum() for x in jax.tree.leaves(x)]
        return sum(sums)

    return Operator(step, value)


def _zero(x: Any, *constants: Any) -> Any:
    """psi of a set, at a point of it."""
    return 0.0


def _project_to_simplex(v: Any, step: Any, total: Any) -> Any:
    return in_jax(operators.nearest_in_simplex)(v, total)


def _project_to_l1_ball(v: Any, step: Any, radius: Any) -> Any:
    inside = jnp.sum(jnp.abs(v)) <= radius
    return jnp.where(inside, v, jnp.sign(v) * _project_to_simplex(jnp.abs(v), step, radius))


def _project_to_l2_ball(v: Any, step: Any, radius: Any) -> Any:
    outside = norm(v) > radius
    somewhere = jnp.where(outside, v, 1.0)  # the norm of 0 has no derivative
    return jnp.where(outside, v * (radius / norm(somewhere)), v)


def _find_excess(v: Any, normal: Any, offset: Any) -> tuple[Any, Any]:
    """By how much <normal, v> is above the offset, over |normal|; and the unit normal."""
    length = norm(normal)
    unit = normal / length
    return jnp.sum(unit * v) - offset / length, unit


def _project_to_hyperplane(v: Any, step: Any, normal: Any, offset: Any = 0.0) -> Any:
    excess, unit = _find_excess(v, jnp.asarray(normal), offset)
    return v - excess * unit


def _project_to_halfspace(v: Any, step: Any, normal: Any, offset: Any = 0.0) -> Any:
    excess, unit = _find_excess(v, jnp.asarray(normal), offset)
    return v - jnp.maximum(excess, 0.0) * unit


def _measure_groups(v: Any, number: Any) -> Any:
    """Compute the norms of the groups, entry i being in group number[i]; others have 0."""
    unit = lax.stop_gradient(jnp.max(jnp.abs(v), initial=0.0))  # so that squares do not overflow
    unit = jnp.where(unit > 0.0, unit, 1.0)
    sums = jnp.zeros(v.size, v.dtype).at[number].add(jnp.square(v / unit))
    positive = sums > 0.0
    return unit * jnp.where(positive, jnp.sqrt(jnp.where(positive, sums, 1.0)), 0.0)


def _shrink_groups(v: Any, step: Any, weight: Any, groups: Any) -> Any:
    norms = _measure_groups(v.astype(real_dtype()), groups)[groups]
    least = step * (weight if jnp.ndim(weight) == 0 else jnp.asarray(weight)[groups])
    kept = norms > least
    shrunk = jnp.where(kept, v * (1.0 - least / jnp.where(kept, norms, 1.0)), 0.0)
    return jnp.where(least > 0.0, shrunk, v)


def _sum_norms_of_groups(x: Any, weight: Any, groups: Any) -> Any:
    norms = _measure_groups(x.astype(real_dtype()), groups)
    return jnp.sum(norms[: jnp.size(weight)] * weight) if jnp.ndim(weight) else weight * norms.sum()


def _shrink_singular_values(v: Any, step: Any, weight: Any) -> Any:
    left, values, right = jnp.linalg.svd(v.astype(real_dtype()), full_matrices=False)
    kept = in_jax(operators.entry_step)(values, step, weight, 0.0, 0.0, INF)
    return (left * kept) @ right


def _sum_singular_values(x: Any, weight: Any) -> Any:
    return weight * jnp.linalg.svd(x.astype(real_dtype()), compute_uv=False).sum()


# What the classes of `cz.prox` are in JAX, with the arguments that make one.
ENTRYWISE: dict[type, Callable[..., tuple[Any, ...]]] = {
    operators.Separable: lambda l1=0.0, l2=0.0, low=-INF, high=INF: (l1, l2, low, high),
    operators.L1: lambda weight: (weight, 0.0, -INF, INF),
    operators.ElasticNet: lambda l1, l2: (l1, l2, -INF, INF),
    operators.Box: lambda low, high: (0.0, 0.0, low, high),
    operators.NonNegative: lambda weight=0.0: (weight, 0.0, 0.0, INF),
    operators.LInfBall: lambda radius: (0.0, 0.0, -radius, radius),
}
PROJECTIONS: dict[type, Callable[..., Any]] = {
    operators.Simplex: _project_to_simplex,
    operators.L1Ball: _project_to_l1_ball,
    operators.L2Ball: _project_to_l2_ball,
    operators.Hyperplane: _project_to_hyperplane,
    operators.Halfspace: _project_to_halfspace,
}
OPERATORS = (
    {kind: _act_on_entries(constants) for kind, constants in ENTRYWISE.items()}
    | {kind: Operator(projection, _zero) for kind, projection in PROJECTIONS.items()}
    | {
        operators.GroupLasso: Operator(_shrink_groups, _sum_norms_of_groups),
        operators.NuclearNorm: Operator(_shrink_singular_values, _sum_singular_values),
    }
)


def check_prox(prox: Any, given: Any, x0: Tree) -> tuple[Operator | None, tuple[Any, ...]]:
    """Return the operator of what the user gave, and its constants, for x like x0."""
    constants = given if isinstance(given, tuple) else (given,)
    if prox is None:
        if constants:
            raise ValueError("prox_args are given without prox: give prox=, or drop prox_args=")
        return None, ()
    what = "None, one of cz.prox such as cz.prox.L1(0.1), or a function prox(v, step, *prox_args)"
    if not (callable(prox) and _is_hashable(prox)):
        raise check.refusal(TypeError, "prox", what, prox)
    kind = prox if isinstance(prox, type) else type(prox)
    if kind.__module__ != operators.__name__:
        step, found = hoist(prox, x0, jnp.ones((), real_dtype()), *constants)
        return Operator(step), (*constants, *found)
    name = f"cz.prox.{kind.__name__}"
    names = _name_arguments(kind)
    if prox is not kind:
        if constants:
            raise ValueError(f"{name} has its constants already; drop prox_args=")
        constants = tuple(getattr(prox, name) for name in names)
    elif any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(constants)):
        _check_count(kind, constants, name)
    else:
        _check_count(kind, constants, name)
        prox = kind(*constants)
    _check_fit(prox, kind, constants, x0, name)
    if kind is operators.GroupLasso:  # the labels may be words, and None stands for the rows
        weight, *groups = constants
        number = operators.GroupLasso(0.0, *groups).number_entries(x0)
        constants = weight, number.reshape(x0.shape)
    return OPERATORS[kind], constants


def _name_arguments(kind: type) -> list[str]:
    """Name what an operator of this kind is made of."""
    if kind in ENTRYWISE:
        return list(inspect.signature(ENTRYWISE[kind]).parameters)
    return list(inspect.signature(OPERATORS[kind].step).parameters)[2:]


def _check_count(kind: type, constants: tuple[Any, ...], name: str) -> None:
    try:
        inspect.signature(kind).bind(*constants)
    except TypeError:
        names = ", ".join(_name_arguments(kind))
        raise ValueError(
            f"prox_args must be ({names}) for {name}, got {len(constants)} of them"
        ) from None


def _check_fit(prox: Any, kind: type, constants: tuple[Any, ...], x0: Tree, name: str) -> None:
    """Raise unless x0 is one array of a fitting shape; with numbers, entries may be in a tree."""
    leaves = jax.tree.leaves(x0)
    numbers = all(np.ndim(constant) == 0 for constant in constants)
    if not isinstance(x0, jax.Array) and not (kind in ENTRYWISE and numbers):
        raise ValueError(f"{name} {'with arrays ' if kind in ENTRYWISE else ''}{ONE_ARRAY}")
    if isinstance(prox, operators.ShapedProx):
        for leaf in leaves:
            prox.check_shape(leaf.shape)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
