"""Compiled: events of nodes of any kind (see `engine_kinds`), each exchange done at once."""

from __future__ import annotations

from typing import Any

from continuized.network.simulation.node_models.interface import (
    SPEED,
    find_answer,
    flow_to,
    guess,
    pay,
    said,
    step,
)  # fmt: skip
from continuized.problems.base import Array
from continuized.support.jit import jit


@jit
def run_events(
    nodes: Any, work: Array, edges: Array, times: Array, marks: Array, free: Array, busy: Array,
    rng: Any, counts: Array, dim: int,
) -> bool:  # fmt: skip
    """Marks below the number of edges are exchanges, the others steps of the nodes' own; counted.

    A node is busy for a time `busy` after an exchange, until `free`: the exchange for which an
    edge rings is not held while an end of it is busy.  Returns False where a node could not find
    what to say.
    """
    m = edges.shape[0]
    for k in range(times.size):
        mark, t = marks[k], times[k]
        if mark >= m:
            flow_to(nodes, work, mark - m, t)
            step(nodes, work, mark - m, rng)
        else:
            i, j = edges[mark, 0], edges[mark, 1]
            if t < free[i] or t < free[j]:
                continue
            for v in (i, j):
                flow_to(nodes, work, v, t)
                free[v] = t + busy[v]
                if not find_answer(nodes, work, v):
                    return False
            for c in range(dim):
                d = said(nodes, work, i, c) - said(nodes, work, j, c)
                pay(nodes, work, i, c, d)
                pay(nodes, work, j, c, -d)
        counts[mark] += 1
    return True


@jit
def flow_all(nodes: Any, work: Array, t: float) -> None:
    """Bring every node to time t."""
    for i in range(work.shape[0]):
        flow_to(nodes, work, i, work[i, SPEED] * t)


@jit
def guesses(nodes: Any, work: Array, alive: Array, t: float, out: Array) -> bool:
    """What every living node has found at time t, and a dead one had at its death, into `out`."""
    for i in range(out.shape[0]):
        if alive[i]:
            flow_to(nodes, work, i, work[i, SPEED] * t)
        if not find_answer(nodes, work, i):
            return False
        for c in range(out.shape[1]):
            out[i, c] = guess(nodes, work, i, c)
    return True


@jit
def count_exchanges(
    edges: Array, times: Array, marks: Array, free: Array, busy: Array, counts: Array
) -> None:
    """The exchanges of `run_events`, only counted."""
    for k in range(times.size):
        i, j, t = edges[marks[k], 0], edges[marks[k], 1], times[k]
        if t >= free[i] and t >= free[j]:
            free[i], free[j] = t + busy[i], t + busy[j]
            counts[marks[k]] += 1
