"""The engines of the simulator: what they share, and the one whose exchanges are done at once.

Events are drawn from a clock in blocks and run compiled.  The other engine, message by message,
is `engine_faulty`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.graphs.graph import Graph
from continuized.network.result import ANSWER, APPLY, PAY, Log, Staleness
from continuized.network.simulation import instant_kernels as engine_atomic
from continuized.network.simulation.node_models import gossip as engine_node
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process import random_streams as seeds
from continuized.process.marks import Categorical
from continuized.support.checkpoints.state import State

SMALLEST_BLOCK = 2**14  # events: a block takes 30 microseconds to start

# Why an engine came back.
BLOCK, TIME, EXCHANGES, TEST = range(4)


class Engine(Protocol):
    """What the simulator needs of an engine."""

    t: float
    messages: int  # exchanges that were carried out
    alive: Array

    def advance(self, stop: float, most: int, bounds: Array) -> tuple[int, Array]:
        """Go on to the end of the block, the time `stop`, `most` exchanges or a squared error out
        of bounds; returns which, and rows (t, messages, squared error)."""
        ...

    def states(self, t: float) -> tuple[Array, Array]: ...
    def balance(self) -> tuple[Array, Array, Array]:
        """Where the living agree; what there is and was lost; what came by joining."""
        ...

    def error(self, t: float) -> float: ...
    def over(self) -> bool: ...
    def staleness(self) -> Staleness | None: ...
    def log(self) -> Log: ...
    def state(self) -> State: ...
    def restore(self, state: State) -> None: ...


class Block:
    """The events drawn, and how many of them are done."""

    def __init__(self, graph: Graph, law: Categorical, root: seeds.Root, rate: float) -> None:
        self.period = graph.nodes
        self.size = self.period * -(-SMALLEST_BLOCK // self.period)
        self.stream = clocks.Poisson(root, rate, law).stream()
        self.done = 0
        self.events = self.stream.draw(0)

    def ready(self) -> tuple[Array, Array]:
        """Times and marks of the block; the next one where this one is done."""
        if self.done == self.events.size:
            self.events, self.done = self.stream.draw(self.size), 0
        assert self.events.marks is not None
        return self.events.t, self.events.marks


class Atomic:
    """Edges ring one after the other; an exchange takes no time."""

    def __init__(
        self, graph: Graph, values: Array, constants: Constants, root: seeds.Root, log: bool
    ) -> None:
        self.edges = np.ascontiguousarray(graph.edges, np.int64)
        self.constants = constants
        self.block = Block(graph, Categorical(graph.P), root, 1.0)
        self.work = engine_node.rows_of(values, np.ones(graph.nodes))
        self.alive = np.ones(graph.nodes, np.bool_)
        self.t, self.messages = 0.0, 0
        self.owed = np.zeros(values.shape[1])  # nothing is ever on its way
        self._logged: list[Array] | None = [] if log else None
        self._log_times: list[Array] = []
        self._run(np.zeros(0), np.zeros(0, np.int64), 0, np.array([0.0, np.inf]))

    def _run(self, times: Array, marks: Array, end: int, bounds: Array) -> tuple[int, Array]:
        rows = np.empty((len(times) // self.block.period, 3))
        done, tests = engine_atomic.run_edges(
            self.edges, self.messages - self.block.done, times, marks, self.block.done, end,
            self.work, self.alive, self.constants, self.block.period, bounds, rows, self.owed,
        )  # fmt: skip
        return done, rows[:tests]

    def advance(self, stop: float, most: int, bounds: Array) -> tuple[int, Array]:
        """See `Engine`."""
        times, marks = self.block.ready()
        begin = self.block.done
        in_time = int(np.searchsorted(times, stop, side="right"))
        end = min(in_time, begin + most - self.messages)
        done, rows = self._run(times, marks, end, bounds)
        if self._logged is not None:
            self._logged.append(marks[begin:done])
            self._log_times.append(times[begin:done])
        self.block.done, self.messages = done, self.messages + done - begin
        if done > begin:
            self.t = float(times[done - 1])
        if len(rows) and not bounds[0] < rows[-1, 2] < bounds[1]:
            return TEST, rows
        if self.messages >= most:
            return EXCHANGES, rows
        if in_time < len(times):
            self.t = stop
            return TIME, rows
        return BLOCK, rows

    def states(self, t: float) -> tuple[Array, Array]:
        """Of every node at time t."""
        both = engine_node.states_at(self.work, self.alive, t, self.constants.theta)
        x, z = np.hsplit(both, 2)
        return x.copy(), z.copy()

    def balance(self) -> tuple[Array, Array, Array]:
        """See `Engine`."""
        middle = engine_node.centre(self.work, self.alive, self.owed)
        return middle, held(self.work, self.alive), self.owed

    def error(self, t: float) -> float:
        """The squared error at time t."""
        middle, theta = self.balance()[0], self.constants.theta
        return float(engine_node.squared_error(self.work, self.alive, t, theta, middle))

    def over(self) -> bool:
        """Never: every edge will ring again."""
        return False

    def staleness(self) -> None:
        """Exchanges are instantaneous."""

    def log(self) -> Log:
        """Three entries for an event; the end of an edge that is named first is the initiator."""
        assert self._logged is not None
        ends = self.edges[np.concatenate([np.empty(0, np.int64), *self._logged])]
        i, j, n = ends[:, 0], ends[:, 1], len(ends)
        return Log(
            np.tile([ANSWER, PAY, APPLY], n),
            np.column_stack([j, i, j]).ravel(),
            np.column_stack([i, j, i]).ravel(),
            np.repeat(np.arange(1, n + 1), 3),
            np.repeat(np.concatenate([np.empty(0), *self._log_times]), 3),
        )

    def state(self) -> State:
        """Between two blocks."""
        plain = {"t": self.t, "messages": self.messages, "stream": self.block.stream.save("", {})}
        arrays = {"work": self.work.copy()}
        if self._logged is not None:
            arrays["log"] = np.concatenate([np.empty(0, np.int64), *self._logged])
            arrays["log_times"] = np.concatenate([np.empty(0), *self._log_times])
        return State(plain, arrays)

    def restore(self, state: State) -> None:
        """Go on from there."""
        plain, arrays = state
        self.t, self.messages = plain["t"], plain["messages"]
        self.block.stream.restore(plain["stream"], arrays)
        self.work[...] = arrays["work"]
        if self._logged is not None:
            self._logged, self._log_times = [arrays["log"]], [arrays["log_times"]]


def held(work: Array, alive: Array) -> Array:
    """The sum of x + z over some nodes, by coordinates."""
    x, z = np.hsplit(work[alive, engine_node.X :], 2)
    total: Array = (x + z).sum(axis=0)
    return total
