"""What a run knows of its nodes: their last reports, who lives, and the ledger of transfers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.protocol.node import Counts
from continuized.network.result import Staleness, Trace, rounding_of_mean
from continuized.network.runtime.node_process import STATE
from continuized.network.runtime.sketch import BUCKETS, find_margin
from continuized.network.workers.records import Record
from continuized.problems.base import Array
from continuized.support.checkpoints.state import Checkpointed

_COUNTS = list(Counts.__dataclass_fields__)


class RunMonitor(Checkpointed):
    """Holds the nodes of a run as their last reports show them.

    With `averaging`, nodes agree on the mean of (x + z) / 2, as in gossip; without it, on the
    mean of their answers.  Whole states come at the start and at the end; in between the error is
    that of `sketch.Sketch`es, which for vectors of at most 1024 numbers are the vectors.

    In a checkpoint there is what is known of a run besides its living nodes.  The ledger is closed
    there, and begins anew with the nodes that go on.
    """

    changing: tuple[str, ...] = (
        "living", "deaths", "joins", "rows", "t", "error", "_first_centre", "_first_squares",
        "all_counts", "all_dropped", "worst_ledger_error", "states_of_dead",
    )  # fmt: skip

    def __init__(self, workers: Sequence[Sequence[int]], dim: int, averaging: bool) -> None:
        nodes = sum(map(len, workers))
        self.workers = workers
        self.averaging = averaging
        self._states = np.full((len(STATE), nodes, dim), np.nan)
        self.x, self.z, self.answer, self.start, self.of_dead = self._states
        self.margin = find_margin(dim)  # of an error that is not of whole states, relative
        self._seen = self._states
        if self.margin > 0.0:
            self._seen = np.full((len(STATE), nodes, BUCKETS), np.nan)
        self.living = np.zeros(nodes, dtype=bool)
        self.deaths: list[tuple[float, int, str]] = []
        self.joins: list[tuple[float, int]] = []
        self.rows: list[tuple[float, int, float]] = []
        self.t = 0.0  # the mean of the clocks of the workers that have living nodes
        self._times = np.zeros(len(workers))
        self._since = np.zeros(len(workers))  # t when the clock of each worker started
        self.dropped, self.strangers = np.zeros((2, len(workers)), dtype=np.int64)
        self.idle = np.zeros(len(workers), dtype=np.int64)  # the pause in which it was idle
        self.final = np.zeros(len(workers), dtype=bool)
        self.heard = np.full(len(workers), time.monotonic())
        self._counts = np.zeros((nodes, len(_COUNTS)))
        self._past: list[Array] = []  # the counts of nodes up to their deaths
        self._dropped_before, self._ledger_error_before = 0, 0.0  # up to the last checkpoint
        self.begun = False
        self._fresh: set[int] = set()  # workers that reported since the last row
        self._final_reports: list[dict[str, NDArray[Any]]] = []
        self.error = 1.0  # of the last row
        self._first_centre, self._first_squares = np.zeros(dim), 0.0  # when the trace began

    def take_report(self, worker: int, record: Record) -> list[tuple[int, str]]:
        """Take in a report; return the nodes that failed since the last one, and why."""
        header, arrays = record
        self.heard[worker] = time.monotonic()
        if "t" not in header:
            return []
        at = arrays["number"]
        if len(at):
            self._counts[at] = arrays["counts"]
            if "states" in arrays:
                self._states[:, at] = arrays["states"]
            else:
                self._seen[:, at] = arrays["seen"]
        for node in at[~self.living[at]].tolist():
            self.living[node] = True
            if self.begun:
                self.joins.append((self.t, node))
        self._times[worker] = self._since[worker] + header["t"]
        there = [k for k, nodes in enumerate(self.workers) if self.living[list(nodes)].any()]
        if there:  # a death may take the quickest clock away; time does not go back for it
            self.t = max(self.t, float(self._times[there].mean()))
        self.dropped[worker], self.strangers[worker] = header["dropped"], header["strangers"]
        self.idle[worker], self.final[worker] = header["idle"], header["final"]
        if header["final"]:
            self._final_reports.append(arrays)
        self._fresh.add(worker)
        return [(int(node), reason) for node, reason in header["failures"]]

    def restart_clock(self, worker: int) -> None:
        """Note that a worker starts again, and its clock with it."""
        self._since[worker] = self.t
        self.heard[worker] = time.monotonic()

    def record_death(self, node: int, reason: str) -> None:
        """Note that a node died; its last values stay."""
        self.living[node] = False
        self.deaths.append((self.t, node, reason))
        self._past.append(self._counts[node].copy())
        self._counts[node] = 0.0

    def begin(self) -> None:
        """Start the trace, or go on with it, once all nodes have reported their start; no worker
        is silent yet."""
        self.heard[:] = time.monotonic()
        self._fresh.clear()
        self.begun = True
        if not self.rows:
            self._first_centre = self.centre()
            self._first_squares = self._squares()
            self.rows.append((0.0, 0, 1.0))

    def complete_round(self, workers: set[int]) -> bool:
        """Add a row to a trace that has begun, and tell so, if some node lives and all these
        workers reported since the last."""
        if not (self.begun and self.living.any() and workers <= self._fresh):
            return False
        self._fresh.clear()
        self.add_row(whole=False)
        return True

    def add_row(self, whole: bool = True) -> None:
        """Add a row to the trace, from whole states or from what was seen last."""
        if self.living.any():
            self.error = self._squares(whole) / (self._first_squares or 1.0)
        self.rows.append((self.t, self.messages, self.error))

    @property
    def messages(self) -> int:
        """The number of exchanges that were paid, each counted once."""
        return int(self.total("exchanges"))

    @property
    def events(self) -> int:
        """The number of exchanges, and of gradients that nodes took of their own."""
        return self.messages + int(self.total("steps"))

    @property
    def trace(self) -> Trace:
        """The error along the run."""
        t, messages, error = zip(*self.rows, strict=True)
        return Trace(np.array(t), np.array(messages), np.array(error))

    def total(self, name: str) -> float:
        """Sum a count over all nodes, the dead included (of largest ages, take the largest)."""
        counts = np.vstack([self._counts, *self._past])[:, _COUNTS.index(name)]
        return float(counts.max() if name == "age_largest" else counts.sum())

    def staleness(self) -> Staleness | None:
        """Summarise the ages of answers so far."""
        count = int(self.total("ages"))
        if count == 0:
            return None
        return Staleness(self.total("age_sum") / count, self.total("age_largest"), count)

    def centre(self, whole: bool = True) -> Array:
        """Compute the value that the living nodes would agree on, from their last reports."""
        alive = self.living
        x, z, answer, *_ = self._states if whole else self._seen
        if not self.averaging:
            return np.asarray(answer[alive].mean(axis=0))
        total = (x[alive] + z[alive]).sum(axis=0) + (self.in_flight() if whole else 0.0)
        return np.asarray(total / (2.0 * max(1, int(alive.sum()))))

    def in_flight(self) -> Array:
        """Sum what was paid and not applied between living nodes, from the last reports."""
        applied: dict[tuple[int, int], int] = {}
        for arrays in self._final_reports:
            for node, peer, seq in arrays["applied"].tolist():
                applied[node, peer] = seq
        flying = np.zeros(self.x.shape[1])
        for arrays in self._final_reports:
            for (node, peer, seq), amount in zip(
                arrays["owed"].tolist(), arrays["amount"], strict=True
            ):
                if self.living[node] and self.living[peer] and applied.get((peer, node), -1) < seq:
                    flying += amount
        return flying

    def ledger_error(self) -> float:
        """Measure how far the ledger is from closing.

        What living nodes hold, less what they began with, less what they had from nodes now
        dead, plus what is on its way between them, sums to zero.  The error is relative to the
        sizes of these.
        """
        alive = self.living
        conserved = self.x[alive] + self.z[alive]
        parts = [conserved, -self.start[alive], -self.of_dead[alive]]
        # Of x and z apart: their sum may be rounding alone, before anything was exchanged.
        numbers = [self.x[alive], self.z[alive], *parts[1:]]
        sizes = sum(float(np.abs(part).sum()) for part in numbers)
        left = sum(part.sum(axis=0) for part in parts) + self.in_flight()
        return float(np.abs(left).sum() / sizes) if sizes > 0.0 else 0.0

    @property
    def worst_ledger_error(self) -> float:
        """The error of the ledger, of now or of the last checkpoint."""
        return max(self._ledger_error_before, self.ledger_error())

    @worst_ledger_error.setter
    def worst_ledger_error(self, error: float) -> None:
        self._ledger_error_before = error

    @property
    def all_dropped(self) -> int:
        """Count what was dropped, of all workers."""
        return self._dropped_before + int(self.dropped.sum())

    @all_dropped.setter
    def all_dropped(self, count: int) -> None:
        self._dropped_before = count

    @property
    def all_counts(self) -> list[float]:
        """The counts of all nodes together."""
        return [self.total(name) for name in _COUNTS]

    @all_counts.setter
    def all_counts(self, counts: list[float]) -> None:
        self._past = [np.array(counts)]

    @property
    def states_of_dead(self) -> dict[str, Array]:
        """The last states of the nodes that are dead, by their numbers."""
        dead = sorted({node for _, node, _ in self.deaths if not self.living[node]})
        return {str(node): self._states[:, node] for node in dead}

    @states_of_dead.setter
    def states_of_dead(self, states: dict[str, Array]) -> None:
        for node, state in states.items():
            self._states[:, int(node)] = state

    def after_restoring(self) -> None:
        self.deaths = [(t, node, why) for t, node, why in self.deaths]
        self.joins = [(t, node) for t, node in self.joins]
        self.rows = [(t, messages, error) for t, messages, error in self.rows]

    def drift(self) -> float:
        """Measure how far the value to agree on moved, in standard deviations of the start."""
        deviation = np.sqrt(self._first_squares / len(self.x))
        moved = float(np.linalg.norm(self.centre() - self._first_centre))
        return moved / float(deviation) if deviation > 0.0 else moved

    def rounding(self) -> float:
        """Bound what rounding may contribute to the error."""
        return rounding_of_mean(self._values(), self._first_squares)

    def _values(self, whole: bool = True) -> Array:
        x, _, answer, *_ = self._states if whole else self._seen
        return np.asarray((x if self.averaging else answer)[self.living])

    def _squares(self, whole: bool = True) -> float:
        return float(((self._values(whole) - self.centre(whole)) ** 2).sum())
