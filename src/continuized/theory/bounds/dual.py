"""Bounds for the dual method of decentralised optimisation.

D(y) = sum_i f_i*(y_i) over y with sum_i y_i = 0; f_i mu-strongly convex and L-smooth, so that D is
1/mu-smooth and 1/L-strongly convex.  Write g for its gradient, w_i = g_i, b = e_i - e_j for the
edge that rings, G = b^T g, and |v|_+^2 = v^T Lambda^+ v.  All y and z have sum 0.

**Accelerated.**  phi_t = A_t (D(y_t) - D*) + B_t |z_t - y*|_+^2 with the parameters (A, B) of
Continuized(2R/mu, mu_g/L) is a supermartingale:

- An event takes gamma |G|^2 - gamma^2 |G|^2 / mu = (mu/4) |G|^2 off D at least, for gamma = mu/2.
- It changes |z - y*|_+^2 by -2 gamma' (b^T Lambda^+ (z - y*)) G + gamma'^2 |G|^2 b^T Lambda^+ b.
  The mean of the first is -2 gamma' <z - y*, g>, for sum_e P_e b b^T = Lambda; the second is at
  most gamma'^2 R |G|^2, and as B gamma'^2 = A mu / (4R) the first line pays for it.
- D is mu_g/L-strongly convex in |.|_+, for |v|^2 >= mu_g |v|_+^2.  The rest of the paper's proof
  does not see the edges.

By |z_0 - y*|_+^2 <= |z_0 - y*|^2 / mu_g, E D(y_t) - D* <= phi e^{-theta t}, where
phi = D(y_0) - D* + |y_0 - y*|^2 / (2L).

**Plain.**  An event takes (mu/4) |G|^2 off D, in the mean (mu/4) g^T Lambda g, which is at least
(mu mu_g/4) |Pg|^2, P the projection on sum 0, and |Pg|^2 >= (2/L) (D - D*): a share mu mu_g / (2L)
of D - D*.

**The guesses.**  sum_i |w_i - x*|^2 <= (2/mu) (D(y) - D*), for D is 1/mu-smooth, and its gradient
at y* is constant over the nodes.  With f_i(w) = |w - x_i|^2 / 2 these are the bounds of gossip.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.dual.method import Dual, check_fits
from continuized.network.optimisation.objective import Objective
from continuized.problems.base import Array
from continuized.process.methods import Continuized
from continuized.support import validation as check
from continuized.theory.bounds.paper import continuized_bound, log_of, log_phi_0, log_power
from continuized.theory.checks import checked_counts


def log_bound(
    method: Dual,
    pair: Any,
    y0: ArrayLike,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    """The logarithm of the bound on E mean_i |w_i - x*|^2, at times t or at the k-th event."""
    from continuized.network.optimisation.dual.function import DualFunction

    graph, objective = checked_pair(pair)
    if sigma2 > 0.0:
        raise ValueError("no theorem covers noise for the dual method; use sigma2=0")
    D, y = DualFunction(objective), checked_start(y0, objective)
    excess = max(D.value(y) - D.minimum, 0.0)
    scale = math.log(2.0 / (objective.mu * objective.nodes))
    if method.accelerated:
        gap = y - D.minimiser
        distance = float(np.vdot(gap, gap)) / graph.mu_g

        def log_phi(same: Continuized) -> float:
            return log_phi_0(same, distance, lambda: excess)

        process = method.process(graph, objective)
        return np.asarray(scale + continuized_bound(process, log_phi, t, k))[()]
    rate = method.rate(graph, objective)
    if t is not None:
        return scale + log_of(excess) - rate * check.times(t, "t")
    assert k is not None
    return scale + log_of(excess) + log_power(rate, checked_counts(k).astype(np.float64))


def checked_pair(pair: Any, name: str = "the dual method") -> tuple[Graph, Objective]:
    """A graph, and a function for each of its nodes."""
    two = isinstance(pair, tuple) and len(pair) == 2
    if not two or not isinstance(pair[1], Objective):
        raise TypeError(f"{name} runs on a pair (graph, Objective), got {check.short_repr(pair)}")
    graph = Graph.of(pair[0])
    check_fits(graph, pair[1])
    return graph, pair[1]


def checked_start(y0: ArrayLike, objective: Objective) -> Array:
    """y_0 = z_0, a row to a node."""
    given = check.array(y0, "x0", dtype=np.float64, finite=True)
    if given.ndim > 0:
        check.shape(given, "x0", (objective.nodes, objective.dim), like="the dual variables")
    y: Array = np.zeros((objective.nodes, objective.dim)) + given
    if np.abs(y.sum(axis=0)).max() > 1e-9 * max(1.0, float(np.abs(y).max())):
        raise ValueError("x0, the dual start, must have rows that sum to 0; give 0")
    return y
