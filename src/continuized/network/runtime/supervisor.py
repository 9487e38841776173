"""The loop of a real run: it hears reports, kills and revives as asked, and ends in time."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
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
from continuized.network.logs.entries import ENTRY, LOG_PAY, Log, merge_logs
from continuized.network.logs.event_log import SUMMARY_EVERY, EventLog
from continuized.network.runtime.monitor import RunMonitor
from continuized.network.runtime.saved_nodes import SavedNodes, from_record
from continuized.network.runtime.termination import hear_termination
from continuized.network.runtime.transport import Resumed, RunPlan, Transport
from continuized.support.checkpoints.checkpointer import Checkpointer
from continuized.support.checkpoints.state import Checkpointed, GrowingRows
from continuized.support.progress import Bar, warn_caller

SILENT_AFTER = 10.0  # seconds after which a worker that says nothing is ended
START_WITHIN = 120.0  # seconds for all workers to report, imports from a cold disk included
PAUSE_WITHIN = 3.0  # seconds at the end, for exchanges under way to be finished
FINAL_WITHIN = 5.0
WAIT_AT_MOST = 0.05  # seconds for one report
SHARE_KNOWN_AT = 300.0  # units of t before the share of exchanges is looked at
SHARE_DEVIATIONS = 3.0  # by which it must be too small: chance alone should not decide
OLD_AT = 0.5  # theta times age: below, what mixing does to an answer until it is used is small


@dataclass(kw_only=True)
class Supervisor(Checkpointed):
    """Runs the workers of one plan, from their start to their last reports.

    The run ends at an error of `tol`, after so many `seconds`, those before a checkpoint included,
    or when SIGTERM comes.
    """

    transport: Transport
    plan: RunPlan
    monitor: RunMonitor
    changes: list[tuple[float, int, bool]]  # to come: (seconds, node, whether it comes back)
    tol: float
    seconds: float
    watched: Gossip | None  # the method to watch for staleness; None: nothing to watch
    show_progress: Bar
    events: EventLog
    keep_log: bool  # for the result, where the plan has one
    restarts: int  # of each worker that ends unasked
    checkpointer: Checkpointer | None
    by_t: bool  # changes come by t, as in a simulation, and none is waited for
    most_events: float  # exchanges and gradients, at most
    elapsed: float = 0.0  # seconds
    reached: bool = False
    terminated: bool = False  # by SIGTERM
    plain: bool = False  # whether nodes went on as plain gossip
    saved_nodes: SavedNodes = field(default_factory=dict)  # of the last checkpoint
    resumes: int = 0
    _log: GrowingRows = field(default_factory=GrowingRows)  # the bytes of entries
    _starting: set[int] = field(default_factory=set)  # workers that were started again
    _rejoining: set[int] = field(default_factory=set)  # nodes of them, not yet heard of
    _reasons: dict[int, str] = field(default_factory=dict)
    _warned: bool = False

    changing = (
        "monitor", "elapsed", "plain", "saved_nodes", "resumes", "_log", "changes_left",
        "returning",
    )  # fmt: skip

    def __post_init__(self) -> None:
        self._worker_of = dict(self.plan.assignments())
        self._running: set[int] = set()  # the workers that have started and not ended
        self._addresses: dict[int, Any] = {}
        self._killed: set[int] = set()  # workers that are ended as planned
        self._restarted: Counter[int] = Counter()
        self._pause, self._ending = 0, False  # the number of the last pause
        self._arriving: SavedNodes = {}  # of the checkpoint that is being made
        self._saved_in = np.zeros(len(self.plan.workers), dtype=np.int64)  # the pause, of each
        self._next_save = self._next_summary = 0.0
        self._logged = [0, 0]  # deaths and joins that stand in the log of events

    def run(self) -> None:
        """Start the workers, follow them until the run is over, and collect their last reports."""
        checkpointer = self.checkpointer
        with nullcontext() if checkpointer is None else checkpointer.around(self):
            self._start()
            began = time.monotonic() - self.elapsed
            with hear_termination() as is_terminated:
                while not self._is_over():
                    self._handle_next_report()
                    self._end_silent_workers()
                    self.elapsed = time.monotonic() - began
                    self._log_summary_if_due()
                    self._save_if_due()
                    self.terminated = is_terminated()
                self._finish()

    def _start(self) -> None:
        count, monitor = len(self.plan.workers), self.monitor
        if monitor.rows:  # it goes on from a checkpoint
            self.resumes += 1
            lives = Counter(node for _, node, _ in monitor.deaths)
            resumed = Resumed(self.saved_nodes, lives, monitor.t, self.resumes, self.returning)
            self.plan = replace(self.plan, resumed=resumed)
            self._logged = [len(monitor.deaths), len(monitor.joins)]
        self.transport.start(self.plan)
        if not self._wait_until(lambda: len(self._addresses) == count, START_WITHIN):
            absent = [worker for worker in range(count) if worker not in self._addresses]
            raise TimeoutError(
                f"{len(absent)} of {count} processes did not start within {START_WITHIN:.0f} s: "
                f"{self.transport.advise_absence(absent)}"
            )
        monitor.begin()
        if self.checkpointer is not None:
            self._next_save = time.monotonic() + self.checkpointer.every

    def _finish(self) -> None:
        """Let the exchanges under way come to their end, and collect the last reports."""
        self._ending, began = True, time.monotonic()
        paused = self._begin_pause()
        if not paused:  # the others must know of a death before they close their books
            for worker in [w for w in self._present if self.monitor.heard[w] < began]:
                self.transport.kill(worker)
                self._lose_worker(worker, "it was out of reach at the end")
        self.transport.broadcast({"end": True})
        if not self._wait_until(lambda: self._all_present(self.monitor.final), FINAL_WITHIN):
            for worker in [w for w in self._present if not self.monitor.final[w]]:
                self._lose_worker(worker, "it gave no last report")
        self.monitor.add_row()
        if self.monitor.margin > 0.0:  # the error of the last look was near the true one, no more
            self.reached = self.monitor.error <= self.tol
        if self.checkpointer is not None and paused:
            self._save()
        if strangers := int(self.monitor.strangers.sum()):
            self._warn(
                f"{strangers} connections of strangers to the ports of this run were ended, for "
                "they sent nothing of it in time; see which programs connect to 127.0.0.1",
                RuntimeWarning,
            )
        self._log_changes()

    def _begin_pause(self) -> bool:
        """Let no exchange begin any more; tell whether those under way came to their end."""
        self._pause += 1
        self.transport.broadcast({"quiet": self._pause})
        return self._wait_until(
            lambda: self._all_present(self.monitor.idle == self._pause), PAUSE_WITHIN
        )

    def _save_if_due(self) -> None:
        """Stop all nodes for a moment, write a checkpoint, and let them go on."""
        if self.checkpointer is None or time.monotonic() < self._next_save:
            return
        paused = self._begin_pause()
        if paused:
            self.transport.broadcast({"save": True})
            paused = self._wait_until(
                lambda: self._all_present(self._saved_in == self._pause), FINAL_WITHIN
            )
        if paused:
            self._save()
        self.transport.broadcast({"quiet": 0})
        self._next_save = time.monotonic() + max(self.checkpointer.every, WAIT_AT_MOST)

    def _save(self) -> None:
        """Write a checkpoint of the nodes that live, which have told what is needed."""
        assert self.checkpointer is not None
        living = {str(node) for node in np.flatnonzero(self.monitor.living)}
        self.saved_nodes = {n: node for n, node in self._arriving.items() if n in living}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.checkpointer.save(self)
        for warning in caught:
            self._warn(str(warning.message), warning.category)
        if not caught:
            self.events.add("checkpoint", path=str(self.checkpointer.path))

    @property
    def changes_left(self) -> list[tuple[float, int, bool]]:
        """The changes to come, and before them the kills whose end was not heard of yet."""
        there = self._rejoining.union(np.flatnonzero(self.monitor.living).tolist())
        dying = sorted(node for node in there if self._worker_of[node] in self._killed)
        return [(0.0, node, False) for node in dying] + self.changes

    @changes_left.setter
    def changes_left(self, changes: list[tuple[float, int, bool]]) -> None:
        self.changes = [(when, node, back) for when, node, back in changes]

    @property
    def returning(self) -> list[int]:
        """The nodes that are on their way back, and were not heard of yet."""
        return sorted(self._rejoining)

    @returning.setter
    def returning(self, nodes: list[int]) -> None:
        self._rejoining = set(nodes)

    def merge_log(self) -> Log | None:
        """Merge what nodes have logged; None where no log was kept, or a part of it is lost."""
        return merge_logs(self._join_log()) if self.keep_log else None

    def _join_log(self) -> NDArray[Any]:
        return np.asarray(self._log.join(), dtype=np.uint8).view(ENTRY)

    @property
    def _present(self) -> set[int]:
        """The workers that have reported since they were started."""
        return self._running - self._starting

    def _all_present(self, flags: NDArray[Any]) -> bool:
        return all(flags[worker] for worker in self._present)

    def _is_over(self) -> bool:
        """Tell whether the run has come to its end, once the changes that are due are made."""
        if self.terminated or self.elapsed >= self.seconds or not self.monitor.living.any():
            return True
        if self.monitor.error == math.inf or self.monitor.events >= self.most_events:
            return True
        self._make_changes()
        if (self.changes and not self.by_t) or self._rejoining:
            return False  # what was asked for is still to come
        self.reached = self.monitor.error <= (1.0 - self.monitor.margin) * self.tol
        return self.reached

    def _make_changes(self) -> None:
        """Kill and revive the workers of the nodes that are due by now."""
        now = self.monitor.t if self.by_t else self.elapsed
        while self.changes and self.changes[0][0] <= now:
            _, node, back = self.changes[0]
            worker = self._worker_of[node]
            if back and worker in self._running:
                # Its end was not heard of yet; or it has had no node since a checkpoint, in which
                # this one was dead, and would keep its port.
                self._kill(worker)
                break
            del self.changes[0]
            if back:
                self._revive(worker)
            else:
                self._kill(worker)

    def _kill(self, worker: int) -> None:
        """End a worker as planned, once."""
        if worker not in self._killed:
            self._killed.add(worker)
            self.transport.kill(worker)

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
        worker = report.worker
        if report.record is None:
            if not self.monitor.begun:
                raise RuntimeError(
                    f"a process of nodes ended as it started ({report.reason}): "
                    "its error stands on standard error, or in Ray's logs"
                )
            if not self.monitor.final[worker]:
                self._lose_worker(worker, self._reasons.pop(worker, report.reason))
            return
        header, arrays = report.record
        if "entries" in arrays:
            self._take_entries(arrays["entries"])
        if "address" in header:
            self._running.add(worker)
            self._starting.discard(worker)
            self._addresses[worker] = header["address"]
            if len(self._addresses) == len(self.plan.workers):
                self._broadcast_deaths(addresses=list(self._addresses.items()))
        if "saved_in" in header:
            self._arriving |= from_record(report.record)
            self._saved_in[worker] = header["saved_in"]
        failures = self.monitor.take_report(worker, report.record)
        self._rejoining -= set(arrays.get("number", ()))
        self._record_deaths(failures)
        if self.monitor.complete_round(self._present):
            dead = f", {len(self.monitor.deaths)} dead" if self.monitor.deaths else ""
            self.show_progress(self.monitor.messages, f"error {self.monitor.error:.1e}{dead}")
            self._check_staleness()

    def _take_entries(self, entries: NDArray[Any]) -> None:
        if self.keep_log:
            self._log.append(entries.view(np.uint8))
        if self.events.is_open:
            paid = entries[entries["kind"] == LOG_PAY]
            columns = (paid[name].tolist() for name in ("node", "peer", "seq", "time"))
            self.events.add_exchanges(zip(*columns, strict=True))

    def _end_silent_workers(self) -> None:
        for worker in self._running:
            limit = START_WITHIN if worker in self._starting else SILENT_AFTER
            if time.monotonic() - self.monitor.heard[worker] > limit:
                self._reasons[worker] = f"its process said nothing for {limit:.0f} s"
                self.monitor.heard[worker] = time.monotonic()
                self.transport.kill(worker)

    def _lose_worker(self, worker: int, reason: str) -> None:
        """Note that a worker has ended, and its nodes with it; start it again, if that is asked."""
        self._running.discard(worker)
        self._starting.discard(worker)
        nodes, here = set(self.plan.workers[worker]), self.monitor.living
        lost = [(node, reason) for node in sorted(nodes) if here[node] or node in self._rejoining]
        self._rejoining -= nodes  # before the others are told who is back
        self._record_deaths(lost)
        may_restart = self._restarted[worker] < self.restarts and worker not in self._killed
        if may_restart and here.any() and not self._ending:
            self._restarted[worker] += 1
            self._revive(worker)

    def _record_deaths(self, failures: list[tuple[int, str]]) -> None:
        for node, reason in failures:
            self._rejoining.discard(node)
            self.monitor.record_death(node, reason)
        if failures:
            self._broadcast_deaths()

    def _revive(self, worker: int) -> None:
        """Start a worker again; its nodes come back with what a neighbour tells them."""
        self.monitor.restart_clock(worker)
        self._killed.discard(worker)
        self._running.add(worker)
        self._starting.add(worker)
        nodes = self.plan.workers[worker]
        self._rejoining.update(nodes)
        counts = Counter(node for _, node, _ in self.monitor.deaths)
        self.transport.spawn(worker, {node: counts[node] for node in nodes})
        self._broadcast_deaths()

    def _broadcast_deaths(self, **more: Any) -> None:
        counts = Counter(node for _, node, _ in self.monitor.deaths)
        there = self._rejoining.union(np.flatnonzero(self.monitor.living))
        deaths = [(node, count, node in there) for node, count in counts.items()]
        self.transport.broadcast({"deaths": deaths, "plain": self.plain, **more})

    def _check_staleness(self) -> None:
        """Warn when acceleration is at risk; past its limit, go on without it.

        These nodes make up for ticks that found them busy, so that delay does harm by exchanges
        that are missing, and not before it is long against 1/theta by age.
        """
        method, stale = self.watched, self.monitor.staleness()
        if method is None or self.plain or self.monitor.t < SHARE_KNOWN_AT:
            return
        share = self.monitor.messages / self.monitor.t
        age = 0.0 if stale is None else stale.mean
        theta = method.constants(self.plan.graph).theta
        aged = theta * age
        at_most = share + SHARE_DEVIATIONS * math.sqrt(share / self.monitor.t)
        verdict = too_stale(self.plan.graph, method, age if aged > OLD_AT else 0.0, at_most)
        if verdict == "past":
            self.plain = True
            self.transport.broadcast({"plain": True})
        elif verdict == "fine" or self._warned:
            return
        self._warned = True
        what = "all nodes went on as plain gossip" if self.plain else "acceleration is at risk"
        why = (
            f"{share:.0%} of the exchanges that were due took place, and acceleration needs more "
            f"than {share_limit(self.plan.graph, method):.0%} on this graph"
        )
        if too_stale(self.plan.graph, method, 0.0, at_most) == "fine":
            bears = 2.0 * delay_limit(self.plan.graph, method)
            why = (
                f"an answer was {age:.2g} units of t old when it was used, and acceleration bears "
                f"no more than {bears:.2g} on this graph"
            )
        self._warn(f"messages are slow: {why}: {what}; give a lower speed=", StalenessWarning)

    def _warn(self, message: str, category: type[Warning]) -> None:
        self.events.add("warning", text=message)
        warn_caller(message, category)

    def summarise(self) -> dict[str, Any]:
        """Tell how the run stands, as numbers."""
        monitor = self.monitor
        stale, due = monitor.staleness(), self.plan.edge_rate * monitor.t
        return {
            "seconds": round(self.elapsed, 3),
            "t": monitor.t,
            "messages": monitor.messages,
            "error": monitor.error,
            "living": int(monitor.living.sum()),
            "exchanges_per_s": monitor.messages / max(self.elapsed, 1e-9),
            "share_of_due": monitor.messages / due if due > 0.0 else None,
            "age_mean": None if stale is None else stale.mean,
            "age_largest": None if stale is None else stale.largest,
            **{name: int(monitor.total(name)) for name in ("refused", "given_up", "resent")},
            "dropped": monitor.all_dropped,
            "fell_back": self.plain,
        }

    def _log_summary_if_due(self) -> None:
        if self.events.is_open:
            self._log_changes()
            if self.elapsed >= self._next_summary:
                self._next_summary = self.elapsed + SUMMARY_EVERY
                self.events.add("summary", **self.summarise())
                self.events.flush()

    def _log_changes(self) -> None:
        """Add the deaths and joins that do not stand in the log of events yet."""
        deaths, joins = (
            self.monitor.deaths[self._logged[0] :],
            self.monitor.joins[self._logged[1] :],
        )
        for t, node, reason in deaths:
            self.events.add("death", t=t, node=node, reason=reason)
        for t, node in joins:
            self.events.add("join", t=t, node=node)
        self._logged = [len(self.monitor.deaths), len(self.monitor.joins)]
