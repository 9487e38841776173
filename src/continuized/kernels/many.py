"""Many independent runs, one at a time in cache, without the interpreter lock.

States and outputs are arrays with a row for each run of a chunk; events come in blocks.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from continuized import kernels as _  # noqa: F401  (registers the formulas)
from continuized.flow import jump, mix, weights
from continuized.jit import data_type, gradient_type, jit, matrix, value_type, vector
from continuized.kernels.schedule import fill


@jit
def events(
    grad, fun, data, rule, constants, k, t, carry, xs, zs, dt, marks, times, reached, t_out, f_out
):
    """A block of events of every run.

    With `times` empty, column k of t_out and f_out takes T_k and f(x_k).
    Otherwise a run stops where the last of `times` is passed, and f_out takes f(x_t) at
    each of them; reached[r] counts how many run r has passed.
    """
    L, mu, start = constants
    coefficients = np.empty((dt.shape[1], 4))
    event_times = np.empty(dt.shape[1])
    y = np.empty_like(xs[0])
    g = np.empty_like(xs[0])
    for r in range(xs.shape[0]):
        x, z = xs[r], zs[r]
        t0 = t[r]
        for i in range(dt.shape[1]):
            event_times[i] = (t0 if i == 0 else event_times[i - 1]) + dt[r, i]
        carry[r] = fill(rule, k, t0, event_times, dt[r], carry[r], L, mu, start, coefficients)
        for i in range(dt.shape[1]):
            while reached[r] < times.size and times[reached[r]] < event_times[i]:
                a = 0.0
                if rule == 2:
                    s = times[reached[r]]
                    a, _ = weights(t0, s, s - t0, L, mu, start)
                for c in range(x.size):
                    y[c], _ = mix(x[c], z[c], a, 0.0)
                f_out[r, reached[r]] = fun(y, data)
                reached[r] += 1
            if times.size > 0 and reached[r] == times.size:
                break
            a, b = coefficients[i, 0], coefficients[i, 1]
            gamma, gamma_prime = coefficients[i, 2], coefficients[i, 3]
            for c in range(x.size):
                x[c], z[c] = mix(x[c], z[c], a, b)
            grad(x, g, data)
            if marks.shape[0] > 0:
                for c in range(x.size):
                    g[c] += marks[r, i, c]
            for c in range(x.size):
                x[c], z[c] = jump(x[c], z[c], g[c], gamma, gamma_prime)
            t0 = event_times[i]
            if times.size == 0:
                t_out[r, k + 1 + i] = t0
                f_out[r, k + 1 + i] = fun(x, data)
        t[r] = t0


@cache
def compiled_events(dtype: Any) -> Any:
    """The loop for iterates of this dtype."""
    floats, rows = matrix(np.float64), matrix(dtype)
    signature = types.void(
        types.FunctionType(gradient_type(dtype)),
        types.FunctionType(value_type(dtype)),
        data_type(dtype),
        types.int64,
        types.UniTuple(types.float64, 3),
        types.int64,
        vector(np.float64),
        vector(np.float64),
        rows,
        rows,
        floats,
        types.Array(rows.dtype, 3, "C"),
        vector(np.float64),
        vector(np.int64),
        floats,
        floats,
    )
    return jit(events.py_func, signature)
