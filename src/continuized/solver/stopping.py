"""When a run stops, the same in every loop: the limits, the callback, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scipy.optimize import OptimizeResult

from continuized.problems.base import Array
from continuized.solver.result import Status

Callback = Callable[[Any], Any]


class Limits(NamedTuple):
    """When to stop.  tol None: no test of what is measured."""

    tol: float | None
    maxiter: int


def called_back(callback: Callback, x: Array, fun: float, k: int, t: float) -> Status | None:
    """Show the callback where the run is; the status, if it says to stop."""
    try:
        callback(OptimizeResult(x=x, fun=fun, nit=k, t=t))
    except StopIteration:
        return Status.CALLBACK
    return None


def status_at_end(limits: Limits, k: int, measure: Callable[[], float]) -> Status:
    """Why a run is over after k events, where none of them ended it: maxiter, or the clock.

    `measure` gives what tol is compared with at the end, and is asked only where there is a tol.
    """
    if limits.tol is not None and measure() <= limits.tol:
        return Status.CONVERGED
    if k < limits.maxiter:
        return Status.CLOCK_ENDED
    return Status.COMPLETED if limits.tol is None else Status.MAXITER
