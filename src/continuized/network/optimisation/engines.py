"""Nodes that optimise together and their links, moved by events: at once, or by messages."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from continuized.network.faults import Faults
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.node_models import Crew
from continuized.network.protocol import transitions as engine_protocol
from continuized.network.result import Staleness
from continuized.network.simulation import instant_events as compiled
from continuized.network.simulation.messages import CHANGING, Post
from continuized.network.simulation.node_models.interface import TIME
from continuized.problems.base import Array
from continuized.process import random_streams as seeds
from continuized.process.clock.events import Events
from continuized.support.checkpoints import state as checkpoints

NO_END = np.iinfo(np.int64).max


class Optimiser(Protocol):
    """What a `Run` needs of the nodes and their links."""

    rates: Array  # of rings, then of the nodes' own steps where they take any
    random: np.random.Generator

    last_change: float  # when the last death or join is; 0 where there is none

    @property
    def alive(self) -> Array: ...
    def advance(self, events: Events) -> None:
        """Let these happen, and all that comes of it up to the last of them."""
        ...

    def guesses(self, t: float) -> Array:
        """Every node's w at time t, which no event is after; of a dead one at its death."""
        ...

    @property
    def messages(self) -> int:
        """Exchanges that were carried out."""
        ...

    @property
    def gradients(self) -> int: ...
    def tilt(self) -> Array:
        """The sum of the living's gradients where they will agree."""
        ...

    def state(self) -> dict[str, Array]: ...
    def restore(self, arrays: dict[str, Array]) -> None: ...


class AtOnce:
    """Edges ring at the graph's rates, and an exchange takes no time.

    busy (nodes,): for how long a node is, after each of its exchanges; by default never.
    """

    def __init__(
        self, graph: Graph, crew: Crew, root: seeds.Root, busy: Array | None = None
    ) -> None:
        n = graph.nodes
        self.crew, self.dim = crew, len(crew.nodes.data.X[0])
        self.edges = np.ascontiguousarray(graph.edges, np.int64)
        self.rates = np.concatenate([crew.edge_rate * graph.P, crew.step_rates])
        self.random = seeds.generator(root, seeds.ROWS)
        self.work = np.tile([0.0, 1.0], (n, 1))
        self.free, self.busy = np.zeros(n), np.zeros(n) if busy is None else busy
        self.alive, self.last_change = np.ones(n, np.bool_), 0.0
        self.counts = np.zeros(len(self.rates), np.int64)

    def reset(self) -> None:
        """Back to the start, where all is 0."""
        self.work[:, TIME] = 0.0
        for array in (self.free, self.counts, *self.crew.state().values()):
            array[...] = 0

    def advance(self, events: Events) -> None:
        """See `Optimiser`."""
        found = compiled.run_events(
            self.crew.nodes, self.work, self.edges, events.t, events.marks, self.free, self.busy,
            self.random, self.counts, self.dim,
        )  # fmt: skip
        _check_solved(found)

    def guesses(self, t: float) -> Array:
        """See `Optimiser`."""
        return _guesses(self.crew, self.work, self.alive, t, self.dim)

    @property
    def messages(self) -> int:
        """Exchanges so far."""
        return int(self.counts[: len(self.edges)].sum())

    @property
    def gradients(self) -> int:
        """Of the nodes' functions, or of their conjugates."""
        if self.crew.gradients_at_answers:
            return 2 * self.messages
        return int(self.counts[len(self.edges) :].sum())

    def tilt(self) -> Array:
        """Nothing is ever lost."""
        return np.zeros(self.dim)

    def state(self) -> dict[str, Array]:
        """Copies."""
        mine = checkpoints.copies(self, ("work", "free", "counts"))
        return mine | {name: own.copy() for name, own in self.crew.state().items()}

    def restore(self, arrays: dict[str, Array]) -> None:
        """Go on from there."""
        checkpoints.put_back(self, ("work", "free", "counts"), arrays)
        for name, own in self.crew.state().items():
            own[...] = arrays[name]


class ByMessages:
    """Nodes ring by their own clocks and exchange message by message, with faults."""

    def __init__(self, graph: Graph, crew: Crew, root: seeds.Root, faults: Faults) -> None:
        self.crew, self.dim = crew, len(crew.nodes.data.X[0])
        speeds = faults.speeds(graph.nodes)
        work = np.column_stack([np.zeros(graph.nodes), speeds])
        self.post = Post(graph, crew.nodes, work, self.dim, faults, root, rate=crew.edge_rate)
        steps = crew.step_rates * speeds if len(crew.step_rates) else crew.step_rates
        self.rates = np.concatenate([self.post.rates, steps])
        self.random, self.last_change = self.post.rng, self.post.last_change

    @property
    def alive(self) -> Array:
        """Which nodes are there."""
        return self.post.alive

    def advance(self, events: Events) -> None:
        """See `Optimiser`."""
        assert events.marks is not None
        if not len(events.t):
            return
        stop, none = float(events.t[-1]), np.zeros(2)
        never = len(events.t) + 1
        self.post.run(events.t, events.marks, 0, stop, NO_END, never, none, np.empty((0, 3)))
        _check_solved(self.post.counts[engine_protocol.FAILED] == 0)

    def guesses(self, t: float) -> Array:
        """See `Optimiser`."""
        return _guesses(self.crew, self.post.work, self.alive, t, self.dim)

    @property
    def messages(self) -> int:
        """Exchanges so far."""
        return int(self.post.counts[engine_protocol.EXCHANGES])

    @property
    def gradients(self) -> int:
        """Of the nodes' functions, or of their conjugates."""
        at = engine_protocol.ANSWERS if self.crew.gradients_at_answers else engine_protocol.STEPS
        return int(self.post.counts[at])

    def tilt(self) -> Array:
        """See `Crew`."""
        died, joined = self.post.ledger
        with np.errstate(invalid="ignore"):  # of a run that diverged
            return np.asarray(self.crew.tilt * (joined - died))

    def ledger_error(self) -> float:
        """How far what the living have and are owed is from what came less what died, relative."""
        died, joined = self.post.ledger
        with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverged
            held = self.post.shares()[self.alive].sum(axis=0)
            error = held + self.post.owed() + died - joined
            size = self.post.sizes().sum(axis=0)
            return float((np.abs(error) / np.where(size > 0.0, size, 1.0)).max())

    def staleness(self) -> Staleness | None:
        """How old answers were."""
        return self.post.staleness()

    def state(self) -> dict[str, Array]:
        """Copies."""
        return checkpoints.copies(self.post, CHANGING) | {
            name: own.copy() for name, own in self.crew.state().items()
        }

    def restore(self, arrays: dict[str, Array]) -> None:
        """Go on from there."""
        self.post.restore(arrays)
        for name, own in self.crew.state().items():
            own[...] = arrays[name]


def _guesses(crew: Crew, work: Array, alive: Array, t: float, dim: int) -> Array:
    out = np.empty((len(work), dim))
    _check_solved(compiled.guesses(crew.copied_nodes(), work.copy(), alive, t, out))
    return out


def _check_solved(found: bool) -> None:
    if not found:
        raise ArithmeticError(
            "a node could not solve its own problem: its values are no longer finite, or the "
            "columns differ too much in size"
        )
