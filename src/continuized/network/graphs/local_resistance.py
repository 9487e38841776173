"""Compiled: the largest effective resistance of a large graph, edge by edge, with certified bounds.

For b = e_i - e_j, steps of conjugate gradients on Lambda f = b give f and the residual
r = b - Lambda f, nonzero within as many edges of the edge only: the work is local.  Then
b^T Lambda^+ b is

- at least  f^T (b + r)  (for it is the maximum of 2 f^T b - f^T Lambda f);
- at most that plus the energy sum_e g_e^2 / P_e of any flow g that carries r away, here along the
  tree by which the neighbourhood was found (Thomson's principle: the flow P_e (f_i - f_j) + g_e
  brings one unit from i to j, and no such flow has less energy than b^T Lambda^+ b);
- at most that plus |r|^2 / d, d the last pivot of the Gauss-Radau rule, where no eigenvalue of
  Lambda but 0 is below mu_g (Golub and Meurant 2010, chapter 6).

The second is sharp on grids and the like, whose neighbourhoods have many cycles; the third where
the graph mixes quickly.  An edge is given up as soon as it cannot be the largest by more than TOL.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.support.jit import jit, uncounted

TOL = 0.01  # relative: an edge is done when its bounds are so close
MOST_TOUCHED = 20_000  # for an edge, before its bounds are taken as they are
MOST_STEPS = 300
VISITS_A_CALL = 1_000_000  # of nodes, before Python has its turn and hears Ctrl-C


class Limits(NamedTuple):
    """How close the bounds of an edge shall be, and how much work is done for it and in a call."""

    tol: float
    nodes: int
    steps: int
    visits: int


def bound_largest(nodes: int, edges: Array, P: Array, mu_g: float) -> tuple[float, float]:
    """Bound R from below and from above, where mu_g is a lower bound of the gap."""
    i, j = edges.T
    strength = np.bincount(edges.ravel(), np.repeat(P, 2), minlength=nodes)
    # If all nodes but i and j were one, these would be the resistances: a lower bound.
    aside_i, aside_j = strength[i] - P, strength[j] - P
    around = aside_i * aside_j / np.maximum(aside_i + aside_j, np.finfo(np.float64).tiny)
    below = 1.0 / (P + np.maximum(around, 0.0))
    order = np.argsort(-below)  # the likely largest first
    both, weight = np.concatenate([edges, edges[:, ::-1]]), np.concatenate([P, P])
    sorted_by = np.argsort(both[:, 0], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(both[:, 0], minlength=nodes))])
    around = indptr, both[sorted_by, 1].astype(np.int32), weight[sorted_by], strength
    low = high = float(below.max())
    limits, edges, P = Limits(TOL, MOST_TOUCHED, MOST_STEPS, VISITS_A_CALL), edges[order], P[order]
    while len(edges):
        done, low, high = bound_edges(around, edges, P, mu_g, low, high, limits)
        edges, P = edges[done:], P[done:]
    return float(low), float(high)


@jit
def bound_edges(
    around: tuple[Array, ...], edges: Array, P: Array, mu_g: float, low: float, high: float,
    limits: Limits,
) -> tuple[int, float, float]:  # fmt: skip
    """Return how many of the edges were looked at, and the largest lower and upper bounds, of
    these and of those before, which are given.

    around: the graph by its nodes, as the rows of a CSR array, and the sum of each row.
    """
    indptr, neighbours, weight, strength = around
    tol, most, steps, visits = limits
    n = len(strength)
    f, r, p, Ap = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    seen = np.zeros(n, np.bool_)
    touched, parent = np.zeros(n, np.int64), np.zeros(n, np.int64)
    up = np.zeros(n)  # the weight of the edge to the parent
    for e in range(len(edges)):
        if visits < 0:
            return e, low, high
        lower, upper = 0.0, 1.0 / P[e]  # no edge resists more than it would alone
        if upper <= (1.0 + tol) * low:
            high = max(high, upper)
            continue
        i, j = edges[e]
        touched[0], touched[1] = i, j
        seen[i] = seen[j] = True
        parent[j], up[j] = i, P[e]
        inner, count = 0, 2
        r[i], r[j] = 1.0, -1.0
        p[i], p[j] = 1.0, -1.0
        rr, beta, step, shifted = 2.0, 0.0, 1.0, 1.0
        for k in range(steps):
            end = _grow(indptr, neighbours, weight, touched, seen, parent, up, inner, count)
            inner, count = count, end
            visits -= count
            pAp = _apply(indptr, neighbours, weight, strength, touched[:count], p, Ap)
            # The Lanczos matrix T, from the coefficients; `shifted` is a pivot of T - mu_g.
            before = beta / (step * step) / shifted if k > 0 else 0.0
            diagonal = beta / step if k > 0 else 0.0
            step = rr / pAp
            shifted = 1.0 / step + diagonal - mu_g - before
            square = 0.0
            for node in touched[:count]:
                f[node] += step * p[node]
                r[node] -= step * Ap[node]
                square += r[node] * r[node]
            beta, rr = square / rr, square
            lower = f[i] - f[j]
            for node in touched[:count]:
                lower += f[node] * r[node]
            upper = min(upper, lower + _route(touched[:count], parent, up, r, Ap))
            if shifted > 0.0:
                last = mu_g + beta / step * (1.0 / (step * shifted) - 1.0)
                upper = min(upper, lower + rr / last)
            if upper <= (1.0 + tol) * max(low, lower) or count > most or rr <= 1e-28:
                break
            for node in touched[:count]:
                p[node] = r[node] + beta * p[node]
        low = max(low, lower)
        high = max(high, upper)
        for node in touched[:count]:
            f[node] = r[node] = p[node] = Ap[node] = 0.0
            seen[node] = False
    return len(edges), low, high


@uncounted
def _grow(
    indptr: Array, neighbours: Array, weight: Array, touched: Array, seen: Array, parent: Array,
    up: Array, inner: int, count: int,
) -> int:  # fmt: skip
    """Touch the neighbours of what was touched last; return how many nodes are touched."""
    end = count
    for s in range(inner, count):
        for q in range(indptr[touched[s]], indptr[touched[s] + 1]):
            node = neighbours[q]
            if not seen[node]:
                seen[node] = True
                touched[end], parent[node], up[node] = node, touched[s], weight[q]
                end += 1
    return end


@uncounted
def _apply(
    indptr: Array, neighbours: Array, weight: Array, strength: Array, touched: Array, p: Array,
    Ap: Array,
) -> float:  # fmt: skip
    """Put Lambda p into Ap; return p^T Lambda p."""
    total = 0.0
    for node in touched:
        value = strength[node] * p[node]
        for q in range(indptr[node], indptr[node + 1]):
            value -= weight[q] * p[neighbours[q]]
        Ap[node] = value
        total += value * p[node]
    return total


@uncounted
def _route(touched: Array, parent: Array, up: Array, r: Array, load: Array) -> float:
    """Carry r along the tree to its root, where the sum of r is 0; return the energy of that."""
    for node in touched:
        load[node] = r[node]
    energy = 0.0
    for s in range(len(touched) - 1, 0, -1):
        node = touched[s]
        energy += load[node] * load[node] / up[node]
        load[parent[node]] += load[node]
    return energy
