"""The largest effective resistance of a graph that mixes quickly, edge by edge, with bounds.

For b = e_i - e_j, k steps of Lanczos with Lambda from b give the Gauss quadrature of b^T Lambda^+ b,
a lower bound, and with the knowledge that no eigenvalue but 0 is below mu_g, the Gauss-Radau
quadrature, an upper bound (Golub and Meurant 2010, chapter 6).  After k steps the vectors are
nonzero within k edges of the edge only: the work is local.

An edge is given up as soon as its upper bound shows that it cannot be the largest by more than TOL.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.problems.base import Array

TOL = 0.01  # relative: an edge is settled when its bounds are so close
NODES = 20_000  # touched for an edge, before its bounds are taken as they are
STEPS = 200


def largest(nodes: int, edges: Array, P: Array, mu_g: float) -> tuple[float, float]:
    """Bounds of R, where mu_g is the gap from below."""
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
    low, high = _compiled()(
        indptr, both[sorted_by, 1], weight[sorted_by], strength, edges[order], P[order], mu_g,
        float(below.max()), TOL, NODES, STEPS,
    )  # fmt: skip
    return float(low), float(high)


@cache
def _compiled() -> Any:
    from continuized.jit import compile_formulas, jit

    compile_formulas(_grow, _advance)
    return jit(_largest)


def _largest(
    indptr: Array, neighbours: Array, weight: Array, strength: Array, edges: Array, P: Array,
    mu_g: float, low: float, tol: float, most: int, steps: int,
) -> tuple[float, float]:  # fmt: skip
    """The largest lower and the largest upper bound over the edges."""
    n = len(strength)
    before, now, after = np.zeros(n), np.zeros(n), np.zeros(n)
    seen = np.zeros(n, np.bool_)
    touched = np.zeros(n, np.int64)
    high = low
    for e in range(len(edges)):
        i, j = edges[e]
        touched[0], touched[1] = i, j
        seen[i] = seen[j] = True
        inner, count = 0, 2
        now[i], now[j] = 0.5**0.5, -(0.5**0.5)
        beta2 = 0.0
        lower, upper = 0.0, 1.0 / P[e]  # no edge resists more than it would alone
        c2, delta, shifted = 1.0, 1.0, 1.0
        for k in range(steps):
            inner, count = count, _grow(indptr, neighbours, touched, seen, inner, count)
            alpha, beta2_next = _advance(
                indptr, neighbours, weight, strength, touched[:count], before, now, after,
                beta2**0.5,
            )  # fmt: skip
            # The pivots of T, and of T - mu_g; |b|^2 = 2.
            if k > 0:
                c2 *= beta2 / delta**2
            delta = alpha - (beta2 / delta if k > 0 else 0.0)
            shifted = alpha - mu_g - (beta2 / shifted if k > 0 else 0.0)
            lower += 2.0 * c2 / delta
            beta2 = beta2_next
            if beta2 <= 1e-24 * strength[i] ** 2:  # the Krylov space is exhausted
                upper = min(upper, lower * (1.0 + 1e-9))
                break
            if shifted <= 0.0:  # rounding: an eigenvalue of T has come down to mu_g
                break
            last = mu_g + beta2 / shifted - beta2 / delta
            upper = min(upper, lower + 2.0 * c2 * beta2 / (delta * delta * last))
            if upper <= (1.0 + tol) * max(low, lower) or count > most:
                break
            before, now, after = now, after, before
        low = max(low, lower)
        high = max(high, upper)
        for s in range(count):
            node = touched[s]
            before[node] = now[node] = after[node] = 0.0
            seen[node] = False
    return low, high


def _grow(
    indptr: Array, neighbours: Array, touched: Array, seen: Array, inner: int, count: int
) -> int:
    """Touch the neighbours of what was touched last."""
    end = count
    for s in range(inner, count):
        for q in range(indptr[touched[s]], indptr[touched[s] + 1]):
            node = neighbours[q]
            if not seen[node]:
                seen[node] = True
                touched[end] = node
                end += 1
    return end


def _advance(
    indptr: Array, neighbours: Array, weight: Array, strength: Array, touched: Array,
    before: Array, now: Array, after: Array, beta: float,
) -> tuple[float, float]:  # fmt: skip
    """A step of Lanczos: alpha, the square of the next beta, and `after` of unit length."""
    alpha = 0.0
    for node in touched:
        total = strength[node] * now[node]
        for q in range(indptr[node], indptr[node + 1]):
            total -= weight[q] * now[neighbours[q]]
        after[node] = total - beta * before[node]
        alpha += total * now[node]
    square = 0.0
    for node in touched:
        after[node] -= alpha * now[node]
        square += after[node] ** 2
    if square > 0.0:
        for node in touched:
            after[node] /= square**0.5
    return alpha, square
