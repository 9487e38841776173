"""Bounds for gossip: the theorem of accelerated averaging, and that of plain averaging.

Write u = x - mean, w = z - mean, b = e_i - e_j for the edge that rings, and
|v|_+^2 = v^T Lambda^+ v.  z_0 = x_0, so that u and w stay orthogonal to the constants.

**Accelerated.**  theta = a theta_0 with theta_0 = sqrt(mu_g / (2R)) and the damping a <= 1, and
gamma' = theta_0 / mu_g.  With c = a mu_g, phi_t = e^{theta t} (|u|^2 + c |w|_+^2) is a
supermartingale, hence E |u_t|^2 <= phi_0 e^{-theta t} <= (1 + a) |u_0|^2 e^{-theta t}, for
mu_g |w|_+^2 <= |w|^2:

- An event takes (b^T u)^2 / 2 off |u|^2, in the mean u^T Lambda u / 2.
- It changes |w|_+^2 by -2 gamma' (b^T u)(b^T Lambda^+ w) + gamma'^2 (b^T u)^2 b^T Lambda^+ b.  The
  mean of the first is -2 gamma' u^T w, for sum_e P_e b b^T = Lambda; that of the second is at most
  gamma'^2 R u^T Lambda u, and as c gamma'^2 R = a/2 the first line pays for it.
- What is left is -2 c gamma' u^T w = -2 theta u^T w, and the flow's 2 theta u^T (w - u) in
  |u|^2 and 2 theta c (u - w)^T Lambda^+ w.  Together with the weight's theta phi, the sum is
  -theta |u|^2 + 2 theta c u^T Lambda^+ w - theta c |w|_+^2
  <= -theta (c |u|_+^2 - 2 c u^T Lambda^+ w + c |w|_+^2) = -theta c |u - w|_+^2 <= 0.

Nothing but mu_g <= lambda_2 and R >= every b^T Lambda^+ b was used: bounds of the two will do.  At
the k-th event, E[e^{theta T_k} |u|^2] <= (1 + a) |u_0|^2, by optional stopping.

**Plain.**  An event takes (b^T u)^2 / 2 off |u|^2, in the mean u^T Lambda u / 2 >= (mu_g/2) |u|^2:
the factor at the k-th event is (1 - mu_g/2)^k, and e^{-mu_g t / 2} at time t, where their number is
Poisson(t).

**A²CiD²** without gradients is gossip, with a = 1 or plain, whose edges ring together at the rate
`A2CiD2.edge_rate`: the bounds at time t are those above at this rate times t.  With gradients
nothing is proved here.
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
    g = checked_graph(graph)
    if sigma2 > 0.0:
        raise ValueError("no theorem covers noise for gossip; use sigma2=0")
    u = centred(g, x0)
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
    g = checked_graph(graph)
    faster = None if t is None else method.edge_rate(g) * check.times(t, "t")
    return log_bound(Gossip(method.accelerated, damping=1.0), g, x0, faster, k, sigma2)


def checked_graph(graph: Any) -> Graph:
    """A Graph, or what `Graph.of` makes one of when it is a spec."""
    if isinstance(graph, Graph | str):
        return Graph.of(graph)
    raise TypeError(f"gossip runs on a Graph, or a spec of one, got {check.short_repr(graph)}")


def centred(graph: Graph, x0: ArrayLike) -> Array:
    """x_0 - mean, as (nodes, columns)."""
    x = check.array(x0, "x0", dtype=np.float64, finite=True)
    if x.ndim not in (1, 2) or len(x) != graph.nodes:
        raise ValueError(f"x0 must have a row for each of {graph.nodes} nodes, got {x.shape}")
    x = x.reshape(graph.nodes, -1)
    return np.asarray(x - x.mean(axis=0))
