"""Exact second moments of exchanges over edges: gossip, and the dual method on ridge.

u and w are x and z about their limit, b_e = e_i - e_j for the edge e = ij, and when it ticks,
G = b_e b_e^T K: for gossip K is the identity, and for the dual method it takes y to the estimates.
So E[G] A = Lambda K A, and E[G A G^T] = sum_e P_e b_e (b_e^T K A K b_e) b_e^T = S.

A plain method has w = u, and A' = -gamma (Lambda K A + A K Lambda) + gamma^2 S is all there is.
Multiplied by K^{1/2} from both sides, this map is symmetric; S, which is not negative, only
shortens its steps, so that its eigenvalues are in [-2 gamma rho, 0], rho the largest of Lambda K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from continuized.support.progress import Bar
from continuized.theory.bounds.network import centre, check_dual_start, check_graph, check_pair
from continuized.theory.moments.integrate import exponentiate, integrate_moments
from continuized.theory.moments.pair import Marks, Moments, Rates, jump_slope, symmetrise

MOST_UNKNOWNS = 400  # nodes, times the dimension for the dual method
FEW_NODES = 32  # up to which dense matrices are quicker: five nodes take 0.7 of the time


def gossip_moments(graph: Any, method: Gossip, x0: ArrayLike, t: Array, show: Bar) -> Moments:
    """E |x_t - mean|^2 in `fun`, E |z_t - mean|^2 in `z2`, and a column to a node in xx, xz, zz.

    They are sums over the columns of x.  Relative accuracy about 1e-9.  For at most 400 nodes;
    the time grows with t[-1].
    """
    g = check_graph(graph)
    if g.nodes > MOST_UNKNOWNS:
        raise ValueError(
            f"exact moments are for at most {MOST_UNKNOWNS} nodes, the graph has {g.nodes}"
        )
    u = centre(g, x0)
    return _follow(g, None, method.constants(g), u @ u.T, t, show)


def dual_moments(pair: Any, method: Dual, y0: ArrayLike, t: Array, show: Bar) -> Moments:
    """E mean_i |w_i - x*|^2 in `fun`, which `theory.bound` bounds, and E |z - y*|^2 in `z2`.

    For f_i(w) = <w, H_i w>/2 - <h_i, w> + const, w_i - x* = H_i^{-1} (y_i - y*_i): K has the blocks
    H_i^{-1}.  xx, xz and zz have a column to a node, of y - y* and z - y*.  Relative accuracy about
    1e-9.
    """
    graph, objective = check_ridge(pair, "the dual method", MOST_UNKNOWNS)
    u = (check_dual_start(y0, objective) - objective.slopes_at_minimiser()).ravel()
    K, constants = np.linalg.inv(objective.hessians()), method.constants(graph, objective)
    found = _follow(graph, K, constants, np.outer(u, u), t, show)
    return found._replace(fun=found.fun / graph.nodes)


def _follow(
    graph: Graph, K: Array | None, constants: Constants, start: Array, t: Array, show: Bar
) -> Moments:
    """E |Ku|^2 in `fun`, from E uu = `start`; the rest in sums over the coordinates of a node."""
    dim, nodes = 1 if K is None else K.shape[1], np.arange(graph.nodes)
    marks, project = edge_marks(graph, K, dim), partial(remove_means, dim=dim)
    if constants.theta > 0.0:
        starts, rates = np.stack([start] * 3), Rates.constant(*constants)
        found = integrate_moments(rates, marks, starts, t, project, show=show)
    else:  # plain: w = u
        found = _follow_plain(marks, constants.gamma, start, t, project, show)
    fun, rows = np.empty(len(t)), np.empty((len(t), 3, graph.nodes))
    for k, m in enumerate(found):
        rows[k] = np.diagonal(m, axis1=1, axis2=2).reshape(len(m), -1, dim).sum(axis=2)
        fun[k] = rows[k, 0].sum()
        if K is not None:  # the trace of K A K
            A = m[0].reshape(graph.nodes, dim, graph.nodes, dim)[nodes, :, nodes]
            fun[k] = np.einsum("iab,ibc,ica->", K, A, K)
    return Moments.from_rows(t, None, fun, rows)


def _follow_plain(
    marks: Marks, gamma: float, start: Array, t: Array, project: Callable[[Array], Array], show: Bar
) -> Iterator[Array]:
    """Yield (A,) at increasing times, from A = `start`."""

    def slope(m: Array) -> Array:
        A = 0.5 * (m[0] + m[0].T)
        pull = marks.pull(A)
        return np.asarray(jump_slope(gamma, gamma, marks.spread(A), pull, pull.T))[None]

    # A norm of Lambda K, which no eigenvalue exceeds.
    radius = gamma * float(np.linalg.norm(marks.pull(np.eye(len(start))), np.inf))
    return exponentiate(slope, start[None], t, radius, project, show)


def edge_marks(graph: Graph, K: Array | None, dim: int) -> Marks:
    """Find the marks of a graph; K has a block (dim, dim) to a node, or is the identity."""
    from scipy.sparse import csr_array

    nodes, edges = graph.nodes, graph.edges
    Lambda = laplacian(nodes, edges, graph.P)
    ends = edges.ravel(), np.repeat(np.arange(len(edges)), 2)
    incidence = csr_array((np.ones(edges.size), ends), (nodes, len(edges)))
    if nodes <= FEW_NODES:
        Lambda, incidence = Lambda.toarray(), incidence.toarray()
    i, j, each = *edges.T, np.arange(nodes)

    def find_blocks(i: Array, j: Array) -> Array:
        """Where the blocks (dim, dim) of pairs of nodes are in a matrix, in memory order."""
        rows, columns = ((dim * at)[:, None] + np.arange(dim) for at in (i, j))
        return np.asarray(nodes * dim * rows[:, :, None] + columns[:, None, :])

    pairs = (i, i), (j, j), (i, j), (j, i), (each, each)
    at_ii, at_jj, at_ij, at_ji, own = (find_blocks(*pair) for pair in pairs)

    def pull(A: Array) -> Array:
        KA = A if K is None else K @ A.reshape(nodes, dim, -1)
        return np.asarray(Lambda @ KA.reshape(nodes, -1)).reshape(A.shape)

    def spread(A: Array) -> Array:
        """S, from one block (dim, dim) for an edge, P_e b_e^T K A K b_e."""
        ii, jj, ij = A.take(at_ii), A.take(at_jj), A.take(at_ij)
        if K is not None:
            K_i, K_j = K[edges.T]
            ii, jj, ij = K_i @ ii @ K_i, K_j @ jj @ K_j, K_i @ ij @ K_j
        of_edge = graph.P[:, None, None] * (ii + jj - ij - ij.transpose(0, 2, 1))
        S = np.zeros_like(A)
        S.put(at_ij, -of_edge)
        S.put(at_ji, -of_edge)
        S.put(own, incidence @ of_edge.reshape(len(of_edge), -1))
        return S

    return Marks(pull, spread, np.ones(nodes * dim), np.ones(nodes * dim))


def remove_means(m: Array, dim: int) -> Array:
    """Make rows and columns of every matrix sum to 0 over the nodes, and A and C symmetric.

    What rounding leaves of the rest does not decay.
    """
    shape = m.shape
    m = m.reshape(len(m), -1, dim, shape[1])
    m = (m - m.mean(axis=1, keepdims=True)).reshape(*shape[:2], -1, dim)
    m = (m - m.mean(axis=2, keepdims=True)).reshape(shape)
    return symmetrise(m)


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
