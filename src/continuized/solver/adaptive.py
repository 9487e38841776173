"""The loop for unknown constants, metrics and proximal steps: one gradient an event.

Unknown L: every event is compared with the one before, which shows how large L is at least
(`points.Points.least_L`), so that L grows without a further evaluation.  It shrinks at every
event that shows no need for it, by less each time that this proved wrong.  Where f has risen
above its value where the momentum began, L grows, the event is rejected, and the run goes back to
the best point: that costs an evaluation.

Unknown mu: the convex parameters with restarts, where the step goes against the last one
(the gradient test) or f has risen (the function test, as above).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.process import clock as clocks
from continuized.process.flow import mix
from continuized.process.methods import Continuized
from continuized.process.prox import value_after_step
from continuized.solver.array_api import copy, inner
from continuized.solver.constant_checks import skipped_sentence
from continuized.solver.evaluations import ROUNDING, Point, Points, after_step
from continuized.solver.result import Result, Status, Trace
from continuized.solver.schedule import Carried, Known
from continuized.solver.setting import Setting
from continuized.solver.stopping import Callback, Measure, called_back, status_at_end
from continuized.support.checkpoints.checkpointer import (
    AnyKeeper,
    Rows,
    State,
    check_events,
    nowhere,
)
from continuized.support.progress import Bar, silent

SHRINK = 0.9  # of L, at an event that shows no need for it; at first
GROW = 2.0  # of L, where f has risen

# What a checkpoint keeps beside arrays, the pace and the stream.
PLAIN = ("k", "t", "since", "metrics_made", "restarts", "rejected", "shrink", "anchor")


class Run:
    """A run of such a setting, under way."""

    def __init__(
        self,
        problem: Problem,
        x0: Array,
        stream: clocks.Stream,
        setting: Setting,
        callback: Callback | None = None,
        bar: Bar = silent,
        keeper: AnyKeeper = nowhere,
    ) -> None:
        self.stream, self.setting = stream, setting
        self.callback, self.bar, self.keeper = callback, bar, keeper
        self.limits, self.prox, self.source = setting.limits, setting.prox, setting.source
        self.restarts = self.rejected = self.since = self.metrics_made = self.skipped = 0
        self.measure = Measure(problem, setting.prox, setting.certified)
        self.measure.dual_norm = self.source is None or self.source.kind != "nystrom"
        self.points = Points(problem, x0, setting.metric)
        self.x, self.z = copy(x0), copy(x0)
        self.k, self.t = 0, 0.0
        self.shrink, self.anchor = SHRINK, math.inf
        self.metric_from = x0
        self.rows: list[tuple[int, float, float]] = []

    def go(self) -> Result:
        """Events until the measure is at most tol, or maxiter of them are done."""
        start = copy(self.x)
        if self.source is not None:
            self._make_metric(start)
        self.best = self.last = self.points.at(start)
        value = self.last.f + (0.0 if self.prox is None else self.prox.value(start))
        self.rows.append((0, 0.0, value))
        # What the user is shown; with prox, the point after the last step.
        self.shown = start, value if self.prox is None else math.inf
        if not math.isfinite(self.last.f):
            return self._result(Status.NOT_FINITE)
        known = self.setting.method
        # In a metric that is made to be the curvature, L is near 1.
        near_1 = self.source is not None and self.source.kind != "diag"
        L = 1.0 if known or near_1 else self.points.first_L(self.last)
        self.pace = Known(known) if known else Carried(L)
        status = None
        with self.keeper.over(self):
            while status is None and self.k < self.limits.maxiter:
                events = self.stream.draw(1)
                if events.size == 0:
                    break
                status = self._event(next(events.each()))
                if self.keeper.on and status in (None, Status.CALLBACK):
                    self.keeper.between(self)
        return self._result(status)

    def state(self) -> State:
        """Between two events."""
        plain = {name: getattr(self, name) for name in PLAIN}
        plain |= {"pace": self.pace.state(), "stream": self.stream.state()}
        plain |= {"points": self.points.state(), "shown": self.shown[1]}
        plain |= {"best": self.best.f, "last": self.last.f}
        arrays = {"x": self.x, "z": self.z, "shown": self.shown[0], "metric_from": self.metric_from}
        for name, point in (("best", self.best), ("last", self.last)):
            arrays |= {f"{name}_y": point.y, f"{name}_g": point.g, f"{name}_q": point.q}
        return State(plain, arrays | {"rows": Rows(self.rows, len(self.rows))})

    def restore(self, state: State) -> None:
        """Go on from there, with the tol of now.  A metric is made again, from where it was."""
        plain, arrays = state
        check_events(plain["k"], self.limits.maxiter)
        for name in PLAIN:
            setattr(self, name, plain[name])
        if self.source is not None:
            self.metric_from = arrays["metric_from"]
            self.points.change_metric(self.source.at(self.metric_from, self.metrics_made - 1))
        self.pace.restore(plain["pace"])
        self.points.restore(plain["points"])
        self.stream.restore(plain["stream"])
        self.x, self.z, self.shown = arrays["x"], arrays["z"], (arrays["shown"], plain["shown"])
        self.best, self.last = (
            Point(arrays[f"{name}_y"], plain[name], arrays[f"{name}_g"], arrays[f"{name}_q"])
            for name in ("best", "last")
        )
        self.rows = [(int(k), float(t), float(f)) for k, t, f in arrays["rows"].reshape(-1, 3)]

    def _event(self, event: clocks.Event) -> Status | None:
        a, b = self.pace.weights(event)
        y, z = mix(self.x, self.z, a, b)
        at = self.points.at(y) if self.k else self.last  # the first is at the start
        lost = not (math.isfinite(at.f) or isinstance(self.pace, Carried))
        if lost and not self.setting.skipping:
            return Status.NOT_FINITE
        self.k, self.t, self.since = event.k, event.t, self.since + 1
        status, value = None, at.f
        if lost:
            self.x, self.z, self.skipped = y, z, self.skipped + 1
        elif isinstance(self.pace, Carried) and not self._accepted(at):
            self._back()
        else:
            status, value = self._step(at, z)
        if self.setting.record:
            self.rows.append((self.k, self.t, value))
        if self.callback is not None:
            shown = (copy(self.shown[0]), self.shown[1], self.k, self.t)
            stopped = called_back(self.callback, *shown)
            status = status or stopped
        if self.bar is not silent:
            gap = self.measure.gap(self.best)
            words = "" if gap is None else f", gap {gap:.2g}"
            self.bar(self.k, f"f = {self.shown[1]:.6g}{words}")
        return status

    def _step(self, at: Point, z: Array) -> tuple[Status | None, float]:
        """The jump; and f at the event, with prox that of f + h after it, estimated."""
        gamma, gamma_prime = self.pace.steps()
        x, g, q = after_step(at, gamma, self.prox)
        found = at.y, at.f
        if self.prox is not None:
            found = x, value_after_step(self.prox, at.f, at.g, x - at.y, x, gamma)
        small = self.limits.tol is not None and self.measure.at(at, x, gamma) <= self.limits.tol
        self.last = at
        # With prox the last one: where L is too small, the values do not say which is the best.
        if small or self.prox is not None or at.f < self.best.f:
            self.best, self.shown = at, found
        if small:
            return Status.CONVERGED, found[1]
        self._jump(at, x, z - gamma_prime * q, g)
        return None, found[1]

    def _jump(self, at: Point, x: Array, z: Array, g: Array) -> None:
        if self.source is not None and self.since >= self.source.steps:
            self._renew_metric(at)
            return
        against = self.k > 1 and inner(g, x - self.x) > 0.0
        if against and isinstance(self.pace, Carried):
            self.restarts += 1
            self._begin(x)
            return
        self.x, self.z = x, z

    def _begin(self, x: Array) -> None:
        """The momentum anew from x."""
        assert isinstance(self.pace, Carried)
        self.x, self.z, self.anchor = x, x, math.inf
        self.pace.restart()

    # What is adapted

    def _accepted(self, at: Point) -> bool:
        """Whether the event shows no harm; adapts L."""
        assert isinstance(self.pace, Carried)
        if not math.isfinite(at.f):
            self.pace.change_L(GROW * GROW * self.pace.L)
            return False
        slack = ROUNDING * self.points.eps * abs(at.f)
        if self.prox is None and at.f > self.anchor + slack:
            self.pace.change_L(GROW * self.pace.L)
            return False
        if math.isinf(self.anchor):
            self.anchor = at.f
        if at is self.last:
            return True
        seen = self.points.least_L(self.last, at)
        if seen > self.pace.L:
            self.shrink = math.sqrt(self.shrink)
            self.pace.change_L(seen)
        elif seen > 0.0:
            self.pace.change_L(max(self.shrink * self.pace.L, seen))
        return True

    def _back(self) -> None:
        """To the best point, with the larger L."""
        self.rejected += 1
        gamma, _ = self.pace.steps()
        self._begin(after_step(self.best, gamma, self.prox)[0])
        self.last, self.anchor = self.best, self.best.f

    def _make_metric(self, w: Array) -> None:
        assert self.source is not None
        self.points.change_metric(self.source.at(w, self.metrics_made))
        self.metric_from = w
        self.metrics_made += 1
        self.since = 0

    def _renew_metric(self, at: Point) -> None:
        assert isinstance(self.pace, Carried)
        self._make_metric(at.y)
        self.last = self.points.again(at)
        self.best = self.last if self.best is at else self.points.again(self.best)
        self.pace.change_L(1.0)
        self._begin(after_step(self.last, 1.0, self.prox)[0])
        self.anchor = at.f

    # Stopping

    def _end(self, status: Status | None) -> Point:
        """The point that is given back.

        With prox, f there is not known yet; with known constants it is x after the last event,
        as in every other run with them.
        """
        if self.prox is not None:
            end = self.points.at(self.shown[0])
            return end._replace(f=end.f + self.prox.value(end.y))
        if self.setting.method is None or status in (Status.CONVERGED, Status.NOT_FINITE):
            return self.best
        end = self.points.at(self.x)
        return end if math.isfinite(end.f) else self.best

    def _measured_at(self, at: Point) -> float:
        """At the end; with prox it takes a step to know."""
        return self.measure.at(at, at.y, 1.0) if self.prox is None else math.inf

    def _result(self, status: Status | None) -> Result:
        at = self._end(status)
        if status is None:
            status = status_at_end(self.limits, self.k, lambda: self._measured_at(at))
        if not self.setting.record:
            self.rows.append((self.k, self.t, at.f))
        k, t, fun = (np.array(column) for column in zip(*self.rows, strict=True))
        return Result(
            x=copy(at.y),
            fun=float(at.f),
            jac=copy(at.g),
            nit=self.k,
            nfev=self.points.evaluations,
            njev=self.points.evaluations,
            success=status.success,
            status=status,
            message=self.measure.sentence(status, at.y) + skipped_sentence(self.skipped),
            trace=Trace(k, t, fun),
            path=None,
            method=self.setting.method or Continuized(self._L),
            constants=self._constants(),
            gap=self.measure.gap(at),
            skipped=self.skipped,
        )

    @property
    def _L(self) -> float:
        return self.pace.L if hasattr(self, "pace") else 1.0  # the run ended before a guess

    def _constants(self) -> dict[str, Any]:
        found: dict[str, Any] = {"L": self._L, "metric": getattr(self.points.metric, "name", "own")}
        if self.source is not None:
            found.update(metric=self.source.kind, metrics_made=self.metrics_made)
        if self.setting.method is None:
            found.update(restarts=self.restarts, rejected=self.rejected)
            if self.restarts and math.isfinite(self.points.mu_seen):
                found["mu_estimate"] = self.points.mu_seen
        return found
