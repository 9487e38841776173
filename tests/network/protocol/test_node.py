"""One node and its neighbours, without sockets: the protocol under every order of messages."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuized.network import Graph
from continuized.network.logs.entries import LOG_ANSWER, LOG_APPLY, LOG_PAY
from continuized.network.protocol.node import Node
from continuized.network.protocol.node_model import AVERAGING, NodeModelSpec
from continuized.network.protocol.transitions import ACK, ANSWER, REFUSE, REQUEST, TRANSFER, Message
from tests.helpers.simulated_wires import CONSTANTS, Wire, ask, check_books, kinds, make_nodes, pair

KITE = Graph.of([(0, 1), (1, 2), (2, 0), (2, 3)])


def flying(nodes: dict[int, Node]) -> np.ndarray:
    """Paid and not applied."""
    total = np.zeros(1)
    for i, node in nodes.items():
        for peer, owed in node.owed.items():
            if peer in nodes and nodes[peer].last_applied.get(i, -1) < owed.seq:
                total = total + node.model.conserved_per_transfer(owed.plain) * owed.d
    return total


def test_an_exchange_is_the_edge_event_of_the_paper() -> None:
    a, b = pair()
    request = ask(a)
    t = a.next_tick
    (answer,) = b.receive(request, t)
    (transfer,) = a.receive(answer, t)
    assert not a.busy
    assert b.busy
    (ack,) = b.receive(transfer, t)
    assert a.receive(ack, t) == []
    assert kinds([request, answer, transfer, ack]) == [REQUEST, ANSWER, TRANSFER, ACK]
    np.testing.assert_array_equal(a.model.state(), [[3.0], [1.0 + 4.0 * 2.0]])
    np.testing.assert_array_equal(b.model.state(), [[3.0], [5.0 - 4.0 * 2.0]])
    assert a.idle
    assert b.idle
    assert [entry[0] for entry in b.log] == [LOG_ANSWER, LOG_APPLY]
    assert [entry[0] for entry in a.log] == [LOG_PAY]


def test_a_transfer_is_sent_again_until_acknowledged_and_applied_once() -> None:
    a, b = pair()
    (answer,) = b.receive(ask(a), 1.0)
    (transfer,) = a.receive(answer, 1.0)
    (again,) = a.tick(1.0 + 60.0)
    assert again.kind == TRANSFER
    np.testing.assert_array_equal(again.values, transfer.values)
    assert a.counts.resent == 1
    (first,) = b.receive(transfer, 70.0)
    state = np.array(b.model.state())
    for copy in (again, transfer):
        (ack,) = b.receive(copy, 80.0)
        assert ack == first  # an old number is acknowledged
    np.testing.assert_array_equal(b.model.state(), state)  # and not applied
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
    assert kinds(asking.receive(Message(REQUEST, 1, 0, 1), asking.next_tick)) == [REFUSE]


def test_a_neighbour_that_asks_again_has_given_up() -> None:
    _, b = pair()
    assert kinds(b.receive(Message(REQUEST, 0, 1, 1), 1.0)) == [ANSWER]
    assert kinds(b.receive(Message(REQUEST, 0, 1, 2), 1.1)) == [ANSWER]
    assert b.receive(Message(TRANSFER, 0, 1, 1, False, np.ones(1)), 1.2) == []  # none was paid
    assert b.counts.strange == 1


def test_lost_requests_and_answers_cost_nothing_but_time() -> None:
    a, b = pair()
    start = np.array([a.model.state(), b.model.state()])
    (answer,) = b.receive(ask(a), 1.0)
    a.next_tick = b.next_tick = math.inf
    assert a.tick(a.deadline) == []
    assert not a.busy
    assert a.receive(answer, 100.0) == []  # too late
    b.tick(b.deadline)
    assert b.idle
    assert (a.counts.given_up, b.counts.given_up) == (1, 1)
    np.testing.assert_array_equal(np.array([a.model.state(), b.model.state()]), start)


def test_a_transfer_that_comes_after_the_lock_ran_out_is_still_applied() -> None:
    a, b = pair()
    (answer,) = b.receive(ask(a), 1.0)
    (transfer,) = a.receive(answer, 1.0)
    b.next_tick = math.inf
    b.tick(60.0)
    assert not b.busy
    assert kinds(b.receive(transfer, 61.0)) == [ACK]
    np.testing.assert_allclose(sum(a.model.state()) + sum(b.model.state()), 12.0, rtol=1e-14)


def test_a_node_owes_one_transfer_to_a_neighbour() -> None:
    a, b = pair()
    (answer,) = b.receive(ask(a), 1.0)
    a.receive(answer, 1.0)
    tick = a.next_tick
    assert [m.kind for m in a.tick(tick)] in ([], [TRANSFER])  # it asks no neighbour that it owes
    assert not a.busy


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
    a.model.x = np.array([np.finfo(float).max])
    with np.errstate(over="ignore"), pytest.raises(ArithmeticError, match="diverges"):
        a.receive(far, a.next_tick)


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
        total = sum(sum(node.model.state()) for node in nodes.values()) + flying(nodes)
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
    total = sum(sum(node.model.state()) for node in nodes.values())
    np.testing.assert_allclose(total, 2.0 * values.sum(), rtol=1e-12)


@pytest.mark.parametrize("accelerated", [True, False])
def test_losses_and_copies_leave_the_ledger_closed_and_consensus_reached(accelerated: bool) -> None:
    graph = Graph.of("cycle:6")
    values = np.arange(6.0)
    nodes = make_nodes(graph, values, 3, accelerated=accelerated, timeout=4.0)
    wire = Wire(nodes, 3, delay=0.05, loss=0.1, duplication=0.05)
    wire.run(500.0)
    wire.end_exchanges()
    np.testing.assert_allclose(wire.total(), 30.0, rtol=1e-12)
    np.testing.assert_allclose(wire.x(), 2.5, atol=1e-4)
    assert sum(node.counts.resent for node in nodes) > 0
    check_books(wire.nodes)


def test_a_rule_is_named_by_its_module() -> None:
    with pytest.raises(ValueError, match=r"package\.module:function"):
        NodeModelSpec("nothing").make()
    with pytest.raises(ValueError, match="that other processes can import"):
        NodeModelSpec("__main__:Mine").make()
    made = NodeModelSpec(AVERAGING, {"x": np.ones(2)}, CONSTANTS._asdict()).make()
    np.testing.assert_array_equal(made.answer(), [1.0, 1.0])
