"""Sparse regressions: Newton's step on the entries that are not zero.

With psi(x) = sum_i l1_i |x_i| most entries of the minimiser of f + psi are zero.  On the others,
whose signs are known once they have left zero, f + psi is smooth, and they are few: Newton's step
there gives them to rounding, for a squared loss in one step, where a run with proximal steps goes
on for long.  So a run tries this first and now and then: entries leave zero where that makes
f + psi fall, stop at zero where they would cross it, and a step is taken only if f + psi falls.
Whether all is done is judged by the run itself, on all entries: a wrong guess of the support costs
time only.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.marked.penalty import Penalty
from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.problems.regression.linear import Linear
from continuized.process.prox import Separable, clip
from continuized.solver.array_api import inner, norm
from continuized.solver.lasso import solve_lasso
from continuized.solver.metric import factor
from continuized.solver.metric_factory import BLAS_QUICKER, SPARSE_SLOWER, STEP
from continuized.solver.steppers.evaluations import Evaluation, Evaluator
from continuized.support.threads import interruptible

MOST_FREE = 3000  # entries that move at once: a larger system is not solved
LEAST_NEW = 50  # of them may leave zero; as many as are not zero, if that is more
MOST_STEPS = 100  # of Newton in one try
LENGTHS = (1.0, 0.5, 0.25, 0.125)  # of a step, until f + psi falls
MOST_PASSES = 30  # of coordinate steps, before Newton's
ENOUGH = 1e-10  # of f + psi: the duality gap that is left to Newton's steps
LEAST_EVENTS = 8  # between two tries
ROUNDING = 4.0 * math.ulp(1.0)  # of f + psi: a smaller fall is not seen
RIDGE = 1e-6  # of the diagonal, added where the Hessian is singular


class SupportSolver:
    """Newton's steps on the support, for a regression of one output and a separable prox.

    Of a squared loss, coordinate steps find most of the support first (`solve_lasso`).
    """

    def __init__(self, problem: Any, prox: Separable) -> None:
        self._problem, self._prox = problem, prox
        self._constants = np.stack([np.broadcast_to(c, problem.dim) for c in prox.constants])
        self._penalty = _find_penalty(problem, prox)
        self._sizes = np.sqrt(np.maximum(problem.column_scales, 1e-300))
        self._seen: Any = np.zeros(0, np.intp)  # the variables of the Hessian that is kept
        self._hessian = np.zeros((0, 0))
        self._leaving = 0  # entries that leave zero in the last step that was tried
        self.wait = 0.0  # events until the next try

    def improve(self, evaluator: Evaluator, at: Evaluation) -> Evaluation | None:
        """Go to where f + psi is smaller, and evaluate f there; None where no step goes there."""
        found = self._descend(evaluator, at)
        at = at if found is None else found
        for _ in range(MOST_STEPS):
            trial = self._try(evaluator, at, LEAST_NEW)
            if trial is None and self._leaving:  # zero, in vain: the others go alone
                trial = self._try(evaluator, at, 0)
            if trial is None:
                break
            at = found = trial
        self.wait = self._find_wait(at.y)
        return found

    def _descend(self, evaluator: Evaluator, at: Evaluation) -> Evaluation | None:
        """Go along the coordinates, in turn, if f + psi falls so."""
        if self._penalty is None:
            return None
        value = at.f + self._prox.value(at.y)
        tol, most = ENOUGH * abs(value), MOST_PASSES
        found = solve_lasso(self._problem, self._penalty, at.y.astype(np.float64), tol, most)
        self._penalty = None  # once is enough
        trial = evaluator.evaluate(found.x.astype(at.y.dtype, copy=False))
        return trial if trial.f + self._prox.value(trial.y) < value else None

    def _try(self, evaluator: Evaluator, at: Evaluation, most: int) -> Evaluation | None:
        """Take one step of Newton in which at most so many entries leave zero, if f + psi falls.

        What is too small a fall to be seen is one where the slopes become smaller by half.
        """
        free, signs, slopes = self._choose_free(at, most)
        if not 0 < len(free) <= MOST_FREE:
            return None
        H = self._find_hessian(at.y, free)
        direction = _solve(H + np.diag(self._constants[1][free]), -slopes)
        value = at.f + self._prox.value(at.y)
        if direction is None:
            return None
        if -inner(slopes, direction) > ROUNDING * abs(value):
            return self._search(evaluator, at, free, signs, direction, value)
        y = self._move(at.y, free, signs, direction)
        trial = evaluator.evaluate(y)
        left = trial.g[free] + self._constants[0][free] * signs + self._constants[1][free] * y[free]
        return trial if norm(left) < 0.5 * norm(slopes) else None

    def _choose_free(self, at: Evaluation, most: int) -> tuple[Any, Array, Array]:
        """Choose the entries that move, and return the sign that each must keep and its slope.

        They are those that are not zero and, of those that are, the ones that gain most by leaving
        it; none that is pushed against a bound.  A sign of 0 is free: there is no kink at zero.
        """
        x, (l1, l2, low, high) = at.y, self._constants
        slope = at.g + l2 * x
        excess = np.abs(slope) - l1
        sign = np.where(x != 0.0, np.sign(x), -np.sign(slope))
        slope = slope + l1 * sign
        moving = (x != 0.0) | (excess > 0.0)
        moving &= ~((x <= low) & (slope >= 0.0)) & ~((x >= high) & (slope <= 0.0))
        is_smooth = (l1 == 0.0) & np.isneginf(low) & np.isposinf(high)
        new = np.flatnonzero(moving & (x == 0.0) & ~is_smooth)
        room = max(most, int(np.count_nonzero(x))) if most else 0
        least = len(new) - room
        if least > 0:  # a step along one gains excess^2 over twice its curvature
            gains = excess[new] / self._sizes[new]
            moving[new[np.argpartition(gains, least - 1)[:least]]] = False
        self._leaving = min(len(new), room)
        free = np.flatnonzero(moving)
        return free, np.where(l1 > 0.0, sign, 0.0)[free], slope[free]

    def _find_hessian(self, x: Array, free: Any) -> Array:
        """Return that of f on the free entries; of a squared loss it is the same for all x."""
        if self._problem.loss != SQUARED:
            return np.asarray(self._problem.hessian_block(x, free))
        known = np.zeros(len(x), bool)
        known[self._seen] = True
        if not known[free].all():
            known[free] = True
            union = np.flatnonzero(known)
            self._seen = union if len(union) <= MOST_FREE else free
            self._hessian = self._problem.hessian_block(x, self._seen)
        chosen = np.searchsorted(self._seen, free)
        return np.asarray(self._hessian[np.ix_(chosen, chosen)])

    def _search(
        self, evaluator: Evaluator, at: Evaluation, free: Any, signs: Array, direction: Array,
        value: float,
    ) -> Evaluation | None:  # fmt: skip
        """Take the step, or a part of it, if f + psi falls."""
        for length in LENGTHS:
            y = self._move(at.y, free, signs, length * direction)
            trial = evaluator.evaluate(y)
            if trial.f + self._prox.value(y) < value:
                return trial
        return None

    def _move(self, x: Array, free: Any, signs: Array, step: Array) -> Array:
        """Return x after a step of the free entries, which stop at zero and at the bounds."""
        low, high = (bound[free] for bound in self._constants[2:])
        moved = x[free] + step
        y = x.copy()
        y[free] = clip(np.where(moved * signs < 0.0, 0.0, moved), low, high)
        return y

    def _find_wait(self, x: Array) -> float:
        """How many events cost as much as a step with so many entries."""
        p, size = self._problem, float(np.count_nonzero(x))
        entries = float(p.entry_count) * (SPARSE_SLOWER if p.is_sparse else 1.0)
        work = entries * size**2 / max(p.variables, 1) + size**3 / 3.0
        return float(max(LEAST_EVENTS, work / BLAS_QUICKER / (4.0 * entries + STEP)))


def _find_penalty(problem: Any, prox: Separable) -> Penalty | None:
    """Return that of the coefficients, where f is a sum of squares and coordinate steps know when
    they are done: all have a penalty, and an intercept has none."""
    if not (isinstance(problem, Linear) and problem.loss == SQUARED and problem.dim):
        return None
    d = int(problem.X.shape[1])
    columns = Separable(*(np.broadcast_to(c, problem.dim)[:d] for c in prox.constants))
    penalty = Penalty(columns, (d,))
    rest = Penalty(prox, (problem.dim,)).constants[:, d:]
    is_free = np.all(rest == np.array([[0.0], [0.0], [-np.inf], [np.inf]]))
    return penalty if is_free and penalty.has_dual else None


def _solve(H: Array, right: Array) -> Array | None:
    """Solve by Cholesky's factors, of a little more than H where it is singular; None if not even
    that is definite."""
    from continuized.solver.kernels.gram import solve_cholesky

    scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
    H = H * scale * scale[:, np.newaxis]
    for ridge in (0.0, RIDGE):
        H[np.diag_indices(len(H))] += ridge
        try:
            lower = interruptible(len(H) ** 3 / 3.0, factor, H)
        except ValueError:  # not definite
            continue
        if lower.diagonal().min() ** 2 > len(H) * math.ulp(1.0):
            found = (right * scale)[np.newaxis]
            solve_cholesky(lower, found)
            return found[0] * scale if np.all(np.isfinite(found)) else None
    return None
