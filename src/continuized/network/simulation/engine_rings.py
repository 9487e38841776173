"""Compiled: when a node asks, and whom; rings that came to nothing are made up for.

The arrays are those of `engine_protocol`; `upto` has the sums of the rates of all edges up to each,
`first` the first edge of each source and at last their number.
"""

from __future__ import annotations

from typing import Any

from continuized.network.protocol.timeouts import back_off, with_one_more
from continuized.network.protocol.transitions import (
    ASKED,
    ASKING,
    FREE,
    NOBODY,
    NODE_EPOCH,
    NOT_BEFORE,
    NOTHING,
    OVER,
    OWED,
    OWN_SEQ,
    PHASE,
    REQUEST,
    RINGS,
    SOURCE,
    TARGET,
    WAIT,
    WAKE,
)  # fmt: skip
from continuized.network.simulation.heap import push
from continuized.network.simulation.node_models.interface import SPEED, inlined
from continuized.problems.base import Array


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
