"""The loop for known constants on arrays of other libraries: events one by one, on their device.

The same process as in `driver`, the same stopping tests and witnesses; what differs is that the
arithmetic is the library's own, an array at a time.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from continuized.process import clock as clocks
from continuized.process.coefficients import CARRY
from continuized.process.compiled import coefficients
from continuized.process.flow import mix
from continuized.process.methods import Method, jump
from continuized.solver import array_api as arrays
from continuized.solver import constant_checks as checks
from continuized.solver.array_api import ForeignProblem
from continuized.solver.constant_checks import (
    SIGNALS,
    scale_of_gradients,
    skipped_sentence,
    watch_for,
    witness_sentence,
)
from continuized.solver.driver import BLOCK
from continuized.solver.result import ConstantsWarning, Path, Result, Status, Trace
from continuized.solver.stopping import Callback, Limits, called_back, status_at_end
from continuized.support.progress import Bar, silent


class Run:
    """A method on a problem from where it starts, under way; as `driver.Run`."""

    def __init__(
        self,
        method: Method,
        problem: ForeignProblem,
        stream: clocks.Stream,
        limits: Limits,
        *,
        record: bool | str = True,
        callback: Callback | None = None,
        bar: Bar = silent,
        skipping: bool = False,
    ) -> None:
        self.method, self.problem, self.stream, self.limits = method, problem, stream, limits
        self.recording, self.keeping = bool(record), record == "path"
        self.callback, self.bar, self.skipping = callback, bar, skipping
        self.x = self.z = problem.start
        self.last = self.x, self.x  # y and g of the event before; not looked at before the first
        self.k, self.t, self.carry = 0, 0.0, method.init(0.0).carry
        self.watch = watch_for(method, limits.tol, False, arrays.eps_of(self.x))
        self.nfev = self.skipped = 0
        self.warned = False
        self.rows: list[tuple[int, float, float, float]] = []  # k, t, dt, f
        self.states: list[tuple[Any, Any]] = []

    def go(self) -> Result:
        """Events until the gradient norm is at most tol, or maxiter of them are done."""
        value = self._value(self.x)
        scale_of_gradients(self.watch, value)
        self._keep(0.0, value)
        status = None if math.isfinite(value) else Status.NOT_FINITE
        while status is None and self.k < self.limits.maxiter:
            events = self.stream.draw(min(BLOCK, self.limits.maxiter - self.k))
            if events.size == 0:
                break
            status = self._block(events)
        return self._result(status)

    def _block(self, events: clocks.Events) -> Status | None:
        rows = coefficients(self.method, events, self.carry)
        self.carry = float(rows[-1, CARRY])
        # Python's floats: NumPy's would turn some libraries' arrays into its own.
        for event, (*row, _) in zip(events.each(), rows.tolist(), strict=True):
            status = self._event(event, *row)
            if status is not None:
                return status
        return None

    def _event(
        self, event: clocks.Event, a: float, b: float, gamma: float, gamma_prime: float
    ) -> Status | None:
        y, z = mix(self.x, self.z, a, b)
        g = self.problem.grad(y)
        signal = checks.verdict(self.watch, self._judged(y, g), gamma, gamma_prime)
        if signal == checks.NOT_FINITE and self.skipping:
            x, self.skipped = y, self.skipped + 1  # no jump: as if the gradient were zero
        elif signal in SIGNALS:
            return SIGNALS[signal]
        else:
            x, z = jump(y, z, g, gamma, gamma_prime)
            self.last = y, g
        value = self._value(x) if self.recording else math.nan
        if self.recording and not math.isfinite(value):
            return Status.NOT_FINITE
        self.k, self.t, self.x, self.z = event.k, event.t, x, z
        if self.recording:
            self._keep(event.dt, value)
        self._warn_of_witnesses()
        if signal == checks.SMALL_GRADIENT and self._is_small(self.problem.grad(x)):
            return Status.CONVERGED
        return self._shown(value)

    def _judged(self, y: Any, g: Any) -> float:
        dy, dg = y - self.last[0], g - self.last[1]
        pairs = ((g, g), (y, y), (dg, dg), (dg, dy), (dy, dy))
        return float(checks.judge(self.watch, *arrays.inners(self.problem.xp, *pairs)))

    def _is_small(self, g: Any) -> bool:
        return self.limits.tol is not None and arrays.norm(g) <= self.limits.tol

    def _value(self, x: Any) -> float:
        self.nfev += 1
        return self.problem.fun(x)

    def _keep(self, dt: float, value: float) -> None:
        self.rows.append((self.k, self.t, dt, value))
        if self.keeping:
            self.states.append((self.x, self.z))

    def _shown(self, value: float) -> Status | None:
        """To the progress bar and the callback."""
        if self.callback is None and self.bar is silent:
            return None
        value = value if self.recording else self._value(self.x)
        if self.bar is not silent:
            self.bar(self.k, f"f = {value:.6g}")
        if self.callback is None:
            return None
        return called_back(self.callback, arrays.copy(self.x), value, self.k, self.t)

    def _warn_of_witnesses(self) -> None:
        seen = None if self.warned else witness_sentence(self.watch)
        if seen:
            self.warned = True
            warnings.warn(seen, ConstantsWarning, stacklevel=7)

    # The end

    def _result(self, status: Status | None) -> Result:
        if not self.recording and self.k > 0:
            status = self._last_row(status)
        jac = self.problem.grad(self.x)
        if status is None:
            status = status_at_end(self.limits, self.k, lambda: arrays.norm(jac))
        k, t, dt, fun = (np.array(column) for column in zip(*self.rows, strict=True))
        return Result(
            x=arrays.copy(self.x),
            fun=float(fun[-1]),
            jac=jac,
            nit=self.k,
            nfev=self.nfev,
            njev=self.problem.calls,
            success=status.success,
            status=status,
            message=status.value + skipped_sentence(self.skipped),
            trace=Trace(k, t, fun),
            path=self._path(t, dt),
            method=self.method,
            skipped=self.skipped,
        )

    def _last_row(self, status: Status | None) -> Status | None:
        """Without recording, f at the end is asked for only now."""
        value = self._value(self.x)
        if math.isfinite(value):
            self._keep(0.0, value)
            return status
        self.k, self.x = 0, self.problem.start  # the last point whose f is known
        return Status.NOT_FINITE

    def _path(self, t: Any, dt: Any) -> Path | None:
        if not self.keeping:
            return None
        x, z = (self.problem.xp.stack(list(column)) for column in zip(*self.states, strict=True))
        return Path(t, dt, x, z)
