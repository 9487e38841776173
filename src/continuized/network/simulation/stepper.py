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
    changing = ("k", "t", "engine", "tests", "snapshots", "taken")
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

    def find_scale(self) -> float:
        """Return the error of now, which the others are relative to; 0 where all agree."""
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
        """Begin with the first row; nothing is left to do where all agree."""
        self.reached = self.scale == 0.0
        return Progress(Status.CONVERGED if self.reached else None, (0.0, 0.0, 1.0))

    def over(self) -> Status | None:
        """Tell the end: nothing can happen any more."""
        return Status.CLOCK_ENDED if self.engine.is_cut_off() else None

    def next_block(self, left: int) -> int:
        """Ask for a whole block of events; where all are exchanges, for no more than are left."""
        return min(self.block, left) if self.engine.only_exchanges else self.block

    def after_restoring(self) -> None:
        self.begun, self.before = time.perf_counter(), self.k

    def advance(self, events: Events) -> Progress:
        """Let the events happen, with a snapshot wherever one is due."""
        done, status, parts = 0, None, [np.empty((0, 3))]
        bounds = np.array([self.limits.tol * self.scale, BLOW_UP * self.scale])
        while status is None:
            stop = min([self.limits.until, *self.wanted[self.taken : self.taken + 1]])
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
        if self.taken < len(self.wanted) and t == self.wanted[self.taken]:
            self.snapshots.append(self.find_states(t)[0])
            self.taken += 1
        return None if t < self.limits.until else Status.COMPLETED

    def _choose_rows(self, rows: Array) -> tuple[Array, ...] | None:
        """Choose the tests that the recorder has room for: one in a power of 2, and ever fewer."""
        spacing = 1
        while self.record and self.tests >= 2 * self.record * spacing:
            spacing *= 2
        counts = self.tests + 1 + np.arange(len(rows))
        self.tests += len(rows)
        if len(rows):
            self.error = float(rows[-1, 2]) / self.scale
        chosen = rows[counts % spacing == 0] if self.record else rows[:0]
        if not len(chosen):
            return None
        return chosen[:, 0], chosen[:, 1], chosen[:, 2] / self.scale

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

    def make_outcome(self, loop: Loop, shape: tuple[int, ...]) -> Outcome:
        """Return what `simulate` gives back."""
        engine, t, error = self.engine, self.t, self.evaluate_criterion()
        several = int(np.count_nonzero(engine.alive)) > 1  # one alone agrees with nobody
        reached = several and (self.reached or error <= self.limits.tol)
        ended = loop.status if several else Status.CLOCK_ENDED
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
