"""Functions of two variables for the explorer: values, gradients and constants.

All take x, y and the condition number kappa, whether they use it or not, and are formulas that
`translate` turns into JavaScript.  `constants` gives L, mu and tau: f is L-smooth, and convex with
strong convexity mu where tau = 1, or tau-quasar-convex; tau = 0 where nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from continuized.problems.losses import huber

Value = Callable[[float, float, float], float]
Gradient = Callable[[float, float, float], tuple[float, float]]
Constants = Callable[[float], tuple[float, float, float]]


def quadratic_value(x: float, y: float, kappa: float) -> float:
    """Return (x^2 + y^2 / kappa) / 2."""
    return 0.5 * (x * x + y * y / kappa)


def quadratic_gradient(x: float, y: float, kappa: float) -> tuple[float, float]:
    """Return its gradient."""
    return x, y / kappa


def quadratic_constants(kappa: float) -> tuple[float, float, float]:
    """Return L, mu and tau."""
    return 1.0, 1.0 / kappa, 1.0


def paper_value(x: float, y: float, kappa: float) -> float:
    """Return the paper's function of figure 1, right, in its first and its last variable."""
    return 0.5 * (0.01 * (x - 1.0) ** 2 + (y - 1.0) ** 2)


def paper_gradient(x: float, y: float, kappa: float) -> tuple[float, float]:
    """Return its gradient."""
    return 0.01 * (x - 1.0), y - 1.0


def paper_constants(kappa: float) -> tuple[float, float, float]:
    """Return L, mu and tau."""
    return 1.0, 0.01, 1.0


def log_cosh(u: float) -> float:
    """Return log cosh u, for any u."""
    return abs(u) + math.log1p(math.exp(-2.0 * abs(u))) - math.log(2.0)


def log_cosh_value(x: float, y: float, kappa: float) -> float:
    """Return log cosh x + log cosh (y / sqrt(kappa))."""
    return log_cosh(x) + log_cosh(y / math.sqrt(kappa))


def log_cosh_gradient(x: float, y: float, kappa: float) -> tuple[float, float]:
    """Return its gradient."""
    return math.tanh(x), math.tanh(y / math.sqrt(kappa)) / math.sqrt(kappa)


def log_cosh_constants(kappa: float) -> tuple[float, float, float]:
    """Return L, mu and tau."""
    return 1.0, 0.0, 1.0


# Rows of a data set times their labels, 1 or -1: no line separates them.
ROWS = (
    (1.6, 0.5), (1.1, -0.4), (0.7, 0.9), (2.0, -0.2), (-0.6, 0.3), (0.4, -1.0), (1.3, 0.1),
    (-0.9, -0.6),
)  # fmt: skip
# (sum of squares of the two columns and the product of both, by the number of rows)
SQUARES = tuple(
    sum(row[i] * row[j] for row in ROWS) / len(ROWS) for i, j in ((0, 0), (1, 1), (0, 1))
)


def logistic_value(x: float, y: float, kappa: float) -> float:
    """Return the mean of log(1 + exp(-m)) over the margins m of the rows."""
    total, rows = 0.0, 0.0
    for a, b in ROWS:
        margin = a * x + b * y
        total += max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))
        rows += 1.0
    return total / rows


def logistic_gradient(x: float, y: float, kappa: float) -> tuple[float, float]:
    """Return its gradient."""
    to_x, to_y, rows = 0.0, 0.0, 0.0
    for a, b in ROWS:
        slope = -0.5 * (1.0 - math.tanh(0.5 * (a * x + b * y)))
        to_x += slope * a
        to_y += slope * b
        rows += 1.0
    return to_x / rows, to_y / rows


def logistic_constants(kappa: float) -> tuple[float, float, float]:
    """Return L, a quarter of the largest eigenvalue of X^T X / n, mu and tau."""
    xx, yy, xy = SQUARES
    return 0.125 * (xx + yy + math.hypot(xx - yy, 2.0 * xy)), 0.0, 1.0


def huber_value(x: float, y: float, kappa: float) -> float:
    """Return the sum of the Huber functions of x and y / sqrt(kappa)."""
    return huber(x, 1.0) + huber(y / math.sqrt(kappa), 1.0)


def huber_gradient(x: float, y: float, kappa: float) -> tuple[float, float]:
    """Return its gradient."""
    v = y / math.sqrt(kappa)
    return max(-1.0, min(1.0, x)), max(-1.0, min(1.0, v)) / math.sqrt(kappa)


def huber_constants(kappa: float) -> tuple[float, float, float]:
    """Return L, mu and tau."""
    return 1.0, 0.0, 1.0


def quasar_value(x: float, y: float, kappa: float) -> float:
    """Return (1 + r^2)^(1/4) - 1 with r^2 = x^2 + y^2 / kappa.

    It is not convex, and 1/2-quasar-convex: with s = 1 + r^2, <grad f, x> = (s^(1/4) - s^(-3/4))/2
    >= (s^(1/4) - 1) / 2.
    """
    return math.sqrt(math.sqrt(1.0 + x * x + y * y / kappa)) - 1.0


def quasar_gradient(x: float, y: float, kappa: float) -> tuple[float, float]:
    """Return its gradient."""
    factor = 0.5 / math.sqrt(1.0 + x * x + y * y / kappa) ** 1.5
    return factor * x, factor * y / kappa


def quasar_constants(kappa: float) -> tuple[float, float, float]:
    """Return L, the curvature at 0, mu and tau."""
    return 0.5, 0.0, 0.5


def rosenbrock_value(x: float, y: float, kappa: float) -> float:
    """Return ((1 - x)^2 / kappa + (y - x^2)^2) / 2."""
    return 0.5 * ((1.0 - x) ** 2 / kappa + (y - x * x) ** 2)


def rosenbrock_gradient(x: float, y: float, kappa: float) -> tuple[float, float]:
    """Return its gradient."""
    return (x - 1.0) / kappa - 2.0 * x * (y - x * x), y - x * x


def rosenbrock_constants(kappa: float) -> tuple[float, float, float]:
    """Return a bound of the curvature where |x| <= 2 and |y| <= 2, and that nothing is known."""
    return 30.0, 0.0, 0.0


class PlaneFunction(NamedTuple):
    """A function with what the page needs of it.

    start: where a path begins.  window: the least and the largest x, then y.
    """

    title: str
    value: Value
    gradient: Gradient
    constants: Constants
    minimiser: tuple[float, float]
    start: tuple[float, float]
    window: tuple[float, float, float, float]
    uses_kappa: bool = True
    warning: str = ""


def find_logistic_minimiser() -> tuple[float, float]:
    """Find it by Newton's steps; f is strictly convex and the start is near."""
    x, y = 1.0, 0.0
    for _ in range(50):
        to_x, to_y = logistic_gradient(x, y, 1.0)
        xx = yy = xy = 0.0
        for a, b in ROWS:
            bend = 0.25 / (math.cosh(0.5 * (a * x + b * y)) ** 2 * len(ROWS))
            xx, yy, xy = xx + bend * a * a, yy + bend * b * b, xy + bend * a * b
        size = xx * yy - xy * xy
        x, y = x - (yy * to_x - xy * to_y) / size, y - (xx * to_y - xy * to_x) / size
    return x, y


FUNCTIONS = {
    "quadratic": PlaneFunction(
        "Quadratic, (x\u00b2 + y\u00b2/\u03ba)/2",
        quadratic_value, quadratic_gradient, quadratic_constants,
        (0.0, 0.0), (3.0, 3.5), (-4.5, 4.5, -4.5, 4.5),
    ),
    "paper": PlaneFunction(
        "The paper's, strongly convex (two of its three variables)",
        paper_value, paper_gradient, paper_constants,
        (1.0, 1.0), (0.0, 0.0), (-0.5, 2.0, -0.5, 2.0), uses_kappa=False,
    ),
    "logcosh": PlaneFunction(
        "log cosh x + log cosh(y/\u221a\u03ba)",
        log_cosh_value, log_cosh_gradient, log_cosh_constants,
        (0.0, 0.0), (3.0, 4.0), (-5.0, 5.0, -5.0, 5.0),
    ),
    "logistic": PlaneFunction(
        "Logistic regression on eight points",
        logistic_value, logistic_gradient, logistic_constants,
        find_logistic_minimiser(), (-2.0, 3.0), (-3.0, 5.0, -4.0, 4.0), uses_kappa=False,
    ),
    "huber": PlaneFunction(
        "Huber's function of x and of y/\u221a\u03ba",
        huber_value, huber_gradient, huber_constants,
        (0.0, 0.0), (3.0, 4.0), (-5.0, 5.0, -5.0, 5.0),
    ),
    "quasar": PlaneFunction(
        "Quasar-convex, (1 + x\u00b2 + y\u00b2/\u03ba)^\u00bc \u2212 1",
        quasar_value, quasar_gradient, quasar_constants,
        (0.0, 0.0), (3.0, 4.0), (-5.0, 5.0, -5.0, 5.0),
        warning="Not convex, but quasar-convex with \u03c4 = 1/2: the theorem holds with \u03c4 "
        "at most 1/2.",
    ),
    "rosenbrock": PlaneFunction(
        "Rosenbrock's, ((1 \u2212 x)\u00b2/\u03ba + (y \u2212 x\u00b2)\u00b2)/2",
        rosenbrock_value, rosenbrock_gradient, rosenbrock_constants,
        (1.0, 1.0), (-1.2, 1.0), (-2.0, 2.0, -1.0, 3.0),
        warning="Not convex: no theorem covers it, and no bound is drawn.",
    ),
}  # fmt: skip
