"""The transitions by themselves: node 0 asks, and 1 and 2 are asked.

Each of these mistakes would leave sums as they are, or be too rare for tests of whole networks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from continuized.network.protocol import transitions
from continuized.network.protocol.timeouts import LONGER, MOST_WAKEUPS, UNKNOWN, update
from continuized.network.protocol.transitions import (
    ANSWER,
    DELIVERED,
    FREE,
    NOT_BEFORE,
    NOTHING,
    OWED,
    PHASE,
    REFUSE,
    REQUEST,
    TIME,
    TRANSFER,
    WAIT,
    WAKEUPS,
    NodeRows,
    make_rows,
)

TO_1, TO_2, MOST = 0, 1, 100.0  # the edges, and the longest time to wait
RNG = np.random.default_rng(0)


def make_three() -> NodeRows:
    work = np.column_stack([np.zeros(3), np.ones(3)])
    rows = make_rows(np.array([[0, 1], [0, 2]]), work, 1, MOST)
    rows.waits[:, WAIT] = 10.0
    return rows


def ask(rows: NodeRows, edge: int = TO_1, t: float = 0.0) -> None:
    rows.node[0, WAKEUPS] = 1
    assert transitions.ask(rows, RNG, edge, t) == REQUEST


def test_only_the_answer_to_the_last_request_is_waited_for() -> None:
    rows = make_three()
    ask(rows)
    assert transitions.waits_for(rows, TO_1, 1)
    assert transitions.on_give_up(rows, RNG, TO_1, 1, 10.0, MOST)
    assert not transitions.waits_for(rows, TO_1, 1)
    ask(rows, t=20.0)
    assert not transitions.waits_for(rows, TO_1, 1)  # of the exchange that was given up
    assert not transitions.waits_for(rows, TO_2, 2)
    assert transitions.waits_for(rows, TO_1, 2)
    assert not transitions.on_give_up(rows, RNG, TO_1, 1, 21.0, MOST)  # nor does its timer end it


def be_refused(rows: NodeRows) -> None:
    ask(rows)
    assert transitions.on_refusal(rows, RNG, TO_1, 1, 0.0)


def give_up(rows: NodeRows) -> None:
    ask(rows)
    assert transitions.on_give_up(rows, RNG, TO_1, 1, 0.0, MOST)


def ask_one_that_is_owed(rows: NodeRows) -> None:
    rows.node[0, WAKEUPS], rows.edge[TO_1, OWED] = 1, 7
    assert transitions.ask(rows, RNG, TO_1, 0.0) == NOTHING


@pytest.mark.parametrize("fail", [be_refused, give_up, ask_one_that_is_owed])
def test_a_tick_that_came_to_nothing_is_made_up_for_after_a_while(
    fail: Callable[[NodeRows], None],
) -> None:
    rows = make_three()
    fail(rows)
    later = float(rows.waits[0, NOT_BEFORE])
    assert rows.node[0, [PHASE, WAKEUPS]].tolist() == [FREE, 1]
    assert later > 0.0
    assert not transitions.may_ask(rows, 0, 0.5 * later)
    assert transitions.may_ask(rows, 0, later)


def test_a_tick_for_a_dead_neighbour_is_not_made_up_for() -> None:
    rows = make_three()
    rows.alive[1], rows.node[0, WAKEUPS] = False, 1
    assert transitions.ask(rows, RNG, TO_1, 0.0) == NOTHING
    assert rows.node[0, WAKEUPS] == 0
    assert not transitions.may_ask(rows, 0, 0.0)


def test_few_ticks_are_made_up_for() -> None:
    rows = make_three()
    for _ in range(2 * MOST_WAKEUPS):
        transitions.tick(rows, 0)
    assert rows.node[0, WAKEUPS] == MOST_WAKEUPS


def test_a_node_waits_longer_where_nothing_came_and_learns_from_what_came() -> None:
    rows = make_three()
    ask(rows)
    transitions.on_give_up(rows, RNG, TO_1, 1, 10.0, MOST)
    assert rows.waits[0, WAIT] == LONGER * 10.0
    ask(rows, t=20.0)
    rows.work[0, TIME] = 23.0
    assert transitions.on_answer(rows, TO_1, 2, MOST) == TRANSFER
    assert rows.waits[0, WAIT] == update(UNKNOWN, 0.0, 3.0, MOST)[2] < 10.0
    before = rows.waits[0, WAIT]
    assert transitions.on_resend(rows, TO_1, 2, MOST) == TRANSFER
    assert rows.waits[0, WAIT] == LONGER * before
    assert transitions.on_request(rows, TO_2, 3, accepts=True) == ANSWER
    assert transitions.on_unlock(rows, TO_2, 3, MOST)
    assert rows.waits[2, WAIT] == LONGER * 10.0


def test_old_timers_and_messages_change_nothing() -> None:
    rows = make_three()
    ask(rows)
    for seq in (1, 2):
        assert transitions.on_request(rows, TO_1, seq, accepts=True) == ANSWER
    assert not transitions.on_unlock(rows, TO_1, 1, MOST)  # it is locked for the second
    assert transitions.on_transfer(rows, TO_1, 1) == (NOTHING, False)
    rows.edge[TO_1, OWED] = 2
    assert transitions.on_resend(rows, TO_1, 1, MOST) == NOTHING
    assert not transitions.on_ack(rows, TO_1, 1)
    assert rows.edge[TO_1, OWED] == 2
    assert transitions.unlock(rows, TO_1, 2)


def test_one_that_is_locked_refuses_others() -> None:
    work = np.column_stack([np.zeros(3), np.ones(3)])
    rows = make_rows(np.array([[0, 2], [1, 2]]), work, 1, MOST)
    assert transitions.on_request(rows, 0, 1, accepts=True) == ANSWER
    assert transitions.on_request(rows, 1, 1, accepts=True) == REFUSE
    assert transitions.on_request(rows, 0, 1, accepts=True) == NOTHING  # a copy


def test_what_is_owed_is_in_flight_until_it_is_delivered() -> None:
    rows = make_three()
    ask(rows)
    transitions.on_request(rows, TO_1, 1, accepts=True)
    rows.edge[TO_1, DELIVERED] = 1  # of the exchange before
    transitions.on_answer(rows, TO_1, 1, MOST)
    assert rows.edge[TO_1, [OWED, DELIVERED]].tolist() == [1, 0]
    transitions.on_transfer(rows, TO_1, 1)
    assert rows.edge[TO_1, [OWED, DELIVERED]].tolist() == [1, 1]
