"""The engine whose exchanges go message by message, with delays, losses, deaths and joins."""

from __future__ import annotations

import numpy as np

from continuized import seeds
from continuized.checkpoints import State
from continuized.marks import Categorical
from continuized.network import engine_heap, engine_node, engine_protocol
from continuized.network.engine import BLOCK, EXCHANGES, TEST, TIME, Block, held
from continuized.network.faults import Faults
from continuized.network.graph import Graph
from continuized.network.outcome import Log, Staleness
from continuized.network.rules import Constants
from continuized.problems.base import Array

FIRST_ROOM = 1024  # entries of a heap
LOG_ROOM = 2**16  # rows, before they are put aside


class Messages:
    """Nodes ring by their own clocks; node i asks j at the rate P_ij / 2, times i's speed."""

    def __init__(
        self,
        graph: Graph,
        values: Array,
        constants: Constants,
        root: seeds.Root,
        log: bool,
        faults: Faults,
    ) -> None:
        self.constants = constants
        self.net = _net(graph, values, faults, log)
        total = float(self.net.rates.sum())
        self.block = Block(graph, Categorical(self.net.rates / total), root, total)
        self.links = engine_protocol.Links(
            delay=float(faults.delay),
            constant=faults.law == "constant",
            loss=float(faults.loss),
            duplication=float(faults.duplication),
            wait=faults.wait,
        )
        self.rng = seeds.generator(root, seeds.LINKS)
        changes = faults.changes(graph.nodes)
        self.heap = engine_heap.empty(FIRST_ROOM + len(changes), values.shape[1])
        for t, node, joins in changes:
            kind = engine_protocol.JOIN if joins else engine_protocol.DEATH
            engine_heap.push(self.heap, t, kind, node, 0, 0)
        self.t, self.messages = 0.0, 0
        self.middle = np.zeros(values.shape[1])
        self._parts: list[tuple[Array, Array]] = []  # of the log
        # Compiled now, so that the run is timed without it.
        self._run(np.zeros(1), np.zeros(1, np.int64), -1.0, 1, np.zeros(2), np.empty((0, 3)))

    def _run(
        self, times: Array, marks: Array, stop: float, most: int, bounds: Array, rows: Array
    ) -> tuple[int, bool]:
        self.block.done, tests, full = engine_protocol.run_messages(
            self.net, self.heap, self.links, self.rng, self.constants, times, marks,
            self.block.done, stop, most, self.block.period, bounds, rows, self.middle,
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
        self.t, self.messages = float(self.net.now[0]), int(self.net.counts[0])
        if made and not bounds[0] < rows[-1, 2] < bounds[1]:
            return TEST, rows
        if self.messages >= most:
            return EXCHANGES, rows
        if stop < times[-1]:
            self.t = stop
            return TIME, rows
        return BLOCK, rows

    def _make_room(self) -> None:
        if self.heap.room < engine_protocol.ROOM:
            self.heap = engine_heap.grown(self.heap)
        self._put_log_aside()

    def _put_log_aside(self) -> None:
        n = int(self.net.counts[engine_protocol.LOGGED])
        if n:
            self._parts.append((self.net.log[:n].copy(), self.net.log_time[:n].copy()))
            self.net.counts[engine_protocol.LOGGED] = 0

    def states(self, t: float) -> tuple[Array, Array]:
        """Of every node at time t; of a dead one at its death."""
        net = self.net
        both = engine_node.states_at(net.work, net.alive, net.speeds, t, self.constants.theta)
        x, z = np.hsplit(both, 2)
        return x.copy(), z.copy()

    def alive(self) -> Array:
        """Which nodes are."""
        return self.net.alive

    def balance(self) -> tuple[Array, Array, Array]:
        """See `Engine`."""
        owed = np.zeros_like(self.middle)
        engine_protocol.on_the_way(self.net, self.constants, owed)
        engine_node.centre(self.net.work, self.net.alive, owed, self.middle)
        died, joined = self.net.ledger
        return self.middle.copy(), held(self.net.work, self.net.alive) + owed + died, joined.copy()

    def error(self, t: float) -> float:
        """The squared error at time t."""
        return float(engine_protocol.error_at(self.net, self.constants, t, self.middle))

    def staleness(self) -> Staleness | None:
        """How old answers were."""
        total, largest, count = self.net.ages.tolist()
        return Staleness(total / count, largest, int(count)) if count else None

    def log(self) -> Log:
        """So far."""
        self._put_log_aside()
        lines = np.concatenate([np.empty((0, 4), np.int64), *(p[0] for p in self._parts)])
        times = np.concatenate([np.empty(0), *(p[1] for p in self._parts)])
        return Log(*lines.T.copy(), times)

    def state(self) -> State:
        """Between two blocks."""
        self._put_log_aside()
        plain = {
            "t": self.t,
            "messages": self.messages,
            "stream": self.block.stream.state(),
            "links": self.rng.bit_generator.state,
        }
        arrays = {f"net_{name}": a.copy() for name, a in self.net._asdict().items()}
        arrays |= {f"heap_{name}": a.copy() for name, a in self.heap._asdict().items()}
        log = self.log()
        return State(plain, arrays | {f"log_{name}": a for name, a in log._asdict().items()})

    def restore(self, state: State) -> None:
        """Go on from there."""
        plain, arrays = state
        self.t, self.messages = plain["t"], plain["messages"]
        self.block.stream.restore(plain["stream"])
        self.rng.bit_generator.state = plain["links"]
        self.net = engine_protocol.Net(*(arrays[f"net_{name}"] for name in self.net._fields))
        self.heap = engine_heap.Heap(*(arrays[f"heap_{name}"] for name in self.heap._fields))
        *lines, times = (arrays[f"log_{name}"] for name in Log._fields)
        self._parts = [(np.column_stack(lines), times)]


def _net(graph: Graph, values: Array, faults: Faults, log: bool) -> engine_protocol.Net:
    """The network before anything has happened."""
    n, d = values.shape
    head, tail = np.vstack([graph.edges, graph.edges[:, ::-1]]).astype(np.int64).T
    speeds = faults.speeds(n)
    alive = np.ones(n, np.bool_)
    alive[list(faults.absent())] = False
    return engine_protocol.Net(
        head=head.copy(),
        tail=tail.copy(),
        rates=0.5 * np.tile(graph.P, 2) * speeds[head],
        speeds=speeds,
        work=np.hstack([np.zeros((n, 1)), values, values]),
        alive=alive,
        epoch=np.zeros(n, np.int64),
        phase=np.zeros(n, np.int64),
        over=np.zeros(n, np.int64),
        seq=np.zeros(n, np.int64),
        held=np.zeros(n, np.int64),
        since=np.zeros(n),
        out=np.zeros((n, d)),
        settled=np.ones(n, np.bool_),
        pair=np.zeros(n, np.int64),
        last=np.zeros(head.size, np.int64),
        now=np.zeros(1),
        counts=np.zeros(2, np.int64),
        ledger=np.zeros((2, d)),
        ages=np.zeros(3),
        log=np.zeros((LOG_ROOM if log else 0, 4), np.int64),
        log_time=np.zeros(LOG_ROOM if log else 0),
    )
