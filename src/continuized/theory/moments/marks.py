"""Exact expectations where events have marks: coordinates and rows, with no sampling.

On a quadratic, mark i of probability p_i has G = v_i c_i^T (coordinate i: v_i = e_i and c_i the row
i of the Hessian; row a: v = c = a).  On a Quadratic every coordinate lives alone, with events of
rate p_i, and diagonals are all there is.  A block of coordinates moves all of its e_i; a batch of
rows is a mean of independent jumps.  The relative accuracy is about 1e-10, of each coordinate
there, and of the largest otherwise.

steps and weights are computed here from the theory, 1/L_i, 1/p_i and 1/R2, and not taken from the
steppers, which are tested against these moments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.marked.coordinate import CoordinateDescent
from continuized.marked.rows import StochasticLeastSquares
from continuized.marked.separable import SeparableForm
from continuized.problems import LeastSquares, Problem, Quadratic
from continuized.problems.base import Array, check_problem
from continuized.support.progress import Bar, silent
from continuized.theory.bounds.marked import find_row_start
from continuized.theory.checks import minimiser, minimum, start_of
from continuized.theory.moments.integrate import integrate_moments
from continuized.theory.moments.pair import (
    Marks,
    Moments,
    PairMoments,
    Rates,
    rates_of,
    symmetrise,
)

MOST_COLUMNS = 100  # columns: the ODE has 3 d^2 unknowns
ON_LEAST_SQUARES = (CoordinateDescent, StochasticLeastSquares)


def marked_moments(p: Problem, method: Any, x0: ArrayLike, t: Array, show: Bar) -> Moments:
    """E f(x_t), and E |x_t - x*|^2 in the sum of xx, for coordinates and rows (see `moments`).

    For rows x* is the solution nearest x_0, and the labels must have no noise.
    """
    x, is_coordinate = start_of(check_problem(p), x0), isinstance(method, CoordinateDescent)
    if is_coordinate and method.prox is not None:
        raise TypeError("proximal steps are not linear: their moments are not known; drop prox=")
    if is_coordinate and isinstance(p, Quadratic):
        stepper = method.prepare(p, x)
        mean = stepper.per_coordinate(stepper.p) * p.eigenvalues  # events move x_i at the rate p_i
        marks = Marks.diagonal(mean, mean * p.eigenvalues, *_coordinate_steps(stepper))
        rows = follow(stepper, marks, (x.ravel() - p.x_star) ** 2, t, show)
        return Moments.on_quadratic(p, t, None, rows)
    if not (isinstance(p, LeastSquares) and isinstance(method, ON_LEAST_SQUARES)):
        raise TypeError(
            f"moments of {method.name} on {type(p).__name__} are not known exactly; use "
            "CoordinateDescent on a Quadratic or LeastSquares, or rows on LeastSquares"
        )
    if p.dim > MOST_COLUMNS:
        raise ValueError(f"exact moments are for at most {MOST_COLUMNS} columns, X has {p.dim}")
    stepper = method.prepare(p, x)
    if is_coordinate:
        marks, basis, u = coordinate_marks(stepper), np.eye(p.dim), x.ravel() - minimiser(p).ravel()
    else:
        marks, basis, u = row_marks(stepper, p, x)
    m = basis @ follow(stepper, marks, np.outer(u, u), t, show) @ basis.T
    X = (p.X.toarray() if p.is_sparse else p.X).astype(np.float64)  # or X^T X is off by 1e-7
    hessian = X.T @ X / len(X) + p.l2 * np.eye(p.dim)
    fun = minimum(p) + 0.5 * np.einsum("tij,ij->t", m[:, 0], hessian)
    return Moments.from_rows(t, None, fun, np.einsum("tbii->tbi", m))


def follow(stepper: Any, marks: Marks, start: Array, times: Array, show: Bar = silent) -> Array:
    """Integrate the pair moments from E uu = `start`; shape (len(times), 3, *start.shape)."""
    if stepper.accelerated:
        rates = rates_of(stepper.process)._replace(gamma=lambda t: 1.0)  # marks have their steps
        project = symmetrise
    else:
        rates, project = Rates.constant(0.0, 1.0, 1.0), _let_z_be_x
    found = list(integrate_moments(rates, marks, np.stack([start] * 3), times, project, show=show))
    return np.array(found).reshape(len(times), 3, *start.shape)


def _let_z_be_x(m: PairMoments) -> PairMoments:
    """Put back what is true of plain methods: a difference by rounding would not decay."""
    return symmetrise(m)[[0, 0, 0]]


def coordinate_marks(stepper: Any) -> Marks:
    """Find the marks of coordinates of any quadratic form, or of blocks of them."""
    form: SeparableForm = stepper.form
    if form.entropy is not None:
        raise TypeError("the logistic conjugate is no quadratic: its moments are not known")
    A = np.stack([form.image(e) for e in np.eye(form.scale.size)], axis=1)
    hessian = form.c * (A.T @ A) + np.diag(form.ridge)
    block = stepper.per_coordinate(np.arange(stepper.p.size))
    p, same = stepper.per_coordinate(stepper.p)[:, None], block[:, None] == block

    def pull(A: Array) -> Array:
        """The rows of the gradient, each at its rate."""
        return np.asarray(p * (hessian @ A))

    def spread(A: Array) -> Array:
        """What a block moves is its rows and columns of E g g^T, g the gradient."""
        return np.where(same, p * (hessian @ A @ hessian), 0.0)

    return Marks(pull, spread, *_coordinate_steps(stepper))


def row_marks(stepper: Any, p: LeastSquares, x: Array) -> tuple[Marks, Array, Array]:
    """Find the marks of rows, or of batches, the basis in which they are, and x_0 - x* in it.

    What rounding adds beside what rows see would never decay: the basis spans that alone.
    """
    start = find_row_start(stepper, p, x)
    c, share = start.rows @ start.basis, 1.0 / stepper.batch
    steps = np.full(c.shape[1], 1.0 / stepper.R2)
    mean = c.T @ (stepper.p[:, None] * c)

    def spread(A: Array) -> Array:
        """Of batch^2 pairs of rows, `batch` are a row and itself, the others independent."""
        square = stepper.p * ((c @ A) * c).sum(axis=1)
        itself = c.T @ (square[:, None] * c)
        return np.asarray(
            itself if share == 1.0 else share * itself + (1.0 - share) * (mean @ A @ mean)
        )

    weights = np.ones_like(steps) if stepper.accelerated else steps
    return Marks(lambda A: mean @ A, spread, steps, weights), start.basis, start.u


def _coordinate_steps(stepper: Any) -> tuple[Array, Array]:
    """1/L_i and 1/p_i of each coordinate's mark; 0 where f does not depend on it.

    For a plain method, both are 1/L_i.
    """
    live = stepper.form.L_i > 0.0
    steps = np.divide(1.0, stepper.form.L_i, out=np.zeros(live.size), where=live)
    weights = np.divide(1.0, stepper.p, out=np.zeros(live.size), where=live)
    steps, weights = stepper.per_coordinate(steps), stepper.per_coordinate(weights)
    return steps, weights if stepper.accelerated else steps
