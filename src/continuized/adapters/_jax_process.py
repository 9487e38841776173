"""What the adapters of JAX and optax share: the process on a tree of arrays, and its formulas.

A formula is a plain Python function of floats, with `math`.  Its `if` and `while` ask for the
truth of a number, which JAX does not know while it traces.  So its source is read, and

    math.f(x)                  becomes    jax.numpy.f(x), or math.f(x) where x is a plain number,
    np.f(x), min(x, y)         become     jax.numpy.f(x), jax.numpy.minimum(x, y),
    if c: return p; return q   becomes    lax.cond(c, p, q), or a plain `if` where c is known,
    while c: ...               becomes    lax.while_loop over the names assigned in it,

and the formulas that it calls are treated alike.  No formula stands here.
"""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from functools import cache, reduce
from types import FunctionType
from typing import Any, NamedTuple
from weakref import WeakSet

import numpy as np

from continuized.process import clock as clocks
from continuized.process import flow, methods
from continuized.support import validation as check
from continuized.support.validation import short_repr

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError as error:
    raise ImportError(
        'the adapters of JAX and optax need JAX: run pip install "continuized[jax]"', name="jax"
    ) from error

__all__ = ["jax", "jnp", "lax"]

Tree = Any
PACKAGE = "continuized."


def real_dtype() -> Any:
    """Return the dtype of time and of all scalars: float64, or float32 where JAX has no other."""
    return jnp.result_type(float)


# The time


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

    The key is an integer or a key of jax.random, the answer a vector.

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
    return _split(lambda x, z: flow.mix(x, z, *_cast(x, a, b)), x, z)


def jump(x: Tree, z: Tree, g: Tree, gamma: Any, gamma_prime: Any) -> tuple[Tree, Tree]:
    """Apply `methods.jump` to every leaf."""
    return _split(lambda x, z, g: methods.jump(x, z, g, *_cast(x, gamma, gamma_prime)), x, z, g)


def _cast(like: Any, *scalars: Any) -> list[Any]:
    return [jnp.asarray(scalar, like.dtype) for scalar in scalars]


def _split(function: Callable[..., tuple[Any, Any]], x: Tree, *others: Tree) -> tuple[Tree, Tree]:
    """Make two trees of the pairs that a function of leaves gives back."""
    made = jax.tree.map(function, x, *others)
    return tuple(jax.tree.map(lambda _, pair, i=i: pair[i], x, made) for i in (0, 1))


def copy_checked(tree: Tree, name: str) -> Tree:
    """Copy the leaves to new JAX arrays of real floats; the dtype of floats is kept."""

    def copy_leaf(leaf: Any) -> Any:
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(
                f"{name} must be arrays of real floats, got one of dtype {dtype}; "
                "convert it with .astype(float)"
            )
        return jnp.array(leaf, dtype)  # with a dtype: the type is not a weak one

    return jax.tree.map(copy_leaf, tree)


def check_gradients(gradients: Tree, params: Tree) -> None:
    """Raise unless the gradients have the structure and the shapes of params, and are real."""
    check_like(gradients, params, "the gradients", "params", ("a gradient", "its parameter"))


def check_like(tree: Tree, other: Tree, name: str, like: str, leaf: tuple[str, str]) -> None:
    """Raise unless a tree has the structure and the shapes of another, and is real.

    name, like: what they are called; leaf: and what a leaf of each is.
    """
    given: Any = jax.tree.structure(tree)
    wanted: Any = jax.tree.structure(other)
    if given != wanted:
        raise ValueError(
            f"{name} must have the structure of {like}, {short_repr(wanted)}, got "
            f"{short_repr(given)}"
        )
    for own, others in zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True):
        check.shape(jnp.asarray(own), leaf[0], jnp.shape(others), like=leaf[1])
        if jnp.issubdtype(jnp.result_type(own), jnp.complexfloating):
            raise TypeError(f"{name} must be real, got one of dtype {jnp.result_type(own)}")


def widen(tree: Tree) -> Tree:
    """Put half precision in float32, so that a step is rounded once; leave the rest as it is."""

    def widen_leaf(leaf: Any) -> Any:
        return jnp.asarray(leaf, jnp.promote_types(jnp.result_type(leaf), jnp.float32))

    return jax.tree.map(widen_leaf, tree)


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
    largest = lax.stop_gradient(jnp.max(jnp.abs(flat)))  # whatever it is, the norm is the same
    scaled = flat / jnp.where(largest > 0.0, largest, 1.0)
    return largest * jnp.sqrt(jnp.sum(jnp.square(scaled)))


def inner(u: Tree, v: Tree) -> Any:
    """Compute <u, v>."""
    products = jax.tree.map(lambda u, v: jnp.sum(u.astype(real_dtype()) * v), u, v)
    return sum(jax.tree.leaves(products), jnp.zeros((), real_dtype()))


def subtract(u: Tree, v: Tree, scale: Any = 1.0) -> Tree:
    """Compute u - scale v."""
    return jax.tree.map(lambda u, v: u - _cast(u, scale)[0] * v, u, v)


def eps_of(tree: Tree) -> float:
    """Return the rounding unit of the least exact dtype."""
    finfo: Any = jnp.finfo
    return max((float(finfo(leaf.dtype).eps) for leaf in jax.tree.leaves(tree)), default=0.0)


def where(test: Any, yes: Tree, no: Tree) -> Tree:
    """Choose one tree or the other."""
    return jax.tree.map(lambda y, n: jnp.where(test, y, n), yes, no)


# Closures


_closes_over_nothing: WeakSet[Any] = WeakSet()  # functions that are traced by nobody


def hoist(function: Callable[..., Any], *example: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function that takes what this one closes over, and what that is.

    JAX differentiates in arguments only: in a closure, the derivative would be lost without a
    word.  A function is looked at once, as it is compiled once: each closure is a new one.
    """
    if isinstance(function, FunctionType) and function in _closes_over_nothing:
        return function, []
    converted, found = jax.closure_convert(function, *example)
    if found:
        return converted, list(found)
    if isinstance(function, FunctionType):
        _closes_over_nothing.add(function)
    return function, []


# Formulas


@cache
def in_jax(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Translate a formula of this package, for plain and for traced numbers.

    It is made of assignments, `if`s that end in `return`, `while` and `return`; raises
    NotImplementedError where there is any other statement.

    >>> from continuized.process.flow import weights
    >>> a, b = jax.jit(in_jax(weights))(1.0, 2.0, 1.0, 1.0, 0.0, 0.0)
    >>> float(a), float(b)
    (0.75, 0.0)
    """
    assert isinstance(formula, FunctionType)
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(formula))).body
    assert isinstance(definition, ast.FunctionDef)
    body = _Translation().translate(definition.body)
    lines = _define(formula.__name__, ast.unparse(definition.args), body)
    code = compile("\n".join(lines), f"<{formula.__qualname__} in JAX>", "exec")
    names = {**formula.__globals__, "math": _Math(), "np": jnp, **_HELPERS}
    for name in formula.__code__.co_names:
        called = formula.__globals__.get(name)  # itself, where an attribute has its name
        if called is formula or not isinstance(called, FunctionType):
            continue
        if called.__module__.startswith(PACKAGE):
            names[name] = in_jax(called)
    exec(code, names)
    translated: Callable[..., Any] = names[formula.__name__]
    return translated


class _Math:
    """Stands for the module `math`."""

    def __getattr__(self, name: str) -> Any:
        plain = getattr(math, name)
        if not callable(plain):
            return plain  # inf
        return lambda v: plain(v) if isinstance(v, int | float) else getattr(jnp, name)(v)


# What the statements become


def _choose(test: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
    if isinstance(test, bool | np.bool_):
        return yes() if test else no()
    if not isinstance(test, jax.core.Tracer):  # known: JAX would compile both ways at every call
        return _cast_reals(yes() if test else no())
    return lax.cond(test, lambda: _cast_reals(yes()), lambda: _cast_reals(no()))


def _both(*tests: Any) -> Any:
    if all(isinstance(test, bool | np.bool_) for test in tests):
        return all(tests)
    return jnp.all(jnp.stack([jnp.asarray(test) for test in tests]))


def _repeat(test: Callable[..., Any], body: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    # The body may make traced numbers of plain ones: whether it does is seen after a turn of it.
    after = body(*values)
    if any(isinstance(value, jax.core.Tracer) for value in (*values, *after)):
        cast = _cast_reals
        return lax.while_loop(lambda v: test(*v), lambda v: cast(body(*v)), cast(values))
    plain = all(isinstance(value, int | float) for value in after)
    values = values if plain else _cast_reals(values)
    while test(*values):
        values = body(*values) if plain else _cast_reals(body(*values))
    return values


def _cast_reals(values: Any) -> Any:
    """Cast reals to one dtype, at both ends of a branch and at every turn of a loop."""

    def cast_real(value: Any) -> Any:
        whole = jnp.issubdtype(jnp.result_type(value), jnp.integer)
        return jnp.asarray(value, None if whole else real_dtype())

    return jax.tree.map(cast_real, values)


def _least(*values: Any) -> Any:
    plain = all(isinstance(value, int | float) for value in values)
    return min(values) if plain else reduce(jnp.minimum, values)


def _largest(*values: Any) -> Any:
    plain = all(isinstance(value, int | float) for value in values)
    return max(values) if plain else reduce(jnp.maximum, values)


_HELPERS = {f.__name__: f for f in (_choose, _both, _repeat)} | {"min": _least, "max": _largest}


# How they become it


class _Translation(ast.NodeTransformer):
    """Makes lines of source of a formula's statements, and changes the expressions in them."""

    def translate(self, statements: Sequence[ast.stmt]) -> list[str]:
        done: list[str] = []
        for i, statement in enumerate(statements):
            if isinstance(statement, ast.If):
                return done + self._branch(statement, statements[i + 1 :])
            if isinstance(statement, ast.While):
                done += self._loop(statement)
            elif isinstance(statement, ast.Assign | ast.AugAssign | ast.Return | ast.Expr):
                done.append(self._write(statement))
            else:
                raise NotImplementedError(
                    f"a formula with {type(statement).__name__} is not translated to JAX: use "
                    "assignments, `if` with `return`, `while` and `return`"
                )
        return done

    def _branch(self, node: ast.If, rest: Sequence[ast.stmt]) -> list[str]:
        if not isinstance(node.body[-1], ast.Return):
            raise NotImplementedError("an `if` that does not end in `return` is not translated")
        return [
            *_define("_yes", "", self.translate(node.body)),
            *_define("_no", "", self.translate([*node.orelse, *rest])),
            f"return _choose({self._write(node.test)}, _yes, _no)",
        ]

    def _loop(self, node: ast.While) -> list[str]:
        read = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
        stored = {name.id for name in read if isinstance(name.ctx, ast.Store)}
        names = ", ".join(sorted(stored)) + ","
        return [
            *_define("_test", names, [f"return {self._write(node.test)}"]),
            *_define("_body", names, [*self.translate(node.body), f"return ({names})"]),
            f"({names}) = _repeat(_test, _body, ({names}))",
        ]

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, yes, no = map(self._write, (node.test, node.body, node.orelse))
        return _read(f"_choose({test}, lambda: {yes}, lambda: {no})")

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if not isinstance(node.op, ast.And):
            raise NotImplementedError("`or` in a formula is not translated to JAX")
        return _read(f"_both({', '.join(map(self._write, node.values))})")

    def _write(self, node: ast.stmt | ast.expr) -> str:
        return ast.unparse(self.visit(node))


def _read(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _define(name: str, parameters: str, body: list[str]) -> list[str]:
    return [f"def {name}({parameters}):", *(f"    {line}" for line in body)]
