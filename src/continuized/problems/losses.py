"""Scalar formulas of the losses: plain Python on floats, compiled where speed counts."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.support.elementary import compile_elementary, exp, log1p_fraction

SQUARED, LOGISTIC = 0.0, 1.0  # as they stand in a compiled problem's data
SOFTMAX = 2.0  # of several predictions: never compiled
POISSON = 3.0
# A kind below 0 is Huber's loss, a straight line beyond delta = -kind: one number says both.


def tail(kind: float, prediction: float, y: float) -> float:
    """What a loss and its slope share: exp(-|y p|) if it is logistic, exp(p) if it is Poisson's."""
    if kind == LOGISTIC:
        return exp(-abs(y * prediction))  # which never overflows
    return exp(prediction) if kind == POISSON else 0.0


def loss(kind: float, prediction: float, y: float) -> float:
    """(p - y)^2 / 2, log(1 + exp(-y p)), exp(p) - y p, or Huber's."""
    return loss_by_tail(kind, prediction, y, tail(kind, prediction, y))


def loss_by_tail(kind: float, prediction: float, y: float, e: float) -> float:
    """The loss, where e = tail(kind, p, y) is at hand."""
    if kind == SQUARED:
        return 0.5 * ((prediction - y) * (prediction - y))
    if kind == LOGISTIC:
        return max(-y * prediction, 0.0) + log1p_fraction(e)
    if kind == POISSON:
        return e - y * prediction
    return huber(prediction - y, -kind)


def huber(residual: float, delta: float) -> float:
    """r^2 / 2 where |r| <= delta, and delta (|r| - delta / 2) beyond."""
    inside = min(abs(residual), delta)
    return inside * (abs(residual) - 0.5 * inside)


def loss_slope(kind: float, prediction: float, y: float) -> float:
    """The derivative of the loss in the prediction."""
    return slope_by_tail(kind, prediction, y, tail(kind, prediction, y))


def slope_by_tail(kind: float, prediction: float, y: float, e: float) -> float:
    """The derivative of the loss in the prediction, where e = tail(kind, p, y) is at hand."""
    if kind == SQUARED:
        return prediction - y
    if kind == LOGISTIC:
        return -y * (e if y * prediction > 0.0 else 1.0) / (1.0 + e)
    if kind == POISSON:
        return e - y
    residual = prediction - y
    if residual > -kind:
        return -kind
    return kind if residual < kind else residual  # NaN stays NaN


def logistic_second_slope(e: Any) -> Any:
    """The second derivative of the logistic loss, where e = tail(LOGISTIC, p, y) is at hand."""
    return e / (1.0 + e) ** 2


def losses_in_numpy(kind: float, p: Any, y: Any) -> tuple[Any, Any]:
    """Return the losses of many predictions and their slopes, as arrays."""
    if kind == SQUARED:
        return 0.5 * (p - y) ** 2, p - y
    if kind == LOGISTIC:
        e = np.exp(-np.abs(y * p))
        slopes = -y * np.where(y * p > 0.0, e, 1.0) / (1.0 + e)
        return np.maximum(-y * p, 0.0) + np.log1p(e), slopes
    if kind == POISSON:
        e = np.exp(p)
        return e - y * p, e - y
    size = np.abs(p - y)
    inside = np.minimum(size, -kind)
    return inside * (size - 0.5 * inside), np.clip(p - y, kind, -kind)


FORMULAS = (tail, huber, loss_by_tail, loss, slope_by_tail, loss_slope, logistic_second_slope)


@cache
def compile_losses() -> None:
    """Let compiled code call these formulas; this imports Numba."""
    from continuized.support.jit import compile_formulas

    # No denominator is 0, and a test whether one is would keep a loop from vector instructions.
    compile_formulas(*FORMULAS, error_model="numpy")
    compile_elementary()
