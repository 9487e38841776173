"""The loop of a real run: it hears reports, kills and revives as asked, and ends in time."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.analysis import (
    StalenessWarning,
    delay_limit,
    share_limit,
    too_stale,
)
from continuized.network.gossip import Gossip
from continuized.network.result import SENTENCES, Log, Outcome
from continuized.network.runtime.merge_logs import NO_ENTRIES, merge_logs
from continuized.network.runtime.monitor import RunMonitor
from continuized.network.runtime.transport import RunPlan, Transport
from continuized.process.stepper import Status
from continuized.support.progress import Bar, warn_caller

SILENT = 10.0  # seconds after which a worker that says nothing is ended
START_WITHIN = 120.0  # seconds for all workers to report, imports from a cold disk included
SETTLE_WITHIN = 3.0  # seconds at the end, for exchanges under way to be finished
FINAL_WITHIN = 5.0
WAIT_AT_MOST = 0.05  # seconds for one report
SOON = 300.0  # units of t before the share of exchanges is looked at
DEVIATIONS = 3.0  # by which it must be too small: chance alone should not decide
OLD = 0.5  # theta times age: below, what mixing does to an answer until it is used is small


@dataclass
class Supervisor:
    """Runs the workers of one plan, from their start to their last reports.

    The run ends at an error of `tol` or after so many `seconds`.
    """

    transport: Transport
    plan: RunPlan
    monitor: RunMonitor
    changes: list[tuple[float, int, bool]]  # to come: (seconds, node, whether it comes back)
    tol: float
    seconds: float
    watched: Gossip | None  # the method to watch for staleness; None: nothing to watch
    show_progress: Bar
    by_t: bool = False  # changes come by t, as in a simulation, and none is waited for
    most_events: float = math.inf  # exchanges and gradients, at most
    wall: float = 0.0
    reached: bool = False
    plain: bool = False  # whether nodes went on as plain gossip
    _log: list[NDArray[Any]] = field(default_factory=list)
    _rejoining: set[int] = field(default_factory=set)  # started again, not yet heard of
    _reasons: dict[int, str] = field(default_factory=dict)
    _warned: bool = False

    def __post_init__(self) -> None:
        self._worker_of = dict(self.plan.assignments())
        self._running: set[int] = set()  # the workers that have started and not ended
        self._addresses: dict[int, Any] = {}

    def run(self) -> None:
        """Start the workers, follow them until the run is over, and collect their last reports."""
        count = len(self.plan.workers)
        self.transport.start(self.plan)
        if not self._wait_until(lambda: len(self._addresses) == count, START_WITHIN):
            raise TimeoutError(
                f"{count - len(self._addresses)} of {count} processes did not start within "
                f"{START_WITHIN:.0f} s: give fewer with processes="
            )
        self.monitor.begin()
        began = time.monotonic()
        while not self._is_over(time.monotonic() - began):
            self._handle_next_report()
            self._end_silent_workers()
        self.wall = time.monotonic() - began
        self.transport.broadcast({"quiet": True})
        self._wait_until(lambda: self._all_running(self.monitor.idle), SETTLE_WITHIN)
        self.transport.broadcast({"end": True})
        if not self._wait_until(lambda: self._all_running(self.monitor.final), FINAL_WITHIN):
            for worker in [w for w in self._running if not self.monitor.final[w]]:
                self._lose_worker(worker, "it gave no last report")
        self.monitor.add_row()
        if self.monitor.margin > 0.0:  # the error of the last look was near the true one, no more
            self.reached = self.monitor.error <= self.tol
        if strangers := int(self.monitor.strangers.sum()):
            warn_caller(
                f"{strangers} connections of strangers to the ports of this run were ended, for "
                "they sent nothing of it in time; see which programs connect to 127.0.0.1",
                RuntimeWarning,
            )

    def make_outcome(self, method: str, shape: tuple[int, ...]) -> Outcome:
        """Build the result of the run."""
        monitor = self.monitor
        ended = Status.COMPLETED if monitor.living.any() else Status.CLOCK_ENDED
        return Outcome(
            x=(monitor.x if monitor.averaging else monitor.answer).reshape(shape),
            z=monitor.z.reshape(shape),
            t=monitor.t,
            method=method,
            messages=monitor.messages,
            tol=self.tol,
            reached=self.reached,
            message=SENTENCES[Status.CONVERGED if self.reached else ended],
            error=monitor.error,
            trace=monitor.trace,
            deaths=monitor.deaths,
            joins=monitor.joins,
            ledger_error=monitor.ledger_error(),
            mean_drift=monitor.drift(),
            events_per_s=monitor.messages / max(self.wall, 1e-9),
            staleness=monitor.staleness(),
            dropped=int(monitor.dropped.sum()),
            fell_back=self.plain,
            rounding=monitor.rounding(),
            log=self.merge_log(),
        )

    def merge_log(self) -> Log | None:
        """Merge what nodes have logged; None where no log was kept, or a part of it is lost."""
        return merge_logs(np.concatenate([NO_ENTRIES, *self._log])) if self.plan.log else None

    def _all_running(self, flags: NDArray[Any]) -> bool:
        return all(flags[worker] for worker in self._running)

    def _is_over(self, elapsed: float) -> bool:
        if elapsed >= self.seconds or not self.monitor.living.any():
            return True
        if self.monitor.error == math.inf or self.monitor.events >= self.most_events:
            return True
        while self.changes and self.changes[0][0] <= (self.monitor.t if self.by_t else elapsed):
            _, node, back = self.changes[0]
            if back and self.monitor.living[node]:
                break  # its end was not heard of yet
            del self.changes[0]
            if back:
                self._revive(node)
            else:
                self.transport.kill(self._worker_of[node])
        if (self.changes and not self.by_t) or self._rejoining:
            return False  # what was asked for is still to come
        self.reached = self.monitor.error <= (1.0 - self.monitor.margin) * self.tol
        return self.reached

    def _wait_until(self, done: Callable[[], bool], seconds: float) -> bool:
        limit = time.monotonic() + seconds
        while not done():
            if time.monotonic() >= limit:
                return False
            self._handle_next_report()
        return True

    def _handle_next_report(self) -> None:
        """Wait a little for a report, and act on it."""
        report = self.transport.next_report(WAIT_AT_MOST)
        if report is None:
            return
        if report.record is None:
            if not self.monitor.rows:
                raise RuntimeError(
                    f"a process of nodes ended as it started ({report.reason}): "
                    "its error stands on standard error, or in Ray's logs"
                )
            if not self.monitor.final[report.worker]:
                self._lose_worker(report.worker, self._reasons.get(report.worker, report.reason))
            return
        header, arrays = report.record
        if "entries" in arrays:
            self._log.append(arrays["entries"])
        if "address" in header:
            self._running.add(report.worker)
            self._addresses[report.worker] = header["address"]
            if len(self._addresses) == len(self.plan.workers):
                self.transport.broadcast({"addresses": list(self._addresses.items())})
        failures = self.monitor.take_report(report.worker, report.record)
        self._rejoining -= set(arrays.get("number", ()))
        self._record_deaths(failures)
        if self.monitor.complete_round(self._running):
            dead = f", {len(self.monitor.deaths)} dead" if self.monitor.deaths else ""
            self.show_progress(self.monitor.messages, f"error {self.monitor.error:.1e}{dead}")
            self._check_staleness()

    def _end_silent_workers(self) -> None:
        for worker in self._running:
            if time.monotonic() - self.monitor.heard[worker] > SILENT:
                self._reasons[worker] = f"its process said nothing for {SILENT:.0f} s"
                self.monitor.heard[worker] = time.monotonic()
                self.transport.kill(worker)

    def _lose_worker(self, worker: int, reason: str) -> None:
        """Note that a worker has ended, and its nodes with it."""
        self._running.discard(worker)
        nodes, here = self.plan.workers[worker], self.monitor.living
        lost = [(node, reason) for node in nodes if here[node] or node in self._rejoining]
        self._rejoining -= set(nodes)  # before the others are told who is back
        self._record_deaths(lost)

    def _record_deaths(self, failures: list[tuple[int, str]]) -> None:
        for node, reason in failures:
            self.monitor.record_death(node, reason)
        if failures:
            self._broadcast_deaths()

    def _revive(self, node: int) -> None:
        worker = self._worker_of[node]
        self.monitor.restart_clock(worker)
        self._running.add(worker)
        self._rejoining.add(node)
        self.transport.spawn(worker, sum(node == dead for _, dead, _ in self.monitor.deaths))
        self._broadcast_deaths()

    def _broadcast_deaths(self) -> None:
        counts = Counter(node for _, node, _ in self.monitor.deaths)
        there = self._rejoining.union(np.flatnonzero(self.monitor.living))
        deaths = [(node, count, node in there) for node, count in counts.items()]
        self.transport.broadcast({"deaths": deaths, "plain": self.plain})

    def _check_staleness(self) -> None:
        """Warn when acceleration is at risk; past its limit, go on without it.

        These nodes make up for ticks that found them busy, so that delay does harm by exchanges
        that are missing, and not before it is long against 1/theta by age.
        """
        method, stale = self.watched, self.monitor.staleness()
        if method is None or self.plain or self.monitor.t < SOON:
            return
        share = self.monitor.messages / self.monitor.t
        age = 0.0 if stale is None else stale.mean
        theta = method.constants(self.plan.graph).theta
        aged = theta * age
        at_most = share + DEVIATIONS * math.sqrt(share / self.monitor.t)
        verdict = too_stale(self.plan.graph, method, age if aged > OLD else 0.0, at_most)
        if verdict == "past":
            self.plain = True
            self.transport.broadcast({"plain": True})
        elif verdict == "fine" or self._warned:
            return
        self._warned = True
        what = "all nodes went on as plain gossip" if self.plain else "acceleration is at risk"
        least = share_limit(self.plan.graph, method)
        why = (
            f"{share:.0%} of the exchanges that were due took place, and acceleration needs more "
            f"than {least:.0%} on this graph"
        )
        if too_stale(self.plan.graph, method, 0.0, at_most) == "fine":
            bears = 2.0 * delay_limit(self.plan.graph, method)
            why = (
                f"an answer was {age:.2g} units of t old when it was used, and acceleration bears "
                f"no more than {bears:.2g} on this graph"
            )
        warn_caller(f"messages are slow: {why}: {what}; give a lower speed=", StalenessWarning)
