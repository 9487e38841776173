"""The spectral gap and the effective resistances of a weighted graph, small or large.

The theorem of accelerated gossip holds with any mu_g from below and any R from above, so what is
computed for large graphs is a range.

- Up to EXACT_UP_TO nodes: dense, exact to rounding.  That is relative to the largest eigenvalue,
  and mu_g may be so much smaller that it shows: then these are ranges, too, or are refused.
- *Narrow* graphs, whose breadth-first levels are small, as of paths, cycles and grids, have small
  separators: the Laplacian without a node is factorised, and 1/mu_g, the largest eigenvalue of
  Lambda^+, is found by Lanczos on solves.
- *Wide* graphs, such as random ones, cannot be factorised, but mix quickly: Lanczos on Lambda.
- R of a large graph is bounded edge by edge (`local_resistance`).

Lanczos starts in a random direction: that the eigenvalue it finds is the extreme one, and not the
next, is almost sure, not proved.  How far the one found can be from the Ritz value is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.support import blas

EXACT_UP_TO = 1500  # nodes
# Of mu_g: what rounding may make of it without being told, and with what it is refused.  With equal
# rates it is 6e-5 for a path of 1000 nodes that ends in a complete graph of 500, about the worst.
NEGLIGIBLE, LOST = 2e-4, 0.5
NARROW_LEVEL = 1500  # nodes in a level: the factor then has some 40 NARROW_LEVEL^2 entries
EPSILON = float(np.finfo(np.float64).eps)
SEED = 2021  # of Lanczos' first direction
TOL = 0.01  # relative: Lanczos on Lambda
MOST_STEPS = 5000  # of it
ENDED_BELOW = 1e-13  # of the largest eigenvalue: a direction no longer than this is rounding
TOL_INVERSE = 1e-9  # Lanczos on Lambda^+
MARGIN = 1e-6  # relative, on a gap from the factor
FACTOR_WORK = 1e4  # operations for a node of a large graph, about


def bound_gap(nodes: int, edges: Array, P: Array) -> tuple[float, float]:
    """Bound mu_g from below and from above."""
    dense = float(min(nodes, EXACT_UP_TO)) ** 3
    return blas.compute(dense + FACTOR_WORK * nodes, _bound_gap, nodes, edges, P)


def _bound_gap(nodes: int, edges: Array, P: Array) -> tuple[float, float]:
    if nodes <= EXACT_UP_TO:
        return _gap_dense(nodes, edges, P)
    if width(nodes, edges) <= NARROW_LEVEL:
        return _gap_narrow(nodes, edges, P)
    return _gap_wide(laplacian(nodes, edges, P))


def bound_resistance(nodes: int, edges: Array, P: Array, mu_g: float) -> tuple[float, float]:
    """Bound R from below and from above, where mu_g is a lower bound of the gap."""
    # No eigenvalue is larger than twice the largest entry of the diagonal.
    largest = 2.0 * float(np.bincount(edges.ravel(), np.repeat(P, 2)).max())
    if nodes <= EXACT_UP_TO:
        R = float(resistances(nodes, edges, P).max())
        rounding = _bound_rounding(nodes, largest)
        return _widen(R, R * rounding / (mu_g + rounding))  # mu_g is less by its own already
    # The bounds of an edge shift eigenvalues by mu_g: it must not be lost in their rounding.
    _check_is_left(P, mu_g, EPSILON * largest)
    from continuized.network.graphs import local_resistance  # which brings Numba with it

    return local_resistance.bound_largest(nodes, edges, P, mu_g)


def laplacian(nodes: int, edges: Array, P: Array) -> Any:
    """Build Lambda as a sparse array."""
    from scipy.sparse import csr_array

    i, j = edges.T
    rows, columns = np.concatenate([i, j, i, j]), np.concatenate([j, i, i, j])
    return csr_array((np.concatenate([-P, -P, P, P]), (rows, columns)), shape=(nodes, nodes))


def dense_laplacian(nodes: int, edges: Array, P: Array) -> Array:
    """Build Lambda as an array, without SciPy, whose import takes longer than a small graph."""
    i, j = edges.T
    Lambda = np.zeros((nodes, nodes))
    Lambda[i, j] = Lambda[j, i] = -P
    np.fill_diagonal(Lambda, np.bincount(edges.ravel(), np.repeat(P, 2), minlength=nodes))
    return Lambda


def width(nodes: int, edges: Array) -> int:
    """Count the nodes of the largest breadth-first level, seen from a node at the rim."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    graph = csr_array((np.ones(len(edges)), edges.T), shape=(nodes, nodes))
    first = dijkstra(graph, directed=False, unweighted=True, indices=0)
    far = int(np.argmax(first))
    levels = dijkstra(graph, directed=False, unweighted=True, indices=far)
    return int(np.bincount(levels.astype(np.int64)).max())


def resistances(nodes: int, edges: Array, P: Array) -> Array:
    """Compute (e_i - e_j)^T Lambda^+ (e_i - e_j) of every edge, exact to rounding.

    For rates of which `bound_gap` finds the gap: of others it has no digits.
    """
    if nodes > EXACT_UP_TO:
        raise ValueError(
            f"all resistances are for graphs of up to {EXACT_UP_TO} nodes, this one has {nodes}; "
            "R_range bounds the largest"
        )
    # Adding a constant to all entries makes Lambda invertible, and changes no resistance.
    shifted = dense_laplacian(nodes, edges, P) + P.mean() / nodes
    inverse = blas.compute(2.0 * nodes**3, np.linalg.inv, shifted)
    i, j = edges.T
    found: Array = inverse[i, i] + inverse[j, j] - 2.0 * inverse[i, j]
    return found


def _gap_dense(nodes: int, edges: Array, P: Array) -> tuple[float, float]:
    values = np.linalg.eigvalsh(dense_laplacian(nodes, edges, P))
    gap, rounding = float(values[1]), _bound_rounding(nodes, float(values[-1]))
    _check_is_left(P, gap, rounding)
    return _widen(gap, rounding)


def _check_is_left(P: Array, gap: float, rounding: float) -> None:
    """Refuse rates with which rounding leaves nothing of the spectral gap."""
    if not rounding <= LOST * gap:
        raise ValueError(
            f"the rates of the edges differ by a factor of {P.max() / P.min():.2g}, which leaves a "
            f"spectral gap of about {max(gap, 0.0):.2g} that rounding alone may change by "
            f"{rounding:.2g}; give rates that differ by less, or leave out edges that hardly ever "
            "tick, with the nodes that only they join"
        )


def _bound_rounding(nodes: int, largest: float) -> float:
    """Bound what rounding does to an eigenvalue, where `largest` is the largest of them.

    On random graphs of 3 to 12 nodes with rates that differ by 1e6 to 1e15 it was at most 0.3 of
    this; and the relative error of R, at most 0.12 of this over mu_g.
    """
    return nodes * EPSILON * largest


def _widen(found: float, rounding: float) -> tuple[float, float]:
    """Return the range of what was found, one number where rounding is negligible."""
    if rounding <= NEGLIGIBLE * found:
        return found, found
    return found - rounding, found + rounding


def _gap_narrow(nodes: int, edges: Array, P: Array) -> tuple[float, float]:
    """Bound mu_g by Lanczos on Lambda^+, whose largest eigenvalue is 1/mu_g; a solve applies it.

    A solve may lose as many digits as the gap is small, 8 of them on a path of a million nodes;
    sum_e P_e (v_i - v_j)^2 loses none, and bounds mu_g from above.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh, splu

    # Lambda without node 0, rows and columns in the same order.
    factor = splu(
        laplacian(nodes, edges, P)[1:, 1:].tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def solve(v: Array) -> Array:
        v = v.ravel() - v.mean()
        out = np.concatenate([[0.0], factor.solve(v[1:])])
        return np.asarray(out - out.mean())

    operator = LinearOperator((nodes, nodes), matvec=solve, dtype=np.float64)
    v = eigsh(operator, k=1, which="LA", tol=TOL_INVERSE, v0=_draw_direction(nodes))[1][:, 0]
    image = solve(v)
    found = float(v @ image)
    error = float(np.linalg.norm(image - found * v))
    v = image - image.mean()
    high = float(P @ (v[edges[:, 0]] - v[edges[:, 1]]) ** 2 / (v @ v))
    return min(1.0 / (found + error), high) * (1.0 - MARGIN), high


def _gap_wide(Lambda: Any) -> tuple[float, float]:
    """Bound mu_g by Lanczos on Lambda beside the constants, keeping two vectors only.

    The basis loses its orthogonality, which costs steps and repeats Ritz values, but
    |beta_k s_k|, where s is the eigenvector of the tridiagonal matrix, still tells how far the Ritz
    value is from an eigenvalue, up to rounding (Paige 1980).

    A graph with few different eigenvalues, such as a star, ends the process after as many steps.
    The Ritz values are then the eigenvalues, up to rounding.  Further steps would make a basis of
    the rounding errors, and the values would be worse.
    """
    from scipy.linalg import eigh_tridiagonal

    n = Lambda.shape[0]
    before, now = np.zeros(n), _draw_direction(n)
    now /= np.linalg.norm(now)
    alpha: list[float] = []
    beta: list[float] = []
    while len(alpha) < MOST_STEPS:
        after = Lambda @ now
        alpha.append(float(now @ after))
        after -= alpha[-1] * now + (beta[-1] if beta else 0.0) * before
        after -= after.mean()  # rounding brings the constants back
        beta.append(float(np.linalg.norm(after)))
        # The largest eigenvalue is no larger than the sum.
        rounding = ENDED_BELOW * (max(alpha) + 2.0 * max(beta))
        if beta[-1] <= rounding:
            found = float(eigh_tridiagonal(alpha, beta[:-1], eigvals_only=True)[0])
            return found - rounding, found + rounding
        before, now = now, after / beta[-1]
        if len(alpha) % 20 == 0:
            value, s = eigh_tridiagonal(alpha, beta[:-1], select="i", select_range=(0, 0))
            found, error = float(value[0]), beta[-1] * abs(float(s[-1, 0]))
            if error <= TOL * found:
                return found - error, found
    raise ArithmeticError(
        f"the spectral gap of a graph of {n} nodes was not found in {MOST_STEPS} steps: it is too "
        "small for a graph with such large breadth-first levels"
    )


def _draw_direction(nodes: int) -> Array:
    v = np.random.default_rng(SEED).standard_normal(nodes)
    return np.asarray(v - v.mean())
