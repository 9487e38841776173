"""Compiled: the loop over rings, messages, timers and changes, in the order of their times."""

from __future__ import annotations

from typing import Any

from continuized.jit import jit
from continuized.network.engine_changes import die, error_at, join
from continuized.network.engine_heap import EDGE, EPOCH, KIND, SEQ, SIZE, pop, push
from continuized.network.engine_node import TIME, inlined
from continuized.network.engine_protocol import (
    ACK,
    ANSWER,
    ASKING,
    DEATH,
    EXCHANGES,
    GIVE_UP,
    HEAD,
    JOIN,
    LOG_ANSWER,
    LOG_APPLY,
    LOG_PAY,
    LOGGED,
    NOTHING,
    NOW,
    OWN_SEQ,
    PAID,
    REFUSAL,
    REQUEST,
    ROOM,
    SINCE,
    TAIL,
    TRANSFER,
    UNLOCK,
    Links,
    aged,
    answered,
    asked,
    brought,
    epochs,
    release,
    rung,
    send,
    unlock,
    waited,
    write,
)  # fmt: skip
from continuized.network.rules import Constants
from continuized.problems.base import Array


@jit
def plan(when: Array, what: Array, counts: Array, t: float, node: int, joins: bool) -> None:
    """A death or a join to come."""
    push(when, what, counts, t, JOIN if joins else DEATH, node, 0, 0)


@inlined
def settle(
    alive: Array, node: Array, edge: Array, work: Array, transfer: Array, body: Array,
    counts: Array, sums: Array, log: Array, slot: int, kind: int, e: int, seq: int, t: float,
    theta: float, gamma: float, gamma_prime: float,
) -> int:  # fmt: skip
    """A message arrives; returns the kind of the reply."""
    i, j = edge[e, HEAD], edge[e, TAIL]
    reply = NOTHING
    if kind == REQUEST:
        reply = asked(alive, node, edge, work, transfer, e, seq, t, theta)
        if reply == ANSWER:
            write(log, counts, LOG_ANSWER, j, i, seq, work[j, TIME])
    elif kind == ANSWER:
        reply = answered(
            node, edge, work, transfer, body, slot, e, seq, t, theta, gamma, gamma_prime
        )
        if reply == TRANSFER:
            write(log, counts, LOG_PAY, i, j, seq, work[i, TIME])
    elif kind == TRANSFER:
        reply = ACK
        if brought(node, edge, work, body, slot, e, seq, t, theta, gamma, gamma_prime):
            counts[EXCHANGES] += 1
            write(log, counts, LOG_APPLY, j, i, seq, work[j, TIME])
            if unlock(node, j, e, seq):
                aged(sums, work[j, TIME] - transfer[j, SINCE])
    else:
        release(node, i, ASKING if kind == REFUSAL else PAID, seq)
    return reply


@jit
def run_messages(
    alive: Array, node: Array, edge: Array, work: Array, transfer: Array, when: Array, what: Array,
    body: Array, counts: Array, sums: Array, ledger: Array, rates: Array, log: Array, links: Links,
    rng: Any, constants: Constants, times: Array, marks: Array, begin: int, stop: float, most: int,
    period: int, bounds: Array, rows: Array,
) -> tuple[int, int, bool]:  # fmt: skip
    """All that happens up to the time `stop`, or to the end of the block of rings.

    Tests as in `engine_atomic.run_edges`, by rings.  Returns how many of the block's rings are
    done, how many tests were made, and whether it ended for want of room.
    """
    theta, gamma, gamma_prime = constants
    tests, k = 0, begin
    while counts[EXCHANGES] < most:
        if when.size - counts[SIZE] < ROOM or 0 < log.shape[0] < counts[LOGGED] + ROOM:
            return k, tests, True
        t = times[min(k, times.size - 1)]
        rings = False
        if counts[SIZE] > 0 and when[0] <= min(t, stop):
            t = when[0]
            slot = pop(when, what, counts)
            kind, e, seq = what[slot, KIND], what[slot, EDGE], what[slot, SEQ]
            reply = NOTHING
            if kind == DEATH:
                die(alive, node, edge, work, transfer, ledger, e, t, constants)
            elif kind == JOIN:
                join(alive, node, edge, rates, work, ledger, log, counts, e, t, rng.random(), theta)
            elif kind == GIVE_UP:
                reply = waited(node, edge, e, seq)
            elif kind == UNLOCK:
                unlock(node, edge[e, TAIL], e, seq)
            elif what[slot, EPOCH] == epochs(node, edge, e):
                reply = settle(
                    alive, node, edge, work, transfer, body, counts, sums, log, slot, kind, e, seq,
                    t, theta, gamma, gamma_prime,
                )  # fmt: skip
        elif k < times.size and t <= stop:
            e, rings = marks[k], True
            reply = rung(alive, node, edge, e)
            seq = node[edge[e, HEAD], OWN_SEQ]
            k += 1
        else:
            break
        sums[NOW] = t
        if reply != NOTHING:
            send(node, edge, work, transfer, when, what, body, counts, links, rng, t, reply, e, seq)
        if rings and k % period == 0:
            error = error_at(alive, node, work, transfer, constants, t)
            rows[tests, 0], rows[tests, 1], rows[tests, 2] = t, counts[EXCHANGES], error
            tests += 1
            if not bounds[0] < error < bounds[1]:  # NaN too
                break
    return k, tests, False
