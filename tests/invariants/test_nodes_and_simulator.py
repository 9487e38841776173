"""The simulator and the nodes follow one protocol: step by step, and in law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from continuized import network
from continuized.network import Faults, Graph
from continuized.network.logs.entries import LOG_ANSWER, LOG_PAY, Log
from continuized.network.protocol.node import SELF, Node
from continuized.network.protocol.transitions import (
    ACK,
    ACTIVE_EDGE,
    ANSWER,
    ASKING,
    NOT_BEFORE,
    OWN_SEQ,
    PHASE,
    REQUEST,
    TRANSFER,
    WAKEUPS,
    Message,
)
from tests.helpers.simulated_wires import Wire, make_nodes

GRAPHS = ("cycle:6", "grid:3x4", "star:5")
FAULTS = {
    "none": Faults(),
    "links": Faults(delay=0.5, loss=0.1, duplication=0.1),
    "constant delay": Faults(delay=0.8, law="constant"),
    "clocks": Faults(delay=0.2, skew=0.5),
    "short timeout": Faults(delay=1.0, loss=0.2, duplication=0.2, timeout=1.0),
}


class Script:
    """The draws of a node that asks the neighbour it is told to, and whose clock is told too."""

    def __init__(self, node: Node) -> None:
        self.node, self.row, self.next = node, node.rows.node[SELF], 0.0
        node.random = self
        node.next_tick = math.inf

    def random(self) -> float:
        return self.next

    def exponential(self, mean: float) -> float:
        return math.inf

    def standard_exponential(self) -> float:
        return 0.0

    def give_up(self) -> None:
        """Nothing came in time, of which a log has no entry; the making up is told by `ask`."""
        self.node._give_up(self.node.now)
        self.row[WAKEUPS], self.node.rows.waits[SELF, NOT_BEFORE] = 0, 0.0

    def ask(self, peer: int, seq: int) -> Message:
        """The node begins exchange `seq` with this neighbour."""
        node, k = self.node, list(self.node.neighbours).index(peer)
        if seq <= self.row[OWN_SEQ]:  # given up before; the request comes late
            return Message(REQUEST, node.number, peer, seq)
        if node.busy:
            self.give_up()
        ends = np.concatenate([[0.0], node._cumulative])
        self.next = 0.5 * (ends[k] + ends[k + 1])
        self.row[OWN_SEQ], self.row[WAKEUPS], node.next_tick = seq - 1, 0, node.now
        (request,) = [m for m in node.tick(node.now) if m.kind == REQUEST]
        node.next_tick = math.inf
        return request


def drive(graph: Graph, values: np.ndarray, log: Log) -> list[Node]:
    """Nodes that are told what the simulator's log says came to them, and when."""
    nodes = make_nodes(graph, values, timeout=1e9)
    scripts = [Script(node) for node in nodes]
    paid: dict[tuple[int, int, int], Message] = {}
    answers: dict[tuple[int, int, int], Message] = {}
    for kind, node, peer, seq, time in zip(*(column.tolist() for column in log), strict=True):
        here, there = nodes[node], nodes[peer]
        if kind == LOG_ANSWER:
            row = scripts[node].row
            partner = here.neighbours[int(row[ACTIVE_EDGE]) % len(here.neighbours)]
            if here.busy and (row[PHASE] == ASKING or partner != peer):
                scripts[node].give_up()
            (answer,) = here.receive(scripts[peer].ask(node, seq), time)
            assert answer.kind == ANSWER, "the simulator's node answered, this one does not"
            answers[peer, node, seq] = answer
        elif kind == LOG_PAY:
            (transfer,) = here.receive(answers.pop((node, peer, seq)), time)
            assert transfer.kind == TRANSFER
            paid[node, peer, seq] = transfer
        else:
            (ack,) = here.receive(paid.pop((peer, node, seq)), time)
            assert ack.kind == ACK
            there.receive(ack, there.now)
    return nodes


@pytest.mark.parametrize("spec", GRAPHS)
@pytest.mark.parametrize("name", FAULTS)
def test_the_simulators_events_lead_the_nodes_to_its_values(spec: str, name: str) -> None:
    graph = Graph.of(spec)
    values = np.random.default_rng(4).normal(size=(graph.nodes, 2))
    faults = FAULTS[name]
    r = network.simulate(graph, values, rng=3, faults=faults, tol=0.0, events=400, log=True)
    assert r.log is not None
    nodes = drive(graph, values, r.log)
    for node, speed in zip(nodes, faults.speeds(graph.nodes), strict=True):
        node._mix(speed * r.t)
    x, z = (np.array(part) for part in zip(*(node.model.state() for node in nodes), strict=True))
    assert np.abs(x - r.x).max() < 1e-12
    assert np.abs(z - r.z).max() < 1e-12
    assert sum(node.counts.exchanges for node in nodes) >= r.messages
    assert sum(node.counts.strange for node in nodes) == 0
    if name in ("none", "constant delay"):  # where every answer and transfer comes in time
        assert sum(node.counts.given_up for node in nodes) == 0


@pytest.mark.parametrize(("delay", "loss"), [(0.2, 0.0), (1.5, 0.0), (0.3, 0.2)])
def test_nodes_and_simulator_exchange_equally_often(delay: float, loss: float) -> None:
    # Counts of exchanges up to t = 2000, of variance at most that of a Poisson law: a difference
    # of 5 standard deviations, of either count, has a probability below 1e-6.
    graph, t = Graph.of("path:10"), 2000.0
    faults = Faults(delay=delay, loss=loss)
    wire = Wire(make_nodes(graph, np.zeros(10), timeout=faults.wait()), delay=delay, loss=loss)
    wire.run(t)
    nodes = sum(node.counts.exchanges for node in wire.nodes.values())
    r = network.simulate(
        graph, np.arange(10.0), method="plain", rng=1, faults=faults, tol=0.0, until=t
    )
    assert abs(nodes - r.messages) < 5.0 * math.sqrt(nodes + r.messages)
    ages = sum(node.counts.age_sum for node in wire.nodes.values()) / nodes
    assert r.staleness is not None
    # The age is of two delays and, of lost transfers, of waits: deviations of a few means.
    assert r.staleness.mean == pytest.approx(ages, rel=0.15)
