"""The rates with which accelerated gossip is fastest: a concave problem, solved with a certificate.

Over the probabilities P of the edges, theta(P) = sqrt(mu_g C / 2) is to be largest, where

- mu_g = min v^T Lambda(P) v over unit vectors v orthogonal to the constants, and
- C = 1/R = min_e C_e, C_e = min f^T Lambda(P) f over f with f_i - f_j = 1 (Dirichlet's principle)

are minima of functions linear in P.  So both are concave and homogeneous, and so is their
geometric mean: by sqrt(ab) = min_s (s a + b/s) / 2, theta is a minimum of linear functions too.

Each eigenvector, each potential f = Lambda^+ (e_i - e_j) / R_e and each s met so far is a cut: an
upper bound of theta that is linear in P.  A linear programme maximises the lowest of the cuts: its
value bounds theta from above for all P (the certificate, good to the programme's tolerance, 1e-7),
and its solution is where to look next, moved half-way to the best P so far, because cutting planes
alone jump about.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from continuized.network.graphs.spectrum import dense_laplacian
from continuized.problems.base import Array
from continuized.support import blas
from continuized.support import validation as check

MOST_NODES = 300  # every step takes all eigenvalues and a linear programme
CUTS_PER_STEP = 8  # of either kind
PROGRAMME_WORK = 1e4  # operations for an edge, about
INWARD = 0.5  # the share of the best P in the next one to be tried


class Optimised(NamedTuple):
    """The graph with the best rates found, its theta, and a bound: no rates have a larger theta.

    >>> from continuized.network import Graph
    >>> best = Graph.of("star:4").optimise_rates()
    >>> bool(best.theta >= 0.999 * best.bound), best.graph.P.round(3).tolist()
    (True, [0.333, 0.333, 0.333])
    """

    graph: Any
    theta: float
    bound: float


class Cuts(NamedTuple):
    """What is known at one P: the cuts of v and of f as rows over the edges, mu_g and C."""

    gaps: Array
    conductances: Array
    mu_g: float
    C: float

    @property
    def theta(self) -> float:
        """The rate of accelerated gossip at this P."""
        return math.sqrt(0.5 * self.mu_g * self.C)


def optimise(graph: Any, tol: float, maxiter: int) -> Optimised:
    """Find the best rates of a graph, from those that it has: see `Graph.optimise_rates`.

    Every P_e of the answer is > 0.
    """
    if graph.nodes > MOST_NODES:
        raise ValueError(
            f"optimise_rates is for at most {MOST_NODES} nodes, this graph has {graph.nodes}"
        )
    tol = check.real(tol, "tol", above=0.0, below=1.0)
    maxiter = check.whole(maxiter, "maxiter", minimum=0)
    _ = graph.mu_g_range  # refuses rates of which rounding leaves nothing, to begin with
    work = maxiter * (float(graph.nodes) ** 3 + PROGRAMME_WORK * len(graph.edges))
    return blas.compute(work, _optimise, graph, tol, maxiter)


def _optimise(graph: Any, tol: float, maxiter: int) -> Optimised:
    nodes, P = graph.nodes, graph.P
    best, theta, bound, met = P, 0.0, math.inf, []
    for left in range(maxiter, -1, -1):
        met.append(find_cuts(nodes, graph.edges, P))
        if met[-1].theta > theta:
            best, theta = P, met[-1].theta
        if left:
            corner, bound_now = _raise_lowest_cut(met)
            bound = min(bound, bound_now)
            if theta >= (1.0 - tol) * bound:
                break
            P = INWARD * best + (1.0 - INWARD) * corner
    return Optimised(replace(graph, P=best / best.sum()), theta, bound)


def find_cuts(nodes: int, edges: Array, P: Array) -> Cuts:
    """Find mu_g, C and the cuts at P: v and f of the lowest eigenvalues and conductances."""
    i, j = edges.T
    values, V = np.linalg.eigh(dense_laplacian(nodes, edges, P))
    values, V = values[1:], V[:, 1:]  # without the constants
    across = V[i] - V[j]  # (m, n - 1)
    resistances = (across**2 / values).sum(axis=1)
    rows = np.argsort(-resistances)[:CUTS_PER_STEP]
    f = (across[rows] / values) @ V.T / resistances[rows, None]
    return Cuts(
        across[:, :CUTS_PER_STEP].T ** 2,
        (f[:, i] - f[:, j]) ** 2,
        float(values[0]),
        1.0 / float(resistances.max()),
    )


def _raise_lowest_cut(met: list[Cuts]) -> tuple[Array, float]:
    """Find the P at which the lowest of all cuts is highest, and how high it is there.

    Unknowns (P, a, b, h): a <= every gaps P, b <= every conductances P, h <= (s a + b/s) / 2
    for every s, sum P = 1; h, which is sqrt(2) theta there, is maximised.
    """
    from scipy.optimize import linprog

    gaps = np.vstack([cuts.gaps for cuts in met])
    conductances = np.vstack([cuts.conductances for cuts in met])
    s = np.array([math.sqrt(cuts.C / cuts.mu_g) for cuts in met])
    m, (a, b, _) = gaps.shape[1], np.eye(3)
    # In units in which a, b and h are of order 1: those of the first cuts.
    unit_a, unit_b = 1.0 / s[0], s[0]
    scale = float(np.median(gaps[0] / unit_a))
    scale = scale if scale > 0.0 else 1.0
    rows = np.vstack([
        np.hstack([-gaps / unit_a / scale, np.tile(a, (len(gaps), 1))]),
        np.hstack([-conductances / unit_b / scale, np.tile(b, (len(conductances), 1))]),
        np.column_stack([
            np.zeros((len(s), m)), -0.5 * s * unit_a, -0.5 / s * unit_b, np.ones(len(s))
        ]),
    ])  # fmt: skip
    found = linprog(
        np.append(np.zeros(m + 2), -1.0),
        A_ub=rows,
        b_ub=np.zeros(len(rows)),
        A_eq=np.append(np.ones(m), np.zeros(3))[None],
        b_eq=[1.0],
        bounds=[(0.0, None)] * (m + 3),
        method="highs",
    )
    if found.status != 0:
        raise ArithmeticError(f"the linear programme of optimise_rates failed: {found.message}")
    return found.x[:m], float(found.x[-1]) * scale / math.sqrt(2.0)
