"""Real nodes that minimise together: what `network.minimize` does with a transport."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from continuized.network.faults import Faults
from continuized.network.optimisation.accuracy import Accuracy
from continuized.network.optimisation.functions import Functions
from continuized.network.optimisation.objective import Objective
from continuized.network.result import SENTENCES, Decentralized, OptimisationTrace
from continuized.network.runtime.monitor import RunMonitor
from continuized.network.runtime.real_run import (
    BUSY,
    TIMEOUT,
    RunOptions,
    assign_nodes,
    choose_speed,
    draw_seed,
    make_plan,
    run_plan,
)
from continuized.network.runtime.sketch import Sketch
from continuized.network.runtime.supervisor import Supervisor
from continuized.network.runtime.transport import RunPlan
from continuized.network.runtime.transports.forked import IS_SAFE
from continuized.problems.base import Array
from continuized.process.stepper import Status
from continuized.support import validation as check
from continuized.support.progress import announce_compilation, warn_caller

if TYPE_CHECKING:
    from continuized.network.optimisation.minimize import OptimisationTask

GRADIENTS_TO_WAIT = 20.0  # a node that takes a gradient answers nobody meanwhile
SECONDS_PER_ENTRY = 1e-9  # of a regression's rows, in a compiled gradient
LOOK_SHARE = 0.1  # of the run's own time, at most, that the error may take


class OptimisationMonitor(RunMonitor):
    """Holds real nodes as their last reports show them, and measures how far they are.

    tilt: see `NodeSet`.  Between the first and the last look, vectors of more than 1024 numbers are
    seen by their sketches alone: the excess is then not known, nor, after deaths, where nodes of
    methods with a tilt will agree.
    """

    changing = (*RunMonitor.changing, "traced")

    def __init__(
        self, plan: RunPlan, objective: Objective | Functions, tilt: float, gradients: str
    ) -> None:
        super().__init__(plan.workers, plan.dim, averaging=False)
        self.accuracy, self._tilt, self._gradients = Accuracy(objective), tilt, gradients
        self.traced: list[tuple[float, ...]] = []
        self._sketch = Sketch(plan.dim, plan.write_order(0)[0]["seed"])
        self._next_look = 0.0

    @property
    def gradients(self) -> int:
        """The gradients of all nodes, or those of conjugates that answers take."""
        return int(self.total(self._gradients))

    def begin(self) -> None:
        super().begin()
        if not self.traced:  # it does not go on from a checkpoint
            self.rows.clear()
            self.add_row()

    def complete_round(self, workers: set[int]) -> bool:
        if time.monotonic() < self._next_look:
            return False
        began = time.monotonic()
        completed = super().complete_round(workers)
        if completed:
            self._next_look = began + (time.monotonic() - began) / LOOK_SHARE
        return completed

    def add_row(self, whole: bool = True) -> None:
        whole = whole or self.margin == 0.0
        found = self._measure_whole() if whole else self._measure_sketches()
        self.error = found[0]
        if not self.living.any():  # nodes that are not finite are dead
            self.error = math.inf
        self.rows.append((self.t, self.messages, self.error))
        self.traced.append((self.t, self.messages, self.gradients, self.error, *found[1:]))

    def find_agreement(self) -> Array:
        """Return where the living will agree, from whole states."""
        alive = self.living
        with np.errstate(invalid="ignore"):
            left = (self.start[alive] + self.of_dead[alive]).sum(axis=0)
        return self.accuracy.find_agreement(alive, self._tilt * left)

    def _measure_whole(self) -> tuple[float, float, float]:
        return self.accuracy.measure(self._values(), self.find_agreement())

    def _measure_sketches(self) -> tuple[float, float, float]:
        if not self.living.any() or (self._tilt and self.deaths):
            return math.nan, math.nan, math.nan
        values, objective = self._values(whole=False), self.accuracy.objective
        agreed = self.accuracy.find_agreement(self.living, np.zeros(objective.dim))
        points = self._sketch.apply(agreed), values.mean(axis=0)
        error, consensus = (objective.error(values, point) for point in points)
        return error, math.nan, consensus

    def make_trace(self, record: int) -> OptimisationTrace:
        """Make the trace, of about so many rows at most, the last among them."""
        step = max(1, len(self.traced) // (2 * record))
        rows = self.traced[::step]
        if rows[-1] is not self.traced[-1]:
            rows.append(self.traced[-1])
        t, messages, gradients, *rest = map(np.array, zip(*rows, strict=True))
        return OptimisationTrace(t, messages.astype(np.int64), gradients.astype(np.int64), *rest)


def run_nodes(task: OptimisationTask, options: RunOptions) -> Decentralized:
    """Run the nodes as processes; see `network.minimize`."""
    graph, objective, method, speeds = task.graph, task.objective, task.method, task.speeds
    faults = Faults() if task.faults is None else task.faults
    changes = faults.changes(graph.nodes)
    if faults.absent_at_start():
        raise ValueError(
            f"node {min(faults.absent_at_start())} is to join, but real nodes are all there at the "
            "start: give it a death before"
        )
    models = objective.specify_nodes(method.kind, method.numbers(graph, objective))
    if options.transport == "local" and models[0].objects and not IS_SAFE:
        raise ValueError(
            'with transport="local" functions of your own are handed to processes by fork, which '
            'this system does not have, or not safely; give regressions, or use transport="ray"'
        )
    with announce_compilation(options.progress, "2"):
        tilt: float = models[0].make().tilt  # type: ignore[attr-defined]
        # It is compiled here, for all processes to find.
    workers = assign_nodes(graph.nodes, options.processes, {node for _, node, _ in changes})
    edge_rate = method.edge_rate(graph)
    cost = _time_gradient(objective) if method.takes_gradients else 0.0
    busiest = max(float(speeds[list(nodes)].sum()) for nodes in workers)
    chosen, stride = choose_speed(graph, None)
    chosen, stride = chosen / edge_rate, stride / edge_rate
    if options.speed is not None:
        chosen = check.real(options.speed, "speed", above=0.0)
    elif cost > 0.0:
        chosen = min(chosen, BUSY / (cost * busiest))
    plan = make_plan(
        options, graph, models, objective.dim, workers, draw_seed(task.root), faults,
        speed=chosen, stride=stride, wait=max(TIMEOUT, GRADIENTS_TO_WAIT * cost),
        edge_rate=edge_rate, step_rates=speeds.tolist() if method.takes_gradients else (),
    )  # fmt: skip
    counted = "steps" if method.takes_gradients else "answers"
    monitor = OptimisationMonitor(plan, objective, tilt, counted)
    result: Decentralized = run_plan(
        options, plan, monitor, list(changes), method.name,
        lambda supervisor: _make_result(supervisor, monitor, method, objective, task.record),
        by_t=True, most_events=math.inf if task.events is None else task.events,
    )  # fmt: skip
    planned = {node for _, node, _ in changes}
    _warn_of_failures(monitor.deaths, planned, bool(monitor.living.any()))
    return result


def _time_gradient(objective: Objective | Functions) -> float:
    """Measure the seconds that a gradient of a node takes, about: the least of a few."""
    if isinstance(objective, Objective):
        return objective.X.size / objective.nodes * SECONDS_PER_ENTRY
    w, least = np.zeros(objective.dim), math.inf
    for i in range(min(objective.nodes, 3)):
        began = time.perf_counter()
        objective.gradient(i, w.copy())
        least = min(least, time.perf_counter() - began)
    return least


def _warn_of_failures(
    deaths: Sequence[tuple[float, int, str]], planned: set[int], any_left: bool
) -> None:
    """Warn of nodes that died though nobody asked for it."""
    failed = [(node, why) for _, node, why in deaths if node not in planned]
    if failed:
        node, why = failed[0]
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        then = "the others went on" if any_left else "no node is left"
        warn_caller(f"node {node} died ({why}){more}: {then}", RuntimeWarning)


def _make_result(
    supervisor: Supervisor, monitor: OptimisationMonitor, method: Any,
    objective: Objective | Functions, record: int,
) -> Decentralized:  # fmt: skip
    ended = Status.COMPLETED
    if supervisor.reached:
        ended = Status.CONVERGED
    elif monitor.error == math.inf:
        ended = Status.NOT_FINITE
    elif monitor.events >= supervisor.most_events:
        ended = Status.MAXITER
    return Decentralized(
        x=monitor.answer.copy(),
        x_star=objective.x_star.copy(),
        t=monitor.t,
        method=method.name,
        messages=monitor.messages,
        gradients=monitor.gradients,
        tol=supervisor.tol,
        reached=supervisor.reached,
        message=SENTENCES[ended],
        error=monitor.error,
        trace=monitor.make_trace(record),
        rate_theory=math.nan,
        agreed=monitor.find_agreement().copy(),
        deaths=[(t, node) for t, node, _ in monitor.deaths],
        joins=monitor.joins,
        ledger_error=monitor.worst_ledger_error,
        staleness=monitor.staleness(),
        rounding=monitor.accuracy.rounding,
        log=supervisor.merge_log(),
        dropped=monitor.all_dropped,
    )
