"""Scalar formulas of the problems: plain Python on floats, compiled where speed counts."""

from __future__ import annotations

import math
from typing import Any

SQUARED, LOGISTIC = 0.0, 1.0  # as they stand in a compiled problem's data


def half_square(eigenvalue: Any, distance: Any) -> Any:
    """One coordinate of a quadratic, lambda (x - x*)^2 / 2."""
    return 0.5 * eigenvalue * distance * distance


def linear_slope(eigenvalue: Any, distance: Any) -> Any:
    """Its derivative, lambda (x - x*)."""
    return eigenvalue * distance


def loss(kind: float, prediction: float, y: float) -> float:
    """(p - y)^2 / 2, or log(1 + exp(-y p)) written so that exp never overflows."""
    if kind == SQUARED:
        return 0.5 * (prediction - y) ** 2
    margin = y * prediction
    return max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))


def loss_slope(kind: float, prediction: float, y: float) -> float:
    """The derivative of the loss in the prediction."""
    if kind == SQUARED:
        return prediction - y
    margin = y * prediction
    if margin > 0.0:
        e = math.exp(-margin)
        return -y * e / (1.0 + e)
    return -y / (1.0 + math.exp(margin))


FORMULAS = (half_square, linear_slope, loss, loss_slope)
