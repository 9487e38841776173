"""What the adapters of JAX and optax share: the clock, the time, and both steps on a tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from continuized.adapters._jax_formulas import jax, jnp, real_dtype
from continuized.process import clock as clocks
from continuized.process import flow, methods
from continuized.support import validation as check
from continuized.support.validation import short_repr

Tree = Any


class Time(NamedTuple):
    """A sum of gaps, hi + lo, with lo what the rounding of hi has left out.

    In float32 a plain sum of gaps of mean 1 stands still from 2^24 on.
    """

    hi: Any
    lo: Any

    def after(self, gap: Any) -> Time:
        """Add a gap, to twice the digits (Knuth's two sums, then once more)."""
        total, error = _two_sum(self.hi, jnp.asarray(gap, real_dtype()))
        return Time(*_two_sum(total, error + self.lo))


def time_at(t: Any) -> Time:
    """Return the time t of a clock."""
    return Time(jnp.asarray(t, real_dtype()), jnp.zeros((), real_dtype()))


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a + b rounded, and the rounding error."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


# The clock


def key_of(key: Any) -> Any:
    """Return a JAX key: the one given, typed or not, or that of a seed."""
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", ())
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ():
        return key
    if dtype == jnp.uint32 and len(shape) == 1:
        return jax.random.wrap_key_data(key)
    if not check.is_whole(key):
        raise check.refusal(TypeError, "key", "an integer or one key of jax.random", key)
    try:
        return jax.random.key(key)
    except OverflowError as error:
        raise ValueError(f"key must fit into 64 bits, got {short_repr(key)}") from error


def gap(key: Any, k: Any) -> Any:
    """Draw the gap before event k = 1, 2, ...: exponential, of mean 1, from the key and k alone."""
    return jax.random.exponential(jax.random.fold_in(key, k), dtype=real_dtype())


def gaps(key: Any, n: int) -> Any:
    """Draw the first n gaps of the clock of a key, to run another method on the same events.

    Parameters
    ----------
    key : integer or key of jax.random
    n : int

    Returns
    -------
    array (n,)

    Examples
    --------
    >>> import numpy as np
    >>> drawn = np.asarray(gaps(0, 100), float)
    >>> clock = clocks.Recorded(np.cumsum(drawn), drawn)
    """
    return jax.vmap(gap, (None, 0))(key_of(key), jnp.arange(1, n + 1))


def recorded_gaps(clock: Any) -> Any:
    """Return the gaps of a recorded clock, or of an array of JAX; None where there is no clock."""
    if isinstance(clock, clocks.Recorded):
        return jnp.asarray(clock.gaps, real_dtype())
    if isinstance(clock, jax.Array) and clock.ndim == 1:
        return clock.astype(real_dtype())
    if clock is not None:
        what = "cz.clock.Recorded(times), a vector of gaps in JAX, or None for random times"
        raise check.refusal(TypeError, "clock", what, clock)
    return None


def find_gap(key: Any, recorded: Any, k: Any) -> Any:
    """Return the gap before event k: drawn, or the recorded one, which is 0 after the last.

    So y is x there.
    """
    if recorded is None:
        return gap(key, k)
    return jnp.append(recorded, 0.0)[jnp.minimum(k - 1, recorded.size)]


# The process on a tree of arrays.  Scalars are cast to the arrays' dtype, not the other way round.


def mix(x: Tree, z: Tree, a: Any, b: Any) -> tuple[Tree, Tree]:
    """Apply `flow.mix` to every leaf."""
    return _both(lambda x, z: flow.mix(x, z, *_cast(x, a, b)), x, z)


def jump(x: Tree, z: Tree, g: Tree, gamma: Any, gamma_prime: Any) -> tuple[Tree, Tree]:
    """Apply `methods.jump` to every leaf."""
    return _both(lambda x, z, g: methods.jump(x, z, g, *_cast(x, gamma, gamma_prime)), x, z, g)


def _cast(like: Any, *scalars: Any) -> list[Any]:
    return [jnp.asarray(scalar, like.dtype) for scalar in scalars]


def _both(function: Callable[..., tuple[Any, Any]], x: Tree, *others: Tree) -> tuple[Tree, Tree]:
    """Make two trees of the pairs that a function of leaves gives back."""
    made = jax.tree.map(function, x, *others)
    return tuple(jax.tree.map(lambda _, pair, i=i: pair[i], x, made) for i in (0, 1))


def copy_checked(tree: Tree, name: str) -> Tree:
    """Copy the leaves to new JAX arrays of real floats; the dtype of floats is kept."""

    def checked(leaf: Any) -> Any:
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(f"{name} must be arrays of real floats, got one of dtype {dtype}")
        return jnp.array(leaf, dtype)  # with a dtype: the type is not a weak one

    return jax.tree.map(checked, tree)


def check_gradients(gradients: Tree, params: Tree) -> None:
    """Raise unless the gradients have the structure and the shapes of params, and are real."""
    given: Any = jax.tree.structure(gradients)
    wanted: Any = jax.tree.structure(params)
    if given != wanted:
        raise ValueError(
            f"the gradients must have the structure of params, {short_repr(wanted)}, got "
            f"{short_repr(given)}"
        )
    for g, p in zip(jax.tree.leaves(gradients), jax.tree.leaves(params), strict=True):
        check.shape(jnp.asarray(g), "a gradient", jnp.shape(p), like="its parameter")
        if jnp.issubdtype(jnp.result_type(g), jnp.complexfloating):
            raise TypeError(f"gradients must be real, got one of dtype {jnp.result_type(g)}")


def widen(tree: Tree) -> Tree:
    """Put half precision in float32, so that a step is rounded once; leave the rest as it is."""

    def wide(leaf: Any) -> Any:
        return jnp.asarray(leaf, jnp.promote_types(jnp.result_type(leaf), jnp.float32))

    return jax.tree.map(wide, tree)


def cast_like(tree: Tree, other: Tree) -> Tree:
    """Cast a tree to the dtypes of another."""
    return jax.tree.map(lambda v, o: jnp.asarray(v, jnp.result_type(o)), tree, other)


def all_finite(*trees: Tree) -> Any:
    """Tell whether every number is finite."""
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(trees)]
    return jnp.all(jnp.stack(leaves)) if leaves else jnp.asarray(True)


def norm(tree: Tree) -> Any:
    """Compute the Euclidean norm, by way of g / max |g|: in float32, squares of 1e-23 are 0."""
    leaves = [leaf.astype(real_dtype()).ravel() for leaf in jax.tree.leaves(tree)]
    flat = jnp.concatenate([jnp.zeros(1, real_dtype()), *leaves])
    largest = jnp.max(jnp.abs(flat))
    scaled = flat / jnp.where(largest > 0.0, largest, 1.0)
    return largest * jnp.sqrt(jnp.sum(jnp.square(scaled)))


def where(test: Any, yes: Tree, no: Tree) -> Tree:
    """Choose one tree or the other."""
    return jax.tree.map(lambda y, n: jnp.where(test, y, n), yes, no)
