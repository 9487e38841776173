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
from functools import cached_property
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.problems.regression.linear import Linear
from continuized.process.prox import Separable, clip
from continuized.solver.array_api import inner, norm
from continuized.solver.metric_factory import BLAS_QUICKER, SPARSE_SLOWER, STEP
from continuized.solver.steppers.evaluations import Evaluation, Evaluator

MOST_FREE = 3000  # entries that move at once: a larger system is not solved
LEAST_NEW = 50  # of them may leave zero; as many as are not zero, if that is more
MOST_STEPS = 100  # of Newton in one try
LENGTHS = (1.0, 0.5, 0.25, 0.125)  # of a step, until f + psi falls
MOST_PASSES = 1000  # of coordinate steps, before Newton's
ENOUGH = 1e-10  # of f + psi: the duality gap that is left to Newton's steps
LEAST_EVENTS = 8  # between two tries
ROUNDING = 4.0 * math.ulp(1.0)  # of f + psi: a smaller fall is not seen


class SupportSolver:
    """Newton's steps on the support, for a regression and a separable prox.

    Of a squared loss, coordinate steps find most of the support first (`solve_lasso`).
    """

    def __init__(self, problem: Any, prox: Separable, tol: float | None = None) -> None:
        self._problem, self._prox, self._tol = problem, prox, tol or 0.0
        self._constants = np.empty((4, problem.dim))
        each = problem.variables, problem.classes
        for row, constant in zip(self._constants, prox.constants, strict=True):
            if type(constant) is float:
                row[:] = constant
                continue
            is_whole = np.size(constant) in (1, problem.dim)
            row[:] = np.ravel(constant if is_whole else np.broadcast_to(constant, each))
        self._takes_coordinate_steps = _are_coordinate_steps_certain(problem, self._constants)
        self._seen: Any = np.zeros(0, np.intp)  # the variables of the Hessian that is kept
        self._hessian = np.zeros((0, 0))
        self._leaving = 0  # entries that leave zero in the last step that was tried
        self.is_done = False  # whether the last try came to where no slope is above tol
        self.value = math.inf  # of f + psi, where it ended
        self.wait = 0.0  # events until the next try

    @cached_property
    def _sizes(self) -> Array:
        """The roots of the curvatures along the coordinates."""
        scales = np.repeat(self._problem.column_scales, self._problem.classes)
        sizes: Array = np.sqrt(np.maximum(scales, 1e-300))
        return sizes

    def improve(self, evaluator: Evaluator, at: Evaluation, value: float) -> Evaluation | None:
        """Go to where f + psi is smaller than this value, that at a point, and evaluate f there;
        None where no step goes there."""
        self.is_done, self.value, found = False, value, None
        if self._takes_coordinate_steps:
            found = self._descend(evaluator, at)
            at = at if found is None else found
        for _ in range(0 if self.is_done else MOST_STEPS):
            if self._find_slope(at) <= self._tol:
                break
            trial = self._try(evaluator, at, LEAST_NEW)
            if trial is None and self._leaving:  # zero, in vain: the others go alone
                trial = self._try(evaluator, at, 0)
            if trial is None:
                break
            at = found = trial
        self.wait = 0.0 if self.is_done else self._find_wait(at.y)
        return found

    def _find_slope(self, at: Evaluation) -> float:
        """Return the norm of the least subgradient of f + psi."""
        from continuized.solver.kernels.coordinate_passes import find_slopes

        y, (_, l2, _, _) = at.y.ravel().astype(np.float64), self._constants
        psi, slopes = self._constants.take((0, 2, 3), axis=0), np.empty(y.size)
        return math.sqrt(find_slopes(at.g.ravel() + l2 * y, y, psi, slopes))

    def _descend(self, evaluator: Evaluator, at: Evaluation) -> Evaluation | None:
        """Go along the coordinates, in turn, if f + psi falls so."""
        from continuized.solver.lasso import solve_lasso

        self._takes_coordinate_steps = False  # once is enough
        trial, point = at, at.y.ravel()

        def evaluate(x: Array) -> tuple[float, Array]:
            nonlocal trial, point
            trial, point = evaluator.evaluate(x.astype(at.y.dtype).reshape(at.y.shape)), x
            return trial.f, trial.g.ravel()

        # Without tol, the rest is left to Newton's steps.
        gap = 0.0 if self._tol > 0.0 else ENOUGH * abs(self.value)
        psi = self._constants[:, : self._problem.column_count]
        found = solve_lasso(
            self._problem, psi, point.astype(np.float64), gap, MOST_PASSES,
            slope=self._tol, evaluate=evaluate, first=(at.f, at.g.ravel()),
        )  # fmt: skip
        if (point != found.x).any():  # where the intercept alone has moved
            evaluate(found.x)
        # Measured where it is told: there the intercept has a slope too, and a gap of 0 may be one
        # that rounding hides.
        self.is_done = found.success and self._tol > 0.0 and self._find_slope(trial) <= self._tol
        return self._take_if_lower(trial)

    def _take_if_lower(self, trial: Evaluation) -> Evaluation | None:
        """Return a trial where f + psi is smaller than it was, None for another."""
        value = trial.f + self._prox.value(trial.y)
        if not value < self.value:
            return None
        self.value = value
        return trial

    def _try(self, evaluator: Evaluator, at: Evaluation, most: int) -> Evaluation | None:
        """Take one step of Newton in which at most so many entries leave zero, if f + psi falls.

        What is too small a fall to be seen is one where the slopes become smaller by half.
        """
        from continuized.solver.lasso import solve_definite

        free, signs, slopes = self._choose_free(at, most)
        if not 0 < len(free) <= MOST_FREE:
            return None
        H = self._find_hessian(at.y, free)
        direction = solve_definite(H + np.diag(self._constants[1][free]), -slopes)
        if direction is None:
            return None
        if -inner(slopes, direction) > ROUNDING * abs(self.value):
            return self._search(evaluator, at, free, signs, direction)
        y = self._move(at.y, free, signs, direction)
        trial = evaluator.evaluate(y)
        l1, l2 = self._constants[:2, free]
        left = trial.g.ravel()[free] + l1 * signs + l2 * y.ravel()[free]
        if not norm(left) < 0.5 * norm(slopes):
            return None
        self.value = trial.f + self._prox.value(trial.y)
        return trial

    def _choose_free(self, at: Evaluation, most: int) -> tuple[Any, Array, Array]:
        """Choose the entries that move, and return the sign that each must keep and its slope.

        They are those that are not zero and, of those that are, the ones that gain most by leaving
        it; none that is pushed against a bound.  A sign of 0 is free: there is no kink at zero.
        """
        x, (l1, l2, low, high) = at.y.ravel(), self._constants
        slope = at.g.ravel() + l2 * x
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
        known = np.zeros(x.size, bool)
        known[self._seen] = True
        if not known[free].all():
            known[free] = True
            union = np.flatnonzero(known)
            self._seen = union if len(union) <= MOST_FREE else free
            self._hessian = self._problem.hessian_block(x, self._seen)
        chosen = np.searchsorted(self._seen, free)
        return np.asarray(self._hessian[np.ix_(chosen, chosen)])

    def _search(
        self, evaluator: Evaluator, at: Evaluation, free: Any, signs: Array, direction: Array
    ) -> Evaluation | None:
        """Take the step, or a part of it, if f + psi falls."""
        for length in LENGTHS:
            y = self._move(at.y, free, signs, length * direction)
            found = self._take_if_lower(evaluator.evaluate(y))
            if found is not None:
                return found
        return None

    def _move(self, x: Array, free: Any, signs: Array, step: Array) -> Array:
        """Return x after a step of the free entries, which stop at zero and at the bounds."""
        low, high = (bound[free] for bound in self._constants[2:])
        y = x.ravel().copy()
        moved = y[free] + step
        y[free] = clip(np.where(moved * signs < 0.0, 0.0, moved), low, high)
        return y.reshape(x.shape)

    def _find_wait(self, x: Array) -> float:
        """How many events cost as much as a step with so many entries."""
        p, size = self._problem, float(np.count_nonzero(x))
        entries = float(p.entry_count) * (SPARSE_SLOWER if p.is_sparse else 1.0)
        work = entries * size**2 / max(p.variables, 1) + size**3 / 3.0
        return float(max(LEAST_EVENTS, work / BLAS_QUICKER / (4.0 * entries + STEP)))


def _are_coordinate_steps_certain(problem: Any, constants: Array) -> bool:
    """Tell whether f is a sum of squares, and coordinate steps know when they are done: psi grows
    along every column, and an intercept has none."""
    if not (isinstance(problem, Linear) and problem.loss == SQUARED and problem.dim):
        return False
    d = problem.column_count
    l1, _, low, high = constants[:, :d]
    grows = l1 > 0.0
    if not (grows.all() or (grows | (np.isfinite(low) & np.isfinite(high))).all()):
        return False
    free = [[0.0], [0.0], [-np.inf], [np.inf]]
    return not problem.intercept or bool((constants[:, d:] == free).all())
