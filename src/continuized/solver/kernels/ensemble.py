"""Many independent runs, one at a time in cache, without the interpreter lock.

States and outputs are arrays with a row for each run of a chunk; events come in blocks.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import types

from continuized.problems.base import Array
from continuized.process.coefficients import GAMMA, GAMMA_PRIME, A, B, FlowRule
from continuized.process.flow import mix
from continuized.process.methods import jump
from continuized.support import jit as numba_types
from continuized.support.jit import is_ours, jit, matrix, vector

# An event is written out in both loops.  As a function it would be too long for LLVM to inline,
# and a call counts the references to each array: 200 ns; cut into short ones, it takes longer
# to compile.


def take_steps(grad, fun, data, states, scratch, coefficients, marks, k, out):
    """A block of events of every run; out[r, k + 1 + i] takes f after event k + 1 + i.

    The jump of an event and the mix before the next are one pass over the vectors: y and z are
    mixed already when a gradient is asked, x is the state of which f is taken.
    """
    n = coefficients.shape[1]
    y, g = scratch[0], scratch[1]
    for r in range(states.shape[1]):
        x, z = states[0, r], states[1, r]
        a, b = coefficients[r, 0, A], coefficients[r, 0, B]
        for c in range(x.size):
            y[c], z[c] = mix(x[c], z[c], a, b)
        for i in range(n):
            grad(y, g, data)
            if marks.shape[0] > 0:
                for c in range(x.size):
                    g[c] += marks[r, i, c]
            gamma, gamma_prime = coefficients[r, i, GAMMA], coefficients[r, i, GAMMA_PRIME]
            a = b = 0.0  # after the last event of the block nothing is mixed yet
            if i + 1 < n:
                a, b = coefficients[r, i + 1, A], coefficients[r, i + 1, B]
            for c in range(x.size):
                x_c, z_c = jump(y[c], z[c], g[c], gamma, gamma_prime)
                x[c] = x_c
                y[c], z[c] = mix(x_c, z_c, a, b)
            out[r, k + 1 + i] = fun(x, data)


class Asked(NamedTuple):
    """The constants of the flow, where each run's block begins, its events, the times at which f is
    asked for, and how many of them are behind."""

    constants: tuple[float, float, float]
    t0: Array
    t: Array
    times: Array
    passed: Array


def pass_times(flow, grad, fun, data, states, scratch, coefficients, marks, asked, out):
    """A block of events of every run, up to the last of `asked.times`.

    out[r, j] takes f(x_t) at t = times[j]; passed[r] counts how many of them are behind.
    """
    (L, mu, start), t0, t, times, passed = asked
    g = scratch[0]
    for r in range(states.shape[1]):
        x, z = states[0, r], states[1, r]
        last = t0[r]
        for i in range(coefficients.shape[1]):
            while passed[r] < times.size and times[passed[r]] < t[r, i]:
                s = times[passed[r]]
                a, b = flow(last, s, s - last, L, mu, start)
                for c in range(x.size):
                    g[c] = mix(x[c], z[c], a, b)[0]  # g is free before the event
                out[r, passed[r]] = fun(g, data)
                passed[r] += 1
            if passed[r] == times.size:
                break
            a, b = coefficients[r, i, A], coefficients[r, i, B]
            gamma, gamma_prime = coefficients[r, i, GAMMA], coefficients[r, i, GAMMA_PRIME]
            for c in range(x.size):
                x[c], z[c] = mix(x[c], z[c], a, b)
            grad(x, g, data)
            if marks.shape[0] > 0:
                for c in range(x.size):
                    g[c] += marks[r, i, c]
            for c in range(x.size):
                x[c], z[c] = jump(x[c], z[c], g[c], gamma, gamma_prime)
            last = t[r, i]


def _shared_types(dtype: Any) -> tuple[Any, ...]:
    """The types of the arguments that both loops have."""
    grad = types.FunctionType(numba_types.gradient_type(dtype))
    fun = types.FunctionType(numba_types.value_type(dtype))
    blocks, coefficients = (types.Array(t, 3, "C") for t in (matrix(dtype).dtype, types.float64))
    data = numba_types.data_type(dtype)
    return grad, fun, data, blocks, matrix(dtype), coefficients, blocks


@cache
def compile_steps(dtype: Any) -> Any:
    """`take_steps` for iterates of this dtype."""
    signature = types.void(*_shared_types(dtype), types.int64, matrix(np.float64))
    return jit(take_steps, signature, no_cfunc_wrapper=True)


@cache
def compile_times(dtype: Any) -> Any:
    """`pass_times` for iterates of this dtype."""
    floats = vector(np.float64)
    three, numbers = types.UniTuple(types.float64, 3), vector(np.int64)
    asked = types.NamedTuple((three, floats, matrix(np.float64), floats, numbers), Asked)
    flow = types.FunctionType(numba_types.flow_type())
    signature = types.void(flow, *_shared_types(dtype), asked, matrix(np.float64))
    return jit(pass_times, signature, no_cfunc_wrapper=True)


@cache
def compile_flow(flow: FlowRule) -> Any:
    """The rule of a flow as a first-class function, which `pass_times` takes as any other."""
    return jit(flow, numba_types.flow_type(), cached=is_ours(flow))
