"""The compiled step, and the loops around it where the gradient is compiled too.

It is the inside of `FixedStepper.advance`; the loop of a whole run is `solver.loop`.

The vectors of a run live in one array `work`, a row each, for every array passed from Python costs
0.1 microseconds:

    work[X], work[Z]            x and z after the event before
    work[Y_LAST], work[G_LAST]  y and g of the event before, for the witnesses
    work[Y], work[W], work[G]   y and z at the coming event, mixed but before its jump, and its g

A function that is a sum over the entries of x has its gradient, the checks and the step in one pass
over x, z and the last pair, which are in the cache; the others take one pass for the checks and one
for the step.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np
from numba import types

from continuized.problems.base import Array, Compiled
from continuized.problems.kernels import makes_arrays, questions
from continuized.process.coefficients import GAMMA, GAMMA_PRIME, A, B
from continuized.process.flow import mix
from continuized.process.methods import jump
from continuized.solver import constant_checks
from continuized.solver.constant_checks import DIVERGED, GO_ON, NOT_FINITE
from continuized.support.jit import (
    UNCOUNTED,
    compile_formulas,
    data_type,
    gradient_type,
    jit,
    matrix,
    vector,
)

X, Z, Y_LAST, G_LAST, Y, W, G = range(7)
WORK_ROWS = 7
FORBIDDEN = (NOT_FINITE, DIVERGED)  # signals of events whose step is not taken
STATE_ROWS = 4  # those that events change in place, from the first on

# A call that is handed an array counts a reference, which would cost 20 ns a step.
inline = partial(jit, inline="always")
judge, verdict = inline(constant_checks.judge), inline(constant_checks.verdict)


def add_noise(g, noise, *index):
    """Add the noise of an event and entry, where there is any: None is known when compiling."""
    if noise is None:
        return g
    return g + noise[index]


compile_formulas(add_noise)


@jit
def mix_next(work, coefficients, i):
    """Mix to y and z at event i of the block, before its jump."""
    real = work.dtype.type
    a, b = real(coefficients[i, A]), real(coefficients[i, B])
    for c in range(work.shape[1]):
        work[Y, c], work[W, c] = mix(work[X, c], work[Z, c], a, b)


@inline
def step_by(g, noise, work, coefficients, watch, i):
    """Event i of the block, its gradient given; returns the signal.

    A step that fails is not taken; after any other, y and z are mixed for the next event.
    """
    real = work.dtype.type
    g2 = y2 = dg2 = dgdy = dy2 = real(0.0)
    for c in range(work.shape[1]):
        g_c, y = real(add_noise(g[c], noise, i, c)), work[Y, c]
        dg, dy = g_c - work[G_LAST, c], y - work[Y_LAST, c]
        g2 += g_c * g_c
        y2 += y * y
        dg2 += dg * dg
        dgdy += dg * dy
        dy2 += dy * dy
        work[G, c] = g_c
    size2 = judge(watch, float(g2), float(y2), float(dg2), float(dgdy), float(dy2))
    signal = verdict(watch, size2, coefficients[i, GAMMA], coefficients[i, GAMMA_PRIME])
    if signal in FORBIDDEN:
        return signal
    gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
    following = min(i + 1, coefficients.shape[0] - 1)
    a, b = real(coefficients[following, A]), real(coefficients[following, B])
    for c in range(work.shape[1]):  # two loops: LLVM does not vectorise one that writes six rows
        y, g_c = work[Y, c], work[G, c]
        work[X, c], work[Z, c] = jump(y, work[W, c], g_c, gamma, gamma_prime)
        work[Y_LAST, c], work[G_LAST, c] = y, g_c
    for c in range(work.shape[1]):
        work[Y, c], work[W, c] = mix(work[X, c], work[Z, c], a, b)
    return signal


def step(g, work, coefficients, watch, i):
    """Event i of the block, its gradient given, noise and all; returns the signal."""
    return step_by(g, None, work, coefficients, watch, i)


@cache
def compile_step(dtype: Any) -> Any:
    """The step for iterates of this dtype; arrays that are not counted are handed over quicker."""
    arguments = (vector(dtype), matrix(dtype), matrix(np.float64), vector(np.float64), types.int64)
    return jit(step, types.int64(*arguments), **UNCOUNTED)


@jit
def skip(work, coefficients, i):
    """Event i of the block without a jump: as if its gradient were zero."""
    mix_next(work, coefficients, i)
    for c in range(work.shape[1]):
        work[X, c], work[Z, c] = work[Y, c], work[W, c]


@inline
def record(work, xs, zs, i):
    """Keep x and z after event i as rows of xs and zs, unless these are empty."""
    if xs.shape[0] > 0:
        for c in range(work.shape[1]):
            xs[i, c] = work[X, c]
    if zs.shape[0] > 0:
        for c in range(work.shape[1]):
            zs[i, c] = work[Z, c]


def make_loop(asked):
    """Make the loop for a problem that gives its gradient as a vector."""
    ask = asked.gradient

    def loop(grad, data, noise, work, xs, zs, coefficients, watch, i):
        """Events i, i + 1, ... of the block until a signal; returns (how many are done, signal)."""
        signal, y, g = GO_ON, work[Y], work[G]
        mix_next(work, coefficients, i)
        while i < coefficients.shape[0] and signal == GO_ON:
            ask(grad, y, g, data)
            signal = step_by(g, noise, work, coefficients, watch, i)
            if signal in FORBIDDEN:
                break
            record(work, xs, zs, i)
            i += 1
        return i, signal

    return loop


def make_entrywise_loop(asked):
    """Make the loop for a sum over the entries of x: gradient, checks and step in one pass."""
    slope = asked.gradient

    def loop(grad, data, noise, work, xs, zs, coefficients, watch, i):
        """The same, but the event of a signal has taken its step, good or not."""
        real, signal = work.dtype.type, GO_ON
        while i < coefficients.shape[0] and signal == GO_ON:
            a, b = real(coefficients[i, A]), real(coefficients[i, B])
            gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
            g2 = y2 = dg2 = dgdy = dy2 = real(0.0)
            for c in range(work.shape[1]):
                y, z = mix(work[X, c], work[Z, c], a, b)
                g = real(add_noise(slope(c, y, data), noise, i, c))
                dg, dy = g - work[G_LAST, c], y - work[Y_LAST, c]
                g2 += g * g
                y2 += y * y
                dg2 += dg * dg
                dgdy += dg * dy
                dy2 += dy * dy
                work[Y_LAST, c], work[G_LAST, c] = y, g
                work[X, c], work[Z, c] = jump(y, z, g, gamma, gamma_prime)
            size2 = judge(watch, float(g2), float(y2), float(dg2), float(dgdy), float(dy2))
            signal = verdict(watch, size2, coefficients[i, GAMMA], coefficients[i, GAMMA_PRIME])
            if signal in FORBIDDEN:
                break
            record(work, xs, zs, i)
            i += 1
        return i, signal

    return loop


@cache
def compile_loop(dtype: Any, kind: str, noisy: bool) -> Any:
    """The loop for iterates of this dtype and problems of this kind, with or without noise."""
    asked = questions(kind)
    grad = types.none if kind else types.FunctionType(gradient_type(dtype))
    noise = matrix(dtype) if noisy else types.none
    states = [matrix(dtype)] * 3  # work, xs, zs
    rest = (matrix(np.float64), vector(np.float64), types.int64)  # coefficients, watch, i
    signature = types.UniTuple(types.int64, 2)(grad, data_type(dtype), noise, *states, *rest)
    make = make_entrywise_loop if asked.is_entrywise else make_loop
    return jit(make(asked), signature, **({} if makes_arrays(kind) else UNCOUNTED))


def take_events(
    compiled: Compiled, noise: Array | None, work: Array, xs: Array, zs: Array,
    coefficients: Array, watch: Array, i: int,
) -> tuple[int, int]:  # fmt: skip
    """Take events i, i + 1, ... of the block until a signal; return (how many are done, signal).

    x and z after the events are kept as rows of xs and zs, unless these are empty.
    """
    loop = compile_loop(work.dtype, compiled.kind, noise is not None)
    known = (None if compiled.kind else compiled.grad, compiled.data, noise, work, xs, zs)
    before = work[:STATE_ROWS].copy(), watch.copy()
    done, signal = loop(*known, coefficients, watch, i)
    if signal in FORBIDDEN and questions(compiled.kind).is_entrywise:
        # Its step is taken already: go back, and take those before it once more.
        work[:STATE_ROWS], judged = before
        loop(*known, coefficients[:done], judged, i)
    return done, signal
