"""Known constants with psi: proximal and mirror steps, on NumPy's arrays.

Where psi is a sum over entries, events are compiled as those of f alone are, or ask Python for one
gradient each; with a mirror step, or another psi, they are NumPy's.  No formula stands here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.process import parameters
from continuized.process.compiled import Block
from continuized.process.composite import Composite
from continuized.process.flow import mix
from continuized.process.methods import Method
from continuized.process.stepper import Status
from continuized.solver import constant_checks as checks
from continuized.solver.kernels import composite as composite_kernel
from continuized.solver.kernels import loop as kernel
from continuized.solver.steppers.fixed import FixedStepper, Prepared
from continuized.support.jit import HAS_NUMBA

FIRST_LOOK = 16  # events; then after a quarter more, and so on


class CompositeStepper(FixedStepper):
    """A run on f + psi: `fun` is the value of both."""

    def __init__(
        self,
        method: Method,
        problem: Problem,
        start: Array,
        tol: float | None,
        *,
        composite: Composite,
        **options: Any,
    ) -> None:
        super().__init__(method, problem, start, tol, **options)
        self.composite, self.criterion_name = composite, composite.criterion_name
        self.looking = tol is not None
        # The constants of psi, where compiled code knows it.
        self.psi = composite.entry_constants(start) if HAS_NUMBA else None
        if self.psi is None:
            self.compiled = None  # no compiled event knows this psi

    def _take_uncounted_events(
        self, marks: Array | None, prepared: Prepared, i: int
    ) -> tuple[int, int]:
        if self.psi is None:
            assert not isinstance(prepared, Block)  # `compiled` is None
            return self._take_events_in_numpy(marks, prepared, i)
        return super()._take_uncounted_events(marks, prepared, i)

    def _run_kernel(self, *given: Any) -> tuple[int, int]:
        assert self.psi is not None
        return composite_kernel.take_events(*given, psi=self.psi)

    def _find_step(self) -> Any:
        return composite_kernel.compile_step(self.dtype)

    def _take_events_in_numpy(self, marks: Array | None, coefs: Array, i: int) -> tuple[int, int]:
        composite, work, watch, shape = self.composite, self.vectors, self.watch, self.start.shape
        rows = (kernel.X, kernel.Z, kernel.LAST + kernel.Y, kernel.LAST + kernel.G)
        for j in range(i, len(coefs)):
            x, z, y_last, g_last = (work[row].reshape(shape) for row in rows)
            a, b, gamma, gamma_prime, _ = coefs[j].tolist()
            y, z = mix(x, z, a, b)
            # A copy: the user may keep what the function was given, or write into it.
            g = self.oracle.check(self._ask(y.copy()), None if marks is None else marks[j])
            watch[checks.EPS] = max(watch[checks.EPS], self.oracle.eps)
            with np.errstate(over="ignore", invalid="ignore"):
                g2 = checks.judge(watch, *composite.squares(g, y, g - g_last, y - y_last))
                tested = self.tol is not None and math.isfinite(g2)
                small = composite.criterion(y, g, gamma) if tested else math.inf
            signal = checks.choose_signal(watch, g2, small * small, gamma, gamma_prime)
            if signal in checks.SIGNALS:
                return j, signal
            x, z = composite.jump(y, z, g, gamma, gamma_prime)
            if not math.isfinite(float(x.sum()) + float(z.sum())):  # of a prox that is not finite
                return j, checks.NOT_FINITE
            for row, array in zip(rows, (x, z, y, g), strict=True):
                work[row] = array.ravel()
            kernel.keep_states_in_numpy(work, self.xs, self.zs, j)
            if signal != checks.GO_ON:
                return j + 1, signal
        return len(coefs), checks.GO_ON

    def _values(self, points: Array) -> Array:
        """Return f + psi at each of points[0], points[1], ..."""
        return super()._values(points) + self.composite.values(points)

    def _criterion(self, g: Array, at: Array | None = None) -> float:
        """Return what tol is compared with, at x or at a point, whose gradient is g."""
        with np.errstate(over="ignore", invalid="ignore"):
            gamma = parameters.gamma(self.method.L)
            return self.composite.criterion(self.x if at is None else at, g, gamma)

    def _separates(self) -> bool:
        """With psi, there may be a minimum all the same."""
        return False

    def _is_above_start(self) -> bool:
        """Of f + psi the gradient of f tells nothing so."""
        return False

    # The point beyond x.  x is a mean of points z, and comes to the minimum no sooner than the
    # theorem says; a proximal step from there leads to it much earlier (measured on lassos: up to
    # 25 times).

    def _next_look(self, k: int) -> int:
        look = FIRST_LOOK
        while look <= k:
            look += look // 4
        return look

    def over(self) -> Status | None:
        """Return CONVERGED where the point beyond x is a minimum."""
        if self.tol is None or not self._is_time_to_look():
            return None
        found = self._step_beyond(self._gradient())
        if found is None:
            return None
        beyond, _ = found
        is_small = self._criterion(self._gradient(beyond), beyond) <= self.tol
        return Status.CONVERGED if is_small else None

    def _step_beyond(self, g: Array) -> tuple[Array, float] | None:
        """Return where a proximal step leads from x, whose gradient is g, and f + psi there; None
        where that is larger than at x."""
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = self.composite.last_step(self.x, g, parameters.gamma(self.method.L))
            if beyond is None:
                return None
            self.nfev += 1
            value = float(self._values(beyond[np.newaxis])[0])
        # But for rounding, it is not where L is no smaller than that of f.
        return (beyond, value) if value <= self._value() else None

    def _take_last_step(self) -> None:
        """With tol, go one proximal step beyond x.  Without, x is that of the last event."""
        if self.k == 0 or self.tol is None:
            return
        found = self._step_beyond(self.jac)
        if found is not None:
            beyond, self.fun = found
            self.vectors[kernel.X] = beyond.ravel()
            self.jac = self._gradient()

    def result(self, status: Status) -> dict[str, Any]:
        gap = self.composite.gap(self.x, self.jac)
        return super().result(status) | self.composite.given | {"gap": gap}

    def after_restoring(self) -> None:
        """Look at no step but the first, also where a run goes on from a checkpoint."""
        super().after_restoring()
        if self.k:
            self.composite.skip_first_look()

    def fingerprint(self) -> Any:
        return [super().fingerprint(), self.composite.fingerprint(self.start)]
