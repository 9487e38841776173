"""The ODE of second moments, integrated chunk by chunk.

Moments decay by many orders of magnitude, below any absolute tolerance: a chunk is integrated in
units of what they are at its beginning.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from continuized.problems.base import Array

CHUNK = 8.0  # of time
MAX_STEPS = 100_000  # of the integrator, from one stop to the next


def in_chunks(
    chunk: Callable[[Array, float, Array], Array], m: Array, t: float, times: Array
) -> Array:
    """The moments at increasing times, from m at t; shape (len(times), *m.shape).

    chunk(m, t, stops) has the moments at increasing stops > t.  Times up to t have m itself.
    """
    out = np.empty((len(times), *m.shape))
    i = int(np.searchsorted(times, t, side="right"))
    out[:i] = m
    while i < len(times) and m.size:
        end = min(t + CHUNK, float(times[-1]))
        j = int(np.searchsorted(times, end, side="right"))
        stops = np.unique(np.append(times[i:j], end))
        values = chunk(m, t, stops)
        out[i:j] = values[np.searchsorted(stops, times[i:j])]
        t, m, i = end, values[-1], j
    return out


def solved(
    slope: Callable[[float, Array], Array],
    m: Array,
    t: float,
    stops: Array,
    rtol: float,
    atol: float,
) -> Array:
    """The solution of m' = slope(t, m) at increasing stops, from m at t.

    ArithmeticError where the integrator gives up.
    """
    from scipy.integrate import ode

    def flat(t: float, y: Array) -> Array:
        return slope(t, y.reshape(m.shape)).reshape(-1)

    # The compiled DOP853: the one of solve_ivp calls threaded BLAS on every stage.
    solver = ode(flat).set_integrator("dop853", rtol=rtol, atol=atol, nsteps=MAX_STEPS)
    solver.set_initial_value(m.ravel(), t)
    out = np.empty((len(stops), *m.shape))
    for i, stop in enumerate(stops.tolist()):
        out[i] = solver.integrate(stop).reshape(m.shape)
        if not solver.successful():
            raise ArithmeticError(f"the moments could not be integrated up to t = {stop:.6g}")
    return out
