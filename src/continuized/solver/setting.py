"""What a run of `adaptive` is made of, beside the problem and the clock."""

from __future__ import annotations

from typing import Any, NamedTuple

from continuized.problems.base import Array
from continuized.process.methods import Method
from continuized.process.prox import Prox, proximal_step
from continuized.solver.metric import Identity, Metric
from continuized.solver.metric_factory import Source
from continuized.solver.stopping import Limits


class Setting(NamedTuple):
    """The limits, the metric, the prox and the constants, where they are known."""

    limits: Limits
    metric: Metric = Identity()
    source: Source | None = None  # of metrics made anew on the way
    prox: Prox | None = None
    method: Method | None = None  # known constants: nothing is adapted
    record: bool = True
    certified: bool = True  # tol is a bound on f - f* where one is known
    skipping: bool = False  # known constants: no jump where a gradient is not finite

    def identity(self, probe: Array) -> dict[str, Any]:
        """What a checkpoint knows the run by: what the metric and prox do, whatever they are."""
        kind = None if self.source is None else self.source.kind
        metric = self.metric.solve(probe.copy()) if kind is None else kind
        prox = None if self.prox is None else proximal_step(self.prox, probe, 1.0)
        constants = None if self.method is None else [self.method.L, self.method.mu]
        return {"metric": metric, "prox": prox, "constants": constants}
