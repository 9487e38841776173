"""Nodes in memory: a simulated wire that holds up, loses, doubles and reorders messages."""

from __future__ import annotations

import heapq

import numpy as np

from continuized.network import Gossip, Graph
from continuized.network.gossip import Constants
from continuized.network.graphs.graph import list_neighbours
from continuized.network.protocol.node import Node
from continuized.network.protocol.node_model import GossipModel
from continuized.network.protocol.transitions import Message

# Stays connected without any one or two of its nodes.
OCTAHEDRON = [(i, j) for i in range(6) for j in range(i + 1, 6) if i + j != 5]
PATH = Graph.of("path:2")
CONSTANTS = Constants(0.3, 0.5, 2.0)


def make_nodes(
    graph: Graph,
    values: np.ndarray,
    seed: int = 0,
    *,
    accelerated: bool = True,
    constants: Constants | None = None,
    **options: object,
) -> list[Node]:
    constants = constants or Gossip(accelerated).constants(graph)
    options, around = {"timeout": 50.0, **options}, list_neighbours(graph)
    return [
        Node(
            i,
            GossipModel(np.atleast_1d(values[i]), *constants),
            *around[i],
            np.random.default_rng([seed, i]),
            dim=np.size(values[i]),
            **options,
        )
        for i in range(graph.nodes)
    ]


def pair(**options: object) -> tuple[Node, Node]:
    a, b = make_nodes(PATH, np.array([1.0, 5.0]), constants=CONSTANTS, **options)
    return a, b


def ask(node: Node) -> Message:
    """The request of a node when its clock ticks."""
    (request,) = node.tick(node.next_tick)
    return request


def kinds(messages: list[Message]) -> list[int]:
    return [message.kind for message in messages]


def check_books(nodes: dict[int, Node]) -> None:
    """The x + z of a node is what it began with and all that it booked."""
    for node in nodes.values():
        x, z = node.model.state()
        booked = sum(node.account.values(), np.zeros(1)) + node.of_dead
        np.testing.assert_allclose(x + z, node.began + booked, rtol=1e-12, atol=1e-12)


class Wire:
    """Carries messages between nodes until t; each copy takes an exponential time."""

    def __init__(
        self,
        nodes: list[Node],
        seed: int = 0,
        *,
        delay: float = 0.0,
        loss: float = 0.0,
        duplication: float = 0.0,
    ) -> None:
        self.nodes = dict(enumerate(nodes))
        self.random = np.random.default_rng([seed, 1 << 20])
        self.delay, self.loss, self.duplication = delay, loss, duplication
        self.t, self.count = 0.0, 0
        self.queue: list[tuple[float, int, int, Message | None]] = []
        self.due: dict[int, float] = {}
        for i in self.nodes:
            self.schedule(i)

    def push(self, t: float, i: int, message: Message | None) -> None:
        self.count += 1
        heapq.heappush(self.queue, (t, self.count, i, message))

    def send(self, messages: list[Message]) -> None:
        for message in messages:
            if self.random.random() >= self.loss:
                for _ in range(1 + (self.random.random() < self.duplication)):
                    wait = self.random.exponential(self.delay) if self.delay else 0.0
                    self.push(self.t + wait, message.receiver, message)

    def step(self) -> None:
        self.t, _, i, message = heapq.heappop(self.queue)
        node = self.nodes.get(i)
        if node is None or (message is None and self.due.get(i) != self.t):
            return
        self.send(node.tick(self.t) if message is None else node.receive(message, self.t))
        if message is None:
            self.due.pop(i, None)
        self.schedule(i)

    def schedule(self, i: int) -> None:
        due = max(self.nodes[i].due, self.t)
        if due < self.due.get(i, np.inf):
            self.due[i] = due
            self.push(due, i, None)

    def run(self, until: float) -> None:
        while self.queue and self.queue[0][0] <= until:
            self.step()

    def end_exchanges(self, steps: int = 1_000_000) -> None:
        """Begin no exchange any more, and bring all that is owed."""
        for node in self.nodes.values():
            node.quiet = True
        while not all(node.idle for node in self.nodes.values()):
            self.step()
            steps -= 1
            assert steps > 0, "transfers are still owed"

    def total(self) -> np.ndarray:
        return sum(sum(node.model.state()) for node in self.nodes.values())

    def x(self) -> np.ndarray:
        return np.array([node.model.state()[0] for node in self.nodes.values()])
