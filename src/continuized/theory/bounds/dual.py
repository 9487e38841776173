"""Bounds for the dual method of decentralised optimisation, proved in docs/proofs/dual.md.

D(y) = sum_i f_i*(y_i) over y with sum_i y_i = 0; f_i is mu-strongly convex and L-smooth.
Accelerated: E D(y_t) - D* <= (D(y_0) - D* + |y_0 - y*|^2 / (2L)) e^{-theta t}.  Plain: the rate is
mu mu_g / (2L), of D(y_0) - D*.  The guesses have sum_i |w_i - x*|^2 <= (2/mu) (D(y) - D*).
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

    graph, objective = check_pair(pair)
    if sigma2 > 0.0:
        raise ValueError("no theorem covers noise for the dual method; use sigma2=0")
    D, y = DualFunction(objective), check_start(y0, objective)
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


def check_pair(pair: Any, name: str = "the dual method") -> tuple[Graph, Objective]:
    """A graph, and a function for each of its nodes."""
    two = isinstance(pair, tuple) and len(pair) == 2
    if not two or not isinstance(pair[1], Objective):
        raise TypeError(f"{name} runs on a pair (graph, Objective), got {check.short_repr(pair)}")
    graph = Graph.of(pair[0])
    check_fits(graph, pair[1])
    return graph, pair[1]


def check_start(y0: ArrayLike, objective: Objective) -> Array:
    """y_0 = z_0, a row to a node."""
    given = check.array(y0, "x0", dtype=np.float64, finite=True)
    if given.ndim > 0:
        check.shape(given, "x0", (objective.nodes, objective.dim), like="the dual variables")
    y: Array = np.zeros((objective.nodes, objective.dim)) + given
    if np.abs(y.sum(axis=0)).max() > 1e-9 * max(1.0, float(np.abs(y).max())):
        raise ValueError("x0, the dual start, must have rows that sum to 0; give 0")
    return y
