"""DADAO and the V of its proof, written out apart from the package, and functions to run it on.

All letters are distances from the limit, with w = y + z in place of z.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from continuized.network import Graph, Objective
from continuized.problems import LeastSquares, LogisticRegression

X, XT, Y, YT, Z, ZT = range(6)
W, G = Z, 6  # w in place of z; the slope, where it is an entry of its own


class Constants(NamedTuple):
    L: float
    nu: float
    s: float
    rate: float  # of all edges together
    chi_1: float

    @classmethod
    def of(cls, graph: Graph, L: float, mu: float) -> Constants:
        rate = math.sqrt(graph.R / graph.mu_g)
        return cls(L, mu / 2.0, math.sqrt(mu / 2.0 / L), rate, 1.0 / (rate * graph.mu_g))


class Linear(NamedTuple):
    """u' = flow u between events, u = jumps u at them.

    u is by nodes, of one variable.  A node's slope, G = grad h_i(x_i) - grad h_i(x*), is given as
    a row in its entries.
    """

    flow: np.ndarray
    jumps: list[np.ndarray]
    rates: np.ndarray
    gradients: list[np.ndarray]  # g = G - y~ of the nodes, as rows

    @classmethod
    def of(cls, graph: Graph, c: Constants, slopes: list[np.ndarray], wrong: float) -> Linear:
        n, size, s = graph.nodes, len(slopes[0]), c.s
        F, one, jumps = np.zeros((size, size)), np.eye(n * size), []
        F[X, [X, XT]], F[XT, [X, XT]] = (-s / 8, s / 8), (s / 8, -s / 8)
        F[Y, [Y, YT]] = -s / 4, s / 4
        F[YT, [W, XT]] = -1.0 / (2 * s), -c.nu / (2 * s)
        F[W, [YT, ZT, W]], F[ZT, [W, Y, ZT]] = (s / 4, s / 4, -s / 4), (s / 8, -s / 8, -s / 8)
        for i, j in graph.edges:
            b = one.reshape(n, size, -1)[i] - one.reshape(n, size, -1)[j]
            step = 0.5 * b[W] + wrong * 2.0 * c.chi_1 / s * b[ZT]
            jumps.append(one - np.outer(step, b[W]))
        gradients = []
        for i, slope in enumerate(slopes):
            e = one.reshape(n, size, -1)[i]
            gradients.append(slope @ e - e[YT])
            step = e[X] / (4.0 * c.L) + e[XT] / (4.0 * math.sqrt(c.L * c.nu))
            jumps.append(one - np.outer(step - (s / 4.0 + 1.0) * e[YT], gradients[-1]))
        rates = np.concatenate([c.rate * graph.P, np.ones(n)])
        return cls(np.kron(np.eye(n), F), jumps, rates, gradients)


def pseudo_inverse(graph: Graph, c: Constants) -> np.ndarray:
    b = np.eye(graph.nodes)[graph.edges[:, 0]] - np.eye(graph.nodes)[graph.edges[:, 1]]
    return np.asarray(np.linalg.pinv(b.T @ (c.rate * graph.P[:, None] * b)))


def form_of_V(graph: Graph, c: Constants, size: int = 6, weight_of_w: float = 1.0) -> np.ndarray:
    """The matrix of V less 8L D(x), for nodes of `size` entries."""
    n = graph.nodes
    own = np.zeros((size, size))
    own[XT, XT], own[YT, YT], own[Y, Y] = 2.0 * c.L * c.nu, 1.0, 0.5
    own[W, W] = weight_of_w * 2.0 * c.L / c.nu
    form = np.kron(np.eye(n), own).reshape(n, size, n, size)
    form[:, ZT, :, ZT] = pseudo_inverse(graph, c) / (4.0 * c.chi_1)
    return form.reshape(n * size, n * size)


def ridge(nodes: int, kappa: float, scale: float = 1.0) -> tuple[Objective, np.ndarray]:
    """Of one variable, and the curvatures; `scale` multiplies the functions."""
    rng = np.random.default_rng(nodes)
    H = scale * rng.permutation(np.geomspace(1.0 / kappa, 1.0, nodes))
    pulls = math.sqrt(scale) * rng.standard_normal(nodes)
    return Objective.of(
        [LeastSquares([[math.sqrt(h)]], [v]) for h, v in zip(H, pulls, strict=True)]
    ), H


def logistic(nodes: int, kappa: float) -> Objective:
    """Three rows of two columns to a node."""
    rng = np.random.default_rng(nodes)
    rows = 4.0 * rng.standard_normal((nodes, 3, 2))
    labels = np.sign(rng.standard_normal((nodes, 3)))
    rough = max(float(np.linalg.norm(X, 2)) ** 2 / 12.0 for X in rows)
    l2 = rough / (kappa - 1.0)
    return Objective.of(
        [LogisticRegression(X, y, l2=l2) for X, y in zip(rows, labels, strict=True)]
    )
