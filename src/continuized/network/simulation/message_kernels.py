"""Compiled: the loop over rings, messages, timers and changes, in the order of their times."""

from __future__ import annotations

from typing import Any

from continuized.network.protocol.timeouts import UNKNOWN, back_off, with_one_more
from continuized.network.protocol.transitions import (
    ACK,
    ANSWER,
    ASKED,
    ASKING,
    DEATH,
    DEVIATION,
    EXCHANGES,
    FREE,
    GIVE_UP,
    JOIN,
    LOG_ANSWER,
    LOG_APPLY,
    LOG_JOIN,
    LOG_PAY,
    LOGGED,
    MEAN,
    NOBODY,
    NODE_EPOCH,
    NOT_BEFORE,
    NOTHING,
    NOW,
    OVER,
    OWED,
    OWN_SEQ,
    PHASE,
    REFUSAL,
    REQUEST,
    RESEND,
    RINGS,
    ROOM,
    SETTLED,
    SINCE,
    SOURCE,
    STEPS,
    TARGET,
    TRANSFER,
    UNLOCK,
    WAIT,
    WAKE,
    D,
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
)
from continuized.network.simulation.heap import EDGE, EPOCH, KIND, SEQ, SIZE, pop, push
from continuized.network.simulation.node_models.interface import (
    SPEED,
    TIME,
    disagreement,
    flow_to,
    inlined,
    share,
    size,
    start_from,
    step,
    worth,
)
from continuized.problems.base import Array
from continuized.support.jit import jit


@inlined
def drawn(first: Array, upto: Array, i: int, u: float) -> int:
    """An edge of node i by the rates, with u uniform in [0, 1)."""
    low, high = first[i], first[i + 1] - 1
    before = upto[low - 1] if low > 0 else 0.0
    sought = before + u * (upto[high] - before)
    while low < high:
        middle = (low + high) // 2
        if upto[middle] > sought:
            high = middle
        else:
            low = middle + 1
    return int(low)


@inlined
def freed(
    node: Array, waits: Array, when: Array, what: Array, counts: Array, i: int, t: float
) -> None:
    """The node is in no exchange: it is to ask, if there are rings to be made up for."""
    if node[i, RINGS] > 0:
        push(when, what, counts, max(t, waits[i, NOT_BEFORE]), WAKE, i, 0, node[i, NODE_EPOCH])


@inlined
def later(node: Array, waits: Array, work: Array, rng: Any, i: int, t: float) -> None:
    """Make up for a ring that came to nothing, after a while."""
    node[i, RINGS] = with_one_more(node[i, RINGS])
    pause = back_off(waits[i, WAIT], rng.standard_exponential())
    waits[i, NOT_BEFORE] = t + pause / work[i, SPEED]


@inlined
def may_ask(alive: Array, node: Array, waits: Array, i: int, t: float) -> bool:
    """Whether the node asks now."""
    free = alive[i] and node[i, PHASE] == FREE
    return bool(free and node[i, RINGS] > 0 and t >= waits[i, NOT_BEFORE])


@inlined
def ask(
    alive: Array, node: Array, waits: Array, edge: Array, work: Array, rng: Any, e: int, t: float
) -> tuple[int, int]:
    """The edge's source asks its target: not one that is dead, and later one that it owes.

    Returns what it sends, and who is in no exchange now.
    """
    i = edge[e, SOURCE]
    node[i, RINGS] -= 1
    reply, idle = NOTHING, i
    if alive[edge[e, TARGET]] and edge[e, OWED] == 0:
        node[i, OWN_SEQ] += 1
        node[i, PHASE], node[i, OVER], waits[i, ASKED] = ASKING, e, work[i, SPEED] * t
        reply, idle = REQUEST, NOBODY
    elif alive[edge[e, TARGET]]:
        later(node, waits, work, rng, i, t)
    return reply, idle


DIED, JOINED = 0, 1  # the rows of `ledger`
LEDGER_ROWS = 2


@jit
def die(
    nodes: Any, alive: Array, node: Array, edge: Array, work: Array, transfer: Array, ledger: Array,
    dead: int, t: float,
) -> None:  # fmt: skip
    """The node falls silent; what it has, has paid and is owed goes with it.

    A neighbour that waits for it will find out when its patience ends.
    """
    flow_to(nodes, work, dead, work[dead, SPEED] * t)
    d = ledger.shape[1]
    for c in range(d):
        ledger[DIED, c] += share(nodes, work, dead, c)
    for e in range(edge.shape[0]):
        if edge[e, SOURCE] == dead or edge[e, TARGET] == dead:
            if edge[e, OWED] != 0 and edge[e, SETTLED] == 0:
                for c in range(d):
                    ledger[DIED, c] += worth(nodes) * transfer[e, D + c]
            edge[e, OWED] = 0
    alive[dead], node[dead, PHASE], node[dead, RINGS] = False, FREE, 0
    node[dead, NODE_EPOCH] += 1


@jit
def neighbour(alive: Array, edge: Array, first: Array, upto: Array, of: int, u: float) -> int:
    """A living neighbour, drawn by the rates with u uniform in [0, 1); -1 where there is none."""
    total = 0.0
    for e in range(first[of], first[of + 1]):
        if alive[edge[e, TARGET]]:
            total += upto[e] - (upto[e - 1] if e > 0 else 0.0)
    chosen, left = -1, u * total
    for e in range(first[of], first[of + 1]):
        if alive[edge[e, TARGET]] and left >= 0.0:
            chosen = edge[e, TARGET]
            left -= upto[e] - (upto[e - 1] if e > 0 else 0.0)
    return int(chosen)


@jit
def join(
    nodes: Any, alive: Array, node: Array, waits: Array, edge: Array, first: Array, upto: Array,
    work: Array, ledger: Array, log: Array, counts: Array, new: int, t: float, u: float,
    most: float,
) -> None:  # fmt: skip
    """The node comes, from what a neighbour has if there is one."""
    d, other = ledger.shape[1], neighbour(alive, edge, first, upto, new, u)
    node[new, OWN_SEQ] += 1
    alive[new], node[new, PHASE], node[new, RINGS] = True, FREE, 0
    waits[new, MEAN], waits[new, DEVIATION], waits[new, WAIT] = UNKNOWN, 0.0, most
    waits[new, NOT_BEFORE] = t
    work[new, TIME] = work[new, SPEED] * t
    if other >= 0:
        flow_to(nodes, work, other, work[other, SPEED] * t)
        write(log, counts, LOG_ANSWER, other, new, node[new, OWN_SEQ], work[other, TIME])
    start_from(nodes, work, new, other)
    for c in range(d):
        ledger[JOINED, c] += share(nodes, work, new, c)
    write(log, counts, LOG_JOIN, new, other, node[new, OWN_SEQ], work[new, TIME])


@jit
def shares(nodes: Any, work: Array, out: Array) -> None:
    """What every node has, into `out` (nodes, dim)."""
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] = share(nodes, work, i, c)


@jit
def sizes(nodes: Any, work: Array, out: Array) -> None:
    """How large the numbers are that the shares are made of, into `out` (nodes, dim)."""
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] = size(nodes, work, i, c)


@jit
def on_the_way(nodes: Any, edge: Array, transfer: Array) -> Array:
    """What was paid and not applied yet."""
    total = transfer[0, D:] * 0.0
    for e in range(edge.shape[0]):
        if edge[e, OWED] != 0 and edge[e, SETTLED] == 0:
            for c in range(total.size):
                total[c] += worth(nodes) * transfer[e, D + c]
    return total


@jit
def error_at(
    nodes: Any, alive: Array, edge: Array, work: Array, transfer: Array, t: float
) -> float:
    """The squared error at time t."""
    return float(disagreement(nodes, work, alive, t, on_the_way(nodes, edge, transfer)))


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
