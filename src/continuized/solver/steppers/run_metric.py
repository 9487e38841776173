"""The metric of a run: made at its start, made anew on the way, and corrected between the two."""

from __future__ import annotations

import math

from continuized.problems.base import Array
from continuized.solver.array_api import copy
from continuized.solver.metric import Metric, Secant
from continuized.solver.metric_factory import MetricFactory
from continuized.solver.steppers.evaluations import Evaluator
from continuized.support.checkpoints.state import Checkpointed

MOST_CHANGES = 10  # of the gradient, by which a metric is corrected


class RunMetric(Checkpointed):
    """What a factory makes for a run, and gives to its evaluator; without one, that has its own.

    kind: of the metric of now, "" without a factory.  count: how many were made.  corrects: whether
    it is corrected by what events show.
    """

    changing = ("kind", "count", "made_at", "value", "last_fall", "least", "changes")

    def __init__(self, factory: MetricFactory | None, evaluator: Evaluator, x0: Array) -> None:
        self.factory, self._evaluator = factory, evaluator
        self.kind = "" if factory is None else factory.first_kind
        self.corrects = factory is not None and factory.corrects
        self.count, self.made_at = 0, copy(x0)
        # f where it was made, by how much f fell in the one before, and the criterion at first.
        self.value = self.last_fall = self.least = math.inf
        # Of x and its gradient, the last ones: by these it is corrected.
        self.changes: list[tuple[Array, Array]] = []
        self._made: Metric

    @property
    def is_the_curvature(self) -> bool:
        """Whether it is made to be the curvature, so that L is near 1."""
        return self.corrects or self.kind not in ("", "diag")

    @property
    def is_a_guess(self) -> bool:
        """Whether its norm may be far below that of the Hessian, which the factory can make: the
        diagonal knows nothing of columns that are much alike, such as two of large means."""
        leaves = self.factory is not None and self.factory.leaves_diagonal
        return self.corrects and self.kind == "diag" and leaves

    @property
    def is_of_one_event(self) -> bool:
        """Whether each event has a metric of its own: L is 1 then, unless f rises."""
        if self.factory is None:
            return False
        return self.corrects or self.factory.steps[self.kind] <= 1.0

    def make(self, w: Array) -> None:
        """Make the metric at w, where there is a factory."""
        if self.factory is not None:
            self._made = self.factory.build(w, self.count, self.kind)
            self._evaluator.change_metric(self._correct())
            self.made_at, self.least, self.count = w, math.inf, self.count + 1

    def _correct(self) -> Metric:
        """Return the metric that was made, corrected by what was learnt since."""
        return Secant(self._made, self.changes, MOST_CHANGES) if self.changes else self._made

    def learn(self, dy: Array, dg: Array) -> Metric:
        """Correct it by a change of x and of its gradient; return it."""
        change = dy.ravel(), dg.ravel()
        self.changes = [*self.changes[1 - MOST_CHANGES :], change]
        metric = self._evaluator.metric
        if not isinstance(metric, Secant):
            return self._correct()
        metric.learn(*change)
        return metric

    def is_due(self, since: int, found: float, tol: float | None) -> bool:
        """Tell whether it has stayed for as many steps as it should; if it is corrected, also
        whether the steps to tol, at the pace of now, would cost more than another one.

        found: the criterion of now.
        """
        if self.factory is None:
            return False
        left = self._steps_left(since, found, tol)
        if since < self.factory.steps_before_renewal(self.kind, left):
            return False
        return math.isinf(left) or left > self.factory.renewal_cost(self.kind)

    def _steps_left(self, since: int, found: float, tol: float | None) -> float:
        """How many steps it takes to tol at the pace of now; infinity where the criterion does not
        fall, there is no tol, or the metric does not learn."""
        if not (self.corrects and tol and 0.0 < found < self.least < math.inf):
            return math.inf
        pace = math.log(self.least / found) / since
        return math.log(found / tol) / pace

    def renew(self, w: Array, k: int, value: float) -> None:
        """Make another one at w after k events, f having come down to this value."""
        assert self.factory is not None
        fall = self.value - value
        fell = fall / self.last_fall if self.last_fall > 0.0 else 0.0
        self.kind = self.factory.next_kind(self.kind, k, fell)
        self.value, self.last_fall = value, fall
        self.make(w)

    def after_restoring(self) -> None:
        """Make it again from where it was made; the evaluator remembers what it has seen."""
        if self.kind not in ({""} if self.factory is None else self.factory.kinds):
            raise ValueError("the metric is none that such a run makes")
        if self.factory is not None:
            self._made = self.factory.build(self.made_at, self.count - 1, self.kind)
            self._evaluator.metric = self._correct()
