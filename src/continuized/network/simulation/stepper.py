"""Simulated gossip as a stepper of the one loop (`solver.loop`)."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from continuized.network.result import SENTENCES, Outcome, Trace, rounding_of_mean
from continuized.network.simulation.engine import Engine, Tests, error_at, flow_all
from continuized.network.simulation.node_models import gossip
from continuized.network.simulation.simulate import GossipLimits
from continuized.problems.base import Array
from continuized.process.clock import Events
from continuized.process.stepper import Limits, Progress, Status, Stepper
from continuized.solver.loop import Loop
from continuized.solver.recording import Recorder
from continuized.support.checkpoints.checkpointer import CheckpointError

SMALLEST_BLOCK = 2**14  # events: a block takes 30 microseconds to start
BLOW_UP = 1e12  # a squared error so many times the start's is divergence


class GossipStepper(Stepper):
    """Gossip under way: k counts exchanges, and ends at its limits.

    times: of the snapshots, in order.  record: about as many rows are kept of the tests of the
    error, which are made after every so many events as there are nodes.
    """

    columns = ("t", "messages", "error")
    changing = ("k", "t", "engine", "tests", "snapshots", "taken", "scale")
    limit, criterion_name, sentences = "events", "error", SENTENCES

    def __init__(
        self, name: str, engine: Engine, limits: GossipLimits, times: list[float], record: int
    ) -> None:
        self.name, self.engine, self.limits = name, engine, limits
        self.wanted, self.taken = times, 0
        self.snapshots: list[Array] = []
        self.period = engine.graph.nodes
        self.block = self.period * -(-SMALLEST_BLOCK // self.period)
        self.record, self.tests = record, 0
        self.most_rows = 2 * record or None
        alive = engine.alive
        self.scale = self.find_scale()
        self.deviation = math.sqrt(self.scale / max(1, int(alive.sum())))
        self.centre, self.total = self.find_centre(), engine.find_balance()
        x, z = self.find_states(0.0)
        self.size = np.abs(x + z)[alive].sum(axis=0)
        self.error, self.reached = 1.0, False  # of the last test
        self.begun, self.before = time.perf_counter(), 0  # exchanges, of a run that is resumed

    def evaluate_criterion(self) -> float:
        return self.engine.error(self.t) / self.scale if self.scale else 0.0

    def are_several(self) -> bool:
        """Tell whether two nodes live, or more: one alone agrees with nobody."""
        return int(np.count_nonzero(self.engine.alive)) > 1

    def is_waiting(self) -> bool:
        """Tell whether nobody is there to agree with, but somebody may come."""
        return not self.are_several() and self.engine.find_next_change() < math.inf

    def find_scale(self) -> float:
        """Return the error of now, which the others are relative to; 0 where all agree, and as long
        as fewer than two nodes are there."""
        x, z = (part[self.engine.alive] for part in self.find_states(self.t))
        if np.array_equal(x, np.broadcast_to(x[:1], x.shape)) and np.array_equal(x, z):
            return 0.0  # the error may be the rounding of their mean
        return self.engine.error(self.t)

    def find_states(self, t: float) -> tuple[Array, Array]:
        """Return x and z of every node at time t; of a dead one at its death."""
        engine, work = self.engine, self.engine.work.copy()
        flow_all(engine.nodes.model, work, engine.alive, t)
        x, z = np.hsplit(work[:, gossip.X :], 2)
        return x.copy(), z.copy()

    def find_centre(self) -> Array:
        """Return where the living agree: the centre, which `disagreement` leaves behind."""
        engine, centre = self.engine, self.engine.sum_owed()
        error_at(engine.nodes.model, engine.work, engine.alive, self.t, centre)
        return centre

    def begin(self) -> Progress:
        """Begin with the first row; nothing is left to do where all agree and none is to come."""
        self.reached = self.scale == 0.0 and not self.is_waiting()
        return Progress(Status.CONVERGED if self.reached else None, (0.0, 0.0, 1.0))

    def over(self) -> Status | None:
        """Tell the end: all agree from the start, or nothing can happen any more."""
        self._take_scale()
        if self.scale == 0.0 and self.are_several():
            return Status.CONVERGED
        return Status.CLOCK_ENDED if self.engine.is_cut_off() else None

    def next_block(self, left: int) -> int:
        """Ask for a whole block of events; where all are exchanges, for no more than are left."""
        return min(self.block, left) if self.engine.only_exchanges else self.block

    def after_restoring(self) -> None:
        self.begun, self.before = time.perf_counter(), self.k

    def advance(self, events: Events) -> Progress:
        """Let the events happen, with a snapshot wherever one is due."""
        done, status, parts = 0, None, [np.empty((0, 3))]
        while status is None:
            stop = min([self.limits.until, *self.wanted[self.taken : self.taken + 1]])
            if self.scale == 0.0:
                stop = min(stop, self.engine.find_next_change())
            bounds = np.array([self.limits.tol * self.scale, BLOW_UP * self.scale])
            tests = Tests(self.period, bounds, np.empty((events.size // self.period, 3)))
            done, made = self.engine.run(events, done, stop, self.limits.exchanges, tests)
            parts.append(tests.rows[:made])
            self.k, self.t = self.engine.messages, self.engine.t
            if tests.are_over(made):
                self.reached = bool(tests.rows[made - 1, 2] <= bounds[0])
                status = Status.CONVERGED if self.reached else Status.DIVERGED
            elif self.k >= self.limits.exchanges:
                status = Status.MAXITER
            elif stop < events.t[-1]:
                status = self._stop_at(stop) or self.over()
            else:
                break
        return Progress(status, self._choose_rows(np.concatenate(parts)))

    def _stop_at(self, t: float) -> Status | None:
        """Take the snapshot of this time, if it is one's; tell whether it is the end."""
        self.t = t
        self._take_scale()
        if self.taken < len(self.wanted) and t == self.wanted[self.taken]:
            self.snapshots.append(self.find_states(t)[0])
            self.taken += 1
        return None if t < self.limits.until else Status.COMPLETED

    def _take_scale(self) -> None:
        """Take the scale when the second node has come: before, there was nothing to agree on."""
        if self.scale == 0.0 and self.are_several():
            self.scale = self.find_scale()

    def _choose_rows(self, rows: Array) -> tuple[Array, ...] | None:
        """Choose the tests that the recorder has room for: one in a power of 2, and ever fewer."""
        spacing = 1
        while self.record and self.tests >= 2 * self.record * spacing:
            spacing *= 2
        counts = self.tests + 1 + np.arange(len(rows))
        self.tests += len(rows)
        scale = self.scale or 1.0  # a node that was always alone has an error of 0
        if len(rows):
            self.error = float(rows[-1, 2]) / scale
        chosen = rows[counts % spacing == 0] if self.record else rows[:0]
        if not len(chosen):
            return None
        return chosen[:, 0], chosen[:, 1], chosen[:, 2] / scale

    def describe(self) -> str:
        # Of those that died or came, what happened last.
        last = {i: joins for _, i, joins in self.engine.list_past_changes()}
        dead = sum(not joins for joins in last.values())
        return f"error {self.error:.2g}" + (f", {dead} dead" if dead else "")

    def check_resumable(self, plain: dict[str, Any], limits: Limits) -> None:
        if plain["k"] > self.limits.exchanges or plain["t"] > self.limits.until:
            raise CheckpointError(
                f"the checkpoint has {plain['k']} exchanges already and is at t = {plain['t']:.6g},"
                f" but events = {self.limits.exchanges} and until = {self.limits.until:.6g}; give "
                "larger ones, or resume=False"
            )

    def _find_end(self, status: Status) -> Status:
        """Return why a run ended whose error did not fall to tol."""
        if self.are_several():
            return status
        if not self.is_waiting():
            return Status.CLOCK_ENDED
        # The error of one alone is 0, which the loop takes for success where no event was left.
        return Status.MAXITER if status is Status.CONVERGED else status

    def make_outcome(self, loop: Loop, shape: tuple[int, ...]) -> Outcome:
        """Return what `simulate` gives back."""
        engine, t, error = self.engine, self.t, self.evaluate_criterion()
        reached = self.are_several() and (self.reached or error <= self.limits.tol)
        ended = self._find_end(loop.status)
        x, z = self.find_states(t)
        joined = engine.ledger[1]
        size = self.size + np.abs(joined)
        off = np.abs(engine.find_balance() - self.total - joined)
        drift = float(np.linalg.norm(self.find_centre() - self.centre))
        changes = engine.list_past_changes()
        return Outcome(
            x=x.reshape(shape),
            z=z.reshape(shape),
            t=t,
            method=self.name,
            messages=self.k,
            tol=self.limits.tol,
            reached=reached,
            message=self.explain(Status.CONVERGED if reached else ended),
            error=error,
            trace=_make_trace(loop.recorder, t, self.k, error),
            snapshots={
                s: kept.reshape(shape) for s, kept in zip(self.wanted, self.snapshots, strict=False)
            },
            deaths=[(s, i, "killed") for s, i, joins in changes if not joins],
            ledger_error=float((off / np.where(size > 0.0, size, 1.0)).max()),
            mean_drift=drift / self.deviation if self.deviation else drift,
            events_per_s=(self.k - self.before) / (time.perf_counter() - self.begun),
            staleness=engine.staleness(),
            log=engine.make_log() if engine.logging else None,
            joins=[(s, i) for s, i, joins in changes if joins],
            rounding=rounding_of_mean(x[engine.alive], self.scale),
        )


def _make_trace(recorder: Recorder, t: float, messages: int, error: float) -> Trace:
    """Return the rows that were kept, and the end where it is none of them."""
    columns = [column.join() for column in recorder.columns.values()]
    if columns[1][-1] != messages:
        end = (t, messages, error)
        columns = [np.append(column, last) for column, last in zip(columns, end, strict=True)]
    return Trace(columns[0], columns[1].astype(np.int64), columns[2])
