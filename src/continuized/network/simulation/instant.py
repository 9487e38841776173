"""The engine whose exchanges are done at once, for nodes of any model."""

from __future__ import annotations

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.result import ANSWER, APPLY, PAY, Log
from continuized.network.simulation import instant_kernels as kernels
from continuized.network.simulation.engine import Engine, NodeSet, check_solved
from continuized.network.simulation.instant_kernels import Busy, Network, Tests
from continuized.network.simulation.node_models.interface import TIME
from continuized.problems.base import Array
from continuized.process import random_streams as seeds
from continuized.process.clock.events import Events


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
        self.random = seeds.generator(root, seeds.ROWS)
        self.work, self.alive = nodes.work(np.ones(n)), np.ones(n, np.bool_)
        self.ledger = np.zeros((2, nodes.dim))
        edges = np.ascontiguousarray(graph.edges, np.int64)
        self.network = Network(self.alive, edges, self.work, np.zeros(nodes.dim))
        self.busy: Busy | None = None
        if busy is not None or nodes.changing:  # else every event is an exchange
            work = np.zeros(n) if busy is None else busy
            self.busy = Busy(np.zeros(n), work, np.zeros(len(self.rates), np.int64))
        self._t, self._exchanges = 0.0, 0
        self._marks: list[Array] | None = [] if log else None
        self._times: list[Array] = []
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
        end = min(in_time, begin + most - self._exchanges)
        tests = tests._replace(before=self._exchanges - begin)
        done, made = self._run(events.t, events.marks, begin, end, tests)
        self._exchanges += done - begin
        if self._marks is not None:
            self._marks.append(events.marks[begin:done])
            self._times.append(events.t[begin:done])
        if done > begin:
            self._t = float(events.t[done - 1])
        return done, made

    @property
    def t(self) -> float:
        """The time of the last event."""
        return self._t

    @property
    def messages(self) -> int:
        """Exchanges so far."""
        if self.busy is None:
            return self._exchanges
        return int(self.busy.counts[: len(self.network.edges)].sum())

    @property
    def gradients(self) -> int:
        """Gradients so far, of the nodes' functions or of their conjugates."""
        if self.nodes.gradients_at_answers:
            return 2 * self.messages
        assert self.busy is not None
        return int(self.busy.counts[len(self.network.edges) :].sum())

    def reset(self) -> None:
        """Go back to the start, of nodes that start at 0."""
        assert self.busy is not None
        self.work[:, TIME] = 0.0
        for array in (self.busy.free, self.busy.counts, *self.nodes.arrays().values()):
            array[...] = 0

    def staleness(self) -> None:
        """Return None: exchanges are instantaneous."""

    def log(self) -> Log:
        """Return three entries for an exchange; the end of an edge that is named first is the
        initiator."""
        assert self._marks is not None
        ends = self.network.edges[np.concatenate([np.empty(0, np.int64), *self._marks])]
        i, j, n = ends[:, 0], ends[:, 1], len(ends)
        return Log(
            np.tile([ANSWER, PAY, APPLY], n),
            np.column_stack([j, i, j]).ravel(),
            np.column_stack([i, j, i]).ravel(),
            np.repeat(np.arange(1, n + 1), 3),
            np.repeat(np.concatenate([np.empty(0), *self._times]), 3),
        )

    def state(self) -> dict[str, Array]:
        arrays = {"work": self.work} | self.nodes.arrays()
        if self.busy is not None:
            arrays |= {"free": self.busy.free, "counts": self.busy.counts}
        kept = {name: own.copy() for name, own in arrays.items()}
        if self._marks is not None:
            kept["log"] = np.concatenate([np.empty(0, np.int64), *self._marks])
            kept["log_times"] = np.concatenate([np.empty(0), *self._times])
        return kept | {"done": np.array(self._exchanges)}

    def restore(self, arrays: dict[str, Array]) -> None:
        own = {"work": self.work} | self.nodes.arrays()
        if self.busy is not None:
            own |= {"free": self.busy.free, "counts": self.busy.counts}
        for name, array in own.items():
            array[...] = arrays[name]
        self._exchanges = int(arrays["done"])
        if self._marks is not None:
            self._marks, self._times = [arrays["log"]], [arrays["log_times"]]
