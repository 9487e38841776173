"""Compiled: deaths and joins, the ledger, and the error of a network with messages on their way.

The arrays are those of `engine_protocol`.
"""

from __future__ import annotations

from continuized.jit import jit
from continuized.network.engine_node import SPEED, TIME, X, centre, mix_to, squared_error
from continuized.network.engine_protocol import (
    FREE,
    HEAD,
    LOG_ANSWER,
    LOG_JOIN,
    NODE_EPOCH,
    OVER,
    OWN_SEQ,
    PAID,
    PHASE,
    SETTLED,
    TAIL,
    D,
    write,
)  # fmt: skip
from continuized.network.rules import Constants
from continuized.problems.base import Array

DIED, JOINED = 0, 1  # the rows of `ledger`


@jit
def lose(node: Array, transfer: Array, ledger: Array, i: int, constants: Constants) -> None:
    """Enter what i paid, and nobody will get, among what died."""
    if node[i, PHASE] == PAID and not node[i, SETTLED]:
        node[i, SETTLED] = 1
        for c in range(ledger.shape[1]):
            ledger[DIED, c] += (constants[1] + constants[2]) * transfer[i, D + c]


@jit
def die(
    alive: Array, node: Array, edge: Array, work: Array, transfer: Array, ledger: Array, dead: int,
    t: float, constants: Constants,
) -> None:  # fmt: skip
    """The node falls silent; what it has, has paid and is owed goes with it."""
    mix_to(work, dead, work[dead, SPEED] * t, constants[0])
    d = ledger.shape[1]
    for c in range(d):
        ledger[DIED, c] += work[dead, X + c] + work[dead, X + d + c]
    lose(node, transfer, ledger, dead, constants)
    for i in range(node.shape[0]):
        if alive[i] and edge[node[i, OVER], TAIL] == dead:
            lose(node, transfer, ledger, i, constants)
    alive[dead], node[dead, PHASE] = False, FREE
    node[dead, NODE_EPOCH] += 1


@jit
def neighbour(alive: Array, edge: Array, rates: Array, of: int, u: float) -> int:
    """A living neighbour, drawn by the rates with u uniform in [0, 1); -1 where there is none."""
    total = 0.0
    for e in range(edge.shape[0]):
        if edge[e, HEAD] == of and alive[edge[e, TAIL]]:
            total += rates[e]
    chosen, left = -1, u * total
    for e in range(edge.shape[0]):
        if edge[e, HEAD] == of and alive[edge[e, TAIL]] and left >= 0.0:
            chosen = edge[e, TAIL]
            left -= rates[e]
    return int(chosen)


@jit
def join(
    alive: Array, node: Array, edge: Array, rates: Array, work: Array, ledger: Array, log: Array,
    counts: Array, new: int, t: float, u: float, theta: float,
) -> None:  # fmt: skip
    """The node comes with a neighbour's x and z = x; without a neighbour, with what it has."""
    d, other = ledger.shape[1], neighbour(alive, edge, rates, new, u)
    node[new, OWN_SEQ] += 1
    alive[new], node[new, PHASE] = True, FREE
    work[new, TIME] = work[new, SPEED] * t
    if other >= 0:
        mix_to(work, other, work[other, SPEED] * t, theta)
        write(log, counts, LOG_ANSWER, other, new, node[new, OWN_SEQ], work[other, TIME])
        for c in range(d):
            work[new, X + c] = work[other, X + c]
    for c in range(d):
        work[new, X + d + c] = work[new, X + c]
        ledger[JOINED, c] += work[new, X + c] + work[new, X + d + c]
    write(log, counts, LOG_JOIN, new, other, node[new, OWN_SEQ], work[new, TIME])


@jit
def on_the_way(alive: Array, node: Array, transfer: Array, constants: Constants) -> Array:
    """What was paid and not applied yet."""
    total = transfer[0, D:] * 0.0
    for i in range(node.shape[0]):
        if alive[i] and node[i, PHASE] == PAID and not node[i, SETTLED]:
            for c in range(total.size):
                total[c] += (constants[1] + constants[2]) * transfer[i, D + c]
    return total


@jit
def error_at(
    alive: Array, node: Array, work: Array, transfer: Array, constants: Constants, t: float
) -> float:
    """The squared error at time t."""
    owed = on_the_way(alive, node, transfer, constants)
    middle = centre(work, alive, owed)
    return float(squared_error(work, alive, t, constants[0], middle))
