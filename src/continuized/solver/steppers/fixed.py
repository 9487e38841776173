"""Known constants: events in blocks, on NumPy's arrays or on those of another library.

`FixedStepper` runs compiled where the gradient is, and otherwise asks Python for one gradient an
event; with a proximal or a mirror step it is a `CompositeStepper`, in a module of its own.
`ArrayStepper` is the same process on arrays of other libraries, on their device: the stopping tests
and the witnesses are the same, and the arithmetic is the library's own, an array at a time.  No
formula stands here.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from continuized.problems.base import (
    SEPARATED,
    Array,
    Compiled,
    Problem,
    can_be_separated,
    separates,
)
from continuized.process.clock import Event, Events
from continuized.process.coefficients import CARRY
from continuized.process.compiled import Block, coefficients, make_block
from continuized.process.flow import mix
from continuized.process.methods import Method, jump
from continuized.process.noise import Noise, Oracle, draw_noise
from continuized.process.oracle import FullGradient
from continuized.process.stepper import Progress, Status, Stepper
from continuized.solver import array_api as arrays
from continuized.solver import constant_checks as checks
from continuized.solver import stopping
from continuized.solver.kernels import loop as kernel
from continuized.solver.result import ConstantsWarning
from continuized.support.jit import HAS_NUMBA
from continuized.support.progress import warn_caller

BLOCK = 1024  # events drawn at once, at first
NUDGES, SMOOTH = (1e-3, 2e-3), 1e-2  # of the way to a point, a smooth f changes by less, relative
LARGE_BLOCK = 2**16  # and later, where no states are kept: a block has costs of its own
GROWTH = 8  # times as many events as the block before: not too many are drawn in vain
BLOCK_SECONDS = 0.1  # Ctrl-C is heard, and progress shown or kept, about as often as this
QUICK_NUMBERS = 10**5  # of a problem's data: with fewer, events are known to be quick
LONG_SUMS = 64.0  # roots of the number of entries from which the sums of the checks lose digits
BLOCK_NUMBERS = 2**20  # but no more rows of x, or of noise, than make up this many numbers

# What a stepper knows of a block before its events: their coefficients, or what compiled code needs
# to make them.
Prepared = Array | Block

# What `sys.getrefcount` says of an object to which one attribute and one variable of a function
# alone refer; before Python 3.14, its own argument counts too.
ALONE = 2 if sys.version_info >= (3, 14) else 3


class _KnownConstants(Stepper):
    """A run of a method whose constants are known, on arrays of any library.

    record: True for f at every event, "path" for the states too.  every_event: whether blocks are
    of one event, for a callback.  timed: whether blocks are to take about `BLOCK_SECONDS`.
    skipping: whether an event whose gradient is not finite makes no jump, in place of the run's
    end.
    """

    sentences: Mapping[Status, str] = {
        Status.WRONG_GRADIENT: "The gradient norm is at most tol, but f is larger than it was at "
        "the start: jac is not the gradient of f, or f is not convex. Look at the sign and the "
        "terms of jac."
    }

    # What differs between the two kinds of arrays
    x: Any  # after the last event
    states_at_start: tuple[Any, Any]  # x and z of the first row
    _take_block: Callable[[Events], Progress]  # events up to one that ends the run
    _value_at: Callable[[Any], float]  # f at a point
    _gradient: Callable[..., Any]  # at x or at a point, without noise, an array of the run's own
    _norm: Callable[[Any], float]
    _go_back: Callable[[], None]  # to the start
    oracle: Any  # whose `calls` are the gradients asked for

    def __init__(
        self,
        method: Method,
        problem: Problem,
        start: Any,
        tol: float | None,
        *,
        record: bool | str = True,
        every_event: bool = False,
        timed: bool = False,
        skipping: bool = False,
        noisy: bool = False,
    ) -> None:
        self.name, self.method, self.problem, self.start = method.name, method, problem, start
        self.tol, self.recording, self.keeping = tol, bool(record), record == "path"
        self.columns = ("k", "t", "dt", "fun") + (("x", "z") if self.keeping else ())
        self.every_event, self.timed, self.skipping = every_event, timed, skipping
        self.has_rows = self.recording or noisy  # as long as x for each event of a block
        self.rows_at_once = 1 if every_event else self._at_most(BLOCK)
        self.block = 1 if timed else self.rows_at_once
        self.carry, self.nfev, self.skipped = method.init(0.0).carry, 0, 0
        # The sums of the checks, in the precision of x, lose digits where there are many entries.
        eps = arrays.eps_of(start) * max(1.0, math.sqrt(math.prod(start.shape)) / LONG_SUMS)
        proved = problem.proves(method.L, method.mu)
        witnessing = method.assumes_convexity and not (noisy or proved)
        self.watch = checks.make_watch(method, tol, witnessing, eps)
        self.fun = math.nan  # at the last row
        self.asked = (-1, math.nan)  # the last event after which f was asked for, but not recorded
        self.warned = False
        self.looking = tol is not None or can_be_separated(problem)

    # What the loop asks

    def begin(self) -> Progress:
        row = self._end_row()
        self.fun = self.fun_at_start = row[3]
        checks.set_gradient_scale(self.watch, self.method.L, self.fun)
        return Progress(None if math.isfinite(self.fun) else Status.NOT_FINITE, row)

    def next_block(self, left: int) -> int:
        if self.looking:
            left = min(left, self._next_look(self.k) - self.k)
        return min(self.block, left)

    def _next_look(self, k: int) -> int:
        """When, after k events, it is looked whether the run is over."""
        return stopping.next_look(k)

    def _is_time_to_look(self) -> bool:
        return self.looking and self._next_look(self.k - 1) == self.k

    def over(self) -> Status | None:
        """Return NO_MINIMUM where x separates the data, or f falls for ever."""
        if not self._is_time_to_look():
            return None
        is_hopeless = self._separates() or self._falls_for_ever()
        return Status.NO_MINIMUM if is_hopeless else None

    def _separates(self) -> bool:
        """Tell whether x separates the data, for f has no minimum then."""
        return separates(self.problem, self.x)

    def _falls_for_ever(self) -> bool:
        """Tell whether f still falls along -g far beyond x: then a convex f does all the way there.

        Asked only where tol is to be reached, and x is far from the start already.
        """
        if self.tol is None or not (self.method.assumes_convexity and self._is_far()):
            return False
        g = self._gradient()
        length = self._norm(g)
        if length == 0.0:
            return False
        farther = stopping.find_farthest(self.watch[checks.EPS], 0.0)
        try:
            with np.errstate(all="ignore"):
                beyond = self._gradient(self.x - (farther / length) * g)
        except Exception:  # of the user's function, which never is asked so far out otherwise
            return False
        return arrays.inner(beyond, g) > 0.5 * length * length

    def _is_far(self) -> bool:
        return arrays.norm(self.x) > stopping.FAR_TO_TELL * (1.0 + arrays.norm(self.start))

    def _end_row(self) -> tuple[Any, ...]:
        """Make a row of the start or of the end, where f is asked for whatever is recorded."""
        self.nfev += 1
        row = (self.k, self.t, 0.0, self._value_at(self.x))
        return (*row, *self.states_at_start) if self.keeping else row

    def _at_most(self, block: int) -> int:
        numbers: int = max(math.prod(self.start.shape), 1) if self.has_rows else 1
        return max(1, min(block, BLOCK_NUMBERS // numbers))

    def advance(self, events: Events) -> Progress:
        started = time.perf_counter()
        progress = self._take_block(events)
        self._set_block(time.perf_counter() - started)
        self._warn_of_witnesses()
        return progress

    def _set_block(self, seconds: float) -> None:
        """Set how many events to draw next, when the block before took this long."""
        if self.every_event:
            return
        most = self._at_most(BLOCK if self.recording else LARGE_BLOCK)
        if not self.timed:
            self.block = min(most, GROWTH * self.block)
        else:
            slow = seconds >= BLOCK_SECONDS
            self.block = max(1, self.block // 2) if slow else min(most, 2 * self.block)

    def _warn_of_witnesses(self) -> None:
        seen = None if self.warned else checks.describe_witness(self.watch)
        if seen:
            self.warned = True
            warn_caller(seen, ConstantsWarning)

    def _is_confirmed(self) -> bool:
        """Test again: the test saw the gradient at y (and perhaps noise); it must hold at x too."""
        return self.tol is not None and self._criterion(self._gradient()) <= self.tol

    def _criterion(self, g: Any) -> float:
        """Return what tol is compared with, at x, whose gradient is g."""
        return self._norm(g)

    def _value(self) -> float:
        """Return f after the last event, asked for only where it was not recorded."""
        if self.recording:
            return self.fun
        if self.asked[0] != self.k:
            self.nfev += 1
            self.asked = self.k, self._value_at(self.x)
        return self.asked[1]

    def report(self) -> tuple[Any, float]:
        return arrays.copy(self.x), self._value()

    def describe(self) -> str:
        return f"f = {self._value():.6g}"

    def finish(self, status: Status | None) -> Progress:
        row = None
        if not self.recording and self.k > 0:  # f at the end is asked for only now
            row = self._end_row()
            if math.isfinite(row[3]):
                self.fun = row[3]
            else:
                row, status = None, Status.NOT_FINITE
                self._go_back()  # the last point whose f is known
        self.jac = self._gradient()
        self._take_last_step()
        self.criterion = self._criterion(self.jac)
        is_done = self.tol is not None and (
            status is Status.CONVERGED or self.criterion <= self.tol
        )
        if is_done and status in (None, Status.CONVERGED) and self._is_above_start():
            status = Status.WRONG_GRADIENT
        return Progress(status, row)

    def _is_above_start(self) -> bool:
        """Tell whether f(x_0) < f(x) + <g, x_0 - x>: no convex f with this gradient is so, and x is
        no minimum of f.

        Only where that is no rounding, of x or of f: a little towards x_0, f is to be about as
        large.
        """
        if not self.method.assumes_convexity:
            return False
        slack, back = math.sqrt(self.watch[checks.EPS]), self.start - self.x
        rise = self.fun + arrays.inner(self.jac, back) - self.fun_at_start
        if not rise > slack * (abs(self.fun) + abs(self.fun_at_start)):
            return False
        if not arrays.norm(back) > slack * (arrays.norm(self.x) + arrays.norm(self.start)):
            return False
        self.nfev += len(NUDGES)
        near = (self._value_at(self.x + part * back) for part in NUDGES)
        return all(abs(f - self.fun) <= SMOOTH * rise for f in near)

    def _take_last_step(self) -> None:
        """Go where the result is better told than at x, if there is such a point."""

    def evaluate_criterion(self) -> float:
        return self.criterion

    def result(self, status: Status) -> dict[str, Any]:
        return {
            "x": arrays.copy(self.x),
            "fun": self.fun,
            "jac": self.jac,
            "nfev": self.nfev,
            "njev": self.oracle.calls,
            "method": self.method,
            "skipped": self.skipped,
        }

    def remark(self) -> str:
        skipped = checks.describe_skipped(self.skipped)
        if self._separates():
            return SEPARATED + skipped
        if math.isinf(arrays.inner(self.x, self.x)):
            return stopping.TOO_LARGE + skipped
        # Not by the square, which would overflow for a gradient that is finite.
        stays = self.criterion > 0.5 * math.sqrt(self.watch[checks.G_MAX2])
        return (stopping.GOES_AWAY if stays and self._is_far() else "") + skipped

    def fingerprint(self) -> Any:
        return self.method.fingerprint()


class FixedStepper(_KnownConstants):
    """On NumPy's arrays: compiled where the gradient is, otherwise with one in Python.

    noise, rng: the noise of the gradients, and what draws it.  z0: where z starts, None where that
    is the start of x.
    """

    psi: Array | None = None  # its constants, in a run on f + psi that compiled code knows
    changing = ("k", "t", "carry", "fun", "nfev", "oracle", "rng", "work", "watch")

    def __init__(
        self,
        method: Method,
        problem: Problem,
        start: Array,
        tol: float | None,
        *,
        noise: Noise | None = None,
        rng: np.random.Generator | None = None,
        z0: Array | None = None,
        **options: Any,
    ) -> None:
        super().__init__(method, problem, start, tol, noisy=noise is not None, **options)
        self.noise, self.rng = noise, rng
        self.dim, self.dtype = start.size, start.dtype
        self.oracle: FullGradient = FullGradient(problem, start)
        z = start if z0 is None else z0
        self.work = kernel.make_work(start, z)
        self.vectors = self.work[:, : self.dim]  # the same memory, without what is beyond x
        self.x = self.vectors[kernel.X].reshape(start.shape)
        self.states_at_start = start[np.newaxis], z[np.newaxis]
        # x after each event of a block, for f, and z too where the path is kept.
        self.xs = np.empty((self.rows_at_once if self.recording else 0, self.dim), self.dtype)
        self.zs = np.empty((self.rows_at_once if self.keeping else 0, self.dim), self.dtype)
        in_python = problem.threaded or isinstance(noise, Oracle)
        self.compiled = None if in_python else problem.compile(self.dtype)
        # Compiled events at once: one, where nobody knows how long it takes.
        numbers = 0 if self.compiled is None else sum(part.size for part in self.compiled.data)
        self.at_once = LARGE_BLOCK if 0 < numbers < QUICK_NUMBERS else 1

    def _take_events(self, marks: Array | None, prepared: Prepared, i: int) -> tuple[int, int]:
        """Let events i, i + 1, ... of a block happen until a signal; return how many, and it."""
        done, signal = self._take_uncounted_events(marks, prepared, i)
        self.oracle.calls += done - i + (signal in checks.SIGNALS)
        return done, signal

    def _take_uncounted_events(
        self, marks: Array | None, prepared: Prepared, i: int
    ) -> tuple[int, int]:
        """Do so, their gradients not counted yet."""
        if isinstance(prepared, Block):
            assert self.compiled is not None
            return self._take_compiled_events(self.compiled, marks, prepared, i)
        return self._take_events_in_python(marks, prepared, i)

    # What the kernels of f alone are; those of f + psi are others.

    def _run_kernel(self, *given: Any) -> tuple[int, int]:
        return kernel.take_events(*given)

    def _find_step(self) -> Any:
        return kernel.compile_step(self.dtype)

    def _take_compiled_events(
        self, compiled: Compiled, marks: Array | None, block: Block, i: int
    ) -> tuple[int, int]:
        """Do so where the gradient is compiled.

        Ctrl-C is not heard while compiled events run: they are as many at once as take
        `BLOCK_SECONDS`, by the time that those before them took.
        """
        stop, states = min(i + self.at_once, block.t.shape[1]), (self.work, self.xs, self.zs)
        started = time.perf_counter()
        done, signal = self._run_kernel(compiled, marks, *states, block, self.watch, i, stop)
        in_time = (done - i) * BLOCK_SECONDS / max(time.perf_counter() - started, 1e-9)
        self.at_once = max(1, min(LARGE_BLOCK, int(in_time)))
        return done, signal

    @cached_property
    def _step_table(self) -> kernel.StepTable:
        """What the step is given; its arrays stay where they are, whatever is restored."""
        states = self.work, self.xs, self.zs
        return kernel.StepTable(*states, self.watch, self.start.shape, self.psi)

    @property
    def _ask(self) -> Callable[[Array], Any]:
        """The function that gives gradients, the user's own noise among them."""
        return self._draw_gradient if isinstance(self.noise, Oracle) else self.oracle.function

    def _take_events_in_python(self, marks: Array | None, coefs: Array, i: int) -> tuple[int, int]:
        oracle, watch, ask, step = self.oracle, self.watch, self._ask, self._find_step()
        table = self._step_table
        table.begin(coefs, i)
        kernel.mix_next(self.work, coefs, i)
        point = self.vectors[kernel.NOW + kernel.Y].reshape(self.start.shape)
        # The user may write into the point, and may keep it.  Views of one array are lent as long
        # as nothing refers to it when an event is over; then each event has a copy, which takes 0.1
        # us more, and 0.2 for 1,000 entries.  Without Numba, the step leaves it in the rows of NOW.
        lends = HAS_NUMBA
        if lends:
            table.point[...] = point
            point = table.point
        # Most answers are arrays that compiled code takes as they are: every look takes 50 ns.
        as_it_is, ndarray = point.ndim == 1 and marks is None, np.ndarray
        address, wrong_size, count_references = table.address, kernel.WRONG_SIZE, sys.getrefcount
        for j in range(i, len(coefs)):
            if lends:
                g = ask(point[...])
                if count_references(point) > ALONE:
                    point, lends = table.renew_point(), False
            else:
                g = ask(point.copy())
            signal = wrong_size
            if as_it_is and type(g) is ndarray:
                try:  # noqa: SIM105 - what suppresses it takes longer than the step
                    signal = step(g, address, j)
                except TypeError:  # another dtype, shape or layout
                    pass
            if signal == wrong_size:
                as_it_is = False
                g = oracle.check(g, None if marks is None else marks[j]).ravel()
                watch[checks.EPS] = max(watch[checks.EPS], oracle.eps)
                if not g.flags.carray:
                    g = np.array(g, order="C")
                signal = step(g, address, j)
            if signal:  # GO_ON is 0; an event that is forbidden is not done
                return (j if signal in checks.SIGNALS else j + 1), signal
        return len(coefs), checks.GO_ON

    def _draw_gradient(self, x: Array) -> Any:
        """Ask the user's oracle; the generator is looked up, for a checkpoint may renew it."""
        return self.noise.draw(x, self.rng)  # type: ignore[union-attr, call-arg, arg-type]

    def _values(self, points: Array) -> Array:
        """Return f at each of points[0], points[1], ..."""
        return self.problem.values(points)

    def _take_block(self, events: Events) -> Progress:
        prepared, marks = self._prepare(events), None
        if self.noise is not None and not isinstance(self.noise, Oracle):
            assert self.rng is not None
            marks = draw_noise(self.noise, self.rng, events.size, self.dim, self.dtype)
        before = self.vectors[kernel.X].copy()
        i, status = 0, None
        while i < events.size and status is None:
            i, signal = self._take_events(marks, prepared, i)
            if signal == checks.NOT_FINITE and self.skipping:
                i = self._skip(prepared, i)
                continue
            status = checks.SIGNALS.get(signal)
            if signal == checks.SMALL_GRADIENT and self._is_confirmed():
                status = Status.CONVERGED
        if i:  # after all of these; where f is not finite at one, the run is over and needs none
            carry = prepared.carry[0] if isinstance(prepared, Block) else prepared[i - 1, CARRY]
            self.carry = float(carry)
        rows = None
        if self.recording and i:
            fun = self._values(self.xs[:i].reshape(i, *self.start.shape))
            self.nfev += i
            finite = np.isfinite(fun)
            if not finite.all():
                i, status = int(np.argmin(finite)), Status.NOT_FINITE
                self.vectors[kernel.X] = self.xs[i - 1] if i else before
            rows = self._rows(events, fun, i) if i else None
        if i:
            self.k, self.t = self.k + i, float(events.t[i - 1])
        return Progress(status, rows)

    def _prepare(self, events: Events) -> Prepared:
        """Return the coefficients of these events, or a block of which compiled code makes them."""
        if self.compiled is None:
            return coefficients(self.method, events, self.carry)
        return make_block(self.method, events, self.carry)

    def _rows(self, events: Events, fun: Array, n: int) -> tuple[Array, ...]:
        """Return the rows of the first n events."""
        self.fun = float(fun[n - 1])
        rows = (np.arange(self.k + 1, self.k + 1 + n), events.t[:n], events.dt[:n], fun[:n])
        if not self.keeping:
            return rows
        shape = (n, *self.start.shape)
        return (*rows, self.xs[:n].reshape(shape).copy(), self.zs[:n].reshape(shape).copy())

    def _skip(self, prepared: Prepared, i: int) -> int:
        """Let event i happen without a jump; return the number of the next."""
        skip = kernel.skip_in_block if isinstance(prepared, Block) else kernel.skip
        skip(self.work, prepared, i)
        kernel.keep_states_in_numpy(self.work, self.xs, self.zs, i)
        self.skipped += 1
        return i + 1

    def _value_at(self, x: Array) -> float:
        return float(self._values(x[np.newaxis].copy())[0])

    def _gradient(self, at: Array | None = None) -> Array:
        asked = self.x.copy() if at is None else at
        return np.array(self.oracle(asked), order="C")  # a copy: the user may use it again

    def _norm(self, g: Array) -> float:
        with np.errstate(over="ignore"):  # it is infinity then, as it should be
            size = float(np.linalg.norm(g))
        return size if size * size > arrays.SMALL_SQUARE else arrays.norm(g)

    def _go_back(self) -> None:
        self.k, self.vectors[kernel.X] = 0, self.start.ravel()

    def after_restoring(self) -> None:
        """Take the tol of now.  A warning given before is given again."""
        self.watch[checks.TOL2] = checks.squared_tol(self.tol)


class ArrayStepper(_KnownConstants):
    """On arrays of another library, event by event."""

    problem: arrays.ArrayProblem
    _norm = staticmethod(arrays.norm)

    def __init__(
        self, method: Method, problem: arrays.ArrayProblem, tol: float | None, **options: Any
    ) -> None:
        super().__init__(method, problem, problem.start, tol, **options)
        self.oracle = problem
        self.x = self.z = problem.start
        self.states_at_start = self.last = self.x, self.x  # the latter: y and g of the event before

    def _take_block(self, events: Events) -> Progress:
        coefs = coefficients(self.method, events, self.carry)
        rows: list[tuple[Any, ...]] = []
        before, status = self.k, None
        # Python's floats: NumPy's would turn some libraries' arrays into its own.
        for event, (*row, _) in zip(events.each(), coefs.tolist(), strict=True):
            status = self._event(event, *row)
            if self.k == event.k and self.recording:
                states = (self.x, self.z) if self.keeping else ()
                rows.append((event.k, event.t, event.dt, self.fun, *states))
            if status is not None:
                break
        if self.k > before:
            self.carry = float(coefs[self.k - before - 1, CARRY])
        columns = tuple(map(list, zip(*rows, strict=True)))
        return Progress(status, columns or None)

    def _event(
        self, event: Event, a: float, b: float, gamma: float, gamma_prime: float
    ) -> Status | None:
        y, z = mix(self.x, self.z, a, b)
        g = self.problem.grad(y)
        g2 = self._judge(y, g)
        signal = checks.choose_signal(self.watch, g2, g2, gamma, gamma_prime)
        if signal == checks.NOT_FINITE and self.skipping:
            x, self.skipped = y, self.skipped + 1  # no jump: as if the gradient were zero
        elif signal in checks.SIGNALS:
            return checks.SIGNALS[signal]
        else:
            x, z = jump(y, z, g, gamma, gamma_prime)
            self.last = y, g
        if self.recording:
            self.nfev += 1
            value = self.problem.fun(x)
            if not math.isfinite(value):
                return Status.NOT_FINITE
            self.fun = value
        self.k, self.t, self.x, self.z = event.k, event.t, x, z
        if signal == checks.SMALL_GRADIENT and self._is_confirmed():
            return Status.CONVERGED
        return None

    def _judge(self, y: Any, g: Any) -> float:
        dy, dg = y - self.last[0], g - self.last[1]
        pairs = ((g, g), (y, y), (dg, dg), (dg, dy), (dy, dy))
        return float(checks.judge(self.watch, *arrays.inners(self.problem.xp, *pairs)))

    def _value_at(self, x: Any) -> float:
        return self.problem.fun(x)

    def _gradient(self, at: Any = None) -> Any:
        return self.problem.grad(self.x if at is None else at)

    def _go_back(self) -> None:
        self.k, self.x = 0, self.start
