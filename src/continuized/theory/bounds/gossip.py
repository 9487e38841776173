"""Bounds for gossip, accelerated and plain, proved in docs/proofs/gossip.md.

Accelerated with damping a and theta_0 = sqrt(mu_g / (2R)):
E |x_t - mean|^2 <= (1 + a) |x_0 - mean|^2 e^{-a theta_0 t}.  Plain: the rate is mu_g / 2.  A²CiD²
without gradients is gossip, with a = 1 or plain, whose edges ring together at `A2CiD2.edge_rate`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.a2cid2.method import A2CiD2
from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.theory.bounds.paper import log_of, log_power
from continuized.theory.checks import checked_counts


def log_bound(
    method: Gossip,
    graph: Any,
    x0: ArrayLike,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    """The logarithm of the bound on E |x_t - mean|^2, at times t or at the k-th event."""
    g = check_graph(graph)
    if sigma2 > 0.0:
        raise ValueError("no theorem covers noise for gossip; use sigma2=0")
    u = centre(g, x0)
    log_u2 = log_of(float(np.vdot(u, u)))
    if method.accelerated:
        first = math.log1p(method.damping) + log_u2
        if t is not None:
            return first - method.damping * g.theta * check.times(t, "t")
        assert k is not None
        return np.full(checked_counts(k).shape, first)[()]
    if t is not None:
        return log_u2 - 0.5 * g.mu_g * check.times(t, "t")
    assert k is not None
    return log_u2 + log_power(0.5 * g.mu_g, checked_counts(k).astype(np.float64))


def exchanges_log_bound(
    method: A2CiD2,
    graph: Any,
    x0: ArrayLike,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    """The same for the exchanges of A²CiD² alone; k counts exchanges."""
    if isinstance(graph, tuple):
        raise ValueError(
            "no theorem here covers the gradients of A²CiD²; give the graph alone, for the bound "
            "of its exchanges"
        )
    g = check_graph(graph)
    faster = None if t is None else method.edge_rate(g) * check.times(t, "t")
    return log_bound(Gossip(method.accelerated, damping=1.0), g, x0, faster, k, sigma2)


def check_graph(graph: Any) -> Graph:
    """A Graph, or what `Graph.of` makes one of when it is a spec."""
    if isinstance(graph, Graph | str):
        return Graph.of(graph)
    raise TypeError(f"gossip runs on a Graph, or a spec of one, got {check.short_repr(graph)}")


def centre(graph: Graph, x0: ArrayLike) -> Array:
    """x_0 - mean, as (nodes, columns)."""
    x = check.array(x0, "x0", dtype=np.float64, finite=True)
    if x.ndim not in (1, 2) or len(x) != graph.nodes:
        raise ValueError(f"x0 must have a row for each of {graph.nodes} nodes, got {x.shape}")
    x = x.reshape(graph.nodes, -1)
    return np.asarray(x - x.mean(axis=0))
