"""Newton's method for the minimiser of a regression with few columns, to rounding.

Along Newton's direction |gradient|^2 falls at first, its derivative is -2 |gradient|^2: so a step
is halved until the norm falls, and where no halving makes it fall, what is left is rounding.

Once for a problem, on data of any kind; `network.optimisation.conjugates` has the compiled one, on
a node's few dense rows at every event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from continuized.problems.base import Array

if TYPE_CHECKING:
    from continuized.problems.regression.regression import LogisticRegression

MOST_STEPS = 100
MOST_HALVINGS = 40
SMALL_STEP = 1e-9  # of the last step, relative to |w|, and to what changes predictions by about 1


def newton(problem: LogisticRegression) -> Array | None:
    """The minimiser, where the Hessian is positive definite; None if it is not found.

    Where rounding ends it, the step that was left to take is at most 1e-9 (|w| + 1/|x|), |x| the
    root mean square of the rows' norms.
    """
    w = np.zeros(problem.variables)
    step, slope = w, w
    with np.errstate(all="ignore"):  # what is not finite ends the search
        gradient = problem.grad(w)
        for _ in range(MOST_STEPS):
            step = _newton_step(problem, w, gradient)
            norm = float(np.linalg.norm(gradient))
            for halvings in range(MOST_HALVINGS):
                trial = w - 0.5**halvings * step
                slope = problem.grad(trial)
                if np.linalg.norm(slope) < norm:
                    break
            else:
                break
            w, gradient = trial, slope
        unit = 1.0 / np.sqrt(np.average(problem.row_norms2, weights=problem.weights))
        is_found = np.linalg.norm(step) <= SMALL_STEP * (np.linalg.norm(w) + unit)
    return w if is_found else None


def _newton_step(problem: LogisticRegression, w: Array, gradient: Array) -> Array:
    if not w.size:
        return w
    try:
        return np.linalg.solve(_hessian(problem, w), gradient)
    except np.linalg.LinAlgError:  # singular, by rounding or underflow
        return np.full(w.size, np.nan)


def _hessian(problem: LogisticRegression, w: Array) -> Array:
    """The mean of q_i s_i s_i^T, and l2 for each penalised variable."""
    rows, q = problem.sampled(w, slice(None))
    found: Any
    if problem.is_sparse:
        from scipy import sparse

        found = (rows.T @ (sparse.diags_array(q) @ rows.astype(np.float64))).toarray()
    else:
        found = rows.T @ (q[:, np.newaxis] * rows)
    found = found / len(q)
    penalised = np.arange(problem.X.shape[1])
    found[penalised, penalised] += problem.l2
    return np.asarray(found)
