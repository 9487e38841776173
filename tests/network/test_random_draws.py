"""The law of what nodes draw: which edge and when, on true and on skewed clocks.

Choices by one uniform number are tested on an even grid of it, which leaves nothing to chance.  The
others are drawn from fixed seeds; for another seed, a false alarm would have probability 1e-7 a
test, 6e-7 together.  Each test is made once more with a bias of 3 %, which it must see.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare, norm

from continuized.network import Faults, Gossip, Graph
from continuized.network.protocol import transitions
from continuized.network.protocol.node import SELF, Node
from continuized.network.runtime.scheduler import FaultyLink, NodeScheduler
from continuized.network.simulation.message_kernels import draw_edge
from continuized.network.simulation.messages import make_engine
from continuized.network.simulation.node_models import gossip as gossip_nodes
from continuized.process import random_streams as seeds
from tests.helpers.simulated_wires import make_nodes

ALPHA = 1e-7
BIAS = 1.03
GRID = (np.arange(5000) + 0.5) / 5000.0
GRAPH = Graph.of("star:4", rates=[0.2, 0.5, 0.3])
SKEW = np.array([0.5, -0.3, 0.0, 0.2])


def share_is(drawn: Any, shares: np.ndarray) -> bool:
    """Whether independent draws have these shares, by Pearson's test."""
    counts = np.bincount(drawn, minlength=shares.size)
    return bool(chisquare(counts, counts.sum() * shares / shares.sum()).pvalue > ALPHA)


def are_exponential(gaps: np.ndarray, rate: float) -> bool:
    """Whether gaps have this rate: the mean, and mean and variance of e^{-rate gap}, uniform."""
    uniform = np.exp(-rate * gaps)
    samples = (rate * gaps - 1.0, uniform - 0.5, (uniform - 0.5) ** 2 - 1.0 / 12.0)
    scores = [abs(s.mean()) / s.std() * np.sqrt(s.size) for s in samples]
    return bool(max(scores) < norm.isf(0.5 * ALPHA / len(samples)))


def grid_share_is(drawn: list[int], shares: np.ndarray) -> bool:
    """Whether a grid of uniform numbers falls on the edges by these shares, but for its ends."""
    counts = np.bincount(drawn, minlength=shares.size)
    return bool(np.all(abs(counts - len(GRID) * shares / shares.sum()) <= 1.0))


@pytest.mark.parametrize("bias", [1.0, BIAS])
def test_a_node_of_the_simulator_draws_edges_by_their_rates(bias: float) -> None:
    P, first = np.array([0.2, 0.5, 0.3, 0.2, 0.5, 0.3]), np.array([0, 3, 4, 5, 6])
    upto = np.cumsum(P * np.array([bias, *np.ones(5)]))
    drawn = [draw_edge(first, upto, 0, u) for u in GRID.tolist()]
    assert grid_share_is(drawn, P[:3]) == (bias == 1.0)
    assert {draw_edge(first, upto, 2, u) for u in (0.0, 0.5, 1.0 - 2.0**-53)} == {4}


def ask_again(node: Node, u: float) -> int:
    """Whom a free node asks when its uniform number is u."""
    node.random = SimpleNamespace(random=lambda: u)  # type: ignore[assignment]
    node.rows.node[SELF, transitions.PHASE] = transitions.FREE
    node.rows.node[SELF, transitions.WAKEUPS] = 1
    (request,) = node._ask(0.0)
    return int(request.receiver)


@pytest.mark.parametrize("bias", [1.0, BIAS])
def test_a_real_node_draws_neighbours_by_their_rates(bias: float) -> None:
    node = make_nodes(GRAPH, np.zeros(4))[0]
    node._cumulative = np.cumsum(np.array(node.P) * [bias, 1.0, 1.0])
    node._cumulative /= node._cumulative[-1]
    drawn = [ask_again(node, u) for u in GRID.tolist()]
    assert grid_share_is(drawn, np.array([0.0, 0.2, 0.5, 0.3])) == (bias == 1.0)


@pytest.mark.parametrize("bias", [1.0, BIAS])
@pytest.mark.parametrize("number", [0, 2])
def test_a_real_node_ticks_at_half_the_rate_of_its_edges(number: int, bias: float) -> None:
    node = make_nodes(GRAPH, np.zeros(4), 5)[number]
    expected = 0.5 * GRAPH.P[[number in edge for edge in GRAPH.edges]].sum()
    node.rate *= bias
    gaps = np.array([node._draw_gap() for _ in range(100_000)])
    assert are_exponential(gaps, expected) == (bias == 1.0)


@pytest.mark.parametrize("bias", [1.0, BIAS])
def test_skewed_clocks_of_the_simulator_tick_faster_and_slower(bias: float) -> None:
    constants, root = Gossip().constants(GRAPH), seeds.seed_sequence(3)
    planted = (1.0 + SKEW) * np.array([bias, 1.0, 1.0, 1.0]) - 1.0
    nodes = gossip_nodes.make_nodes(np.zeros((4, 1)), constants)
    engine: Any = make_engine(GRAPH, nodes, root, Faults(skew=planted))
    edge = engine.network.rows.edge
    events = engine.make_stream(root).draw(400_000)
    centre = GRAPH.P / 2.0 * (1.0 + SKEW[0])  # by the edges 0 - 1, 0 - 2, 0 - 3
    leaves = GRAPH.P / 2.0 * (1.0 + SKEW[1:])
    sources = np.where(edge[events.marks, transitions.SOURCE] == 0, 0, 3)
    ends = edge[events.marks].sum(axis=1, where=np.arange(edge.shape[1]) < 2) - 1
    rates = np.concatenate([centre, leaves])
    assert share_is(sources + ends, rates) == (bias == 1.0)
    assert are_exponential(events.dt, rates.sum()) == (bias == 1.0)


def test_skewed_clocks_of_real_nodes_are_read_and_waited_for_at_their_speed() -> None:
    (node, *_), link = make_nodes(GRAPH, np.zeros(4), speed=1.5), FaultyLink(None, Faults().links())  # type: ignore[arg-type]
    scheduler = NodeScheduler({0: node}, speed=10.0, stride=1e9, link=link)
    assert scheduler.seconds_to_sleep() == node.next_tick / 1.5 / 10.0
    scheduler.advance(0.0)
    scheduler.advance(2.0)
    assert scheduler.t == 20.0
    assert scheduler.local_time(node) == 30.0
