"""The exchange protocol: what a node does when something comes, as functions of rows of numbers.

    the clock of i ticks, i is free     ->  REQUEST to j  (`ask`)
    j is free: it locks and mixes       ->  ANSWER with x_j  (`on_request`; otherwise REFUSE)
    i mixes, fixes d = x_i - x_j, pays  ->  TRANSFER of d  (`on_answer`), again and again until
                                            acknowledged (`on_resend`); i is free, but asks no
                                            neighbour that it owes
    j mixes and is paid, once, unlocks  ->  ACK  (`on_transfer`, `unlock`)
    i forgets what it owed                  (`on_ack`)

where x stands for what nodes of this model say to each other.  A lost REQUEST or ANSWER costs time
only: both ends give up after a while with nothing paid (`on_give_up`, `on_unlock`).

An exchange is named by its directed edge e, from the initiator i to j, and by i's count of
exchanges, `seq`.  A function changes the rows of the node to which something came and tells what
the node sends.  Mixing, answering and paying are the caller's business.

The same functions serve the simulator, which compiles them and has the rows of all nodes and
edges, and a real node (`node.Node`), which has its own row and those of its edges.  `t` is the
caller's time, in which the clock of node i runs at work[i, SPEED].
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.network.protocol.timeouts import BACK_OFF, LONGER, MOST_WAKEUPS, UNKNOWN, update
from continuized.problems.base import Array

# The kinds.  An exchange is REQUEST, ANSWER, TRANSFER, ACK, all under the initiator's number.
REQUEST, ANSWER, REFUSE, TRANSFER, ACK, JOIN, WELCOME = MESSAGE_KINDS = range(7)
WITH_VALUES = frozenset({ANSWER, TRANSFER, WELCOME})
NOTHING = NOBODY = -1
# What may come beside messages: the timers of a node, and its death.
GIVE_UP, UNLOCK, RESEND, WAKE, DEATH = range(len(MESSAGE_KINDS), len(MESSAGE_KINDS) + 5)
# What a node may be doing: nothing, waiting for an answer, or for a transfer.
FREE, ASKING, LOCKED = range(3)
# The columns of `node`: active_edge is the directed edge of its exchange, own_seq counts those it
# began, locked_seq is that of the one it is locked for, wakeups are the ticks to be made up for,
# epoch counts its deaths.
PHASE, ACTIVE_EDGE, OWN_SEQ, LOCKED_SEQ, WAKEUPS, NODE_EPOCH = range(6)
NODE_COLUMNS = NODE_EPOCH + 1
# The columns of `waits`: the mean and the deviation of its round trips, how long it waits, all by
# its own clock, as the time when it asked; and the t before which it does not ask.
MEAN, DEVIATION, WAIT, ASKED, NOT_BEFORE = range(5)
WAITS_COLUMNS = NOT_BEFORE + 1
# The columns of `edge`: it goes from the initiator to the node that is asked; the numbers last
# answered, applied, and owed (0: none); delivered tells whether what is owed was applied.
SOURCE, TARGET, ANSWERED, APPLIED, OWED, DELIVERED = range(6)
EDGE_COLUMNS = DELIVERED + 1
TIME, SPEED = 0, 1  # the first columns of `work`: a node's own time, and the speed of its clock
ANSWERED_AT, D = (
    0,
    1,
)  # the columns of `transfer`: the own time of the last answer, and the d last paid


class Message(NamedTuple):
    """A message between two nodes; `plain` tells the steps with which a TRANSFER was paid."""

    kind: int
    sender: int
    receiver: int
    seq: int
    plain: bool = False
    values: Array | None = None


class NodeRows(NamedTuple):
    """What the protocol knows of some nodes and of the directed edges between them.

    The functions below change them in place.
    """

    alive: Array  # (nodes,)
    node: Array  # (nodes, NODE_COLUMNS)
    waits: Array  # (nodes, WAITS_COLUMNS)
    edge: Array  # (edges, EDGE_COLUMNS)
    work: Array  # (nodes, 2 or more)
    transfer: Array  # (edges, 1 or more)


def make_rows(ends: Array, work: Array, dim: int, wait: float) -> NodeRows:
    """Make the rows of nodes that have not exchanged anything yet.

    ends (edges, 2): source and target of every directed edge.  wait: the longest time to wait.
    """
    n, m = len(work), len(ends)
    edge = np.zeros((m, EDGE_COLUMNS), np.int64)
    edge[:, [SOURCE, TARGET]] = ends
    waits = np.zeros((n, WAITS_COLUMNS))
    waits[:, MEAN], waits[:, WAIT] = UNKNOWN, wait
    node = np.zeros((n, NODE_COLUMNS), np.int64)
    return NodeRows(np.ones(n, np.bool_), node, waits, edge, work, np.zeros((m, D + dim)))


# The initiator


def may_ask(rows: NodeRows, i: int, t: float) -> bool:
    """Tell whether node i has a tick to answer or to make up for, and asks now."""
    if not rows.alive[i] or rows.node[i, PHASE] != FREE or rows.node[i, WAKEUPS] == 0:
        return False
    return bool(t >= rows.waits[i, NOT_BEFORE])


def tick(rows: NodeRows, i: int) -> None:
    """Count a tick that node i is to answer or to make up for, if they are not too many."""
    rows.node[i, WAKEUPS] = min(MOST_WAKEUPS, rows.node[i, WAKEUPS] + 1)


def make_up(rows: NodeRows, rng: Any, i: int, t: float) -> None:
    """Let node i make up for a tick that came to nothing, after a while.

    It is random, so that two nodes that refused each other do not ask at the same moment again.
    """
    tick(rows, i)
    pause = BACK_OFF * rows.waits[i, WAIT] * draw_exponential(rng)
    rows.waits[i, NOT_BEFORE] = t + pause / rows.work[i, SPEED]


# In functions of their own, for Numba compiles what a generator does in each caller.
def draw_exponential(rng: Any) -> float:
    """Draw a time of mean 1."""
    return float(rng.standard_exponential())


def draw_uniform(rng: Any) -> float:
    """Draw from [0, 1)."""
    return float(rng.random())


def ask(rows: NodeRows, rng: Any, e: int, t: float) -> int:
    """Let the edge's source ask its target: not one that is dead, and later one that it owes.

    Returns what it sends: REQUEST, or NOTHING where it stays free.
    """
    i, j = rows.edge[e, SOURCE], rows.edge[e, TARGET]
    rows.node[i, WAKEUPS] -= 1
    reply = NOTHING
    if rows.alive[j] and rows.edge[e, OWED] == 0:
        rows.node[i, OWN_SEQ] += 1
        rows.node[i, PHASE], rows.node[i, ACTIVE_EDGE] = ASKING, e
        rows.waits[i, ASKED] = rows.work[i, SPEED] * t
        reply = REQUEST
    elif rows.alive[j]:
        make_up(rows, rng, i, t)
    return reply


def waits_for(rows: NodeRows, e: int, seq: int) -> bool:
    """Tell whether the initiator still waits for the answer of this exchange."""
    i = rows.edge[e, SOURCE]
    if rows.node[i, PHASE] != ASKING or rows.node[i, ACTIVE_EDGE] != e:
        return False
    return bool(rows.node[i, OWN_SEQ] == seq)


def on_answer(rows: NodeRows, e: int, seq: int, most: float) -> int:
    """Take an ANSWER that was waited for, the initiator's own time being that of its arrival."""
    i, waits = rows.edge[e, SOURCE], rows.waits
    trip = rows.work[i, TIME] - waits[i, ASKED]
    waits[i, MEAN], waits[i, DEVIATION], waits[i, WAIT] = update(
        waits[i, MEAN], waits[i, DEVIATION], trip, most
    )
    rows.node[i, PHASE] = FREE
    rows.edge[e, OWED], rows.edge[e, DELIVERED] = seq, 0
    return TRANSFER


def on_refusal(rows: NodeRows, rng: Any, e: int, seq: int, t: float) -> bool:
    """Take a REFUSE; returns whether the initiator waited, and is free now."""
    waited = waits_for(rows, e, seq)
    if waited:
        i = rows.edge[e, SOURCE]
        rows.node[i, PHASE] = FREE
        make_up(rows, rng, i, t)
    return waited


def on_give_up(rows: NodeRows, rng: Any, e: int, seq: int, t: float, most: float) -> bool:
    """Let the initiator give up where no answer came in time; returns whether it is free now."""
    gave_up = on_refusal(rows, rng, e, seq, t)
    if gave_up:
        wait_longer(rows, rows.edge[e, SOURCE], most)
    return gave_up


def on_resend(rows: NodeRows, e: int, seq: int, most: float) -> int:
    """Send a transfer again that nobody acknowledged in time."""
    reply = NOTHING
    if rows.edge[e, OWED] == seq:
        wait_longer(rows, rows.edge[e, SOURCE], most)
        reply = TRANSFER
    return reply


def on_ack(rows: NodeRows, e: int, seq: int) -> bool:
    """Take an ACK; returns whether the transfer was still owed."""
    owed = rows.edge[e, OWED] == seq
    if owed:
        rows.edge[e, OWED] = 0
    return bool(owed)


# The node that is asked


def on_request(rows: NodeRows, e: int, seq: int, accepts: bool) -> int:
    """Take a REQUEST: lock and answer, or refuse where it is in an exchange or accepts none."""
    j = rows.edge[e, TARGET]
    if seq <= rows.edge[e, ANSWERED]:
        return NOTHING  # a copy, or one that was overtaken
    if not accepts or rows.node[j, PHASE] == ASKING:
        return REFUSE
    # A neighbour that asks again has given up the exchange for which this node was locked.
    if rows.node[j, PHASE] == LOCKED and rows.node[j, ACTIVE_EDGE] != e:
        return REFUSE
    rows.node[j, PHASE], rows.node[j, ACTIVE_EDGE], rows.node[j, LOCKED_SEQ] = LOCKED, e, seq
    rows.edge[e, ANSWERED] = seq
    return ANSWER


def on_transfer(rows: NodeRows, e: int, seq: int) -> tuple[int, bool]:
    """Take a TRANSFER: returns ACK, but for one that rests on no answer, and whether to apply it.

    Each number is applied once.
    """
    if seq <= rows.edge[e, APPLIED]:
        return ACK, False
    if seq != rows.edge[e, ANSWERED]:
        return NOTHING, False
    rows.edge[e, APPLIED], rows.edge[e, DELIVERED] = seq, 1
    return ACK, True


def unlock(rows: NodeRows, e: int, seq: int) -> bool:
    """Free a node that waits for the transfer of this exchange; returns whether it did."""
    j = rows.edge[e, TARGET]
    if (
        rows.node[j, PHASE] != LOCKED
        or rows.node[j, ACTIVE_EDGE] != e
        or rows.node[j, LOCKED_SEQ] != seq
    ):
        return False
    rows.node[j, PHASE] = FREE
    return True


def on_unlock(rows: NodeRows, e: int, seq: int, most: float) -> bool:
    """Unlock a node to which no transfer came in time; returns whether it did."""
    unlocked = unlock(rows, e, seq)
    if unlocked:
        wait_longer(rows, rows.edge[e, TARGET], most)
    return unlocked


def wait_longer(rows: NodeRows, i: int, most: float) -> None:
    """Let node i wait longer from now on, for nothing came in time: perhaps it was lost, perhaps
    the wait was too short."""
    rows.waits[i, WAIT] = min(most, LONGER * rows.waits[i, WAIT])
