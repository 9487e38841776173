"""Nodes that die, come back or fall back, links that lose, and models that raise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from continuized.network import Faults, Graph
from continuized.network.logs.entries import LOG_FALL, LOG_JOIN
from continuized.network.protocol.node import LIFE, Node
from continuized.network.protocol.node_model import GossipModel
from continuized.network.protocol.timeouts import UNKNOWN, update
from continuized.network.protocol.transitions import (
    ANSWER,
    JOIN,
    REFUSE,
    REQUEST,
    TRANSFER,
    WAIT,
    WELCOME,
    Message,
    make_rows,
    wait_longer,
)
from continuized.network.runtime.scheduler import FaultyLink, NodeScheduler
from tests.helpers.simulated_wires import (
    CONSTANTS,
    OCTAHEDRON,
    Wire,
    ask,
    check_books,
    kinds,
    make_nodes,
    pair,
)


def test_the_dead_take_only_their_share() -> None:
    graph = Graph.of(OCTAHEDRON)
    values = np.arange(6.0) ** 2
    nodes = make_nodes(graph, values, 5, timeout=4.0)
    wire = Wire(nodes, 5, delay=0.2, loss=0.1)
    wire.run(10.0)
    dead = wire.nodes.pop(2)
    for node in wire.nodes.values():
        node.note_deaths(2, 1, back=False)
    wire.run(30.0)
    wire.end_exchanges()
    check_books(wire.nodes)
    books = [sum(node.model.state()) - node.began - node.of_dead for node in wire.nodes.values()]
    np.testing.assert_allclose(sum(books), 0.0, atol=1e-11)  # among the living nothing is lost
    # What is missing is what the dead node had, and what was on its way from and to it.
    held, missing = sum(dead.model.state()), 2.0 * values.sum() - wire.total()
    late = sum(
        dead.model.conserved_per_transfer(owed.plain) * owed.d for owed in dead.owed.values()
    )
    owed = missing - held - late
    assert np.abs(owed) <= 5.0 * np.abs(values).max()


def test_who_waits_for_a_neighbour_that_died_is_free_at_once() -> None:
    a, b = pair()
    request = ask(a)
    b.receive(request, 1.0)
    assert a.busy
    assert b.busy
    a.note_deaths(1, 1, back=False)
    b.note_deaths(0, 1, back=False)
    assert a.idle
    assert b.idle


def test_a_node_comes_back_with_a_neighbours_value() -> None:
    _, b = pair()
    b.note_deaths(0, 1, back=True)
    new = Node(0, GossipModel([0.0], *CONSTANTS), [1], [1.0],
               np.random.default_rng(0), 10.0, life=1)  # fmt: skip
    assert kinds(new.receive(Message(REQUEST, 1, 0, 1), 0.0)) == [REFUSE]
    (hello,) = new.tick(0.0)
    assert (hello.kind, hello.seq) == (JOIN, LIFE + 1)
    (welcome,) = b.receive(hello, 3.0)
    assert welcome.kind == WELCOME
    new.receive(welcome, 0.5)
    assert not new.joining
    np.testing.assert_array_equal(new.model.state(), [[5.0], [5.0]])
    np.testing.assert_array_equal(new.began, [10.0])
    # A transfer to its last life, taken off the books by then, is not applied.
    assert new.receive(Message(TRANSFER, 1, 0, 9, False, np.ones(1)), 1.0) == []
    assert kinds(b.receive(Message(REQUEST, 0, 1, LIFE + 2), 4.0)) == [ANSWER]


def test_a_node_that_comes_back_to_plain_gossip_says_so_after_it_came() -> None:
    new = Node(0, GossipModel([0.0], *CONSTANTS), [1], [1.0],
               np.random.default_rng(0), 10.0, life=1)  # fmt: skip
    (hello,) = new.tick(0.0)
    new.fall_back(0.1)
    new.receive(Message(WELCOME, 1, 0, hello.seq, False, np.array([5.0])), 0.5)
    assert [entry[0] for entry in new.log] == [LOG_JOIN, LOG_FALL]


def test_what_comes_late_from_a_dead_neighbour_is_booked_to_the_dead() -> None:
    a, b = pair()
    (answer,) = b.receive(ask(a), 1.0)
    (transfer,) = a.receive(answer, 1.0)
    b.note_deaths(0, 1, back=True)  # it is back already
    b.receive(transfer, 2.0)
    assert 0 not in b.account
    check_books({1: b})


def test_falling_back_keeps_the_sum_and_makes_z_equal_x() -> None:
    model = GossipModel([1.0], 0.1, 0.5, 3.0)
    model.z = np.array([5.0])
    model.fall_back()
    np.testing.assert_array_equal(model.state(), [[3.0], [3.0]])
    d = model.pay(np.array([1.0]))
    np.testing.assert_array_equal([d, *model.state()], [[2.0], [2.0], [2.0]])
    model.apply(np.array([2.0]), plain=False)  # paid before: with the steps of that time
    np.testing.assert_array_equal(sum(model.state()), [4.0 + 2.0 * 3.5])
    model.mix(1.0)
    np.testing.assert_array_equal(model.state(), [[5.5], [5.5]])


def test_timeouts_learn_and_are_bounded() -> None:
    mean, deviation, wait = UNKNOWN, 0.0, 100.0
    for _ in range(100):
        mean, deviation, wait = update(mean, deviation, 3.0, 100.0)
    assert wait == pytest.approx(6.0, rel=0.01)
    rows = make_rows(np.array([[0, 1]]), np.ones((2, 2)), 1, wait)
    for _ in range(20):
        wait_longer(rows, 0, 100.0)
    assert rows.waits[0, WAIT] == 100.0
    for _ in range(200):
        mean, deviation, wait = update(mean, deviation, 0.0, 100.0)
    assert wait == 1.0  # not nothing, or every answer would be late


def test_links_lose_double_and_hold_up() -> None:
    link = FaultyLink(np.random.default_rng(0), Faults(2.0, 0.1, 0.05).links())
    sent = [Message(REQUEST, 0, 1, k) for k in range(20_000)]
    out, t = link.send(sent, 0.0), 0.0
    arrived = [(0.0, message) for message in out]
    while link.due < math.inf:
        t = link.due
        arrived += [(t, message) for message in link.send([], t)]
    # Both counts are within 5 standard deviations of a fixed seed: false alarms below 1e-6.
    assert abs(len({m.seq for _, m in arrived}) - 18_000) < 5 * math.sqrt(20_000 * 0.09)
    assert abs(len(arrived) - 18_900) < 5 * math.sqrt(20_000 * 0.15)
    assert np.mean([t for t, _ in arrived]) == pytest.approx(2.0, rel=5.0 / math.sqrt(18_900))
    perfect = FaultyLink(np.random.default_rng(0), Faults().links())
    assert perfect.send(sent, 0.0) == sent


class Raises(GossipModel):
    def answer(self) -> np.ndarray:
        raise ValueError("no answer\nfrom me")


def test_a_model_that_raises_ends_its_node_only() -> None:
    nodes = dict(enumerate(pair()))
    nodes[1].model = Raises([5.0], 0.1, 0.5, 0.5)
    link = FaultyLink(np.random.default_rng(0), Faults().links())
    scheduler = NodeScheduler(nodes, 1.0, 1.0, link)
    assert scheduler.receive([Message(REQUEST, 0, 1, 1)]) == []
    assert scheduler.failures == [(1, "ValueError: no answer from me")]
    assert list(scheduler.nodes) == [0]
    assert scheduler.receive([Message(REQUEST, 0, 1, 2)]) == []


def test_a_process_that_stood_still_slows_its_clock() -> None:
    link = FaultyLink(np.random.default_rng(0), Faults().links())
    scheduler = NodeScheduler({}, 1000.0, 2.0, link)
    scheduler.advance(10.0)
    scheduler.advance(10.001)
    assert scheduler.t == pytest.approx(1.0)
    scheduler.advance(70.0)
    assert scheduler.t == pytest.approx(3.0)  # not 60,000
