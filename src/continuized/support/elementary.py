"""exp, expm1 and log1p of scalars, in plain arithmetic.

They are written out in additions, multiplications and one division, without branches: compilers
turn loops over them into vector instructions, as they cannot with calls of a library.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

LOG2_E = 1.4426950408889634
# log 2 in two parts: a multiple of the first by an integer up to 2^21 is exact.
LOG_2, LOG_2_REST = 0.6931471803691238, 1.9082149292705877e-10
ROUNDER = 6755399441055744.0  # 1.5 * 2^52: added and subtracted again, it rounds to an integer
C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13 = (1.0 / math.factorial(n) for n in range(2, 14))
SMALLEST, LARGEST = -746.0, 710.0  # exponents, beyond which exp is 0 or infinite
LEAST_OF_USE = -40.0  # where exp(x) - 1 is -1 already


def split(x: float) -> tuple[float, float]:
    """The integer k and the p with exp(x) = 2^k (1 + p) and |p| < 0.42, for x of moderate size.

    x = k log 2 + r with |r| <= log(2) / 2, and exp(r) by its Taylor series, whose terms after
    r^13 are below 5e-18.
    """
    k = (x * LOG2_E + ROUNDER) - ROUNDER
    r = (x - k * LOG_2) - k * LOG_2_REST
    s = r * r
    even = C2 + s * (C4 + s * (C6 + s * (C8 + s * (C10 + s * C12))))
    odd = C3 + s * (C5 + s * (C7 + s * (C9 + s * (C11 + s * C13))))
    return k, r + s * (even + r * odd)


def exp(x: float) -> float:
    """exp(x), to 1.5 units in the last place; NaN for NaN.

    2^k is multiplied in two steps: it may be above the largest number, or below the smallest that
    has all its digits.
    """
    x = SMALLEST if x < SMALLEST else x
    x = LARGEST if x > LARGEST else x
    k, p = split(x)
    half = (0.5 * k + ROUNDER) - ROUNDER
    return (1.0 + p) * power_of_two(half) * power_of_two(k - half)


def expm1(x: float) -> float:
    """exp(x) - 1; compiled code has `negative_expm1` in its place."""
    return math.expm1(x)


def negative_expm1(x: float) -> float:
    """exp(x) - 1 for x <= 0, to 2 units in the last place; NaN for NaN."""
    x = LEAST_OF_USE if x < LEAST_OF_USE else x
    k, p = split(x)
    return p * power_of_two(k) + (power_of_two(k) - 1.0)


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


@cache
def compile_elementary() -> None:
    """Let compiled code call these formulas; this imports Numba."""
    from continuized.support.jit import choose_by_types, compile_formulas, compile_power_of_two

    # Reassociated, the two parts of log 2 may become one, and rounding may be left out.
    exactly: dict[str, Any] = {"error_model": "numpy", "exactly": True}
    compile_formulas(split, exp, negative_expm1, log1p_fraction, **exactly)
    choose_by_types(expm1, lambda x: negative_expm1, **exactly)
    compile_power_of_two(power_of_two)
