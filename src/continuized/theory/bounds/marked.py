"""Bounds for coordinates and rows, proved in docs/proofs/marks.md and docs/proofs/separable.md.

Write e_t for what is bounded: f - f* for coordinates, or F - F* with psi; |x - x*|^2 / 2 for rows.
Accelerated, the bounds are those of Theorem 3 with L = S = max_i L_i / p_i^2, or R2 kappa with
|z_0 - x*|^2 in the metric of H^{-1}.  Plain, E e falls by a factor 1 - r at an event, and where
mu = 0, E e_s <= (c e_0 + D_0) / (c + s) for s = t or s = k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from continuized.marked.coordinate import CoordinateDescent, CoordinateStepper
from continuized.marked.dual import DualCoordinate, DualStepper
from continuized.marked.rows import (
    FULL_RANK,
    GIVEN_ROUNDING,
    RowStepper,
    StochasticLeastSquares,
    are_exact,
    row_constants,
)
from continuized.problems import LeastSquares
from continuized.problems.base import Array, Problem
from continuized.process.methods import Continuized
from continuized.solver.minimize import minimize
from continuized.support import blas
from continuized.theory.bounds.paper import (
    Query,
    continuized_bound,
    log_decay,
    log_of,
    theorem_of,
)
from continuized.theory.checks import ROUNDING, check_constants_hold, excess, minimiser, minimum

NEGLIGIBLE = 1e-13  # of the criterion at x_0: what is left of it at an x* that is computed
CONSISTENT = 1e-8  # relative residual below which x* counts as a solution of Xx = y


class TheoremTerms(NamedTuple):
    """A theorem at its start: e_0 (asked for only where it counts), |w_0|^2, and r, c, D_0."""

    excess: Callable[[], float]
    distance: float
    rate: float
    c: float
    D: float


def log_bound(method: Any, problem: Problem, x0: Array, query: Query) -> Array:
    """The logarithm of the bound of a marked method, at times t or at the k-th event."""
    theorem = theorem_of(method, THEOREMS)
    stepper = method.prepare(problem, x0)
    terms = theorem(method, stepper, problem, x0)
    if stepper.accelerated:
        return continuized_bound(stepper.process, terms.distance, terms.excess, query)
    if terms.rate > 0.0:
        return log_decay(log_of(terms.excess()), terms.rate, query)
    s: Any = query.t if query.k is None else query.k
    return np.asarray(log_of(terms.c * terms.excess() + terms.D) - np.log(terms.c + s))[()]


def _coordinates(
    method: Any, stepper: CoordinateStepper, problem: Problem, x0: Array
) -> TheoremTerms:
    if stepper.law_changes:
        raise ValueError('no theorem covers sampling="active"; give sampling="sqrt" or "uniform"')
    S, mu, penalty = stepper.S, min(stepper.form.mu, stepper.S), stepper.penalty
    if penalty is None:
        check_constants_hold(Continuized(S, mu), problem)
        u = x0.ravel() - minimiser(problem).ravel()
        return _coordinate_terms(stepper, u, lambda: excess(problem, x0))
    check_constants_hold(Continuized(S, max(mu - float(penalty.l2.min()), 0.0)), problem)
    star = minimise_penalised(method, problem, x0)
    difference = stepper.evaluate(x0.ravel()) - stepper.evaluate(star)
    return _coordinate_terms(stepper, x0.ravel() - star, lambda: max(difference, 0.0))


def minimise_penalised(method: CoordinateDescent, problem: Problem, x0: Array) -> Array:
    """Find the minimiser of f + psi, by plain steps, to rounding; ValueError where it is not."""
    plain: Any = replace(method, sampling="active", accelerated=False, start=None)
    criterion = plain.prepare(problem, x0).evaluate_criterion()
    tol = NEGLIGIBLE * (criterion if criterion > 0.0 else 1.0)
    r = minimize(problem, x0, method=plain, tol=tol, rng=0, record=False)
    if not r.success:
        raise ValueError(
            f"the theorem is about |z_0 - x*|, but x* of f + prox was not found: {r.message}"
        )
    return np.asarray(r.x).ravel()


def _dual(method: Any, stepper: DualStepper, problem: Problem, x0: Array) -> TheoremTerms:
    if stepper.heuristics:
        raise ValueError(
            "no theorem covers stratified marks and a norm that changes; on the logistic loss give "
            "DualCoordinate(heuristics=False)"
        )
    predictions = problem.X @ minimiser(problem).ravel()  # type: ignore[attr-defined]
    y: Array = problem.y  # type: ignore[attr-defined]
    if isinstance(problem, LeastSquares):
        # At the optimum the dual variables are the residuals, y - X w*.
        u = stepper.coordinates() - (y - predictions)
        w, form = stepper.form.image(u), stepper.form
        D = 0.5 * float(form.c * (w @ w) + np.sum(form.ridge * u * u))
    else:
        u = stepper.coordinates() - 1.0 / (1.0 + np.exp(np.clip(y * predictions, -700.0, 700.0)))
        D = max(minimum(problem) - stepper.dual_value(), 0.0)
    return _coordinate_terms(stepper, u, lambda: D)


def _coordinate_terms(
    stepper: CoordinateStepper, u: Array, excess_0: Callable[[], float]
) -> TheoremTerms:
    live = stepper.form.L_i > 0.0
    p, L, mu = stepper.p[live], stepper.form.L_i[live], min(stepper.form.mu, stepper.S)
    ratio = np.zeros(live.size)
    ratio[live] = L / p
    return TheoremTerms(
        excess_0,
        float(u @ u),
        mu * float(np.min(p / L, initial=math.inf)) if mu > 0.0 else 0.0,
        1.0 / float(p.min(initial=1.0)),
        0.5 * float(np.sum(stepper.per_coordinate(ratio) * u**2)),
    )


def _rows(
    method: StochasticLeastSquares, stepper: RowStepper, problem: Problem, x0: Array
) -> TheoremTerms:
    start = find_row_start(stepper, problem, x0)
    check_row_constants(method, stepper, start.rows)
    return TheoremTerms(
        lambda: 0.5 * float(start.u @ start.u),
        start.inverse_norm2,
        stepper.process.mu / stepper.R2,
        0.5 * stepper.kappa,
        0.25 * stepper.R2 * start.inverse_norm2,
    )


class RowStart(NamedTuple):
    """The rows a that are drawn (with their factors), and u_0 = x_0 - x*.

    x* is the solution nearest x_0: a component of x_0 - x* that no row sees never changes.
    basis: orthonormal columns that span what rows see; u_0 is given in it.
    """

    rows: Array
    basis: Array
    u: Array
    inverse_norm2: float  # |u_0|^2 in the metric of H^{-1}


def find_row_start(stepper: RowStepper, problem: Problem, x0: Array) -> RowStart:
    """Find the start of a run of rows; refuse labels with noise, for then no x* solves them all."""
    X: Any = problem.X  # type: ignore[attr-defined]
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    star = minimiser(problem).ravel()
    _check_labels(dense, problem.y, star)  # type: ignore[attr-defined]
    rows = dense * stepper.factors[:, None]
    work = (rows.size + 10.0 * rows.shape[1] ** 2) * rows.shape[1]
    values, vectors = blas.compute(work, _decompose, rows, stepper.p)
    seen = values > FULL_RANK * values.max(initial=0.0)
    basis = vectors[:, seen]
    u: Array = basis.T @ (x0.ravel() - star)
    return RowStart(rows, basis, u, float(u @ (u / values[seen])))


def _decompose(rows: Array, p: Array) -> tuple[Array, Array]:
    """Return the eigenvalues and eigenvectors of H, the mean of a a^T."""
    values, vectors = np.linalg.eigh(rows.T @ (p[:, None] * rows))
    return values, vectors


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


def check_row_constants(method: StochasticLeastSquares, stepper: RowStepper, rows: Array) -> None:
    """Refuse constants that are known not to hold, and a kappa that is only an estimate."""
    if not are_exact(rows):
        if method.kappa is None:
            raise ValueError(
                f"kappa of {rows.shape[1]} columns is only estimated, and a bound needs one that "
                "holds: give kappa="
            )
        return
    from scipy import sparse

    found = row_constants(sparse.csr_array(rows), stepper.p, np.ones(len(rows)))
    for name in ("R2", "kappa"):
        given, least = getattr(stepper.row, name), getattr(found, name)  # of single rows
        if given < least * (1.0 - GIVEN_ROUNDING):
            raise ValueError(
                f"the theorem needs {name} to be at least {least:.6g}, got {given:.6g}"
            )
    if stepper.mu > found.mu * (1.0 + GIVEN_ROUNDING) + ROUNDING * found.R2:
        raise ValueError(
            f"the theorem needs mu to be at most {found.mu:.6g}, the smallest eigenvalue of H, "
            f"got {stepper.mu:.6g}"
        )


THEOREMS: dict[type, Callable[..., TheoremTerms]] = {
    CoordinateDescent: _coordinates,
    DualCoordinate: _dual,
    StochasticLeastSquares: _rows,
}
