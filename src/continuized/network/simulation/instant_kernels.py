"""Compiled: events of nodes of any model (see `interface`), each exchange done at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from continuized.network.simulation.engine import Tests
from continuized.network.simulation.node_models.interface import (
    disagreement,
    find_answer,
    flow_to,
    message,
    pay,
    step,
)
from continuized.problems.base import Array
from continuized.support.jit import fetch, jit

AHEAD = 8  # events: their nodes are asked for while the memory is slow


class Network(NamedTuple):
    """Nodes and edges whose exchanges take no time."""

    alive: Array
    edges: Array  # (edges, 2)
    work: Array
    owed: Array  # (dim,): nothing is ever on its way


class Busy(NamedTuple):
    """For nodes that are busy after an exchange, and for counts of what happened.

    A node is busy for a time `work` after an exchange, until `free`: an exchange does not take
    place while an end of its edge is busy.
    """

    free: Array
    work: Array
    counts: Array  # of the events, by mark


@jit
def run_events(
    nodes: Any, network: Network, busy: Busy | None, rng: Any, times: Array, marks: Array,
    begin: int, end: int, tests: Tests,
) -> tuple[int, int, bool]:  # fmt: skip
    """Run the events begin, ..., end - 1 of a block.

    Marks below the number of edges are exchanges, the others steps of the nodes' own.  Returns how
    many events of the block are done, how many tests were made, and False where a node could not
    find what to say.  Without `busy`, which is known when this is compiled, nothing is counted.
    """
    edges, work = network.edges, network.work
    m, width, made = edges.shape[0], work.shape[1], 0
    for k in range(begin, end):
        if k + AHEAD < end and marks[k + AHEAD] < m:
            for side in range(2):
                fetch(work, edges[marks[k + AHEAD], side] * width)
        mark, t = marks[k], times[k]
        if mark >= m:
            flow_to(nodes, work, mark - m, t)
            step(nodes, work, mark - m, rng)
        else:
            i, j = edges[mark, 0], edges[mark, 1]
            if busy is not None:
                if t < busy.free[i] or t < busy.free[j]:
                    continue
                busy.free[i], busy.free[j] = t + busy.work[i], t + busy.work[j]
            flow_to(nodes, work, i, t)
            flow_to(nodes, work, j, t)
            if not (find_answer(nodes, work, i) and find_answer(nodes, work, j)):
                return k, made, False
            for c in range(network.owed.size):
                d = message(nodes, work, i, c) - message(nodes, work, j, c)
                pay(nodes, work, i, c, d)
                pay(nodes, work, j, c, -d)
        if busy is not None:
            busy.counts[mark] += 1
        if (k + 1) % tests.period == 0:
            error = disagreement(nodes, work, network.alive, t, network.owed)
            tests.rows[made, 0], tests.rows[made, 1] = t, tests.before + k + 1
            tests.rows[made, 2] = error
            made += 1
            if not tests.bounds[0] < error < tests.bounds[1]:  # NaN too
                return k + 1, made, True
    return end, made, True
