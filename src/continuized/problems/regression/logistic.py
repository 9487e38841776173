"""Logistic regression: f(w) = mean_i log(1 + exp(-y_i <x_i, w>)) + l2/2 |w|^2."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, flat
from continuized.problems.losses import LOGISTIC
from continuized.problems.regression.data import check_labels
from continuized.problems.regression.linear import SingleOutput

MOST_STEPS = 100
MOST_HALVINGS = 40
SMALL_STEP = 1e-9  # of the last step, relative to |w|, and to what changes predictions by about 1


class LogisticRegression(SingleOutput):
    """f(w) = mean_i log(1 + exp(-y_i <x_i, w>)) + l2/2 |w|^2, y in {-1, +1}.

    X, l2, weights and intercept as for `LeastSquares`, and so are the errors; ValueError, too, for
    other labels.

    >>> p = LogisticRegression([[1.0], [1.0]], [1, -1], l2=0.5)
    >>> round(p.L, 9), p.mu
    (0.75, 0.5)
    """

    loss = LOGISTIC
    curvature = 0.25

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        l2: float = 1e-4,
        *,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        super().__init__(X, y, l2, weights=weights, intercept=intercept)
        check_labels(self.y)

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The minimiser, by Newton's method, to rounding.

        None where X is too large for that, l2 is 0 (there may be no minimum), or there is an
        intercept but only one class.
        """
        counted = self.y if self.weights is None else self.y[self.weights > 0.0]
        is_bounded = not self.intercept or len(np.unique(counted)) == 2
        if not (self.l2 > 0.0 and is_bounded and self._is_small):
            return None
        with np.errstate(all="ignore"):
            unit = 1.0 / np.sqrt(np.average(self.row_norms2, weights=self.weights))
        return minimise_by_newton(self.grad, self._hessian, self.variables, float(unit))

    def _hessian(self, w: Array) -> Array:
        """The mean of q_i s_i s_i^T, and l2 for each penalised variable."""
        rows, q = self.sampled(w, slice(None))
        found: Any
        if self.is_sparse:
            from scipy import sparse

            found = (rows.T @ (sparse.diags_array(q) @ rows.astype(np.float64))).toarray()
        else:
            found = rows.T @ (q[:, np.newaxis] * rows)
        found = found / len(q)
        penalised = np.arange(self.X.shape[1])
        found[penalised, penalised] += self.l2
        return np.asarray(found)

    def separated_by(self, x: ArrayLike) -> bool:
        """Tell whether <x_i, x> has the sign of y_i in every row: no minimum without l2, then."""
        predictions = self.predictions(flat(x, self.dim), slice(None))
        return bool(np.all(self.y * predictions > 0.0))


def minimise_by_newton(
    grad: Callable[[Array], Array], hessian: Callable[[Array], Array], variables: int, unit: float
) -> Array | None:
    """Find the minimiser to rounding by Newton's method from 0; None if it is not found.

    The Hessian must be positive definite.  Along Newton's direction |gradient|^2 falls at first,
    its derivative is -2 |gradient|^2: so a step is halved until the norm falls, and where no
    halving makes it fall, what is left is rounding.  The step that is then left to take is at
    most 1e-9 (|w| + unit), or else nothing was found.

    `network.optimisation.local_solver` has the compiled one, for a node's few rows at every event.
    """
    w = np.zeros(variables)
    step, slope = w, w
    with np.errstate(all="ignore"):  # what is not finite ends the search
        gradient = grad(w)
        for _ in range(MOST_STEPS):
            step = _newton_step(hessian, w, gradient)
            norm = float(np.linalg.norm(gradient))
            for halvings in range(MOST_HALVINGS):
                trial = w - 0.5**halvings * step
                slope = grad(trial)
                if np.linalg.norm(slope) < norm:
                    break
            else:
                break
            w, gradient = trial, slope
        is_found = np.linalg.norm(step) <= SMALL_STEP * (np.linalg.norm(w) + unit)
    return w if is_found else None


def _newton_step(hessian: Callable[[Array], Array], w: Array, gradient: Array) -> Array:
    if not w.size:
        return w
    try:
        return np.linalg.solve(hessian(w), gradient)
    except np.linalg.LinAlgError:  # singular, by rounding or underflow
        return np.full(w.size, np.nan)
