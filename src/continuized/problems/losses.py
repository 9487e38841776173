"""Scalar formulas of the losses: plain Python on floats, compiled where speed counts.

exp and log1p are written out in additions, multiplications and one division, without branches:
compilers turn loops over them into vector instructions, as they cannot with calls of a library.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

SQUARED, LOGISTIC = 0.0, 1.0  # as they stand in a compiled problem's data
SOFTMAX = 2.0  # of several predictions: never compiled
POISSON = 3.0
# A kind below 0 is Huber's loss, a straight line beyond delta = -kind: one number says both.

LOG2_E = 1.4426950408889634
# log 2 in two parts: a multiple of the first by an integer up to 2^21 is exact.
LOG_2, LOG_2_REST = 0.6931471803691238, 1.9082149292705877e-10
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: added and subtracted again, it rounds to an integer
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1.0 / math.factorial(n) for n in range(2, 14))
SMALLEST, LARGEST = -746.0, 710.0  # exponents, beyond which exp is 0 or infinite


def exp(x: float) -> float:
    """exp(x), to 1.5 units in the last place; NaN for NaN.

    x = k log 2 + r with |r| <= log(2) / 2, and exp(r) by its Taylor series, whose terms after
    r^13 are below 5e-18.  2^k is multiplied in two steps: it may be above the largest number, or
    below the smallest that has all its digits.
    """
    x = SMALLEST if x < SMALLEST else x
    x = LARGEST if x > LARGEST else x
    k = (x * LOG2_E + ROUNDER) - ROUNDER
    r = (x - k * LOG_2) - k * LOG_2_REST
    s = r * r
    even = C2 + s * (C4 + s * (C6 + s * (C8 + s * (C10 + s * C12))))
    odd = C3 + s * (C5 + s * (C7 + s * (C9 + s * (C11 + s * C13))))
    half = (0.5 * k + ROUNDER) - ROUNDER
    return (1.0 + (r + s * (even + r * odd))) * power_of_two(half) * power_of_two(k - half)


def power_of_two(k: float) -> float:
    """2^k for an integer k of at most 1022 in size."""
    return math.exp2(k)


def log1p_fraction(e: float) -> float:
    """log(1 + e) for 0 <= e <= 1, to 1.5 units in the last place; NaN for NaN.

    With t = e / (2 + e) it is 2 atanh(t) = 2t (1 + z P(z)), z = t^2 <= 1/9, where P is the
    polynomial that is nearest to 1/3 + z/5 + z^2/7 + ..., to 5e-17; and 2t = e - et.
    """
    t = e / (2.0 + e)
    z = t * t
    s = z * z
    even = 0.3333333333333333 + s * (
        0.1428571428355438
        + s * (0.09090894718066429 + s * (0.06657072104827468 + s * 0.04400369243072337))
    )
    odd = 0.20000000000007292 + s * (
        0.11111111358713932
        + s * (0.07692785032479312 + s * (0.06000536404795356 + s * 0.08082022805971766))
    )
    return e - t * (e - 2.0 * (z * (even + z * odd)))


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
        return 0.5 * (prediction - y) ** 2
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
    from continuized.support.jit import compile_formulas, compile_power_of_two

    # No denominator is 0, and a test whether one is would keep a loop from vector instructions.
    compile_formulas(*FORMULAS, error_model="numpy")
    # Reassociated, the two parts of log 2 may become one, and rounding may be left out.
    compile_formulas(exp, log1p_fraction, error_model="numpy", exactly=True)
    compile_power_of_two(power_of_two)
