"""Witnesses against wrong constants.

If f is convex and L-smooth, any two gradients satisfy |g - g'|^2 <= L <g - g', y - y'>; if
it is mu-strongly convex, <g - g', y - y'> >= mu |y - y'|^2.  A pair that does not is a
witness against L or mu.  Consecutive steps give pairs at no extra gradient.  No witness is
no proof.

The gradients carry rounding errors, taken as `ERRORS` units in the last place of
max |g| + L max |y| along the run, max |g| being no less than sqrt(2 L |f(x_0)|); a violation
within them is none.
"""

from __future__ import annotations

import math

ERRORS = 100.0
SLACK = 1e-6


def seen_L(
    dg2: float, dgdy: float, dy2: float, L: float, eps: float, g_max2: float, y_max2: float
) -> float:
    """The smoothness that a pair shows, if it contradicts L; 0 otherwise.

    dg2 = |g - g'|^2, dgdy = <g - g', y - y'>, dy2 = |y - y'|^2; g_max2 and y_max2 are the
    largest |g|^2 and |y|^2 so far, eps the rounding unit.
    """
    if dg2 * (1.0 - SLACK) <= L * dgdy:  # nearly always: no square root
        return 0.0
    dg, dy = math.sqrt(dg2), math.sqrt(dy2)
    error_g, error_y = errors(L, eps, g_max2, y_max2)
    rounding = error_g * (2.0 * dg + L * dy) + L * dg * error_y
    if not dg2 * (1.0 - SLACK) - L * dgdy > rounding:
        return 0.0
    return dg2 / dgdy if dgdy > 0.0 else math.inf


def seen_mu(
    dgdy: float, dy2: float, L: float, mu: float, eps: float, g_max2: float, y_max2: float
) -> float:
    """The strong convexity that a pair shows, if it contradicts mu; infinity otherwise."""
    if mu * dy2 * (1.0 - SLACK) <= dgdy:
        return math.inf
    dy = math.sqrt(dy2)
    error_g, error_y = errors(L, eps, g_max2, y_max2)
    rounding = error_g * dy + 2.0 * mu * dy * error_y
    if not mu * dy2 * (1.0 - SLACK) - dgdy > rounding:
        return math.inf
    return dgdy / dy2


def errors(L: float, eps: float, g_max2: float, y_max2: float) -> tuple[float, float]:
    """Bounds on the rounding errors of g and of y."""
    error_y = ERRORS * eps * math.sqrt(y_max2)
    return ERRORS * eps * math.sqrt(g_max2) + L * error_y, error_y


FORMULAS = (seen_L, seen_mu, errors)
