"""Exact second moments of gossip: E |x_t - mean|^2 with no sampling.

`exchange_moments` with K the identity and gamma = 1/2, for u = x - mean and w = z - mean, summed
over the columns of x: 3 n^2 unknowns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.graphs.graph import Graph
from continuized.network.graphs.spectrum import laplacian
from continuized.problems.base import Array
from continuized.theory.bounds.gossip import centred, checked_graph
from continuized.theory.checks import checked_times
from continuized.theory.moments.exchange import Exchanges, exchange_moments
from continuized.theory.moments.pair import Moments

LARGEST = 400  # nodes


def gossip_moments(
    graph: Any, method: Gossip, x0: ArrayLike, times: ArrayLike | None, sigma2: float = 0.0
) -> Moments:
    """E |x_t - mean|^2 in `fun`, E |z_t - mean|^2 in `z2`, and a column to a node in xx, xz, zz.

    Relative accuracy about 1e-9.  For at most 400 nodes; the time grows with times[-1].
    """
    g = checked_graph(graph)
    if times is None:
        raise ValueError("the moments of gossip are for fixed times: give times, not k=")
    if sigma2 > 0.0:
        raise ValueError("gossip draws no gradients: sigma2 must be 0")
    if g.nodes > LARGEST:
        raise ValueError(f"exact moments are for at most {LARGEST} nodes, the graph has {g.nodes}")
    t = np.atleast_1d(checked_times(times, "times", ordered=True))
    u = centred(g, x0)
    constants = method.constants(g)
    Lambda = laplacian(g.nodes, g.edges, g.P)
    by = Exchanges(lambda A: np.asarray(Lambda @ A), _spread(g))
    rows = np.empty((len(t), 3, g.nodes))
    for k, m in enumerate(exchange_moments(by, constants, method.accelerated, u @ u.T, t)):
        rows[k] = np.diagonal(m, axis1=1, axis2=2)
    xx, xz, zz = rows[:, 0], rows[:, 1], rows[:, 2]
    return Moments(t, None, xx.sum(axis=1), zz.sum(axis=1), xx, xz, zz)


def _spread(graph: Graph) -> Callable[[Array], Array]:
    """A -> S, which is the Laplacian of the rates P_e (b_e^T A b_e)."""
    i, j = graph.edges.T
    ends = graph.edges.ravel()

    def spread(A: Array) -> Array:
        rates = graph.P * (A[i, i] + A[j, j] - 2.0 * A[i, j])
        S = np.zeros_like(A)
        S[i, j] = S[j, i] = -rates
        np.fill_diagonal(S, np.bincount(ends, np.repeat(rates, 2)))
        return S

    return spread
