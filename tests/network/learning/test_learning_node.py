"""Nodes that learn, in simulated time: the process they follow, and what they keep."""

from __future__ import annotations

import numpy as np
import pytest

from continuized import theory
from continuized.network import A2CiD2, Gossip, Graph
from continuized.network.analysis import exchange_rates, gain
from continuized.network.gossip import Constants
from continuized.network.learning import model as model_module
from continuized.network.learning.learning_node import CANCEL, LearningNode
from continuized.network.learning.model import LearningModel
from continuized.network.learning.step_clock import StepClock
from continuized.network.protocol.node_model import GossipModel
from continuized.network.protocol.transitions import (
    ANSWER,
    FREE,
    NOT_BEFORE,
    PHASE,
    REFUSE,
    WAKEUPS,
    Message,
)
from tests.helpers.learning_nodes import Clockwork, make_node

CYCLE = Graph.of("cycle:4")


def make_clockwork(
    graph: Graph, values: np.ndarray, method: A2CiD2, seed: int = 0, **options: object
) -> Clockwork:
    delay = options.pop("delay", 0.0)
    made = [make_node(graph, i, x, method, seed=seed, **options)[0] for i, x in enumerate(values)]
    return Clockwork(made, delay)


def test_the_moves_are_those_of_gossip_in_other_coordinates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model_module, "BLOCK_NUMBERS", 3)  # so that five entries are two blocks
    random = np.random.default_rng(0)
    start, other = random.standard_normal((2, 5))
    constants = Constants(0.3, 0.5, 2.0)
    ours = [LearningModel(np.append(x, 0.0), constants, 4) for x in (start, other)]
    theirs = [GossipModel(x, *constants) for x in (start, other)]
    plainly = [GossipModel(x, 0.0, 0.5, 0.5) for x in (start, other)]  # the last entry
    for dt in (0.1, 2.0, 0.0, 0.7):
        for kind in (ours, theirs, plainly):
            for each in kind:
                each.mix(dt)
            kind[1].apply(kind[0].pay(kind[1].answer()), plain=False)
    for mine, its, plain in zip(ours, theirs, plainly, strict=True):
        for got, accelerated, averaged in zip(
            mine.state(), its.state(), plain.state(), strict=True
        ):
            np.testing.assert_allclose(got[:4], accelerated[:4], rtol=1e-13)
            np.testing.assert_allclose(got[4], averaged[4], rtol=1e-13)


def test_a_transfer_is_applied_with_the_steps_it_was_paid_with() -> None:
    """Nodes may come to have different constants, when a worker died or one fell back."""
    one = LearningModel(np.array([3.0, 0.0]), Constants(0.1, 0.5, 2.0), 1)
    two = LearningModel(np.array([1.0, 0.0]), Constants(0.1, 0.5, 5.0), 1)
    total = sum(np.sum(each.state()) for each in (one, two))
    two.apply(one.pay(two.answer()), plain=False)
    one.fall_back()
    two.apply(one.pay(two.answer()), plain=True)
    assert sum(np.sum(each.state()) for each in (one, two)) == pytest.approx(total, rel=1e-14)


def test_the_transfer_of_a_model_that_diverges_is_refused_before_it_is_paid() -> None:
    one = LearningModel(np.array([3e38, 0.0], np.float32), Constants(0.1, 0.5, 2.0), 1)
    with np.errstate(over="ignore"), pytest.raises(ArithmeticError, match="diverges"):
        one.pay(np.array([-3e38, 0.0], np.float32))
    assert one.x.tolist() == [np.float32(3e38), 0.0]


def test_what_an_optimiser_did_is_added_and_x_given_back() -> None:
    node = LearningModel(np.array([1.0, 2.0, 0.0]), Constants(0.1, 0.5, 2.0), 2)
    node.D[:] = 5.0
    new, old = np.array([1.5, 1.0]), np.array([0.5, 2.0])  # x has moved on since `old`
    node.add(new, old)
    assert node.x.tolist() == [2.0, 1.0, 0.0]
    assert old.tolist() == [2.0, 1.0]
    assert node.D.tolist() == [5.0, 5.0]


def test_one_that_fell_back_pays_plainly() -> None:
    node = LearningModel(np.array([1.0, 0.0]), Constants(0.1, 0.5, 2.0), 1)
    node.D[:] = 2.0
    node.fall_back()
    assert node.x.tolist() == [2.0, 0.0]
    assert node.pay(np.array([0.0, 0.0])).tolist() == [2.0, 0.5]
    assert node.D.tolist() == [0.0]


def test_the_flow_goes_in_steps_at_the_rate_of_the_theorem() -> None:
    node, membership = make_node(CYCLE, 0, np.ones(1), A2CiD2())
    node.clock.count_step(0.0)
    node.clock.count_step(2.0)
    node.resume(2)
    node.model.D[:] = 1.0
    node._mix(3.0)  # half a step
    eta = membership.constants().theta
    assert node.model.D[0] == pytest.approx(np.exp(-2.0 * eta * 0.5), rel=1e-13)
    assert node.model.x[0] + 0.5 * node.model.D[0] == pytest.approx(1.5, rel=1e-13)


def test_time_goes_in_steps_and_waits_for_the_next() -> None:
    clock = StepClock()
    for now in (0.0, 0.5, 1.0):
        clock.count_step(now)
    assert clock.read(1.25) == 3.5
    assert clock.read(9.0) == 4.0  # the fourth step takes long
    assert clock.find(4.5) == np.inf
    clock.count_step(9.0)
    assert clock.read(9.0) == 4.0
    clock.stop()
    assert clock.read(99.0) == 4.0


@pytest.mark.parametrize("accelerated", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_without_gradients_it_is_the_gossip_of_the_theorem(accelerated: bool) -> None:
    """The mean of |x - mean|^2 over runs is the exact expectation of gossip with damping 1, in a
    time that is `communications` times as many ticks as nodes.

    Error budget: 60 runs; 4.5 standard errors, a false alarm in 10^5.  With one method's
    constants in place of the other's, the mean would be four times too large or too small.
    """
    graph, method = Graph.of("path:6"), A2CiD2(communications=2.0, accelerated=accelerated)
    values, ticks = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]), 60.0
    found = []
    for seed in range(60):
        work = make_clockwork(graph, values[:, None], method, seed)
        until = ticks / method.edge_rate(graph)
        work.run(until)
        for node in work.nodes.values():
            node._mix(until)
        found.append(sum(float(node.model.x[0]) ** 2 for node in work.nodes.values()))
    exact = {
        kind: theory.moments(graph, Gossip(kind, damping=1.0), values, [ticks]).fun[0]
        for kind in (True, False)
    }
    spread = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - exact[accelerated]) < 4.5 * spread
    assert abs(np.mean(found) - exact[not accelerated]) > 4.5 * spread
    assert exact[False] > 4.0 * exact[True]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_middle_is_moved_by_the_programs_alone(dtype: type) -> None:
    check_middle(dtype, 250)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_middle_is_moved_by_the_programs_alone_over_ten_thousand_exchanges(dtype: type) -> None:
    assert check_middle(dtype, 2600) > 10_000


def check_middle(dtype: type, steps: int) -> int:
    """Each operation on a node rounds by at most half an ulp of what it holds, at random."""
    random = np.random.default_rng(1)
    values = random.standard_normal((4, 6)).astype(dtype)
    work = make_clockwork(CYCLE, values, A2CiD2(), buffers=2, delay=0.02)
    start = work.middle()
    work.run(float(steps), lambda: 0.1 * random.standard_normal(6))
    work.end_exchanges()
    exchanges = sum(node.counts.exchanges for node in work.nodes.values())
    assert exchanges > 3.5 * steps  # of 4: some are refused, and made up for
    largest = max(np.abs(node.model.x).max() for node in work.nodes.values())
    operations = 8 * exchanges + 4 * steps
    rounding = np.finfo(dtype).eps * np.sqrt(operations) * max(largest, 1.0)
    assert np.abs(work.middle() - start - work.moved).max() < 6.0 * rounding
    return exchanges


def test_a_silent_neighbour_costs_one_wait_and_is_asked_again_once_heard() -> None:
    work = make_clockwork(CYCLE, np.arange(4.0)[:, None], A2CiD2(), delay=0.01, timeout=5.0)
    work.run(20.0)
    stopped = work.nodes.pop(2)
    before = work.nodes[1].counts.given_up
    work.run(60.0)
    assert work.nodes[1].silent.keys() == {2}
    assert work.nodes[1].counts.given_up == before + 1
    assert work.nodes[1].counts.exchanges > 20  # with the other neighbour
    work.run(90.0)
    assert work.nodes[1].counts.given_up == before + 2  # it was asked once more
    work.nodes[2] = stopped
    work._push(90.0, 2, "step")
    work.run(130.0)
    assert work.nodes[1].silent == {}


def test_an_answer_that_comes_too_late_is_cancelled() -> None:
    """The one that gave it is free again at once, and nothing is paid."""
    one, two = (make_node(CYCLE, i, np.array([float(i)]), A2CiD2())[0] for i in (0, 1))
    for node in (one, two):
        node.quiet = False
    request = next(m for _ in range(50) for m in ask_again(one) if m.receiver == 1)
    (answer,) = two.receive(request, 99.0)  # the request was long on its way
    one.tick(100.0)  # gives up
    assert two.busy
    (cancel,) = one.receive(answer, 101.0)
    assert cancel.kind == CANCEL
    assert two.receive(cancel, 101.0) == []
    assert not two.busy
    assert two.counts.given_up == 0  # it would have waited until 104
    assert one.silent == {}
    assert (one.model.x[0], two.model.x[0]) == (0.0, 1.0)


def ask_again(node: LearningNode) -> list[Message]:
    """What a node asks at a tick, whatever it has asked before."""
    node.rows.node[0, [PHASE, WAKEUPS]] = FREE, 1
    return node.tick(0.0)


def test_the_flow_is_slowed_where_exchanges_do_not_take_place() -> None:
    """eta is made for the rate that was asked for; delays leave time for a part of it only."""
    work = make_clockwork(CYCLE, np.arange(4.0)[:, None], A2CiD2(), delay=0.5)
    work.run(300.0)
    for node in work.nodes.values():
        realised = node.counts.exchanges / 300.0  # one a step was asked for
        assert realised < 0.5
        assert node.share == pytest.approx(realised, abs=0.15)


@pytest.mark.slow
def test_slow_links_cost_exchanges_and_not_stability(monkeypatch: pytest.MonkeyPatch) -> None:
    """With messages of half a step on a path of 16, the flow that was made for the rate asked for
    would diverge: the gain of `network.analysis` is above 1 with it, and below with ours."""
    graph, method = Graph.of("path:16"), A2CiD2()
    rate, constants = method.edge_rate(graph), method.constants(graph)
    for steps in (0.1, 0.5, 2.0, 8.0):
        rates = exchange_rates(graph, steps * rate)
        slowed = constants._replace(theta=float(rates.sum()) * constants.theta / rate)
        assert gain(graph, slowed, steps * rate, rates) < 0.85
    rates = exchange_rates(graph, 0.5 * rate)
    asked = constants._replace(theta=constants.theta / rate)
    assert gain(graph, asked, 0.5 * rate, rates) > 1.2
    ends = []
    for slowed_down in (True, False):
        if not slowed_down:
            monkeypatch.setattr(LearningNode, "share", 1.0)
        work = make_clockwork(graph, np.arange(16.0)[:, None], method, delay=0.5)
        work.run(600.0)
        ends.append(np.ptp([node.model.x[0] for node in work.nodes.values()]))
    assert ends[0] < 0.1
    assert ends[1] > 10.0


def test_the_mean_of_a_step_is_that_of_the_last_ones() -> None:
    clock = StepClock()
    for now in [*range(100), *range(102, 252, 3)]:  # steps of 1 s, and then 50 of 3 s
        clock.count_step(float(now))
    assert clock.mean == pytest.approx(3.0, rel=0.05)  # of all of them it would be 1.7


def test_a_neighbour_that_is_dropped_takes_its_ticks_with_it() -> None:
    node, membership = make_node(CYCLE, 0, np.ones(1), A2CiD2())
    node.quiet = False
    assert membership.neighbours == [1, 3]
    rate = node.rate
    node.drop(1)
    assert node.rate == pytest.approx(0.5 * rate)
    assert {m.receiver for _ in range(20) for m in ask_again(node)} == {3}
    assert ask_again(node) != []  # no tick is lost on the one that is gone
    node.drop(3)
    node.resume(0)
    assert node._next_t == np.inf


def test_a_refused_request_is_made_up_for_in_about_the_time_of_an_exchange() -> None:
    """And not in a quarter of the timeout, which is for links that lose.

    Error budget: an exponential time is above 15 means with a probability of 3e-7, and a quarter
    of the timeout is ten million times longer.
    """
    node, _ = make_node(CYCLE, 0, np.ones(1), A2CiD2(), timeout=1e6)
    node.quiet = False
    pauses = []
    for _ in range(10):
        node.rows.waits[0, NOT_BEFORE] = 0.0
        (request,) = ask_again(node)
        node.receive(Message(REFUSE, request.receiver, 0, request.seq), 1.0)
        pauses.append(float(node.rows.waits[0, NOT_BEFORE]) - 1.0)
    assert min(pauses) > 0.0
    assert max(pauses) < 15.0 * 2.0 * node._first_guess


def test_a_node_that_finishes_goes_on_as_plain_gossip() -> None:
    node, _ = make_node(CYCLE, 0, np.ones(1), A2CiD2())
    node.model.D[:] = 2.0
    node.finish(0.0)
    assert node.model.plain
    assert (node.model.x[0], node.model.D[0]) == (2.0, 0.0)


def test_an_exchange_that_cannot_be_paid_is_forgotten() -> None:
    node, _ = make_node(CYCLE, 0, np.array([3e38], np.float32), A2CiD2())
    node.quiet = False
    (request,) = ask_again(node)
    peer = request.receiver
    far = Message(ANSWER, peer, 0, request.seq, False, np.array([-3e38, 0.0], np.float32))
    with np.errstate(over="ignore"), pytest.raises(ArithmeticError):
        node.receive(far, 0.0)
    node.abandon(far)
    assert node.idle
    assert peer in {m.receiver for _ in range(50) for m in ask_again(node)}


def test_no_exchange_begins_after_the_end() -> None:
    work = make_clockwork(CYCLE, np.arange(4.0)[:, None], A2CiD2(), delay=0.1)
    work.run(30.0)
    for node in work.nodes.values():
        node.finish(work.now)
    work.run(31.0)
    counts = [node.counts.exchanges for node in work.nodes.values()]
    work.run(60.0)
    assert [node.counts.exchanges for node in work.nodes.values()] == counts


def test_one_that_has_finished_goes_on_answering() -> None:
    work = make_clockwork(CYCLE, np.arange(4.0)[:, None], A2CiD2())
    work.run(5.0)
    work.nodes[0].finish(5.0)
    before = work.nodes[0].counts.ages
    work.run(50.0)
    assert work.nodes[0].counts.ages > before + 20
