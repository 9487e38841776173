"""The scalar formulas of the package in JAX: the same sources, evaluated on traced numbers.

A formula is a plain Python function of floats, with `math`.  Its `if` and `while` ask for the
truth of a number, which JAX does not know while it traces.  So its source is read, and

    math.f(x)                  becomes    jax.numpy.f(x), or math.f(x) where x is a plain number,
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
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError as error:
    raise ImportError(
        'the adapters of JAX and optax need JAX: run pip install "continuized[jax]"', name="jax"
    ) from error

__all__ = ["in_jax", "jax", "jnp", "lax", "real_dtype"]

PACKAGE = __name__.partition(".")[0]


def real_dtype() -> Any:
    """That of time and of all scalars: float64, or float32 where JAX has no other."""
    return jnp.result_type(float)


@cache
def in_jax(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of this package, for plain and for traced numbers.

    Parameters
    ----------
    formula : function
        Of scalars, made of assignments, `if`s that end in `return`, `while` and `return`.

    Raises
    ------
    NotImplementedError
        For a formula with any other statement.

    Examples
    --------
    >>> from continuized.process.flow import weights
    >>> a, b = jax.jit(in_jax(weights))(1.0, 2.0, 1.0, 1.0, 0.0, 0.0)
    >>> float(a), float(b)
    (0.75, 0.0)
    """
    assert isinstance(formula, FunctionType)
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(formula))).body
    assert isinstance(definition, ast.FunctionDef)
    for argument in definition.args.args:
        argument.annotation = None
    body = _Translation().translate(definition.body)
    lines = _define(formula.__name__, ast.unparse(definition.args), body)
    code = compile("\n".join(lines), f"<{formula.__qualname__} in JAX>", "exec")
    names = {**formula.__globals__, "math": _Math(), **_HELPERS}
    for name in formula.__code__.co_names:
        if _is_formula(names.get(name)):
            names[name] = in_jax(names[name])
    exec(code, names)
    translated: Callable[..., Any] = names[formula.__name__]
    return translated


def _is_formula(value: Any) -> bool:
    return isinstance(value, FunctionType) and value.__module__.partition(".")[0] == PACKAGE


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
    return lax.cond(test, lambda: _typed(yes()), lambda: _typed(no()))


def _both(*tests: Any) -> Any:
    if all(isinstance(test, bool | np.bool_) for test in tests):
        return all(tests)
    return jnp.all(jnp.stack([jnp.asarray(test) for test in tests]))


def _repeat(test: Callable[..., Any], body: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    # The body may make traced numbers of plain ones: whether it does is seen after a turn of it.
    if all(isinstance(value, int | float) for value in body(*values)):
        while test(*values):
            values = body(*values)
        return values
    return lax.while_loop(lambda v: test(*v), lambda v: _typed(body(*v)), _typed(values))


def _typed(values: Any) -> Any:
    """Arrays of one dtype of reals: both ends of a branch, every turn of a loop."""

    def typed(value: Any) -> Any:
        whole = jnp.issubdtype(jnp.result_type(value), jnp.integer)
        return jnp.asarray(value, None if whole else real_dtype())

    return jax.tree.map(typed, values)


_HELPERS = {f.__name__: f for f in (_choose, _both, _repeat)}


# How they become it


class _Translation(ast.NodeTransformer):
    """Makes lines of source of a formula's statements, and changes the expressions in them."""

    def __init__(self) -> None:
        self.made = 0

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
        yes, no = self._name_part(), self._name_part()
        return [
            *_define(yes, "", self.translate(node.body)),
            *_define(no, "", self.translate([*node.orelse, *rest])),
            f"return _choose({self._write(node.test)}, {yes}, {no})",
        ]

    def _loop(self, node: ast.While) -> list[str]:
        parts = [part for statement in node.body for part in ast.walk(statement)]
        stored = (p for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Store))
        names = ", ".join(sorted({name.id for name in stored})) + ","
        test, body = self._name_part(), self._name_part()
        return [
            *_define(test, names, [f"return {self._write(node.test)}"]),
            *_define(body, names, [*self.translate(node.body), f"return ({names})"]),
            f"({names}) = _repeat({test}, {body}, ({names}))",
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

    def _name_part(self) -> str:
        self.made += 1
        return f"_part_{self.made}"


def _read(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _define(name: str, parameters: str, body: list[str]) -> list[str]:
    return [f"def {name}({parameters}):", *(f"    {line}" for line in body)]
