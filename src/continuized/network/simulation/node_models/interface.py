"""Compiled: what nodes compute, by their kind.  The loops that call it are written once.

A kind of nodes is a NamedTuple of what compiled code must know of them; that of gossip is
`rules.Constants`.  A loop is compiled apart for each kind, with the functions of that kind written
into it.  Those are given with `for_kind`, under the names below; `work` has a row for each node,
its own time and the speed of its clock in the first two columns.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from numba.extending import overload

from continuized.problems.base import Array
from continuized.support.jit import jit

TIME, SPEED = 0, 1  # the first columns of `work`


def inlined(function: Callable[..., Any]) -> Any:
    """Make a function part of its compiled callers.

    One that is called counts the references to the arrays that it is given, each time, with atomic
    additions that take longer than an exchange.
    """
    return jit(function, cached=False, inline="always")


_OF_KIND: dict[tuple[type, str], Callable[..., Any]] = {}
_PARAMETERS: dict[str, list[str]] = {}  # of the functions below


def for_kind(kind: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let nodes of this kind do what the function says, under the function's name.

    Raises TypeError for a name that none of the functions below has, or other parameters.
    """

    def known(function: Callable[..., Any]) -> Callable[..., Any]:
        if _PARAMETERS.get(function.__name__) != list(inspect.signature(function).parameters):
            raise TypeError(f"nodes have no such function: {function.__name__}")
        _OF_KIND[kind, function.__name__] = function
        return function

    return known


def _by_kind(usual: Callable[..., Any]) -> Callable[..., Any]:
    """The function of the kind of the nodes that it is given; without one, what is written."""

    def chosen(nodes: Any, *rest: Any) -> Callable[..., Any]:
        return _OF_KIND.get((nodes.instance_class, usual.__name__), usual)

    vars(chosen)["__signature__"] = inspect.signature(usual)
    _PARAMETERS[usual.__name__] = list(inspect.signature(usual).parameters)
    overload(usual, inline="always", strict=False)(chosen)  # annotations may differ
    return usual


@_by_kind
def flow_to(nodes: Any, work: Array, i: int, time: float) -> None:
    """Bring node i to its own `time`."""
    work[i, TIME] = time


@_by_kind
def find_answer(nodes: Any, work: Array, i: int) -> bool:
    """Find what node i has to say; False where that fails."""
    return True


@_by_kind
def said(nodes: Any, work: Array, i: int, c: int) -> float:
    """Coordinate c of what node i says to a neighbour."""
    return math.nan


@_by_kind
def pay(nodes: Any, work: Array, i: int, c: int, d: float) -> None:
    """Node i gives the transfer of d in coordinate c."""


@_by_kind
def step(nodes: Any, work: Array, i: int, rng: Any) -> None:
    """Node i takes a gradient of its own."""


@_by_kind
def share(nodes: Any, work: Array, i: int, c: int) -> float:
    """What node i has of the quantity that mixing leaves and exchanges only move."""
    return 0.0


@_by_kind
def size(nodes: Any, work: Array, i: int, c: int) -> float:
    """How large the numbers are that make up its share: to them rounding is relative."""
    return float(abs(share(nodes, work, i, c)))


@_by_kind
def worth(nodes: Any) -> float:
    """How much of it a transfer of 1 moves."""
    return 0.0


@_by_kind
def start_from(nodes: Any, work: Array, i: int, other: int) -> None:
    """Node i comes, from what its neighbour `other` has (-1: there is none)."""


@_by_kind
def guess(nodes: Any, work: Array, i: int, c: int) -> float:
    """Coordinate c of what node i has found."""
    return math.nan


@_by_kind
def disagreement(nodes: Any, work: Array, alive: Array, t: float, owed: Array) -> float:
    """How far the living are from agreement at time t, where the loop is to test it."""
    return math.nan
