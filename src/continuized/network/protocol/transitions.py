"""Compiled: the transfer protocol, message by message, as `node.Node` follows it.

    the clock of i rings, i is free     ->  REQUEST to j            (see `engine_rings`)
    j is free: it locks and mixes       ->  ANSWER with x_j         (otherwise REFUSAL)
    i mixes, fixes d = x_i - x_j, pays  ->  TRANSFER of d, again and again until acknowledged;
                                            i is free, but asks no neighbour that it owes
    j mixes and is paid, once, unlocks  ->  ACK

where x stands for what nodes of this kind say to each other (see `engine_kinds`).

An exchange is named by its directed edge, from the initiator i to j, and by i's count of
exchanges, `seq`.  What a node does when something comes changes its state and returns the kind of
message that it sends, or NOTHING.  A message from or to a node that died since it was sent is
lost with it.

The arrays: `work` is that of `engine_kinds`; `node`, `waits`, `edge` have the columns below, edges
stand in the order of their sources; `transfer` has a row for each edge, the own time of the last
answer and the d that was last paid; `when`, `what`, `body` and `counts` are those of `engine_heap`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from continuized.network import result as outcome
from continuized.network.protocol import timeouts as patience
from continuized.network.protocol.timeouts import learnt, longer
from continuized.network.simulation.heap import push
from continuized.network.simulation.node_models.interface import (
    SPEED,
    TIME,
    find_answer,
    flow_to,
    inlined,
    pay,
    said,
)  # fmt: skip
from continuized.problems.base import Array
from continuized.support.jit import compile_formulas

compile_formulas(*patience.FORMULAS)

# What may come out of the heap: messages, timers, and changes of the network.
REQUEST, REFUSAL, ANSWER, TRANSFER, ACK, GIVE_UP, UNLOCK, RESEND, WAKE, DEATH, JOIN = range(11)
NOTHING = NOBODY = -1
# What a node may be doing: nothing, waiting for an answer, or for a transfer.
FREE, ASKING, HELD = range(3)
# The columns of `node`: over is the directed edge of its exchange, own_seq counts those it began,
# held_seq is that of the one it is locked for, rings are those to be made up for, epoch counts
# its deaths.
PHASE, OVER, OWN_SEQ, HELD_SEQ, RINGS, NODE_EPOCH = range(6)
NODE_COLUMNS = NODE_EPOCH + 1
# The columns of `waits`: the mean and the deviation of its round trips, how long it waits, all by
# its own clock, as the time when it asked; and the t before which it does not ask.
MEAN, DEVIATION, WAIT, ASKED, NOT_BEFORE = range(5)
WAITS_COLUMNS = NOT_BEFORE + 1
# The columns of `edge`: it goes from the initiator to the node that is asked; the numbers last
# answered, applied, and owed (0: none); settled tells whether what is owed was applied.
SOURCE, TARGET, ANSWERED, APPLIED, OWED, SETTLED = range(6)
EDGE_COLUMNS = SETTLED + 1
SINCE, D = 0, 1  # the columns of `transfer`, d in the last ones
# The entries of `counts` after those of the heap: ANSWERS were sought, of which FAILED were not
# found, and STEPS of the nodes' own were taken.
EXCHANGES, LOGGED, ANSWERS, FAILED, STEPS = range(2, 7)
COUNTS = STEPS + 1
NOW, TOTAL_AGE, LARGEST_AGE, AGES = range(4)  # the entries of `sums`
SUMS = AGES + 1
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
    return int(node[edge[e, SOURCE], NODE_EPOCH] + node[edge[e, TARGET], NODE_EPOCH])


@inlined
def prepare(nodes: Any, work: Array, counts: Array, i: int, t: float) -> None:
    """Bring node i to time t and find what it has to say."""
    flow_to(nodes, work, i, work[i, SPEED] * t)
    counts[ANSWERS] += 1
    if not find_answer(nodes, work, i):
        counts[FAILED] += 1


@inlined
def asked(
    nodes: Any, node: Array, edge: Array, work: Array, transfer: Array, counts: Array, e: int,
    seq: int, t: float,
) -> int:  # fmt: skip
    """A REQUEST: lock, mix and answer; refuse where in an exchange."""
    j = edge[e, TARGET]
    if seq <= edge[e, ANSWERED]:
        return NOTHING  # a copy, or one that was overtaken
    # A neighbour that asks again has given up the exchange for which this node was locked.
    if node[j, PHASE] != FREE and (node[j, PHASE] == ASKING or node[j, OVER] != e):
        return REFUSAL
    prepare(nodes, work, counts, j, t)
    node[j, PHASE], node[j, OVER], node[j, HELD_SEQ] = HELD, e, seq
    edge[e, ANSWERED], transfer[e, SINCE] = seq, work[j, TIME]
    return ANSWER


@inlined
def waits_for(node: Array, edge: Array, e: int, seq: int) -> bool:
    """Whether the initiator still waits for the answer of this exchange."""
    i = edge[e, SOURCE]
    return bool(node[i, PHASE] == ASKING and node[i, OWN_SEQ] == seq)


@inlined
def answered(
    nodes: Any, node: Array, waits: Array, edge: Array, work: Array, transfer: Array, counts: Array,
    sent: Array, slot: int, e: int, seq: int, t: float, most: float,
) -> int:  # fmt: skip
    """An ANSWER that was waited for: fix d and pay."""
    i = edge[e, SOURCE]
    prepare(nodes, work, counts, i, t)
    waits[i, MEAN], waits[i, DEVIATION], waits[i, WAIT] = learnt(
        waits[i, MEAN], waits[i, DEVIATION], work[i, TIME] - waits[i, ASKED], most
    )
    for c in range(sent.shape[1]):
        transfer[e, D + c] = said(nodes, work, i, c) - sent[slot, c]
        pay(nodes, work, i, c, transfer[e, D + c])
    node[i, PHASE] = FREE
    edge[e, OWED], edge[e, SETTLED] = seq, 0
    return TRANSFER


@inlined
def brought(
    nodes: Any, edge: Array, work: Array, brings: Array, slot: int, e: int, seq: int, t: float
) -> bool:
    """A TRANSFER: apply it unless it was; returns whether it was not."""
    j = edge[e, TARGET]
    fresh = edge[e, APPLIED] < seq
    if fresh:
        edge[e, APPLIED], edge[e, SETTLED] = seq, 1
        flow_to(nodes, work, j, work[j, SPEED] * t)
        for c in range(brings.shape[1]):
            pay(nodes, work, j, c, -brings[slot, c])
    return bool(fresh)


@inlined
def unlock(node: Array, j: int, e: int, seq: int) -> bool:
    """Free a node that waits for the transfer of this exchange; returns whether it did."""
    waits = node[j, PHASE] == HELD and node[j, OVER] == e and node[j, HELD_SEQ] == seq
    if waits:
        node[j, PHASE] = FREE
    return bool(waits)


@inlined
def ran_out(waits: Array, i: int, most: float) -> None:
    """Nothing came in time: wait longer."""
    waits[i, WAIT] = longer(waits[i, WAIT], most)


@inlined
def aged(sums: Array, age: float) -> None:
    """Count the age of an answer."""
    sums[TOTAL_AGE] += age
    sums[LARGEST_AGE] = max(sums[LARGEST_AGE], age)
    sums[AGES] += 1.0


@inlined
def send(
    nodes: Any, node: Array, waits: Array, edge: Array, work: Array, transfer: Array, when: Array,
    what: Array, body: Array, counts: Array, links: Links, rng: Any, t: float, kind: int, e: int,
    seq: int,
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
            sender = edge[e, TARGET if kind == ANSWER else SOURCE]
            comes = UNLOCK if kind == ANSWER else (GIVE_UP if kind == REQUEST else RESEND)
            late = waits[sender, WAIT] / work[sender, SPEED]
        slot = push(when, what, counts, t + late, comes, e, seq, pair)
        for c in range(body.shape[1]):
            if kind == ANSWER:
                body[slot, c] = said(nodes, work, edge[e, TARGET], c)
            else:
                body[slot, c] = transfer[e, D + c]
