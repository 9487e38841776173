"""Exact second moments of exchanges over edges: gossip, and the dual method on ridge.

u and w are x and z about their limit, b_e = e_i - e_j for the edge e = ij, and when it ticks,
G = b_e b_e^T K: for gossip K is the identity, and for the dual method it takes y to the estimates.
So E[G] A = Lambda K A, and E[G A G^T] = sum_e P_e b_e (b_e^T K A K b_e) b_e^T = S.

A plain method has w = u, and A' = -gamma (Lambda K A + A K Lambda) + gamma^2 S is all there is.
Multiplied by K^{1/2} from both sides, this map is symmetric; S, which is not negative, only
shortens its steps, so that its eigenvalues are in [-2 gamma rho, 0], rho the largest of Lambda K.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Constants, Gossip
from continuized.network.graphs.graph import Graph
from continuized.network.graphs.spectrum import laplacian
from continuized.network.optimisation.dual import Dual
from continuized.network.optimisation.objective import Objective
from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.support.progress import Bar, silent
from continuized.theory.bounds.network import centre, check_dual_start, check_graph, check_pair
from continuized.theory.moments.integrate import exponentiate, integrate_moments
from continuized.theory.moments.pair import Moments, PairMoments, Rates, jump, symmetrise

LARGEST = 400  # nodes, times the dimension for the dual method


class EdgeMarks:
    """The marks of a graph; K has a block (dim, dim) to a node, or is the identity."""

    noise = 0.0

    def __init__(self, graph: Graph, K: Array | None = None) -> None:
        from scipy.sparse import csr_array

        self.graph, self.K = graph, K
        self.dim = 1 if K is None else K.shape[1]
        self.steps = self.weights = np.ones(graph.nodes * self.dim)
        self.laplacian = laplacian(graph.nodes, graph.edges, graph.P)
        count = np.arange(len(graph.edges))
        ends = graph.edges.ravel(), np.repeat(count, 2)
        self.incidence = csr_array((np.ones(ends[0].size), ends), (graph.nodes, len(count)))
        i, j, nodes = *graph.edges.T, np.arange(graph.nodes)
        pairs = (i, i), (j, j), (i, j), (j, i), (nodes, nodes)
        self.ii, self.jj, self.ij, self.ji, self.own = (self._find_blocks(*p) for p in pairs)

    def _find_blocks(self, i: Array, j: Array) -> Array:
        """Where the blocks (dim, dim) of pairs of nodes are in a matrix, in memory order."""
        c = np.arange(self.dim)
        rows, columns = ((self.dim * nodes)[:, None] + c for nodes in (i, j))
        return np.asarray(self.steps.size * rows[:, :, None] + columns[:, None, :])

    def pull(self, A: Array) -> Array:
        """Return Lambda K A."""
        nodes, KA = self.graph.nodes, A
        if self.K is not None:
            KA = self.K @ A.reshape(nodes, self.dim, -1)
        return np.asarray(self.laplacian @ KA.reshape(nodes, -1)).reshape(A.shape)

    def spread(self, A: Array) -> Array:
        """Return S, from one block (dim, dim) for an edge, P_e b_e^T K A K b_e."""
        ii, jj, ij = A.take(self.ii), A.take(self.jj), A.take(self.ij)
        if self.K is not None:
            K_i, K_j = self.K[self.graph.edges.T]
            ii, jj, ij = K_i @ ii @ K_i, K_j @ jj @ K_j, K_i @ ij @ K_j
        of_edge = self.graph.P[:, None, None] * (ii + jj - ij - ij.transpose(0, 2, 1))
        S = np.zeros_like(A)
        S.put(self.ij, -of_edge)
        S.put(self.ji, -of_edge)
        S.put(self.own, self.incidence @ of_edge.reshape(len(of_edge), -1))
        return S

    def follow(
        self,
        constants: Constants,
        accelerated: bool,
        start: Array,
        times: Array,
        show: Bar = silent,
    ) -> Iterator[PairMoments]:
        """Yield (A, B, C) at increasing times, or (A,) for a plain method, from A = `start`."""
        project = partial(remove_means, dim=self.dim)
        if accelerated:
            rates = Rates.constant(*constants)
            return integrate_moments(rates, self, np.stack([start] * 3), times, project, show)
        gamma = constants.gamma

        def slope(m: Array) -> Array:
            A = 0.5 * (m[0] + m[0].T)
            pull = self.pull(A)
            return np.asarray(jump(gamma, gamma, self.spread(A), pull, pull.T))[None]

        # A norm of Lambda K, which no eigenvalue exceeds.
        radius = gamma * float(np.linalg.norm(self.pull(np.eye(len(start))), np.inf))
        return exponentiate(slope, start[None], times, radius, project)

    def traces(self, m: PairMoments) -> Array:
        """Sum the diagonal of each matrix over the coordinates of each node."""
        diagonals = np.diagonal(m, axis1=1, axis2=2)
        return np.asarray(diagonals.reshape(len(m), -1, self.dim).sum(axis=2))


def remove_means(m: Array, dim: int) -> Array:
    """Make rows and columns of every matrix sum to 0 over the nodes, and A and C symmetric.

    What rounding leaves of the rest does not decay.
    """
    shape = m.shape
    m = m.reshape(len(m), -1, dim, shape[1])
    m = (m - m.mean(axis=1, keepdims=True)).reshape(*shape[:2], -1, dim)
    m = (m - m.mean(axis=2, keepdims=True)).reshape(shape)
    return symmetrise(m)


def gossip_moments(graph: Any, method: Gossip, x0: ArrayLike, t: Array, show: Bar) -> Moments:
    """E |x_t - mean|^2 in `fun`, E |z_t - mean|^2 in `z2`, and a column to a node in xx, xz, zz.

    They are sums over the columns of x.  Relative accuracy about 1e-9.  For at most 400 nodes;
    the time grows with t[-1].
    """
    g = check_graph(graph)
    if g.nodes > LARGEST:
        raise ValueError(f"exact moments are for at most {LARGEST} nodes, the graph has {g.nodes}")
    u, edges = centre(g, x0), EdgeMarks(g)
    rows = np.empty((len(t), 3, g.nodes))
    for k, m in enumerate(edges.follow(method.constants(g), method.accelerated, u @ u.T, t, show)):
        rows[k] = edges.traces(m)
    return Moments.from_rows(t, None, rows[:, 0].sum(axis=1), rows)


def dual_moments(pair: Any, method: Dual, y0: ArrayLike, t: Array, show: Bar) -> Moments:
    """E mean_i |w_i - x*|^2 in `fun`, which `theory.bound` bounds, and E |z - y*|^2 in `z2`.

    For f_i(w) = <w, H_i w>/2 - <h_i, w> + const, w_i - x* = H_i^{-1} (y_i - y*_i): K has the blocks
    H_i^{-1}.  xx, xz and zz have a column to a node, of y - y* and z - y*.  Relative accuracy about
    1e-9.
    """
    graph, objective = check_ridge(pair, "the dual method", LARGEST)
    u = (check_dual_start(y0, objective) - objective.slopes_at_minimiser()).ravel()
    K = np.linalg.inv(objective.hessians())
    edges, constants = EdgeMarks(graph, K), method.constants(graph, objective)
    fun, rows = np.empty(len(t)), np.empty((len(t), 3, graph.nodes))
    for k, m in enumerate(edges.follow(constants, method.accelerated, np.outer(u, u), t, show)):
        A = m[0].take(edges.own)
        fun[k] = np.einsum("iab,ibc,ica->", K, A, K) / graph.nodes  # the trace of K A K
        rows[k] = edges.traces(m)
    return Moments.from_rows(t, None, fun, rows)


def check_ridge(pair: Any, name: str, largest: int) -> tuple[Graph, Objective]:
    """Return the graph and the functions, where the moments of the method can be computed."""
    graph, objective = check_pair(pair, name)
    if objective.loss != SQUARED:
        raise TypeError(
            f"the moments of {name} are exact on least squares only; on the logistic loss average "
            "over runs of network.minimize"
        )
    size = objective.nodes * objective.dim
    if size > largest:
        raise ValueError(
            f"exact moments of {name} are for nodes times dimension at most {largest}, not {size}"
        )
    return graph, objective
