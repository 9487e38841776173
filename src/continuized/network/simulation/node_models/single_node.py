"""One node of a compiled model, as a real node needs it: `network.NodeModel`."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.network.simulation.engine import NodeSet, check_solved
from continuized.network.simulation.node_models.interface import (
    TIME,
    estimate,
    find_answer,
    flow_to,
    message,
    pay,
    start_from,
    step,
)
from continuized.problems.base import Array
from continuized.support.checkpoints.state import Checkpointed
from continuized.support.jit import jit_uncounted

SELF = 0  # its row
FLOW, ANSWER, ESTIMATE, PAY, START = range(5)  # the moves


class SingleNode(Checkpointed):
    """The node of a `NodeSet` of one: its state is that of the simulator, and so are its moves.

    Nodes of a compiled model do not fall back to plain gossip: nothing asks them to.
    """

    plain = False
    changing = ("arrays",)

    def __init__(self, nodes: NodeSet) -> None:
        self._nodes, self._work = nodes, nodes.make_work(np.ones(1))
        self._idle, self.arrays = np.empty(nodes.dim), nodes.arrays()
        self._compile()

    @property
    def tilt(self) -> float:
        """What its `NodeSet` says of the gradients where nodes agree."""
        return self._nodes.tilt

    def mix(self, dt: float) -> None:
        self._work[SELF, TIME] = 0.0
        self._move(FLOW, self._idle, dt)

    def answer(self) -> Array:
        return self._say(ANSWER)

    def estimate(self) -> Array:
        """Return what it has found."""
        return self._say(ESTIMATE)

    def pay(self, answer: Array) -> Array:
        d: Array = self.answer() - answer
        self._move(PAY, d)
        return d

    def apply(self, transfer: Array, plain: bool) -> None:
        self._move(PAY, -transfer)

    def step(self, draw: int) -> None:
        """Take a gradient of its own; what that draws follows from the number `draw`."""
        if self._nodes.own is not None:
            self._nodes.take_own_gradient(self._work, SELF)
        else:
            step_at(self._nodes.model, self._work, SELF, make_step_generator(draw))

    def conserved_per_transfer(self, plain: bool) -> float:
        return float(self._nodes.model.conserved_per_transfer())

    def state(self) -> tuple[Array, Array]:
        one, other = self._nodes.model.conserved_parts(self._work, SELF, slice(None))
        return np.array(one), np.array(other)

    def fall_back(self) -> None:
        """Stay as it is."""

    def join(self, x: Array) -> None:
        self._move(START, np.array(x))

    def restore(self, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Put a state back, in place: the model keeps its arrays."""
        live = self.arrays
        super().restore(plain, arrays)
        for name, own in live.items():
            own[...] = self.arrays[name]
        self.arrays = live

    def _say(self, kind: int) -> Array:
        out = np.empty(self._nodes.dim)
        check_solved(self._move(kind, out))
        return out

    def _move(self, kind: int, room: Array, time: float = 0.0) -> bool:
        return bool(move(self._nodes.model, self._work, kind, SELF, time, room))

    def _compile(self) -> None:
        """Compile all moves before clocks start, on a copy that is thrown away."""
        copies = {name: own.copy() for name, own in self._nodes.arrays().items()}
        model, work = self._nodes.model._replace(**copies), self._work.copy()
        move(model, work, FLOW, SELF, 0.0, self._idle)
        if self._nodes.own is None and len(self._nodes.step_rates):
            step_at(model, work, SELF, make_step_generator(0))


def make_step_generator(draw: int) -> np.random.Generator:
    """Return the generator that a step with this number draws from."""
    return np.random.Generator(np.random.PCG64(draw))


@jit_uncounted
def move(nodes: Any, work: Array, kind: int, i: int, time: float, room: Array) -> bool:
    """Let node i make a move of this kind, one function for all: it is compiled once.

    `room` holds what the node is told, or is written what it says; False where that is not found.
    """
    found = True
    if kind == FLOW:
        flow_to(nodes, work, i, time)
    elif kind == START:
        start_from(nodes, work, i, room, True)
    elif kind == PAY:
        for c in range(room.size):
            pay(nodes, work, i, c, room[c])
    else:
        found = find_answer(nodes, work, i)
        for c in range(room.size):
            says = message(nodes, work, i, c) if kind == ANSWER else estimate(nodes, work, i, c)
            room[c] = says
    return found


@jit_uncounted
def step_at(nodes: Any, work: Array, i: int, rng: Any) -> None:
    """Let node i take a gradient of its own."""
    step(nodes, work, i, rng)
