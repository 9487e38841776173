"""Bounds for coordinates and rows: Theorem 3 with other oracles, and the plain methods.

Write e_t for what is bounded, and u = x - x*, w = z - x*, g = grad f(x).

**Accelerated.**  phi_t = A_t e_t + B_t |w_t|^2 with the parameters (A, B) of Continuized(L, mu) is
a supermartingale, so that E e_t <= phi_0 / A_t, as in the paper, where

- coordinates: e = f - f*, L = S = max_i L_i / p_i^2.  An event changes E e by at most
  -sum_i p_i g_i^2 / (2 L_i), and E |w|^2 by -2 gamma' <g, w> + gamma'^2 sum_i g_i^2 / p_i; the last
  is paid by the first, for B gamma'^2 / p_i = A / (2 S p_i) <= A p_i / (2 L_i).  The rest of the
  proof does not see the coordinates.  Neither does this: blocks are vectors g_i, here and below,
  and L_i is such that a step of g_i / L_i lowers f by |g_i|^2 / (2 L_i) at least.
- rows: e = |u|^2 / 2, |w|^2 in the metric of H^{-1}, L = R2 kappa.  An event changes E e by at most
  -|u|_H^2 / (2 R2), by the choice of R2, and E |w|^2_{H^{-1}} by at most
  -2 gamma' <u, w> + gamma'^2 kappa |u|_H^2, by that of kappa.  So u = grad e plays the part of g,
  and mu |u|^2_{H^{-1}} <= |u|^2 that of strong convexity.  Batches differ in R2 and kappa alone
  (`row_constants.batch_constants`).

**Plain**, mu > 0.  Each event takes off a share r of E e at least, hence (1 - r)^k, and e^{-rt} at
time t, where N_t is Poisson(t):

- coordinates: r = mu min_i p_i / L_i, from |g|^2 >= 2 mu (f - f*);
- rows: r = mu / R2, from |u|_H^2 >= mu |u|^2.

**Plain**, mu = 0.  phi_s = (c + s) e_s + D_s, s = t or s = k, is a supermartingale, hence
E e_s <= (c e_0 + D_0) / (c + s):

- coordinates: D = 1/2 sum_i (L_i/p_i) u_i^2 changes by -<g, u> + sum_i g_i^2 / (2 L_i) at an event.
  <g, u> >= e pays for the growth of c + s, and c = 1 / min_i p_i for the rest.  (Coordinates with
  L_i = 0 do not move: x*_i may be taken to be their start.)
- rows: D = (R2/4) |u|^2_{H^{-1}} changes by at most -|u|^2 / 2 + kappa |u|_H^2 / (4 R2), and
  c = kappa / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.marked.coordinate import CoordinateDescent, CoordinateStepper
from continuized.marked.dual import DualCoordinate, DualStepper
from continuized.marked.row_constants import FULL_RANK, GIVEN, are_exact, row_constants
from continuized.marked.rows import Kaczmarz, RowStepper, StochasticLeastSquares
from continuized.problems import LeastSquares
from continuized.problems.base import Array, Problem
from continuized.process.methods import Continuized
from continuized.support import validation as check
from continuized.theory.bounds.paper import (
    continuized_bound,
    log_of,
    log_phi_0,
    log_power,
    theorem_of,
)
from continuized.theory.checks import (
    ROUNDING,
    check_constants_hold,
    checked_counts,
    excess,
    minimiser,
)

CONSISTENT = 1e-8  # relative residual below which x* counts as a solution of Xx = y


class RowStart(NamedTuple):
    """The rows a that are drawn (with their factors), and u_0 = x_0 - x*, with its norms.

    x* is the solution nearest x_0: a component of x_0 - x* that no row sees never changes.
    basis: orthonormal columns that span what rows see; u_0 is given in it.
    """

    rows: Array
    basis: Array
    u: Array
    norm2: float
    inverse_norm2: float  # |u_0|^2 in the metric of H^{-1}


def row_start(engine: RowStepper, problem: Problem, x0: Array) -> RowStart:
    """The start of a run of rows; refuses labels with noise, for then no x* solves them all."""
    X: Any = problem.X  # type: ignore[attr-defined]
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    star = minimiser(problem).ravel()
    _check_labels(dense, problem.y, star)  # type: ignore[attr-defined]
    rows = dense * engine.factors[:, None]
    values, vectors = np.linalg.eigh(rows.T @ (engine.p[:, None] * rows))
    seen = values > FULL_RANK * values.max(initial=0.0)
    basis = vectors[:, seen]
    u: Array = basis.T @ (x0.ravel() - star)
    return RowStart(rows, basis, u, float(u @ u), float(u @ (u / values[seen])))


def _check_labels(X: Array, y: Array, star: Array) -> None:
    used = np.any(X != 0.0, axis=1)  # a row of zeros moves nothing, whatever its label
    scale = np.abs(X) @ np.abs(star) + np.abs(y)
    residual = np.abs(X @ star - y)
    wrong = np.flatnonzero(used & (residual > CONSISTENT * scale.max(initial=0.0)))
    if wrong.size:
        i = int(wrong[0])
        raise ValueError(
            f"the theorem is for labels without noise, but no x solves Xx = y: row {i} is off by "
            f"{residual[i]:.3g} at the least-squares solution; use CoordinateDescent"
        )


def check_row_constants(method: StochasticLeastSquares, engine: RowStepper, rows: Array) -> None:
    """Refuse constants that are known not to hold, and a kappa that is only a guess."""
    if not are_exact(rows):
        if method.kappa is None:
            raise ValueError(
                f"kappa of {rows.shape[1]} columns is only estimated, and a bound needs one that "
                "holds: give kappa="
            )
        return
    from scipy import sparse

    found = row_constants(sparse.csr_array(rows), engine.p, np.ones(len(rows)))
    for name in ("R2", "kappa"):
        given, least = getattr(engine.row, name), getattr(found, name)  # of single rows
        if given < least * (1.0 - GIVEN):
            raise ValueError(
                f"the theorem needs {name} to be at least {least:.6g}, got {given:.6g}"
            )
    if engine.mu > found.mu * (1.0 + GIVEN) + ROUNDING * found.R2:
        raise ValueError(
            f"the theorem needs mu to be at most {found.mu:.6g}, the smallest eigenvalue of H, "
            f"got {engine.mu:.6g}"
        )


class Terms(NamedTuple):
    """A theorem at its start: e_0 (asked for only where it counts), |w_0|^2, and r, c, D_0."""

    excess: Callable[[], float]
    distance: float
    rate: float
    c: float
    D: float


def log_bound(
    method: Any,
    problem: Problem,
    x0: Array,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    """The logarithm of the bound of a marked method, at times t or at the k-th event."""
    if sigma2 > 0.0:
        raise ValueError(f"no theorem covers additive noise for {method.name}; use sigma2=0")
    theorem = theorem_of(method, THEOREMS)
    engine = method.prepare(problem, x0)
    terms = theorem(method, engine, problem, x0)
    if engine.accelerated:

        def log_phi(process: Continuized) -> float:
            return log_phi_0(process, terms.distance, terms.excess)

        return continuized_bound(engine.process, log_phi, t, k)
    if t is not None:
        times = check.times(t, "t")
        return _plain(terms, times, -terms.rate * times)
    assert k is not None
    counts = checked_counts(k).astype(np.float64)
    return _plain(terms, counts, log_power(terms.rate, counts))


def _plain(terms: Terms, s: Array, log_decay: Array) -> Array:
    if terms.rate > 0.0:
        return log_of(terms.excess()) + log_decay
    return log_of(terms.c * terms.excess() + terms.D) - np.log(terms.c + s)


def _coordinate_terms(engine: CoordinateStepper, u: Array, excess_0: Callable[[], float]) -> Terms:
    live = engine.form.L_i > 0.0
    p, L, mu = engine.p[live], engine.form.L_i[live], engine.process.mu
    ratio = np.zeros(live.size)
    ratio[live] = L / p
    return Terms(
        excess_0,
        float(u @ u),
        mu * float(np.min(p / L, initial=math.inf)) if mu > 0.0 else 0.0,
        1.0 / float(p.min(initial=1.0)),
        0.5 * float(np.sum(engine.spread(ratio) * u**2)),
    )


def _coordinates(method: Any, engine: CoordinateStepper, problem: Problem, x0: Array) -> Terms:
    check_constants_hold(engine.process, problem)
    u = x0.ravel() - minimiser(problem).ravel()
    return _coordinate_terms(engine, u, lambda: excess(problem, x0))


def _dual(method: Any, engine: DualStepper, problem: Problem, x0: Array) -> Terms:
    if not isinstance(problem, LeastSquares):
        raise ValueError(
            "no theorem is known for DualCoordinate on the logistic loss, whose conjugate is not "
            "smooth; use CoordinateDescent"
        )
    # At the optimum the dual variables are the residuals, y - X w*.
    u = engine.coordinates() - (problem.y - problem.X @ minimiser(problem).ravel())
    w, form = engine.form.image(u), engine.form
    D = 0.5 * float(form.c * (w @ w) + np.sum(form.ridge * u * u))
    return _coordinate_terms(engine, u, lambda: D)


def _rows(method: StochasticLeastSquares, engine: RowStepper, problem: Problem, x0: Array) -> Terms:
    start = row_start(engine, problem, x0)
    check_row_constants(method, engine, start.rows)
    return Terms(
        lambda: 0.5 * start.norm2,
        start.inverse_norm2,
        engine.process.mu / engine.R2,
        0.5 * engine.kappa,
        0.25 * engine.R2 * start.inverse_norm2,
    )


THEOREMS: dict[type, Callable[..., Terms]] = {
    CoordinateDescent: _coordinates,
    DualCoordinate: _dual,
    StochasticLeastSquares: _rows,
    Kaczmarz: _rows,
}
