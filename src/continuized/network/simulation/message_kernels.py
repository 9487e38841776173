"""Compiled: the loop over ticks, messages, timers and changes, in the order of their times.

What a node does when one of them comes is in `protocol.transitions`, and what it computes in
`node_models.interface`; here is what is between nodes.  A message from or to a node that died since
it was sent is lost with it.
"""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

from continuized.network.faults import Links, draw_copies, draw_delay
from continuized.network.logs.entries import LOG_ANSWER, LOG_APPLY, LOG_JOIN, LOG_PAY
from continuized.network.protocol import transitions
from continuized.network.protocol.timeouts import UNKNOWN
from continuized.network.protocol.transitions import (
    ANSWER,
    ANSWERED_AT,
    DEATH,
    DELIVERED,
    DEVIATION,
    FREE,
    GIVE_UP,
    JOIN,
    MEAN,
    NOBODY,
    NODE_EPOCH,
    NOT_BEFORE,
    NOTHING,
    OWED,
    OWN_SEQ,
    PHASE,
    REFUSE,
    REQUEST,
    RESEND,
    SOURCE,
    SPEED,
    TARGET,
    TIME,
    TRANSFER,
    UNLOCK,
    WAIT,
    WAKE,
    WAKEUPS,
    D,
    NodeRows,
)
from continuized.network.simulation.engine import Tests
from continuized.network.simulation.heap import EDGE, EPOCH, KIND, SEQ, SIZE, pop, push
from continuized.network.simulation.node_models.interface import (
    asks_python,
    conserved,
    conserved_per_transfer,
    disagreement,
    estimate,
    find_answer,
    flow_to,
    message,
    pay,
    start_from,
    step,
)
from continuized.problems.base import Array
from continuized.support.jit import jit_uncounted, uncounted

for function in (draw_copies, draw_delay, *vars(transitions).values()):
    if inspect.isfunction(function):
        uncounted(function)

# The entries of `counts` after those of the heap: ANSWERS were sought, of which FAILED were not
# found, and STEPS of the nodes' own were taken.
EXCHANGES, LOGGED, ANSWERS, FAILED, STEPS = range(2, 7)
COUNTS = STEPS + 1
NOW, TOTAL_AGE, LARGEST_AGE, AGES = range(4)  # the entries of `sums`
SUMS = AGES + 1
DIED, JOINED = 0, 1  # the rows of `ledger`
LEDGER_ROWS = 2
ENDED, AGAIN, CHANGE, GRADIENT = range(4)  # why `run_messages` ended
TIMERS = GIVE_UP, UNLOCK, NOTHING, RESEND, NOTHING  # that senders set, from REQUEST to ACK
ROOM = 8  # entries of the heap and of the log that one event may take


class MessageNetwork(NamedTuple):
    """Nodes, edges in the order of their sources, and what is between them.

    The heap's (see `heap`) are when, what, body and counts.
    """

    rows: NodeRows
    when: Array
    what: Array
    body: Array
    counts: Array
    sums: Array
    ledger: Array
    first: Array  # (nodes + 1,): the first edge of each source
    upto: Array  # (edges,): the rates, added up
    log: Array  # (lines, 5), or no lines where none is kept
    owed: Array  # (dim,): room for what is on its way


@uncounted
def log_entry(
    log: Array, counts: Array, kind: int, node: int, peer: int, seq: int, time: float
) -> None:
    """Write a line of the log, where one is kept."""
    row = counts[LOGGED]
    if row < log.shape[0]:
        log[row, 0], log[row, 1], log[row, 2], log[row, 3] = kind, node, peer, seq
        log[row, 4] = time
        counts[LOGGED] += 1


@uncounted
def sum_epochs(node: Array, edge: Array, e: int) -> int:
    """Return a number that changes when one of the two ends dies."""
    return int(node[edge[e, SOURCE], NODE_EPOCH] + node[edge[e, TARGET], NODE_EPOCH])


@uncounted
def draw_edge(first: Array, upto: Array, i: int, u: float) -> int:
    """Draw an edge of node i by the rates, with u uniform in [0, 1)."""
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


@uncounted
def fill_message(
    nodes: Any, work: Array, transfer: Array, body: Array, slot: int, kind: int, e: int, sender: int
) -> None:
    """Put into a message what it carries: an answer, or the transfer last paid."""
    for c in range(body.shape[1]):
        if kind == ANSWER:
            body[slot, c] = message(nodes, work, sender, c)
        else:
            body[slot, c] = transfer[e, D + c]


@uncounted
def flow_and_answer(nodes: Any, work: Array, counts: Array, i: int, t: float) -> None:
    """Bring node i to time t and find what it has to say."""
    flow_to(nodes, work, i, work[i, SPEED] * t)
    counts[ANSWERS] += 1
    if not find_answer(nodes, work, i):
        counts[FAILED] += 1


@uncounted
def pay_transfer(
    nodes: Any, work: Array, transfer: Array, body: Array, slot: int, e: int, i: int
) -> None:
    """Fix the transfer d from an answer, and let node i pay it."""
    for c in range(body.shape[1]):
        transfer[e, D + c] = message(nodes, work, i, c) - body[slot, c]
        pay(nodes, work, i, c, transfer[e, D + c])


@uncounted
def apply_transfer(nodes: Any, work: Array, body: Array, slot: int, j: int, t: float) -> None:
    """Let node j mix and be paid."""
    flow_to(nodes, work, j, work[j, SPEED] * t)
    for c in range(body.shape[1]):
        pay(nodes, work, j, c, -body[slot, c])


@uncounted
def count_age(sums: Array, age: float) -> None:
    """Count the age of an answer whose transfer was applied."""
    sums[TOTAL_AGE] += age
    sums[LARGEST_AGE] = max(sums[LARGEST_AGE], age)
    sums[AGES] += 1.0


@uncounted
def take_step(
    nodes: Any, alive: Array, work: Array, counts: Array, rng: Any, i: int, t: float
) -> None:
    """Let a node take a step of its own, if it lives."""
    if alive[i]:
        flow_to(nodes, work, i, work[i, SPEED] * t)
        step(nodes, work, i, rng)
        counts[STEPS] += 1


# Changes of the network


@uncounted
def is_in_flight(edge: Array, e: int) -> bool:
    """Tell whether the transfer of edge e was paid and is not applied yet."""
    return bool(edge[e, OWED] != 0 and edge[e, DELIVERED] == 0)


@jit_uncounted
def die(nodes: Any, net: MessageNetwork, dead: int, t: float) -> None:
    """Let the node fall silent: what it holds, what it has paid and what it is owed are lost.

    A neighbour that waits for it will find out when its timer runs out.
    """
    flow_to(nodes, net.rows.work, dead, net.rows.work[dead, SPEED] * t)
    d = net.ledger.shape[1]
    for c in range(d):
        net.ledger[DIED, c] += conserved(nodes, net.rows.work, dead, c)
    for e in range(net.rows.edge.shape[0]):
        if net.rows.edge[e, SOURCE] == dead or net.rows.edge[e, TARGET] == dead:
            if is_in_flight(net.rows.edge, e):
                for c in range(d):
                    net.ledger[DIED, c] += (
                        conserved_per_transfer(nodes) * net.rows.transfer[e, D + c]
                    )
            net.rows.edge[e, OWED] = 0
    net.rows.alive[dead], net.rows.node[dead, PHASE], net.rows.node[dead, WAKEUPS] = False, FREE, 0
    net.rows.node[dead, NODE_EPOCH] += 1


@uncounted
def are_several(alive: Array) -> bool:
    """Tell whether two nodes live, or more."""
    living = 0
    for i in range(alive.size):
        living += alive[i]
        if living > 1:
            return True
    return False


@uncounted
def draw_neighbour(net: MessageNetwork, of: int, u: float) -> int:
    """Draw a living neighbour by the rates, with u uniform in [0, 1); -1 where there is none."""
    total = 0.0
    for e in range(net.first[of], net.first[of + 1]):
        if net.rows.alive[net.rows.edge[e, TARGET]]:
            total += net.upto[e] - (net.upto[e - 1] if e > 0 else 0.0)
    chosen, left = -1, u * total
    for e in range(net.first[of], net.first[of + 1]):
        if net.rows.alive[net.rows.edge[e, TARGET]] and left >= 0.0:
            chosen = net.rows.edge[e, TARGET]
            left -= net.upto[e] - (net.upto[e - 1] if e > 0 else 0.0)
    return int(chosen)


@jit_uncounted
def join(nodes: Any, net: MessageNetwork, new: int, t: float, u: float, most: float) -> None:
    """Let the node come, from what a neighbour has if there is one."""
    d, other = net.ledger.shape[1], draw_neighbour(net, new, u)
    node, waits, work = net.rows.node, net.rows.waits, net.rows.work
    node[new, OWN_SEQ] += 1
    net.rows.alive[new], node[new, PHASE], node[new, WAKEUPS] = True, FREE, 0
    waits[new, MEAN], waits[new, DEVIATION], waits[new, WAIT] = UNKNOWN, 0.0, most
    waits[new, NOT_BEFORE] = t
    work[new, TIME] = work[new, SPEED] * t
    if other >= 0:
        flow_to(nodes, work, other, work[other, SPEED] * t)
        for c in range(d):
            net.owed[c] = estimate(nodes, work, other, c)
        log_entry(
            net.log, net.counts, LOG_ANSWER, other, new, node[new, OWN_SEQ], work[other, TIME]
        )
    start_from(nodes, work, new, net.owed, other >= 0)
    for c in range(d):
        net.ledger[JOINED, c] += conserved(nodes, work, new, c)
    log_entry(net.log, net.counts, LOG_JOIN, new, other, node[new, OWN_SEQ], work[new, TIME])


@uncounted
def add_owed(edge: Array, transfer: Array, per_transfer: float, out: Array) -> None:
    """Write what was paid and not applied yet; per_transfer: what a transfer of 1 moves."""
    for c in range(out.size):
        out[c] = 0.0
    for e in range(edge.shape[0]):
        if is_in_flight(edge, e):
            for c in range(out.size):
                out[c] += per_transfer * transfer[e, D + c]


@jit_uncounted
def sum_owed(edge: Array, transfer: Array, per_transfer: float, out: Array) -> None:
    """Do the same, for Python to call: so `add_owed` is compiled once."""
    add_owed(edge, transfer, per_transfer, out)


class Slice(NamedTuple):
    """Ticks from `begin` on, and the end: the time `stop`, `most` exchanges, or so many `steps`.

    Marks below the number of directed edges are their ticks, the others steps of the nodes' own.
    """

    times: Array
    marks: Any
    begin: int
    stop: float
    most: int
    steps: int
    last_change: float  # when the last death or join is


@jit_uncounted
def run_messages(
    nodes: Any, net: MessageNetwork, links: Links, wait: float, rng: Any, part: Slice, tests: Tests
) -> tuple[int, int, int]:
    """Run all that happens in a slice of a run, of nodes that wait no longer than `wait`.

    Returns how many of the block's ticks are done, how many tests were made, and why it ended:
    ENDED, AGAIN for want of room or after so many `steps`, CHANGE where the last entry of the
    heap was one: the caller carries it out, by `die` or `join`; or GRADIENT where the last tick is
    a step with a gradient of Python's.  While fewer than two nodes live and others may still come,
    no test is made: one alone agrees with nobody, and its error says nothing.

    One turn of the loop takes what comes first, an entry of the heap or a tick of the clock.  An
    entry is a change of the network, a timer or a message, on the directed edge e from i, who asked
    for the exchange, to j.  A transition decides what it means, and says what to send (`reply`);
    `asks` tells that i may begin an exchange, `idle` who has just ended one.  The second half of
    the turn does what follows from these: it begins the exchange, wakes who is idle and has missed
    ticks, and sends the reply with its timer.
    """
    rows, (alive, node, waits, edge, work, transfer) = net.rows, net.rows
    when, what, body, counts, sums = net.when, net.what, net.body, net.counts, net.sums
    first, upto, log, owed = net.first, net.upto, net.log, net.owed
    times, marks, k, stop, most, steps, last_change = part
    made = 0
    while counts[EXCHANGES] < most:
        full = when.size - counts[SIZE] < ROOM or 0 < log.shape[0] < counts[LOGGED] + ROOM
        if full or steps == 0:
            return k, made, AGAIN
        steps -= 1
        t = times[min(k, times.size - 1)]
        # What is to be sent, and who is in no exchange any more.
        asks, ticks, reply, idle = False, False, NOTHING, NOBODY
        if counts[SIZE] > 0 and when[0] <= min(t, stop):  # an entry of the heap comes first
            t = when[0]
            slot = pop(when, what, counts)
            kind, e, seq = what[slot, KIND], what[slot, EDGE], what[slot, SEQ]
            # Changes of the network, of which e is the node.
            if kind in (DEATH, JOIN):
                sums[NOW] = t
                return k, made, CHANGE
            if kind == WAKE:
                asks = transitions.may_ask(rows, e, t)
                if asks:
                    e = draw_edge(first, upto, e, transitions.draw_uniform(rng))
            # Timers: `seq` tells whether the exchange for which they were set still goes on.
            elif kind == GIVE_UP:
                if transitions.on_give_up(rows, rng, e, seq, t, wait):
                    idle = edge[e, SOURCE]
            elif kind == UNLOCK:
                if transitions.on_unlock(rows, e, seq, wait):
                    idle = edge[e, TARGET]
            elif kind == RESEND:
                reply = transitions.on_resend(rows, e, seq, wait)
            # Messages, unless one of the two nodes died since they were sent.
            elif what[slot, EPOCH] == sum_epochs(node, edge, e):
                i, j = edge[e, SOURCE], edge[e, TARGET]
                if kind == REQUEST:
                    reply = transitions.on_request(rows, e, seq, True)
                    if reply == ANSWER:
                        flow_and_answer(nodes, work, counts, j, t)
                        transfer[e, ANSWERED_AT] = work[j, TIME]
                        log_entry(log, counts, LOG_ANSWER, j, i, seq, work[j, TIME])
                elif kind == ANSWER:
                    if transitions.waits_for(rows, e, seq):
                        flow_and_answer(nodes, work, counts, i, t)
                        reply = transitions.on_answer(rows, e, seq, wait)
                        pay_transfer(nodes, work, transfer, body, slot, e, i)
                        log_entry(log, counts, LOG_PAY, i, j, seq, work[i, TIME])
                        idle = i
                elif kind == TRANSFER:
                    reply, fresh = transitions.on_transfer(rows, e, seq)
                    if fresh:
                        apply_transfer(nodes, work, body, slot, j, t)
                        counts[EXCHANGES] += 1
                        log_entry(log, counts, LOG_APPLY, j, i, seq, work[j, TIME])
                        count_age(sums, work[j, TIME] - transfer[e, ANSWERED_AT])
                        if transitions.unlock(rows, e, seq):
                            idle = j
                elif kind == REFUSE:
                    if transitions.on_refusal(rows, rng, e, seq, t):
                        idle = i
                else:
                    transitions.on_ack(rows, e, seq)
        elif k < times.size and t <= stop:  # a tick of an edge, or a step of a node's own
            e = marks[k]
            k += 1
            ticks = e < edge.shape[0]
            if ticks:
                i = edge[e, SOURCE]
                if alive[i]:
                    transitions.tick(rows, i)
                asks = transitions.may_ask(rows, i, t)
            else:
                take_step(nodes, alive, work, counts, rng, e - edge.shape[0], t)
                if asks_python(nodes) and alive[e - edge.shape[0]]:
                    sums[NOW] = t
                    return k, made, GRADIENT
        else:
            break
        sums[NOW] = t
        # What follows: an exchange begins, a node is woken, the reply is sent.
        if asks:
            reply, i = transitions.ask(rows, rng, e, t), edge[e, SOURCE]
            seq = node[i, OWN_SEQ]
            idle = i if reply == NOTHING else NOBODY
        if idle != NOBODY and node[idle, WAKEUPS] > 0:
            again = max(t, waits[idle, NOT_BEFORE])
            push(when, what, counts, again, WAKE, idle, 0, node[idle, NODE_EPOCH])
        if reply != NOTHING:
            copies, timer, pair = draw_copies(links, rng), TIMERS[reply], sum_epochs(node, edge, e)
            sender = edge[e, TARGET if reply == ANSWER else SOURCE]
            # The link loses or doubles the message; the timer comes as one more entry.
            for n in range(copies + 1 if timer != NOTHING else copies):
                if n < copies:
                    comes, late = reply, draw_delay(links, rng)
                else:
                    comes, late = timer, waits[sender, WAIT] / work[sender, SPEED]
                slot = push(when, what, counts, t + late, comes, e, seq, pair)
                fill_message(nodes, work, transfer, body, slot, reply, e, sender)
        if ticks and k % tests.period == 0 and (t > last_change or are_several(alive)):
            add_owed(edge, transfer, conserved_per_transfer(nodes), owed)
            error = disagreement(nodes, work, alive, t, owed)
            tests.rows[made, 0], tests.rows[made, 1] = t, counts[EXCHANGES]
            tests.rows[made, 2] = error
            made += 1
            if not tests.bounds[0] < error < tests.bounds[1]:  # NaN too
                break
    return k, made, ENDED
