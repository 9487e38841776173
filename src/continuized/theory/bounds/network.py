"""Bounds on networks: gossip, the dual method and DADAO, proved in docs/proofs.

Gossip, accelerated with damping a and theta_0 = sqrt(mu_g / (2R)):
E |x_t - mean|^2 <= (1 + a) |x_0 - mean|^2 e^{-a theta_0 t}.  Plain: the rate is mu_g / 2.  A²CiD²
without gradients is gossip, with a = 1 or plain, whose edges tick together at `A2CiD2.edge_rate`.

The dual method: D(y) = sum_i f_i*(y_i) over y with sum_i y_i = 0; f_i is mu-strongly convex and
L-smooth.  Accelerated: E D(y_t) - D* <= (D(y_0) - D* + |y_0 - y*|^2 / (2L)) e^{-theta t}.  Plain:
the rate is mu mu_g / (2L), of D(y_0) - D*.  The estimates have
sum_i |w_i - x*|^2 <= (2/mu) (D(y) - D*).

DADAO: E mean_i |x_i - x*|^2 <= C e^{-rt} with r = sqrt(mu/L) / (8 sqrt 2) and, from the start 0,

    C = (4/mu) (F(0) - F*) + 7/(8 mu L) mean_i |grad f_i(x*)|^2 + (3 mu/(16 L)) |x*|^2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.a2cid2 import A2CiD2
from continuized.network.optimisation.dadao import DADAO
from continuized.network.optimisation.dual import Dual
from continuized.network.optimisation.objective import Objective, check_fits
from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.theory.bounds.paper import Query, continuized_bound, log_decay, log_of


def gossip_log_bound(method: Gossip, graph: Any, x0: ArrayLike, query: Query) -> Array:
    """The logarithm of the bound on E |x_t - mean|^2, at times t or at the k-th event."""
    g = check_graph(graph)
    u = centre(g, x0)
    more = math.log1p(method.damping) if method.accelerated else 0.0
    first = more + log_of(float(np.vdot(u, u)))
    return log_decay(first, method.rate(g), query, weighted=method.accelerated)


def exchanges_log_bound(method: A2CiD2, graph: Any, x0: ArrayLike, query: Query) -> Array:
    """The same for the exchanges of A²CiD² alone; k counts exchanges."""
    if isinstance(graph, tuple):
        raise ValueError(
            "no theorem here covers the gradients of A²CiD²; give the graph alone, for the bound "
            "of its exchanges"
        )
    g = check_graph(graph)
    if query.t is not None:
        query = query._replace(t=method.edge_rate(g) * query.t)
    return gossip_log_bound(Gossip(method.accelerated, damping=1.0), g, x0, query)


def dual_log_bound(method: Dual, pair: Any, y0: ArrayLike, query: Query) -> Array:
    """The logarithm of the bound on E mean_i |w_i - x*|^2, at times t or at the k-th event."""
    from continuized.network.optimisation.local_solver import DualFunction

    graph, objective = check_pair(pair)
    D, y = DualFunction(objective), check_dual_start(y0, objective)
    excess = max(D.value(y) - D.minimum, 0.0)
    scale = math.log(2.0 / (objective.mu * objective.nodes))
    if not method.accelerated:
        return log_decay(scale + log_of(excess), method.rate(graph, objective), query)
    gap = y - objective.slopes_at_minimiser()
    distance = float(np.vdot(gap, gap)) / graph.mu_g
    process = method.process(graph, objective)
    return np.asarray(scale + continuized_bound(process, distance, lambda: excess, query))[()]


def dadao_log_bound(method: DADAO, pair: Any, x0: ArrayLike, query: Query) -> Array:
    """The logarithm of the bound on E mean_i |x_i - x*|^2, at times t or at the k-th event."""
    graph, objective = check_pair(pair, "DADAO")
    check_dadao_start(x0)
    rate = method.rate(graph, objective)
    return log_decay(log_of(dadao_constant(objective)), rate, query, weighted=True)


def dadao_constant(objective: Objective) -> float:
    """Return C of DADAO's bound."""
    L, mu, x_star = objective.L, objective.mu, objective.x_star
    excess = max(objective.fun(np.zeros_like(x_star)) - objective.f_star, 0.0)
    slopes = objective.slopes_at_minimiser()
    apart = float(np.vdot(slopes, slopes)) / objective.nodes
    return (
        4.0 * excess / mu
        + 0.875 * apart / mu / L
        + 0.1875 * mu / L * float(np.vdot(x_star, x_star))
    )


def check_graph(graph: Any) -> Graph:
    """Return a Graph, or what `Graph.of` makes one of when it is a spec."""
    if isinstance(graph, Graph | str):
        return Graph.of(graph)
    raise TypeError(f"gossip runs on a Graph, or a spec of one, got {check.short_repr(graph)}")


def centre(graph: Graph, x0: ArrayLike) -> Array:
    """Return x_0 - mean, as (nodes, columns)."""
    x = check.array(x0, "x0", dtype=np.float64, finite=True)
    if x.ndim not in (1, 2) or len(x) != graph.nodes:
        raise ValueError(f"x0 must have a row for each of {graph.nodes} nodes, got {x.shape}")
    x = x.reshape(graph.nodes, -1)
    return np.asarray(x - x.mean(axis=0))


def check_pair(pair: Any, name: str = "the dual method") -> tuple[Graph, Objective]:
    """Return a graph, and a function for each of its nodes."""
    two = isinstance(pair, tuple) and len(pair) == 2
    if not two or not isinstance(pair[1], Objective):
        raise TypeError(f"{name} runs on a pair (graph, Objective), got {check.short_repr(pair)}")
    graph = Graph.of(pair[0])
    check_fits(graph, pair[1])
    return graph, pair[1]


def check_dual_start(y0: ArrayLike, objective: Objective) -> Array:
    """Return y_0 = z_0, a row to a node; the rows must sum to 0."""
    given = check.array(y0, "x0", dtype=np.float64, finite=True)
    if given.ndim > 0:
        check.shape(given, "x0", (objective.nodes, objective.dim), like="the dual variables")
    y: Array = np.zeros((objective.nodes, objective.dim)) + given
    if np.abs(y.sum(axis=0)).max() > 1e-9 * max(1.0, float(np.abs(y).max())):
        raise ValueError("x0, the dual start, must have rows that sum to 0; give 0")
    return y


def check_dadao_start(x0: ArrayLike) -> None:
    """Raise ValueError unless x0 is 0: all six vectors of a node start there."""
    if np.any(check.array(x0, "x0") != 0.0):
        raise check.refusal(ValueError, "x0", "0, where DADAO starts", x0)
