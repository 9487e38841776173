"""Compiled: deaths and joins, the ledger, and the error of a network with messages on their way.

The arrays are those of `engine_protocol`.
"""

from __future__ import annotations

from typing import Any

from continuized.network.protocol.timeouts import UNKNOWN
from continuized.network.protocol.transitions import (
    DEVIATION,
    FREE,
    LOG_ANSWER,
    LOG_JOIN,
    MEAN,
    NODE_EPOCH,
    NOT_BEFORE,
    OWED,
    OWN_SEQ,
    PHASE,
    RINGS,
    SETTLED,
    SOURCE,
    TARGET,
    WAIT,
    D,
    write,
)  # fmt: skip
from continuized.network.simulation.node_models.interface import (
    SPEED,
    TIME,
    disagreement,
    flow_to,
    share,
    size,
    start_from,
    worth,
)  # fmt: skip
from continuized.problems.base import Array
from continuized.support.jit import jit

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
