"""Coordinate descent on the dual of ridge and of l2-logistic regression.

The conjugate of the logistic loss is the entropy H(a) = a log a + (1-a) log(1-a), the psi of a
composite function whose f is l2/2 |w|^2.  It is 4-strongly convex: f is given that (`penalty` says
the same of an l2), and the theorem of f + psi holds, with independent marks and a fixed norm.

Two heuristics make it quicker, and no theorem covers them.  Marks come in stratified passes.  And
the curvature of H, 1/(a(1-a)), is far more than 4 where a is near 0 or 1, in rows that are fitted
well: the run takes the norm sum_i m_i v_i^2 with m_i the local curvature over 4, so that mu stays
and S = (sum sqrt(L_i / m_i))^2 falls.  Which rows those are shows on the way, and the norm is made
anew now and then.  At the start the constants are far too cautious, and with them the process may
lead away for many passes: it begins after a few passes of plain steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from continuized.marked.coordinate import CoordinateStepper
from continuized.marked.kernels.layout import BETA, at_factor
from continuized.marked.separable import SeparableForm, dual_form
from continuized.problems import LeastSquares, LogisticRegression, Problem
from continuized.problems.base import Array
from continuized.process.coefficients import GAMMA, GAMMA_PRIME
from continuized.process.marks import Finite, Stratified
from continuized.support import validation as check
from continuized.support.blas import inner
from continuized.support.display import show_line

SMALLEST_LOCAL = 1024  # coordinates: with fewer, what is done between passes takes longer
FIRST_METRIC = 3  # passes, plain ones; then whenever there are half as many more
# Of the smooth part's curvature: what more is claimed hardly quickens the process.
CURVATURE_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class DualCoordinate:
    """Coordinate descent on the dual of ridge or l2-logistic regression.

    Minimises D(a) = mean_i loss*(-a_i) + l2/2 |w|^2, w = sum_i a_i x_i / (l2 n) (signs of the
    labels included for the logistic loss): an event costs a row.  r.x is w, and tol is for the
    duality gap, which bounds f(w) - f*.  The logistic conjugate is not smooth: its coordinate
    step is a proximal step, as CoordinateDescent takes it with prox.

    sampling, accelerated, start: as for CoordinateDescent; on the logistic loss, start must be
    such that eta <= min p_i.
    heuristics: on the logistic loss, whether to do what no theorem covers, but saves passes.  Every
    pass takes each row about as often as its probability says (`cz.marks.Stratified`); and with
    sampling="sqrt" and 1024 rows or more, after three passes of plain steps, the metric and the
    probabilities follow the curvature of the conjugate (`local_metric`), if the run draws its own
    marks.  With False, marks are independent and the norm is fixed: `theory.bound` holds.

    >>> import continuized as cz, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> p = cz.problems.LeastSquares(X, X.sum(axis=1), l2=0.1)
    >>> r = cz.minimize(p, np.zeros(4), method=cz.DualCoordinate(), tol=1e-10, rng=0)
    >>> r.message
    'The duality gap is at most tol.'
    """

    __repr__ = show_line

    sampling: Any = "sqrt"
    accelerated: bool = True
    start: float | None = None
    heuristics: bool = True
    name: ClassVar[str] = "dual-coordinate"

    def __post_init__(self) -> None:
        check.flag(self.accelerated, "accelerated")
        check.flag(self.heuristics, "heuristics")

    def prepare(self, problem: Problem, x0: Array) -> DualStepper:
        """Prepare the run; the dual starts from the slopes of the losses at x0, scaled.

        Raises TypeError for other problems, ValueError for weights, an intercept or l2 = 0.
        """
        if not isinstance(problem, LeastSquares | LogisticRegression):
            raise TypeError(
                f"DualCoordinate is for LeastSquares and LogisticRegression, got "
                f"{type(problem).__name__}"
            )
        problem.refuse_extras("DualCoordinate")
        if problem.l2 <= 0.0:
            raise ValueError(
                "DualCoordinate needs l2 > 0: without it there is no dual of this form"
            )
        form, a0 = dual_form(problem, x0.ravel())
        return DualStepper(form, self, a0, problem)


def local_metric(x: Array, z: Array, margins: Array, smooth: Array) -> Array:
    """Return m_i, the curvature of the entropy over 4, as far as it is known; at least 1.

    x and z are the dual points, and the slopes of the losses at the margins y <x_i, w> are a third
    one: far from the solution they differ, and the least curvature of the three is taken.  smooth:
    the curvature of the smooth part over 4/n, n the number of rows.
    """
    slopes = 0.5 - 0.5 * np.tanh(0.5 * margins)
    variances = [a * (1.0 - a) for a in (np.clip(x, 0.0, 1.0), np.clip(z, 0.0, 1.0), slopes)]
    largest = np.max(variances, axis=0)
    with np.errstate(divide="ignore", over="ignore"):
        found = 0.25 / largest
    return np.asarray(np.maximum(np.minimum(found, CURVATURE_SHARE * smooth), 1.0))


def next_metric(passes: int) -> int:
    """Return the least of 3, 5, 8, 12, 18, 27, ... passes that is more than those so far.

    >>> [next_metric(passes) for passes in (0, 2, 3, 5, 30)]
    [3, 3, 5, 8, 41]
    """
    due = FIRST_METRIC
    while due <= passes:
        due += (due + 1) // 2
    return due


class DualStepper(CoordinateStepper):
    """Coordinates are dual variables, and their image the primal point."""

    criterion_name, criterion_is_gap = "duality gap", True

    def __init__(
        self, form: SeparableForm, method: DualCoordinate, x0: Array, problem: Problem
    ) -> None:
        self.heuristics = method.heuristics and form.entropy is not None
        super().__init__(form, method, x0, problem)
        self.metric = np.ones(x0.size)
        follows = isinstance(method.sampling, str) and method.sampling == "sqrt"
        exponential = method.start is None or method.start == np.inf
        many = x0.size >= SMALLEST_LOCAL
        self.law_changes = self.heuristics and self.accelerated and follows and exponential and many
        if self.law_changes:
            self.changing = (*self.changing, "metric")

    def _law(self) -> Finite:
        # A row that a pass leaves out delays all: independent marks leave out a third of them.
        return Stratified(self.p) if self.heuristics else super()._law()

    def take(self, marks: Array, coefficients: Array) -> None:
        if not (self.law_changes and self.law.is_drawn):  # marks of another law keep theirs
            super().take(marks, coefficients)
            return
        n, before = self.metric.size, self.events.item()
        is_begun = before >= FIRST_METRIC * n
        super().take(marks, coefficients if is_begun else self._plain(marks, coefficients))
        if self.events.item() >= next_metric(before // n) * n:
            p: Any = self.problem
            margins = p.y * (p.X @ self.images())
            z = at_factor(self.pairs, self.scalars[BETA])
            smooth = (self.form.L_i - self.form.mu) / self.form.mu
            self.metric[:] = local_metric(self.coordinates(), z, margins, smooth)
            self._follow_metric()

    def _plain(self, marks: Array, coefficients: Array) -> Array:
        """Return coefficients with which x and z do not mix, and take the same steps."""
        together = np.zeros_like(coefficients)
        together[:, GAMMA_PRIME] = (self.p / self.form.L_i)[marks]
        together[:, GAMMA] = together[:, GAMMA_PRIME] * self.p[marks]
        return together

    def _follow_metric(self) -> None:
        roots = np.sqrt(self.form.L_i / self.metric)
        self._set_law(roots / roots.sum(), self.metric)
        self.law.now = self._law()

    def after_restoring(self) -> None:
        if self.law_changes and np.any(self.metric != 1.0):
            self._follow_metric()
        super().after_restoring()

    def point(self) -> Array:
        return self.images()

    def dual_value(self) -> float:
        """Return the dual objective (to be maximised) at the dual variables."""
        from scipy.special import entr  # -b log(b), 0 at 0

        p: Any = self.problem
        a, w = self.coordinates(), self.images()
        if self.form.entropy is not None:
            # Mixing with z may lead out of [0, 1], where the dual is not finite: move to the
            # nearest point inside, and w with it, for the gap to be a bound.
            b = np.clip(a, 0.0, 1.0)
            out = np.flatnonzero(a != b)
            w -= p.X[out].T @ (self.form.scale * (a - b))[out]
            return float((entr(b) + entr(1.0 - b)).mean() - 0.5 * p.l2 * inner(w, w))
        return float(np.mean(a * p.y - 0.5 * a * a) - 0.5 * p.l2 * inner(w, w))

    def evaluate_criterion(self) -> float:
        return self.value() - self.dual_value()
