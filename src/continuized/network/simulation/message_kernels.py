"""Compiled: the loop over rings, messages, timers and changes, in the order of their times."""

from __future__ import annotations

from typing import Any

from continuized.network.protocol.timeouts import with_one_more
from continuized.network.protocol.transitions import (
    ACK,
    ANSWER,
    DEATH,
    EXCHANGES,
    FREE,
    GIVE_UP,
    JOIN,
    LOG_ANSWER,
    LOG_APPLY,
    LOG_PAY,
    LOGGED,
    NOBODY,
    NOTHING,
    NOW,
    OWED,
    OWN_SEQ,
    PHASE,
    REFUSAL,
    REQUEST,
    RESEND,
    RINGS,
    ROOM,
    SINCE,
    SOURCE,
    STEPS,
    TARGET,
    TRANSFER,
    UNLOCK,
    WAKE,
    Links,
    aged,
    answered,
    asked,
    brought,
    epochs,
    ran_out,
    send,
    unlock,
    waits_for,
    write,
)  # fmt: skip
from continuized.network.simulation.engine_changes import die, error_at, join
from continuized.network.simulation.engine_rings import ask, drawn, freed, later, may_ask
from continuized.network.simulation.heap import EDGE, EPOCH, KIND, SEQ, SIZE, pop, push
from continuized.network.simulation.node_models.interface import SPEED, TIME, flow_to, inlined, step
from continuized.problems.base import Array
from continuized.support.jit import jit


@jit
def plan(when: Array, what: Array, counts: Array, t: float, node: int, joins: bool) -> None:
    """A death or a join to come."""
    push(when, what, counts, t, JOIN if joins else DEATH, node, 0, 0)


@inlined
def arrive(
    nodes: Any, node: Array, waits: Array, edge: Array, work: Array, transfer: Array, body: Array,
    counts: Array, sums: Array, log: Array, most: float, rng: Any, slot: int, kind: int, e: int,
    seq: int, t: float,
) -> tuple[int, int]:  # fmt: skip
    """A message arrives; returns the kind of the reply, and who is in no exchange any more."""
    i, j = edge[e, SOURCE], edge[e, TARGET]
    reply, idle = NOTHING, NOBODY
    if kind == REQUEST:
        reply = asked(nodes, node, edge, work, transfer, counts, e, seq, t)
        if reply == ANSWER:
            write(log, counts, LOG_ANSWER, j, i, seq, work[j, TIME])
    elif kind == ANSWER:
        if waits_for(node, edge, e, seq):
            reply = answered(
                nodes, node, waits, edge, work, transfer, counts, body, slot, e, seq, t, most
            )
            write(log, counts, LOG_PAY, i, j, seq, work[i, TIME])
            idle = i
    elif kind == TRANSFER:
        reply = ACK
        if brought(nodes, edge, work, body, slot, e, seq, t):
            counts[EXCHANGES] += 1
            write(log, counts, LOG_APPLY, j, i, seq, work[j, TIME])
            aged(sums, work[j, TIME] - transfer[e, SINCE])
            if unlock(node, j, e, seq):
                idle = j
    elif kind == REFUSAL:
        if waits_for(node, edge, e, seq):
            node[i, PHASE] = FREE
            later(node, waits, work, rng, i, t)
            idle = i
    elif edge[e, OWED] == seq:  # an ACK
        edge[e, OWED] = 0
    return reply, idle


@inlined
def pass_time(
    node: Array, waits: Array, edge: Array, work: Array, most: float, rng: Any, kind: int, e: int,
    seq: int, t: float,
) -> tuple[int, int]:  # fmt: skip
    """A timer rings; returns what to send, and who is in no exchange any more."""
    i, j = edge[e, SOURCE], edge[e, TARGET]
    reply, idle = NOTHING, NOBODY
    if kind == GIVE_UP:
        if waits_for(node, edge, e, seq):
            node[i, PHASE] = FREE
            later(node, waits, work, rng, i, t)
            ran_out(waits, i, most)
            idle = i
    elif kind == UNLOCK:
        if unlock(node, j, e, seq):
            ran_out(waits, j, most)
            idle = j
    elif edge[e, OWED] == seq:  # RESEND
        ran_out(waits, i, most)
        reply = TRANSFER
    return reply, idle


@inlined
def take_step(
    nodes: Any, alive: Array, work: Array, counts: Array, rng: Any, i: int, t: float
) -> None:
    """A node's own step, if it lives."""
    if alive[i]:
        flow_to(nodes, work, i, work[i, SPEED] * t)
        step(nodes, work, i, rng)
        counts[STEPS] += 1


@jit
def run_messages(
    nodes: Any, alive: Array, node: Array, waits: Array, edge: Array, work: Array, transfer: Array,
    when: Array, what: Array, body: Array, counts: Array, sums: Array, ledger: Array, first: Array,
    upto: Array, log: Array, links: Links, rng: Any, times: Array, marks: Array, begin: int,
    stop: float, most: int, period: int, bounds: Array, rows: Array,
) -> tuple[int, int, bool]:  # fmt: skip
    """All that happens up to the time `stop`, or to the end of the block of rings.

    Marks below the number of directed edges are their rings, the others steps of the nodes' own.
    Tests as in `engine_atomic.run_edges`, by rings.  Returns how many of the block's rings are
    done, how many tests were made, and whether it ended for want of room.
    """
    tests, k = 0, begin
    while counts[EXCHANGES] < most:
        if when.size - counts[SIZE] < ROOM or 0 < log.shape[0] < counts[LOGGED] + ROOM:
            return k, tests, True
        t = times[min(k, times.size - 1)]
        asks, rings, reply, idle = False, False, NOTHING, NOBODY
        if counts[SIZE] > 0 and when[0] <= min(t, stop):
            t = when[0]
            slot = pop(when, what, counts)
            kind, e, seq = what[slot, KIND], what[slot, EDGE], what[slot, SEQ]
            if kind == DEATH:
                die(nodes, alive, node, edge, work, transfer, ledger, e, t)
            elif kind == JOIN:
                join(
                    nodes, alive, node, waits, edge, first, upto, work, ledger, log, counts, e, t,
                    rng.random(), links.wait,
                )  # fmt: skip
            elif kind == WAKE:
                asks = may_ask(alive, node, waits, e, t)
                if asks:
                    e = drawn(first, upto, e, rng.random())
            elif kind in (GIVE_UP, UNLOCK, RESEND):
                reply, idle = pass_time(node, waits, edge, work, links.wait, rng, kind, e, seq, t)
            elif what[slot, EPOCH] == epochs(node, edge, e):
                reply, idle = arrive(
                    nodes, node, waits, edge, work, transfer, body, counts, sums, log, links.wait,
                    rng, slot, kind, e, seq, t,
                )  # fmt: skip
        elif k < times.size and t <= stop:
            e = marks[k]
            k += 1
            rings = e < edge.shape[0]
            if rings:
                i = edge[e, SOURCE]
                if alive[i]:
                    node[i, RINGS] = with_one_more(node[i, RINGS])
                asks = may_ask(alive, node, waits, i, t)
            else:
                take_step(nodes, alive, work, counts, rng, e - edge.shape[0], t)
        else:
            break
        sums[NOW] = t
        if asks:
            reply, idle = ask(alive, node, waits, edge, work, rng, e, t)
            seq = node[edge[e, SOURCE], OWN_SEQ]
        if idle != NOBODY:
            freed(node, waits, when, what, counts, idle, t)
        if reply != NOTHING:
            send(
                nodes, node, waits, edge, work, transfer, when, what, body, counts, links, rng, t,
                reply, e, seq,
            )  # fmt: skip
        if rings and k % period == 0:
            error = error_at(nodes, alive, edge, work, transfer, t)
            rows[tests, 0], rows[tests, 1], rows[tests, 2] = t, counts[EXCHANGES], error
            tests += 1
            if not bounds[0] < error < bounds[1]:  # NaN too
                break
    return k, tests, False
