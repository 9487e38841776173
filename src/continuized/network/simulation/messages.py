"""What is between nodes: links, locks, debts and messages on their way, whatever the nodes compute.

Nodes ring by their own clocks; node i asks j at the rate P_ij / 2, times i's speed, and makes up
for rings that came to nothing (see `patience`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.network.analysis import list_directed
from continuized.network.faults import Faults
from continuized.network.gossip import Constants
from continuized.network.graphs.graph import Graph
from continuized.network.protocol import timeouts as patience
from continuized.network.protocol import transitions as engine_protocol
from continuized.network.result import Log, Staleness
from continuized.network.simulation import heap as engine_heap
from continuized.network.simulation import message_kernels as engine_changes
from continuized.network.simulation import message_kernels as engine_loop
from continuized.network.simulation.instant import BLOCK, EXCHANGES, TEST, TIME, Block
from continuized.network.simulation.node_models import gossip as engine_gossip
from continuized.network.simulation.node_models import gossip as engine_node
from continuized.problems.base import Array
from continuized.process import random_streams as seeds
from continuized.process.marks import Categorical
from continuized.support.checkpoints import state as checkpoints
from continuized.support.checkpoints.state import State

FIRST_ROOM = 1024  # entries of a heap
LOG_ROOM = 2**16  # rows, before they are put aside
LOG_COLUMNS = len(Log._fields)

# The arrays that change as a network runs; for what is in them see `engine_protocol`.
CHANGING = (
    "alive", "node", "waits", "edge", "work", "transfer", "when", "what", "body", "counts", "sums",
    "ledger",
)  # fmt: skip


class Post:
    """Carries messages of `dim` numbers between nodes of a kind (see `engine_kinds`).

    Parameters
    ----------
    nodes, work
        What compiled code knows of the nodes.
    root
        The links draw from its child `seeds.LINKS`.
    rate : float
        Of all edges together, at speed 1.
    log : bool
        Keep the log of messages.
    """

    def __init__(
        self, graph: Graph, nodes: Any, work: Array, dim: int, faults: Faults, root: seeds.Root,
        *, rate: float = 1.0, log: bool = False,
    ) -> None:  # fmt: skip
        n = graph.nodes
        self.nodes, self.work = nodes, work
        self.changes = faults.changes(n)
        wait = faults.wait(rate)
        self.links = engine_protocol.Links(
            delay=float(faults.delay),
            constant=faults.law == "constant",
            loss=float(faults.loss),
            duplication=float(faults.duplication),
            wait=wait,
        )
        self.edge, self.first, P = _by_source(graph)
        speeds = faults.speeds(n)
        self.rates = 0.5 * rate * P * speeds[self.edge[:, engine_protocol.SOURCE]]
        self.upto = np.cumsum(self.rates)
        self.rng = seeds.generator(root, seeds.LINKS)
        self.alive = np.ones(n, np.bool_)
        self.alive[list(faults.absent())] = False
        self.node = np.zeros((n, engine_protocol.NODE_COLUMNS), np.int64)
        self.waits = np.zeros((n, engine_protocol.WAITS_COLUMNS))
        self.waits[:, engine_protocol.MEAN] = patience.UNKNOWN
        self.waits[:, engine_protocol.WAIT] = wait
        self.transfer = np.zeros((len(self.edge), engine_protocol.D + dim))
        self.counts = np.zeros(engine_protocol.COUNTS, np.int64)
        self.sums = np.zeros(engine_protocol.SUMS)
        self.ledger = np.zeros((engine_changes.LEDGER_ROWS, dim))
        self.lines = np.zeros((LOG_ROOM if log else 0, LOG_COLUMNS))
        self._parts: list[Array] = []  # of the log, put aside
        self.last_change = max([t for t, _, _ in self.changes], default=0.0)
        self.when, self.what, self.body = engine_heap.empty(FIRST_ROOM + len(self.changes), dim)
        for t, i, joins in self.changes:
            engine_loop.plan(self.when, self.what, self.counts, t, i, joins)
        # Compiled now, so that the run is timed without it.
        self.run(np.zeros(1), np.zeros(1, np.int64), 0, -1.0, 1, 1, np.zeros(2), np.empty((0, 3)))

    def run(
        self, times: Array, marks: Array, done: int, stop: float, most: int, period: int,
        bounds: Array, rows: Array,
    ) -> tuple[int, int]:  # fmt: skip
        """See `engine_loop.run_messages`; returns how many of the rings are done, and how many
        tests were made."""
        made, full = 0, True
        while full:
            done, tests, full = engine_loop.run_messages(
                self.nodes, *(getattr(self, name) for name in CHANGING), self.first, self.upto,
                self.lines, self.links, self.rng, times, marks, done, stop, most, period, bounds,
                rows[made:],
            )  # fmt: skip
            made += tests
            if full:
                self._make_room()
        return done, made

    def _make_room(self) -> None:
        if len(self.when) - self.counts[engine_heap.SIZE] < engine_protocol.ROOM:
            self.when, self.what, self.body = engine_heap.grown(self.when, self.what, self.body)
        self._put_log_aside()

    def _put_log_aside(self) -> None:
        n = int(self.counts[engine_protocol.LOGGED])
        if n:
            self._parts.append(self.lines[:n].copy())
            self.counts[engine_protocol.LOGGED] = 0

    def changed(self) -> list[tuple[float, int, bool]]:
        """The deaths and joins that have taken place, as `Faults.changes`: all but those ahead."""
        ahead = self.what[: self.counts[engine_heap.SIZE], engine_heap.SLOT]
        kinds = self.what[ahead, engine_heap.KIND]
        left = np.isin(kinds, (engine_protocol.DEATH, engine_protocol.JOIN)).sum()
        return self.changes[: len(self.changes) - int(left)]

    def owed(self) -> Array:
        """What was paid and not applied yet."""
        return np.asarray(engine_changes.on_the_way(self.nodes, self.edge, self.transfer))

    def shares(self) -> Array:
        """What every node has of what mixing leaves and exchanges only move, (nodes, dim)."""
        return self._of_nodes(engine_changes.shares)

    def sizes(self) -> Array:
        """How large the numbers are that the shares are made of."""
        return self._of_nodes(engine_changes.sizes)

    def _of_nodes(self, compiled: Any) -> Array:
        out = np.empty((len(self.work), self.ledger.shape[1]))
        compiled(self.nodes, self.work, out)
        return out

    def staleness(self) -> Staleness | None:
        """How old answers were."""
        total, largest, count = self.sums[
            [engine_protocol.TOTAL_AGE, engine_protocol.LARGEST_AGE, engine_protocol.AGES]
        ].tolist()
        return Staleness(total / count, largest, int(count)) if count else None

    def log(self) -> Log:
        """So far."""
        *whole, time = self.logged().T
        kind, node, peer, seq = (column.astype(np.int64) for column in whole)
        return Log(kind, node, peer, seq, time.copy())

    def logged(self) -> Array:
        """The log as the loop writes it."""
        self._put_log_aside()
        self._parts = [np.concatenate([np.empty((0, LOG_COLUMNS)), *self._parts])]
        return self._parts[0]

    def restore(self, arrays: dict[str, Array]) -> None:
        """Go on with these."""
        for name in CHANGING:  # not in place: the heap may have grown
            setattr(self, name, arrays[name])
        self._parts = [arrays["log"]] if "log" in arrays else []


def _by_source(graph: Graph) -> tuple[Array, Array, Array]:
    """Both directions of every edge, the first one of each source, and the edges' P."""
    source, target = list_directed(graph)
    order = np.argsort(source, kind="stable")
    edge = np.zeros((len(source), engine_protocol.EDGE_COLUMNS), np.int64)
    edge[:, engine_protocol.SOURCE] = source[order]
    edge[:, engine_protocol.TARGET] = target[order]
    first = np.searchsorted(source[order], np.arange(graph.nodes + 1))
    return edge, first, np.tile(graph.P, 2)[order]


assert engine_gossip  # which tells what nodes of the kind `Constants` do


class Messages:
    """See `engine_post`."""

    def __init__(
        self,
        graph: Graph,
        values: Array,
        constants: Constants,
        root: seeds.Root,
        log: bool,
        faults: Faults,
    ) -> None:
        work = engine_node.rows_of(values, faults.speeds(graph.nodes))
        self.post = Post(graph, constants, work, values.shape[1], faults, root, log=log)
        total = float(self.post.rates.sum())
        self.block = Block(graph, Categorical(self.post.rates / total), root, total)
        self.t, self.messages = 0.0, 0

    @property
    def alive(self) -> Array:
        return self.post.alive

    def advance(self, stop: float, most: int, bounds: Array) -> tuple[int, Array]:
        """See `Engine`."""
        times, marks = self.block.ready()
        rows = np.empty((len(times) // self.block.period, 3))
        self.block.done, made = self.post.run(
            times, marks, self.block.done, stop, most, self.block.period, bounds, rows
        )
        rows = rows[:made]
        self.t = float(self.post.sums[engine_protocol.NOW])
        self.messages = int(self.post.counts[engine_protocol.EXCHANGES])
        if made and not bounds[0] < rows[-1, 2] < bounds[1]:
            return TEST, rows
        if self.messages >= most:
            return EXCHANGES, rows
        if stop < times[-1]:
            self.t = stop
            return TIME, rows
        return BLOCK, rows

    def states(self, t: float) -> tuple[Array, Array]:
        """Of every node at time t; of a dead one at its death."""
        post = self.post
        both = engine_node.states_at(post.work, post.alive, t, post.nodes.theta)
        x, z = np.hsplit(both, 2)
        return x.copy(), z.copy()

    def balance(self) -> tuple[Array, Array, Array]:
        """See `Engine`."""
        owed = self.post.owed()
        middle = engine_node.centre(self.post.work, self.alive, owed)
        died, joined = self.post.ledger
        held = self.post.shares()[self.alive].sum(axis=0)
        return middle, held + owed + died, joined.copy()

    def error(self, t: float) -> float:
        """The squared error at time t."""
        post = self.post
        arrays = post.alive, post.edge, post.work, post.transfer
        return float(engine_changes.error_at(post.nodes, *arrays, t))

    def over(self) -> bool:
        """Whether no two living nodes are neighbours, and none is to come."""
        ends = self.post.edge[:, [engine_protocol.SOURCE, engine_protocol.TARGET]]
        return self.t > self.post.last_change and not self.alive[ends].all(axis=1).any()

    def staleness(self) -> Staleness | None:
        """How old answers were."""
        return self.post.staleness()

    def log(self) -> Log:
        """So far."""
        return self.post.log()

    def state(self) -> State:
        """Between two blocks."""
        plain = {
            "t": self.t,
            "messages": self.messages,
            "stream": self.block.stream.save("", {}),
            "links": self.post.rng.bit_generator.state,
        }
        log = {"log": self.post.logged()}
        return State(plain, checkpoints.copies(self.post, CHANGING) | log)

    def restore(self, state: State) -> None:
        """Go on from there."""
        plain, arrays = state
        self.t, self.messages = plain["t"], plain["messages"]
        self.block.stream.restore(plain["stream"], arrays)
        self.post.rng.bit_generator.state = plain["links"]
        self.post.restore(arrays)
