"""Workers that learn, in threads of one process: nodes with real links on 127.0.0.1, no PyTorch."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from continuized.network import A2CiD2, Graph
from continuized.network.learning.background import BackgroundNode
from continuized.network.learning.learning_node import LearningNode
from continuized.network.learning.links import listen, make_codec
from continuized.network.learning.membership import Membership
from continuized.network.learning.model import LearningModel
from continuized.network.protocol.transitions import Message

KEY = bytes(range(32))


def make_node(
    graph: Graph,
    rank: int,
    x: np.ndarray,
    method: A2CiD2,
    *,
    seed: int = 0,
    buffers: int = 0,
    timeout: float = 5.0,
    ledger: bool = False,
) -> tuple[LearningNode, Membership]:
    """A node with a copy of x, of which the last `buffers` entries are averaged plainly."""
    membership = Membership(graph, rank, method)
    held = np.append(x, np.zeros(1, x.dtype))
    accelerated = x.size - buffers if method.accelerated else 0
    model = LearningModel(held, membership.constants(), accelerated)
    random = np.random.default_rng([seed, rank])
    return LearningNode(membership, model, random, timeout, ledger), membership


class Program:
    """What stands for a program that learns: its parameters, and the x they were last given."""

    def __init__(self, background: BackgroundNode, x: np.ndarray) -> None:
        self.background, self.parameters, self.old = background, x.copy(), x.copy()
        self.moved = np.zeros(x.size)  # by its own steps

    def step(self, displacement: Any = 0.0) -> bool:
        new = self.parameters + np.asarray(displacement, self.parameters.dtype)
        # What is handed over is rounded: this is what the node can see of the step.
        self.moved += new.astype(np.float64) - self.old
        taken = self.background.take_step(new, self.old)
        self.parameters = self.old.copy() if taken else new
        return taken

    @property
    def middle(self) -> np.ndarray:
        """(x + x~) / 2."""
        x, tilde = self.background.node.model.state()
        return 0.5 * (x.astype(np.float64) + tilde)


@contextmanager
def programs(
    graph: str, values: np.ndarray, method: A2CiD2 | None = None, **options: Any
) -> Iterator[list[Program]]:
    """Programs, one for each row of the values, with their links; closed at the end."""
    made, method = Graph.of(graph), method or A2CiD2()
    sockets = [listen("127.0.0.1", 0) for _ in values]
    addresses = {rank: opened.getsockname()[:2] for rank, opened in enumerate(sockets)}
    backgrounds = []
    for rank, (x, opened) in enumerate(zip(values, sockets, strict=True)):
        node, membership = make_node(made, rank, x, method, **options)
        codec = make_codec(KEY, x.size, x.dtype)
        backgrounds.append(BackgroundNode(node, membership, codec, opened, addresses))
    try:
        for background in backgrounds:
            background._thread.start()
        for background in backgrounds:
            assert background._linked.wait(20.0)
        yield [Program(b, x) for b, x in zip(backgrounds, values, strict=True)]
    finally:
        for background in backgrounds:
            background.close()


class Clockwork:
    """Nodes without links or threads: programs that take a step each second, in simulated time.

    Messages take a constant `delay` in seconds.
    """

    def __init__(self, nodes: list[LearningNode], delay: float = 0.0) -> None:
        self.nodes, self.delay, self.now = dict(enumerate(nodes)), delay, 0.0
        self.moved = np.zeros(nodes[0].model.x.size - 1)  # by the programs, all together
        self._queue: list[tuple[float, int, int, Any]] = []
        self._count = 0
        self._wakes: dict[int, float] = {}  # when each is to be woken next
        for i, node in self.nodes.items():
            node.clock.count_step(-1.0)
            node.clock.count_step(0.0)
            node.resume(0)
            node.quiet = False
            self._push(1.0, i, "step")
            self._wakes[i] = 0.0
            self._push(0.0, i, "wake")

    def run(self, until: float, displacement: Any = None) -> None:
        """Let time pass; displacement() tells what each step does to the parameters."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, i, what = heapq.heappop(self._queue)
            node = self.nodes.get(i)
            if node is None or (what == "wake" and self._wakes.pop(i, None) != self.now):
                continue
            if what == "step":
                self._step(i, node, displacement)
                out: list[Message] = []
            else:
                out = [] if what == "wake" else node.receive(what, self.now)
            out += node.pass_time(self.now)
            for message in out:
                self._push(self.now + self.delay, message.receiver, message)
            # A little later, where rounding would bring the same moment back for ever.
            due = max(node.due_at, self.now + 1e-9)
            if due < self._wakes.get(i, np.inf):
                self._wakes[i] = due
                self._push(due, i, "wake")

    def end_exchanges(self, seconds: float = 100.0) -> None:
        """Begin no exchange any more, and bring all that is owed."""
        for node in self.nodes.values():
            node.finish(self.now)
        self.run(self.now + seconds)
        assert all(node.has_ended_own for node in self.nodes.values())

    def middle(self) -> np.ndarray:
        """The sum over nodes of (x + x~) / 2."""
        states = [np.add(*n.model.state(), dtype=np.float64) for n in self.nodes.values()]
        return 0.5 * np.sum(states, axis=0)

    def _step(self, i: int, node: LearningNode, displacement: Any) -> None:
        node.clock.count_step(self.now)
        if displacement is not None:
            old = node.model.x[:-1].copy()
            new = (old + displacement()).astype(old.dtype)
            self.moved += new.astype(np.float64) - old
            node.take(new, old, self.now)
        self._push(self.now + 1.0, i, "step")

    def _push(self, t: float, i: int, what: Any) -> None:
        self._count += 1
        heapq.heappush(self._queue, (t, self._count, i, what))
