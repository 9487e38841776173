"""Exact second moments of the dual method on ridge: E mean_i |w_i - x*|^2 with no sampling.

For f_i(w) = <w, H_i w>/2 - <h_i, w> + const, w_i - x* = H_i^{-1} (y_i - y*_i), so that an exchange
is linear in u = y - y*: it is `exchange_moments` with K of the blocks H_i^{-1}, in 3 (n dim)^2
unknowns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs.graph import Graph
from continuized.network.graphs.spectrum import laplacian
from continuized.network.optimisation.dual.method import Dual
from continuized.network.optimisation.objective import Objective
from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.theory.bounds.dual import checked_pair, checked_start
from continuized.theory.checks import checked_times
from continuized.theory.moments.exchange import Exchanges, exchange_moments
from continuized.theory.moments.pair import Moments

LARGEST = 400  # nodes times dimension


def dual_moments(
    pair: Any, method: Dual, y0: ArrayLike, times: ArrayLike | None, sigma2: float = 0.0
) -> Moments:
    """E mean_i |w_i - x*|^2 in `fun`, which `theory.bound` bounds, and E |z - y*|^2 in `z2`.

    xx, xz and zz have a column to a node, of y - y* and z - y*.  Relative accuracy about 1e-9.
    """
    from continuized.network.optimisation.dual.function import DualFunction

    graph, objective, t = checked_exact(pair, "the dual method", times, sigma2, LARGEST)
    u = checked_start(y0, objective) - DualFunction(objective).minimiser
    K = np.linalg.inv(objective.hessians())
    by = _exchanges(graph, K)
    first = np.multiply.outer(u.ravel(), u.ravel())
    constants = method.constants(graph, objective)
    fun, rows = np.empty(len(t)), np.empty((len(t), 3, graph.nodes))
    for k, m in enumerate(exchange_moments(by, constants, method.accelerated, first, t)):
        # The trace of K A K, by nodes, and those of A, B and C.
        blocks = np.stack([_blocks(A, objective.dim) for A in m])
        own = blocks[:, np.arange(graph.nodes), :, np.arange(graph.nodes), :]
        fun[k] = np.einsum("iab,ibc,ica->", K, own[:, 0], K) / graph.nodes
        rows[k] = np.einsum("imaa->mi", own)
    xx, xz, zz = rows[:, 0], rows[:, 1], rows[:, 2]
    return Moments(t, None, fun, zz.sum(axis=1), xx, xz, zz)


def checked_exact(
    pair: Any, name: str, times: ArrayLike | None, sigma2: float, largest: int
) -> tuple[Graph, Objective, Array]:
    """The graph, the functions and the times, where the moments of the method can be computed."""
    graph, objective = checked_pair(pair, name)
    if times is None:
        raise ValueError(f"the moments of {name} are for fixed times: give times, not k=")
    if objective.loss != SQUARED:
        raise TypeError(
            f"the moments of {name} are exact on least squares only; on the logistic loss average "
            "over runs of network.minimize"
        )
    if sigma2 > 0.0:
        raise ValueError(f"{name} has exact gradients: sigma2 must be 0")
    size = objective.nodes * objective.dim
    if size > largest:
        raise ValueError(
            f"exact moments of {name} are for nodes times dimension at most {largest}, not {size}"
        )
    return graph, objective, np.atleast_1d(checked_times(times, "times", ordered=True))


def _blocks(A: Array, dim: int) -> Array:
    """A matrix by (node, coordinate, node, coordinate)."""
    n = len(A) // dim
    return A.reshape(n, dim, n, dim)


def _exchanges(graph: Graph, K: Array) -> Exchanges:
    nodes, dim = K.shape[:2]
    Lambda = laplacian(nodes, graph.edges, graph.P)

    def pull(A: Array) -> Array:
        KA = K @ A.reshape(nodes, dim, -1)
        return np.asarray(Lambda @ KA.reshape(nodes, -1)).reshape(A.shape)

    return Exchanges(pull, _spread(graph, K), dim)


def _spread(graph: Graph, K: Array) -> Callable[[Array], Array]:
    """A -> S: P_e b_e b_e^T in the nodes, times D_e = b_e^T K A K b_e in the coordinates."""
    dim = K.shape[1]
    i, j = graph.edges.T

    def spread(A: Array) -> Array:
        a = _blocks(A, dim)
        # One block for an edge and a pair of its ends, K_i A_ij K_j.
        ii, jj, ij = (K[p] @ a[p, :, q, :] @ K[q] for p, q in ((i, i), (j, j), (i, j)))
        D = graph.P[:, None, None] * (ii + jj - ij - ij.transpose(0, 2, 1))
        S = np.zeros_like(A)
        s = _blocks(S, dim)
        s[i, :, j, :] = s[j, :, i, :] = -D
        own = np.zeros_like(K)
        for end in (i, j):
            np.add.at(own, end, D)
        nodes = np.arange(len(K))
        s[nodes, :, nodes, :] = own
        return S

    return spread
