"""The values of nodes on the way, from the event log of a run: `along`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.graphs.graph import Graph
from continuized.network.result import ANSWER, JOIN, PAY, Log
from continuized.network.simulation.replay import replay
from continuized.problems.base import Array


def along(
    graph: Graph, values: ArrayLike, method: Gossip, log: Log, times: Sequence[float]
) -> list[Array]:
    """x of every node at the last event that it and all its causes had before own time t.

    Real nodes have no common time: where clocks disagree, what was caused by a later event of
    another node is left out, and the rest is a log that can be replayed.

    >>> from continuized.network import simulate
    >>> g, start = Graph.of("path:3"), [1.0, 0.0, 0.0]
    >>> r = simulate(g, start, seed=0, log=True)
    >>> [x.tolist() for x in along(g, start, Gossip(), r.log, [0.0])]
    [[1.0, 0.0, 0.0]]
    """
    when = causal_times(log)
    cuts = [Log(*(column[when <= t] for column in log)) for t in times]
    return [replay(graph, values, method, cut)[0] for cut in cuts]


def causal_times(log: Log) -> Array:
    """The largest own time among each entry and all that it depends on."""
    latest: dict[int, float] = {}  # of nodes
    passed: dict[tuple[int, int, int], float] = {}  # of exchanges: (initiator, other end, seq)
    when = np.empty(len(log.kind))
    entries = zip(*(np.asarray(column).tolist() for column in log), strict=True)
    for k, (kind, node, peer, seq, time) in enumerate(entries):
        name = (node, peer, seq) if kind in (PAY, JOIN) else (peer, node, seq)
        told = -np.inf if kind == ANSWER else passed.get(name, -np.inf)
        when[k] = latest[node] = passed[name] = max(time, told, latest.get(node, -np.inf))
    return when
