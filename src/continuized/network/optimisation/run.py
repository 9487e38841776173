"""A run of decentralised optimisation: draws the events, tests the error, keeps the rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from continuized.network.optimisation.objective import Objective
from continuized.network.result import Decentralized, OptimisationTrace, rounding_of_solution
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process import random_streams as seeds
from continuized.process.marks import Categorical
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.checkpointer import AnyCheckpointer, NullCheckpointer
from continuized.support.checkpoints.state import Checkpointed, State
from continuized.support.progress import Bar

if TYPE_CHECKING:
    from continuized.network.optimisation.engines import Optimiser

TESTS_EVERY = 4  # events for each node: a test costs about as much as an event of every node


class Run(Checkpointed):
    """A method under way, its clock, and what is kept of it."""

    def __init__(
        self,
        optimiser: Optimiser,
        objective: Objective,
        root: seeds.Root,
        tol: float,
        record: int,
        show: Bar,
    ) -> None:
        self.optimiser, self.objective = optimiser, objective
        self.tol, self.record, self.show = tol, record, show
        total = float(optimiser.rates.sum())
        self.stream = clocks.Poisson(root, total, Categorical(optimiser.rates / total)).stream()
        self.period, self.most = TESTS_EVERY * objective.nodes, 0
        self._aim: tuple[bytes, Array] = b"", objective.x_star
        self.rows = [self._row()]

    def run(self, most: int, checkpointer: AnyCheckpointer | None = None) -> None:
        """Until the error is small or no longer a number, or `most` events are done."""
        self.most = most
        checkpointer = checkpointer or NullCheckpointer()
        with checkpointer.around(self):
            if self.stream.k % self.period and self.stream.k < most:
                self.rows.pop()  # of a run that had ended between two tests, and now goes on
            while (self.tol < self.error < math.inf or self._nobody_yet()) and self.stream.k < most:
                k = self.stream.k
                self.optimiser.advance(
                    self.stream.draw(min(self.period - k % self.period, most - k))
                )
                self.rows.append(self._row())
                if len(self.rows) == 2 * self.record + 1:  # the last one is kept
                    self.rows, self.period = self.rows[::2], 2 * self.period
                self.show(self.stream.k, f"error {self.error:.2g}")
                checkpointer.save_if_due(self)

    @property
    def error(self) -> float:
        """At the last test."""
        return float(self.rows[-1][3])

    def _nobody_yet(self) -> bool:
        """Whether nobody is there, but somebody is to come."""
        return not self.optimiser.alive.any() and self.stream.t < self.optimiser.last_change

    def agreed(self) -> Array:
        """Where the living will agree: found anew when nodes died or came."""
        alive, tilt = self.optimiser.alive, self.optimiser.tilt()
        if not (alive.any() and np.isfinite(tilt).all()):
            return np.full_like(self.objective.x_star, math.nan)
        if alive.all() and not tilt.any():
            return self.objective.x_star
        key = alive.tobytes() + tilt.tobytes()
        if key != self._aim[0]:
            self._aim = key, self.objective.agreed(alive, tilt)
        return self._aim[1]

    def _row(self) -> tuple[float, ...]:
        x = self.optimiser.guesses(self.stream.t)[self.optimiser.alive]
        counts = float(self.optimiser.messages), float(self.optimiser.gradients)
        if len(x) == 0:  # all are dead
            return (self.stream.t, *counts, math.nan, math.nan, math.nan)
        with np.errstate(over="ignore", invalid="ignore"):  # a step may be too long
            mean = x.mean(axis=0)
            return (
                self.stream.t,
                *counts,
                self.objective.error(x, self.agreed()),
                self.objective.fun(mean) - self.objective.f_star,
                self.objective.error(x, mean),
            )

    def outcome(self, name: str, rate: float) -> Decentralized:
        """What is reported."""
        columns = np.array(self.rows).T
        t, messages, gradients, error, excess, consensus = columns
        counts = messages.astype(np.int64), gradients.astype(np.int64)
        return Decentralized(
            x=self.optimiser.guesses(self.stream.t),
            x_star=self.objective.x_star.copy(),
            t=self.stream.t,
            method=name,
            messages=self.optimiser.messages,
            gradients=self.optimiser.gradients,
            tol=self.tol,
            reached=self.error <= self.tol,
            error=self.error,
            trace=OptimisationTrace(
                t.copy(), *counts, error.copy(), excess.copy(), consensus.copy()
            ),
            rate_theory=rate,
            agreed=self.agreed().copy(),
            rounding=rounding_of_solution(self.objective.L / self.objective.mu),
        )

    def state(self) -> State:
        """Between two tests."""
        plain = {
            "stream": self.stream.save("", {}),
            "period": self.period,
            "random": self.optimiser.random.bit_generator.state,
        }
        return State(plain, {**self.optimiser.state(), "trace": np.array(self.rows)})

    def save(self, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
        """Between two tests."""
        state = self.state()
        arrays.update(state.arrays)
        return state.plain

    def restore(self, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Go on from there."""
        done = plain["stream"]["k"]
        if done > self.most:
            raise checkpoints.CheckpointError(
                f"the checkpoint has {done} events already, more than events = {self.most}",
                "give a larger events, or resume=False",
            )
        self.stream.restore(plain["stream"], arrays)
        self.period = plain["period"]
        self.optimiser.random.bit_generator.state = plain["random"]
        self.rows = [tuple(row) for row in arrays["trace"].tolist()]
        self.optimiser.restore(arrays)
