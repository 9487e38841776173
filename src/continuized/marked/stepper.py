"""Steppers of marked methods: events in blocks of about a pass over the data.

A full value or gradient costs as much as a pass, so that f is recorded once a pass, and the
stopping test made less and less often, at a tenth more passes than the time before or more, but
where the end is nearer than that, there.

Nothing watches for divergence: a marked method computes its own constants, and no gradient is at
hand at every event.  What grows for ever ends as NOT_FINITE, at the last point before that.

The clock of such a run brings marks of its own, or is given those of the method.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from continuized.marked.kernels.layout import ALPHA, REBASED, SparseColumns, at_factor, pairs_at
from continuized.problems.base import SEPARATED, Array, Problem, separates
from continuized.process import clock as clocks
from continuized.process.clock import Events, mark_shares
from continuized.process.coefficients import CARRY
from continuized.process.compiled import coefficients
from continuized.process.marks import Batches, Finite, batch_of, events_of, probabilities
from continuized.process.methods import Method
from continuized.process.random_streams import Root
from continuized.process.stepper import Progress, Status, Stepper
from continuized.support.blas import norm
from continuized.support.validation import short_repr

SMALLEST_BLOCK = 4096  # marks or more, where nothing is recorded
ENTRIES_A_LOOK = 4  # entries that are touched by events for one of the point that is looked at
BETWEEN_TESTS = 1.1
PASSES_TO_LOOK = 100  # after which a test looks whether f has a minimum at all
SAME_LAW = 1e-6  # relative: probabilities that differ by less come from the same formula


class Marked(Protocol):
    """A method whose events have marks; `prepare` computes what it needs of the problem."""

    name: str

    def prepare(self, problem: Problem, x0: Array) -> MarkedStepper: ...


class MarkedStepper(Stepper):
    """What coordinates and rows have in common.

    law: of the marks that the steps are made for.  law_changes: from a pass to the next, perhaps.
    for_another_law: what to give for marks of another law; "" where no step depends on it.
    criterion_is_gap: whether the criterion bounds f - f*.  process: the method whose coefficients
    are used.  costs: what an event of each mark touches of the columns, or rows; size: what a pass
    does.  pairs: x and z, as `kernels.layout` says.  take: lets the events of these marks happen,
    with these coefficients.  point: gives x now, in the problem's own variables, a vector of
    float64.
    """

    columns = ("k", "t", "fun", "passes")
    changing: tuple[str, ...] = (
        "k", "t", "carry", "cost", "tested", "next_test", "rows_made", "recorded", "last_fun",
        "scalars", "pairs",
    )  # fmt: skip
    criterion_is_gap = law_changes = False
    law: Any  # Finite, or one that changes
    for_another_law: str
    process: Method
    costs: Array
    size: int
    take: Callable[[Array, Array], None]
    point: Callable[[], Array]

    def __init__(self, problem: Problem, method: Any, columns: SparseColumns, x: Array) -> None:
        self.problem, self.name, self.accelerated = problem, method.name, method.accelerated
        self.carry = self.cost = 0.0
        self.tested, self.next_test = (0.0, math.nan), 0.0
        self.rows_made, self.recorded, self.last_fun = 0, -1, math.nan
        self.costs = np.maximum(np.diff(columns.indptr).astype(np.int64), 1)
        self.size = max(int(columns.indptr[-1]), self.costs.size, 1)
        self.scalars, self.pairs = np.array(REBASED), pairs_at(x)

    def at_x(self, pairs: Array) -> Array:
        """Return what the pairs are at x."""
        return at_factor(pairs, self.scalars[ALPHA])

    # What differs between coordinates and rows

    @property
    def constants(self) -> dict[str, Any]:
        """The constants that were used, given or computed."""
        raise NotImplementedError

    def value(self) -> float:
        """Return what is minimised at the point; where a row was made there, it is known."""
        return self.last_fun if self.recorded == self.k else self.evaluate(self.point())

    def evaluate(self, x: Array) -> float:
        """Return what is minimised at x, in the problem's own variables."""
        return float(self.problem.fun(x))

    def evaluate_criterion(self) -> float:
        """Return what tol is compared with."""
        return norm(self.problem.grad(self.point()))

    # What the loop asks

    def configure(self, x0: Array, tol: float | None, record: bool) -> None:
        """Set the shape and the type of x, the tol, and whether f is recorded once a pass."""
        self.like, self.tol, self.records = x0, tol, record

    @property
    def passes(self) -> float:
        """The passes over the data, so far."""
        return self.cost / self.size

    def begin(self) -> Progress:
        self.good, marks = self.point(), self.law.size
        # Whole passes, for stratified marks to be the same with and without a record.
        is_short = self.records or self.law_changes
        # Without a record so many that what is done between blocks, where the least is to look at
        # the point, costs little against the events.
        few = max(1, -(-SMALLEST_BLOCK // marks), -(-ENTRIES_A_LOOK * self.good.size // self.size))
        self.block = events_of(self.law, marks * (1 if is_short else few))
        return Progress(rows=self._row(self.value()))

    def advance(self, events: Events) -> Progress:
        # A block cut short by maxiter would be a whole one in a longer run, with its row of the
        # trace and its stopping test elsewhere: that run goes on from before it.
        self.savable = events.size == self.block
        marks = check_marks(events, self.law)
        coefs = self.coefficients(events)
        self.carry = float(coefs[-1, CARRY])
        self.take(marks, coefs)
        self.k, self.t = self.k + events.size, float(events.t[-1])
        self.cost += float(self.costs[marks].sum())
        with np.errstate(over="ignore", invalid="ignore"):  # they are tested next
            x = self.point()
            fun = self.value() if self.records else 0.0
        if not (np.all(np.isfinite(x)) and math.isfinite(fun)):
            return Progress(Status.NOT_FINITE)
        self.good = x
        return Progress(rows=self._row(fun) if self.records else None)

    def coefficients(self, events: Events) -> Array:
        """Return the coefficients of a block of events, one row each; side by side in memory, for
        kernels to take a block and parts of it as one type."""
        return np.ascontiguousarray(coefficients(self.process, events, self.carry))

    def _row(self, fun: float) -> tuple[int, float, float, float]:
        self.rows_made, self.recorded, self.last_fun = self.rows_made + 1, self.k, fun
        return self.k, self.t, fun, self.passes

    def test(self) -> Status | None:
        """Return CONVERGED where the criterion is at most tol, if it is time to ask."""
        if self.tol is None or self.passes < self.next_test:
            return None
        now = (self.passes, self.evaluate_criterion())
        self.next_test = _next_test(self.tested, now, self.tol)
        self.tested = now
        if now[1] <= self.tol:
            return Status.CONVERGED
        is_hopeless = self.passes >= PASSES_TO_LOOK and separates(self.problem, self.point())
        return Status.NO_MINIMUM if is_hopeless else None

    def remark(self) -> str:
        return SEPARATED if separates(self.problem, self.good) else ""

    def report(self) -> tuple[Array, float]:
        return self._like_x0(self.good), self.value()

    def describe(self) -> str:
        """Tell what is known without asking anew."""
        value = f"f = {self.last_fun:.6g}" if self.records else ""
        last = self.tested[1]
        return value if math.isnan(last) else f"{value}  {self.criterion_name} {last:.2g}"

    def finish(self, status: Status | None) -> Progress:
        if self.recorded == self.k or status is Status.NOT_FINITE:
            return Progress(status)
        return Progress(status, self._row(self.value()))

    def result(self, status: Status) -> dict[str, Any]:
        x = self.good.reshape(self.like.shape)
        # The run stands where it stopped, which where it left the finite numbers is not x.
        at_x = status is not Status.NOT_FINITE
        fun, gap = self.value() if at_x else self.evaluate(x.ravel()), None
        if at_x and self.criterion_is_gap:
            gap = round_gap(self.evaluate_criterion(), fun, self.problem)
        return {
            "x": self._like_x0(x),
            "fun": fun,
            "jac": self._like_x0(self.problem.grad(x)),
            "nfev": self.rows_made + 1,
            "njev": self.k,
            "method": self.process,
            "constants": self.constants,
            "passes": self.passes,
            "gap": gap,
        }

    def fingerprint(self) -> dict[str, Any]:
        return self.constants

    def _like_x0(self, x: Array) -> Array:
        """Return a fresh x of the shape and type of x0: the kernels compute in float64."""
        return x.reshape(self.like.shape).astype(self.like.dtype)

    def after_restoring(self) -> None:
        self.good = self.point()


def _next_test(before: tuple[float, float], now: tuple[float, float], tol: float) -> float:
    """Find the passes at which to test again: a tenth more, or as many as are left at the rate seen
    between two tests, if that is less, or half as many, if that is more; at most twice as many."""
    least = BETWEEN_TESTS * now[0]
    if not (tol > 0.0 and before[1] > now[1] > tol):
        return least
    left = math.log(now[1] / tol) * (now[0] - before[0]) / math.log(before[1] / now[1])
    return min(max(min(least, now[0] + left), now[0] + 0.5 * left), 2.0 * now[0])


def round_gap(gap: float, fun: float, problem: Any) -> float:
    """Return a duality gap, or 0 where it is negative by no more than rounding errors.

    The gap is f less the dual objective, both means over n rows.  The terms of f are at least 0,
    and so are as large as f; those of the dual, a_i y_i - a_i^2 / 2 and the like, are in the mean
    at most 2 sqrt(f f(0)) in size, by Cauchy-Schwarz.  n rounding errors add up as sqrt(n).
    """
    if not gap < 0.0:
        return gap
    size = fun + 2.0 * math.sqrt(fun * problem.fun(np.zeros(problem.dim)))
    rounding = 4.0 * math.sqrt(len(problem.y)) * math.ulp(1.0) * size
    return 0.0 if gap >= -rounding else gap


def clock_with_marks(
    clock: clocks.Clock | None, stepper: MarkedStepper, root: Root
) -> clocks.Clock:
    """Return the clock given, or a Poisson clock, with the stepper's marks unless it has its own.

    Those of merged clocks are their own marks, or where they have none, their numbers: a clock
    of rate p_i for each coordinate or row i is a clock of rate 1 with marks of the law p.
    Raises ValueError where its own marks have a law that is known, and that the steps of the
    stepper are not made for.
    """
    law = stepper.law
    if clock is None:
        return clocks.Poisson(root, marks=law)
    if isinstance(clock, clocks.Merged):
        if isinstance(law, Batches):
            raise ValueError(
                f"an event of merged clocks has one mark, but that of a batch has {law.batch}; use "
                "cz.clock.Poisson, or batch=1"
            )
        if len({getattr(each, "marks", None) is None for each in clock.clocks}) > 1:
            raise ValueError("of the clocks that are merged some have marks: give marks= to all")
    elif getattr(clock, "marks", None) is None:
        if isinstance(clock, clocks.Poisson):  # its root, not its seed: None would be drawn again
            return dataclasses.replace(clock, rng=clock.root, marks=law)
        if isinstance(clock, clocks.Unit):
            own = root if clock.rng is None else clock.rng
            return dataclasses.replace(clock, rng=own, marks=law)
        raise ValueError("the clock of a marked method must have marks: give it marks=")
    _check_law(clock, stepper)
    return clock


def _check_law(clock: Any, stepper: MarkedStepper) -> None:
    """Check the law of a clock.  Steps are made for the probabilities of their marks; where they
    are not, every mark must still come.  Raises ValueError with the first mark for which it is
    otherwise."""
    drawn, taken = batch_of(getattr(clock, "marks", None)), batch_of(stepper.law)
    if drawn > 1 and drawn != taken:
        raise ValueError(
            f"an event of the clock has {drawn} marks, but one of {stepper.name} takes {taken}; "
            "give a clock without marks"
        )
    theirs, ours = mark_shares(clock), probabilities(stepper.law)
    if theirs is None or ours is None:
        return
    if theirs.size != ours.size:
        raise ValueError(
            f"the clock has {theirs.size} marks, but {stepper.name} has {ours.size} on this "
            "problem; give a clock of as many marks, or one without"
        )
    advice = stepper.for_another_law
    if not advice:
        never = np.flatnonzero((theirs == 0.0) & (ours > 0.0))
        if never.size:
            raise ValueError(
                f"mark {never[0]} has probability 0 by the clock, and would never be used; give "
                "it more, or a clock without marks"
            )
        return
    wrong = np.flatnonzero(np.abs(theirs - ours) > SAME_LAW * ours)
    if wrong.size:
        i = wrong[0]
        raise ValueError(
            f"mark {i} has probability {theirs[i]:.6g} by the clock, but the steps of "
            f"{stepper.name} are made for {ours[i]:.6g}; give {advice}, or a clock without marks"
        )


def check_marks(events: Events, law: Finite) -> Array:
    """Return the marks of a block as integers in [0, law.size), or as batches, a row each."""
    values, n = np.asarray(events.marks), law.size
    shape: tuple[int, ...] = ()
    wanted = f"marks must be integers in [0, {n})"
    if isinstance(law, Batches):
        shape, wanted = (law.batch,), f"marks must be batches of {law.batch} integers in [0, {n})"
    elif values.ndim == 2 and values.shape[1] == 2:  # of merged clocks: (whose, its mark or -1)
        values = values[:, 0] if np.all(values[:, 1] == -1) else values[:, 1]
    if values.ndim == 0 or values.shape[1:] != shape or values.dtype.kind not in "iu":
        given = "none" if events.marks is None else short_repr(values[0].tolist())
        raise ValueError(f"{wanted}, but that of event {events.k0 + 1} is {given}")
    is_out = (values < 0) | (values >= n)
    bad = np.flatnonzero(is_out.reshape(len(values), -1).any(axis=1))
    if bad.size:
        given = short_repr(values[bad[0]].tolist())
        raise ValueError(f"{wanted}, but that of event {events.k0 + 1 + bad[0]} is {given}")
    return np.ascontiguousarray(values, np.int64)
