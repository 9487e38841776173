"""The compiled step, and the loops around it where the gradient is compiled too.

It is the inside of `FixedStepper.advance`; the loop of a whole run is `solver.loop`.

The vectors of a run live in one array `work`, a row each (`make_work`): rows begin where a cache
line does, and what they have beyond the entries of x is zero and stays so.  Between calls, the rows
X and Z are x and z after the last event; some loops write them only after the last of the events
whose coefficients are made at once.
Events have three rows each, which begin at LAST (the event before), NOW (the coming one) and NEXT
(the one after it, for `make_step` alone):

    work[event + Y], work[event + W]  y and z of the event, mixed but before its jump
    work[event + G]                   the gradient at y

One pass over the vectors makes an event: the sums for the checks, the jump, and the mix of the next
one.  Compiled loops mix it into the rows of the event before, to stay in the cache; where the
checks forbid a jump, `take_events` goes back to where it began, and takes only the events before
it.  A gradient in Python
must not be asked for twice, so its step mixes into a third group of rows: the event before is still
there, and x and z after it are made of it.  A function that is a sum over the entries of x has its
gradient in the same pass too, which changes x, z and the last pair in place.

The pair of the event before is for the witnesses against the constants.  Loops where there can be
none, for want of doubt or for noise, neither keep it nor compare.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np

from continuized.problems.base import Array, Compiled
from continuized.problems.kernels import (
    IN_REGISTERS,
    find_addresses,
    questions,
    types_of_questions,
)
from continuized.process.coefficients import CARRY, COEFFICIENTS, GAMMA, GAMMA_PRIME, A, B
from continuized.process.compiled import KEPT, Block, block_type, make_coefficients
from continuized.process.flow import mix
from continuized.process.methods import jump
from continuized.solver import constant_checks
from continuized.solver.constant_checks import (
    DIVERGED,
    GO_ON,
    NOT_FINITE,
    STEPS,
    WATCH_SIZE,
    choose_signal,
    copy_watch,
    is_quiet,
    judge,
)
from continuized.support.alignment import aligned_zeros, padded_size
from continuized.support.jit import (
    HAS_NUMBA,
    UNCOUNTED,
    array_at,
    compile_formulas,
    in_numpy,
    in_short_vectors,
    jit,
    jit_uncounted,
    matrix,
    read_apart,
    scratch,
    types,
    uncounted,
    vector,
)

Y, W, G = range(3)
X, Z, LAST, NOW, NEXT = 0, 1, 2, 5, 8
WORK_ROWS = NEXT + 3
FORBIDDEN = (NOT_FINITE, DIVERGED)  # signals of events whose step is not taken
WRONG_SIZE = -1

# A call that is handed an array counts a reference, which would cost 20 ns a step.  LLVM writes
# these into their callers: Numba would too, but each time it would find their types anew.
inline = partial(uncounted, forceinline=True)
inline(judge)
inline(copy_watch)
inline(is_quiet)
inline(choose_signal)


def noise_from(noise, i):
    """Return the noise of events i, i + 1, ..., where there is any."""
    if noise is None:
        return None
    return noise[i:]


def add_noise(g, noise, *index):
    """Add the noise of an event and entry, where there is any: None is known when compiling."""
    if noise is None:
        return g
    return g + noise[index]


def add_squares(sums, g, y):
    """Add an entry of the gradient and of y to the first two of the sums of `judge`."""
    g2, y2, dg2, dgdy, dy2 = sums
    return g2 + g * g, y2 + y * y, dg2, dgdy, dy2


def add_slope(sums, g, y, witnessing):
    """Do the same for a slope that is not finite where y is not.

    The gradient then shows all that y would; only witnesses need y, for its rounding errors.
    """
    g2, y2, dg2, dgdy, dy2 = sums
    if witnessing:
        y2 += y * y
    return g2 + g * g, y2, dg2, dgdy, dy2


def add_products(sums, dg, dy):
    """Add an entry of the differences from the event before to the other three."""
    g2, y2, dg2, dgdy, dy2 = sums
    return g2, y2, dg2 + dg * dg, dgdy + dg * dy, dy2 + dy * dy


def make_work(x: Array, z: Array) -> Array:
    """Make the vectors of a run that begins at x and z."""
    work = aligned_zeros((WORK_ROWS, padded_size(x.size, x.dtype)), x.dtype)
    work[X, : x.size], work[Z, : x.size] = x.ravel(), z.ravel()
    return work


@inline
def decide(watch, watch_copy, sums, row, witnessing):
    """Return the signal of an event with these sums and this row of coefficients, and the copy of
    `watch` (`copy_watch`) that the next event is to be given."""
    g2, y2, dg2, dgdy, dy2 = sums
    squares = float(g2), float(y2), float(dg2), float(dgdy), float(dy2)
    gamma, gamma_prime = row[GAMMA], row[GAMMA_PRIME]
    if is_quiet(watch_copy, *squares, max(gamma, gamma_prime)):
        watch[STEPS] += 1.0
        return GO_ON, watch_copy
    size2 = judge(watch, *squares)
    return choose_signal(watch, size2, size2, gamma, gamma_prime), copy_watch(watch, witnessing)


compile_formulas(noise_from, add_noise, add_squares, add_slope, add_products)


# Without Numba, the gradient is asked for in Python (`make_step`), and what follows takes whole
# rows of `work` at a time.


def _mix_to_in_numpy(work, coefficients, i):
    a, b, _, _, _ = coefficients[i].astype(work.dtype)
    work[NOW + Y], work[NOW + W] = mix(work[X], work[Z], a, b)


@inline
@in_numpy(_mix_to_in_numpy)
def mix_to(work, coefficients, i):
    """Mix to y and z at event i of these coefficients, before its jump."""
    real = work.dtype.type
    a, b = real(coefficients[i, A]), real(coefficients[i, B])
    for c in range(work.shape[1]):
        work[NOW + Y, c], work[NOW + W, c] = mix(work[X, c], work[Z, c], a, b)


@jit_uncounted
def mix_next(work, coefficients, i):
    """Do the same, for Python to call: so `mix_to` is compiled once."""
    mix_to(work, coefficients, i)


@inline
def rows_of(work, event):
    """Return y, z and the gradient of an event."""
    return work[event + Y], work[event + W], work[event + G]


@inline
def take_event(
    last, now, following, answer, point, noise, coefficients, watch, watch_copy, i, witnessing
):
    """Take event i of these coefficients, with the gradient `answer`; return what `decide` says.

    last, now, following: the rows of the event before, of this one, and of the next, into which its
    y and z are mixed.  point: an array that gets the next y too; None where `answer` is the row of
    this event itself, into which it is copied otherwise.  witnessing: whether the gradient is
    compared with the one before.
    """
    y_last, _, g_last = last
    y_now, z_now, g_now = now
    y_next, z_next, _ = following
    real = y_now.dtype.type
    gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
    i_next = min(i + 1, coefficients.shape[0] - 1)
    a, b = real(coefficients[i_next, A]), real(coefficients[i_next, B])
    zero = real(0.0)
    sums = zero, zero, zero, zero, zero
    for c in range(answer.size if noise is None else noise.shape[1]):
        g, y = real(add_noise(answer[c], noise, i, c)), y_now[c]
        sums = add_squares(sums, g, y)
        if witnessing:
            sums = add_products(sums, g - g_last[c], y - y_last[c])
        if noise is not None or point is not None:
            g_now[c] = g
        x, z = jump(y, z_now[c], g, gamma, gamma_prime)
        y_next[c], z_next[c] = mix(x, z, a, b)
        if point is not None:
            point[c] = y_next[c]
    return decide(watch, watch_copy, sums, coefficients[i], witnessing)


@inline
def settle(work, event, coefficients, i):
    """Write x and z after event i of these coefficients, and its pair for the next witnesses."""
    real = work.dtype.type
    gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
    for c in range(work.shape[1]):
        y, g = work[event + Y, c], work[event + G, c]
        work[X, c], work[Z, c] = jump(y, work[event + W, c], g, gamma, gamma_prime)
        work[LAST + Y, c], work[LAST + G, c] = y, g


@inline
def record(work, event, coefficients, i, xs, zs):
    """Keep x and z after event i as rows of xs and zs, unless these are empty."""
    real = work.dtype.type
    gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
    if xs.shape[0] > 0:
        for c in range(xs.shape[1]):
            y, z, g = work[event + Y, c], work[event + W, c], work[event + G, c]
            xs[i, c], z = jump(y, z, g, gamma, gamma_prime)
            if zs.shape[0] > 0:
                zs[i, c] = z


def keep_states_in_numpy(work: Array, xs: Array, zs: Array, i: int) -> None:
    """Do what `keep_states` does, for Python to call."""
    for states, row in ((xs, X), (zs, Z)):
        if len(states):
            states[i] = work[row, : states.shape[1]]


@inline
@in_numpy(keep_states_in_numpy)
def keep_states(work, xs, zs, i):
    """Keep x and z as rows i of xs and zs, unless these are empty."""
    if xs.shape[0] > 0:
        for c in range(xs.shape[1]):
            xs[i, c] = work[X, c]
            if zs.shape[0] > 0:
                zs[i, c] = work[Z, c]


# Events whose gradients Python is asked for.  Every array that is handed over takes 50 ns, so all
# but the gradient is in a table, of which the step is given the address.

(WORK, XS, ZS, COLUMNS, WATCH, WIDTH, DIM, ROWS_OF_XS, ROWS_OF_ZS, EVENTS, FIRST, LAST_AT, NOW_AT,
 NEXT_AT, PSI, POINT) = range(16)  # fmt: skip
TABLE_SIZE = POINT + 1


class StepTable:
    """What the step is given of a run: a table of addresses and sizes.

    The attributes keep the memory alive whose addresses are in the table.  psi: its constants, for
    the step of `composite`.  point: where the compiled step writes the next y, of this shape.
    """

    def __init__(
        self, work: Array, xs: Array, zs: Array, watch: Array, shape: tuple[int, ...],
        psi: Array | None = None,
    ) -> None:  # fmt: skip
        self.work, self.xs, self.zs, self.watch, self.psi = work, xs, zs, watch, psi
        self.coefficients = self._columns = np.empty((0, COEFFICIENTS))
        self._table = table = np.zeros(TABLE_SIZE, np.int64)
        table[WORK], table[XS], table[ZS] = (part.ctypes.data for part in (work, xs, zs))
        table[WIDTH], table[DIM] = work.shape[1], xs.shape[1]
        table[ROWS_OF_XS], table[ROWS_OF_ZS] = len(xs), len(zs)
        table[WATCH], table[PSI] = watch.ctypes.data, 0 if psi is None else psi.ctypes.data
        self.point = np.empty(shape, work.dtype)
        self.renew_point()
        # Without Numba, the step is given this object itself.
        self.address: Any = table.ctypes.data if HAS_NUMBA else self

    def begin(self, coefficients: Array, first: int) -> None:
        """Make ready for events first, first + 1, ... of a block, which has these coefficients."""
        table = self._table
        if coefficients is not self.coefficients:
            self.coefficients = coefficients
            self._columns = np.ascontiguousarray(coefficients.T)
            table[COLUMNS], table[EVENTS] = self._columns.ctypes.data, len(coefficients)
        table[FIRST], table[LAST_AT], table[NOW_AT], table[NEXT_AT] = first, LAST, NOW, NEXT

    def renew_point(self) -> Array:
        """Put another array, with the same numbers, in place of the point, and return it."""
        self.point = self.point.copy()
        self._table[POINT] = self.point.ctypes.data
        return self.point


@inline
def read_table(address, real):
    """Return a table, and what is in it: work, xs, zs, the coefficients, watch and the point."""
    table = array_at(address, (TABLE_SIZE,), np.int64)
    n = table[DIM]
    columns = array_at(table[COLUMNS], (COEFFICIENTS, table[EVENTS]), np.float64)
    return (
        table,
        array_at(table[WORK], (WORK_ROWS, table[WIDTH]), real),
        array_at(table[XS], (table[ROWS_OF_XS], n), real),
        array_at(table[ZS], (table[ROWS_OF_ZS], n), real),
        columns.T,
        array_at(table[WATCH], (WATCH_SIZE,), np.float64),
        array_at(table[POINT], (n,), real),
    )


def _step_in_numpy(g, given, i):
    work, coefficients = given.work, given.coefficients
    work = work[:, : given.xs.shape[1]]
    y, z = work[NOW + Y], work[NOW + W]
    if g.shape != y.shape or g.dtype != y.dtype:
        return WRONG_SIZE
    dg, dy = g - work[LAST + G], y - work[LAST + Y]
    sums = np.vdot(g, g), np.vdot(y, y), np.vdot(dg, dg), np.vdot(dg, dy), np.vdot(dy, dy)
    signal, _ = decide(given.watch, given.watch, sums, coefficients[i], True)
    if signal not in FORBIDDEN:
        _, _, gamma, gamma_prime, _ = coefficients[i].astype(work.dtype)
        work[X], work[Z] = jump(y, z, g, gamma, gamma_prime)
        work[LAST + Y], work[LAST + G] = y, g
        keep_states(work, given.xs, given.zs, i)
        mix_to(work, coefficients, min(i + 1, coefficients.shape[0] - 1))
    return signal


def make_step(real):
    """Make the step for numbers of this class."""

    @in_numpy(_step_in_numpy)
    def step(g, address, i):
        """Take event i of the block, whose gradient is g, noise and all; return the signal.

        A step that fails is not taken; after any other, y and z are mixed for the next event.  x
        and z are written where the block ends, by a signal or not.  A gradient of another size is
        not looked at: WRONG_SIZE.
        """
        table, work, xs, zs, coefficients, watch, point = read_table(address, real)
        if g.size != table[DIM]:
            return WRONG_SIZE
        last, now, following = table[LAST_AT], table[NOW_AT], table[NEXT_AT]
        rows = rows_of(work, last), rows_of(work, now), rows_of(work, following)
        watch_copy = copy_watch(watch, True)
        signal, _ = take_event(*rows, g, point, None, coefficients, watch, watch_copy, i, True)
        if signal in FORBIDDEN:
            if i > table[FIRST]:
                settle(work, last, coefficients, i - 1)
            return signal
        record(work, now, coefficients, i, xs, zs)
        if signal != GO_ON or i == coefficients.shape[0] - 1:
            settle(work, now, coefficients, i)
        table[LAST_AT], table[NOW_AT], table[NEXT_AT] = now, following, last
        return signal

    return step


@cache
def compile_step(dtype: Any) -> Any:
    """The step for iterates of this dtype; TypeError for a g of other types than it is made for.

    Called from Python at every event: the interpreter's lock is not let go of for so short a time.
    """
    signature = types.int64(vector(dtype), types.int64, types.int64)
    return jit(make_step(np.dtype(dtype).type), signature, nogil=False, **UNCOUNTED)


def _skip_in_numpy(work, coefficients, i):
    mix_to(work, coefficients, i)
    work[X], work[Z] = work[NOW + Y], work[NOW + W]


@inline
@in_numpy(_skip_in_numpy)
def skip_event(work, coefficients, i):
    """Take event i of these coefficients without a jump, as if its gradient were zero."""
    mix_to(work, coefficients, i)
    for c in range(work.shape[1]):
        work[X, c], work[Z, c] = work[NOW + Y, c], work[NOW + W, c]


@jit_uncounted
def skip(work, coefficients, i):
    """Do what `skip_event` does, for Python to call."""
    skip_event(work, coefficients, i)


@jit_uncounted
def skip_in_block(work, block, i):
    """Take event i of a block without a jump; make its coefficients first."""
    kept = scratch(KEPT, np.float64)
    _, coefficients = make_coefficients(block, 0, i, i + 1, kept)
    skip_event(work, coefficients, 0)
    block.carry[0] = coefficients[0, CARRY]


def make_loop(asked, witnessing):
    """Make the loop for a problem that gives its gradient as a vector."""
    ask = asked.gradient

    def loop(grad, data, noise, work, xs, zs, coefficients, watch):
        """Take events with these coefficients until a signal; return (how many are done, signal).

        After a forbidden event `work` is not valid; `take_events` restores it.
        """
        i, signal, last, now, dim = 0, GO_ON, LAST, NOW, xs.shape[1]
        watch_copy = copy_watch(watch, witnessing)
        # The rows are found once: to find them in `work` at every event would take 6 ns.
        rows_last, rows_now = rows_of(work, last), rows_of(work, now)
        mix_to(work, coefficients, i)
        while i < coefficients.shape[0] and signal == GO_ON:
            y, _, g = rows_now
            ask(grad, y[:dim], g[:dim], data)
            signal, watch_copy = take_event(
                rows_last, rows_now, rows_last, g, None, noise, coefficients, watch, watch_copy, i,
                witnessing,
            )  # fmt: skip
            if signal in FORBIDDEN:
                return i, signal
            record(work, now, coefficients, i, xs, zs)
            last, now, i = now, last, i + 1
            rows_last, rows_now = rows_now, rows_last
        if i > 0:
            settle(work, last, coefficients, i - 1)
        return i, signal

    return loop


def make_entrywise_loop(asked, witnessing):
    """Make the loop for a sum over the entries of x: gradient, checks and step in one pass."""
    slope = asked.gradient

    def loop(grad, data, noise, work, xs, zs, coefficients, watch):
        """Do what the loop of `make_loop` does."""
        i, real, signal, watch_copy = 0, work.dtype.type, GO_ON, copy_watch(watch, witnessing)
        while i < coefficients.shape[0] and signal == GO_ON:
            a, b = real(coefficients[i, A]), real(coefficients[i, B])
            gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
            zero = real(0.0)
            sums = zero, zero, zero, zero, zero
            for c in range(work.shape[1] if noise is None else noise.shape[1]):
                y, z = mix(work[X, c], work[Z, c], a, b)
                g = real(add_noise(slope(c, y, data), noise, i, c))
                sums = add_slope(sums, g, y, witnessing)
                if witnessing:
                    sums = add_products(sums, g - work[LAST + G, c], y - work[LAST + Y, c])
                    work[LAST + Y, c], work[LAST + G, c] = y, g
                work[X, c], work[Z, c] = jump(y, z, g, gamma, gamma_prime)
            signal, watch_copy = decide(watch, watch_copy, sums, coefficients[i], witnessing)
            if signal in FORBIDDEN:
                break
            keep_states(work, xs, zs, i)
            i += 1
        return i, signal

    return loop


# Loops for so few entries that the vectors of a run stay in registers, or next to them.  They have
# `IN_REGISTERS` entries, a number that is known when compiling, and of which rows of `work` have no
# fewer; those that are not of the run are zero, and so is their slope.  No noise, and no states are
# kept.


@inline
def read_small(work, x, z, y_last, g_last):
    """Copy the rows of `work` that go from event to event."""
    for c in range(IN_REGISTERS):
        x[c], z[c] = work[X, c], work[Z, c]
        y_last[c], g_last[c] = work[LAST + Y, c], work[LAST + G, c]


@inline
def write_small(work, x, z, y_last, g_last):
    """Copy them back."""
    for c in range(IN_REGISTERS):
        work[X, c], work[Z, c] = x[c], z[c]
        work[LAST + Y, c], work[LAST + G, c] = y_last[c], g_last[c]


def make_small_loop(asked, witnessing):
    """Make the loop for a problem that gives its gradient as a vector of few entries."""
    ask = asked.gradient

    def loop(grad, data, noise, work, xs, zs, coefficients, watch):
        """Do what the loop of `make_loop` does."""
        i, real, signal, final = 0, work.dtype.type, GO_ON, coefficients.shape[0] - 1
        watch_copy = copy_watch(watch, witnessing)
        x, z = scratch(IN_REGISTERS, real), scratch(IN_REGISTERS, real)
        y_last, g_last = scratch(IN_REGISTERS, real), scratch(IN_REGISTERS, real)
        y, w = scratch(IN_REGISTERS, real), scratch(IN_REGISTERS, real)
        g, written = scratch(IN_REGISTERS, real), scratch(IN_REGISTERS, real)
        read_small(work, x, z, y_last, g_last)
        asked_at, answer = y[: xs.shape[1]], written[: xs.shape[1]]
        a, b = real(coefficients[i, A]), real(coefficients[i, B])
        for c in range(IN_REGISTERS):
            y[c], w[c] = mix(x[c], z[c], a, b)
            written[c] = 0.0
        while i <= final and signal == GO_ON:
            ask(grad, asked_at, answer, data)
            gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
            following = min(i + 1, final)
            a, b = real(coefficients[following, A]), real(coefficients[following, B])
            zero = real(0.0)
            sums = zero, zero, zero, zero, zero
            for c in range(IN_REGISTERS):
                g[c] = read_apart(written, c)  # most gradients write their few entries one by one
            for c in range(IN_REGISTERS):
                sums = add_squares(sums, g[c], y[c])
                if witnessing:
                    sums = add_products(sums, g[c] - g_last[c], y[c] - y_last[c])
                    y_last[c], g_last[c] = y[c], g[c]
                x[c], z[c] = jump(y[c], w[c], g[c], gamma, gamma_prime)
                y[c], w[c] = mix(x[c], z[c], a, b)
            signal, watch_copy = decide(watch, watch_copy, sums, coefficients[i], witnessing)
            if signal in FORBIDDEN:
                break
            i += 1
        write_small(work, x, z, y_last, g_last)
        return i, signal

    return loop


def make_small_entrywise_loop(asked, witnessing):
    """Make the loop for a sum over few entries."""
    slope = asked.gradient

    def loop(grad, data, noise, work, xs, zs, coefficients, watch):
        """Do what the loop of `make_loop` does."""
        i, real, signal, watch_copy = 0, work.dtype.type, GO_ON, copy_watch(watch, witnessing)
        x, z = scratch(IN_REGISTERS, real), scratch(IN_REGISTERS, real)
        y_last, g_last = scratch(IN_REGISTERS, real), scratch(IN_REGISTERS, real)
        read_small(work, x, z, y_last, g_last)
        while i < coefficients.shape[0] and signal == GO_ON:
            a, b = real(coefficients[i, A]), real(coefficients[i, B])
            gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
            zero = real(0.0)
            sums = zero, zero, zero, zero, zero
            for c in range(IN_REGISTERS):
                y, z_c = mix(x[c], z[c], a, b)
                g = slope(c, y, data)
                sums = add_slope(sums, g, y, witnessing)
                if witnessing:
                    sums = add_products(sums, g - g_last[c], y - y_last[c])
                    y_last[c], g_last[c] = y, g
                x[c], z[c] = jump(y, z_c, g, gamma, gamma_prime)
            signal, watch_copy = decide(watch, watch_copy, sums, coefficients[i], witnessing)
            if signal in FORBIDDEN:
                break
            i += 1
        write_small(work, x, z, y_last, g_last)
        return i, signal

    return loop


def make_block_loop(inner, is_small=False):
    """Make the loop over a block from one over events whose coefficients are there.

    is_small: whether it is one of those that keep their vectors in registers.
    """
    compile_formulas(inner, forceinline=True, **UNCOUNTED)

    def take_block(grad, data, noise, work, xs, zs, block, watch, i, stop):
        """Take events i, ..., stop - 1 until a signal; return (how many are done, signal)."""
        if is_small:  # said here, for LLVM writes `inner` into this function
            in_short_vectors()
        kept, signal = scratch(KEPT, np.float64), GO_ON
        while i < stop and signal == GO_ON:
            _, coefficients = make_coefficients(block, 0, i, stop, kept)
            done, signal = inner(
                grad, data, noise_from(noise, i), work, xs[i:], zs[i:], coefficients, watch
            )
            if done > 0:
                block.carry[0] = coefficients[done - 1, CARRY]
            i += done
        return i, signal

    return take_block


@cache
def compile_loop(
    dtype: Any, kind: str, noisy: bool, witnessing: bool, is_small: bool = False
) -> Any:
    """The loop for iterates of this dtype and problems of this kind; see `take_events`."""
    asked, (grad, _, data) = questions(kind), types_of_questions(kind, dtype)
    noise = matrix(dtype) if noisy else types.none
    states = [matrix(dtype)] * 3  # work, xs, zs
    rest = (block_type(), vector(np.float64), types.int64, types.int64)  # and watch, i, stop
    signature = types.UniTuple(types.int64, 2)(grad, data, noise, *states, *rest)
    make = make_entrywise_loop if asked.is_entrywise else make_loop
    if is_small:
        make = make_small_entrywise_loop if asked.is_entrywise else make_small_loop
    return jit(make_block_loop(make(asked, witnessing), is_small), signature, **UNCOUNTED)


def take_events(
    compiled: Compiled, noise: Array | None, work: Array, xs: Array, zs: Array,
    block: Block, watch: Array, i: int, stop: int,
) -> tuple[int, int]:  # fmt: skip
    """Take events i, ..., stop - 1 of the block until a signal; return (how many are done, signal).

    x and z after the events are kept as rows of xs and zs, unless these are empty.
    """
    witnessing = not math.isnan(watch[constant_checks.L])
    is_small = noise is None and not xs.size and xs.shape[1] <= IN_REGISTERS
    loop = compile_loop(work.dtype, compiled.kind, noise is not None, witnessing, is_small)
    grad, _, data = find_addresses(compiled, value=False)
    known = (grad, data, noise, work, xs, zs)
    before = work[:NOW].copy(), watch.copy(), block.carry.copy()
    done, signal = loop(*known, block, watch, i, stop)
    ended = signal
    while ended in FORBIDDEN:
        # The loop has already taken the forbidden step.  Go back to the start, and take only the
        # events before it, on a copy of `watch`: what was seen stays.  Another event can be
        # forbidden now only if a gradient of the user's own is not the same when asked again.
        work[:NOW], watch_again, block.carry[:] = before[0], before[1].copy(), before[2]
        if done == i:
            break
        done, ended = loop(*known, block, watch_again, i, done)
    return done, signal
