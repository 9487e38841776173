"""The event of `process.composite`, compiled, where psi is a sum over the entries of x.

The vectors of a run live in `work`, as `loop` lays them out.  An event makes two passes over them:
the sums for the checks, and the jump; one that the checks forbid leaves all as it was.  The
gradient is called by its address, whatever the problem: beside a proximal step, a call is little.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from continuized.problems.base import Array, Compiled
from continuized.problems.kernels import ask_at
from continuized.process.coefficients import GAMMA, GAMMA_PRIME
from continuized.process.compiled import Block, block_type
from continuized.process.methods import follow, jump
from continuized.process.prox import FORMULAS, clip, entry_penalty, entry_step, is_mostly_rounding
from continuized.solver.constant_checks import GO_ON, TOL2, choose_signal, judge
from continuized.solver.kernels.loop import (
    DIM,
    FORBIDDEN,
    LAST,
    NOW,
    PSI,
    WRONG_SIZE,
    G,
    W,
    X,
    Y,
    Z,
    add_products,
    add_squares,
    inline,
    keep_states,
    make_block_loop,
    mix_to,
    read_table,
)
from continuized.support.jit import (
    UNCOUNTED,
    array_at,
    compile_formulas,
    find_address,
    jit,
    matrix,
    types,
    vector,
)

PSI_ROWS = 4  # l1, l2, low and high of each entry (`Composite.entry_constants`)

# One entry; that psi is None is known when compiling.


def jump_entry(x, z, g, gamma, gamma_prime, psi, c):
    """Return x and z of entry c after an event, as `Composite.jump` does."""
    if psi is None:
        return jump(x, z, g, gamma, gamma_prime)
    low, high = psi[2, c], psi[3, c]
    z_plus = entry_step(z - gamma_prime * g, gamma_prime, psi[0, c], psi[1, c], low, high)
    return clip(follow(x, z, z_plus, gamma / gamma_prime), low, high), z_plus


def add_psi_of_entry(value, x, psi, c):
    """Add psi of entry c, in the domain but for rounding, to a value."""
    if psi is None:
        return value
    return value + entry_penalty(clip(x, psi[2, c], psi[3, c]), psi[0, c], psi[1, c])


def psi_of(x, psi):
    """Return psi of all entries."""
    total = 0.0
    if psi is not None:
        for c in range(x.size):
            total = add_psi_of_entry(total, x[c], psi, c)
    return total


def mapping_entry(y, g, gamma, psi, c):
    """Return entry c of y - prox_{gamma psi}(y - gamma g)."""
    return y - entry_step(y - gamma * g, gamma, psi[0, c], psi[1, c], psi[2, c], psi[3, c])


compile_formulas(*FORMULAS, error_model="numpy")  # or LLVM would not see that 1 + l2 step > 0
compile_formulas(
    jump_entry, add_psi_of_entry, psi_of, mapping_entry, forceinline=True, **UNCOUNTED
)  # fmt: skip


@inline
def squared_mapping(work, gamma, psi, g2, y2, eps):
    """Return the square of the norm of the gradient mapping at y.

    0 where the step is mostly rounding: Python then looks closer (`prox.mapping_norm`).
    """
    y, g, moved2 = work[NOW + Y], work[NOW + G], work.dtype.type(0.0)
    for c in range(psi.shape[1]):
        moved = mapping_entry(y[c], g[c], gamma, psi, c)
        moved2 += moved * moved
    lost = is_mostly_rounding(math.sqrt(moved2), gamma, math.sqrt(g2), math.sqrt(y2), eps)
    return 0.0 if lost else float(moved2) / gamma / gamma


@inline
def take_event(work, psi, coefficients, watch, i, eps):
    """Take event i of these coefficients; its y, z and gradient are the rows of NOW.  Return the
    signal.

    A step that fails is not taken.
    """
    real = work.dtype.type
    gamma, gamma_prime = real(coefficients[i, GAMMA]), real(coefficients[i, GAMMA_PRIME])
    x, z, y_now, z_now, g_now, y_last, g_last = (
        work[X], work[Z], work[NOW + Y], work[NOW + W], work[NOW + G], work[LAST + Y],
        work[LAST + G],
    )  # fmt: skip
    zero = real(0.0)
    sums = zero, zero, zero, zero, zero
    for c in range(psi.shape[1]):
        sums = add_squares(sums, g_now[c], y_now[c])
        sums = add_products(sums, g_now[c] - g_last[c], y_now[c] - y_last[c])
    g2, y2, dg2, dgdy, dy2 = sums
    size2 = judge(watch, float(g2), float(y2), float(dg2), float(dgdy), float(dy2))
    small2 = math.inf
    if watch[TOL2] >= 0.0 and math.isfinite(size2):
        small2 = squared_mapping(work, gamma, psi, float(g2), float(y2), eps)
    signal = choose_signal(
        watch, size2, small2, coefficients[i, GAMMA], coefficients[i, GAMMA_PRIME]
    )
    if signal not in FORBIDDEN:
        for c in range(psi.shape[1]):
            x[c], z[c] = jump_entry(y_now[c], z_now[c], g_now[c], gamma, gamma_prime, psi, c)
        for c in range(psi.shape[1]):
            y_last[c], g_last[c] = y_now[c], g_now[c]
    return signal


def make_loop(eps: float) -> Any:
    """Make the loop for numbers of this rounding unit.  In place of data it takes (data, psi)."""

    def loop(grad, data_and_psi, noise, work, xs, zs, coefficients, watch):
        """Do what the loop of `loop.make_loop` does; a forbidden event changes neither x nor z."""
        (data, psi), i, signal, dim = data_and_psi, 0, GO_ON, xs.shape[1]
        while i < coefficients.shape[0] and signal == GO_ON:
            mix_to(work, coefficients, i)
            ask_at(grad, work[NOW + Y][:dim], work[NOW + G][:dim], data)
            if noise.shape[0] > 0:
                for c in range(dim):
                    work[NOW + G, c] += noise[i, c]
            signal = take_event(work, psi, coefficients, watch, i, eps)
            if signal in FORBIDDEN:
                break
            keep_states(work, xs, zs, i)
            i += 1
        return i, signal

    return loop


def make_step(real: Any, eps: float) -> Any:
    """Make the step for numbers of this class and rounding unit."""

    def step(g, address, i):
        """Do what the step of `loop.make_step` does, with psi; x and z are written each time."""
        table, work, xs, zs, coefficients, watch, point = read_table(address, real)
        if g.size != table[DIM]:
            return WRONG_SIZE
        psi = array_at(table[PSI], (PSI_ROWS, g.size), real)
        for c in range(g.size):
            work[NOW + G, c] = g[c]
        signal = take_event(work, psi, coefficients, watch, i, eps)
        if signal not in FORBIDDEN:
            keep_states(work, xs, zs, i)
            mix_to(work, coefficients, min(i + 1, coefficients.shape[0] - 1))
            for c in range(g.size):
                point[c] = work[NOW + Y, c]
        return signal

    return step


def _eps(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


@cache
def compile_step(dtype: Any) -> Any:
    """The step for iterates of this dtype, as `loop.compile_step`."""
    signature = types.int64(vector(dtype), types.int64, types.int64)
    step = make_step(np.dtype(dtype).type, _eps(dtype))
    return jit(step, signature, nogil=False, **UNCOUNTED)


@cache
def compile_loop(dtype: Any) -> Any:
    """The loop for iterates of this dtype; see `take_events`."""
    known = types.uintp, types.Tuple((types.uintp, matrix(dtype)))
    arrays = [matrix(dtype)] * 4  # noise, work, xs, zs
    rest = (block_type(), vector(np.float64), types.int64, types.int64)  # and watch, i, stop
    signature = types.UniTuple(types.int64, 2)(*known, *arrays, *rest)
    return jit(make_block_loop(make_loop(_eps(dtype))), signature, **UNCOUNTED)


def take_events(
    compiled: Compiled, noise: Array | None, work: Array, xs: Array, zs: Array,
    block: Block, watch: Array, i: int, stop: int, *, psi: Array,
) -> tuple[int, int]:  # fmt: skip
    """Do what `loop.take_events` does, with psi."""
    known = find_address(compiled.grad), (compiled.table.ctypes.data, psi)
    noise = np.empty((0, 0), work.dtype) if noise is None else noise
    done, signal = compile_loop(work.dtype)(*known, noise, work, xs, zs, block, watch, i, stop)
    return done, signal
