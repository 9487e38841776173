"""Scalar formulas of the losses: plain Python on floats, compiled where speed counts."""

from __future__ import annotations

import math
from typing import Any

Four = tuple[float, float, float, float]
SQUARED, LOGISTIC = 0.0, 1.0  # as they stand in a compiled problem's data
SOFTMAX = 2.0  # of several predictions: never compiled
POISSON = 3.0
# A kind below 0 is Huber's loss, a straight line beyond delta = -kind: one number says both.
LARGEST_EXPONENT = 709.7  # beyond, exp is infinite


def tail(kind: float, prediction: float, y: float) -> float:
    """What a loss and its slope share: exp(-|y p|) if it is logistic, exp(p) if it is Poisson's."""
    if kind == LOGISTIC:
        return math.exp(-abs(y * prediction))  # which never overflows
    if kind == POISSON:
        return math.exp(prediction) if prediction < LARGEST_EXPONENT else math.inf
    return 0.0


def loss(kind: float, prediction: float, y: float) -> float:
    """(p - y)^2 / 2, log(1 + exp(-y p)), exp(p) - y p, or Huber's."""
    return loss_by_tail(kind, prediction, y, tail(kind, prediction, y))


def loss_by_tail(kind: float, prediction: float, y: float, e: float) -> float:
    """The loss, where e = tail(kind, p, y) is at hand."""
    if kind == SQUARED:
        return 0.5 * (prediction - y) ** 2
    if kind == LOGISTIC:
        return max(-y * prediction, 0.0) + math.log1p(e)
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


def four_losses(kind: float, p: Four, y: Four, e: Four) -> float:
    """The sum of four losses, with their tails e and, if logistic, one logarithm for the four.

    sum log(1 + e_i) = log(prod (1 + e_i)) = log1p(q); each e_i is at most 1, so q is at most
    15, and all its terms are positive: nothing cancels.
    """
    if kind == SQUARED:
        return 0.5 * (
            (p[0] - y[0]) ** 2 + (p[1] - y[1]) ** 2 + (p[2] - y[2]) ** 2 + (p[3] - y[3]) ** 2
        )
    if kind != LOGISTIC:
        return (
            loss_by_tail(kind, p[0], y[0], e[0])
            + loss_by_tail(kind, p[1], y[1], e[1])
            + loss_by_tail(kind, p[2], y[2], e[2])
            + loss_by_tail(kind, p[3], y[3], e[3])
        )
    linear = (
        max(-y[0] * p[0], 0.0)
        + max(-y[1] * p[1], 0.0)
        + max(-y[2] * p[2], 0.0)
        + max(-y[3] * p[3], 0.0)
    )
    return linear + math.log1p(join(join(e[0], e[1]), join(e[2], e[3])))


def join(a: float, b: float) -> float:
    """Return (1 + a)(1 + b) - 1."""
    return a + b + a * b


FORMULAS = (
    tail,
    huber,
    loss_by_tail,
    loss,
    slope_by_tail,
    loss_slope,
    logistic_second_slope,
    join,
    four_losses,
)
