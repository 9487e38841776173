"""Unknown constants, metrics and proximal steps: one gradient an event.

Unknown L: every event is compared with the one before, which shows how large L is at least
(`Evaluator.least_L`), so that L grows without a further evaluation.  It shrinks at every
event that shows no need for it, by less each time that this proved wrong.  Where f has risen
above its value where the momentum began, L grows, the event is rejected, and the run goes back to
the best point: that costs an evaluation.

Unknown mu: the convex parameters with restarts, where the step goes against the last one
(the gradient test) or f has risen (the function test, as above).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from continuized.problems.base import SEPARATED, Array, Problem, separates
from continuized.process import parameters
from continuized.process.clock import Event, Events
from continuized.process.flow import convex_flow, mix
from continuized.process.methods import Continuized, Method
from continuized.process.parameters import carried_time
from continuized.process.prox import Prox, proximal_step, value_after_step
from continuized.process.stepper import Progress, Status, Stepper
from continuized.solver.array_api import copy, inner, is_finite, norm
from continuized.solver.constant_checks import describe_skipped
from continuized.solver.metric import Identity, Metric
from continuized.solver.metric_factory import MetricFactory
from continuized.solver.sparse_newton import SupportSolver
from continuized.solver.steppers.evaluations import (
    ROUNDING,
    Evaluation,
    Evaluator,
    after_step,
    find_bends,
)
from continuized.solver.steppers.run_metric import RunMetric
from continuized.solver.stopping import Criterion, Stagnation, is_far, is_time_to_look
from continuized.support.checkpoints.state import Checkpointed, probe

SHRINK = 0.9  # of L, at an event that shows no need for it; at first
GROW = 2.0  # of L, where f has risen
MOST_REJECTED = 200  # in a row: by then L has grown to 1e60 times what it was
FIRST_DOUBT = 16  # rejected events, after which jac is compared with f; again at 4 times as many
LOOK_EVERY = 16  # events: whether x goes away, and whether it moves at all
LEAST_L, MOST_L = 1e-300, 1e300  # beyond, a step or its square would overflow


# Formulas: plain functions of floats, which JAX's adapter translates.


def adapt_L(L: float, shrink: float, seen: float, falls: bool) -> tuple[float, float]:
    """Return (L, shrink) after an event that shows that L is at least `seen`, 0 for nothing.

    falls: whether f does.  L shrinks where the event shows no need for it, by less each time that
    this proved wrong.

    >>> adapt_L(2.0, 0.81, 3.0, falls=True), adapt_L(2.0, 0.75, 1.0, falls=True)
    ((3.0, 0.9), (1.5, 0.75))
    """
    if seen > L:
        return seen, math.sqrt(shrink)
    if seen > 0.0:
        return max(shrink * L, seen), shrink
    if falls:  # gradients may hide L, while f falls
        return shrink * L, shrink
    return L, shrink


def carry_on(s: float, L: float, L_new: float, least: float, most: float) -> tuple[float, float]:
    """Return L_new, between its limits, and the time s that has the same (sqrt A, sqrt B) there.

    >>> carry_on(3.0, 1.0, 4.0, least=1e-300, most=1e300)
    (4.0, 6.0)
    """
    within = min(max(L_new, least), most)
    return within, carried_time(s, L, within)


class FixedSchedule(Checkpointed):
    """L and mu are given: the coefficients of the method."""

    changing = ("_t", "_carry")

    def __init__(self, method: Method) -> None:
        self._method, self.L = method, method.L
        self._t, self._carry, self._steps = 0.0, method.init(0.0).carry, (0.0, 0.0)

    def weights(self, event: Event) -> tuple[float, float]:
        """Return the mixing weights before the event."""
        a, b, *steps, carry = self._method.coefficients(
            event.k, self._t, event.t, event.dt, self._carry
        )
        self._t, self._carry, self._steps = event.t, carry, (steps[0], steps[1])
        return a, b

    def steps(self) -> tuple[float, float]:
        """Return (gamma, gamma') at the event."""
        return self._steps


class AdaptiveSchedule(Checkpointed):
    """L unknown and mu = 0: the convex parameters, whose pair (sqrt A, sqrt B) is carried on.

    sqrt(A / B) = s / sqrt(2L), with s the time on the clock of the parameters since the last
    restart, so that a change of L multiplies s by sqrt(L_new / L).
    """

    changing = ("L", "_s")

    def __init__(self, L: float) -> None:
        self.L, self._s = L, 0.0

    def weights(self, event: Event) -> tuple[float, float]:
        before, self._s = self._s, self._s + event.dt
        return convex_flow(before, self._s, event.dt, self.L, 0.0, 0.0)

    def steps(self) -> tuple[float, float]:
        return parameters.gamma(self.L), parameters.convex_gamma_prime(self._s, self.L, 0.0)

    def change_L(self, L: float) -> None:
        """Carry on from the same pair with another L."""
        self.L, self._s = carry_on(self._s, self.L, L, LEAST_L, MOST_L)

    def restart(self) -> None:
        """Start from time 0 again, where A = 0."""
        self._s = 0.0


class AdaptiveOptions(NamedTuple):
    """The tol, the metric, the prox and the constants, where they are known."""

    tol: float | None
    metric: Metric = Identity()
    factory: MetricFactory | None = None  # of metrics made anew on the way
    prox: Prox | None = None
    method: Method | None = None  # known constants: nothing is adapted
    record: bool = True
    certified: bool = True  # tol is a bound on f - f* where one is known
    slopes: Array | None = None  # times tol: a run ends where no entry of the gradient is larger
    trusts_guess: bool = False  # tol may be reached in the norm of a diagonal, without the Hessian
    skipping: bool = False  # known constants: no jump where a gradient is not finite
    support: SupportSolver | None = None  # of a prox that makes entries zero


class AdaptiveStepper(Stepper):
    """A run of such options, under way: one event at a time."""

    name = "continuized"
    changing = (
        "k", "t", "x", "z", "shown", "best", "last", "since", "restarts", "rejected", "in_a_row",
        "doubt_at", "shrink", "anchor", "is_lost", "schedule", "stagnation", "metric", "evaluator",
    )  # fmt: skip

    def __init__(self, problem: Problem, x0: Array, options: AdaptiveOptions) -> None:
        self.options, self.tol, self.start, self.problem = options, options.tol, x0, problem
        self.prox, self.support = options.prox, options.support
        self.restarts = self.rejected = self.since = self.skipped = 0
        self.in_a_row, self.doubt_at = 0, FIRST_DOUBT
        # A sketch is no norm to measure with: it may be far above f's own.
        dual_norm = options.factory is None or options.factory.kind != "nystrom"
        given = options.prox, options.certified, options.slopes
        self.criterion = Criterion(problem, *given, dual_norm=dual_norm)
        self.criterion_name = self.criterion.name
        self.evaluator = Evaluator(problem, x0, options.metric)
        self.metric = RunMetric(options.factory, self.evaluator, x0)
        self.x, self.z = copy(x0), copy(x0)
        self.shrink, self.anchor, self.is_small = SHRINK, math.inf, False
        self.ready: Evaluation | None = None  # of the next event, where it was evaluated before
        self.improved: Evaluation | None = None  # where the last steps on the support ended
        self.is_lost = False  # whether the last event was rejected for what was not finite there
        self.found, self.stagnation = math.inf, Stagnation()  # the criterion of now; its history
        # L is not guessed yet: where f is not finite at the start, it never is.
        self.schedule: FixedSchedule | AdaptiveSchedule = AdaptiveSchedule(1.0)

    def begin(self) -> Progress:
        start = copy(self.x)
        self.metric.make(start)
        self.best = self.last = self.evaluator.evaluate(start)
        self.first_slope, self.metric.value = norm(self.last.g), self.last.f
        value = self.evaluator.last_value
        value += 0.0 if self.prox is None else self.prox.value(start)
        # What the user is shown; with prox, the point after the last step.
        self.shown = start, value if self.prox is None else math.inf
        row = (0, 0.0, value)
        if not math.isfinite(self.last.f):  # or the square of its gradient
            self.best = self.last = self.last._replace(f=self.evaluator.last_value)
            return Progress(Status.NOT_FINITE, row)
        known = self.options.method
        near_1 = self.metric.is_the_curvature
        self.evaluator.correct = self._correct_metric if self.metric.corrects else None
        seen = 0.0 if self.support is None else self._begin_on_support(value)
        L = 1.0 if known or near_1 else seen or self.evaluator.first_L(self.last)
        self.schedule = FixedSchedule(known) if known else AdaptiveSchedule(L)
        if self.support is not None and self.support.is_done and self.improved is not None:
            return self._end_on_support(self.improved, row)
        return Progress(rows=row)

    def _begin_on_support(self, value: float) -> float:
        """Start from a better point than x0, where f + psi has this value; return what both show of
        L, 0 where it is nothing."""
        assert self.support is not None
        first, better = self.last, self.support.improve(self.evaluator, self.last, value)
        if better is None:
            return 0.0
        self.best = self.last = self.improved = better
        self.x = self.z = better.y
        return self.evaluator.least_L(first, better)

    def _end_on_support(self, at: Evaluation, row: tuple[int, float, float]) -> Progress:
        """End before the first event, at a point whose least subgradient is known to be at most
        tol: no gradient mapping is larger, and no step is taken to measure it.

        The second row is of event 0, too.
        """
        assert self.support is not None
        value, self.is_small = self.support.value, True
        self.shown = at.y, value
        rows = ([0, 0], [0.0, 0.0], [row[2], value]) if self.options.record else row
        return Progress(Status.CONVERGED, rows)

    def advance(self, events: Events) -> Progress:
        return self._event(next(events.each()))

    def _event(self, event: Event) -> Progress:
        schedule = self.schedule
        a, b = schedule.weights(event)
        # After a restart, both are one.
        y, z = (self.x, self.z) if self.x is self.z else mix(self.x, self.z, a, b)
        ready = self.ready if self.k else self.last  # the first is at the start
        at, self.ready = self.evaluator.evaluate(y) if ready is None else ready, None
        adapts = isinstance(schedule, AdaptiveSchedule)
        lost = not (math.isfinite(at.f) or adapts)
        if lost and not self.options.skipping:
            return Progress(Status.NOT_FINITE)
        self.k, self.t, self.since = event.k, event.t, self.since + 1
        value, status = at.f, None
        self.is_lost = adapts and not math.isfinite(at.f)
        if lost:
            self.x, self.z, self.skipped = y, z, self.skipped + 1
        elif adapts and not self._adapt_L(at):
            self._return_to_best()
            status = self._judge_rejected(at)
        else:
            self.in_a_row = 0
            value = self._step(at, z)
            if math.isnan(value):
                return Progress(Status.NOT_FINITE)
        return Progress(status, (self.k, self.t, value) if self.options.record else None)

    def test(self) -> Status | None:
        return Status.CONVERGED if self.is_small else None

    def _step(self, at: Evaluation, z: Array) -> float:
        """Take the jump; return f at the event, or with prox f + psi after it, estimated.

        NaN where the prox gave a point that is not finite: the point before it stays the last.
        """
        gamma, gamma_prime = self.schedule.steps()
        begins_anew = self.metric.corrects  # from y, in a metric of this event's own
        x, g, q = at[:1] + at[2:] if begins_anew else after_step(at, gamma, self.prox)
        found = at.y, at.f
        if self.prox is not None and not is_finite(x):
            return math.nan
        small = self.tol is not None and self._measure(at, x, gamma) <= self.tol
        doubtful = small and self._is_doubtful()
        small = small and not doubtful and self._bends_as_little(at, x)
        if self.prox is not None and small and at is self.improved:
            found = at.y, at.f + self.prox.value(at.y)  # zeros are zero there, and f is known
        elif self.prox is not None:
            found = x, value_after_step(self.prox, at.f, at.g, x - at.y, x, gamma)
        self.last, self.is_small = at, small
        # With prox the last one: where L is too small, the values do not say which is the best.
        if small or self.prox is not None or at.f < self.best.f:
            self.best, self.shown = at, found
        if not small and begins_anew:
            self._begin_anew(at, renew=doubtful)
        elif not small:
            self._jump(at, x, z - gamma_prime * q, g)
        return found[1]

    def _measure(self, at: Evaluation, x: Array, gamma: float) -> float:
        """Evaluate the criterion; remember how it fell, and when x moved."""
        found = self.found = self._evaluate_criterion(at, x, gamma)
        if self.since <= 1:
            self.metric.least = min(self.metric.least, found)
        self.stagnation.note(self.k, found)
        if self.k % LOOK_EVERY == 0:
            rounding = ROUNDING * self.evaluator.eps * norm(at.y)
            if norm(at.y - self.last.y) > rounding:
                self.stagnation.moved_at = self.k
        return found

    def _evaluate_criterion(self, at: Evaluation, x: Array, gamma: float) -> float:
        in_a_guess = self.metric.is_a_guess and not self.options.trusts_guess
        return self.criterion.evaluate(at, x, gamma, in_a_guess=in_a_guess)

    def _is_doubtful(self) -> bool:
        """Tell whether the criterion is small in the norm of a guess alone: the Hessian is made
        then to be sure.  A duality gap, and slopes, are the same in every metric."""
        if self.options.trusts_guess or self.criterion.slopes is not None:
            return False
        return self.metric.is_a_guess and self.criterion.strong == 0.0

    def _bends_as_little(self, at: Evaluation, x: Array) -> bool:
        """Tell whether f bends no more between a point and x than L says; where it does, L grows.

        In a bounded domain no gradient mapping is larger than L times its diameter: one that is
        small since L is too small tells nothing.
        """
        schedule, step = self.schedule, x - at.y
        square = 0.0 if self.prox is None or at is self.improved else inner(step, step)
        if not (isinstance(schedule, AdaptiveSchedule) and 0.0 < square < math.inf):
            return True
        end = self.evaluator.evaluate(x)
        bend = max(find_bends(at, end))
        rounding = ROUNDING * self.evaluator.eps * max(abs(at.f), abs(end.f))
        if bend <= 0.5 * schedule.L * square + rounding:
            return True
        schedule.change_L(2.0 * bend / square)
        self.evaluator.forget_all_but(at, end)  # beside larger ones the bend was hidden
        return False

    def _begin_anew(self, at: Evaluation, renew: bool) -> None:
        """Take a step in the metric of this event, or in another one, without momentum: where that
        is asked for, or due."""
        factory = self.metric.factory
        assert factory is not None
        if renew or self._is_metric_due():
            self._renew_metric(at)
        elif self.k > 1:
            self._begin_in_metric(at)
        else:  # along which no change of the gradient is known
            self._begin_in_metric(at, factory.find_first_L(at.y, at.g, at.q))

    def _jump(self, at: Evaluation, x: Array, z: Array, g: Array) -> None:
        if self.k == 1 and self.metric.is_the_curvature:
            self._restart_from(x)  # the metric is that of this point: as after every new one
            self.anchor = at.f
            return
        if self._is_metric_due():
            self._renew_metric(at)
            return
        if self.support is not None and self.since >= self.support.wait and self._improve(x):
            return
        against = inner(g, x - self.x) > 0.0  # not at the first event, which goes along -g from x
        if against and isinstance(self.schedule, AdaptiveSchedule):
            self.restarts += 1
            self._restart_from(x)
            return
        self.x, self.z = x, z

    def _improve(self, x: Array) -> bool:
        """Go on from a better point on the support of x, if there is one."""
        assert self.support is not None
        assert self.prox is not None
        at = self.evaluator.evaluate(x)
        value = at.f + self.prox.value(x)
        self.since, self.ready = 0, self.support.improve(self.evaluator, at, value)
        self.improved = self.ready
        if self.ready is not None:
            self._restart_from(self.ready.y)
        return self.ready is not None

    def _restart_from(self, x: Array) -> None:
        """Start again from x, without momentum."""
        assert isinstance(self.schedule, AdaptiveSchedule)
        self.x, self.z, self.anchor = x, x, math.inf
        self.schedule.restart()

    # What is adapted

    def _adapt_L(self, at: Evaluation) -> bool:
        """Adapt L to what the event shows; False where it shows harm, and is to be rejected."""
        assert isinstance(self.schedule, AdaptiveSchedule)
        if not math.isfinite(at.f):
            self.schedule.change_L(GROW * GROW * self.schedule.L)
            return False
        slack = ROUNDING * self.evaluator.eps * abs(at.f)
        if self.prox is None and at.f > self.anchor + slack:
            self.schedule.change_L(GROW * self.schedule.L)
            return False
        if math.isinf(self.anchor):
            self.anchor = at.f
        if at is self.last or self.metric.is_of_one_event:
            return True
        seen = self.evaluator.least_L(self.last, at)
        falls = at.f < self.last.f - slack or self._is_too_short(at, slack)
        L, self.shrink = adapt_L(self.schedule.L, self.shrink, seen, falls)
        self.schedule.change_L(L)
        return True

    def _is_too_short(self, at: Evaluation, slack: float) -> bool:
        """Tell whether the last step was so short that nothing can be seen of it, though the
        gradient is as large as ever: where the first guess of L was far too large."""
        is_flat = abs(at.f - self.last.f) <= slack
        return is_flat and self.evaluator.is_the_same_gradient(self.last, at)

    def _return_to_best(self) -> None:
        """Go on from the best point, with the larger L."""
        self.rejected, self.in_a_row = self.rejected + 1, self.in_a_row + 1
        gamma, _ = self.schedule.steps()
        self._restart_from(after_step(self.best, gamma, self.prox)[0])
        self.last, self.anchor = self.best, self.best.f

    def _judge_rejected(self, at: Evaluation) -> Status | None:
        """Tell why no larger L will help, after an event that was rejected; None where one may."""
        if self.in_a_row >= MOST_REJECTED:
            return Status.NO_DESCENT if math.isfinite(at.f) else Status.NOT_FINITE
        if self.rejected < self.doubt_at:
            return None
        self.doubt_at *= 4
        wrong = self.evaluator.contradicts_gradient(self.best)
        return Status.WRONG_GRADIENT if wrong else None

    def over(self) -> Status | None:
        """Return NO_MINIMUM where x goes away and the gradient stays, or where x separates the
        data; WRONG_GRADIENT where it is the gradient that led x away; PRECISION where rounding is
        all that is left, NO_DESCENT where it is so because L grew without end."""
        if self.k % LOOK_EVERY or self.k == 0:
            return None
        if self._is_all_rounding():
            # As at a kink of f.
            outgrown = self.schedule.L * math.sqrt(self.evaluator.eps)
            is_rough = outgrown > self.evaluator.first_L(self.last)
            return Status.NO_DESCENT if is_rough else Status.PRECISION
        y, look = self.last.y, is_time_to_look(self.k)
        gone = is_far(y, self.start) and norm(self.last.g) > 0.5 * self.first_slope
        # With prox no event is rejected where f rises, which would have raised this doubt.
        doubt = gone or (look and self.prox is not None)
        if doubt and self.evaluator.contradicts_gradient(self.last):
            return Status.WRONG_GRADIENT
        return Status.NO_MINIMUM if gone or (look and self._separates(y)) else None

    def _is_all_rounding(self) -> bool:
        """Tell whether the criterion has stopped falling above tol, and x moving."""
        if self.tol is None or isinstance(self.schedule, FixedSchedule):
            return False
        return self.stagnation.is_all_rounding(self.k)

    def _separates(self, x: Array) -> bool:
        """Tell whether x separates data, for f has no minimum then; with prox, f + psi may."""
        return self.prox is None and separates(self.problem, x)

    def _is_metric_due(self) -> bool:
        return self.metric.is_due(self.since, self.found, self.tol)

    def _correct_metric(self, y: Array, f: float, g: Array) -> Metric:
        """Let the metric learn of what an event shows, unless it is to be rejected; return it."""
        if self.k and f <= self.anchor + ROUNDING * self.evaluator.eps * abs(f):
            return self.metric.learn(y - self.last.y, g - self.last.g)
        return self.evaluator.metric

    def _renew_metric(self, at: Evaluation) -> None:
        self.metric.renew(at.y, self.k, self.best.f)
        self.since = 0
        self.last = self.evaluator.in_new_metric(at)
        self.best = self.last if self.best is at else self.evaluator.in_new_metric(self.best)
        self._begin_in_metric(self.last)

    def _begin_in_metric(self, at: Evaluation, L: float = 1.0) -> None:
        """Go on with a first step in the metric of now, in which L is near 1 or known."""
        assert isinstance(self.schedule, AdaptiveSchedule)
        self.schedule.change_L(L)
        self._restart_from(after_step(at, 1.0 / L, self.prox)[0])
        self.anchor = at.f

    # The end

    def report(self) -> tuple[Array, float]:
        return copy(self.shown[0]), self.shown[1]

    def describe(self) -> str:
        gap = self.criterion.gap(self.best)
        words = "" if gap is None else f", gap {gap:.2g}"
        return f"f = {self.shown[1]:.6g}{words}"

    def finish(self, status: Status | None) -> Progress:
        at = self._end(status)
        self.end, self.end_gap = self._with_prox(at), self.criterion.gap(at)
        if self.k and not math.isfinite(self.end.f):
            status, self.end = Status.NOT_FINITE, self._with_prox(self.best)
        if status is None and self.tol is None and self.is_lost:  # no step was made at the end
            status = Status.NOT_FINITE
        row = None if self.options.record else (self.k, self.t, self.end.f)
        return Progress(status, row)

    def _end(self, status: Status | None) -> Evaluation:
        """Find the point that is given back.

        With prox, f there is not known yet; with known constants it is x after the last event,
        as in every other run with them.
        """
        if self.prox is not None:
            is_known = self.shown[0] is self.last.y
            return self.last if is_known else self.evaluator.evaluate(self.shown[0])
        if status is Status.PRECISION:  # of the values of f, the lowest is so by rounding
            return self.last
        if self.options.method is None or status in (Status.CONVERGED, Status.NOT_FINITE):
            return self.best
        return self.evaluator.evaluate(self.x)

    def _with_prox(self, at: Evaluation) -> Evaluation:
        """Return the evaluation with f + psi in place of f."""
        if self.prox is None:
            return at
        is_known = self.is_small and at is self.improved  # as it is shown
        return at._replace(f=self.shown[1] if is_known else at.f + self.prox.value(at.y))

    def evaluate_criterion(self) -> float:
        """Evaluate the criterion at the end, infinity where it is not known: with prox it takes a
        step to know it, or the gap, and where it is doubtful the Hessian."""
        if self.prox is None:
            is_known = self.is_small or not self._is_doubtful()
            return self._evaluate_criterion(self.end, self.end.y, 1.0) if is_known else math.inf
        return math.inf if self.end_gap is None else self.end_gap

    def result(self, status: Status) -> dict[str, Any]:
        return {
            "x": copy(self.end.y),
            "fun": float(self.end.f),
            "jac": copy(self.end.g),
            "nfev": self.evaluator.evaluations + self.evaluator.values,
            "njev": self.evaluator.evaluations,
            "method": self.options.method or Continuized(self.schedule.L),
            "constants": self._constants(),
            "gap": self.end_gap,
            "skipped": self.skipped,
        }

    def remark(self) -> str:
        separated = SEPARATED if self._separates(self.end.y) else ""
        return separated + describe_skipped(self.skipped)

    def fingerprint(self) -> dict[str, Any]:
        """Tell what the metric and the prox do at a point, whatever they are, and the constants."""
        at, known = probe(self.start), self.options.method
        factory = self.metric.factory
        metric: Any = None if factory is None else [factory.kind, factory.corrects]
        if metric is None:
            metric = self.options.metric.solve(at.copy())
        prox = None if self.prox is None else proximal_step(self.prox, at, 1.0)
        constants = None if known is None else [known.L, known.mu]
        return {"metric": metric, "prox": prox, "constants": constants}

    def _constants(self) -> dict[str, Any]:
        metric = getattr(self.evaluator.metric, "name", "own")
        found: dict[str, Any] = {"L": self.schedule.L, "metric": metric}
        if self.metric.factory is not None:
            found.update(metric=self.metric.factory.kind, metrics_made=self.metric.count)
        if self.options.method is None:
            found.update(restarts=self.restarts, rejected=self.rejected)
            if self.restarts and self.evaluator.mu_seen <= self.schedule.L:
                found["mu_estimate"] = self.evaluator.mu_seen
        return found
