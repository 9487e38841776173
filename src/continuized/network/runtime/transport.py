"""What a run asks of a transport, and the orders with which it starts the processes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from continuized.network.graphs.graph import Graph
from continuized.network.protocol.node_model import RuleSpec
from continuized.network.runtime.wire_format import Record


def adjacency(graph: Graph) -> list[tuple[list[int], list[float]]]:
    """Of every node: its neighbours, and the P_ij of the edges to them."""
    around: list[tuple[list[int], list[float]]] = [([], []) for _ in range(graph.nodes)]
    for (i, j), P in zip(graph.edges.tolist(), graph.P.tolist(), strict=True):
        for here, there in ((i, j), (j, i)):
            around[here][0].append(there)
            around[here][1].append(P)
    return around


@dataclass(frozen=True)
class Plan:
    """All that the processes of a run are told."""

    graph: Graph
    rules: Sequence[RuleSpec]
    dim: int
    places: Sequence[Sequence[int]]  # the nodes of each process
    key: bytes
    seed: Sequence[int]
    speed: float
    stride: float
    timeout: float
    skews: NDArray[np.float64]
    loss: float
    duplication: float
    delay: float
    log: bool
    port: int | None

    def home(self) -> list[tuple[int, int]]:
        """(node, place) of every node."""
        return [(number, place) for place, nodes in enumerate(self.places) for number in nodes]

    def order(self, place: int, life: int = 0) -> Record:
        """For the process of a place; with life > 0, of nodes that come back."""
        arrays: dict[str, NDArray[Any]] = {}
        nodes = []
        around = adjacency(self.graph)
        for number in self.places[place]:
            rule = self.rules[number]
            neighbours, P = around[number]
            arrays |= {f"{number}/{name}": array for name, array in rule.arrays.items()}
            nodes.append(
                {
                    "number": number,
                    "neighbours": neighbours,
                    "P": P,
                    "skew": float(self.skews[number]),
                    "life": life,
                    "joining": life > 0,
                    "factory": rule.factory,
                    "arrays": list(rule.arrays),
                    "options": dict(rule.options),
                }
            )
        header = {
            "place": place,
            "key": self.key.hex(),
            "dim": self.dim,
            "seed": list(self.seed),
            "speed": self.speed,
            "stride": self.stride,
            "timeout": self.timeout,
            "loss": self.loss,
            "duplication": self.duplication,
            "delay": self.delay,
            "log": self.log,
            "port": 0 if self.port is None else self.port + place,
            "path": [str(folder) for folder in sys.path],
            "nodes": nodes,
        }
        return header, arrays


class Event(NamedTuple):
    """A report of a place, or (None, why) when its process has ended."""

    place: int
    record: Record | None
    why: str = ""


class Crew(Protocol):
    """The processes of a run."""

    def start(self, plan: Plan) -> None:
        """Start them all, and the clocks."""

    def revive(self, place: int, life: int) -> None:
        """Start a place again whose process ended."""

    def tell(self, header: dict[str, Any]) -> None:
        """A command for every place (see `Station.command`)."""

    def next(self, timeout: float) -> Event | None:
        """The next event; None if there is none within this many seconds."""

    def kill(self, place: int) -> None:
        """End its process at once, without a word to it."""

    def close(self) -> None:
        """End them all; may be called at any time, and twice."""
