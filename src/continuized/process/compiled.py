"""The formulas of the process, compiled, and the times and coefficients of a block of events."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.process import flow, methods, parameters
from continuized.process.clock import Events
from continuized.process.coefficients import CARRY, COEFFICIENTS, GAMMA, GAMMA_PRIME, A, B, Rule
from continuized.process.methods import Method
from continuized.support.elementary import compile_elementary
from continuized.support.jit import (
    UNCOUNTED,
    compile_formulas,
    in_numpy,
    is_ours,
    jit,
    matrix,
    scratch,
    types,
    vector,
)

BLOCK = 64  # events whose coefficients are made at once, each kind in a row of its own

# No denominator is 0, and a test whether one is would keep loops from vector instructions.
FORMULAS = (*parameters.FORMULAS, *flow.FORMULAS, *methods.FORMULAS)
compile_elementary()
compile_formulas(*FORMULAS, error_model="numpy", exactly=True)


def later(t, dt):
    """The time dt after t."""
    return t + dt


compile_formulas(later, exactly=True)  # not reassociated: the bits are those of NumPy's cumsum


def _add_up_in_numpy(t0, dt, t):
    t[:] = dt
    t[:, :1] += t0[:, np.newaxis]
    t.cumsum(axis=1, out=t)
    return bool((dt >= 0.0).all())


@in_numpy(_add_up_in_numpy)
def add_up_rows(t0, dt, t):
    """Write the times of events, a run a row, whose gaps are added from left to right.

    Returns whether all gaps are >= 0.
    """
    all_right = True
    for r in range(dt.shape[0]):
        last = t0[r]
        for i in range(dt.shape[1]):
            all_right &= dt[r, i] >= 0.0
            last = later(last, dt[r, i])
            t[r, i] = last
    return all_right


@cache
def compile_add_up() -> Any:
    """Compile `add_up_rows`: its sums stay in a register, where NumPy's go through memory."""
    rows = matrix(np.float64)
    return jit(add_up_rows, types.boolean(vector(np.float64), rows, rows), **UNCOUNTED)


def _row(values: Array) -> Array:
    """Return a matrix of one row.  A recorded clock's times are read-only, for which Numba has
    other types: they are copied."""
    return np.ascontiguousarray(values if values.flags.writeable else values.copy())[np.newaxis]


def add_up(t0: float, dt: Array) -> Array | None:
    """Return the times of events with these gaps after t0; None where a gap is negative or NaN."""
    t = np.empty(dt.size)
    all_right = compile_add_up()(np.array([t0]), _row(dt), t[np.newaxis])
    return t if all_right else None


def runs_compiled(method: Method) -> bool:
    """Tell whether a method is all in its rules; if not, Python gives its coefficients."""
    kind = type(method)
    return kind.coefficients is Method.coefficients and kind.flow is Method.flow


@cache
def compile_fill(rule: Rule) -> Any:
    """Compile a loop over events in which this rule is inlined: a call would cost as much again.

    In rows of their own the coefficients are made by vector instructions, if the rule allows it;
    those of an event stand side by side where they are used.
    """
    compile_formulas(rule, error_model="numpy")

    def fill(constants, k, t0, carry, t, dt, out):
        L, mu, start = constants
        a, b, gammas = scratch(BLOCK), scratch(BLOCK), scratch(BLOCK)
        gamma_primes, carries = scratch(BLOCK), scratch(BLOCK)
        for r in range(t.shape[0]):
            last, c = t0[r], carry[r]
            for first in range(0, t.shape[1], BLOCK):
                times, gaps, rows = t[r, first:], dt[r, first:], out[r, first:]
                size = min(BLOCK, times.size)
                for i in range(size):
                    event = k + 1 + first + i
                    a[i], b[i], gammas[i], gamma_primes[i], c = rule(
                        event, last, times[i], gaps[i], c, L, mu, start
                    )
                    last, carries[i] = times[i], c
                for i in range(size):
                    rows[i, A], rows[i, B], rows[i, GAMMA] = a[i], b[i], gammas[i]
                    rows[i, GAMMA_PRIME], rows[i, CARRY] = gamma_primes[i], carries[i]

    floats, rows = vector(np.float64), matrix(np.float64)
    three, block = types.UniTuple(types.float64, 3), types.Array(types.float64, 3, "C")
    signature = types.void(three, types.int64, floats, floats, rows, rows, block)
    return jit(fill, signature, cached=is_ours(rule), error_model="numpy", **UNCOUNTED)


def rows_of_coefficients(
    method: Method, k: int, t0: Array, carry: Array, t: Array, dt: Array
) -> Array:
    """Return the coefficients of the events k + 1, ... of many runs, a run a row."""
    out = np.empty((*t.shape, COEFFICIENTS))
    compile_fill(method.rule)(method.constants, k, t0, carry, t, dt, out)
    return out


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
