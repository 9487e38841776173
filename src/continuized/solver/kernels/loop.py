"""The compiled step, and the loop around it where the gradient is compiled too.

It is the inside of `FixedStepper.advance`; the loop of a whole run is `solver.loop`.

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

from functools import cache, partial
from typing import Any

import numpy as np
from numba import types

from continuized.process.coefficients import GAMMA, GAMMA_PRIME, A, B
from continuized.process.flow import mix
from continuized.process.methods import jump
from continuized.solver import constant_checks
from continuized.solver.constant_checks import DIVERGED, GO_ON, NOT_FINITE, SMALL_GRADIENT
from continuized.support.jit import data_type, gradient_type, jit, matrix, vector

Y, W, G_LAST, Y_LAST, X, Z = range(6)
WORK_ROWS = 6

# A call that is handed an array counts a reference, which would cost 20 ns a step.
inline = partial(jit, inline="always")
judge, verdict = inline(constant_checks.judge), inline(constant_checks.verdict)


@jit
def mix_next(work, coefficients, i):
    """Mix to y and z at event i of the block, before its jump."""
    a, b = coefficients[i, A], coefficients[i, B]
    for c in range(work.shape[1]):
        work[Y, c], work[W, c] = mix(work[X, c], work[Z, c], a, b)


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
    """Take the jump of event i."""
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


def loop(grad, data, g, marks, work, xs, zs, coefficients, watch, i):
    """Events i, i + 1, ... of the block until a signal; returns (how many are done, signal).

    x and z after the events are kept as rows of xs and zs, unless these are empty.
    """
    y = work[Y]
    while i < coefficients.shape[0]:
        grad(y, g, data)
        if marks.shape[0] > 0:
            for c in range(g.size):
                g[c] += marks[i, c]
        signal = step(g, work, coefficients, watch, i)
        if signal in (NOT_FINITE, DIVERGED):
            return i, signal
        if xs.shape[0] > 0:
            for c in range(g.size):
                xs[i, c] = work[X, c]
        if zs.shape[0] > 0:
            for c in range(g.size):
                zs[i, c] = work[Z, c]
        i += 1
        if signal == SMALL_GRADIENT:
            return i, signal
    return i, GO_ON


@cache
def compile_loop(dtype: Any) -> Any:
    """The loop for iterates of this dtype."""
    grad, data = types.FunctionType(gradient_type(dtype)), data_type(dtype)
    states = (vector(dtype), *[matrix(dtype)] * 4)  # g, marks, work, xs, zs
    rest = (matrix(np.float64), vector(np.float64), types.int64)  # coefficients, watch, i
    return jit(loop, types.UniTuple(types.int64, 2)(grad, data, *states, *rest))
