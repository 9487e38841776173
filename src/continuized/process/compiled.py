"""The formulas of the process, compiled, and the coefficients of a block of events."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.process import exponential as exponential  # so that `clock` finds it loaded
from continuized.process import flow, methods, parameters
from continuized.process.clock import Events
from continuized.process.coefficients import CARRY, COEFFICIENTS, GAMMA, GAMMA_PRIME, A, B, Rule
from continuized.process.methods import Method
from continuized.support.elementary import compile_elementary
from continuized.support.jit import (
    UNCOUNTED,
    compile_formulas,
    is_ours,
    jit,
    matrix,
    types,
    vector,
)

# No denominator is 0, and a test whether one is would keep loops from vector instructions.
FORMULAS = (*parameters.FORMULAS, *flow.FORMULAS, *methods.FORMULAS)
compile_elementary()
compile_formulas(*FORMULAS, error_model="numpy", exactly=True)


def _row(values: Array) -> Array:
    """Return a matrix of one row.  A recorded clock's times are read-only, for which Numba has
    other types: they are copied."""
    return np.ascontiguousarray(values if values.flags.writeable else values.copy())[np.newaxis]


def runs_compiled(method: Method) -> bool:
    """Tell whether a method is all in its rules; if not, Python gives its coefficients."""
    kind = type(method)
    return kind.coefficients is Method.coefficients and kind.flow is Method.flow


def coefficients_type(ndim: int = 2) -> Any:
    """The Numba type of the coefficients of events, an event a row; of many runs with ndim=3.

    Of any order in memory: those of `compile_fill` are columns there, those that Python makes rows.
    """
    return types.Array(types.float64, ndim, "A")


@cache
def compile_fill(rule: Rule) -> Any:
    """Compile a loop over events in which this rule is inlined: a call would cost as much again.

    Each kind of coefficient has a row of its own, so that vector instructions make many at once, if
    the rule allows it.
    """
    compile_formulas(rule, error_model="numpy")

    def fill(constants, k, t0, carry, t, dt, out):
        L, mu, start = constants
        for r in range(t.shape[0]):
            times, gaps, rows = t[r], dt[r], out[r]
            last, c = t0[r], carry[r]
            for i in range(times.size):
                rows[A, i], rows[B, i], rows[GAMMA, i], rows[GAMMA_PRIME, i], c = rule(
                    k + 1 + i, last, times[i], gaps[i], c, L, mu, start
                )
                last, rows[CARRY, i] = times[i], c

    floats, rows = vector(np.float64), matrix(np.float64)
    three, block = types.UniTuple(types.float64, 3), types.Array(types.float64, 3, "C")
    signature = types.void(three, types.int64, floats, floats, rows, rows, block)
    return jit(fill, signature, cached=is_ours(rule), error_model="numpy", **UNCOUNTED)


def rows_of_coefficients(
    method: Method, k: int, t0: Array, carry: Array, t: Array, dt: Array
) -> Array:
    """Return the coefficients of the events k + 1, ... of many runs, a run a row.

    Those of an event are a column in memory: see `compile_fill`.
    """
    runs, n = t.shape
    out = np.empty((runs, COEFFICIENTS, n))
    compile_fill(method.rule)(method.constants, k, t0, carry, t, dt, out)
    return out.transpose(0, 2, 1)


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
