"""Compiled: A²CiD²'s stochastic gradients and exchanges."""

from __future__ import annotations

import numpy as np

from continuized.jit import jit
from continuized.network.optimisation.conjugates import Data, gradient, slope
from continuized.network.optimisation.dual_events import mix_node
from continuized.network.rules import Constants, paid
from continuized.problems.base import Array


@jit
def batch_slope(data: Data, i: int, w: Array, draws: Array, out: Array, part: Array) -> None:
    """The mean over drawn rows of (number of rows) times the gradient of one: unbiased."""
    begin, count = data.starts[i], data.starts[i + 1] - data.starts[i]
    for c in range(w.size):
        out[c] = 0.0
    for u in draws:
        r = begin + min(int(u * count), count - 1)
        one = slice(r, r + 1)
        weights = data.weights[one] * count
        slope(data.kind, data.X[one], data.y[one], weights, data.l2[i], w, part)
        for c in range(w.size):
            out[c] += part[c] / draws.size


@jit
def run_events(
    edges: Array, times: Array, marks: Array, draws: Array, own: Array, x: Array, xt: Array,
    data: Data, constants: Constants, step: float, counts: Array,
) -> None:  # fmt: skip
    """Marks below the number of edges are exchanges, the others gradients of nodes.

    draws (events, batch): uniform numbers in [0, 1) by which rows are chosen; no columns, no
    noise.
    """
    eta, alpha, alpha_tilde = constants
    m = edges.shape[0]
    g, part = np.empty(x.shape[1]), np.empty(x.shape[1])
    for k in range(times.size):
        mark, t = marks[k], times[k]
        counts[mark] += 1
        if mark >= m:
            i = mark - m
            mix_node(x[i], xt[i], t - own[i], eta)
            own[i] = t
            if draws.shape[1] == 0:
                gradient(data, i, x[i], g)
            else:
                batch_slope(data, i, x[i], draws[k], g, part)
            for c in range(g.size):
                x[i, c], xt[i, c] = paid(x[i, c], xt[i, c], g[c], step, step)
            continue
        i, j = edges[mark, 0], edges[mark, 1]
        for v in (i, j):
            mix_node(x[v], xt[v], t - own[v], eta)
            own[v] = t
        for c in range(g.size):
            d = x[i, c] - x[j, c]
            x[i, c], xt[i, c] = paid(x[i, c], xt[i, c], d, alpha, alpha_tilde)
            x[j, c], xt[j, c] = paid(x[j, c], xt[j, c], -d, alpha, alpha_tilde)


@jit
def states_at(t: float, own: Array, x: Array, xt: Array, eta: float) -> Array:
    """x of every node at time t; the nodes themselves are left as they are."""
    there = x.copy()
    for i in range(own.size):
        mix_node(there[i], xt[i].copy(), t - own[i], eta)
    return there
