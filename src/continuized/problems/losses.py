"""Scalar formulas of the problems: plain Python on floats, compiled where speed counts."""

from __future__ import annotations

import math
from typing import TypeVar

T = TypeVar("T")

SQUARED, LOGISTIC = 0.0, 1.0  # as they stand in a compiled problem's data


def half_square(eigenvalue: T, distance: T) -> T:
    """One coordinate of a quadratic, lambda (x - x*)^2 / 2."""
    return 0.5 * eigenvalue * distance * distance  # type: ignore[operator, no-any-return]


def linear_slope(eigenvalue: T, distance: T) -> T:
    """Its derivative, lambda (x - x*)."""
    return eigenvalue * distance  # type: ignore[operator, no-any-return]


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
