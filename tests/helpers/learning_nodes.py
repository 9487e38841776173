"""Workers that learn, in threads of one process: nodes with real links on 127.0.0.1, no PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from continuized.network import A2CiD2, Graph
from continuized.network.learning.background import BackgroundNode, listen, make_codec
from continuized.network.learning.learning_node import LearningNode
from continuized.network.learning.membership import Membership
from continuized.network.learning.model import LearningModel

KEY = bytes(range(32))


def make_node(
    graph: Graph,
    rank: int,
    x: np.ndarray,
    method: A2CiD2,
    *,
    seed: int = 0,
    buffers: int = 0,
    timeout: float = 5.0,
    ledger: bool = False,
) -> tuple[LearningNode, Membership]:
    """A node with a copy of x, of which the last `buffers` entries are averaged plainly."""
    membership = Membership(graph, rank, method)
    held = np.append(x, np.zeros(1, x.dtype))
    accelerated = x.size - buffers if method.accelerated else 0
    model = LearningModel(held, membership.constants(), accelerated)
    random = np.random.default_rng([seed, rank])
    return LearningNode(membership, model, random, timeout, ledger), membership


class Program:
    """What stands for a program that learns: its parameters, and the x they were last given."""

    def __init__(self, background: BackgroundNode, x: np.ndarray) -> None:
        self.background, self.parameters, self.old = background, x.copy(), x.copy()
        self.moved = np.zeros(x.size)  # by its own steps

    def step(self, displacement: Any = 0.0) -> bool:
        new = self.parameters + np.asarray(displacement, self.parameters.dtype)
        # What is handed over is rounded: this is what the node can see of the step.
        self.moved += new.astype(np.float64) - self.old
        taken = self.background.take_step(new, self.old)
        self.parameters = self.old.copy() if taken else new
        return taken

    @property
    def middle(self) -> np.ndarray:
        """(x + x~) / 2."""
        x, tilde = self.background.node.model.state()
        return 0.5 * (x.astype(np.float64) + tilde)


@contextmanager
def programs(
    graph: str, values: np.ndarray, method: A2CiD2 | None = None, **options: Any
) -> Iterator[list[Program]]:
    """Programs, one for each row of the values, with their links; closed at the end."""
    made, method = Graph.of(graph), method or A2CiD2()
    sockets = [listen("127.0.0.1", 0) for _ in values]
    addresses = {rank: opened.getsockname()[:2] for rank, opened in enumerate(sockets)}
    backgrounds = []
    for rank, (x, opened) in enumerate(zip(values, sockets, strict=True)):
        node, membership = make_node(made, rank, x, method, **options)
        codec = make_codec(KEY, x.size, x.dtype)
        backgrounds.append(BackgroundNode(node, membership, codec, opened, addresses))
    try:
        for background in backgrounds:
            background._thread.start()
        for background in backgrounds:
            assert background._linked.wait(20.0)
        yield [Program(b, x) for b, x in zip(backgrounds, values, strict=True)]
    finally:
        for background in backgrounds:
            background.close()
