"""How often edges exchange when messages take time: predicted, to be held against simulation.

With a one-way delay `delay`, an exchange keeps each of its two ends for 2 delays: the initiator
from its request to the answer, the other from its answer to the transfer.  A request that is
refused keeps its sender as long, and is made up for after a while (`network.protocol.timeouts`).

With f_i the share of time that node i is free, a_i the rate at which it asks, p_ij the probability
that it asks j, and all taken as independent,

    1 - f_i = 2 delay (a_i + f_i sum_j a_j p_ji),

and the directed edge ij exchanges at the rate a_i p_ij f_j.  As long as it can, node i makes up for
every ring: a_i sum_j p_ij f_j = sum_j P_ij / 2.  It cannot ask more often than it finds itself free
after the pauses that refusals cost, f_i = a_i (1 - sum_j p_ij f_j) pause.
"""

from __future__ import annotations

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.protocol.timeouts import BACK_OFF, SPREAD
from continuized.problems.base import Array
from continuized.support import validation as check

# Delays that a node pauses for, on average: its timeout is the mean of round trips, 2 delays, and
# some of their mean deviations, which is 8 / e^2 for the sum of two exponential delays.
PAUSE = BACK_OFF * (2.0 + SPREAD * 8.0 * np.exp(-2.0))
MOST_STEPS = 2000
STEP = 0.2  # the map itself is decreasing: it would swing


def list_directed(graph: Graph) -> tuple[Array, Array]:
    """List source and target of both directions of every edge: all edges, then all reversed."""
    i, j = graph.edges.T
    return np.concatenate([i, j]), np.concatenate([j, i])


def exchange_rates(graph: Graph, delay: float) -> Array:
    """Predict the rate of exchanges of every directed edge, which is P_ij / 2 without delay."""
    source, target = list_directed(graph)
    n, P = graph.nodes, np.tile(graph.P, 2)
    around = np.bincount(source, P, n)
    p, rings = P / around[source], 0.5 * around
    f = np.ones(n)
    for _ in range(MOST_STEPS):
        met = np.bincount(source, p * f[target], n)  # the probability that a request is answered
        pauses = np.maximum((1.0 - met) * PAUSE * delay, np.finfo(float).tiny)
        asks = np.minimum(rings / met, f / pauses)
        heard = np.bincount(target, asks[source] * p, n)
        free = np.maximum(1.0 - 2.0 * delay * asks, 0.0) / (1.0 + 2.0 * delay * heard)
        if np.abs(free - f).max() < 1e-9:
            break
        f = f + STEP * (free - f)
    rates: Array = asks[source] * p * f[target]
    return rates


def exchange_share(graph: Graph | str, delay: float) -> float:
    """Predict the exchanges per unit of t, which are 1 without delays.

    Nodes make up for rings, so that they stay 1 until some node has no time left; from there on
    they fall as 1 / delay.  The independence assumed makes this up to 15 % too small there.

    graph: a Graph, or what `Graph.of` takes.  delay: the mean one-way delay, in units of t.
    Raises TypeError or ValueError where delay is not a finite number >= 0.

    >>> [round(exchange_share("path:10", delay), 2) for delay in (0.3, 2.0, 4.0)]
    [1.0, 0.41, 0.21]
    """
    late = check.real(delay, "delay", minimum=0.0)
    return float(exchange_rates(Graph.of(graph), late).sum())
