"""Decentralised optimisation as a stepper of the one loop (`solver.loop`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from continuized.network.optimisation.accuracy import Accuracy
from continuized.network.optimisation.functions import Functions
from continuized.network.optimisation.objective import Objective
from continuized.network.result import SENTENCES, Decentralized, OptimisationTrace
from continuized.problems.base import Array
from continuized.process.clock import Events
from continuized.process.stepper import Progress, Status, Stepper
from continuized.solver.loop import Loop

if TYPE_CHECKING:
    from continuized.network.simulation.engine import Engine

TESTS_EVERY = 4  # events for each node: a test costs about as much as an event of every node


class OptimisationStepper(Stepper):
    """A method under way: a block of events ends where the error is tested.

    record: about as many rows are kept; where there are twice as many, every second one is
    dropped, and tests become half as frequent.
    """

    columns = OptimisationTrace.names
    changing = ("k", "t", "engine", "period", "rows", "error")
    limit, criterion_name, sentences = "events", "error", SENTENCES

    def __init__(
        self, name: str, engine: Engine, objective: Objective | Functions, tol: float, record: int
    ) -> None:
        self.name, self.engine, self.objective = name, engine, objective
        self.accuracy = Accuracy(objective)
        self.tol, self.record, self.most_rows = tol, record, 2 * record
        self.period, self.rows = TESTS_EVERY * objective.nodes, 1
        self.error = math.nan  # at the last test

    def begin(self) -> Progress:
        return Progress(rows=self._test_error())

    def over(self) -> Status | None:
        """Tell the end: the error is small, or no longer a number and nobody is to come."""
        to_come = self.t < self.engine.last_change and not self.engine.alive.any()
        if self.tol < self.error < math.inf or to_come:
            return None
        return Status.CONVERGED if self.error <= self.tol else Status.NOT_FINITE

    def next_block(self, left: int) -> int:
        return min(self.period - self.k % self.period, left)

    def advance(self, events: Events) -> Progress:
        self.engine.advance(events)
        self.k, self.t = self.k + events.size, float(events.t[-1])
        rows = self._test_error()
        self.rows += 1
        if self.rows > 2 * self.record:  # the recorder drops half of them; the last one is kept
            self.rows, self.period = self.rows // 2 + 1, 2 * self.period
        # A block cut short leaves a row between two tests, and is done again on resuming.
        self.savable = self.k % self.period == 0
        return Progress(rows=rows)

    def find_agreement(self) -> Array:
        """Return where the living will agree."""
        return self.accuracy.find_agreement(self.engine.alive, self.engine.find_tilt())

    def _test_error(self) -> tuple[float, ...]:
        """Test the error; returns a row of the trace."""
        x = self.engine.estimate(self.t)[self.engine.alive]
        found = self.accuracy.measure(x, self.find_agreement())
        self.error = found[0]
        return (self.t, float(self.engine.messages), float(self.engine.gradients), *found)

    def describe(self) -> str:
        return f"error {self.error:.2g}"

    def evaluate_criterion(self) -> float:
        return self.error

    def make_outcome(self, loop: Loop, rate: float) -> Decentralized:
        """Return what `network.minimize` gives back; rate: that of the theorem."""
        engine, done = self.engine, self.engine.list_past_changes()
        t, messages, gradients, *rest = (column.join() for column in loop.recorder.columns.values())
        counts = messages.astype(np.int64), gradients.astype(np.int64)
        return Decentralized(
            x=engine.estimate(self.t),
            x_star=self.objective.x_star.copy(),
            t=self.t,
            method=self.name,
            messages=engine.messages,
            gradients=engine.gradients,
            tol=self.tol,
            reached=self.error <= self.tol,
            message=self.explain(loop.status),
            error=self.error,
            trace=OptimisationTrace(t, *counts, *rest),
            rate_theory=rate,
            agreed=self.find_agreement().copy(),
            deaths=[(t, i) for t, i, joins in done if not joins],
            joins=[(t, i) for t, i, joins in done if joins],
            ledger_error=engine.ledger_error(),
            staleness=engine.staleness(),
            rounding=self.accuracy.rounding,
        )
