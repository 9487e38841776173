"""The driver of marked methods: events in blocks of about a pass over the data.

A full value or gradient costs as much as a pass, so that f is recorded once a pass, and the
stopping test made less and less often, at a tenth more passes than the time before or more, but
where the end is nearer than that, there.

Nothing watches for divergence: a marked method computes its own constants, and no gradient is at
hand at every event.  What grows for ever ends as NOT_FINITE, at the last point before that.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from continuized.marked.clock import Drawn, checked_marks
from continuized.problems.base import Array, Problem
from continuized.process import clock as clocks
from continuized.process.coefficients import CARRY
from continuized.process.compiled import coefficients
from continuized.process.marks import events_of
from continuized.process.methods import Method
from continuized.solver.result import Result, Status, Trace
from continuized.solver.stopping import Callback, Limits, called_back, status_at_end
from continuized.support.checkpoints.checkpointer import (
    AnyKeeper,
    Rows,
    State,
    check_events,
    nowhere,
)
from continuized.support.progress import Bar, silent

SMALLEST_BLOCK = 4096  # marks or more, where nothing is recorded
LOOKS = 4  # entries that are touched by events for one of the point that is looked at
BETWEEN_TESTS = 1.1


class Engine(Drawn, Protocol):
    """A marked method on a problem, under way."""

    measured: str  # in words
    measures_gap: bool  # whether it bounds f - f*
    law_changes: bool  # from a pass to the next, perhaps
    problem: Problem
    process: Method
    costs: Array
    size: int
    constants: dict[str, Any]

    def advance(self, marks: Array, coefficients: Array) -> None: ...
    def state(self) -> dict[str, Array]: ...  # copies of the arrays that events change
    def restore(self, arrays: dict[str, Array]) -> None: ...
    def point(self) -> Array: ...
    def value(self) -> float: ...
    def measure(self) -> float: ...


class Marked(Protocol):
    """A method whose events have marks; `prepare` computes what it needs of the problem."""

    name: str

    def prepare(self, problem: Problem, x0: Array) -> Engine: ...


class Run:
    """A marked method under way."""

    def __init__(
        self,
        engine: Engine,
        x0: Array,
        stream: clocks.Stream,
        limits: Limits,
        record: bool,
        callback: Callback | None = None,
        bar: Bar = silent,
        keeper: AnyKeeper = nowhere,
    ) -> None:
        self.engine, self.x0, self.stream, self.limits = engine, x0, stream, limits
        self.record, self.callback, self.bar, self.keeper = record, callback, bar, keeper
        self.rows = _Rows()
        self.good, law = engine.point(), engine.law
        # Whole passes, for stratified marks to be the same with and without a record.
        is_short = record or engine.law_changes
        passes = 1 if is_short else _passes_a_block(law.size, self.good.size, engine)
        self.block = events_of(law, law.size * passes)
        self.k, self.t, self.carry, self.cost = 0, 0.0, 0.0, 0.0
        self.tested, self.next_test = (0.0, math.nan), 0.0

    @property
    def passes(self) -> float:
        return self.cost / self.engine.size

    def go(self) -> Result:
        """Events until the measure is at most tol, or maxiter of them are done."""
        self.rows.add(0, 0.0, 0.0, self.engine.value())
        status = None
        with self.keeper.over(self):
            while status is None and self.k < self.limits.maxiter:
                events = self.stream.draw(min(self.block, self.limits.maxiter - self.k))
                if events.size == 0:
                    break
                status = self._block(events)
                self.bar(self.k, self._words())
                # A block cut short by maxiter would be a whole one in a longer run, with its row
                # of the trace and its stopping test elsewhere: that run goes on from before it.
                if status in (None, Status.CALLBACK) and events.size == self.block:
                    self.keeper.between(self)
        return self._finish(status)

    def _block(self, events: clocks.Events) -> Status | None:
        """The events, and why they end the run, if they do."""
        engine = self.engine
        marks = checked_marks(events, engine.law)
        coefs = coefficients(engine.process, events, self.carry)
        self.carry = float(coefs[-1, CARRY])
        engine.advance(marks, coefs)
        self.k, self.t = self.k + events.size, float(events.t[-1])
        self.cost += float(engine.costs[marks].sum())
        with np.errstate(over="ignore", invalid="ignore"):  # they are tested next
            x = engine.point()
            fun = engine.value() if self.record else 0.0
        if not (np.all(np.isfinite(x)) and math.isfinite(fun)):
            return Status.NOT_FINITE
        self.good, status = x, None
        if self.record:
            self.rows.add(self.k, self.t, self.passes, fun)
        if self.callback is not None:
            shown = (_like(self.x0, x), engine.value(), self.k, self.t)
            status = called_back(self.callback, *shown)
        return self._test() if status is None else status

    def _words(self) -> str:
        """For the progress bar: what is known without asking anew."""
        value = f"f = {self.rows.fun[-1]:.6g}" if self.record else ""
        measured = self.tested[1]
        return value if math.isnan(measured) else f"{value}  {self.engine.measured} {measured:.2g}"

    def _test(self) -> Status | None:
        """Whether the measure is at most tol, where it is time to ask."""
        tol = self.limits.tol
        if tol is None or self.passes < self.next_test:
            return None
        now = (self.passes, self.engine.measure())
        self.next_test = _next_test(self.tested, now, tol)
        self.tested = now
        return Status.CONVERGED if now[1] <= tol else None

    def _finish(self, status: Status | None) -> Result:
        end = (self.k, self.t, self.passes)
        x = self.good.reshape(self.x0.shape)
        result = _result(self.engine, x, status, self.limits, self.rows, end)
        result.x, result.jac = _like(self.x0, result.x), _like(self.x0, result.jac)
        return result

    def state(self) -> State:
        """Between two blocks."""
        plain = {
            "k": self.k,
            "t": self.t,
            "carry": self.carry,
            "cost": self.cost,
            "tested": self.tested,
            "next_test": self.next_test,
            "stream": self.stream.state(),
        }
        return State(plain, self.engine.state() | self.rows.state())

    def restore(self, state: State) -> None:
        """Go on from there."""
        plain, arrays = state
        check_events(plain["k"], self.limits.maxiter)
        self.k, self.t, self.carry = plain["k"], plain["t"], plain["carry"]
        self.cost, self.next_test = plain["cost"], plain["next_test"]
        self.tested = tuple(plain["tested"])
        self.stream.restore(plain["stream"])
        self.engine.restore(arrays)
        self.rows.restore(arrays)
        self.good = self.engine.point()


def _passes_a_block(marks: int, dim: int, engine: Engine) -> int:
    """Where nothing is recorded: so many that what is done between blocks, of which the least is
    to look at the point, costs little against the events."""
    return max(1, -(-SMALLEST_BLOCK // marks), -(-LOOKS * dim // engine.size))


def _like(x0: Array, x: Array) -> Array:
    """A fresh x of the shape and type of x0: the kernels compute in float64."""
    return x.reshape(x0.shape).astype(x0.dtype)


def _next_test(before: tuple[float, float], now: tuple[float, float], tol: float) -> float:
    """The passes at which to test again: a tenth more, or as many as are left at the rate seen
    between two tests, if that is less, or half as many, if that is more; at most twice as many."""
    least = BETWEEN_TESTS * now[0]
    if not (tol > 0.0 and before[1] > now[1] > tol):
        return least
    left = math.log(now[1] / tol) * (now[0] - before[0]) / math.log(before[1] / now[1])
    return min(max(min(least, now[0] + left), now[0] + 0.5 * left), 2.0 * now[0])


def _result(
    engine: Engine,
    x: Array,
    status: Status | None,
    limits: Limits,
    rows: _Rows,
    end: tuple[int, float, float],
) -> Result:
    jac = engine.problem.grad(x)
    if status is None:
        status = status_at_end(limits, end[0], engine.measure)
    if rows.k[-1] != end[0] and status is not Status.NOT_FINITE:
        rows.add(*end, engine.value())
    message = status.value.replace("gradient norm", engine.measured)
    # The engine stands where it stopped, which of a run that left the finite numbers is not x.
    has_gap = engine.measures_gap and status is not Status.NOT_FINITE
    return Result(
        x=x,
        fun=engine.problem.fun(x),
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
        gap=engine.measure() if has_gap else None,
    )


class _Rows:
    """The rows of the trace, one a pass."""

    def __init__(self) -> None:
        self.k: list[int] = []
        self.t: list[float] = []
        self.fun: list[float] = []
        self.passes: list[float] = []

    def add(self, k: int, t: float, passes: float, fun: float) -> None:
        self.k.append(k)
        self.t.append(t)
        self.fun.append(fun)
        self.passes.append(passes)

    def _columns(self) -> dict[str, list[Any]]:
        return {"k": self.k, "t": self.t, "fun": self.fun, "passes": self.passes}

    def state(self) -> dict[str, Rows]:
        return {f"row_{name}": Rows(rows, len(rows)) for name, rows in self._columns().items()}

    def restore(self, arrays: dict[str, Array]) -> None:
        for name, rows in self._columns().items():
            rows[:] = arrays[f"row_{name}"].tolist()

    def trace(self) -> Trace:
        return Trace(*(np.array(rows) for rows in self._columns().values()))
