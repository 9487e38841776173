"""The driver of marked methods: events in blocks of about a pass over the data.

A full value or gradient costs as much as a pass, so that f is recorded once a pass, and the
stopping test made less and less often, at a tenth more passes than the time before or more.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Protocol

import numpy as np

from continuized import clock as clocks
from continuized import seeds
from continuized.driver import Callback, Limits
from continuized.kernels.schedule import CARRY, coefficients
from continuized.marks import Categorical
from continuized.methods import Method
from continuized.problems.base import Array, Problem
from continuized.progress import Bar
from continuized.result import Result, Status, Trace, intermediate_result

SMALLEST_BLOCK = 4096  # events, where nothing is recorded
BETWEEN_TESTS = 1.1


class Engine(Protocol):
    """A marked method on a problem, under way."""

    name: str
    measured: str
    process: Method
    law: Categorical
    costs: Array
    size: int
    constants: dict[str, Any]

    def advance(self, marks: Array, coefficients: Array) -> None: ...
    def point(self) -> Array: ...
    def value(self) -> float: ...
    def measure(self) -> float: ...


class Marked(Protocol):
    """A method whose events have marks; `prepare` computes what it needs of the problem."""

    name: str

    def prepare(self, problem: Problem, x0: Array) -> Engine: ...


def clock_with_marks(clock: Any, law: Categorical, root: seeds.Root) -> clocks.Clock:
    """The clock given, or a Poisson clock, with marks of this law unless it has its own."""
    if clock is None:
        return clocks.Poisson(root, marks=law)
    if getattr(clock, "marks", None) is not None:
        return clock  # type: ignore[no-any-return]
    if isinstance(clock, clocks.Poisson):  # its root, not its seed: None would be drawn again
        return dataclasses.replace(clock, seed=clock.root, marks=law)
    if isinstance(clock, clocks.Unit):
        own = root if clock.seed is None else clock.seed
        return dataclasses.replace(clock, seed=own, marks=law)
    raise ValueError("the clock of a marked method must have marks: give it marks=")


def run(
    engine: Engine,
    x0: Array,
    stream: clocks.Stream,
    limits: Limits,
    record: bool,
    callback: Callback | None,
    bar: Bar,
) -> Result:
    """Events until the measure is at most tol, or maxiter of them are done."""
    rows = _Rows(engine)
    rows.add(0, 0.0, 0.0)
    block = engine.law.threshold.size if record else max(engine.law.threshold.size, SMALLEST_BLOCK)
    k, t, carry, cost, next_test, status = 0, 0.0, 0.0, 0.0, 0.0, None
    good, tested = engine.point(), (0.0, math.nan)
    while status is None and k < limits.maxiter:
        events = stream.draw(min(block, limits.maxiter - k))
        if events.size == 0:
            status = Status.CLOCK_ENDED
            break
        marks = _checked_marks(events.marks, engine)
        coefs = coefficients(engine.process, events, carry)
        carry = float(coefs[-1, CARRY])
        engine.advance(marks, coefs)
        k, t = k + events.size, float(events.t[-1])
        cost += float(engine.costs[marks].sum())
        passes = cost / engine.size
        with np.errstate(over="ignore", invalid="ignore"):  # it is tested next
            x = engine.point()
        if not np.all(np.isfinite(x)):
            status = Status.NOT_FINITE
            break
        good = x
        if record:
            rows.add(k, t, passes)
            status = rows.trouble()
        if callback is not None and status is None:
            status = _called_back(callback, engine, _like(x0, x), k, t)
        if limits.tol is not None and status is None and passes >= next_test:
            measured = engine.measure()
            status = Status.CONVERGED if measured <= limits.tol else None
            next_test = _next_test(tested, (passes, measured), limits.tol)
            tested = (passes, measured)
        bar(k, f"f = {rows.fun[-1]:.6g}" if record else "")
    result = _result(
        engine, good.reshape(x0.shape), status, limits, rows, (k, t, cost / engine.size)
    )
    result.x, result.jac = _like(x0, result.x), _like(x0, result.jac)
    return result


def _like(x0: Array, x: Array) -> Array:
    """A fresh x of the shape and type of x0: the kernels compute in float64."""
    return x.reshape(x0.shape).astype(x0.dtype)


def _next_test(before: tuple[float, float], now: tuple[float, float], tol: float) -> float:
    """The passes at which to test again: a tenth more, or half of the way that is left at the
    rate seen between two tests, if that is more; at most twice as many."""
    least = BETWEEN_TESTS * now[0]
    if not (tol > 0.0 and before[1] > now[1] > tol):
        return least
    left = math.log(now[1] / tol) * (now[0] - before[0]) / math.log(before[1] / now[1])
    return min(max(least, now[0] + 0.5 * left), 2.0 * now[0])


def _result(
    engine: Engine,
    x: Array,
    status: Status | None,
    limits: Limits,
    rows: _Rows,
    end: tuple[int, float, float],
) -> Result:
    problem: Problem = engine.problem  # type: ignore[attr-defined]
    jac = problem.grad(x)
    if status is None:
        met = limits.tol is not None and engine.measure() <= limits.tol
        status = Status.CONVERGED if met else Status.MAXITER
        if limits.tol is None:
            status = Status.COMPLETED
    if rows.k[-1] != end[0] and status is not Status.NOT_FINITE:
        rows.add(*end)
    message = status.value.replace("gradient norm", engine.measured)
    return Result(
        x=x,
        fun=problem.fun(x),
        jac=jac,
        nit=end[0],
        nfev=len(rows.k) + 1,
        njev=end[0],
        success=status.success,
        status=status,
        message=message,
        trace=rows.trace(),
        path=None,
        method=engine.process,
        constants=engine.constants,
        passes=end[2],
    )


class _Rows:
    """The rows of the trace, one a pass."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.k: list[int] = []
        self.t: list[float] = []
        self.fun: list[float] = []
        self.passes: list[float] = []

    def add(self, k: int, t: float, passes: float) -> None:
        self.k.append(k)
        self.t.append(t)
        self.fun.append(self.engine.value())
        self.passes.append(passes)

    def trouble(self) -> Status | None:
        """Whether f has left all bounds."""
        if not np.isfinite(self.fun[-1]):
            return Status.NOT_FINITE
        return None

    def trace(self) -> Trace:
        columns = (np.array(c) for c in (self.k, self.t, self.fun, self.passes))
        return Trace(*columns)


def _checked_marks(marks: Any, engine: Engine) -> Array:
    values = np.asarray(marks)
    n = engine.law.threshold.size
    if values.ndim != 1 or values.dtype.kind not in "iu" or np.any((values < 0) | (values >= n)):
        raise ValueError(f"marks must be integers in [0, {n})")
    return values.astype(np.int64, copy=False)


def _called_back(callback: Callback, engine: Engine, x: Array, k: int, t: float) -> Status | None:
    try:
        callback(intermediate_result(x, engine.value(), k, t))
    except StopIteration:
        return Status.CALLBACK
    return None
