"""The loop for known constants: blocks of events, and when to stop.  No formula stands here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from continuized.problems.base import Array, Compiled, Problem
from continuized.process import clock as clocks
from continuized.process.coefficients import CARRY
from continuized.process.compiled import coefficients
from continuized.process.methods import Method
from continuized.process.noise import Noise, drawn
from continuized.process.oracle import Exact, Noisy
from continuized.solver import constant_checks as checks
from continuized.solver.constant_checks import (
    SIGNALS,
    scale_of_gradients,
    skipped_sentence,
    watch_for,
    witness_sentence,
)
from continuized.solver.kernels import loop as kernel
from continuized.solver.recording import Recorder
from continuized.solver.result import ConstantsWarning, Result, Status
from continuized.solver.stopping import Callback, Limits, called_back, status_at_end
from continuized.support.checkpoints.checkpointer import AnyKeeper, State, check_events, nowhere
from continuized.support.progress import Bar, silent

BLOCK = 1024  # events drawn at once, at first
LARGE_BLOCK = 8192  # and later, where no states are kept: each block costs 0.1 ms of its own
BLOCK_SECONDS = 0.1  # where progress is shown or kept: about as often as this
BLOCK_NUMBERS = 2**20  # but no more rows of x than make up this many numbers

Advance = Callable[[Array, Array, int], tuple[int, int]]


class Run:
    """A method on a problem from x0, under way.  `rng` draws the marks, where there is noise.

    `skipping`: an event whose gradient is not finite makes no jump, in place of the run's end.
    """

    def __init__(
        self,
        method: Method,
        problem: Problem,
        x0: Array,
        stream: clocks.Stream,
        limits: Limits,
        *,
        noise: Noise | None = None,
        rng: np.random.Generator | None = None,
        record: bool | str = True,
        callback: Callback | None = None,
        bar: Bar = silent,
        keeper: AnyKeeper = nowhere,
        skipping: bool = False,
    ) -> None:
        self.method, self.problem, self.stream, self.limits = method, problem, stream, limits
        self.noise, self.rng, self.callback, self.bar = noise, rng, callback, bar
        self.keeper, self.in_one_go = keeper, bar is silent and not keeper.on
        self.shape, self.dtype, self.dim = x0.shape, x0.dtype, x0.size
        self.oracle = (Exact if noise is None else Noisy)(problem, x0)
        self.recorder = Recorder(problem, x0.shape, record is True, record == "path")
        most = 1 if callback else self._at_most(BLOCK)
        self.block = most if self.in_one_go else 1
        self.work = np.zeros((kernel.WORK_ROWS, self.dim), self.dtype)
        self.work[kernel.X] = self.work[kernel.Z] = self.start = x0.ravel()
        rows = most if self.recorder.on else 0
        self.xs, self.zs = np.empty((2, rows, self.dim), self.dtype)
        self.watch = watch_for(method, limits.tol, noise is not None, self.oracle.eps)
        self.k, self.t, self.carry = 0, 0.0, method.init(0.0).carry
        self.compiled_calls = 0
        self.warned, self.skipping, self.skipped = False, skipping, 0
        self.advance = self._choose_engine()

    def _at_most(self, block: int) -> int:
        return max(1, min(block, BLOCK_NUMBERS // max(self.dim, 1)))

    @property
    def x(self) -> Array:
        x: Array = self.work[kernel.X]
        return x.reshape(self.shape)

    # Engines: events i, i + 1, ... of a block until a signal

    def _choose_engine(self) -> Advance:
        compiled = None if self.problem.threaded else self.problem.compiled(self.dtype)
        return self._python if compiled is None else self._compiled(compiled)

    def _compiled(self, problem: Compiled) -> Advance:
        loop = kernel.compiled_loop(self.dtype)
        g = np.empty(self.dim, self.dtype)

        def advance(marks: Array, coefs: Array, i: int) -> tuple[int, int]:
            buffers = (g, marks, self.work, self.xs, self.zs)
            rest = (coefs, self.watch, i, len(coefs))
            done, signal = loop(problem.grad, problem.data, *buffers, *rest)
            self.compiled_calls += done - i + (signal in SIGNALS)
            return done, signal

        return advance

    def _python(self, marks: Array, coefs: Array, i: int) -> tuple[int, int]:
        oracle, step, work, watch = self.oracle, kernel.step, self.work, self.watch
        y = work[kernel.Y].reshape(self.shape)
        flat, noisy, recording = y.ndim == 1, len(marks) > 0, self.recorder.on
        eps = oracle.eps
        for j in range(i, len(coefs)):
            # A copy: the user may keep what the function was given, or write into it.
            g = oracle(y.copy(), marks[j]) if noisy else oracle(y.copy())
            if oracle.eps != eps:
                watch[checks.EPS] = eps = oracle.eps
            if not (flat and g.flags.carray):  # Numba would compile anew for read-only arrays
                g = np.array(g, order="C").ravel()
            signal = step(g, work, coefs, watch, j)
            if not (signal or recording):
                continue
            if signal in SIGNALS:
                return j, signal
            if recording:
                self.xs[j], self.zs[j] = work[kernel.X], work[kernel.Z]
            if signal != checks.GO_ON:
                return j + 1, signal
        return len(coefs), checks.GO_ON

    # The loop

    def go(self) -> Result:
        """Events until the gradient norm is at most tol, or maxiter of them are done."""
        status = None if self.recorder.add_end(0, 0.0, self.x.copy()) else Status.NOT_FINITE
        scale_of_gradients(self.watch, float(self.recorder.fun[0][0]))
        with self.keeper.over(self):
            while status is None and self.k < self.limits.maxiter:
                events = self.stream.draw(min(self.block, self.limits.maxiter - self.k))
                if events.size == 0:
                    break
                started = time.perf_counter()
                status = self._block(events)
                seconds = time.perf_counter() - started
                self._warn_of_witnesses()
                if status is None and self.callback:
                    shown = (self.x.copy(), self._value(), self.k, self.t)
                    status = called_back(self.callback, *shown)
                self.block = self._next_block(seconds)
                if self.bar is not silent:
                    self.bar(self.k, f"f = {self._value():.6g}")
                if status in (None, Status.CALLBACK):  # else the block may have ended early
                    self.keeper.between(self)
        return self._finish(status)

    def state(self) -> State:
        """Between two blocks."""
        plain = {
            "k": self.k,
            "t": self.t,
            "carry": self.carry,
            "calls": self.oracle.calls,
            "compiled_calls": self.compiled_calls,
            "nfev": self.recorder.nfev,
            "stream": self.stream.state(),
            "noise": None if self.rng is None else self.rng.bit_generator.state,
        }
        arrays = {"work": self.work.copy(), "watch": self.watch.copy()}
        return State(plain, arrays | self.recorder.state())

    def restore(self, state: State) -> None:
        """Go on from there, with the tol of now.  A warning given before is given again."""
        plain, arrays = state
        check_events(plain["k"], self.limits.maxiter)
        self.k, self.t, self.carry = plain["k"], plain["t"], plain["carry"]
        self.oracle.calls, self.compiled_calls = plain["calls"], plain["compiled_calls"]
        self.recorder.nfev = plain["nfev"]
        self.stream.restore(plain["stream"])
        if self.rng is not None:
            self.rng.bit_generator.state = plain["noise"]
        arrays["watch"][checks.TOL2] = self.watch[checks.TOL2]
        self.work[...], self.watch[...] = arrays["work"], arrays["watch"]
        self.oracle.eps = float(self.watch[checks.EPS])
        self.recorder.restore(arrays)

    def _next_block(self, seconds: float) -> int:
        """How many events to draw next, when the block before took this long."""
        if self.callback:
            return 1
        most = self._at_most(BLOCK if self.recorder.on else LARGE_BLOCK)
        if self.in_one_go:
            return most
        return min(most, 2 * self.block) if seconds < BLOCK_SECONDS else max(1, self.block // 2)

    def _block(self, events: clocks.Events) -> Status | None:
        coefs = coefficients(self.method, events, self.carry)
        marks = np.empty((0, self.dim), self.dtype)
        if self.noise is not None:
            assert self.rng is not None
            marks = drawn(self.noise, self.rng, events.size, self.dim, self.dtype)
        before = self.work[kernel.X].copy()
        kernel.begin(self.work, coefs)
        i, status = 0, None
        while i < events.size and status is None:
            i, signal = self.advance(marks, coefs, i)
            if signal == checks.NOT_FINITE and self.skipping:
                i = self._skip(coefs, i)
                continue
            status = SIGNALS.get(signal)
            if signal == checks.SMALL_GRADIENT and self._confirmed():
                status = Status.CONVERGED
        if self.recorder.on and i:
            rows = (events.t[:i], events.dt[:i], self.xs[:i], self.zs[:i])
            finite = self.recorder.add(self.k, *rows)
            if finite < i:
                i, status = finite, Status.NOT_FINITE
                self.work[kernel.X] = self.xs[i - 1] if i else before
        if i:
            self.k, self.t = self.k + i, float(events.t[i - 1])
            self.carry = float(coefs[i - 1, CARRY])
        return status

    def _skip(self, coefs: Array, i: int) -> int:
        """Event i without a jump; the number of the next."""
        kernel.skip(self.work, coefs, i)
        if self.recorder.on:
            self.xs[i], self.zs[i] = self.work[kernel.X], self.work[kernel.Z]
        self.skipped += 1
        return i + 1

    def _confirmed(self) -> bool:
        """The test saw the gradient at y (and perhaps noise); it must hold at x too."""
        assert self.limits.tol is not None
        g = Exact.__call__(self.oracle, self.x.copy())
        return float(np.linalg.norm(g)) <= self.limits.tol

    def _value(self) -> float:
        """f(x_k), asked for only where it was not recorded."""
        if self.recorder.on:
            return float(self.recorder.fun[-1][-1])
        self.recorder.nfev += 1
        return self.problem.fun(self.x.copy())

    def _warn_of_witnesses(self) -> None:
        seen = witness_sentence(self.watch)
        if seen and not self.warned:
            self.warned = True
            warnings.warn(seen, ConstantsWarning, stacklevel=4)

    def _finish(self, status: Status | None) -> Result:
        if not (self.recorder.on or self.k == 0) and not self._end_is_finite():
            status = Status.NOT_FINITE
        x = self.x.copy()
        jac = Exact.__call__(self.oracle, x.copy()).copy()  # the user may use the array again
        if status is None:
            status = status_at_end(self.limits, self.k, lambda: float(np.linalg.norm(jac)))
        return Result(
            x=x,
            fun=float(self.recorder.fun[-1][-1]),
            jac=jac,
            nit=self.k,
            nfev=self.recorder.nfev,
            njev=self.oracle.calls + self.compiled_calls,
            success=status.success,
            status=status,
            message=status.value + skipped_sentence(self.skipped),
            trace=self.recorder.trace(),
            path=self.recorder.recorded_path(),
            method=self.method,
            skipped=self.skipped,
        )

    def _end_is_finite(self) -> bool:
        """Without recording, f at the end is asked for only now."""
        if self.recorder.add_end(self.k, self.t, self.x.copy()):
            return True
        self.recorder.drop_end()
        self.k, self.work[kernel.X] = 0, self.start  # the last point whose f is known
        return False
