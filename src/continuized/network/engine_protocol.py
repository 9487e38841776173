"""Compiled: the transfer protocol, message by message.

    the clock of i rings, i is free     ->  REQUEST to j
    j is free: it locks and mixes       ->  ANSWER with x_j         (otherwise REFUSAL)
    i mixes, fixes d = x_i - x_j, pays  ->  TRANSFER of d, again and again until acknowledged
    j mixes and is paid, once, unlocks  ->  ACK, upon which i is free

An exchange is named by its directed edge, from the initiator i to j, and by i's count of
exchanges, `seq`.  What a node does when something comes changes its state and returns the kind of
message that it sends, or NOTHING.  A message from or to a node that died since it was sent is
lost with it.

The arrays: `work` is that of `engine_node`; `node`, `edge` have the columns below; `transfer` has
a row for each node, the own time when it locked and the d that it paid; `when`, `what`, `body` and
`counts` are those of `engine_heap`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from continuized.network import outcome
from continuized.network.engine_heap import push
from continuized.network.engine_node import (
    SPEED,
    TIME,
    X,
    inlined,
    mix_to,
    pay,
)
from continuized.problems.base import Array

# What may come out of the heap: messages, timers, and changes of the network.
REQUEST, REFUSAL, ANSWER, TRANSFER, ACK, GIVE_UP, UNLOCK, DEATH, JOIN = range(9)
NOTHING = -1
# What a node may be doing: nothing; waiting for an answer, for an ack, for a transfer.
FREE, ASKING, PAID, HELD = range(4)
# The columns of `node`: over is the directed edge of its exchange, own_seq counts those it began,
# held_seq is that of the one it is locked for; settled tells whether what it paid was applied (or
# lost by a death), pair is the epochs of both ends then, epoch counts its deaths.
PHASE, OVER, OWN_SEQ, HELD_SEQ, SETTLED, PAIR, NODE_EPOCH = range(7)
HEAD, TAIL, LAST = range(3)  # the columns of `edge`; last is the seq of the last transfer applied
SINCE, D = 0, 1  # the columns of `transfer`
EXCHANGES, LOGGED = 2, 3  # the entries of `counts` after those of the heap
NOW, TOTAL_AGE, LARGEST_AGE, AGES = range(4)  # the entries of `sums`
ROOM = 8  # entries of the heap and of the log that one event may take

LOG_ANSWER, LOG_PAY, LOG_APPLY, LOG_JOIN = (
    outcome.ANSWER, outcome.PAY, outcome.APPLY, outcome.JOIN,
)  # fmt: skip


class Links(NamedTuple):
    """The faults of the links: see `Faults`."""

    delay: float
    constant: bool
    loss: float
    duplication: float
    wait: float


@inlined
def write(
    log: Array, counts: Array, kind: int, node: int, peer: int, seq: int, time: float
) -> None:
    """A line of the log, where one is kept."""
    row = counts[LOGGED]
    if row < log.shape[0]:
        log[row, 0], log[row, 1], log[row, 2], log[row, 3], log[row, 4] = (
            kind,
            node,
            peer,
            seq,
            time,
        )
        counts[LOGGED] += 1


@inlined
def epochs(node: Array, edge: Array, e: int) -> int:
    """A number that changes when one of the two ends dies."""
    return int(node[edge[e, HEAD], NODE_EPOCH] + node[edge[e, TAIL], NODE_EPOCH])


@inlined
def rung(alive: Array, node: Array, edge: Array, e: int) -> int:
    """The clock of the edge's head rings: it asks, if it is in no exchange."""
    i = edge[e, HEAD]
    if not alive[i] or node[i, PHASE] != FREE:
        return NOTHING
    node[i, OWN_SEQ] += 1
    node[i, PHASE], node[i, OVER] = ASKING, e
    return REQUEST


@inlined
def asked(
    alive: Array, node: Array, edge: Array, work: Array, transfer: Array, e: int, seq: int,
    t: float, theta: float,
) -> int:  # fmt: skip
    """A REQUEST: lock, mix and answer; refuse where in an exchange, or dead."""
    j = edge[e, TAIL]
    if edge[e, LAST] >= seq or (
        node[j, PHASE] == HELD and node[j, OVER] == e and node[j, HELD_SEQ] == seq
    ):
        return NOTHING  # a second copy: the exchange is over, or the answer on its way
    if not alive[j] or node[j, PHASE] != FREE:
        return REFUSAL
    mix_to(work, j, work[j, SPEED] * t, theta)
    node[j, PHASE], node[j, OVER], node[j, HELD_SEQ] = HELD, e, seq
    transfer[j, SINCE] = work[j, TIME]
    return ANSWER


@inlined
def answered(
    node: Array, edge: Array, work: Array, transfer: Array, sent: Array, slot: int, e: int,
    seq: int, t: float, theta: float, gamma: float, gamma_prime: float,
) -> int:  # fmt: skip
    """An ANSWER: fix d and pay."""
    i = edge[e, HEAD]
    if node[i, PHASE] != ASKING or node[i, OWN_SEQ] != seq:
        return NOTHING  # i had given up
    mix_to(work, i, work[i, SPEED] * t, theta)
    for c in range(sent.shape[1]):
        transfer[i, D + c] = work[i, X + c] - sent[slot, c]
        pay(work, i, c, transfer[i, D + c], gamma, gamma_prime)
    node[i, PHASE], node[i, SETTLED] = PAID, 0
    node[i, PAIR] = epochs(node, edge, e)
    return TRANSFER


@inlined
def brought(
    node: Array, edge: Array, work: Array, brings: Array, slot: int, e: int, seq: int, t: float,
    theta: float, gamma: float, gamma_prime: float,
) -> bool:  # fmt: skip
    """A TRANSFER: apply it unless it was; returns whether it was not."""
    i, j = edge[e, HEAD], edge[e, TAIL]
    fresh = edge[e, LAST] < seq
    if fresh:
        edge[e, LAST] = seq
        mix_to(work, j, work[j, SPEED] * t, theta)
        for c in range(brings.shape[1]):
            pay(work, j, c, -brings[slot, c], gamma, gamma_prime)
        node[i, SETTLED] = 1  # i has one transfer at a time, and this is it
    return bool(fresh)


@inlined
def unlock(node: Array, j: int, e: int, seq: int) -> bool:
    """Free a node that waits for the transfer of this exchange; returns whether it did."""
    waits = node[j, PHASE] == HELD and node[j, OVER] == e and node[j, HELD_SEQ] == seq
    if waits:
        node[j, PHASE] = FREE
    return bool(waits)


@inlined
def release(node: Array, i: int, phase: int, seq: int) -> None:
    """Free an initiator that is in this phase of this exchange."""
    if node[i, PHASE] == phase and node[i, OWN_SEQ] == seq:
        node[i, PHASE] = FREE


@inlined
def waited(node: Array, edge: Array, e: int, seq: int) -> int:
    """The initiator's timer: without an answer it gives up; without an ack it sends again, unless
    the other end has died."""
    i = edge[e, HEAD]
    if node[i, OWN_SEQ] == seq and node[i, PHASE] == PAID:
        if node[i, PAIR] == epochs(node, edge, e):
            return TRANSFER
        node[i, PHASE] = FREE
    release(node, i, ASKING, seq)
    return NOTHING


@inlined
def aged(sums: Array, age: float) -> None:
    """Count the age of an answer."""
    sums[TOTAL_AGE] += age
    sums[LARGEST_AGE] = max(sums[LARGEST_AGE], age)
    sums[AGES] += 1.0


@inlined
def send(
    node: Array, edge: Array, work: Array, transfer: Array, when: Array, what: Array, body: Array,
    counts: Array, links: Links, rng: Any, t: float, kind: int, e: int, seq: int,
) -> None:  # fmt: skip
    """Put a message on its way, never, once or twice, and set the timer of its sender."""
    pair = epochs(node, edge, e)
    copies = 1
    if links.loss > 0.0 and rng.random() < links.loss:
        copies = 0
    elif links.duplication > 0.0 and rng.random() < links.duplication:
        copies = 2
    timed = kind in (REQUEST, ANSWER, TRANSFER)
    for n in range(copies + 1 if timed else copies):
        if n < copies:
            comes, late = kind, 0.0
            if links.delay > 0.0:
                late = links.delay * (1.0 if links.constant else rng.standard_exponential())
        else:
            comes = UNLOCK if kind == ANSWER else GIVE_UP
            late = links.wait / work[edge[e, TAIL if kind == ANSWER else HEAD], SPEED]
        slot = push(when, what, counts, t + late, comes, e, seq, pair)
        for c in range(body.shape[1]):
            if kind == ANSWER:
                body[slot, c] = work[edge[e, TAIL], X + c]
            else:
                body[slot, c] = transfer[edge[e, HEAD], D + c]
