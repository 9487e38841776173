"""Nodes and the engine that moves them: what exchanges at once and exchanges by messages share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.logs.entries import Log
from continuized.network.result import Staleness
from continuized.network.simulation.node_models.interface import (
    SPEED,
    disagreement,
    estimate,
    find_answer,
    flow_to,
    take_slope,
)
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process.clock import Events, Stream
from continuized.process.marks import Categorical
from continuized.process.random_streams import Root
from continuized.process.stepper import NO_LIMIT
from continuized.support.checkpoints.state import Checkpointed
from continuized.support.jit import jit_uncounted
from continuized.support.threads import interruptible

SHORTEST_SLICE, LONGEST_SLICE = 0.005, 0.05  # seconds that a slice of a run should take
OPERATIONS = 1e9  # in a second, of compiled code
MOST_SLICE_STEPS = 2**30


class OwnGradients(NamedTuple):
    """Gradients that are Python functions: gradient(i, w) is that of node i at w.

    points (nodes, dim) are where nodes take them; `slope` (dim,) is where the model reads one.
    """

    gradient: Callable[[int, Array], Array]
    points: Array
    slope: Array


class NodeSet(NamedTuple):
    """Nodes of one model, and what a run must know of them.

    Where the living agree on w, the sum of their gradients at w is `tilt` times what they have
    and are owed of what exchanges only move (`interface.conserved_parts`): 0, but for deaths.
    """

    model: Any  # a node model: see `node_models.interface`
    dim: int  # of what they say to each other
    changing: tuple[str, ...] = ()  # the arrays of the model that are the nodes' state
    values: Array | None = None  # (nodes, columns): the part of their state that is in `work`
    edge_rate: float = 1.0  # of all edges together
    step_rates: Array = np.empty(0)  # of the nodes' own gradients; empty where they take none
    tilt: float = 0.0
    own: OwnGradients | None = None  # where the nodes' functions are not compiled

    @property
    def gradients_at_answers(self) -> bool:
        """Whether a gradient is what a node finds before it says something."""
        return len(self.step_rates) == 0

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of the nodes' state, themselves."""
        return {name: getattr(self.model, name) for name in self.changing}

    def take_own_gradient(self, work: Array, i: int) -> None:
        """Let node i, which has flowed to now, take the step of a gradient of Python's."""
        assert self.own is not None
        self.own.slope[:] = self.own.gradient(i, self.own.points[i].copy())
        take_slope_at(self.model, work, i)

    def make_work(self, speeds: Array) -> Array:
        """Return `work` at time 0, of nodes whose clocks run at these speeds."""
        values = np.empty((len(speeds), 0)) if self.values is None else self.values
        return np.column_stack([np.zeros(len(speeds)), speeds, values])


class Tests(NamedTuple):
    """Tests of the error after every `period` events of a block.

    Each makes a row (t, exchanges so far, error); the first error outside of `bounds` ends a run.
    """

    period: int
    bounds: Array
    rows: Array
    before: int = 0  # exchanges before the block, where every event is one

    def are_over(self, made: int) -> bool:
        """Tell whether the last of so many tests ends the run."""
        low, high = self.bounds
        return made > 0 and not low < self.rows[made - 1, 2] < high


# The kinds of engines, nodes and options whose loop this process has compiled.
_compiled: set[tuple[type, ...]] = set()

NO_TESTS = Tests(NO_LIMIT, np.zeros(2), np.empty((0, 3)))


class Engine(Checkpointed):
    """Nodes on a graph, moved by the events of one clock: marks are edges, then nodes.

    t is the time of what happened last; `ledger` has two rows, what died with nodes and what came
    with those that joined, of what exchanges only move.
    """

    changing: tuple[str, ...] = ("arrays", "random", "t", "messages", "gradients")

    arrays: dict[str, Array]  # all that events change
    rates: Array  # of the marks
    random: np.random.Generator | None  # of the links and of the nodes; None where none is asked
    alive: Array
    work: Array
    ledger: Array
    t = 0.0
    messages = 0  # exchanges that were carried out
    gradients = 0  # of the nodes' functions, or of their conjugates
    node_due: int | None = None  # the node that is to take a gradient of Python's, before all else
    only_exchanges = False  # whether every event is one that is carried out
    last_change = 0.0  # when the last death or join is; 0 where there is none
    show: Callable[[], None] | None = None  # called now and then within a long block of events
    # A slice has so many steps of a compiled loop, before Python has its turn and hears Ctrl-C.
    # They take nanoseconds or, where nodes solve problems, milliseconds: the number follows the
    # wall clock.  What is computed does not depend on it.
    # A step that takes longer than a slice should is made on a thread of its own.
    slice_steps = 1
    step_seconds = math.inf  # of a slice; not known yet

    def __init__(self, graph: Graph, nodes: NodeSet, log: bool) -> None:
        self.graph, self.nodes = graph, nodes
        self.logging = log  # whether a log is kept

    def compile(self, *options: Any) -> None:
        """Compile the loop, with an event that is never reached, so that runs are timed without.

        options: what it is compiled for, beside the nodes.
        """
        model = self.nodes.model
        kinds = tuple(map(type, (self, self.random, model, *model, *options)))
        if kinds not in _compiled:
            never = Events(0, 0.0, np.zeros(1), np.zeros(1), np.zeros(1, np.int64))
            self.run(never, 0, -1.0, 1, NO_TESTS)
            _compiled.add(kinds)

    def make_stream(self, root: Root, total: float | None = None) -> Stream:
        """Start the clock of all marks together, which runs at the rate `total`, their sum."""
        rate = float(self.rates.sum()) if total is None else total
        return clocks.Poisson(root, rate, Categorical(self.rates / rate)).stream()

    def run(
        self, events: Events, done: int, stop: float, most: int, tests: Tests
    ) -> tuple[int, int]:
        """Let happen what does up to the end of the events (the first `done` of which are done),
        to the time `stop`, to `most` exchanges or to an error out of bounds.

        Returns how many of the events are done, and how many tests were made.
        """
        made, more = 0, True
        while more:
            left, began = tests._replace(rows=tests.rows[made:]), time.perf_counter()
            operations = OPERATIONS * self.step_seconds * self.slice_steps
            done, tested, more = interruptible(
                operations, self.run_slice, events, done, stop, most, left
            )
            made += tested
            if self.node_due is not None:
                # Not on the thread of the loop: it is the user's code, as slow as it may be.
                node, self.node_due = self.node_due, None
                self.nodes.take_own_gradient(self.work, node)
            if more:
                self.fit_slice(time.perf_counter() - began)
                if self.show is not None:
                    self.show()
        return done, made

    def run_slice(
        self, events: Events, done: int, stop: float, most: int, tests: Tests
    ) -> tuple[int, int, bool]:
        """Do the next slice of `run`; returns also whether there is more to do."""
        raise NotImplementedError

    def fit_slice(self, seconds: float) -> None:
        """Choose the next slice, after a whole one that took so long."""
        self.step_seconds = seconds / self.slice_steps
        if seconds < SHORTEST_SLICE:
            self.slice_steps = min(
                MOST_SLICE_STEPS, self.slice_steps * (64 if 64 * seconds < LONGEST_SLICE else 8)
            )
        elif seconds > LONGEST_SLICE:
            self.slice_steps = max(1, self.slice_steps // 2)

    def advance(self, events: Events) -> None:
        """Let these events happen, and all that comes of them up to the last of them."""
        if events.size:
            self.run(events, 0, float(events.t[-1]), NO_LIMIT, NO_TESTS)

    def restore(self, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Put a state back: arrays of the same shape are written in place."""
        live = self.arrays
        super().restore(plain, arrays)
        for name, own in live.items():
            if own.shape == self.arrays[name].shape:
                own[...], self.arrays[name] = self.arrays[name], own

    def estimate(self, t: float) -> Array:
        """Return every node's estimate at time t, which no event is after; of a dead one at its
        death."""
        out = np.empty((len(self.work), self.nodes.dim))
        states = {name: own.copy() for name, own in self.nodes.arrays().items()}
        model = self.nodes.model._replace(**states)
        operations = OPERATIONS * self.step_seconds * len(self.work)
        check_solved(
            interruptible(operations, estimate_all, model, self.work.copy(), self.alive, t, out)
        )
        return out

    def sum_owed(self) -> Array:
        """Return what was paid and not applied yet."""
        return np.zeros(self.nodes.dim)

    def find_conserved(self) -> tuple[Array, Array]:
        """Return what every node has of what exchanges only move, (nodes, dim), and how large the
        numbers are of which that is made."""
        model, columns = self.nodes.model, range(self.nodes.dim)
        parts = [model.conserved_parts(self.work, ..., c) for c in columns]
        one, other = (np.column_stack(part) for part in zip(*parts, strict=True))
        return one + other, np.abs(one) + np.abs(other)

    def find_balance(self) -> Array:
        """Return what the living have and are owed, and what died with others: the sum that
        exchanges leave as it is."""
        died, _ = self.ledger
        return np.asarray(self.find_conserved()[0][self.alive].sum(axis=0) + self.sum_owed() + died)

    def find_tilt(self) -> Array:
        """Return the sum of the living's gradients where they will agree."""
        died, joined = self.ledger
        if not self.ledger.any():
            return np.zeros(self.nodes.dim)
        with np.errstate(invalid="ignore"):  # of a run that diverged
            return np.asarray(self.nodes.tilt * (joined - died))

    def ledger_error(self) -> float:
        """Return how far the balance is from what came, relative, for nodes that start with
        nothing."""
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
            error = self.find_balance() - self.ledger[1]
            size = self.find_conserved()[1].sum(axis=0)
            return float((np.abs(error) / np.where(size > 0.0, size, 1.0)).max())

    def error(self, t: float) -> float:
        """Return the disagreement at time t, of models that have one."""
        return float(error_at(self.nodes.model, self.work, self.alive, t, self.sum_owed()))

    def staleness(self) -> Staleness | None:
        """Return how old answers were; None where exchanges are instantaneous."""
        return None

    def make_log(self) -> Log:
        """Return the log so far, where one is kept."""
        raise NotImplementedError

    def list_past_changes(self) -> list[tuple[float, int, bool]]:
        """Return the deaths and joins that have taken place, as `Faults.changes`."""
        return []

    def find_next_change(self) -> float:
        """Return when the next death or join is; infinity where none is to come."""
        return math.inf

    def is_cut_off(self) -> bool:
        """Tell whether nothing can happen any more: never, where every edge will tick again."""
        return False


def check_solved(found: bool) -> None:
    """Raise ArithmeticError where a node could not find what to say."""
    if not found:
        raise ArithmeticError(
            "a node could not solve its own problem: its values are no longer finite, or the "
            "columns differ too much in size"
        )


# Compiled: what is asked of a node, or of all


@jit_uncounted
def take_slope_at(nodes: Any, work: Array, i: int) -> None:
    """Let node i take the step with the gradient that stands in the model."""
    take_slope(nodes, work, i)


@jit_uncounted
def flow_all(nodes: Any, work: Array, alive: Array, t: float) -> None:
    """Bring every living node to time t."""
    for i in range(work.shape[0]):
        if alive[i]:
            flow_to(nodes, work, i, work[i, SPEED] * t)


@jit_uncounted
def estimate_all(nodes: Any, work: Array, alive: Array, t: float, out: Array) -> bool:
    """Write what every living node has found at time t, and a dead one had at its death."""
    for i in range(out.shape[0]):
        if alive[i]:
            flow_to(nodes, work, i, work[i, SPEED] * t)
        if not find_answer(nodes, work, i):
            return False
        for c in range(out.shape[1]):
            out[i, c] = estimate(nodes, work, i, c)
    return True


@jit_uncounted
def error_at(nodes: Any, work: Array, alive: Array, t: float, owed: Array) -> float:
    """Return the disagreement at time t; no node is touched."""
    return float(disagreement(nodes, work, alive, t, owed))
