"""What the theorems about marked methods need to know of the start, and of the data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.marked.row_constants import FULL_RANK, GIVEN, are_exact, row_constants
from continuized.marked.rows import Rows, StochasticLeastSquares
from continuized.problems.base import Array, Problem
from continuized.theory.checks import ROUNDING, minimiser

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


def row_start(engine: Rows, problem: Problem, x0: Array) -> RowStart:
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


def check_row_constants(method: StochasticLeastSquares, engine: Rows, rows: Array) -> None:
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
