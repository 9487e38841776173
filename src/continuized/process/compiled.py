"""The formulas of the process, compiled; and blocks of events, whose coefficients compiled code
makes where it uses them."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.process import exponential as exponential  # so that `clock` finds it loaded
from continuized.process import flow, methods, parameters
from continuized.process.clock import Events
from continuized.process.coefficients import CARRY, COEFFICIENTS, GAMMA, GAMMA_PRIME, A, B, Rule
from continuized.process.methods import Method
from continuized.support.elementary import compile_elementary
from continuized.support.jit import (
    HAS_NUMBA,
    UNCOUNTED,
    array_at,
    compile_formulas,
    find_address,
    is_ours,
    jit,
    make_call,
    matrix,
    types,
    uncounted,
    vector,
)

EVENTS_AT_ONCE = 256  # whose coefficients take 10 kB, which the nearest cache holds
KEPT = EVENTS_AT_ONCE * COEFFICIENTS  # numbers of memory for them
NONE_GIVEN = np.empty((0, COEFFICIENTS))  # where the rule is compiled

# No denominator is 0, and a test whether one is would keep loops from vector instructions.
FORMULAS = (*parameters.FORMULAS, *flow.FORMULAS, *methods.FORMULAS)
compile_elementary()
compile_formulas(*FORMULAS, error_model="numpy", exactly=True)


def runs_compiled(method: Method) -> bool:
    """Tell whether a method is all in its rules; if not, Python gives its coefficients."""
    kind = type(method)
    return kind.coefficients is Method.coefficients and kind.flow is Method.flow


class Block(NamedTuple):
    """A block of events of one run or of many, a run a row, as compiled code takes it.

    Compiled code makes the coefficients from it, of `EVENTS_AT_ONCE` at a time: those of a whole
    block would not fit into the nearest cache.

    fill: the address of the rule (`compile_fill`), or 0 where Python made the coefficients.
    constants: those of the rule.  k, t0: the number and the times of the last event before the
    block.  carry: what the rule carries into the next event to be taken; loops keep it up to date.
    t, dt: the times of the events and the gaps before them.  given: the coefficients that Python
    made, an event a row.
    """

    fill: int
    constants: tuple[float, float, float]
    k: int
    t0: Array
    carry: Array
    t: Array
    dt: Array
    given: Array


def block_type() -> Any:
    """The Numba type of a block."""
    floats, rows = vector(np.float64), matrix(np.float64)
    three = types.UniTuple(types.float64, 3)
    # An address in a tuple has the type of Python's integers.
    fields = (types.int64, three, types.int64, floats, floats, rows, rows, rows)
    return types.NamedTuple(fields, Block)


def fill_type() -> Any:
    """The signature of a compiled rule: (t, dt, out, n, k, t0, carry, L, mu, start), the first
    three being addresses."""
    addresses, numbers = [types.uintp] * 3, [types.int64] * 2
    return types.void(*addresses, *numbers, *[types.float64] * 5)


call_fill = make_call(fill_type())


@cache
def compile_fill(rule: Rule) -> Any:
    """Compile a loop over events in which this rule is inlined: a call would cost as much again.

    It is given addresses, of n times, of n gaps, and of a matrix (COEFFICIENTS, n): each kind of
    coefficient has a row of its own, so that vector instructions make many at once, if the rule
    allows it.
    """
    compile_formulas(rule, error_model="numpy")

    def fill(t, dt, out, n, k, t0, carry, L, mu, start):
        times, gaps = array_at(t, (n,), np.float64), array_at(dt, (n,), np.float64)
        rows = array_at(out, (COEFFICIENTS, n), np.float64)
        last, c = t0, carry
        for i in range(n):
            rows[A, i], rows[B, i], rows[GAMMA, i], rows[GAMMA_PRIME, i], c = rule(
                k + 1 + i, last, times[i], gaps[i], c, L, mu, start
            )
            last, rows[CARRY, i] = times[i], c

    return jit(fill, fill_type(), cached=is_ours(rule), error_model="numpy", **UNCOUNTED)


@uncounted
def make_coefficients(block, run, i, stop, kept):
    """Return how many of the events i, ..., stop - 1 of a run are made at once, and their
    coefficients, a row each.

    `kept` is memory for `KEPT` numbers, which the next call overwrites.  block.carry must be what
    event i - 1 left.
    """
    n = min(stop - i, EVENTS_AT_ONCE)
    rows = array_at(kept.ctypes.data, (COEFFICIENTS, n), np.float64)
    if block.fill == 0:
        for j in range(n):
            for c in range(COEFFICIENTS):
                rows[c, j] = block.given[i + j, c]
    else:
        t, dt = block.t[run], block.dt[run]
        t0 = block.t0[run] if i == 0 else t[i - 1]
        L, mu, start = block.constants
        places = t[i:].ctypes.data, dt[i:].ctypes.data, kept.ctypes.data
        call_fill(block.fill, (*places, n, block.k + i, t0, block.carry[run], L, mu, start))
    return n, rows.T


def coefficients(method: Method, events: Events, carry: float) -> Array:
    """Return the coefficients of a block of events, one row each."""
    n, t0 = events.size, events.t0
    if HAS_NUMBA and runs_compiled(method):
        t, dt, rows = _floats(events.t), _floats(events.dt), np.empty((COEFFICIENTS, n))
        places = (part.ctypes.data for part in (t, dt, rows))
        compile_fill(method.rule)(*places, n, events.k0, t0, carry, *method.constants)
        return rows.T
    out = np.empty((n, COEFFICIENTS))
    for i, event in enumerate(events.each()):
        out[i] = method.coefficients(event.k, t0, event.t, event.dt, carry)
        t0, carry = event.t, float(out[i, CARRY])
    return out


def make_block(method: Method, events: Events, carry: Any) -> Block:
    """Make a block of the events of one run."""
    t, dt = _floats(events.t)[np.newaxis], _floats(events.dt)[np.newaxis]
    before = events.k0, np.array([events.t0], np.float64)
    if runs_compiled(method):
        return make_blocks(method, *before, np.array([carry], np.float64), t, dt)
    # The rows that Python makes have their own carry; before the first event it may be None.
    given, constants = coefficients(method, events, carry), (math.nan,) * 3
    return Block(0, constants, *before, np.array([math.nan]), t, dt, given)


def make_blocks(method: Method, k: int, t0: Array, carry: Array, t: Array, dt: Array) -> Block:
    """Make a block of the events of many runs, of a method that runs compiled."""
    fill, (L, mu, start) = find_address(compile_fill(method.rule)), method.constants
    constants = float(L), float(mu), float(start)
    return Block(fill, constants, k, t0, carry, t, dt, NONE_GIVEN)


def _floats(values: Array) -> Array:
    """Return values that compiled code can be given the address of.

    A copy of what is read-only, as a recorded clock's times are: Numba has another type for it.
    """
    if type(values) is np.ndarray and values.dtype == np.float64 and values.flags.carray:
        return values  # for most: to require it takes 3 microseconds
    return np.require(values, np.float64, ["C", "W", "A"])
