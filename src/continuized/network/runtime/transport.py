"""What a run asks of a transport, and the plan from which a transport starts its workers.

A worker is an operating-system process (or an actor of Ray) that runs some of the nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from continuized.network.faults import Faults
from continuized.network.graphs.graph import Graph, list_neighbours
from continuized.network.protocol.node_model import NodeModelSpec
from continuized.network.runtime.saved_nodes import SavedNodes, to_record
from continuized.network.workers.records import Record


class Resumed(NamedTuple):
    """What a run that goes on from a checkpoint had come to."""

    nodes: SavedNodes  # that were alive
    lives: Mapping[int, int]  # how often nodes have died
    t: float
    times: int  # how often it was resumed: each time all draws are new
    returning: Collection[int]  # nodes that had died and were on their way back


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
    saving: bool = False  # whether the last reports have what is needed to go on
    resumed: Resumed | None = None
    edge_rate: float = 1.0  # of all edges together
    step_rates: Sequence[float] = ()  # of the nodes' own gradients; none where they take none

    def objects_of(self, worker: int) -> dict[int, Any]:
        """Return the Python objects of a worker's nodes, by their numbers, where they have any."""
        each = {number: dict(self.models[number].objects) for number in self.workers[worker]}
        return {number: objects for number, objects in each.items() if objects}

    def assignments(self) -> list[tuple[int, int]]:
        """List the pairs (node, its worker), one for each node."""
        return [(number, worker) for worker, nodes in enumerate(self.workers) for number in nodes]

    def write_order(self, worker: int, lives: Mapping[int, int] | None = None) -> Record:
        """Write the order that starts a worker.

        lives: of nodes that come back from death, how often they have died.
        """
        arrays: dict[str, NDArray[Any]] = {}
        nodes, faults, saved = [], self.faults, self._saved_nodes(worker) if lives is None else {}
        around, speeds = list_neighbours(self.graph), faults.speeds(self.graph.nodes)
        resumed = self.resumed if lives is None else None
        t = 0.0 if resumed is None else resumed.t
        for number in self.workers[worker]:
            if resumed and str(number) not in saved and number not in resumed.returning:
                continue  # it was dead
            model = self.models[number]
            neighbours, P = around[number]
            arrays |= {f"{number}/{name}": array for name, array in model.arrays.items()}
            node = {
                "number": number,
                "neighbours": neighbours,
                "P": [self.edge_rate * p for p in P],
                "timeout": self.timeout,
                "speed": float(speeds[number]),
                "life": self._lives(lives).get(number, 0),
                "logging": self.log,
            }
            if self.step_rates:
                node["step_rate"] = float(self.step_rates[number])
            if str(number) in saved:
                node |= {name: saved[str(number)][name] for name in ("time", "seq")}
            else:
                node["time"] = t * float(speeds[number])
            nodes.append([node, model.factory, list(model.arrays), dict(model.options)])
        header = {
            "worker": worker,
            "assignments": self.assignments(),
            "key": self.key.hex(),
            "dim": self.dim,
            "seed": [*self.seed, 0 if self.resumed is None else self.resumed.times],
            "t": t,
            "saving": self.saving,
            "speed": self.speed,
            "stride": self.stride,
            "links": faults.links(),
            "port": 0 if self.port is None else self.port + worker,
            "path": [str(folder) for folder in sys.path],
            "nodes": nodes,
        }
        of_saved, saved_arrays = to_record(saved)
        return {**header, **of_saved}, {**arrays, **saved_arrays}

    def _saved_nodes(self, worker: int) -> SavedNodes:
        kept = {} if self.resumed is None else self.resumed.nodes
        names = [str(number) for number in self.workers[worker]]
        return {name: kept[name] for name in names if name in kept}

    def _lives(self, lives: Mapping[int, int] | None) -> Mapping[int, int]:
        if lives is not None:
            return lives
        return {} if self.resumed is None else self.resumed.lives


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

    def spawn(self, worker: int, lives: Mapping[int, int] | None = None) -> None:
        """Start a worker; with `lives`, one that has ended (see `RunPlan.write_order`)."""

    def broadcast(self, command: dict[str, Any]) -> None:
        """Send a command to every worker, to be obeyed (`Worker.obey`, `NodeProcess.obey`).

        Its keys, each optional: addresses (of workers), deaths (node, count, whether it is back),
        plain (go on as plain gossip), quiet (the number of a pause in which no exchange is begun;
        0: go on), save (report whole states, and what is needed to go on), end (report and stop).
        """

    def next_report(self, timeout: float) -> WorkerReport | None:
        """Return the next report, or None if none comes within this many seconds."""

    def advise_absence(self, workers: Sequence[int]) -> str:
        """Say what to do about workers that do not start."""

    def kill(self, worker: int) -> None:
        """End a worker at once, without telling it."""

    def close(self) -> None:
        """End all workers.  May be called at any time, and more than once."""
