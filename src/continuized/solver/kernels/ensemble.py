"""Many independent runs, one at a time in cache, without the interpreter lock.

States and outputs are arrays with a row for each run of a chunk; events come in blocks.  States may
be wider than x, which has as many entries as g, the vector of a run's gradient.  The arithmetic of
an event is that of `loop`, without its checks: the bits are the same.  Where psi is a sum over
entries, f + psi is run here too (`process.composite`).
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.problems.kernels import Questions, questions, types_of_questions
from continuized.process.coefficients import CARRY, GAMMA, GAMMA_PRIME, A, B, FlowRule
from continuized.process.compiled import KEPT, block_type, make_coefficients
from continuized.process.flow import mix
from continuized.solver.kernels.composite import add_psi_of_entry, jump_entry, psi_of
from continuized.solver.kernels.loop import add_noise
from continuized.support.jit import (
    UNCOUNTED,
    call_flow,
    compile_formulas,
    flow_type,
    is_ours,
    jit,
    matrix,
    scratch,
    types,
    vector,
)


class RunState(NamedTuple):
    """The problem, as compiled code takes it, and x, z and the gradient's vector of one run.

    grad, fun, data: as `find_addresses` gives them.
    psi: the constants of `prox.entry_step` for each entry, a row each; None where there is none.
    """

    grad: Any
    fun: Any
    data: Any
    x: Array
    z: Array
    g: Array
    psi: Array | None


def make_events(asked: Questions) -> tuple[Any, Any]:
    """Make the event of a run, and f between events, for a problem that is asked by these.

    An event returns f after it, or 0 where that is not wanted.
    """
    ask, value = asked.gradient, asked.value

    def take_event(run, noise, r, i, row, want):
        real = run.x.dtype.type
        a, b, x, z, g = real(row[A]), real(row[B]), run.x, run.z, run.g
        for c in range(x.size):
            x[c], z[c] = mix(x[c], z[c], a, b)
        ask(run.grad, x, g, run.data)
        gamma, gamma_prime = real(row[GAMMA]), real(row[GAMMA_PRIME])
        for c in range(x.size):
            g_c = real(add_noise(g[c], noise, r, i, c))
            x[c], z[c] = jump_entry(x[c], z[c], g_c, gamma, gamma_prime, run.psi, c)
        return value(run.fun, x, run.data) + psi_of(x, run.psi) if want else 0.0

    def value_between(run, a, b):
        real = run.x.dtype.type
        a, b, x, z, g = real(a), real(b), run.x, run.z, run.g
        for c in range(x.size):
            g[c] = mix(x[c], z[c], a, b)[0]
        return value(run.fun, g, run.data) + psi_of(g, run.psi)

    return take_event, value_between


def make_entrywise_events(asked: Questions) -> tuple[Any, Any]:
    """Make the same for a sum over the entries of x: each is one pass over the vectors."""
    slope, part = asked.gradient, asked.value

    def take_event(run, noise, r, i, row, want):
        real = run.x.dtype.type
        a, b, x, z, data = real(row[A]), real(row[B]), run.x, run.z, run.data
        gamma, gamma_prime = real(row[GAMMA]), real(row[GAMMA_PRIME])
        total = 0.0
        for c in range(x.size):
            y, z_c = mix(x[c], z[c], a, b)
            g = real(add_noise(slope(c, y, data), noise, r, i, c))
            x_c, z[c] = jump_entry(y, z_c, g, gamma, gamma_prime, run.psi, c)
            x[c] = x_c
            if want:
                total += add_psi_of_entry(part(c, x_c, data), x_c, run.psi, c)
        return total

    def value_between(run, a, b):
        real = run.x.dtype.type
        a, b, x, z, data = real(a), real(b), run.x, run.z, run.data
        total = 0.0
        for c in range(x.size):
            y = mix(x[c], z[c], a, b)[0]
            total += add_psi_of_entry(part(c, y, data), y, run.psi, c)
        return total

    return take_event, value_between


def _events(kind: str) -> tuple[Any, Any]:
    asked = questions(kind)
    events = make_entrywise_events(asked) if asked.is_entrywise else make_events(asked)
    # Plain functions: compiled ones have names of their own in every process, and a loop that
    # holds one would never be found on the disk again.
    compile_formulas(*events, forceinline=True, **UNCOUNTED)
    return events


def make_steps(kind: str) -> Any:
    """Make the loop over the events of runs, with f after each of them."""
    take_event, _ = _events(kind)

    def take_steps(grad, fun, data, psi, states, g, block, noise, out):
        """A block of events of every run; out[r, k] takes f after event k."""
        kept, stop = scratch(KEPT, np.float64), block.t.shape[1]
        for r in range(states.shape[0]):
            run = RunState(grad, fun, data, states[r, 0, : g.size], states[r, 1, : g.size], g, psi)
            i = 0
            while i < stop:
                n, coefficients = make_coefficients(block, r, i, stop, kept)
                for j in range(n):
                    row, k = coefficients[j], block.k + 1 + i
                    out[r, k] = take_event(run, noise, r, i, row, True)
                    i += 1
                block.carry[r] = coefficients[-1, CARRY]

    return take_steps


class Asked(NamedTuple):
    """The address of the flow, the times at which f is asked for, and how many of them are behind
    each run."""

    flow: int
    times: Array
    passed: Array


def make_times(kind: str) -> Any:
    """Make the loop over the events of runs, with f at fixed times."""
    take_event, value_between = _events(kind)

    def pass_times(grad, fun, data, psi, states, g, block, noise, asked, out):
        """A block of events of every run, up to the last of `asked.times`.

        out[r, j] takes f(x_t) at t = times[j]; passed[r] counts how many of them are behind.
        """
        (flow, times, passed), (L, mu, start) = asked, block.constants
        kept, stop = scratch(KEPT, np.float64), block.t.shape[1]
        for r in range(states.shape[0]):
            run = RunState(grad, fun, data, states[r, 0, : g.size], states[r, 1, : g.size], g, psi)
            i, last = 0, block.t0[r]
            while i < stop and passed[r] < times.size:
                n, coefficients = make_coefficients(block, r, i, stop, kept)
                for j in range(n):
                    t = block.t[r, i]
                    while passed[r] < times.size and times[passed[r]] < t:
                        s = times[passed[r]]
                        a, b = call_flow(flow, (last, s, s - last, L, mu, start))
                        out[r, passed[r]] = value_between(run, a, b)
                        passed[r] += 1
                    if passed[r] == times.size:
                        break
                    take_event(run, noise, r, i, coefficients[j], False)
                    i, last = i + 1, t
                block.carry[r] = coefficients[-1, CARRY]  # of no use after a break: the run is over

    return pass_times


def _shared_types(dtype: Any, kind: str, noisy: bool, composite: bool) -> tuple[Any, ...]:
    """The types of the arguments that both loops have."""
    states = types.Array(matrix(dtype).dtype, 3, "C")
    noise = states if noisy else types.none
    psi = matrix(dtype) if composite else types.none
    return *types_of_questions(kind, dtype), psi, states, vector(dtype), block_type(), noise


@cache
def compile_steps(dtype: Any, kind: str, noisy: bool, composite: bool) -> Any:
    """`take_steps` for iterates of this dtype and problems of this kind, with or without noise and
    psi."""
    shared = _shared_types(dtype, kind, noisy, composite)
    signature = types.void(*shared, matrix(np.float64))
    return jit(make_steps(kind), signature, **UNCOUNTED)


@cache
def compile_times(dtype: Any, kind: str, noisy: bool, composite: bool) -> Any:
    """`pass_times` for iterates of this dtype and problems of this kind, with or without noise and
    psi."""
    asked = types.NamedTuple((types.int64, vector(np.float64), vector(np.int64)), Asked)
    shared = _shared_types(dtype, kind, noisy, composite)
    signature = types.void(*shared, asked, matrix(np.float64))
    return jit(make_times(kind), signature, **UNCOUNTED)


@cache
def compile_flow(flow: FlowRule) -> Any:
    """The rule of a flow, whose address `pass_times` is given."""
    return jit(flow, flow_type(), cached=is_ours(flow))
