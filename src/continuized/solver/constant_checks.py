"""Witnesses against wrong constants.

If f is convex and L-smooth, any two gradients satisfy |g - g'|^2 <= L <g - g', y - y'>; if
it is mu-strongly convex, <g - g', y - y'> >= mu |y - y'|^2.  A pair that does not is a
witness against L or mu.  Consecutive steps give pairs at no extra gradient.  That no witness
is found proves nothing.

The gradients carry rounding errors, taken as `ERRORS` units in the last place of
max |g| + L max |y| along the run, max |g| being no less than sqrt(2 L |f(x_0)|); a violation
within them is none.

A run with known constants is watched for such witnesses, and for its stopping tests.
"""

from __future__ import annotations

import math

import numpy as np

from continuized.problems.base import Array
from continuized.process.methods import Method
from continuized.process.stepper import Status

ERRORS = 100.0
SLACK = 1e-6

# The entries of `watch`: what the run is watched for, and what was seen.  A 2 marks a square.
# STEPS: the number of events; compiled loops count the quiet ones themselves.
# QUIET2: the largest |g|^2 that tells nothing new (`is_quiet`); -1 during the first WARM_UP events.
TOL2, LIMIT2, L, MU, EPS, STEPS, G_MAX2, Y_MAX2, L_SEEN, MU_SEEN, QUIET2 = range(11)
WATCH_SIZE = 11

GO_ON, SMALL_GRADIENT, NOT_FINITE, DIVERGED = range(4)

# A gradient this many times larger than all of the first `WARM_UP` is divergence.
BLOW_UP = 1e10
WARM_UP = 10

# A square up to this may be added to any finite number: it is less than half a unit in the last
# place of the largest float64, so that g2 + y2 in `judge` does not overflow.
NEVER_OVERFLOWS = 1e290

# Steps stay below this, and so do entries of y: then x and z cannot overflow.
HUGE, HUGE_FLOAT32 = 1e153, 1e30


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


def is_short(longest: float, g2: float, eps: float) -> bool:
    """Tell whether a step of this length is too short to make x or z overflow; not if g2 is NaN."""
    huge = HUGE if eps < 1e-10 else HUGE_FLOAT32  # float64 or float32
    return longest * longest * g2 < huge * huge


def judge(watch: Array, g2: float, y2: float, dg2: float, dgdy: float, dy2: float) -> float:
    """Keep in `watch` what an event shows; return |g|^2, or NaN if g or y is not finite.

    Given |g|^2, |y|^2, |dg|^2, <dg, dy>, |dy|^2, where dg and dy are the differences from the event
    before.  The last three are used only where there may be witnesses.
    """
    if not math.isfinite(g2 + y2):
        return math.nan
    watch[G_MAX2], watch[Y_MAX2] = max(watch[G_MAX2], g2), max(watch[Y_MAX2], y2)
    if watch[STEPS] > 0.0 and not math.isnan(watch[L]):
        scale = (watch[EPS], watch[G_MAX2], watch[Y_MAX2])
        shown_L = seen_L(dg2, dgdy, dy2, watch[L], *scale)
        shown_mu = seen_mu(dgdy, dy2, watch[L], watch[MU], *scale)
        watch[L_SEEN] = max(watch[L_SEEN], shown_L)
        watch[MU_SEEN] = min(watch[MU_SEEN], shown_mu)
    if watch[STEPS] < WARM_UP:
        watch[LIMIT2] = BLOW_UP * BLOW_UP * watch[G_MAX2]
    watch[STEPS] += 1.0
    if watch[STEPS] >= WARM_UP:
        watch[QUIET2] = min(watch[G_MAX2], watch[LIMIT2], NEVER_OVERFLOWS)
    return g2


def copy_watch(watch: Array, witnessing: bool) -> tuple[float, ...]:
    """Return the entries of `watch` as a tuple, which compiled loops keep in registers.

    It serves `is_quiet` until `judge` changes `watch`; its STEPS is not kept up to date.
    witnessing: where False, L is the constant NaN, and compilers leave out what witnesses need.
    """
    return (
        watch[TOL2], watch[LIMIT2], watch[L] if witnessing else math.nan, watch[MU], watch[EPS],
        watch[STEPS], watch[G_MAX2], watch[Y_MAX2], watch[L_SEEN], watch[MU_SEEN], watch[QUIET2],
    )  # fmt: skip


def is_quiet(
    watch: Array | tuple[float, ...],
    g2: float, y2: float, dg2: float, dgdy: float, dy2: float,
    longest: float,
) -> bool:  # fmt: skip
    """Tell whether an event needs no closer look, as nearly all do.

    Then `choose_signal` would return GO_ON, and `judge` would change nothing in `watch` but STEPS.
    longest: the larger of gamma and gamma_prime.  NaN is never quiet: comparisons with it are
    false.
    """
    return (
        watch[TOL2] < g2 <= watch[QUIET2]
        and y2 <= watch[Y_MAX2]
        and is_short(longest, g2, watch[EPS])
        and (
            math.isnan(watch[L])
            or (dg2 * (1.0 - SLACK) <= watch[L] * dgdy and watch[MU] * dy2 * (1.0 - SLACK) <= dgdy)
        )
    )


def choose_signal(watch: Array, g2: float, small2: float, gamma: float, gamma_prime: float) -> int:
    """The signal of an event with these steps, |g|^2 being what `judge` said.

    small2: the square of what tol is compared with, |g| itself or the norm of a gradient mapping.
    """
    if not is_short(max(gamma, gamma_prime), g2, watch[EPS]):
        return NOT_FINITE  # also where g2 is NaN
    if g2 > watch[LIMIT2]:
        return DIVERGED
    return SMALL_GRADIENT if small2 <= watch[TOL2] else GO_ON


FORMULAS = (seen_L, seen_mu, errors, is_short)


SIGNALS = {NOT_FINITE: Status.NOT_FINITE, DIVERGED: Status.DIVERGED}


def describe_skipped(n: int) -> str:
    """What a message says of n gradients that were skipped."""
    return f" {n} gradients that were not finite were skipped." if n else ""


def set_gradient_scale(watch: Array, L: float, f0: float) -> None:
    """The least that max |g| is taken for, by f at the start.

    A gradient is a sum that may cancel, as at a warm start; its rounding errors are those of the
    terms.  sqrt(2 L |f|), the largest gradient that f >= 0 allows, measures them.
    """
    scale = 2.0 * L * abs(f0)
    if math.isfinite(scale):
        watch[G_MAX2] = scale


def squared_tol(tol: float | None) -> float:
    """What |g|^2 is compared with; where there is no tol, nothing is as small."""
    return -1.0 if tol is None else tol * tol


def make_watch(method: Method, tol: float | None, witnessing: bool, eps: float) -> Array:
    """What a run is watched for: see its entries above.

    witnessing: whether gradients may contradict the constants.  Not where noise is added to them,
    nor where the problem proves the constants, nor where f need not be convex; L is NaN then.
    """
    watch = np.zeros(WATCH_SIZE)
    watch[TOL2] = squared_tol(tol)
    watch[LIMIT2] = math.inf
    watch[L] = method.L if witnessing else math.nan
    watch[MU] = method.mu
    watch[EPS] = eps
    watch[MU_SEEN] = math.inf
    watch[QUIET2] = -1.0
    return watch


def describe_witness(watch: Array) -> str | None:
    """What the gradients seen say against L or mu."""
    given, mu = watch[L], watch[MU]
    L_seen, mu_seen = watch[L_SEEN], watch[MU_SEEN]
    if math.isinf(L_seen) or mu_seen < 0.0:
        return (
            "two gradients show that f is not convex, or that its gradient is wrong: "
            f"<g - g', y - y'> < 0; no L makes the method converge (L = {given:.6g} was used)"
        )
    if L_seen > 0.0:
        return f"L = {given:.6g} is too small: two gradients show that L is at least {L_seen:.6g}"
    if math.isfinite(mu_seen):
        return f"mu = {mu:.6g} is too large: two gradients show that mu is at most {mu_seen:.6g}"
    return None
