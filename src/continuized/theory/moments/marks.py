"""Exact expectations where events have marks: coordinates and rows, with no sampling.

With u = x - x*, w = z - x*, mark i of probability p_i acts linearly on a quadratic,

    u -= steps_i v_i <c_i, u>        w -= gamma' weights_i v_i <c_i, u>

(coordinate i: v_i = e_i and c_i the row i of the Hessian; row a: v = c = a), and the second moments
M = (E uu^T, E uw^T, E ww^T) obey a linear ODE: the flow plus sum_i p_i (J_i M J_i^T - M).  On a
Quadratic every coordinate lives alone, with events of rate p_i, and diagonals are all there is.
A block of coordinates moves all of its e_i; a batch of rows is a mean of independent jumps.
The relative accuracy is about 1e-10, of each coordinate there, and of the largest otherwise.

steps and weights are computed here from the theory, 1/L_i, 1/p_i and 1/R2, and not taken from the
engines, which are tested against these moments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.marked.coordinate import CoordinateDescent
from continuized.marked.rows import StochasticLeastSquares
from continuized.marked.separable import Form
from continuized.problems import LeastSquares, Problem, Quadratic
from continuized.problems.base import Array
from continuized.theory.bounds.marked import row_start
from continuized.theory.checks import checked_times, minimiser, minimum, start_of
from continuized.theory.moments.integrate import in_chunks, solved
from continuized.theory.moments.pair import Moments, Rates, apply, flow_matrix, jump_map, rates

RTOL, ATOL = 1e-11, 1e-14
FIRST = 1e-7  # where the series takes over from an infinite eta(0); its error is FIRST^2
LARGEST = 100  # columns: the ODE has 3 d^2 unknowns

STILL = Rates(lambda t: 0.0, lambda t: 0.0, lambda t: 1.0, lambda t: 1.0)  # plain: z follows x


class Alone(NamedTuple):
    """Coordinates of a diagonal quadratic."""

    p: Array
    steps: Array
    weights: Array
    eigenvalues: Array

    def drift(self, m: Array, gamma_prime: float) -> Array:
        """sum_i p_i (J_i M J_i^T - M), m of shape (3, d)."""
        jump = jump_map(self.steps, gamma_prime * self.weights, self.eigenvalues)  # type: ignore[arg-type]
        change: Array = self.p * (apply(jump, m) - m)
        return change


class Blocks(NamedTuple):
    """Coordinates, or blocks of them, of any quadratic.

    p, steps and weights have the entry of its block for each coordinate; same[i, j] is whether i
    and j are in one block, and c is the Hessian.
    """

    p: Array
    steps: Array
    weights: Array
    same: Array
    c: Array

    def drift(self, m: Array, gamma_prime: float) -> Array:
        """sum_B p_B (J_B M J_B^T - M), m of shape (3, d, d)."""
        dx, dz = self.steps, gamma_prime * self.weights
        mean_x, mean_z = ((self.p * s)[:, None] * self.c for s in (dx, dz))
        # What B moves is the rows and columns B of E g g^T, g the gradient.
        square = np.where(self.same, self.c @ m[0] @ self.c, 0.0)
        seconds = [(self.p * s)[:, None] * square for s in (dx * dx, dx * dz, dz * dz)]
        return _drift(m, mean_x, mean_z, seconds)


class Batches(NamedTuple):
    """Rows c, or batches of them: the mean of `batch` independent jumps along a row."""

    p: Array
    steps: Array
    weights: Array
    c: Array
    batch: int

    def drift(self, m: Array, gamma_prime: float) -> Array:
        """E J M J^T - M, m of shape (3, d, d)."""
        uu = m[0]
        dx, dz = self.steps, gamma_prime * self.weights
        mean_x, mean_z = (self.c.T @ ((self.p * s)[:, None] * self.c) for s in (dx, dz))
        square = self.p * ((self.c @ uu) * self.c).sum(axis=1)
        # Of batch^2 pairs of rows, `batch` are a row and itself, and the others independent.
        itself = 1.0 / self.batch
        seconds = [
            itself * (self.c.T @ ((square * s * t)[:, None] * self.c))
            + (1.0 - itself) * (left @ uu @ right.T)
            for (s, left), (t, right) in (
                ((dx, mean_x), (dx, mean_x)),
                ((dx, mean_x), (dz, mean_z)),
                ((dz, mean_z), (dz, mean_z)),
            )
        ]
        return _drift(m, mean_x, mean_z, seconds)


def _drift(m: Array, mean_x: Array, mean_z: Array, seconds: list[Array]) -> Array:
    """E J M J^T - M where u -= G_x u and w -= G_z u at a jump: the means of G_x and G_z, and
    E G_x uu^T G_x^T, E G_x uu^T G_z^T and E G_z uu^T G_z^T."""
    uu, uw, _ = m
    first_uu, first_ww = mean_x @ uu, mean_z @ uw
    return np.stack(
        [
            seconds[0] - first_uu - first_uu.T,
            seconds[1] - mean_x @ uw - uu @ mean_z.T,
            seconds[2] - first_ww - first_ww.T,
        ]
    )


def marked_moments(
    p: Problem, method: Any, x0: ArrayLike, times: ArrayLike | None, sigma2: float
) -> Moments:
    """E f(x_t), and E |x_t - x*|^2 in the sum of xx, for coordinates and rows (see `moments`).

    For rows x* is the solution nearest x_0, and the labels must have no noise.
    """
    if times is None:
        raise ValueError(f"the moments of {method.name} are for fixed times: give times, not k=")
    if sigma2 > 0.0:
        raise ValueError(f"{method.name} draws its own gradients: sigma2 must be 0")
    x = start_of(p, x0)
    t = np.atleast_1d(checked_times(times, "times", ordered=True))
    if isinstance(method, CoordinateDescent) and isinstance(p, Quadratic):
        return _on_quadratic(p, method, x, t)
    if not (isinstance(p, LeastSquares) and isinstance(method, COORDINATES_OR_ROWS)):
        raise TypeError(
            f"moments of {method.name} on {type(p).__name__} are not known exactly; use "
            "CoordinateDescent on a Quadratic or LeastSquares, or rows on LeastSquares"
        )
    if p.dim > LARGEST:
        raise ValueError(f"exact moments are for at most {LARGEST} columns, X has {p.dim}")
    return _on_least_squares(p, method, x, t)


COORDINATES_OR_ROWS = (CoordinateDescent, StochasticLeastSquares)


def _on_quadratic(p: Quadratic, method: CoordinateDescent, x: Array, t: Array) -> Moments:
    engine = method.prepare(p, x)
    steps, weights = _coordinate_steps(engine)
    marks = Alone(engine.spread(engine.p), steps, weights, p.eigenvalues)
    u2 = (x.ravel() - p.x_star) ** 2
    m = _run(engine, marks, np.stack([u2, u2, u2]), t)
    fun = p.f_star + 0.5 * (m[:, 0] * p.eigenvalues).sum(axis=1)
    return Moments(t, None, fun, m[:, 2].sum(axis=1), m[:, 0], m[:, 1], m[:, 2])


def _on_least_squares(p: LeastSquares, method: Any, x: Array, t: Array) -> Moments:
    engine = method.prepare(p, x)
    if isinstance(method, CoordinateDescent):
        marks: Blocks | Batches = coordinate_marks(engine)
        basis, u = np.eye(p.dim), x.ravel() - minimiser(p).ravel()
    else:
        marks, basis, u = row_marks(engine, p, x)
    m = basis @ _run(engine, marks, np.stack([np.outer(u, u)] * 3), t) @ basis.T
    X = (p.X.toarray() if p.is_sparse else p.X).astype(np.float64)  # or X^T X is off by 1e-7
    hessian = X.T @ X / len(X) + p.l2 * np.eye(p.dim)
    fun = minimum(p) + 0.5 * np.einsum("tij,ij->t", m[:, 0], hessian)
    xx, xz, zz = np.moveaxis(np.einsum("tbii->tbi", m), 1, 0)
    return Moments(t, None, fun, zz.sum(axis=1), xx, xz, zz)


def coordinate_marks(engine: Any) -> Blocks:
    """Coordinates of any quadratic form, or blocks of them."""
    steps, weights = _coordinate_steps(engine)
    block = engine.spread(np.arange(engine.p.size))
    same = block[:, None] == block
    return Blocks(engine.spread(engine.p), steps, weights, same, _hessian(engine.form))


def row_marks(engine: Any, p: LeastSquares, x: Array) -> tuple[Batches, Array, Array]:
    """Rows, or batches of them, the basis in which they are, and x_0 - x* in it.

    What rounding adds beside what rows see would never decay: the basis spans that alone.
    """
    start = row_start(engine, p, x)
    steps = np.full(len(start.rows), 1.0 / engine.R2)
    weights = np.ones(len(steps)) if engine.accelerated else steps
    c = start.rows @ start.basis
    return Batches(engine.p, steps, weights, c, engine.batch), start.basis, start.u


def _coordinate_steps(engine: Any) -> tuple[Array, Array]:
    """1/L_i and 1/p_i of each coordinate's mark; 0 where f does not depend on it.  Plain: both
    1/L_i."""
    live = engine.form.L_i > 0.0
    steps = np.divide(1.0, engine.form.L_i, out=np.zeros(live.size), where=live)
    weights = np.divide(1.0, engine.p, out=np.zeros(live.size), where=live)
    steps, weights = engine.spread(steps), engine.spread(weights)
    return steps, weights if engine.accelerated else steps


def _hessian(form: Form) -> Array:
    if form.entropy > 0.0:
        raise TypeError("the logistic conjugate is no quadratic: its moments are not known")
    A = np.stack([form.image(e) for e in np.eye(form.scale.size)], axis=1)
    hessian: Array = form.c * (A.T @ A) + np.diag(form.ridge)
    return hessian


def _run(engine: Any, marks: Alone | Blocks | Batches, m: Array, t: Array) -> Array:
    if engine.accelerated:
        return integrated(rates(engine.process), marks.drift, m, t)
    # z is x, but for rounding, and that would not decay.
    return integrated(STILL, marks.drift, m, t)[:, [0, 0, 0]]


def integrated(
    rate: Rates, drift: Callable[[Array, float], Array], m: Array, times: Array
) -> Array:
    """The moments at increasing times from m at 0; shape (len(times), *m.shape)."""
    t, begun, later = 0.0, m, times[times > 0.0]
    if later.size and m.size and math.isinf(rate.eta(0.0)):
        t = min(FIRST, 0.5 * float(later[0]))
        # m = m_0 + t m_1 + O(t^2), where (1 - t F) m_1 = the drift at 0
        source = drift(m, rate.gamma_prime(t))
        inverse = np.linalg.inv(np.eye(3) - t * flow_matrix(rate, t))
        begun = m + t * _symmetric((inverse @ source.reshape(3, -1)).reshape(m.shape))
    out = in_chunks(partial(_chunk, rate, drift), begun, t, times)
    out[times == 0.0] = m
    return out


def _chunk(
    rate: Rates, drift: Callable[[Array, float], Array], m: Array, t0: float, stops: Array
) -> Array:
    """From the moments m at t0 to those at `stops`, in units of their sizes at t0."""
    units = _units(m)

    def slope(t: float, scaled: Array) -> Array:
        # Where rounding makes E uu^T and E ww^T not symmetric, the difference grows, while all
        # else decays: here it is not seen, and below it is taken out.
        n = _symmetric(scaled * units)
        flow = _symmetric((flow_matrix(rate, t) @ n.reshape(3, -1)).reshape(n.shape))
        return np.asarray((flow + drift(n, rate.gamma_prime(t))) / units)

    found = solved(slope, m / units, t0, stops, RTOL, ATOL)
    return np.stack([_symmetric(scaled * units) for scaled in found])


def _symmetric(m: Array) -> Array:
    """The same with E uu^T and E ww^T symmetric; E uw^T is not."""
    if m.ndim == 3:
        m[0], m[2] = 0.5 * (m[0] + m[0].T), 0.5 * (m[2] + m[2].T)
    return m


def _units(m: Array) -> Array:
    """The sizes of uu, uw, ww: of each coordinate where it lives alone, else of the largest."""
    if m.ndim == 3:
        uu, ww = (np.diagonal(m[b]).max()[None, None] for b in (0, 2))
    else:
        uu, ww = m[0], m[2]
    uu, ww = (np.where(size > 0.0, size, 1.0) for size in (uu, ww))
    return np.stack([uu, np.sqrt(uu) * np.sqrt(ww), ww])
