"""`minimize` for functions of JAX whose L is not known: the loop of `cz.minimize`, on JAX arrays.

That loop decides in Python, event by event, what L is; fun and its gradient are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from continuized.adapters._jax_import import jax, jnp
from continuized.adapters._jax_process import Tree, checked_copy, gap, key_of, recorded_gaps
from continuized.process import clock as clocks
from continuized.solver.minimize import minimize
from continuized.solver.result import Result

BLOCK = 256  # gaps drawn at once: a call of JAX costs as much as many of them


def minimize_without_L(
    fun: Callable[..., Any],
    x0: Tree,
    args: tuple[Any, ...],
    key: Any,
    clock: Any,
    **options: Any,
) -> tuple[Result, Callable[[Any], Tree]]:
    """The run of `cz.minimize`, and what makes a tree of its vectors.

    Raises ValueError inside jit or vmap, where no L can be decided on.
    """
    from jax.flatten_util import ravel_pytree

    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((x0, args, key, clock))):
        raise ValueError(
            "L is missing: give L= inside jit or vmap; elsewhere it is found on the way"
        )
    x, tree = ravel_pytree(checked_copy(x0, "x0"))
    compiled = jax.jit(jax.value_and_grad(lambda x, *args: fun(tree(x), *args)))

    def value_and_gradient(x: Any) -> tuple[Any, Any]:
        value, gradient = compiled(x, *args)
        return float(value), gradient

    events = _clock(key, recorded_gaps(clock), clock)
    return minimize(value_and_gradient, x, True, clock=events, **options), tree


def _clock(key: Any, recorded: Any, clock: Any) -> clocks.Clock:
    if recorded is None:
        return _Keyed(key_of(key))
    if isinstance(clock, clocks.Recorded):
        return clock
    drawn = np.asarray(recorded, float)
    return clocks.Recorded(np.cumsum(drawn), drawn)


@dataclass(frozen=True)
class _Keyed:
    """The clock whose gaps are `gaps(key, n)`, however many are asked for."""

    key: Any

    def stream(self) -> clocks.Stream:
        block = jax.jit(jax.vmap(gap, (None, 0)))
        waiting, drawn = np.empty(0), 0

        def draw(n: int) -> Any:
            nonlocal waiting, drawn
            while waiting.size < n:
                more = block(self.key, jnp.arange(drawn + 1, drawn + BLOCK + 1))
                waiting, drawn = np.append(waiting, np.asarray(more, float)), drawn + BLOCK
            taken, waiting = waiting[:n], waiting[n:]
            return taken

        return clocks.Stream(draw)
