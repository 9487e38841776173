"""Compiled: gradients of the nodes' functions, and of their conjugates.

grad f*(s) is the minimiser of f(w) - <s, w>.  For the squared loss that is a linear system, whose
Cholesky factor is kept; for the logistic loss Newton's method, from where it last ended.

Along Newton's direction the squared norm of the gradient falls at first, whatever the point, for
its derivative is -2 |g|^2: so a step is halved until |g| falls, and where no halving makes it
fall, what is left is rounding.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from continuized.network.optimisation.objective import Objective, is_rounding
from continuized.network.simulation.engine import check_solved
from continuized.problems.base import Array
from continuized.problems.losses import (
    SQUARED,
    compile_losses,
    logistic_second_slope,
    loss,
    loss_slope,
    losses_in_numpy,
    tail,
)
from continuized.support import blas
from continuized.support.cholesky import factor_in_place, solve_in_place
from continuized.support.jit import (
    UNCOUNTED,
    find_address,
    in_numpy,
    jit,
    jit_uncounted,
    make_call,
    matrix,
    types,
    uncounted,
    vector,
)

compile_losses()

MOST_NEWTON_STEPS = 100
MOST_HALVINGS = 40
LEAST_FALL = 0.9  # of |g|, below which a step is rounding once |g| is small
SMALL_SLOPE = 1e-12  # |g|, relative to what it is made of


@uncounted
@in_numpy(np.dot)
def inner(v: Array, w: Array) -> float:
    """Return <v, w>."""
    total = 0.0
    for c in range(w.size):
        total += v[c] * w[c]
    return total


def _slope_in_numpy(
    kind: float, X: Array, y: Array, weights: Array, l2: float, w: Array, out: Array
) -> None:
    out[:] = l2 * w + (weights * losses_in_numpy(kind, X @ w, y)[1]) @ X


@uncounted
@in_numpy(_slope_in_numpy)
def slope(kind: float, X: Array, y: Array, weights: Array, l2: float, w: Array, out: Array) -> None:
    """Write the gradient of sum_r weights_r loss(<x_r, w>, y_r) + l2/2 |w|^2 into `out`."""
    for c in range(w.size):
        out[c] = l2 * w[c]
    for r in range(X.shape[0]):
        push = weights[r] * loss_slope(kind, inner(X[r], w), y[r])
        for c in range(w.size):
            out[c] += push * X[r, c]


def _value_in_numpy(kind: float, X: Array, y: Array, weights: Array, l2: float, w: Array) -> float:
    return float(0.5 * l2 * (w @ w) + weights @ losses_in_numpy(kind, X @ w, y)[0])


@jit_uncounted
@in_numpy(_value_in_numpy)
def value(kind: float, X: Array, y: Array, weights: Array, l2: float, w: Array) -> float:
    """Return sum_r weights_r loss(<x_r, w>, y_r) + l2/2 |w|^2."""
    total = 0.5 * l2 * inner(w, w)
    for r in range(X.shape[0]):
        total += weights[r] * loss(kind, inner(X[r], w), y[r])
    return float(total)


def _hessian_in_numpy(
    kind: float, X: Array, y: Array, weights: Array, l2: float, w: Array, out: Array
) -> None:
    if kind != SQUARED:
        weights = weights * logistic_second_slope(np.exp(-np.abs(y * (X @ w))))
    out[:] = (X.T * weights) @ X + l2 * np.eye(w.size)


@uncounted
@in_numpy(_hessian_in_numpy)
def hessian(
    kind: float, X: Array, y: Array, weights: Array, l2: float, w: Array, out: Array
) -> None:
    """Write the lower triangle of its Hessian into `out`."""
    d = w.size
    for c in range(d):
        for b in range(c):
            out[c, b] = 0.0
        out[c, c] = l2
    for r in range(X.shape[0]):
        second = weights[r]
        if kind != SQUARED:
            second *= logistic_second_slope(tail(kind, inner(X[r], w), y[r]))
        for c in range(d):
            scaled = second * X[r, c]
            for b in range(c + 1):
                out[c, b] += scaled * X[r, b]


@uncounted
def tilted_slope(
    kind: float, X: Array, y: Array, weights: Array, l2: float, s: Array, w: Array, out: Array
) -> float:
    """Write `slope` less s into `out`; returns its norm."""
    slope(kind, X, y, weights, l2, w, out)
    for c in range(w.size):
        out[c] -= s[c]
    return math.sqrt(inner(out, out))


def newton(
    kind: float, X: Array, y: Array, weights: Array, l2: float, s: Array, w: Array, room: Array,
    steps: int,
) -> bool:  # fmt: skip
    """Take w to the minimiser of sum_r weights_r loss + l2/2 |w|^2 - <s, w>, to rounding.

    `room` (dim + 3, dim) is overwritten.  Returns whether it got there in so many steps.
    """
    d = w.size
    matrix, g, direction, trial = room[:d], room[d], room[d + 1], room[d + 2]
    norm = tilted_slope(kind, X, y, weights, l2, s, w, g)
    for _step in range(steps):
        if norm == 0.0 or not norm < math.inf:
            return bool(norm == 0.0)
        hessian(kind, X, y, weights, l2, w, matrix)
        if not factor_in_place(matrix):
            return True  # flat, to rounding
        for c in range(d):
            direction[c] = g[c]
        solve_in_place(matrix, direction)
        near = norm <= SMALL_SLOPE * (math.sqrt(inner(s, s)) + l2 * math.sqrt(inner(w, w)) + norm)
        length, new = 1.0, math.inf
        for _halving in range(1 if near else MOST_HALVINGS):
            for c in range(d):
                trial[c] = w[c] - length * direction[c]
            new = tilted_slope(kind, X, y, weights, l2, s, trial, g)
            if new < norm:
                break
            length *= 0.5
        if not new < norm:  # rounding
            return True
        for c in range(d):
            w[c] = trial[c]
        if near and new > LEAST_FALL * norm:
            return True
        norm = new
    return False


FLOATS, ROWS = vector(np.float64), matrix(np.float64)
NEWTON_TYPE = types.boolean(
    types.float64, ROWS, FLOATS, FLOATS, types.float64, FLOATS, FLOATS, ROWS, types.int64
)


@cache
def compile_newton() -> Any:
    """Compile `newton`: once, for it is long, and loops call it by its address."""
    return jit(newton, NEWTON_TYPE, **UNCOUNTED)


call_newton = make_call(NEWTON_TYPE)


class Newton(NamedTuple):
    """How compiled code calls `newton`: by its address, with the room that it works in."""

    address: Any
    room: Array


def make_newton(dim: int) -> Newton:
    """Make what it takes to call `newton`."""
    return Newton(find_address(compile_newton()), np.empty((dim + 3, dim)))


def make_newton_for(objective: Objective) -> Newton | None:
    """Make the same for the gradients of the conjugates; None where they are linear systems."""
    return None if objective.loss == SQUARED else make_newton(objective.dim)


class LocalData(NamedTuple):
    """What compiled code knows of the nodes' functions (see `network.Objective`)."""

    kind: float
    X: Array
    y: Array
    weights: Array  # of the rows
    starts: Array
    l2: Array
    factors: Array  # (nodes, dim, dim), or none for the logistic loss
    offsets: Array  # (nodes, dim): minus the gradients at 0; the same


def make_data(objective: Objective, conjugates: bool) -> LocalData:
    """Make the data, with what the gradients of the conjugates need."""
    o = objective
    factors, offsets = np.empty((0, 0, 0)), np.empty((0, 0))
    if conjugates and o.loss == SQUARED:
        factors = blas.compute(o.nodes * float(o.dim) ** 3, np.linalg.cholesky, o.hessians())
        rows = [o.rows(i) for i in range(o.nodes)]
        offsets = np.array([s * (o.y[r] @ o.X[r]) for s, r in zip(o.scale, rows, strict=True)])
    return LocalData(o.loss, o.X, o.y, o.row_scale, o.starts, o.l2, factors, offsets)


@uncounted
def gradient(data: LocalData, i: int, w: Array, out: Array) -> None:
    """Write grad f_i(w) into `out`."""
    begin, end = data.starts[i], data.starts[i + 1]
    rows, weights = data.X[begin:end], data.weights[begin:end]
    slope(data.kind, rows, data.y[begin:end], weights, data.l2[i], w, out)


@uncounted
def gradient_of_conjugate(
    data: LocalData, i: int, s: Array, w: Array, method: Newton | None
) -> bool:
    """Write grad f_i*(s) into w, which is near it at best; returns whether it was found.

    Without Newton's method, which is known when Numba compiles, its call is not compiled.
    """
    if method is not None and data.kind != SQUARED:
        begin, end = data.starts[i], data.starts[i + 1]
        own = data.kind, data.X[begin:end], data.y[begin:end], data.weights[begin:end], data.l2[i]
        given = (*own, s, w, method.room, MOST_NEWTON_STEPS)
        return bool(call_newton(method.address, given))
    for c in range(w.size):
        w[c] = s[c] + data.offsets[i, c]
    solve_in_place(data.factors[i], w)
    return True


# For Python to call, which would run the functions themselves uncompiled.
compiled_slope, compiled_gradient, compiled_gradient_of_conjugate = map(
    jit_uncounted, (slope, gradient, gradient_of_conjugate)
)


def find_minimiser(
    kind: float, X: Array, y: Array, weights: Array, l2: float, tilt: Array | None = None
) -> Array:
    """Find the minimiser of sum_r weights_r loss + l2/2 |w|^2 - <tilt, w>."""
    work = 4.0 * X.size * X.shape[1]
    return blas.compute(work, _find_minimiser, kind, X, y, weights, l2, tilt)


def _find_minimiser(
    kind: float, X: Array, y: Array, weights: Array, l2: float, tilt: Array | None
) -> Array:
    n, d = X.shape
    s = np.zeros(d) if tilt is None else tilt
    pushes = weights * losses_in_numpy(kind, np.zeros(n), y)[1]
    # Column by column: the first one tells, but for the rare data of which this is so.
    if not s.any() and all(is_rounding(pushes * column) for column in X.T):
        return np.zeros(d)
    if kind == SQUARED:
        roots = np.sqrt(weights)
        rows = np.vstack([X * roots[:, np.newaxis], math.sqrt(l2) * np.eye(d)])
        right = np.concatenate([y * roots, np.zeros(d)])
        w = np.asarray(np.linalg.lstsq(rows, right, rcond=None)[0])
        return w + np.linalg.solve(rows.T @ rows, s) if s.any() else w
    w, take_steps = np.zeros(d), compile_newton()
    # A step at a time: a thread that was given up ends after the next one.
    given = kind, X, y, weights, l2, s, w, make_newton(d).room
    if not any(take_steps(*given, 1) for _ in range(MOST_NEWTON_STEPS)):
        advice = "scale the columns" if l2 > 0.0 else "there may be no minimum: give l2 > 0"
        raise ArithmeticError(f"Newton's method did not end on {n} rows; {advice}")
    if l2 == 0.0 and not np.any(y * (X @ w) <= 0.0):  # w may have overflowed
        raise ArithmeticError("the rows can be separated, so that there is no minimum: give l2 > 0")
    return w


class DualFunction:
    """D(y) = sum_i f_i*(y_i) and its gradient, whose row i is w_i = grad f_i*(y_i).

    Newton's method, where it is needed, starts from the last gradient.
    """

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._data = make_data(objective, conjugates=True)
        self._newton = make_newton_for(objective)
        self._w = np.zeros((objective.nodes, objective.dim))

    def slopes(self, y: Array) -> Array:
        """Return the gradient, (nodes, dim)."""
        for i, w in enumerate(self._w):
            s = np.ascontiguousarray(y[i])
            check_solved(compiled_gradient_of_conjugate(self._data, i, s, w, self._newton))
        return self._w.copy()

    def value(self, y: Array, w: Array | None = None) -> float:
        """D(y) = sum_i <y_i, w_i> - f_i(w_i); with w = slopes(y) if that is at hand."""
        o = self.objective
        w = self.slopes(y) if w is None else w
        own = np.repeat(w, np.diff(o.starts), axis=0)  # the w of each row
        predictions = np.einsum("rc,rc->r", o.X, own)[:, np.newaxis]
        losses = value(o.loss, predictions, o.y, o.row_scale, 0.0, np.ones(1))
        penalties = 0.5 * o.l2 @ (w * w).sum(axis=1)
        return float(np.vdot(y, w) - losses - penalties)

    @property
    def minimum(self) -> float:
        """D* = -sum_i f_i(x*), at the y* of `Objective.slopes_at_minimiser`."""
        return -self.objective.nodes * self.objective.f_star
