"""Compiled: what nodes compute, by their model.  The loops that call it are written once.

This is the compiled form of a node model; `network/protocol/node_model.py` has that of real nodes
(public `network.NodeModel`), and `single_node.py` makes a real node of a compiled one.  Here and
there: `flow_to` is `mix`, `find_answer` and `message` are `answer`, `pay` is `pay` with d and
`apply` with -d, `conserved_parts` is `state`, and `start_from` is `join`.
A node model is a NamedTuple of what compiled code must know of the nodes, and a `node_model`: what
they do are the functions of its class, under the names below, whose first argument, `nodes`, is the
model.  A loop is compiled apart for each model, with these functions written into it.  `work` has a
row for each node, with its own time and the speed of its clock in the first two columns.
They make no arrays: the room that they need stands in the model.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

from continuized.network.protocol.transitions import SPEED, TIME
from continuized.problems.base import Array
from continuized.support.jit import UNCOUNTED, choose_by_types, class_of, uncounted

__all__ = ["SPEED", "TIME"]  # the first columns of `work`, for node models

Model = TypeVar("Model", bound=type)
_PARAMETERS: dict[str, list[str]] = {}  # of the functions below


def node_model(model: Model) -> Model:
    """Check what nodes of a model do.

    Raises TypeError for a name that none of the functions below has, or other parameters.
    """
    for name, own in vars(model).items():
        is_public = inspect.isfunction(own) and not name.startswith("_")
        if is_public and _PARAMETERS.get(name) != list(inspect.signature(own).parameters):
            raise TypeError(f"nodes have no such function: {name}")
    return model


def _by_model(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Call the function of the model of the nodes; without one, do what is written."""

    def choose(nodes: Any, *rest: Any) -> Callable[..., Any]:
        own: Callable[..., Any] = getattr(class_of(nodes), usual.__name__, usual)
        return own

    vars(choose)["__signature__"] = inspect.signature(usual)
    _PARAMETERS[usual.__name__] = list(inspect.signature(usual).parameters)
    return choose_by_types(usual, choose, **UNCOUNTED)


@_by_model
def flow_to(nodes: Any, work: Array, i: int, time: float) -> None:
    """Bring node i to its own `time`."""
    work[i, TIME] = time


@_by_model
def find_answer(nodes: Any, work: Array, i: int) -> bool:
    """Find what node i has to say; False where that fails."""
    return True


@_by_model
def message(nodes: Any, work: Array, i: int, c: int) -> float:
    """Return coordinate c of what node i says to a neighbour."""
    return math.nan


@_by_model
def pay(nodes: Any, work: Array, i: int, c: int, d: float) -> None:
    """Let node i give the transfer of d in coordinate c."""


@_by_model
def step(nodes: Any, work: Array, i: int, rng: Any) -> None:
    """Let node i take a gradient of its own."""


@_by_model
def asks_python(nodes: Any) -> bool:
    """Tell whether a gradient is a Python function's: loops stop for it, where a step is due."""
    return False


@_by_model
def take_slope(nodes: Any, work: Array, i: int) -> None:
    """Let node i take the step with the gradient that Python has written into the model."""


@_by_model
def conserved_parts(nodes: Any, work: Array, i: Any, c: Any) -> tuple[Any, Any]:
    """Tell what node i has of the quantity that mixing leaves and exchanges only move, in two
    parts: rounding is relative to the size of each.

    Python asks this of all nodes at once, with `...` in place of i.
    """
    return 0.0, 0.0


@uncounted
def conserved(nodes: Any, work: Array, i: int, c: int) -> float:
    """Return the sum of the two."""
    one, other = conserved_parts(nodes, work, i, c)
    return float(one + other)


@_by_model
def conserved_per_transfer(nodes: Any) -> float:
    """Tell how much of it a transfer of 1 moves."""
    return 0.0


@_by_model
def start_from(nodes: Any, work: Array, i: int, answer: Array, answered: bool) -> None:
    """Let node i come, from the estimate that a neighbour answered, if one has."""


@_by_model
def estimate(nodes: Any, work: Array, i: int, c: int) -> float:
    """Return coordinate c of what node i has found: where nothing else is said, its message."""
    return float(message(nodes, work, i, c))


@_by_model
def disagreement(nodes: Any, work: Array, alive: Array, t: float, owed: Array) -> float:
    """Tell how far the living are from agreement at time t, where the loop is to test it.

    `owed`, what is on its way to them, is overwritten.
    """
    return math.nan
