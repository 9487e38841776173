"""The engine whose exchanges are done at once, for nodes of any model, and its compiled loop."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.logs.entries import LOG_ANSWER, LOG_APPLY, LOG_PAY, Log
from continuized.network.simulation.engine import Engine, NodeSet, Tests, check_solved
from continuized.network.simulation.node_models.interface import (
    TIME,
    asks_python,
    disagreement,
    find_answer,
    flow_to,
    message,
    pay,
    step,
)
from continuized.problems.base import Array
from continuized.process.clock import Events
from continuized.process.random_streams import ROWS, Root, generator
from continuized.support.checkpoints.state import GrowingRows
from continuized.support.jit import fetch, jit_uncounted

AHEAD = 8  # events: their nodes are asked for while the memory is slow


class InstantNetwork(NamedTuple):
    """Nodes and edges whose exchanges take no time."""

    alive: Array
    edges: Array  # (edges, 2)
    work: Array
    owed: Array  # (dim,): room; nothing is ever on its way


class Activity(NamedTuple):
    """Until when nodes are busy with their last exchange, and how many events took place.

    A node is busy for a time `duration` after an exchange, until `free`: an exchange does not take
    place while an end of its edge is busy.
    """

    free: Array
    duration: Array
    counts: Array  # of the events that took place, by mark


@jit_uncounted
def run_events(
    nodes: Any, network: InstantNetwork, activity: Activity | None, rng: Any, times: Array,
    marks: Array, begin: int, end: int, tests: Tests,
) -> tuple[int, int, bool]:  # fmt: skip
    """Run the events begin, ..., end - 1 of a block.

    Marks below the number of edges are exchanges, the others steps of the nodes' own.  Returns how
    many events of the block are done, how many tests were made, and False where a node could not
    find what to say.  Without `activity`, which is known when this is compiled, nothing is counted.
    After a step whose gradient is Python's, it returns for that to be taken.
    """
    edges, work = network.edges, network.work
    m, width, made = edges.shape[0], work.shape[1], 0
    for k in range(begin, end):
        if k + AHEAD < end and marks[k + AHEAD] < m:
            for side in range(2):
                fetch(work, edges[marks[k + AHEAD], side] * width)
        mark, t = marks[k], times[k]
        if mark >= m:
            flow_to(nodes, work, mark - m, t)
            if asks_python(nodes):
                if activity is not None:
                    activity.counts[mark] += 1
                return k + 1, made, True
            step(nodes, work, mark - m, rng)
        else:
            i, j = edges[mark, 0], edges[mark, 1]
            if activity is not None:
                if t < activity.free[i] or t < activity.free[j]:
                    continue
                for end_of_edge in (i, j):
                    activity.free[end_of_edge] = t + activity.duration[end_of_edge]
            flow_to(nodes, work, i, t)
            flow_to(nodes, work, j, t)
            if not (find_answer(nodes, work, i) and find_answer(nodes, work, j)):
                return k, made, False
            for c in range(network.owed.size):
                d = message(nodes, work, i, c) - message(nodes, work, j, c)
                pay(nodes, work, i, c, d)
                pay(nodes, work, j, c, -d)
        if activity is not None:
            activity.counts[mark] += 1
        if (k + 1) % tests.period == 0:
            for c in range(network.owed.size):
                network.owed[c] = 0.0
            error = disagreement(nodes, work, network.alive, t, network.owed)
            tests.rows[made, 0], tests.rows[made, 1] = t, tests.before + k + 1
            tests.rows[made, 2] = error
            made += 1
            if not tests.bounds[0] < error < tests.bounds[1]:  # NaN too
                return k + 1, made, True
    return end, made, True


class InstantEngine(Engine):
    """Edges tick one after the other at the graph's rates; an exchange takes no time.

    busy (nodes,): for how long a node is busy after each of its exchanges; by default never.  The
    nodes' own gradients draw from the child `ROWS` of root.
    """

    changing = (*Engine.changing, "log_marks", "log_times")

    def __init__(
        self,
        graph: Graph,
        nodes: NodeSet,
        root: Root,
        *,
        busy: Array | None = None,
        log: bool = False,
    ) -> None:
        super().__init__(graph, nodes, log)
        n = graph.nodes
        self.rates = np.concatenate([nodes.edge_rate * graph.P, nodes.step_rates])
        # Compiled code takes longer to take a generator in than to exchange 1000 times.
        draws = len(nodes.step_rates) > 0 and nodes.own is None
        self.random = generator(root, ROWS) if draws else None
        self.work, self.alive = nodes.make_work(np.ones(n)), np.ones(n, np.bool_)
        self.ledger = np.zeros((2, nodes.dim))
        edges = np.ascontiguousarray(graph.edges, np.int64)
        self.network = InstantNetwork(self.alive, edges, self.work, np.zeros(nodes.dim))
        self.arrays, self.activity = {"work": self.work} | nodes.arrays(), None
        self.only_exchanges = busy is None and not nodes.changing
        if not self.only_exchanges:
            duration = np.zeros(n) if busy is None else busy
            self.activity = Activity(np.zeros(n), duration, np.zeros(len(self.rates), np.int64))
            self.arrays |= {"free": self.activity.free, "counts": self.activity.counts}
        self.log_marks, self.log_times = GrowingRows(), GrowingRows()
        self.compile(self.activity)

    def run_slice(
        self, events: Events, done: int, stop: float, most: int, tests: Tests
    ) -> tuple[int, int, bool]:
        assert events.marks is not None
        begin, in_time = done, int(np.searchsorted(events.t, stop, side="right"))
        end = min(in_time, begin + most - self.messages)
        done, made, found = run_events(
            self.nodes.model, self.network, self.activity, self.random, events.t, events.marks,
            begin, min(end, begin + self.slice_steps),
            tests._replace(before=self.messages - begin),
        )  # fmt: skip
        check_solved(found)
        self._count(done - begin)
        if self.logging:
            self.log_marks.append(events.marks[begin:done])
            self.log_times.append(events.t[begin:done])
        if done > begin:
            self.t, last = float(events.t[done - 1]), int(events.marks[done - 1])
            if self.nodes.own is not None and last >= len(self.network.edges):
                self.node_due = last - len(self.network.edges)
        return done, made, done < end and not tests.are_over(made)

    def _count(self, events: int) -> None:
        """Count exchanges and gradients, after so many more events."""
        m, gradients = len(self.network.edges), 0
        if self.activity is None:
            self.messages += events
        else:
            self.messages = int(self.activity.counts[:m].sum())
            gradients = int(self.activity.counts[m:].sum())
        self.gradients = 2 * self.messages if self.nodes.gradients_at_answers else gradients

    def ledger_error(self) -> float:
        """Return 0: nothing can be lost on its way."""
        return 0.0

    def reset(self) -> None:
        """Go back to the start, of nodes that start at 0."""
        assert self.activity is not None
        self.work[:, TIME], self.t = 0.0, 0.0
        for array in (self.activity.free, self.activity.counts, *self.nodes.arrays().values()):
            array[...] = 0
        self._count(0)

    def make_log(self) -> Log:
        """Return three entries for an exchange, and none for a node's own step; the end of an edge
        that is named first is the initiator."""
        marks, times = self.log_marks.join().astype(np.int64), self.log_times.join()
        exchanged = marks < len(self.network.edges)
        i, j = self.network.edges[marks[exchanged]].T
        n = len(i)
        return Log(
            np.tile([LOG_ANSWER, LOG_PAY, LOG_APPLY], n),
            np.column_stack([j, i, j]).ravel(),
            np.column_stack([i, j, i]).ravel(),
            np.repeat(np.arange(1, n + 1), 3),
            np.repeat(times[exchanged], 3),
        )
