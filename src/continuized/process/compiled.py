"""The formulas of the process, compiled, and the coefficients of a block of events at once."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.process import flow, methods, parameters
from continuized.process.clock import Events
from continuized.process.coefficients import CARRY, COEFFICIENTS, Rule
from continuized.process.methods import Method
from continuized.support.jit import compile_formulas, is_ours, jit, matrix, types, vector

compile_formulas(*parameters.FORMULAS, *flow.FORMULAS, *methods.FORMULAS, exactly=True)


def runs_compiled(method: Method) -> bool:
    """Tell whether a method is all in its rules; if not, Python gives its coefficients."""
    kind = type(method)
    return kind.coefficients is Method.coefficients and kind.flow is Method.flow


@cache
def compile_fill(rule: Rule) -> Any:
    """Compile a loop over events in which this rule is inlined: a call would cost as much again."""
    compile_formulas(rule)

    def fill(constants, k, t0, carry, t, dt, out):
        L, mu, start = constants
        for r in range(t.shape[0]):
            last, c = t0[r], carry[r]
            for i in range(t.shape[1]):
                row = rule(k + 1 + i, last, t[r, i], dt[r, i], c, L, mu, start)
                out[r, i, 0], out[r, i, 1], out[r, i, 2], out[r, i, 3], out[r, i, 4] = row
                last, c = t[r, i], row[CARRY]

    floats, rows = vector(np.float64), matrix(np.float64)
    three, block = types.UniTuple(types.float64, 3), types.Array(types.float64, 3, "C")
    signature = types.void(three, types.int64, floats, floats, rows, rows, block)
    return jit(fill, signature, cached=is_ours(rule), no_cfunc_wrapper=True)


def rows_of_coefficients(
    method: Method, k: int, t0: Array, carry: Array, t: Array, dt: Array
) -> Array:
    """Return the coefficients of the events k + 1, ... of many runs, a run a row."""
    out = np.empty((*t.shape, COEFFICIENTS))
    compile_fill(method.rule)(method.constants, k, t0, carry, t, dt, out)
    return out


def _row(values: Array) -> Array:
    """Return a matrix of one row.  A recorded clock's times are read-only, for which Numba has
    other types: they are copied."""
    return np.ascontiguousarray(values if values.flags.writeable else values.copy())[np.newaxis]


def coefficients(method: Method, events: Events, carry: float) -> Array:
    """Return the coefficients of a block of events, one row each."""
    if runs_compiled(method):
        t, dt = _row(events.t), _row(events.dt)
        first = (events.k0, np.array([events.t0]), np.array([carry]))
        return np.asarray(rows_of_coefficients(method, *first, t, dt)[0])
    out = np.empty((events.size, COEFFICIENTS))
    t0 = events.t0
    for i, event in enumerate(events.each()):
        out[i] = method.coefficients(event.k, t0, event.t, event.dt, carry)
        t0, carry = event.t, float(out[i, CARRY])
    return out
