"""Coordinate descent, primal and dual, plain and accelerated (the continuized process with
coordinates for marks).

Mark i with probability p_i, coordinate smoothness L_i.  The parameters are those of the process
with L := S = max_i L_i / p_i^2 (least at p_i proportional to sqrt(L_i), where S = (sum sqrt L_i)^2),
and at an event x_i -= grad_i f / L_i, z_i -= (gamma'/p_i) grad_i f.  The bounds are those of the
process with S for L (Even, Hendrikx and Massoulie 2020; MATH: theory.bound).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from continuized.kernels import lazy
from continuized.marks import Categorical, checked_probabilities
from continuized.methods import Continuized
from continuized.problems import LeastSquares, LogisticRegression, Problem, Quadratic
from continuized.problems.base import Array
from continuized.problems.losses import LOGISTIC, SQUARED
from continuized.words import brief


@dataclass(frozen=True, eq=False)
class CoordinateDescent:
    """Accelerated (or plain) coordinate descent on a Quadratic, LeastSquares or
    LogisticRegression.

    sampling: "sqrt" (p_i proportional to sqrt(L_i)), "uniform", or the probabilities themselves.
    start: as in Continuized.
    """

    sampling: Any = "sqrt"
    accelerated: bool = True
    start: float | None = None
    name: ClassVar[str] = "coordinate-descent"

    def prepare(self, problem: Problem, x0: Array) -> Coordinates:
        """The run on this problem from x0."""
        form = _primal_form(problem)
        return Coordinates(form, self, x0.ravel(), problem)


@dataclass(frozen=True, eq=False)
class DualCoordinate:
    """Coordinate descent on the dual of ridge or l2-logistic regression.

    Minimises D(a) = mean_i loss*(-a_i) + l2/2 |w|^2, w = sum_i a_i x_i / (l2 n) (signs of the
    labels included for the logistic loss): an event costs a row.  r.x is w, and tol is for the
    duality gap, which bounds f(w) - f*.  The logistic conjugate is not smooth: its coordinate
    step is the one-dimensional proximal step, and no theorem is claimed for the accelerated form.
    """

    sampling: Any = "sqrt"
    accelerated: bool = True
    start: float | None = None
    name: ClassVar[str] = "dual-coordinate"

    def prepare(self, problem: Problem, x0: Array) -> DualCoordinates:
        """The run on this problem; the dual starts from the slopes of the losses at x0."""
        if not isinstance(problem, LeastSquares | LogisticRegression):
            raise TypeError(
                f"DualCoordinate is for LeastSquares and LogisticRegression, got "
                f"{type(problem).__name__}"
            )
        if problem.l2 <= 0.0:
            raise ValueError(
                "DualCoordinate needs l2 > 0: without it there is no dual of this form"
            )
        form, a0 = _dual_form(problem, x0.ravel())
        return DualCoordinates(form, self, a0, problem)


@dataclass(frozen=True)
class Form:
    """F(x) = c sum_r loss(u_r, y_r) + sum_i ridge_i/2 (x_i - center_i)^2 + entropy H(x_i), with
    u = A diag(scale) x and A by columns; L_i the coordinate smoothness, mu the strong convexity."""

    kind: float
    c: float
    ridge: Array
    center: Array
    entropy: float
    scale: Array
    indptr: Array
    indices: Array
    values: Array
    targets: Array
    L_i: Array
    mu: float

    def image(self, x: Array) -> Array:
        """A diag(scale) x."""
        out = np.zeros(self.targets.size)
        column = np.repeat(np.arange(x.size), np.diff(self.indptr))
        np.add.at(out, self.indices, self.values * (self.scale * x)[column])
        return out


def _primal_form(problem: Problem) -> Form:
    if isinstance(problem, Quadratic):
        lam, d = problem.eigenvalues, problem.dim
        empty, none = np.zeros(d + 1, np.int64), np.zeros(0)
        ints = np.zeros(0, np.int32)
        return Form(SQUARED, 0.0, lam, problem.x_star, 0.0, np.ones(d), empty, ints, none, none,
                    lam, problem.mu)  # fmt: skip
    if not isinstance(problem, LeastSquares | LogisticRegression):
        raise TypeError(
            "CoordinateDescent is for Quadratic, LeastSquares and LogisticRegression, got "
            f"{type(problem).__name__}"
        )
    n, d = problem.X.shape
    indptr, indices, values = _columns(problem.X)
    squares = np.bincount(np.repeat(np.arange(d), np.diff(indptr)), values**2, minlength=d)
    L_i = problem.curvature * squares / n + problem.l2
    return Form(problem.loss, 1.0 / n, np.full(d, problem.l2), np.zeros(d), 0.0, np.ones(d), indptr,
                indices, values, problem.y, L_i, float(problem.mu))  # fmt: skip


def _columns(X: Any) -> tuple[Array, Array, Array]:
    from scipy import sparse

    columns = sparse.csc_array(X)
    return columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data


def _dual_form(problem: Any, x0: Array) -> tuple[Form, Array]:
    from scipy import sparse

    n, d = problem.X.shape
    rows = sparse.csr_array(problem.X)
    indptr, indices, values = rows.indptr.astype(np.int64), rows.indices, rows.data
    squares = np.bincount(np.repeat(np.arange(n), np.diff(indptr)), values**2, minlength=n)
    margins = rows @ x0
    shrink = 1.0 / (problem.l2 * n)
    smooth = squares * shrink / n  # of l2/2 |w|^2 along a_i
    if problem.loss == LOGISTIC:
        a0 = 1.0 / (1.0 + np.exp(np.clip(problem.y * margins, -700, 700)))
        scale, entropy, mu = problem.y * shrink, 1.0 / n, 4.0 / n
    else:
        a0, scale, entropy, mu = problem.y - margins, np.full(n, shrink), 0.0, 1.0 / n
    form = Form(SQUARED, problem.l2, np.full(n, 1.0 / n), problem.y, entropy, scale, indptr,
                indices.astype(np.int32), values, np.zeros(d), smooth + mu, mu)  # fmt: skip
    return form, a0


class Coordinates:
    """A run of coordinate steps: the state, and what may be asked of it between blocks."""

    measured = "gradient norm"

    def __init__(
        self, form: Form, method: CoordinateDescent | DualCoordinate, x0: Array, problem: Problem
    ) -> None:
        self.form, self.problem, self.accelerated = form, problem, method.accelerated
        self.name = method.name
        self.p = _probabilities(method.sampling, form.L_i)
        live = form.L_i > 0.0
        self.S = float(np.max(form.L_i[live] / self.p[live] ** 2, initial=0.0)) or 1.0
        self.process = Continuized(self.S, min(form.mu, self.S), method.start)
        self.steps = np.divide(1.0, form.L_i, out=np.zeros(live.size), where=live)
        self.weights = np.divide(1.0, self.p, out=np.zeros(live.size), where=self.p > 0.0)
        self.law = Categorical(self.p)
        self.costs = np.maximum(np.diff(form.indptr), 1)
        self.size = max(int(form.indptr[-1]), x0.size, 1)
        self.scalars = np.array([0.5, -0.5])
        self.s, self.d = np.array(x0, dtype=np.float64), np.zeros(x0.size)
        self.su = form.image(self.s)
        self.du = np.zeros(self.su.size)

    @property
    def constants(self) -> dict[str, float]:
        """What was used, given or computed."""
        found = {"mu": self.form.mu, "max_L_i": float(self.form.L_i.max(initial=0.0))}
        return {"S": self.S, **found} if self.accelerated else found

    def advance(self, marks: Array, coefficients: Array) -> None:
        """A block of events."""
        f = self.form
        columns = (f.entropy, f.scale, f.indptr, f.indices, f.values, f.targets, (f.kind, f.c))
        if self.accelerated:
            lazy.coordinate_events(
                marks, coefficients, self.steps, self.weights, f.ridge, f.center, *columns,
                self.scalars, self.s, self.d, self.su, self.du,
            )  # fmt: skip
        else:
            lazy.plain_coordinate_events(
                marks, self.steps, f.ridge, f.center, *columns, self.s, self.su
            )

    def coordinates(self) -> Array:
        """x: the coordinates now."""
        return self.s + self.scalars[0] * self.d if self.accelerated else self.s.copy()

    def images(self) -> Array:
        """u = A diag(scale) x, as carried along."""
        return self.su + self.scalars[0] * self.du if self.accelerated else self.su.copy()

    def point(self) -> Array:
        """The point in the problem's own variables."""
        return self.coordinates()

    def value(self) -> float:
        """f at the point."""
        return self.problem.fun(self.point())

    def measure(self) -> float:
        """What tol is compared with."""
        return float(np.linalg.norm(self.problem.grad(self.point())))


class DualCoordinates(Coordinates):
    """Coordinates are dual variables, and their image the primal point."""

    measured = "duality gap"

    def point(self) -> Array:
        return self.images()

    def dual_value(self) -> float:
        """The dual objective (to be maximised) at the dual variables."""
        p: Any = self.problem
        a, w = self.coordinates(), self.images()
        if self.form.entropy > 0.0:
            b = np.clip(a, 0.0, 1.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                h = np.where((b > 0) & (b < 1), b * np.log(b) + (1 - b) * np.log1p(-b), 0.0)
            return float(-h.mean() - 0.5 * p.l2 * (w @ w))
        return float(np.mean(a * p.y - 0.5 * a * a) - 0.5 * p.l2 * (w @ w))

    def measure(self) -> float:
        return self.value() - self.dual_value()


def _probabilities(sampling: Any, L_i: Array) -> Array:
    if isinstance(sampling, str):
        if sampling == "uniform":
            return np.full(L_i.size, 1.0 / L_i.size)
        if sampling != "sqrt":
            raise ValueError(
                f'sampling must be "sqrt", "uniform" or probabilities, got {brief(sampling)}'
            )
        roots = np.sqrt(L_i)
        total = float(roots.sum())
        return roots / total if total > 0.0 else np.full(L_i.size, 1.0 / L_i.size)
    p = checked_probabilities(sampling)
    if p.shape != L_i.shape:
        raise ValueError(
            f"sampling has {p.size} probabilities, but there are {L_i.size} coordinates"
        )
    never = np.flatnonzero((p == 0.0) & (L_i > 0.0))
    if never.size:
        raise ValueError(
            f"coordinate {never[0]} has probability 0, but f depends on it: it would never be moved"
        )
    return p
