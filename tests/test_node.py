"""One node and its neighbours, without sockets: the protocol under every order of messages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from continuized.network import Gossip, Graph, outcome, replay
from continuized.network.nodes.host import Host
from continuized.network.nodes.links import Link
from continuized.network.nodes.merging import merged
from continuized.network.nodes.messages import (
    ACK,
    ANSWER,
    JOIN,
    REFUSE,
    REQUEST,
    TRANSFER,
    WELCOME,
    Message,
)
from continuized.network.nodes.node import LIFE, Node
from continuized.network.nodes.patience import Patience
from continuized.network.nodes.rule import AVERAGING, GossipRule, RuleSpec
from continuized.network.nodes.station import ENTRY
from continuized.network.rules import Constants
from wires import OCTAHEDRON, Wire, make_nodes

PATH = Graph.of("path:2")
CONSTANTS = Constants(0.3, 0.5, 2.0)
KITE = Graph.of([(0, 1), (1, 2), (2, 0), (2, 3)])


def pair(**options: object) -> tuple[Node, Node]:
    a, b = make_nodes(PATH, np.array([1.0, 5.0]), constants=CONSTANTS, **options)
    return a, b


def ask(node: Node) -> Message:
    """The request of a node when its clock rings."""
    (request,) = node.tick(node.ring)
    return request


def kinds(messages: list[Message]) -> list[int]:
    return [message.kind for message in messages]


def flying(nodes: dict[int, Node]) -> np.ndarray:
    """Paid and not applied."""
    total = np.zeros(1)
    for i, node in nodes.items():
        for peer, owed in node.owed.items():
            if peer in nodes and nodes[peer].applied.get(i, -1) < owed.seq:
                total = total + node.rule.worth(owed.plain) * owed.d
    return total


def check_books(nodes: dict[int, Node]) -> None:
    """A node's share is what it began with and all that it booked."""
    for node in nodes.values():
        x, z = node.rule.state()
        booked = sum(node.account.values(), np.zeros(1)) + node.of_dead
        np.testing.assert_allclose(x + z, node.began + booked, rtol=1e-12, atol=1e-12)


def test_an_exchange_is_the_edge_event_of_the_paper() -> None:
    a, b = pair()
    request = ask(a)
    t = a.ring
    (answer,) = b.receive(request, t)
    (transfer,) = a.receive(answer, t)
    assert a.exchange is None
    assert b.exchange is not None
    (ack,) = b.receive(transfer, t)
    assert a.receive(ack, t) == []
    assert kinds([request, answer, transfer, ack]) == [REQUEST, ANSWER, TRANSFER, ACK]
    np.testing.assert_array_equal(a.rule.state(), [[3.0], [1.0 + 4.0 * 2.0]])
    np.testing.assert_array_equal(b.rule.state(), [[3.0], [5.0 - 4.0 * 2.0]])
    assert a.idle
    assert b.idle
    assert [entry[0] for entry in b.log] == [outcome.ANSWER, outcome.APPLY]
    assert [entry[0] for entry in a.log] == [outcome.PAY]


def test_a_transfer_is_sent_again_until_acknowledged_and_applied_once() -> None:
    a, b = pair()
    (answer,) = b.receive(ask(a), 1.0)
    (transfer,) = a.receive(answer, 1.0)
    (again,) = a.tick(1.0 + 60.0)
    assert again.kind == TRANSFER
    np.testing.assert_array_equal(again.values, transfer.values)
    assert a.counts.resent == 1
    (first,) = b.receive(transfer, 70.0)
    state = np.array(b.rule.state())
    for copy in (again, transfer):
        (ack,) = b.receive(copy, 80.0)
        assert ack == first  # an old number is acknowledged
    np.testing.assert_array_equal(b.rule.state(), state)  # and not applied
    a.receive(first, 90.0)
    assert a.idle


def test_one_exchange_at_a_time() -> None:
    nodes = make_nodes(Graph.of("path:3"), np.arange(3.0))
    middle = nodes[1]
    assert kinds(middle.receive(Message(REQUEST, 0, 1, 1), 1.0)) == [ANSWER]
    assert kinds(middle.receive(Message(REQUEST, 2, 1, 1), 1.0)) == [REFUSE]
    assert middle.receive(Message(REQUEST, 0, 1, 1), 1.0) == []  # a copy
    asking = nodes[0]
    ask(asking)
    assert kinds(asking.receive(Message(REQUEST, 1, 0, 1), asking.ring)) == [REFUSE]


def test_a_neighbour_that_asks_again_has_given_up() -> None:
    _, b = pair()
    assert kinds(b.receive(Message(REQUEST, 0, 1, 1), 1.0)) == [ANSWER]
    assert kinds(b.receive(Message(REQUEST, 0, 1, 2), 1.1)) == [ANSWER]
    assert b.receive(Message(TRANSFER, 0, 1, 1, False, np.ones(1)), 1.2) == []  # none was paid
    assert b.counts.strange == 1


def test_lost_requests_and_answers_cost_nothing_but_time() -> None:
    a, b = pair()
    start = np.array([a.rule.state(), b.rule.state()])
    (answer,) = b.receive(ask(a), 1.0)
    a.ring = b.ring = math.inf
    assert a.tick(a.exchange.deadline) == []
    assert a.exchange is None
    assert a.receive(answer, 100.0) == []  # too late
    b.tick(b.exchange.deadline)
    assert b.idle
    assert (a.counts.given_up, b.counts.given_up) == (1, 1)
    np.testing.assert_array_equal(np.array([a.rule.state(), b.rule.state()]), start)


def test_a_transfer_that_comes_after_the_lock_ran_out_is_still_applied() -> None:
    a, b = pair()
    (answer,) = b.receive(ask(a), 1.0)
    (transfer,) = a.receive(answer, 1.0)
    b.ring = math.inf
    b.tick(60.0)
    assert b.exchange is None
    assert kinds(b.receive(transfer, 61.0)) == [ACK]
    np.testing.assert_allclose(sum(a.rule.state()) + sum(b.rule.state()), 12.0, rtol=1e-14)


def test_a_node_owes_one_transfer_to_a_neighbour() -> None:
    a, b = pair()
    (answer,) = b.receive(ask(a), 1.0)
    a.receive(answer, 1.0)
    ring = a.ring
    assert [m.kind for m in a.tick(ring)] in ([], [TRANSFER])  # it asks no neighbour that it owes
    assert a.exchange is None


def test_strangers_and_wrong_addresses_are_counted() -> None:
    _, b = pair()
    assert b.receive(Message(REQUEST, 7, 1, 1), 1.0) == []
    assert b.receive(Message(REQUEST, 0, 0, 1), 1.0) == []
    assert b.receive(Message(TRANSFER, 0, 1, 3, False, np.ones(1)), 1.0) == []
    assert b.counts.strange == 3


def test_a_transfer_that_is_not_finite_is_an_error() -> None:
    a, _ = pair()
    request = ask(a)
    far = Message(ANSWER, 1, 0, request.seq, False, np.array([-np.finfo(float).max]))
    a.rule.x = np.array([np.finfo(float).max])
    with np.errstate(over="ignore"), pytest.raises(ArithmeticError, match="diverges"):
        a.receive(far, a.ring)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_nothing_is_made_or_lost_in_any_order_of_messages(data: st.DataObject) -> None:
    values = np.array([1.0, -2.0, 4.0, 8.0])
    nodes = dict(enumerate(make_nodes(KITE, values, data.draw(st.integers(0, 99)), timeout=5.0)))
    bag: list[Message] = []
    t = 0.0
    for _ in range(data.draw(st.integers(1, 60))):
        what = data.draw(st.sampled_from(["tick", "bring", "bring", "lose", "copy", "fall"]))
        if what == "tick":
            t += data.draw(st.floats(0.1, 4.0))
            bag += nodes[data.draw(st.integers(0, 3))].tick(t)
        elif what == "fall" and data.draw(st.integers(0, 5)) == 0:
            nodes[data.draw(st.integers(0, 3))].fall_back(t)
        elif bag and what != "fall":
            k = data.draw(st.integers(0, len(bag) - 1))
            message = bag[k] if what == "copy" else bag.pop(k)
            if what != "lose":
                bag += nodes[message.receiver].receive(message, t)
        total = sum(sum(node.rule.state()) for node in nodes.values()) + flying(nodes)
        np.testing.assert_allclose(total, 2.0 * values.sum(), rtol=1e-12)
        check_books(nodes)
    for node in nodes.values():
        node.quiet = True
    for _ in range(20):  # a wire that works brings everything home
        t += 5.0
        bag += [message for node in nodes.values() for message in node.tick(t)]
        while bag:
            message = bag.pop()
            bag += nodes[message.receiver].receive(message, t)
    assert all(node.idle for node in nodes.values())
    total = sum(sum(node.rule.state()) for node in nodes.values())
    np.testing.assert_allclose(total, 2.0 * values.sum(), rtol=1e-12)


@pytest.mark.parametrize("accelerated", [True, False])
def test_losses_and_copies_leave_the_ledger_closed_and_consensus_reached(accelerated: bool) -> None:
    graph = Graph.of("cycle:6")
    values = np.arange(6.0)
    nodes = make_nodes(graph, values, 3, accelerated=accelerated, timeout=4.0)
    wire = Wire(nodes, 3, delay=0.05, loss=0.1, duplication=0.05)
    wire.run(500.0)
    wire.settle()
    np.testing.assert_allclose(wire.total(), 30.0, rtol=1e-12)
    np.testing.assert_allclose(wire.x(), 2.5, atol=1e-4)
    assert sum(node.counts.resent for node in nodes) > 0
    check_books(wire.nodes)


def test_the_log_replays_to_the_same_values() -> None:
    graph = Graph.of("cycle:5")
    values = np.arange(5.0)
    nodes = make_nodes(graph, values, 1, timeout=4.0)
    wire = Wire(nodes, 1, delay=0.3, loss=0.1, duplication=0.1)
    wire.run(60.0)
    wire.settle()
    # Node after node: the order in which causes stand before effects has to be found.
    entries = np.array([entry for node in nodes for entry in node.log], ENTRY)
    log = merged(entries)
    assert log is not None
    x, z = replay(graph, values, "accelerated", log)
    np.testing.assert_allclose(x, wire.x()[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(z, [node.rule.state()[1][0] for node in nodes], rtol=0, atol=1e-12)
    pays = np.flatnonzero(entries["kind"] == outcome.PAY)
    assert merged(np.delete(entries, pays[0])) is None  # an effect without its cause


def test_the_dead_take_only_their_share() -> None:
    graph = Graph.of(OCTAHEDRON)
    values = np.arange(6.0) ** 2
    nodes = make_nodes(graph, values, 5, timeout=4.0)
    wire = Wire(nodes, 5, delay=0.2, loss=0.1)
    wire.run(10.0)
    dead = wire.nodes.pop(2)
    for node in wire.nodes.values():
        node.bury(2, 1)
    wire.run(30.0)
    wire.settle()
    check_books(wire.nodes)
    books = [sum(node.rule.state()) - node.began - node.of_dead for node in wire.nodes.values()]
    np.testing.assert_allclose(sum(books), 0.0, atol=1e-11)  # among the living nothing is lost
    # What is missing is what the dead node had, and what was on its way from and to it.
    share, missing = sum(dead.rule.state()), 2.0 * values.sum() - wire.total()
    late = sum(dead.rule.worth(owed.plain) * owed.d for owed in dead.owed.values())
    owed = missing - share - late
    assert np.abs(owed) <= 5.0 * np.abs(values).max()


def test_a_node_comes_back_with_a_neighbours_value() -> None:
    _, b = pair()
    b.bury(0, 1)
    b.greet(0)
    new = Node(0, GossipRule([0.0], *CONSTANTS), [1], [1.0],
               np.random.default_rng(0), 10.0, life=1, joining=True)  # fmt: skip
    assert kinds(new.receive(Message(REQUEST, 1, 0, 1), 0.0)) == [REFUSE]
    (hello,) = new.tick(0.0)
    assert (hello.kind, hello.seq) == (JOIN, LIFE + 1)
    (welcome,) = b.receive(hello, 3.0)
    assert welcome.kind == WELCOME
    new.receive(welcome, 0.5)
    assert not new.joining
    np.testing.assert_array_equal(new.rule.state(), [[5.0], [5.0]])
    np.testing.assert_array_equal(new.began, [10.0])
    # A transfer to its last life, taken off the books by then, is not applied.
    assert new.receive(Message(TRANSFER, 1, 0, 9, False, np.ones(1)), 1.0) == []
    assert kinds(b.receive(Message(REQUEST, 0, 1, LIFE + 2), 4.0)) == [ANSWER]


def test_a_node_that_comes_back_to_plain_gossip_says_so_after_it_came() -> None:
    new = Node(0, GossipRule([0.0], *CONSTANTS), [1], [1.0],
               np.random.default_rng(0), 10.0, life=1, joining=True)  # fmt: skip
    (hello,) = new.tick(0.0)
    new.fall_back(0.1)
    new.receive(Message(WELCOME, 1, 0, hello.seq, False, np.array([5.0])), 0.5)
    assert [entry[0] for entry in new.log] == [outcome.JOIN, outcome.FALL]


def test_what_comes_late_from_a_dead_neighbour_is_booked_to_the_dead() -> None:
    a, b = pair()
    (answer,) = b.receive(ask(a), 1.0)
    (transfer,) = a.receive(answer, 1.0)
    b.bury(0, 1)
    b.greet(0)  # it is back already
    b.receive(transfer, 2.0)
    assert 0 not in b.account
    check_books({1: b})


def test_falling_back_keeps_the_share_and_makes_z_equal_x() -> None:
    rule = GossipRule([1.0], 0.1, 0.5, 3.0)
    rule.z = np.array([5.0])
    rule.fall_back()
    np.testing.assert_array_equal(rule.state(), [[3.0], [3.0]])
    d = rule.pay(np.array([1.0]))
    np.testing.assert_array_equal([d, *rule.state()], [[2.0], [2.0], [2.0]])
    rule.apply(np.array([2.0]), plain=False)  # paid before: with the steps of that time
    np.testing.assert_array_equal(sum(rule.state()), [4.0 + 2.0 * 3.5])
    rule.mix(1.0)
    np.testing.assert_array_equal(rule.state(), [[5.5], [5.5]])


def test_a_log_with_nodes_that_fell_back_replays_to_the_same_values() -> None:
    graph = Graph.of("cycle:5")
    values = np.arange(5.0)
    nodes = make_nodes(graph, values, 2, timeout=4.0)
    wire = Wire(nodes, 2, delay=0.3, loss=0.1, duplication=0.1)
    for i, node in enumerate(nodes):  # one after the other, exchanges of both kinds between them
        wire.run(20.0 + 5.0 * i)
        node.fall_back(wire.t)
    wire.run(60.0)
    log = merged(np.array([entry for node in nodes for entry in node.log], ENTRY))
    assert log is not None
    x, z = replay(graph, values, "accelerated", log)
    states = np.array([node.rule.state() for node in nodes])[:, :, 0]
    np.testing.assert_allclose(np.column_stack([x, z]), states, rtol=0, atol=1e-12)
    later = replay(graph, values, "accelerated", log, 100.0)
    for node in nodes:
        node._mix(100.0)
    states = np.array([node.rule.state() for node in nodes])[:, :, 0]
    np.testing.assert_allclose(np.column_stack(later), states, rtol=0, atol=1e-12)


def second_moments(graph: Graph, values: np.ndarray, t: float) -> np.ndarray:
    """E[s s^T] at t for s = (x, z), by the matrix exponential of its linear equation."""
    n = graph.nodes
    theta, gamma, gamma_prime = Gossip().constants(graph)
    eye = np.eye(n)
    flow = theta * np.block([[-eye, eye], [eye, -eye]])
    whole = np.eye(2 * n)
    generator = np.kron(flow, whole) + np.kron(whole, flow)
    for (i, j), P in zip(graph.edges, graph.P, strict=True):
        u = eye[i] - eye[j]
        jump = whole - np.vstack([gamma * np.outer(u, u), gamma_prime * np.outer(u, u)]) @ np.eye(
            n, 2 * n
        )
        generator += P * (np.kron(jump, jump) - np.eye(4 * n * n))
    s = np.concatenate([values, values])
    return (expm(generator * t) @ np.kron(s, s)).reshape(2 * n, 2 * n)


def test_with_instant_messages_the_law_is_that_of_the_process() -> None:
    # 400 runs; 4.5 standard errors: a false alarm with probability below 1e-5 for one seed.
    graph, values, t = Graph.of("path:3"), np.array([1.0, 0.0, 0.0]), 6.0
    found = []
    for seed in range(400):
        wire = Wire(make_nodes(graph, values, seed), seed)
        wire.run(t)
        for node in wire.nodes.values():
            node._mix(t)
        found.append(float(((wire.x() - 1.0 / 3.0) ** 2).sum()))
    moments = second_moments(graph, values, t)[:3, :3]
    centre = np.eye(3) - 1.0 / 3.0
    mean = float(np.trace(moments @ centre))  # the mean of x, with z_0 = x_0, never moves
    assert abs(np.mean(found) - mean) < 4.5 * np.std(found) / math.sqrt(len(found))


def test_patience_learns_and_is_bounded() -> None:
    patience = Patience(100.0)
    for _ in range(100):
        patience.took(3.0)
    assert patience.wait == pytest.approx(6.0, rel=0.01)
    for _ in range(20):
        patience.ran_out()
    assert patience.wait == 100.0
    for _ in range(200):
        patience.took(0.0)
    assert patience.wait == 1.0  # not nothing, or every answer would be late


def test_links_lose_double_and_hold_up() -> None:
    link = Link(np.random.default_rng(0), 0.1, 0.05, 2.0)
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
    perfect = Link(np.random.default_rng(0), 0.0, 0.0, 0.0)
    assert perfect.send(sent, 0.0) == sent


class Raises(GossipRule):
    def answer(self) -> np.ndarray:
        raise ValueError("no answer\nfrom me")


def test_a_rule_that_raises_ends_its_node_only() -> None:
    nodes = dict(enumerate(pair()))
    nodes[1].rule = Raises([5.0], 0.1, 0.5, 0.5)
    host = Host(nodes, {0: 1.0, 1: 1.0}, 1.0, 1.0, Link(np.random.default_rng(0), 0.0, 0.0, 0.0))
    assert host.receive([Message(REQUEST, 0, 1, 1)]) == []
    assert host.fell == [(1, "ValueError: no answer from me")]
    assert list(host.nodes) == [0]
    assert host.receive([Message(REQUEST, 0, 1, 2)]) == []


def test_a_process_that_stood_still_slows_its_clock() -> None:
    host = Host({}, {}, 1000.0, 2.0, Link(np.random.default_rng(0), 0.0, 0.0, 0.0))
    host.advance(10.0)
    host.advance(10.001)
    assert host.t == pytest.approx(1.0)
    host.advance(70.0)
    assert host.t == pytest.approx(3.0)  # not 60,000


def test_a_rule_is_named_by_its_module() -> None:
    with pytest.raises(ValueError, match=r"package\.module:function"):
        RuleSpec("nothing").make()
    with pytest.raises(ValueError, match="that other processes can import"):
        RuleSpec("__main__:Mine").make()
    made = RuleSpec(AVERAGING, {"x": np.ones(2)}, CONSTANTS._asdict()).make()
    np.testing.assert_array_equal(made.answer(), [1.0, 1.0])
