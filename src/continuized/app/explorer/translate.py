"""Formulas of this package in JavaScript, made from their Python source.

A formula is a plain function of floats, of `math` and of other formulas.  Tuples become arrays;
module constants are written as their values.  What has no meaning of the same kind in JavaScript is
refused, so that nothing is translated wrongly without a word.
"""

from __future__ import annotations

import ast
import inspect
import json
import math
import textwrap
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

PACKAGE = "continuized."
Formula = Callable[..., Any]

# math.f for Math.f: of the same meaning, and in browsers as exact as Python's to a few last bits.
MATH_NAMES = {
    "atanh", "cos", "cosh", "exp", "expm1", "hypot", "log", "log1p", "sin", "sinh", "sqrt", "tanh",
}  # fmt: skip
PLAIN = {"abs": "Math.abs", "max": "Math.max", "min": "Math.min", "float": "Number"}
CONSTANTS = {math.inf: "Infinity", -math.inf: "-Infinity"}
BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
COMPARISONS = {
    ast.Eq: "===", ast.NotEq: "!==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
RESERVED = {"case", "const", "default", "delete", "do", "function", "let", "new", "switch", "var"}


def translate(formulas: Iterable[Formula]) -> str:
    """Return JavaScript functions of the same names, with all the formulas that they call.

    Raises NotImplementedError for what cannot be translated, and ValueError where two formulas have
    one name.

    >>> from continuized.process.flow import mix
    >>> print(translate([mix]))
    function mix(x, z, a, b) {
      let apart;
      apart = (z - x);
      return [(x + (a * apart)), (z - (b * apart))];
    }
    """
    found: dict[str, Formula] = {}
    waiting = list(formulas)
    while waiting:
        formula = waiting.pop()
        if not isinstance(formula, FunctionType):
            raise NotImplementedError(f"{formula!r} is no plain function")
        if found.setdefault(formula.__name__, formula) is not formula:
            raise ValueError(f"two formulas are called {formula.__name__}")
        waiting += [f for f in _list_calls(formula) if found.get(f.__name__) is not f]
    return "\n".join(_Translation(found[name]).function() for name in sorted(found))


def _list_calls(formula: FunctionType) -> list[FunctionType]:
    """Return the formulas of this package that one calls."""
    named = (formula.__globals__.get(name) for name in formula.__code__.co_names)
    return [f for f in named if isinstance(f, FunctionType) and f.__module__.startswith(PACKAGE)]


class _Translation:
    """One formula, statement by statement."""

    def __init__(self, formula: Formula) -> None:
        assert isinstance(formula, FunctionType)
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(formula))).body
        assert isinstance(definition, ast.FunctionDef)
        self.formula, self.definition = formula, definition
        self.calls = {f.__name__ for f in _list_calls(formula)}
        self.arguments = [argument.arg for argument in definition.args.args]
        if reserved := RESERVED & {self.formula.__name__, *self.arguments}:
            raise NotImplementedError(f"{reserved.pop()!r} is a word of JavaScript")

    def function(self) -> str:
        stored = {
            node.id
            for node in ast.walk(self.definition)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self.locals = stored | set(self.arguments)
        own = sorted(stored - set(self.arguments))
        lines = [f"let {', '.join(own)};"] if own else []
        lines += self._block(self.definition.body)
        head = f"function {self.formula.__name__}({', '.join(self._parameters())}) {{"
        return "\n".join([head, *(f"  {line}" for line in lines), "}"])

    def _parameters(self) -> list[str]:
        """Return the arguments, the last ones with their defaults."""
        values = [self._expression(default) for default in self.definition.args.defaults]
        without = len(self.arguments) - len(values)
        given = zip(self.arguments[without:], values, strict=True)
        return self.arguments[:without] + [f"{name} = {value}" for name, value in given]

    def _refuse(self, node: ast.AST) -> NotImplementedError:
        what, name = ast.unparse(node).splitlines()[0], self.formula.__qualname__
        return NotImplementedError(f"{what!r} of {name} has no translation to JavaScript")

    def _block(self, statements: Iterable[ast.stmt]) -> list[str]:
        return [line for statement in statements for line in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[str]:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):  # a docstring
                return []
            case ast.Assign(targets=targets, value=value):
                *others, last = [self._target(target) for target in targets]
                first = f"{last} = {self._expression(value)};"
                return [first, *(f"{target} = {last};" for target in others)]
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if type(op) in BINARY:
                sign = BINARY[type(op)]
                return [f"{name} = {name} {sign} ({self._expression(value)});"]
            case ast.Return(value=ast.expr() as value):
                return [f"return {self._expression(value)};"]
            case ast.If(test=test, body=body, orelse=orelse):
                lines = [f"if ({self._expression(test)}) {{", *_indent(self._block(body))]
                if orelse:
                    lines += ["} else {", *_indent(self._block(orelse))]
                return [*lines, "}"]
            case ast.While(test=test, body=body, orelse=[]):
                return [f"while ({self._expression(test)}) {{", *_indent(self._block(body)), "}"]
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                head = f"for ({self._target(target)} of {self._expression(over)}) {{"
                return [head, *_indent(self._block(body)), "}"]
        raise self._refuse(node)

    def _target(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Tuple(elts=parts):
                return f"[{', '.join(map(self._target, parts))}]"
        raise self._refuse(node)

    def _expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=bool() as value):
                return "true" if value else "false"
            case ast.Constant(value=int() | float() as value):
                return repr(value)
            case ast.Name(id=name):
                return name if name in self.locals else self._constant(node, name)
            case ast.Attribute(value=ast.Name(id="math"), attr=name):
                value = getattr(math, name)
                if isinstance(value, float):
                    return CONSTANTS.get(value, repr(value))
            case ast.Tuple(elts=parts):
                return f"[{', '.join(map(self._expression, parts))}]"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{self._expression(operand)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(!{self._expression(operand)})"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                return f"({self._expression(left)} {BINARY[type(op)]} {self._expression(right)})"
            case ast.BoolOp(op=op, values=values):
                sign = " && " if isinstance(op, ast.And) else " || "
                return f"({sign.join(map(self._expression, values))})"
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                sign = COMPARISONS[type(op)]
                return f"({self._expression(left)} {sign} {self._expression(right)})"
            case ast.IfExp(test=test, body=yes, orelse=no):
                asked, first, second = map(self._expression, (test, yes, no))
                return f"({asked} ? {first} : {second})"
            case ast.Call(func=function, args=arguments, keywords=[]):
                return f"{self._function(function)}({', '.join(map(self._expression, arguments))})"
        raise self._refuse(node)

    def _function(self, node: ast.expr) -> str:
        match node:
            case ast.Name(id=name) if name in self.calls:
                return name
            case ast.Name(id=name) if name in PLAIN:
                return PLAIN[name]
            case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in MATH_NAMES:
                return f"Math.{name}"
        raise self._refuse(node)

    def _constant(self, node: ast.expr, name: str) -> str:
        """Write a constant of the formula's module: a number, or tuples of numbers."""
        try:
            return json.dumps(self.formula.__globals__[name], allow_nan=False)
        except (KeyError, TypeError, ValueError) as error:
            raise self._refuse(node) from error


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
