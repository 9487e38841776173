"""The proximal step on the entropy H(v) = v log v + (1 - v) log(1 - v), in one dimension.

An event waits for it: nothing of the next one can begin before.  So it is made of few steps that
follow one another, and of branches that mostly go the same way.
"""

from __future__ import annotations

import math

from continuized.support.jit import uncounted

REACH = 0.75  # of a Newton step that is corrected up to its fourth power; see `to_root`
NEAR = 1e-3  # a Newton step after which what is left is rounding: 0.22 NEAR^5
COARSE = 0.5  # a Newton step from the right with which the root is within REACH
MOST_STEPS = 60  # 2 are usual


@uncounted
def logit(v):
    """Return log(v / (1 - v)); NaN outside (0, 1), for mixing may lead out of it."""
    return math.log(v / (1.0 - v)) if 0.0 < v < 1.0 else math.nan


@uncounted
def to_root(h, m, v, slope):
    """Return (t, change): the Newton step from theta towards the root of h(theta), and the same
    corrected up to its fourth power.

    h = k + m (v - x) + theta with v' = slope = v (1 - v).  With a_j = h^(j) / (j! h'), the root
    is at theta + change with t = change + a_2 change^2 + a_3 change^3 + a_4 change^4 + ..., of
    which this is the inverse series.  Its error is at most 0.22 |t|^5 for |t| <= 0.1, and at most
    0.14 for |t| <= REACH, whatever m and v are.
    """
    inverse = 1.0 / (1.0 + m * slope)
    t, share, turn = -h * inverse, m * slope * inverse, 1.0 - 2.0 * v
    a2 = share * turn * (1.0 / 2.0)
    a3 = share * (1.0 - 6.0 * slope) * (1.0 / 6.0)
    a4 = share * turn * (1.0 - 12.0 * slope) * (1.0 / 24.0)
    cubic, quartic = 2.0 * a2 * a2 - a3, 5.0 * a2 * (a3 - a2 * a2) - a4
    return t, t * (1.0 + t * (-a2 + t * (cubic + t * quartic)))


@uncounted
def move_along(v, slope, change):
    """Return v at theta + change, |change| <= 2 NEAR, by Taylor's series."""
    turn = 1.0 - 2.0 * v
    third = (1.0 - 6.0 * slope) * (1.0 / 6.0)
    fourth = turn * (1.0 - 12.0 * slope) * (1.0 / 24.0)
    return v + slope * change * (1.0 + change * (0.5 * turn + change * (third + change * fourth)))


@uncounted
def coarse_root(x, k, m):
    """Find a theta within REACH of the root of h(theta) = k + m (v - x) + theta, from anywhere.

    h is increasing, convex below 0 and concave above.  The sign of h(0) tells the side; the upper
    one is turned over to the lower one.  There Newton comes down to the root from the right, and
    one step from the left of it leads to the right: it needs no bracket, only not to pass the
    bound that v > 0 gives.
    """
    upper = k + m * (0.5 - x) < 0.0
    if upper:
        x, k = 1.0 - x, -k
    most = min(0.0, m * x - k)
    theta = min(logit(x), most) if 0.0 < x < 0.5 else most
    for _step in range(MOST_STEPS):
        e = math.exp(theta)
        v = e / (1.0 + e)
        change = min(-(k + m * (v - x) + theta) / (1.0 + m * v * (1.0 - v)), most - theta)
        theta += change
        if abs(change) <= COARSE:
            break
    return -theta if upper else theta


@uncounted
def entropy_step(x, theta, k, m):
    """Find the root v in (0, 1) of k + m (v - x) + logit(v) = 0, m >= 0; theta = logit(x).

    x may lie outside (0, 1), with NaN for theta.  theta does not depend on k: it can be had
    before k is known.
    """
    v = x
    t, change = to_root(k + theta, m, x, x * (1.0 - x))
    theta = theta + change if abs(t) <= REACH else coarse_root(x, k, m)
    for _step in range(MOST_STEPS):
        e = math.exp(-abs(theta))
        larger = 1.0 / (1.0 + e)
        v = larger if theta > 0.0 else e * larger
        slope = e * larger * larger
        t, change = to_root(k + m * (v - x) + theta, m, v, slope)
        if abs(t) <= NEAR:
            return move_along(v, slope, change)
        theta += change
    return v
