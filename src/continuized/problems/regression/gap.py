"""How far a point of a regression is from the minimum at most: a bound that needs no minimiser."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array
from continuized.problems.regression.interface import Regression
from continuized.problems.regression.linear import Linear

MOST_STEPS = 50
SMALL = 1e-12  # of the curvature along an intercept: its slope, where it is the best


def bound_gap(p: Regression, x: ArrayLike, l1: float = 0.0) -> float | None:
    """Bound F(x) - F*, with F = f + l1 (the sum of |w_j|); None where there is no penalty.

    No intercept is penalised.  They are moved to their best values for this w first, which takes
    some passes over the data; what that gains is added to the bound, for the rest has a dual point
    made of the slopes of the losses.

    l2 > 0: F without the intercepts is strongly convex, and the bound is |s|^2 / (2 l2), with s the
    shortest of its subgradients.  For l1 = 0 that is the duality gap.

    l2 = 0: with g the gradient of the mean loss, c = min(1, l1 / max |g_j|) makes c times the
    slopes a dual point.  The conjugate of a loss at c times a slope is at most c times that at the
    slope, which Fenchel's equality gives, and 1 - c times that at 0, which is minus its least
    value: so F* >= c (f - <w, g>) + (1 - c) least_loss.

    >>> from continuized.problems import LeastSquares
    >>> p = LeastSquares([[1.0], [1.0]], [0.0, 2.0], l2=1.0)
    >>> bound_gap(p, [0.0]), p.fun([0.0]) - p.f_star
    (0.5, 0.25)
    """
    if not (p.l2 > 0.0 or l1 > 0.0):
        return None
    W = np.array(x, dtype=np.float64).reshape(p.variables, p.classes)
    before, d = p.fun(W), p.column_count
    if p.intercept:
        _move_intercepts(p, W)
    f, g = p.value_and_gradient(W)
    w, g = W[:d].ravel(), g[:d].ravel()
    gained = before - f
    if p.l2 > 0.0:
        s = np.where(w == 0.0, np.maximum(np.abs(g) - l1, 0.0), g + l1 * np.sign(w))
        return max(float(s @ s) / (2.0 * p.l2) + gained, 0.0)  # rounding may leave less
    largest = float(np.abs(g).max(initial=0.0))
    c = min(1.0, l1 / largest) if largest > 0.0 else 1.0
    lower = c * (f - float(w @ g)) + (1.0 - c) * p.least_loss
    return max(f + l1 * float(np.abs(w).sum()) - lower + gained, 0.0)


def _move_intercepts(p: Regression, W: Array) -> None:
    """Move the intercepts, the last row of W, to their best values by Newton's method."""
    f, slopes = _at(p, W)
    for _ in range(MOST_STEPS):
        hessian = p.sum_over_rows(sum_intercept_curvatures, W) / p.row_count
        largest = float(np.trace(hessian))
        if not (math.isfinite(largest) and np.abs(slopes).max() > SMALL * largest):
            return
        step = np.linalg.lstsq(hessian, slopes, rcond=None)[0]
        trial = W.copy()
        trial[-1] -= step
        value, new = _at(p, trial)
        if not value < f and not np.abs(new).max() < np.abs(slopes).max():
            return
        W[-1], f, slopes = trial[-1], value, new


def sum_intercept_curvatures(p: Linear, index: Any, W: Array) -> Array:
    """Return the sum of the weighted second derivatives of the losses along the intercepts."""
    q = p.curvatures(W, index)
    shares = np.ones(len(q)) if p.shares is None else p.shares[index]
    if q.ndim == 1:
        return np.array([[float(shares @ q)]])
    return np.asarray(np.diag(shares @ q) - q.T @ (shares[:, np.newaxis] * q))


def _at(p: Regression, W: Array) -> tuple[float, Array]:
    """Return f and its slopes along the intercepts."""
    f, g = p.value_and_gradient(W)
    return f, np.asarray(g[-1])
