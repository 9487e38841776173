"""Compiled: the transfer protocol, message by message.

    the clock of i rings, i is free     ->  REQUEST to j
    j is free: it locks and mixes       ->  ANSWER with x_j         (otherwise REFUSAL)
    i mixes, fixes d = x_i - x_j, pays  ->  TRANSFER of d, again and again until acknowledged
    j mixes and is paid, once, unlocks  ->  ACK, upon which i is free

An exchange is named by its directed edge, from the initiator i to j, and by i's count of
exchanges, `seq`.  A message from or to a node that died since it was sent is lost with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from continuized.jit import jit
from continuized.network.engine_heap import SIZE, pop, push
from continuized.network.engine_node import centre, mix_to, pay, squared_error
from continuized.network.outcome import ANSWER as LOG_ANSWER
from continuized.network.outcome import APPLY as LOG_APPLY
from continuized.network.outcome import JOIN as LOG_JOIN
from continuized.network.outcome import PAY as LOG_PAY
from continuized.problems.base import Array
from continuized.network.rules import Constants

# What may come out of the heap.
REQUEST, REFUSAL, ANSWER, TRANSFER, ACK, GIVE_UP, UNLOCK, DEATH, JOIN = range(9)
# What a node may be doing: nothing; waiting for an answer, for an ack, for a transfer.
FREE, ASKING, PAID, HELD = range(4)

EXCHANGES, LOGGED = 0, 1  # the entries of `counts`
DIED, JOINED = 0, 1  # the rows of `ledger`
TOTAL_AGE, LARGEST_AGE, AGES = 0, 1, 2  # the entries of `ages`
ROOM = 8  # entries of the heap and of the log that one event may take


class Net(NamedTuple):
    """All that changes as a network runs, and what it is made of (the first four).

    By node: work (see `engine_node`), alive, epoch (the number of its deaths), phase, over (the
    directed edge of its exchange), seq (of its own exchanges), held (the seq of the one it is
    locked for), since (its own time when it locked), out (the d it paid), settled (whether that
    was applied, or lost by a death), pair (the epochs of both ends when it paid).  By directed
    edge: last, the seq of the last transfer applied.  now: the time of what happened last.
    """

    head: Array
    tail: Array
    rates: Array
    speeds: Array
    work: Array
    alive: Array
    epoch: Array
    phase: Array
    over: Array
    seq: Array
    held: Array
    since: Array
    out: Array
    settled: Array
    pair: Array
    last: Array
    now: Array
    counts: Array
    ledger: Array
    ages: Array
    log: Array  # (rows, 4): kind, node, peer, seq; empty where none is wanted
    log_time: Array


class Links(NamedTuple):
    """The faults of the links: see `Faults`."""

    delay: float
    constant: bool
    loss: float
    duplication: float
    wait: float


@jit
def write(net: Any, kind: int, node: int, peer: int, seq: int) -> None:
    """A line of the log, at the node's own time."""
    row = net.counts[LOGGED]
    if row < net.log.shape[0]:
        net.log[row, 0], net.log[row, 1], net.log[row, 2], net.log[row, 3] = kind, node, peer, seq
        net.log_time[row] = net.work[node, 0]
        net.counts[LOGGED] += 1


@jit
def epochs(net: Any, edge: int) -> int:
    """A number that changes when one of the two ends dies."""
    return int(net.epoch[net.head[edge]] + net.epoch[net.tail[edge]])


@jit
def send(
    net: Any, heap: Any, links: Any, rng: Any, t: float, kind: int, edge: int, seq: int, body: Any
) -> None:
    """Put a message on its way: never, once or twice."""
    if links.loss > 0.0 and rng.random() < links.loss:
        return
    copies = 2 if links.duplication > 0.0 and rng.random() < links.duplication else 1
    for _ in range(copies):
        late = 0.0
        if links.delay > 0.0:
            late = links.delay if links.constant else links.delay * rng.standard_exponential()
        slot = push(heap, t + late, kind, edge, seq, epochs(net, edge))
        for c in range(body.size):
            heap.payload[slot, c] = body[c]


@jit
def set_timer(
    net: Any, heap: Any, links: Any, t: float, kind: int, edge: int, seq: int, node: int
) -> None:
    """Ring when the node's own clock has moved on by the timeout."""
    push(heap, t + links.wait / net.speeds[node], kind, edge, seq, epochs(net, edge))


@jit
def ring(net: Any, heap: Any, links: Any, rng: Any, t: float, edge: int) -> None:
    """The clock of the edge's head rings: it asks, if it is in no exchange."""
    i = net.head[edge]
    if not net.alive[i] or net.phase[i] != FREE:
        return
    net.seq[i] += 1
    net.phase[i], net.over[i] = ASKING, edge
    send(net, heap, links, rng, t, REQUEST, edge, net.seq[i], net.out[i, :0])
    set_timer(net, heap, links, t, GIVE_UP, edge, net.seq[i], i)


@jit
def asked(
    net: Any, heap: Any, links: Any, rng: Any, t: float, edge: int, seq: int, theta: float
) -> None:
    """A REQUEST: lock, mix and answer; refuse where in an exchange, or dead."""
    i, j = net.head[edge], net.tail[edge]
    if net.phase[j] == HELD and net.over[j] == edge and net.held[j] == seq:
        return  # a second copy; the answer is on its way
    if not net.alive[j] or net.phase[j] != FREE:
        send(net, heap, links, rng, t, REFUSAL, edge, seq, net.out[j, :0])
        return
    if net.last[edge] >= seq:
        return  # a copy that comes after the exchange
    mix_to(net.work, j, net.speeds[j] * t, theta)
    net.phase[j], net.over[j], net.held[j], net.since[j] = HELD, edge, seq, net.work[j, 0]
    write(net, LOG_ANSWER, j, i, seq)
    x = net.work[j, 1 : 1 + net.out.shape[1]]
    send(net, heap, links, rng, t, ANSWER, edge, seq, x)
    set_timer(net, heap, links, t, UNLOCK, edge, seq, j)


@jit
def answered(
    net: Any, heap: Any, links: Any, rng: Any, t: float, slot: int, constants: Constants
) -> None:
    """An ANSWER: fix d, pay, and send the transfer."""
    theta, gamma, gamma_prime = constants
    edge, seq = heap.edge[slot], heap.seq[slot]
    i = net.head[edge]
    if net.phase[i] != ASKING or net.seq[i] != seq:
        return
    mix_to(net.work, i, net.speeds[i] * t, theta)
    for c in range(net.out.shape[1]):
        net.out[i, c] = net.work[i, c + 1] - heap.payload[slot, c]
        pay(net.work, i, c, net.out[i, c], gamma, gamma_prime)
    net.phase[i], net.settled[i], net.pair[i] = PAID, False, epochs(net, edge)
    write(net, LOG_PAY, i, net.tail[edge], seq)
    send(net, heap, links, rng, t, TRANSFER, edge, seq, net.out[i])
    set_timer(net, heap, links, t, GIVE_UP, edge, seq, i)


@jit
def brought(
    net: Any, heap: Any, links: Any, rng: Any, t: float, slot: int, constants: Constants
) -> None:
    """A TRANSFER: apply it unless it was, acknowledge, unlock."""
    theta, gamma, gamma_prime = constants
    edge, seq = heap.edge[slot], heap.seq[slot]
    i, j = net.head[edge], net.tail[edge]
    if net.last[edge] < seq:
        net.last[edge] = seq
        mix_to(net.work, j, net.speeds[j] * t, theta)
        for c in range(net.out.shape[1]):
            pay(net.work, j, c, -heap.payload[slot, c], gamma, gamma_prime)
        net.settled[i] = True  # i has one transfer at a time, and this is it
        net.counts[EXCHANGES] += 1
        write(net, LOG_APPLY, j, i, seq)
        if net.phase[j] == HELD and net.over[j] == edge and net.held[j] == seq:
            age = net.work[j, 0] - net.since[j]
            net.ages[TOTAL_AGE] += age
            net.ages[LARGEST_AGE] = max(net.ages[LARGEST_AGE], age)
            net.ages[AGES] += 1.0
            net.phase[j] = FREE
    send(net, heap, links, rng, t, ACK, edge, seq, net.out[j, :0])


@jit
def waited(net: Any, heap: Any, links: Any, rng: Any, t: float, edge: int, seq: int) -> None:
    """The initiator's timer: without an answer it gives up; without an ack it sends again, unless
    the other end has died."""
    i = net.head[edge]
    if net.seq[i] != seq:
        return
    if net.phase[i] == ASKING or (net.phase[i] == PAID and net.pair[i] != epochs(net, edge)):
        net.phase[i] = FREE
    elif net.phase[i] == PAID:
        send(net, heap, links, rng, t, TRANSFER, edge, seq, net.out[i])
        set_timer(net, heap, links, t, GIVE_UP, edge, seq, i)


@jit
def lose(net: Any, i: int, constants: Constants) -> None:
    """Enter what i paid, and nobody will get, among what died."""
    if net.phase[i] == PAID and not net.settled[i]:
        net.settled[i] = True
        for c in range(net.out.shape[1]):
            net.ledger[DIED, c] += (constants[1] + constants[2]) * net.out[i, c]


@jit
def die(net: Any, node: int, t: float, constants: Constants) -> None:
    """The node falls silent; what it has, has paid and is owed goes with it."""
    mix_to(net.work, node, net.speeds[node] * t, constants[0])
    d = net.out.shape[1]
    for c in range(d):
        net.ledger[DIED, c] += net.work[node, 1 + c] + net.work[node, 1 + c + d]
    lose(net, node, constants)
    for i in range(net.alive.size):
        if net.alive[i] and net.tail[net.over[i]] == node:
            lose(net, i, constants)
    net.alive[node], net.phase[node] = False, FREE
    net.epoch[node] += 1


@jit
def neighbour(net: Any, node: int, u: float) -> int:
    """A living neighbour, drawn by the rates with u uniform in [0, 1); -1 where there is none."""
    total = 0.0
    for edge in range(net.head.size):
        if net.head[edge] == node and net.alive[net.tail[edge]]:
            total += net.rates[edge]
    chosen = -1
    left = u * total
    for edge in range(net.head.size):
        if net.head[edge] == node and net.alive[net.tail[edge]] and left >= 0.0:
            chosen = net.tail[edge]
            left -= net.rates[edge]
    return int(chosen)


@jit
def join(net: Any, node: int, t: float, rng: Any, theta: float) -> None:
    """The node comes with a neighbour's x and z = x; without a neighbour, with what it has."""
    d = net.out.shape[1]
    other = neighbour(net, node, rng.random())
    net.seq[node] += 1
    net.alive[node], net.phase[node] = True, FREE
    net.work[node, 0] = net.speeds[node] * t
    if other >= 0:
        mix_to(net.work, other, net.speeds[other] * t, theta)
        write(net, LOG_ANSWER, other, node, net.seq[node])
        for c in range(1, d + 1):
            net.work[node, c] = net.work[other, c]
    for c in range(1, d + 1):
        net.work[node, c + d] = net.work[node, c]
        net.ledger[JOINED, c - 1] += net.work[node, c] + net.work[node, c + d]
    write(net, LOG_JOIN, node, other, net.seq[node])


@jit
def happen(net: Any, heap: Any, links: Any, rng: Any, constants: Constants) -> None:
    """The next entry of the heap."""
    t = net.now[0] = heap.time[0]
    slot = pop(heap)
    kind, edge, seq = heap.kind[slot], heap.edge[slot], heap.seq[slot]
    if kind == DEATH:
        die(net, edge, t, constants)
    elif kind == JOIN:
        join(net, edge, t, rng, constants[0])
    elif kind == GIVE_UP:
        waited(net, heap, links, rng, t, edge, seq)
    elif kind == UNLOCK:
        j = net.tail[edge]
        if net.phase[j] == HELD and net.over[j] == edge and net.held[j] == seq:
            net.phase[j] = FREE
    elif heap.epoch[slot] != epochs(net, edge):
        return
    elif kind == REQUEST:
        asked(net, heap, links, rng, t, edge, seq, constants[0])
    elif kind == ANSWER:
        answered(net, heap, links, rng, t, slot, constants)
    elif kind == TRANSFER:
        brought(net, heap, links, rng, t, slot, constants)
    else:  # REFUSAL or ACK
        i = net.head[edge]
        expected = ASKING if kind == REFUSAL else PAID
        if net.phase[i] == expected and net.seq[i] == seq:
            net.phase[i] = FREE


@jit
def on_the_way(net: Any, constants: Constants, into: Array) -> None:
    """What was paid and not applied yet."""
    into[:] = 0.0
    for i in range(net.alive.size):
        if net.alive[i] and net.phase[i] == PAID and not net.settled[i]:
            for c in range(into.size):
                into[c] += (constants[1] + constants[2]) * net.out[i, c]


@jit
def error_at(net: Any, constants: Constants, t: float, middle: Array) -> float:
    """The squared error at time t; the centre is left in `middle`."""
    on_the_way(net, constants, middle)
    centre(net.work, net.alive, middle.copy(), middle)
    return float(squared_error(net.work, net.alive, net.speeds, t, constants[0], middle))


@jit
def run_messages(
    net: Any, heap: Any, links: Any, rng: Any, constants: Constants, times: Array, marks: Array,
    begin: int, stop: float, most: int, period: int, bounds: Array, rows: Array, middle: Array,
) -> tuple[int, int, bool]:  # fmt: skip
    """All that happens up to the time `stop`, or to the end of the block of rings.

    Tests as in `engine_atomic.run_edges`, by rings.  Returns how many of the block's rings are
    done, how many tests were made, and whether it ended for want of room.
    """
    tests, k = 0, begin
    while net.counts[EXCHANGES] < most:
        if heap.time.size - heap.counts[SIZE] < ROOM or 0 < net.log.shape[0] < (
            net.counts[LOGGED] + ROOM
        ):
            return k, tests, True
        t = times[min(k, times.size - 1)]
        if heap.counts[SIZE] > 0 and heap.time[0] <= min(t, stop):
            happen(net, heap, links, rng, constants)
        elif k < times.size and t <= stop:
            net.now[0] = t
            ring(net, heap, links, rng, t, marks[k])
            k += 1
            if k % period == 0:
                error = error_at(net, constants, t, middle)
                rows[tests, 0], rows[tests, 1], rows[tests, 2] = t, net.counts[EXCHANGES], error
                tests += 1
                if not bounds[0] < error < bounds[1]:
                    break
        else:
            break
    return k, tests, False
