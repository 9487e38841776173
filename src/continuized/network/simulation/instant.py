"""The engine whose exchanges are done at once, for nodes of any model."""

from __future__ import annotations

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.result import ANSWER, APPLY, PAY, Log
from continuized.network.simulation import instant_kernels as kernels
from continuized.network.simulation.engine import Engine, NodeSet, Tests, check_solved
from continuized.network.simulation.instant_kernels import Busy, Network
from continuized.network.simulation.node_models.interface import TIME
from continuized.problems.base import Array
from continuized.process import random_streams as seeds
from continuized.process.clock.events import Events
from continuized.support.checkpoints.state import Rows


class InstantEngine(Engine):
    """Edges tick one after the other at the graph's rates; an exchange takes no time.

    Parameters
    ----------
    graph, nodes
        Where the nodes are, and what they compute.
    root
        The nodes' own gradients draw from its child `ROWS`.
    busy : array (nodes,), optional
        For how long a node is busy after each of its exchanges; by default never.
    log : bool
        Keep what a log of the exchanges is made of.
    """

    changing = (*Engine.changing, "time", "exchanges", "log_marks", "log_times")

    def __init__(
        self,
        graph: Graph,
        nodes: NodeSet,
        root: seeds.Root,
        *,
        busy: Array | None = None,
        log: bool = False,
    ) -> None:
        super().__init__(graph, nodes)
        n = graph.nodes
        self.rates = np.concatenate([nodes.edge_rate * graph.P, nodes.step_rates])
        # Compiled code takes longer to take a generator in than to exchange 1000 times.
        self.random = seeds.generator(root, seeds.ROWS) if len(nodes.step_rates) else None
        self.work, self.alive = nodes.work(np.ones(n)), np.ones(n, np.bool_)
        self.ledger = np.zeros((2, nodes.dim))
        edges = np.ascontiguousarray(graph.edges, np.int64)
        self.network = Network(self.alive, edges, self.work, np.zeros(nodes.dim))
        self.busy: Busy | None = None
        if busy is not None or nodes.changing:  # else every event is an exchange
            work = np.zeros(n) if busy is None else busy
            self.busy = Busy(np.zeros(n), work, np.zeros(len(self.rates), np.int64))
        self.time, self.exchanges = 0.0, 0
        self.logging, self.log_marks, self.log_times = log, Rows(), Rows()
        # Compiled now, so that the run is timed without it.
        self._run(np.zeros(0), np.zeros(0, np.int64), 0, 0, Tests.none())

    def _run(
        self, times: Array, marks: Array, begin: int, end: int, tests: Tests
    ) -> tuple[int, int]:
        done, made, found = kernels.run_events(
            self.nodes.model, self.network, self.busy, self.random, times, marks, begin, end, tests
        )
        check_solved(found)
        return done, made

    def run(
        self, events: Events, done: int, stop: float, most: int, tests: Tests
    ) -> tuple[int, int]:
        """See `Engine`."""
        assert events.marks is not None
        begin, in_time = done, int(np.searchsorted(events.t, stop, side="right"))
        end = min(in_time, begin + most - self.exchanges)
        tests = tests._replace(before=self.exchanges - begin)
        done, made = self._run(events.t, events.marks, begin, end, tests)
        self.exchanges += done - begin
        if self.logging:
            self.log_marks.append(events.marks[begin:done])
            self.log_times.append(events.t[begin:done])
        if done > begin:
            self.time = float(events.t[done - 1])
        return done, made

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays that events change."""
        mine = {"work": self.work} | self.nodes.arrays()
        if self.busy is not None:
            mine |= {"free": self.busy.free, "counts": self.busy.counts}
        return mine

    @arrays.setter
    def arrays(self, given: dict[str, Array]) -> None:
        for name, own in self.arrays.items():
            own[...] = given[name]

    @property
    def t(self) -> float:
        """The time of the last event."""
        return self.time

    @property
    def messages(self) -> int:
        """Exchanges so far."""
        if self.busy is None:
            return self.exchanges
        return int(self.busy.counts[: len(self.network.edges)].sum())

    @property
    def gradients(self) -> int:
        """Gradients so far, of the nodes' functions or of their conjugates."""
        if self.nodes.gradients_at_answers:
            return 2 * self.messages
        assert self.busy is not None
        return int(self.busy.counts[len(self.network.edges) :].sum())

    def ledger_error(self) -> float:
        """Return 0: nothing can be lost on its way."""
        return 0.0

    def reset(self) -> None:
        """Go back to the start, of nodes that start at 0."""
        assert self.busy is not None
        self.work[:, TIME] = 0.0
        for array in (self.busy.free, self.busy.counts, *self.nodes.arrays().values()):
            array[...] = 0

    def log(self) -> Log:
        """Return three entries for an exchange; the end of an edge that is named first is the
        initiator."""
        ends = self.network.edges[self.log_marks.joined().astype(np.int64)]
        i, j, n = ends[:, 0], ends[:, 1], len(ends)
        return Log(
            np.tile([ANSWER, PAY, APPLY], n),
            np.column_stack([j, i, j]).ravel(),
            np.column_stack([i, j, i]).ravel(),
            np.repeat(np.arange(1, n + 1), 3),
            np.repeat(self.log_times.joined(), 3),
        )
