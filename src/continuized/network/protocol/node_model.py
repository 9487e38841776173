"""What one node computes: the protocol around it (`node.Node`) is the same for every model.

What is conserved is x + z, which exchanges move and never make or lose.  A transfer of d takes
`conserved_per_transfer` d of it from the node that pays and adds it to the other's.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Constants, mix_over
from continuized.problems.base import Array
from continuized.process.methods import jump
from continuized.support.checkpoints.state import Checkpointed
from continuized.support.validation import short_repr


class NodeModel(Protocol):
    """A node's state and its four moves.  Arrays given are never changed, those returned are fresh.

    A model that is also `support.checkpoints.state.Checkpointed`, which names what changes in it,
    can be kept in a checkpoint of the run.

    `plain` tells whether the node has fallen back to plain gossip.  A transfer is applied with
    the steps it was paid with, whatever the receiver has become since: `apply` is told.

    Two more it may have: `estimate()`, what it has found, where that is another thing than its
    answer; and `step(draw)`, a gradient of its own (see `Node`), whose draws follow from the
    number `draw`.

    An exchange of two nodes that average:

    >>> steps = {"theta": 0.1, "gamma": 0.5, "gamma_prime": 0.5}
    >>> one, two = (NodeModelSpec(AVERAGING, {"x": [value]}, steps).make() for value in (0.0, 1.0))
    >>> two.apply(one.pay(two.answer()), plain=False)
    >>> one.answer().tolist(), two.answer().tolist()
    ([0.5], [0.5])
    """

    plain: bool

    def mix(self, dt: float) -> None:
        """Let a time dt pass, on the node's own clock."""

    def answer(self) -> Array:
        """Return what a neighbour that asks is told."""

    def pay(self, answer: Array) -> Array:
        """Fix the transfer from a neighbour's answer, give it away, return it."""

    def apply(self, transfer: Array, plain: bool) -> None:
        """Take what a neighbour gave."""

    def conserved_per_transfer(self, plain: bool) -> float:
        """Return how much of what is conserved a transfer of 1 moves."""

    def state(self) -> tuple[Array, Array]:
        """Return (x, z) now, or other two whose sum is what exchanges only move."""

    def fall_back(self) -> None:
        """Go on as plain gossip, with the same x + z."""

    def join(self, x: Array) -> None:
        """Start from what a neighbour has found."""


def read_estimate(model: NodeModel) -> Array:
    """Return what a node has found: where the model does not say, its answer."""
    found: Array = getattr(model, "estimate", model.answer)()
    return found


def check_numbers(given: Any, dim: int, what: str) -> Array:
    """Return what a model has given, if it is `dim` finite numbers in a row.

    ValueError or ArithmeticError if it is not: it is raised before another node could fail of it.
    """
    numbers = np.asarray(given, dtype=np.float64)
    if numbers.shape != (dim,):
        raise ValueError(
            f"the {what} of a node's model has shape {numbers.shape}, and must have {(dim,)}: "
            "return as many numbers each time, in one row"
        )
    if not np.isfinite(numbers).all():
        raise ArithmeticError(f"the {what} of a node's model is no longer finite: the run diverges")
    return numbers


class GossipModel(Checkpointed):
    """Gossip averaging: the answer is x, the transfer d = x_i - x_j.

    A method whose nodes differ only in what they exchange overrides `answer`.
    """

    changing = ("x", "z", "plain")

    def __init__(self, x: ArrayLike, theta: float, gamma: float, gamma_prime: float) -> None:
        self.x: Array = np.array(x, dtype=np.float64)
        self.z: Array = self.x.copy()
        self.constants = Constants(theta, gamma, gamma_prime)
        self.plain = False

    def mix(self, dt: float) -> None:
        theta = math.inf if self.plain else self.constants.theta
        if theta > 0.0 and dt > 0.0:
            self.x, self.z = mix_over(self.x, self.z, dt, theta)

    def answer(self) -> Array:
        return self.x.copy()

    def pay(self, answer: Array) -> Array:
        d: Array = self.answer() - answer
        self.x, self.z = jump(self.x, self.z, d, *self._steps(self.plain))
        return d

    def apply(self, transfer: Array, plain: bool) -> None:
        self.x, self.z = jump(self.x, self.z, -transfer, *self._steps(plain))

    def conserved_per_transfer(self, plain: bool) -> float:
        return sum(self._steps(plain))

    def state(self) -> tuple[Array, Array]:
        return self.x.copy(), self.z.copy()

    def fall_back(self) -> None:
        # Plain gossip keeps z = x.  The flow run for ever takes both to (x + z) / 2, so their
        # sum is kept; a transfer of the time before parts them again, until the next mixing.
        self.plain = True
        self.mix(math.inf)

    def join(self, x: Array) -> None:
        self.x, self.z = x.copy(), x.copy()

    def _steps(self, plain: bool) -> tuple[float, float]:
        _, gamma, gamma_prime = self.constants
        return (gamma, gamma) if plain else (gamma, gamma_prime)


@dataclass(frozen=True)
class NodeModelSpec:
    """A node model by name, so that it can be made in another process: "package.module:function".

    The function is called there with the arrays and the options by their names.

    Parameters
    ----------
    factory : str
        "package.module:function", of a module that other processes can import.
    arrays : mapping of names to arrays of numbers
    options : mapping of names to what JSON can say
    objects : mapping of names to anything else
        Python objects, such as functions, that are handed to a process of this machine by fork,
        where the system has it, and to actors of Ray as Ray does.

    >>> spec = NodeModelSpec(AVERAGING, {"x": np.zeros(1)},
    ...                 {"theta": 0.1, "gamma": 0.5, "gamma_prime": 2.0})
    >>> spec.make().conserved_per_transfer(plain=False)
    2.5
    """

    factory: str
    arrays: Mapping[str, Array] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, Any] = field(default_factory=dict)

    def make(self) -> NodeModel:
        """Make the model itself; ValueError where `factory` names none that others can import."""
        module, colon, name = self.factory.partition(":")
        if not colon:
            raise ValueError(
                'a node model is named as "package.module:function", '
                f"got {short_repr(self.factory)}"
            )
        if module == "__main__":
            raise ValueError(
                "a node model must stand in a module that other processes can import, "
                f"got {short_repr(self.factory)}"
            )
        made: NodeModel = getattr(importlib.import_module(module), name)(
            **self.arrays, **self.options, **self.objects
        )
        return made


AVERAGING = "continuized.network.protocol.node_model:GossipModel"
