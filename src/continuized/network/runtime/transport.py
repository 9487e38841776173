"""What a run asks of a transport, and the plan from which a transport starts its workers.

A worker is an operating-system process (or an actor of Ray) that runs some of the nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from continuized.network.faults import Faults
from continuized.network.graphs.graph import Graph, list_directed
from continuized.network.protocol.node_model import NodeModelSpec
from continuized.network.runtime.wire_format import Record


def list_neighbours(graph: Graph) -> list[tuple[list[int], list[float]]]:
    """List, for every node, its neighbours in the order of the edges, and the P_ij of these."""
    (source, target), edge = list_directed(graph), np.tile(np.arange(len(graph.P)), 2)
    order = np.lexsort((edge, source))
    cuts = np.searchsorted(source[order], np.arange(1, graph.nodes))
    parts = (np.split(a[order], cuts) for a in (target, graph.P[edge]))
    return [(peers.tolist(), P.tolist()) for peers, P in zip(*parts, strict=True)]


@dataclass(frozen=True)
class RunPlan:
    """Everything that the workers of a run are told."""

    graph: Graph
    models: Sequence[NodeModelSpec]
    dim: int
    workers: Sequence[Sequence[int]]  # the nodes of each worker
    key: bytes
    seed: Sequence[int]
    speed: float
    stride: float
    timeout: float
    faults: Faults
    log: bool
    port: int | None
    edge_rate: float = 1.0  # of all edges together
    step_rates: Sequence[float] = ()  # of the nodes' own gradients; none where they take none

    def objects_of(self, worker: int) -> dict[int, Any]:
        """Return the Python objects of a worker's nodes, by their numbers, where they have any."""
        each = {number: dict(self.models[number].objects) for number in self.workers[worker]}
        return {number: objects for number, objects in each.items() if objects}

    def assignments(self) -> list[tuple[int, int]]:
        """List the pairs (node, its worker), one for each node."""
        return [(number, worker) for worker, nodes in enumerate(self.workers) for number in nodes]

    def write_order(self, worker: int, life: int = 0) -> Record:
        """Write the order that starts a worker; with life > 0, its nodes come back from death."""
        arrays: dict[str, NDArray[Any]] = {}
        nodes, faults = [], self.faults
        around, speeds = list_neighbours(self.graph), faults.speeds(self.graph.nodes)
        for number in self.workers[worker]:
            model = self.models[number]
            neighbours, P = around[number]
            arrays |= {f"{number}/{name}": array for name, array in model.arrays.items()}
            node = {
                "number": number,
                "neighbours": neighbours,
                "P": [self.edge_rate * p for p in P],
                "timeout": self.timeout,
                "speed": float(speeds[number]),
                "life": life,
                "logging": self.log,
            }
            if self.step_rates:
                node["step_rate"] = float(self.step_rates[number])
            nodes.append([node, model.factory, list(model.arrays), dict(model.options)])
        header = {
            "worker": worker,
            "assignments": self.assignments(),
            "key": self.key.hex(),
            "dim": self.dim,
            "seed": list(self.seed),
            "speed": self.speed,
            "stride": self.stride,
            "faults": [float(faults.loss), float(faults.duplication), float(faults.delay)],
            "constant": faults.law == "constant",
            "port": 0 if self.port is None else self.port + worker,
            "path": [str(folder) for folder in sys.path],
            "nodes": nodes,
        }
        return header, arrays


class WorkerReport(NamedTuple):
    """What was heard of a worker: a report, or None and the reason when it has ended."""

    worker: int
    record: Record | None
    reason: str = ""


class Transport(Protocol):
    """Starts the workers of a run, and carries commands to them and reports from them.

    The first report of a worker has its `address`.  Its clock starts when it is told those of all.
    """

    def start(self, plan: RunPlan) -> None:
        """Start all workers."""

    def spawn(self, worker: int, life: int) -> None:
        """Start a worker; with life > 0, one that has ended so often."""

    def broadcast(self, command: dict[str, Any]) -> None:
        """Send a command to every worker, to be obeyed (`Worker.obey`, `NodeProcess.obey`).

        Its keys, each optional: addresses (of workers), deaths (node, count, whether it is back),
        plain (go on as plain gossip), quiet (begin no exchange), end (report and stop).
        """

    def next_report(self, timeout: float) -> WorkerReport | None:
        """Return the next report, or None if none comes within this many seconds."""

    def kill(self, worker: int) -> None:
        """End a worker at once, without telling it."""

    def close(self) -> None:
        """End all workers.  May be called at any time, and more than once."""
