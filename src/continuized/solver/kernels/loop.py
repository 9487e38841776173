"""The compiled step, and the loop around it where the gradient is compiled too.

The vectors of a run live in one array `work`, a row each, for every array passed from
Python costs 0.1 microseconds:

    work[Y], work[W]            y and z at the coming event, mixed but before its jump
    work[G_LAST], work[Y_LAST]  g and y of the event before, for the witnesses
    work[X], work[Z]            x and z after the event before

Rows are indexed in place: the views of six rows cost more than the arithmetic on them.  Each
loop below touches few rows: LLVM gives up on SIMD where it would have to compare more than
eight pairs of pointers for overlap.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np
from numba import types

from continuized.process.coefficients import GAMMA, GAMMA_PRIME, A, B
from continuized.process.flow import mix
from continuized.process.methods import jump
from continuized.solver.constant_checks import seen_L, seen_mu
from continuized.support.jit import data_type, gradient_type, jit, matrix, vector

Y, W, G_LAST, Y_LAST, X, Z = range(6)
WORK_ROWS = 6

# The entries of `watch`: what the run is watched for, and what was seen.
TOL2, LIMIT2, L, MU, EPS, STEPS, G_MAX, Y_MAX, L_SEEN, MU_SEEN = range(10)
WATCH_SIZE = 10

GO_ON, SMALL_GRADIENT, NOT_FINITE, DIVERGED = range(4)

# A gradient this many times larger than all of the first `WARM_UP` is divergence.
BLOW_UP = 1e10
WARM_UP = 10

# Steps stay below this, and so do entries of y: then x and z cannot overflow.
HUGE, HUGE_FLOAT32 = 1e150, 1e30

# A call that is handed an array counts a reference, which would cost 20 ns a step.
inlined = partial(jit, inline="always")


@jit
def mix_next(work, coefficients, i):
    """y and z at event i of the block, before its jump."""
    a, b = coefficients[i, A], coefficients[i, B]
    for c in range(work.shape[1]):
        work[Y, c], work[W, c] = mix(work[X, c], work[Z, c], a, b)


@inlined
def judge(watch, g2, y2, dg2, dgdy, dy2):
    """The witnesses, and |g|^2 for the stopping tests; NaN if g or y is not finite.

    Given |g|^2, |y|^2, |dg|^2, <dg, dy>, |dy|^2, the differences being those from the event before.
    """
    if not math.isfinite(g2 + y2):
        return math.nan
    watch[G_MAX], watch[Y_MAX] = max(watch[G_MAX], g2), max(watch[Y_MAX], y2)
    if watch[STEPS] > 0.0 and not math.isnan(watch[L]):
        scale = (watch[EPS], watch[G_MAX], watch[Y_MAX])
        shown_L = seen_L(dg2, dgdy, dy2, watch[L], *scale)
        shown_mu = seen_mu(dgdy, dy2, watch[L], watch[MU], *scale)
        watch[L_SEEN] = max(watch[L_SEEN], shown_L)
        watch[MU_SEEN] = min(watch[MU_SEEN], shown_mu)
    if watch[STEPS] < WARM_UP:
        watch[LIMIT2] = BLOW_UP * BLOW_UP * watch[G_MAX]
    watch[STEPS] += 1.0
    return g2


@inlined
def verdict(watch, g2, gamma, gamma_prime):
    """The signal of an event with these steps, |g|^2 being what `judge` said."""
    longest = max(gamma, gamma_prime)
    huge = HUGE if watch[EPS] < 1e-10 else HUGE_FLOAT32
    if not longest * longest * g2 < huge * huge:
        return NOT_FINITE  # so is a g2 that is NaN
    if g2 > watch[LIMIT2]:
        return DIVERGED
    return SMALL_GRADIENT if g2 <= watch[TOL2] else GO_ON


@jit
def observe(g, work, watch):
    """`judge` on the vectors of a run."""
    g2 = y2 = dg2 = dgdy = dy2 = 0.0
    for c in range(g.size):
        dg, dy = g[c] - work[G_LAST, c], work[Y, c] - work[Y_LAST, c]
        g2 += g[c] * g[c]
        y2 += work[Y, c] * work[Y, c]
        dg2 += dg * dg
        dgdy += dg * dy
        dy2 += dy * dy
    return judge(watch, g2, y2, dg2, dgdy, dy2)


@jit
def take(g, work, coefficients, i):
    """The jump of event i."""
    gamma, gamma_prime = coefficients[i, GAMMA], coefficients[i, GAMMA_PRIME]
    for c in range(g.size):
        work[X, c], work[Z, c] = jump(work[Y, c], work[W, c], g[c], gamma, gamma_prime)


@jit
def keep(g, work):
    """Remember this event's pair for the next one's witnesses."""
    for c in range(g.size):
        work[G_LAST, c], work[Y_LAST, c] = g[c], work[Y, c]


@jit
def step(g, work, coefficients, watch, i):
    """Event i of the block, its gradient given; returns the signal.

    A step that fails is not taken; after any other, y and z are mixed for the next event.
    """
    g2 = observe(g, work, watch)
    signal = verdict(watch, g2, coefficients[i, GAMMA], coefficients[i, GAMMA_PRIME])
    if signal in (NOT_FINITE, DIVERGED):
        return signal
    take(g, work, coefficients, i)
    keep(g, work)
    if i + 1 < coefficients.shape[0]:
        mix_next(work, coefficients, i + 1)
    return signal


@jit
def skip(work, coefficients, i):
    """Event i of the block without a jump: as if its gradient were zero."""
    for c in range(work.shape[1]):
        work[X, c], work[Z, c] = work[Y, c], work[W, c]
    if i + 1 < coefficients.shape[0]:
        mix_next(work, coefficients, i + 1)


@jit
def loop(grad, data, g, marks, work, xs, zs, coefficients, watch, i, n):
    """Events i, ..., n - 1 of the block until a signal; returns (how many are done, signal).

    The states after the events are kept as rows of xs and zs, unless these are empty.
    """
    y = work[Y]
    while i < n:
        grad(y, g, data)
        if marks.shape[0] > 0:
            for c in range(g.size):
                g[c] += marks[i, c]
        signal = step(g, work, coefficients, watch, i)
        if signal in (NOT_FINITE, DIVERGED):
            return i, signal
        if xs.shape[0] > 0:
            for c in range(g.size):
                xs[i, c], zs[i, c] = work[X, c], work[Z, c]
        i += 1
        if signal == SMALL_GRADIENT:
            return i, signal
    return i, GO_ON


@jit
def begin(work, coefficients):
    """y and z at the first event of a block."""
    mix_next(work, coefficients, 0)


@cache
def compiled_loop(dtype: Any) -> Any:
    """The loop for iterates of this dtype."""
    signature = types.UniTuple(types.int64, 2)(
        types.FunctionType(gradient_type(dtype)),
        data_type(dtype),
        vector(dtype),
        matrix(dtype),
        matrix(dtype),
        matrix(dtype),
        matrix(dtype),
        matrix(np.float64),
        vector(np.float64),
        types.int64,
        types.int64,
    )
    return jit(loop.py_func, signature)
