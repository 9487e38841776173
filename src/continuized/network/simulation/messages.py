"""The engine whose nodes exchange message by message, with faults, whatever the nodes compute.

Nodes tick by their own clocks; node i asks j at the rate P_ij / 2, times i's speed, and makes up
for ticks that came to nothing (see `protocol.timeouts`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.network.faults import Faults
from continuized.network.graphs.graph import Graph, list_directed
from continuized.network.logs.entries import Log
from continuized.network.protocol.transitions import DEATH, JOIN, SOURCE, TARGET, make_rows
from continuized.network.result import Staleness
from continuized.network.simulation import heap
from continuized.network.simulation import message_kernels as kernels
from continuized.network.simulation.engine import Engine, NodeSet, Tests, check_solved
from continuized.network.simulation.instant import InstantEngine
from continuized.network.simulation.message_kernels import MessageNetwork
from continuized.problems.base import Array
from continuized.process.clock import Events
from continuized.process.random_streams import LINKS, Root, generator
from continuized.support.checkpoints.state import GrowingRows

FIRST_ROOM = 1024  # entries of a heap
LOG_ROOM = 2**16  # rows, before they are put aside
LOG_COLUMNS = len(Log._fields)
# All other arrays of the network are its state.
NOT_SAVED = ("rows", "first", "upto", "log", "owed")


class MessageEngine(Engine):
    """Nodes that send each other messages, over links that draw from the child `LINKS` of root."""

    changing = (*Engine.changing, "lines")
    was_whole = True  # whether no death or join cut the last slice short

    def __init__(
        self, graph: Graph, nodes: NodeSet, root: Root, faults: Faults, *, log: bool = False
    ) -> None:
        super().__init__(graph, nodes, log)
        n, dim, speeds = graph.nodes, nodes.dim, faults.speeds(graph.nodes)
        self.changes = faults.changes(n)
        self.last_change = max([t for t, _, _ in self.changes], default=0.0)
        self.links, self.wait = faults.links(), faults.wait(nodes.edge_rate)
        ends, first, P = _sort_by_source(graph)
        ticks = 0.5 * nodes.edge_rate * P * speeds[ends[:, 0]]
        steps = nodes.step_rates * speeds if len(nodes.step_rates) else nodes.step_rates
        self.rates = np.concatenate([ticks, steps])
        self.random = generator(root, LINKS)
        rows = make_rows(ends, nodes.make_work(speeds), dim, self.wait)
        rows.alive[list(faults.absent_at_start())] = False
        first_heap = make_heap(FIRST_ROOM + len(self.changes), dim)
        self.network = MessageNetwork(
            rows,
            *first_heap,
            counts=np.zeros(kernels.COUNTS, np.int64),
            sums=np.zeros(kernels.SUMS),
            ledger=np.zeros((kernels.LEDGER_ROWS, dim)),
            first=first,
            upto=np.cumsum(ticks),
            log=np.zeros((LOG_ROOM if log else 0, LOG_COLUMNS)),
            owed=np.zeros(dim),
        )
        self._take_heap(*first_heap)
        self.alive, self.work, self.ledger = rows.alive, rows.work, self.network.ledger
        self.lines = GrowingRows()  # of the log, that were put aside
        self.lines.append(np.empty((0, LOG_COLUMNS)))
        for t, i, joins in self.changes:
            heap.push(*first_heap[:2], self.network.counts, t, JOIN if joins else DEATH, i, 0, 0)
        self.compile()

    def run_slice(
        self, events: Events, done: int, stop: float, most: int, tests: Tests
    ) -> tuple[int, int, bool]:
        net = self.network
        part = kernels.Slice(
            events.t, events.marks, done, stop, most, self.slice_steps, self.last_change
        )
        done, made, end = kernels.run_messages(
            self.nodes.model, net, self.links, self.wait, self.random, part, tests
        )
        self.was_whole = end not in (kernels.CHANGE, kernels.GRADIENT)
        if end == kernels.CHANGE:
            self._change()
        elif end == kernels.GRADIENT:
            assert events.marks is not None
            self.node_due = int(events.marks[done - 1]) - len(net.rows.edge)
        check_solved(net.counts[kernels.FAILED] == 0)
        self.t, self.messages = float(net.sums[kernels.NOW]), int(net.counts[kernels.EXCHANGES])
        found = kernels.ANSWERS if self.nodes.gradients_at_answers else kernels.STEPS
        self.gradients = int(net.counts[found])
        if logged := int(net.counts[kernels.LOGGED]):
            self.lines.append(net.log[:logged].copy())
            net.counts[kernels.LOGGED] = 0
        if len(net.when) - net.counts[heap.SIZE] < kernels.ROOM:
            larger = make_heap(2 * len(net.when), self.nodes.dim)
            for new, own in zip(larger, (net.when, net.what, net.body), strict=True):
                new[: len(own)] = own
            self._take_heap(*larger)
        return done, made, end != kernels.ENDED

    def fit_slice(self, seconds: float) -> None:
        if self.was_whole:
            super().fit_slice(seconds)

    def _change(self) -> None:
        """Carry out the change of the network that was taken from the heap last."""
        net, model, t = self.network, self.nodes.model, float(self.network.sums[kernels.NOW])
        last = net.what[net.counts[heap.SIZE], heap.SLOT]
        kind, i = net.what[last, [heap.KIND, heap.EDGE]].tolist()
        if kind == DEATH:
            kernels.die(model, net, i, t)
        else:
            assert self.random is not None
            kernels.join(model, net, i, t, self.random.random(), self.wait)

    def _take_heap(self, when: Array, what: Array, body: Array) -> None:
        self.network = self.network._replace(when=when, what=what, body=body)
        mine = self.network._asdict() | self.network.rows._asdict() | self.nodes.arrays()
        self.arrays = {name: own for name, own in mine.items() if name not in NOT_SAVED}

    def restore(self, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Put a state back, with its heap, which may have grown."""
        super().restore(plain, arrays)
        self._take_heap(*(self.arrays[name] for name in ("when", "what", "body")))

    def list_past_changes(self) -> list[tuple[float, int, bool]]:
        """Return the deaths and joins that have taken place, as `Faults.changes`: all but those
        ahead."""
        net = self.network
        ahead = net.what[: net.counts[heap.SIZE], heap.SLOT]
        left = np.isin(net.what[ahead, heap.KIND], (DEATH, JOIN)).sum()
        return self.changes[: len(self.changes) - int(left)]

    def find_next_change(self) -> float:
        ahead = self.changes[len(self.list_past_changes()) :]
        return ahead[0][0] if ahead else math.inf

    def is_cut_off(self) -> bool:
        """Tell whether no two living nodes are neighbours, and none is to come."""
        ends = self.network.rows.edge[:, [SOURCE, TARGET]]
        return self.t > self.last_change and not self.alive[ends].all(axis=1).any()

    def sum_owed(self) -> Array:
        rows, owed = self.network.rows, np.empty(self.nodes.dim)
        per_transfer = self.nodes.model.conserved_per_transfer()
        kernels.sum_owed(rows.edge, rows.transfer, per_transfer, owed)
        return owed

    def staleness(self) -> Staleness | None:
        total, largest, count = self.network.sums[
            [kernels.TOTAL_AGE, kernels.LARGEST_AGE, kernels.AGES]
        ].tolist()
        return Staleness(total / count, largest, int(count)) if count else None

    def make_log(self) -> Log:
        *whole, time = self.lines.join().T
        kind, node, peer, seq = (column.astype(np.int64) for column in whole)
        return Log(kind, node, peer, seq, time.copy())


def make_engine(
    graph: Graph, nodes: NodeSet, root: Root, faults: Faults | None, *, log: bool = False
) -> Engine:
    """Make the engine of nodes: exchanges at once where nothing can go wrong between them."""
    if faults is None:
        return InstantEngine(graph, nodes, root, log=log)
    return MessageEngine(graph, nodes, root, faults, log=log)


def make_heap(slots: int, dim: int) -> tuple[Array, Array, Array]:
    """Make when, what and body of an empty heap (see `heap`), with room for so many entries."""
    what = np.zeros((slots, heap.COLUMNS), np.int64)
    what[:, heap.SLOT] = np.arange(slots)
    return np.zeros(slots), what, np.zeros((slots, dim))


def _sort_by_source(graph: Graph) -> tuple[Array, Array, Array]:
    """Return both directions of every edge, the first one of each source, and the edges' P."""
    source, target = list_directed(graph)
    order = np.argsort(source, kind="stable")
    first = np.searchsorted(source[order], np.arange(graph.nodes + 1))
    return np.column_stack([source, target])[order], first, np.tile(graph.P, 2)[order]
