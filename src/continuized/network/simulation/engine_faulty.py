"""Gossip whose exchanges go message by message, with delays, losses, deaths and joins."""

from __future__ import annotations

import numpy as np

from continuized.network.faults import Faults
from continuized.network.graphs.graph import Graph
from continuized.network.protocol import transitions as engine_protocol
from continuized.network.result import Log, Staleness
from continuized.network.rules import Constants
from continuized.network.simulation import engine_changes, engine_node
from continuized.network.simulation.instant import BLOCK, EXCHANGES, TEST, TIME, Block
from continuized.network.simulation.messages import CHANGING, Post
from continuized.network.simulation.node_models import gossip as engine_gossip
from continuized.problems.base import Array
from continuized.process import random_streams as seeds
from continuized.process.marks import Categorical
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.checkpointer import State

assert engine_gossip  # which tells what nodes of the kind `Constants` do


class Messages:
    """See `engine_post`."""

    def __init__(
        self,
        graph: Graph,
        values: Array,
        constants: Constants,
        root: seeds.Root,
        log: bool,
        faults: Faults,
    ) -> None:
        work = engine_node.rows_of(values, faults.speeds(graph.nodes))
        self.post = Post(graph, constants, work, values.shape[1], faults, root, log=log)
        total = float(self.post.rates.sum())
        self.block = Block(graph, Categorical(self.post.rates / total), root, total)
        self.t, self.messages = 0.0, 0

    @property
    def alive(self) -> Array:
        return self.post.alive

    def advance(self, stop: float, most: int, bounds: Array) -> tuple[int, Array]:
        """See `Engine`."""
        times, marks = self.block.ready()
        rows = np.empty((len(times) // self.block.period, 3))
        self.block.done, made = self.post.run(
            times, marks, self.block.done, stop, most, self.block.period, bounds, rows
        )
        rows = rows[:made]
        self.t = float(self.post.sums[engine_protocol.NOW])
        self.messages = int(self.post.counts[engine_protocol.EXCHANGES])
        if made and not bounds[0] < rows[-1, 2] < bounds[1]:
            return TEST, rows
        if self.messages >= most:
            return EXCHANGES, rows
        if stop < times[-1]:
            self.t = stop
            return TIME, rows
        return BLOCK, rows

    def states(self, t: float) -> tuple[Array, Array]:
        """Of every node at time t; of a dead one at its death."""
        post = self.post
        both = engine_node.states_at(post.work, post.alive, t, post.nodes.theta)
        x, z = np.hsplit(both, 2)
        return x.copy(), z.copy()

    def balance(self) -> tuple[Array, Array, Array]:
        """See `Engine`."""
        owed = self.post.owed()
        middle = engine_node.centre(self.post.work, self.alive, owed)
        died, joined = self.post.ledger
        held = self.post.shares()[self.alive].sum(axis=0)
        return middle, held + owed + died, joined.copy()

    def error(self, t: float) -> float:
        """The squared error at time t."""
        post = self.post
        arrays = post.alive, post.edge, post.work, post.transfer
        return float(engine_changes.error_at(post.nodes, *arrays, t))

    def over(self) -> bool:
        """Whether no two living nodes are neighbours, and none is to come."""
        ends = self.post.edge[:, [engine_protocol.SOURCE, engine_protocol.TARGET]]
        return self.t > self.post.last_change and not self.alive[ends].all(axis=1).any()

    def staleness(self) -> Staleness | None:
        """How old answers were."""
        return self.post.staleness()

    def log(self) -> Log:
        """So far."""
        return self.post.log()

    def state(self) -> State:
        """Between two blocks."""
        plain = {
            "t": self.t,
            "messages": self.messages,
            "stream": self.block.stream.state(),
            "links": self.post.rng.bit_generator.state,
        }
        log = {"log": self.post.logged()}
        return State(plain, checkpoints.copies(self.post, CHANGING) | log)

    def restore(self, state: State) -> None:
        """Go on from there."""
        plain, arrays = state
        self.t, self.messages = plain["t"], plain["messages"]
        self.block.stream.restore(plain["stream"])
        self.post.rng.bit_generator.state = plain["links"]
        self.post.restore(arrays)
