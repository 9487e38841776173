"""The engine whose exchanges go message by message, with delays, losses, deaths and joins."""

from __future__ import annotations

import numpy as np

from continuized import checkpoints, seeds
from continuized.checkpoints import State
from continuized.marks import Categorical
from continuized.network.graphs.graph import Graph
from continuized.network.nodes import patience
from continuized.network.outcome import Log, Staleness
from continuized.network.rules import Constants
from continuized.network.simulation import (  # fmt: skip
    engine_changes,
    engine_heap,
    engine_loop,
    engine_node,
    engine_protocol,
)
from continuized.network.simulation.engine import BLOCK, EXCHANGES, TEST, TIME, Block, held
from continuized.network.simulation.faults import Faults
from continuized.problems.base import Array

FIRST_ROOM = 1024  # entries of a heap
LOG_ROOM = 2**16  # rows, before they are put aside


# The arrays that change as a network runs; for what is in them see `engine_protocol`.
CHANGING = (
    "alive", "node", "waits", "edge", "work", "transfer", "when", "what", "body", "counts", "sums",
    "ledger",
)  # fmt: skip


class Messages:
    """Nodes ring by their own clocks; node i asks j at the rate P_ij / 2, times i's speed, and
    makes up for rings that came to nothing (see `patience`)."""

    def __init__(
        self,
        graph: Graph,
        values: Array,
        constants: Constants,
        root: seeds.Root,
        log: bool,
        faults: Faults,
    ) -> None:
        n, d = values.shape
        self.constants = constants
        self.links = engine_protocol.Links(
            delay=float(faults.delay),
            constant=faults.law == "constant",
            loss=float(faults.loss),
            duplication=float(faults.duplication),
            wait=faults.wait,
        )
        speeds = faults.speeds(n)
        self.edge, self.first, P = _directed(graph)
        self.work = engine_node.rows_of(values, speeds)
        rates = 0.5 * P * speeds[self.edge[:, engine_protocol.HEAD]]
        self.upto = np.cumsum(rates)
        total = float(rates.sum())
        self.block = Block(graph, Categorical(rates / total), root, total)
        self.rng = seeds.generator(root, seeds.LINKS)
        self.alive = np.ones(n, np.bool_)
        self.alive[list(faults.absent())] = False
        self.node = np.zeros((n, 6), np.int64)
        self.waits = np.tile([patience.UNKNOWN, 0.0, faults.wait, 0.0, 0.0], (n, 1))
        self.transfer = np.zeros((len(self.edge), 1 + d))
        self.counts, self.sums, self.ledger = np.zeros(4, np.int64), np.zeros(4), np.zeros((2, d))
        self.lines = np.zeros((LOG_ROOM if log else 0, 5))
        self._parts: list[Array] = []  # of the log, put aside
        changes = faults.changes(n)
        self.last_change = max([t for t, _, _ in changes], default=0.0)
        self.when, self.what, self.body = engine_heap.empty(FIRST_ROOM + len(changes), d)
        for t, i, joins in changes:
            engine_loop.plan(self.when, self.what, self.counts, t, i, joins)
        self.t, self.messages = 0.0, 0
        # Compiled now, so that the run is timed without it.
        self._run(np.zeros(1), np.zeros(1, np.int64), -1.0, 1, np.zeros(2), np.empty((0, 3)))

    def _run(
        self, times: Array, marks: Array, stop: float, most: int, bounds: Array, rows: Array
    ) -> tuple[int, bool]:
        self.block.done, tests, full = engine_loop.run_messages(
            *(getattr(self, name) for name in CHANGING), self.first, self.upto, self.lines,
            self.links, self.rng, self.constants, times, marks, self.block.done, stop, most,
            self.block.period, bounds, rows,
        )  # fmt: skip
        return tests, full

    def advance(self, stop: float, most: int, bounds: Array) -> tuple[int, Array]:
        """See `Engine`."""
        times, marks = self.block.ready()
        rows = np.empty((len(times) // self.block.period, 3))
        made, full = 0, True
        while full:
            tests, full = self._run(times, marks, stop, most, bounds, rows[made:])
            made += tests
            if full:
                self._make_room()
        rows = rows[:made]
        self.t = float(self.sums[engine_protocol.NOW])
        self.messages = int(self.counts[engine_protocol.EXCHANGES])
        if made and not bounds[0] < rows[-1, 2] < bounds[1]:
            return TEST, rows
        if self.messages >= most:
            return EXCHANGES, rows
        if stop < times[-1]:
            self.t = stop
            return TIME, rows
        return BLOCK, rows

    def _make_room(self) -> None:
        if len(self.when) - self.counts[engine_heap.SIZE] < engine_protocol.ROOM:
            self.when, self.what, self.body = engine_heap.grown(self.when, self.what, self.body)
        self._put_log_aside()

    def _put_log_aside(self) -> None:
        n = int(self.counts[engine_protocol.LOGGED])
        if n:
            self._parts.append(self.lines[:n].copy())
            self.counts[engine_protocol.LOGGED] = 0

    def states(self, t: float) -> tuple[Array, Array]:
        """Of every node at time t; of a dead one at its death."""
        both = engine_node.states_at(self.work, self.alive, t, self.constants.theta)
        x, z = np.hsplit(both, 2)
        return x.copy(), z.copy()

    def balance(self) -> tuple[Array, Array, Array]:
        """See `Engine`."""
        owed = engine_changes.on_the_way(self.edge, self.transfer, self.constants)
        middle = engine_node.centre(self.work, self.alive, owed)
        died, joined = self.ledger
        return middle, held(self.work, self.alive) + owed + died, joined.copy()

    def error(self, t: float) -> float:
        """The squared error at time t."""
        arrays = (self.alive, self.edge, self.work, self.transfer)
        return float(engine_changes.error_at(*arrays, self.constants, t))

    def over(self) -> bool:
        """Whether no two living nodes are neighbours, and none is to come."""
        ends = self.edge[:, [engine_protocol.HEAD, engine_protocol.TAIL]]
        return self.t > self.last_change and not self.alive[ends].all(axis=1).any()

    def staleness(self) -> Staleness | None:
        """How old answers were."""
        _, total, largest, count = self.sums.tolist()
        return Staleness(total / count, largest, int(count)) if count else None

    def log(self) -> Log:
        """So far."""
        self._put_log_aside()
        lines = np.concatenate([np.empty((0, 5)), *self._parts])
        kind, node, peer, seq = lines[:, :4].astype(np.int64).T.copy()
        return Log(kind, node, peer, seq, lines[:, 4].copy())

    def state(self) -> State:
        """Between two blocks."""
        self._put_log_aside()
        plain = {
            "t": self.t,
            "messages": self.messages,
            "stream": self.block.stream.state(),
            "links": self.rng.bit_generator.state,
        }
        log = {"log": np.concatenate([np.empty((0, 5)), *self._parts])}
        return State(plain, checkpoints.copies(self, CHANGING) | log)

    def restore(self, state: State) -> None:
        """Go on from there."""
        plain, arrays = state
        self.t, self.messages = plain["t"], plain["messages"]
        self.block.stream.restore(plain["stream"])
        self.rng.bit_generator.state = plain["links"]
        for name in CHANGING:  # not in place: the heap may have grown
            setattr(self, name, arrays[name])
        self._parts = [arrays["log"]]


def _directed(graph: Graph) -> tuple[Array, Array, Array]:
    """Both directions of every edge by their heads, the first of each head, and the edges' P."""
    ends = np.vstack([graph.edges, graph.edges[:, ::-1]])
    order = np.argsort(ends[:, 0], kind="stable")
    edge = np.zeros((len(ends), 6), np.int64)
    edge[:, :2] = ends[order]
    first = np.searchsorted(edge[:, 0], np.arange(graph.nodes + 1))
    return edge, first, np.tile(graph.P, 2)[order]
