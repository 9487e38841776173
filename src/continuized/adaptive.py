"""The loop for unknown constants, metrics and proximal steps: one gradient an event.

Unknown L: two gradients show that L is at least

    |g - g'|^2 / (2 d),    d = f(y') - f(y) - <g, y' - y>,

for a convex f that is L-smooth, whichever of the two points is y (norms are those of the metric
and its dual).  Every event is compared with the one before, so that L grows without a further
evaluation.  It shrinks at every event that shows no need for it, by less each time that this
proved wrong.  Where f has risen above its value where the momentum began, L grows, the event is
rejected, and the run goes back to the best point: that costs an evaluation.

Unknown mu: the convex parameters with restarts, where the step goes against the last one
(the gradient test) or f has risen (the function test, as above).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from continuized import clock as clocks
from continuized.curvature import Source
from continuized.driver import Callback, Limits
from continuized.flow import mix
from continuized.methods import Continuized, Method
from continuized.metric import Identity, Metric
from continuized.pace import Carried, Known
from continuized.problems.base import Array, Problem
from continuized.problems.threads import inner, norm
from continuized.progress import Bar
from continuized.prox import Prox
from continuized.result import Result, Status, Trace, intermediate_result

SHRINK = 0.9  # of L, at an event that shows no need for it; at first
GROW = 2.0  # of L, where f has risen
ROUNDING = 64.0  # epsilons: differences below are not looked at
PROBE = 1e-4  # of the length of x, the step of the first guess of L


class Point(NamedTuple):
    """Where f was evaluated: the point, f, its gradient g, and P^-1 g."""

    y: Array
    f: float
    g: Array
    q: Array


class Setting(NamedTuple):
    """What a run is made of, beside the problem and the clock."""

    limits: Limits
    metric: Metric = Identity()
    source: Source | None = None  # of metrics made anew on the way
    prox: Prox | None = None
    method: Method | None = None  # known constants: nothing is adapted
    record: bool = True


def run(
    problem: Problem,
    x0: Array,
    stream: clocks.Stream,
    setting: Setting,
    callback: Callback | None,
    bar: Bar,
) -> Result:
    """Events until the measure is at most tol, or maxiter of them are done."""
    return _Run(problem, x0, stream, setting, callback, bar).go()


class _Run:
    def __init__(
        self,
        problem: Problem,
        x0: Array,
        stream: clocks.Stream,
        setting: Setting,
        callback: Callback | None,
        bar: Bar,
    ) -> None:
        self.problem, self.stream, self.setting = problem, stream, setting
        self.callback, self.bar = callback, bar
        self.shape, self.dtype = x0.shape, x0.dtype
        self.eps = float(np.finfo(x0.dtype).eps)
        self.limits, self.prox, self.source = setting.limits, setting.prox, setting.source
        self.evaluations = self.restarts = self.rejected = self.since = 0
        self.metrics_made = 0
        self.metric = setting.metric
        self.x, self.z = x0.copy(), x0.copy()
        self.k, self.t = 0, 0.0
        self.largest, self.mu_seen, self.shrink = 0.0, math.inf, SHRINK
        self.rows: list[tuple[int, float, float]] = []

    # Evaluations

    def _evaluate(self, y: Array) -> Point:
        self.evaluations += 1
        f, g = self.problem.value_and_gradient(y.copy())
        g = self._checked(g)
        if not (math.isfinite(f) and np.all(np.isfinite(g))):
            return Point(y, math.inf, g, g)
        q = self.metric.solve(g)
        self.largest = max(self.largest, inner(g.ravel(), q.ravel()))
        return Point(y, f, g, q)

    def _checked(self, g: Any) -> Array:
        array = np.asarray(g)
        if array.dtype.kind not in "fiu":
            raise TypeError(f"the gradient must hold real numbers, got dtype {array.dtype}")
        if array.shape != self.shape:
            raise ValueError(
                f"the gradient must have the shape of x, {self.shape}, got {array.shape}"
            )
        return array.astype(self.dtype, copy=True)

    def _first_L(self, at: Point) -> float:
        """By a short step along the gradient; near 1 where the metric is the curvature."""
        if self.source is not None and self.source.kind != "diag":
            return 1.0
        length = norm(at.q)
        if length == 0.0:
            return 1.0
        step = PROBE * max(norm(at.y), 1.0) / length
        probe = self._evaluate((at.y - step * at.q).astype(self.dtype))
        seen = self._seen_L(at, probe) if math.isfinite(probe.f) else 0.0
        return seen if seen > 0.0 else 1.0 / step

    # The loop

    def go(self) -> Result:
        start = self.x.copy()
        if self.source is not None:
            self._make_metric(start)
        self.last = self._evaluate(start)
        self.rows.append((0, 0.0, self._total(self.last)))
        if not math.isfinite(self.last.f):
            return self._result(Status.NOT_FINITE, self.last)
        self.best, self.anchor = self.last, math.inf
        known = self.setting.method
        self.pace = Known(known) if known else Carried(self._first_L(self.last))
        status = None
        while status is None and self.k < self.limits.maxiter:
            events = self.stream.draw(1)
            if events.size == 0:
                status = Status.CLOCK_ENDED
                break
            status = self._event(next(events.each()))
        return self._result(status, self.last if status is Status.CONVERGED else self.best)

    def _event(self, event: clocks.Event) -> Status | None:
        a, b = self.pace.weights(event)
        y, z = mix(self.x, self.z, a, b)
        at = self._evaluate(y) if self.k else self.last  # the first is at the start
        self.k, self.t, self.since = event.k, event.t, self.since + 1
        status = None
        if isinstance(self.pace, Carried) and not self._accepted(at):
            self._back()
        elif not math.isfinite(at.f):
            return Status.NOT_FINITE
        else:
            status = self._step(at, z)
        if self.setting.record:
            self.rows.append((self.k, self.t, self._total(at)))
        if self.callback is not None and self._stopped():
            status = status or Status.CALLBACK
        self.bar(self.k, f"f = {self.best.f:.6g}, {self.measured} {self._measure(at):.2g}")
        return status

    def _step(self, at: Point, z: Array) -> Status | None:
        if at.f < self.best.f:
            self.best = at
        gamma, gamma_prime = self.pace.steps()
        x, g, q = self._moved(at, gamma)
        self.last = at
        if self.limits.tol is not None and self._small(at, x, gamma):
            return Status.CONVERGED
        if self.source is not None and self.since >= self.source.steps:
            self._renew_metric(at)
            return None
        against = self.k > 1 and inner(g.ravel(), (x - self.x).ravel()) > 0.0
        if against and isinstance(self.pace, Carried):
            self.restarts += 1
            self._begin(x)
            return None
        self.x, self.z = x, z - gamma_prime * q
        return None

    def _moved(self, at: Point, gamma: float) -> tuple[Array, Array, Array]:
        """x after the step, the gradient (or gradient mapping) and P^-1 times it."""
        x = at.y - gamma * at.q
        if self.prox is None:
            return x, at.g, at.q
        x = self.prox(x, gamma)
        mapping = (at.y - x) / gamma
        return x, mapping, mapping

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
        slack = ROUNDING * self.eps * abs(at.f)
        if self.prox is None and at.f > self.anchor + slack:
            self.pace.change_L(GROW * self.pace.L)
            return False
        self.anchor = min(self.anchor, at.f) if math.isinf(self.anchor) else self.anchor
        if at is self.last:
            return True
        seen = self._seen_L(self.last, at)
        if seen > self.pace.L:
            self.shrink = math.sqrt(self.shrink)
            self.pace.change_L(seen)
        elif seen > 0.0:
            self.pace.change_L(max(self.shrink * self.pace.L, seen))
        return True

    def _seen_L(self, one: Point, two: Point) -> float:
        """The least L that two points allow; 0 where rounding hides it."""
        dg, dy = two.g - one.g, two.y - one.y
        change = inner(dg.ravel(), (two.q - one.q).ravel())
        along = inner(dg.ravel(), dy.ravel())
        if not change > (ROUNDING * self.eps) ** 2 * self.largest or not along > 0.0:
            return 0.0
        if isinstance(self.metric, Identity):
            self.mu_seen = min(self.mu_seen, along / inner(dy.ravel(), dy.ravel()))
        up = two.f - one.f - inner(one.g.ravel(), dy.ravel())
        down = one.f - two.f + inner(two.g.ravel(), dy.ravel())
        if min(up, down) > ROUNDING * self.eps * max(abs(one.f), abs(two.f)):
            return 0.5 * change / min(up, down)
        return change / along  # the sum of the two needs no f

    def _back(self) -> None:
        """To the best point, with the larger L."""
        self.rejected += 1
        gamma, _ = self.pace.steps()
        x, _, _ = self._moved(self.best, gamma)
        self._begin(x)
        self.last, self.anchor = self.best, self.best.f

    def _make_metric(self, w: Array) -> None:
        assert self.source is not None
        self.metric = self.source.at(w, self.metrics_made)
        self.metrics_made += 1
        self.since = 0

    def _renew_metric(self, at: Point) -> None:
        assert isinstance(self.pace, Carried)
        self._make_metric(at.y)
        self.last = at._replace(q=self.metric.solve(at.g))
        self.best = self.last if self.best is at else self.best._replace(
            q=self.metric.solve(self.best.g)
        )  # fmt: skip
        self.largest = inner(at.g.ravel(), self.last.q.ravel())
        self.pace.change_L(1.0)
        self._begin(self._moved(self.last, 1.0)[0])
        self.anchor = at.f

    # Stopping

    @property
    def certificate(self) -> float:
        """The strong convexity that turns a gradient into a duality gap; 0 where none is known."""
        problem: Any = self.problem
        if self.prox is not None or not hasattr(problem, "curvature"):
            return 0.0
        return 0.0 if getattr(problem, "intercept", False) else float(problem.l2)

    @property
    def measured(self) -> str:
        return "duality gap" if self.certificate > 0.0 else "gradient norm"

    def _measure(self, at: Point) -> float:
        """What tol is compared with.

        For the mean of losses plus l2/2 |w|^2, the dual point made of the slopes of the losses
        at w has the duality gap |g|^2 / (2 l2): Fenchel's inequality is an equality there.
        """
        if self.certificate > 0.0:
            return 0.5 * inner(at.g.ravel(), at.g.ravel()) / self.certificate
        return norm(at.g)

    def _small(self, at: Point, x: Array, gamma: float) -> bool:
        assert self.limits.tol is not None
        if self.prox is None:
            return self._measure(at) <= self.limits.tol
        return norm(at.y - x) / gamma <= self.limits.tol

    def _stopped(self) -> bool:
        assert self.callback is not None
        try:
            self.callback(intermediate_result(self.best.y.copy(), self.best.f, self.k, self.t))
        except StopIteration:
            return True
        return False

    def _total(self, at: Point) -> float:
        return at.f if self.prox is None else at.f + self.prox.value(at.y)

    def _result(self, status: Status | None, at: Point) -> Result:
        if status is None:
            status = Status.COMPLETED if self.limits.tol is None else Status.MAXITER
        x, f, g = at.y, at.f, at.g
        if self.prox is not None and math.isfinite(f):
            x = self._moved(at, 1.0 / self.pace.L)[0]
            self.evaluations += 1
            f, g = self.problem.value_and_gradient(x.copy())
            f += self.prox.value(x)
        if not self.setting.record:
            self.rows.append((self.k, self.t, f))
        k, t, fun = (np.array(column) for column in zip(*self.rows, strict=True))
        return Result(
            x=x.copy(),
            fun=float(f),
            jac=np.asarray(g).copy(),
            nit=self.k,
            nfev=self.evaluations,
            njev=self.evaluations,
            success=status.success,
            status=status,
            message=status.value.replace("gradient norm", self.measured),
            trace=Trace(k, t, fun),
            path=None,
            method=self._method(),
            constants=self._constants(),
            gap=self._measure(at) if self.certificate > 0.0 else None,
        )

    def _method(self) -> Method:
        known = self.setting.method
        return known if known is not None else Continuized(max(self._L, 5e-324))

    @property
    def _L(self) -> float:
        return self.pace.L if hasattr(self, "pace") else math.nan

    def _constants(self) -> dict[str, Any]:
        found: dict[str, Any] = {"L": self._L, "metric": getattr(self.metric, "name", "own")}
        if self.source is not None:
            found["metrics_made"] = self.metrics_made
        if self.setting.method is None:
            found.update(restarts=self.restarts, rejected=self.rejected)
            if self.restarts and math.isfinite(self.mu_seen):
                found["mu_estimate"] = self.mu_seen
        return found
