"""The ledger of a real run, with workers in memory: it closes, and would show a mistake.

Chance: a sketch is off by more than 4 standard deviations with a probability of about 1e-4; its
seed is fixed.
"""

from __future__ import annotations

import numpy as np
import pytest

from continuized.network import Faults, Gossip, Graph
from continuized.network.protocol.node import Counts
from continuized.network.protocol.node_model import AVERAGING, NodeModelSpec
from continuized.network.runtime.monitor import RunMonitor
from continuized.network.runtime.node_process import NodeProcess
from continuized.network.runtime.sketch import BUCKETS, Sketch, find_margin
from continuized.network.runtime.transport import RunPlan
from continuized.network.workers.frames import FrameReader
from continuized.network.workers.records import pack

GRAPH = Graph.of("cycle:6")
VALUES = np.arange(6.0)
WORKERS = [[0, 2, 4], [1, 3], [5]]


def plan(**changes: object) -> RunPlan:
    constants = Gossip().constants(GRAPH)._asdict()
    models = [NodeModelSpec(AVERAGING, {"x": VALUES[i : i + 1]}, constants) for i in range(6)]
    options = {
        "graph": GRAPH, "models": models, "dim": 1, "workers": WORKERS, "key": bytes(32),
        "seed": [1, 2], "speed": 1000.0, "stride": 2.0, "timeout": 5.0,
        "faults": Faults(loss=0.1, duplication=0.1, delay=0.1), "log": False, "port": None,
    }  # fmt: skip
    return RunPlan(**{**options, **changes})


class MemoryTransport:
    """All workers of a plan in this process, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.processes = [NodeProcess(plan().write_order(worker)) for worker in range(len(WORKERS))]
        self.streams = [FrameReader(process.codec) for process in self.processes]
        self.inboxes: list[list] = [[] for _ in WORKERS]
        self.alive = set(range(len(WORKERS)))
        self.wall = 0.0
        self.monitor = RunMonitor(WORKERS, 1, averaging=True)
        self.report()
        self.monitor.begin()

    def broadcast(self, header: dict) -> None:
        for worker in self.alive:
            self.processes[worker].obey(header)

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self.wall += 0.0005
            for worker in self.alive:
                inbox, self.inboxes[worker] = self.inboxes[worker], []
                for other, data in self.processes[worker].take_turn(self.wall, inbox).items():
                    self.inboxes[other] += self.streams[other].feed(data)

    def report(self, final: bool = False) -> None:
        for worker in self.alive:
            self.monitor.take_report(worker, self.processes[worker].make_report(final))

    def lose(self, worker: int) -> None:
        """End a worker without telling it."""
        self.alive.discard(worker)
        for node in WORKERS[worker]:
            self.monitor.record_death(node, "killed")
        self.broadcast({"deaths": [(node, 1, False) for node in WORKERS[worker]]})


def test_the_ledger_closes_in_the_middle_of_a_run_with_what_is_on_its_way() -> None:
    transport = MemoryTransport()
    flying = 0.0
    for _ in range(20):
        transport.run(40)
        transport.monitor._final_reports.clear()
        transport.report(final=True)
        flying = max(flying, float(np.abs(transport.monitor.in_flight()).max()))
        assert transport.monitor.ledger_error() < 1e-13
        assert transport.monitor.drift() < 1e-12
    assert flying > 0.0  # else the test would not test it
    assert transport.monitor.messages > 100


def test_the_ledger_closes_after_a_death() -> None:
    transport = MemoryTransport()
    transport.run(20)
    transport.report()
    exchanges = transport.monitor.messages
    transport.lose(1)
    assert transport.monitor.messages == exchanges > 0  # those of the dead count
    transport.run(500)
    transport.broadcast({"quiet": True})
    transport.run(500)
    transport.report(final=True)
    monitor = transport.monitor
    assert monitor.idle[[0, 2]].all()
    assert monitor.ledger_error() < 1e-13
    assert monitor.drift() > 1e-3  # the dead took their share
    assert [node for _, node, _ in monitor.deaths] == [1, 3]


@pytest.mark.parametrize("mistake", ["lost", "twice"])
def test_the_ledger_shows_a_mistake(mistake: str) -> None:
    transport = MemoryTransport()
    transport.run(200)
    node = next(
        n for p in transport.processes for n in p.scheduler.nodes.values() if n.last_applied
    )
    x = node.model.x.copy()
    if mistake == "lost":
        node.model.pay(np.array([0.0]))  # what is paid goes nowhere
    else:
        node.model.apply(np.array([0.5]), plain=False)  # what comes was never paid
    assert not np.array_equal(node.model.x, x)
    transport.report(final=True)
    assert transport.monitor.ledger_error() > 1e-3


def test_a_trace_has_a_row_for_each_round_of_reports() -> None:
    transport = MemoryTransport()
    for _ in range(5):
        transport.run(200)
        transport.report()
        assert transport.monitor.complete_round({0, 1, 2})
        assert not transport.monitor.complete_round({0, 1, 2})
    trace = transport.monitor.trace
    assert len(trace.t) == 6
    assert (np.diff(trace.t) > 0.0).all()
    assert trace.error[0] == 1.0
    assert trace.error[-1] < 1e-3


LONG, COUNTS = 20_000, len(Counts.__dataclass_fields__)


def test_a_look_at_long_vectors_carries_no_whole_state() -> None:
    constants = Gossip().constants(GRAPH)._asdict()
    models = [NodeModelSpec(AVERAGING, {"x": np.full(LONG, float(i))}, constants) for i in range(6)]
    process = NodeProcess(plan(models=models, dim=LONG).write_order(0))
    whole, look = (len(pack(*process.make_report(whole=w))) for w in (True, False))
    assert whole > 3 * 5 * 8 * LONG  # three nodes
    assert look < 3 * 5 * 8 * BUCKETS + 2000


@pytest.mark.parametrize("averaging", [True, False])
def test_the_error_of_sketches_is_near_that_of_the_states(averaging: bool) -> None:
    """Of vectors that differ by the same number in all places: without signs it would be far."""
    rng = np.random.default_rng(0)
    monitor, sketch = RunMonitor(WORKERS, LONG, averaging), Sketch(LONG, [1, 2])
    header = {"t": 1.0, "dropped": 0, "strangers": 0, "idle": False, "final": False, "failures": []}
    monitor.living[:] = True
    for size in (1.0, 1e-3):
        states = rng.standard_normal((5, 6, LONG)) + np.arange(6.0)[:, None]
        states = 1.0 + size * states
        seen = np.array([[sketch.apply(row) for row in part] for part in states])
        for worker, nodes in enumerate(WORKERS):
            told = {"number": np.array(nodes), "counts": np.zeros((len(nodes), COUNTS))}
            monitor.take_report(worker, (header, {**told, "states": states[:, nodes]}))
            monitor.take_report(worker, (header, {**told, "seen": seen[:, nodes]}))
        if not monitor.rows:
            monitor.begin()
            continue
        monitor.add_row()
        exact = monitor.error
        monitor.add_row(whole=False)
        assert monitor.error != exact
        assert abs(monitor.error / exact - 1.0) < monitor.margin == find_margin(LONG) < 0.2
