"""The methods of decentralised optimisation under way: their arrays, and the kernels on them."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from continuized import seeds
from continuized.clock.stream import Events
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation import a2cid2_events, conjugates, dadao_events, dual_events
from continuized.network.optimisation.a2cid2 import A2CiD2
from continuized.network.optimisation.dadao import DADAO, X
from continuized.network.optimisation.dual import Dual
from continuized.network.optimisation.objective import Objective
from continuized.network.rules import Constants
from continuized.problems.base import Array


class Optimiser(Protocol):
    """What the loop needs of a method under way."""

    rates: Array  # of the edges, then of the nodes where these have events of their own
    arrays: tuple[str, ...]  # its state, by the names of the attributes

    def advance(self, events: Events) -> None: ...
    def guesses(self, t: float) -> Array:
        """Every node's w at time t, which no event is after."""
        ...

    @property
    def messages(self) -> int: ...
    @property
    def gradients(self) -> int: ...


class DualExchanges:
    """The dual method.  A node is busy for a time `work` after each of its exchanges."""

    arrays = ("own", "free", "y", "z", "w", "counts")

    def __init__(
        self,
        graph: Graph,
        objective: Objective,
        constants: Constants,
        rates: Array,
        work: Array | None = None,
    ) -> None:
        nodes, dim = objective.nodes, objective.dim
        self.edges = np.ascontiguousarray(graph.edges, np.int64)
        self.constants, self.rates = constants, rates
        self.data = conjugates.data_of(objective, conjugates=True)
        self.room = conjugates.room_for(dim)
        self.own, self.free = np.zeros(nodes), np.zeros(nodes)
        self.work = np.zeros(nodes) if work is None else np.array(work, dtype=np.float64)
        self.y, self.z, self.w = (np.zeros((nodes, dim)) for _ in range(3))
        self.counts = np.zeros(len(self.edges), np.int64)  # by edge

    @classmethod
    def of(cls, graph: Graph, objective: Objective, method: Dual) -> DualExchanges:
        """With edges that ring at the graph's rates and nodes that are never busy."""
        return cls(graph, objective, method.constants(graph, objective), graph.P)

    def advance(self, events: Events) -> None:
        solved = dual_events.run_exchanges(
            self.edges, events.t, events.marks, self.own, self.free, self.work, self.y, self.z,
            self.w, self.data, self.constants, self.room, self.counts,
        )  # fmt: skip
        _check_solved(solved)

    def guesses(self, t: float) -> Array:
        w, theta = self.w.copy(), self.constants.theta
        _check_solved(
            dual_events.guesses(t, self.own, self.y, self.z, w, self.data, theta, self.room)
        )
        return w

    @property
    def messages(self) -> int:
        return int(self.counts.sum())

    @property
    def gradients(self) -> int:
        """Of the conjugates."""
        return 2 * self.messages


class _Counted:
    """Events counted by their marks: the edges', then the nodes'."""

    edges: Array
    counts: Array

    @property
    def messages(self) -> int:
        return int(self.counts[: len(self.edges)].sum())

    @property
    def gradients(self) -> int:
        return int(self.counts[len(self.edges) :].sum())


class DadaoEvents(_Counted):
    """DADAO."""

    arrays = ("own", "state", "counts")

    def __init__(self, graph: Graph, objective: Objective, method: DADAO, speeds: Array) -> None:
        nodes, dim = objective.nodes, objective.dim
        self.edges = np.ascontiguousarray(graph.edges, np.int64)
        self.steps = method.steps(graph, objective)
        self.rates = np.concatenate([self.steps.rate * graph.P, speeds])
        self.data = conjugates.data_of(objective, conjugates=False)
        self.own, self.state = np.zeros(nodes), np.zeros((nodes, 6, dim))
        self.counts = np.zeros(len(self.rates), np.int64)

    def advance(self, events: Events) -> None:
        dadao_events.run_events(
            self.edges, events.t, events.marks, self.own, self.state, self.data, self.steps,
            self.counts,
        )  # fmt: skip

    def guesses(self, t: float) -> Array:
        there = dadao_events.states_at(t, self.own, self.state, self.steps)
        return np.ascontiguousarray(there[:, X])


class StochasticEvents(_Counted):
    """A²CiD², or stochastic gradients with plain gossip."""

    arrays = ("own", "x", "x_tilde", "counts")

    def __init__(self, graph: Graph, objective: Objective, method: A2CiD2, speeds: Array) -> None:
        nodes, dim = objective.nodes, objective.dim
        self.edges = np.ascontiguousarray(graph.edges, np.int64)
        self.constants, self.step = method.constants(graph), method.step_for(objective)
        self.rates = np.concatenate([method.edge_rate(graph) * graph.P, speeds])
        self.data = conjugates.data_of(objective, conjugates=False)
        self.batch = method.batch
        self.random: np.random.Generator | None = None
        self.own = np.zeros(nodes)
        self.x, self.x_tilde = np.zeros((nodes, dim)), np.zeros((nodes, dim))
        self.counts = np.zeros(len(self.rates), np.int64)

    def seed(self, root: seeds.Root) -> None:
        """Where rows are drawn from."""
        self.random = seeds.generator(root, seeds.ROWS)

    def advance(self, events: Events) -> None:
        assert self.random is not None
        a2cid2_events.run_events(
            self.edges, events.t, events.marks, self.random.random((events.size, self.batch)),
            self.own, self.x, self.x_tilde, self.data, self.constants, self.step, self.counts,
        )  # fmt: skip

    def guesses(self, t: float) -> Array:
        eta = self.constants.theta
        there: Array = a2cid2_events.states_at(t, self.own, self.x, self.x_tilde, eta)
        return there


def _check_solved(solved: bool) -> None:
    if not solved:
        raise ArithmeticError(
            "a node could not solve its own problem: its values are no longer finite, or the "
            "columns differ too much in size"
        )
