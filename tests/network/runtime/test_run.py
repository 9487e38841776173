"""Real nodes in processes of this machine."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

import numpy as np
import pytest

from continuized.network import (
    Faults,
    Gossip,
    Graph,
    NodeModelSpec,
    Ray,
    StalenessWarning,
    replay,
    run,
)
from continuized.network.logs.entries import LOG_FALL
from continuized.network.protocol.node_model import AVERAGING, GossipModel
from continuized.network.protocol.transitions import Message
from continuized.network.runtime import supervisor
from continuized.network.runtime.real_run import assign_nodes
from continuized.network.runtime.run import _plan_changes
from continuized.network.runtime.scheduler import FaultyLink
from continuized.network.runtime.transports import local
from tests.helpers.ports import find_port
from tests.helpers.processes import assert_none_outlives
from tests.helpers.simulated_wires import OCTAHEDRON

CYCLE = Graph.of("cycle:6")
VALUES = np.array([6.0, 0.0, 0.0, 3.0, 0.0, 0.0])


def replayed(r: object, graph: Graph = CYCLE, values: np.ndarray = VALUES) -> None:
    """The log leads to the values of the run, of every node that lives."""
    x, z = replay(graph, values, r.method, r.log)
    alive = np.ones(graph.nodes, dtype=bool)
    back = {node for _, node in r.joins}
    alive[[node for _, node, _ in r.deaths if node not in back]] = False
    np.testing.assert_allclose(x[alive], r.x[alive], rtol=0, atol=1e-12)
    np.testing.assert_allclose(z[alive], r.z[alive], rtol=0, atol=1e-12)


def test_loss_copies_and_skewed_clocks_leave_the_ledger_closed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    values = np.column_stack([VALUES, np.arange(6.0)])
    given = values.copy()
    r = run(
        CYCLE,
        values,
        processes=2,
        loss=0.1,
        duplication=0.05,
        skew=0.5,
        speed=300.0,
        rng=1,
        progress=True,
    )
    assert "error" in capfd.readouterr().err
    assert r.reached
    assert r.deaths == []
    assert r.ledger_error < 1e-12
    assert r.mean_drift < 1e-12
    np.testing.assert_allclose(r.x, np.broadcast_to([1.5, 2.5], (6, 2)), atol=1e-3)
    np.testing.assert_array_equal(values, given)
    assert r.staleness is not None
    assert r.trace.error[0] == 1.0
    assert r.messages == np.count_nonzero(r.log.kind == 1)
    replayed(r, values=values)


def test_killed_nodes_take_only_their_share_and_one_comes_back() -> None:
    began = time.monotonic()
    graph = Graph.of(OCTAHEDRON)
    r = run(
        graph, VALUES, processes=1, kill=[(0.2, 1), (0.3, 4)], rejoin=[(0.5, 1)],
        speed=200.0, rng=2, seconds=20.0,
    )  # fmt: skip
    assert time.monotonic() - began < 30.0  # the promise: no hang
    assert r.reached
    assert [(node, why) for _, node, why in r.deaths] == [
        (1, "killed by SIGKILL"),
        (4, "killed by SIGKILL"),
    ]
    assert [node for _, node in r.joins] == [1]
    assert r.ledger_error < 1e-12
    # The five that live agree; the dead had values in [0, 6], so the mean moved by less.
    alive = [0, 1, 2, 3, 5]
    np.testing.assert_allclose(r.x[alive], r.x[alive].mean(), atol=1e-2)
    replayed(r, graph)


class Failing(GossipModel):
    """Raises when it is asked for the third time."""

    def __init__(self, fails: bool, **options: object) -> None:
        super().__init__(**options)
        self.left = 3 if fails else 10**9

    def answer(self) -> np.ndarray:
        self.left -= 1
        if self.left < 0:
            raise ValueError("no more answers")
        return super().answer()


class NeverMade(GossipModel):
    """Cannot be made at all."""

    def __init__(self, **options: object) -> None:
        raise RuntimeError("no data")


def test_a_model_that_raises_ends_its_node_and_no_other() -> None:
    graph = Graph.of(OCTAHEDRON)
    constants = Gossip().constants(graph)._asdict()
    specs = [
        NodeModelSpec(
            "tests.network.runtime.test_run:Failing",
            {"x": VALUES[i : i + 1]},
            {"fails": i == 2, **constants},
        )
        for i in range(6)
    ]
    specs[5] = NodeModelSpec(
        "tests.network.runtime.test_run:NeverMade", {"x": VALUES[5:]}, constants
    )
    r = run(graph, specs, processes=2, speed=200.0, seconds=15.0, rng=0)
    assert sorted((node, why) for _, node, why in r.deaths) == [
        (2, "ValueError: no more answers"),
        (5, "RuntimeError: no data"),
    ]
    assert r.ledger_error < 1e-12
    assert r.reached
    alive = [0, 1, 3, 4]
    np.testing.assert_allclose(r.x[alive], r.x[alive].mean(), atol=1e-2)


class Hanging(GossipModel):
    """Never comes back from its second answer."""

    asked = 0

    def answer(self) -> np.ndarray:
        self.asked += 1
        while self.asked > 1:
            time.sleep(0.1)
        return super().answer()


def test_a_node_that_is_to_come_back_before_its_end_is_heard_of_comes_back() -> None:
    r = run(
        "grid:3x3", np.arange(9.0), tol=1e-8, processes=2, rng=0,
        kill=[(0.3, 4)], rejoin=[(0.301, 4)],
    )  # fmt: skip
    assert [node for _, node, _ in r.deaths] == [node for _, node in r.joins] == [4]
    assert r.ledger_error < 1e-12


def test_a_process_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "SILENT_AFTER", 3.0)
    graph = Graph.of("complete:3")
    constants = Gossip().constants(Graph.of(OCTAHEDRON))._asdict()
    names = ["continuized.network.protocol.node_model:GossipModel"] * 2 + [
        "tests.network.runtime.test_run:Hanging"
    ]
    specs = [NodeModelSpec(n, {"x": VALUES[i : i + 1]}, constants) for i, n in enumerate(names)]
    r = run(graph, specs, processes=3, speed=50.0, tol=1e-300, seconds=6.0, rng=0)
    assert [(node, why) for _, node, why in r.deaths] == [(2, "its process said nothing for 3 s")]
    assert r.ledger_error < 1e-12


def test_garbage_on_the_ports_does_no_harm() -> None:
    port = find_port()
    stop = threading.Event()

    def speak() -> None:
        random = np.random.default_rng(0)
        while not stop.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), 1.0) as s:
                    for _ in range(50):
                        body = random.bytes(64)
                        s.sendall(struct.pack("<I", len(body)) + body)
                    s.sendall(random.bytes(1000))
            except OSError:
                time.sleep(0.01)

    thread = threading.Thread(target=speak)
    thread.start()
    try:
        r = run(CYCLE, VALUES, processes=1, port=port, speed=200.0, rng=3)
    finally:
        stop.set()
        thread.join()
    assert r.reached
    assert r.deaths == []
    assert r.ledger_error < 1e-12
    assert r.dropped > 0


def test_strangers_that_say_nothing_keep_no_node_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are there before the nodes connect, and more of them than may stay."""
    with contextlib.ExitStack() as strangers:

        class Crowded(local.LocalTransport):
            def broadcast(self, command: dict[str, object]) -> None:
                for port in [number for _, number in command.get("addresses", ())]:
                    for _ in range(200):
                        stranger = socket.create_connection(("127.0.0.1", port), 5.0)
                        sockets.append(strangers.enter_context(stranger))
                super().broadcast(command)

        sockets: list[socket.socket] = []
        monkeypatch.setattr(local, "LocalTransport", Crowded)
        with pytest.warns(RuntimeWarning, match="strangers .* were ended") as warned:
            r = run(CYCLE, VALUES, processes=2, speed=50.0, tol=1e-300, seconds=4.0, rng=3)
        assert len(sockets) == 400
    # About 50 exchanges a second, from the first on: nobody waited for the strangers to go.
    assert r.messages > 110
    assert r.error < 1e-4
    assert r.message == "The time asked for has passed."
    # All whom the system let in: it forgets some where hundreds wait to be accepted.
    assert 300 < r.dropped <= 400
    assert str(warned[0].message).startswith(f"{r.dropped} connections")
    assert r.deaths == []
    assert r.ledger_error < 1e-12


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} of 127.0.0.1 is in use"):
            run(CYCLE, VALUES, processes=1, port=port)


def test_no_process_outlives_a_run_that_is_killed() -> None:
    assert_none_outlives(
        "network.run('cycle:6', np.arange(6.0), processes=2, tol=1e-300, seconds=60.0)"
    )


def test_an_interrupt_ends_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Spy(local.LocalTransport):
        def start(self, plan: object) -> None:
            super().start(plan)
            started.extend(self._processes.values())

        def next_report(self, timeout: float) -> object:
            if started and self._processes:
                raise KeyboardInterrupt
            return super().next_report(timeout)

    monkeypatch.setattr(local, "LocalTransport", Spy)
    with pytest.raises(KeyboardInterrupt):
        run(CYCLE, VALUES, processes=2)
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_messages_too_slow_for_acceleration_make_it_plain_gossip() -> None:
    graph = Graph.of("path:8")
    words = "(needs|bears no) more than .* on this graph: all nodes went on as plain gossip"
    with pytest.warns(StalenessWarning, match=words):
        r = run(graph, np.arange(8.0), processes=1, speed=6000.0, delay=30.0, tol=0.02, rng=0)
    assert r.fell_back
    assert r.reached  # where acceleration would diverge
    assert r.ledger_error < 1e-12
    np.testing.assert_array_equal(r.x, r.z)
    assert np.count_nonzero(r.log.kind == LOG_FALL) == 8
    replayed(r, graph, np.arange(8.0))


BAD = {
    "transport": (
        {"transport": "pigeon"},
        r'transport must be "local", "ray" or network.Ray\(\.\.\.\), got',
    ),
    "method": ({"method": "quick"}, "method"),
    "NaN": ({"values": [np.nan] * 6}, "finite"),
    "shape": ({"values": [1.0]}, "shape"),
    "loss": ({"loss": 1.0}, "loss must be a probability"),
    "speed": ({"speed": 0.0}, "speed must be a finite number > 0"),
    "tol": ({"tol": -1.0}, "tol must be a finite number > 0"),
    "processes": ({"processes": 0}, "processes must be an integer >= 1"),
    "kill too many": (
        {"kill": 6},
        "kill must be an integer from 0 to 5, got 6; one node must be left",
    ),
    "kill no one": ({"kill": [(0.1, 9)]}, "node 9"),
    "restarts": ({"restarts": -1}, "restarts must be an integer >= 0, got -1"),
    "Ray and address": (
        {"transport": Ray(), "address": "auto"},
        r"give the address to network.Ray\(address",
    ),
    "Ray and port": ({"transport": Ray(), "port": 5000}, 'port= is for transport="local"'),
    "a list for Ray": (
        {"transport": Ray(resources=[{"a": 1}] * 3), "processes": 2},
        "resources has 3 entries for 2 processes: give one for each",
    ),
    "rejoin alive": ({"rejoin": [(0.1, 1)]}, "was not killed"),
    "address": ({"address": "auto"}, "address"),
    "models": ({"values": [NodeModelSpec(AVERAGING)] * 2}, "2 node models were given for 6 nodes"),
    "no model": ({"values": [NodeModelSpec(AVERAGING)] * 6}, "no node's model can be made"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_before_anything_starts(what: str) -> None:
    options, words = BAD[what]
    options = {"values": VALUES, **options}
    with pytest.raises(ValueError, match=words) as caught:
        run(CYCLE, options.pop("values"), **options)
    assert "\n" not in str(caught.value)


def test_a_link_with_a_constant_delay_holds_up_every_message_as_long() -> None:
    link = FaultyLink(np.random.default_rng(0), Faults(delay=2.0, law="constant").links())
    message = Message(0, 0, 1, 1)
    assert link.send([message], 1.0) == []
    assert link.due == 3.0
    assert link.send([], 3.0) == [message]


def test_nodes_to_be_killed_have_processes_of_their_own() -> None:
    assert assign_nodes(5, 2, {1}) == [[0, 3], [2, 4], [1]]
    assert assign_nodes(3, 8, set()) == [[0], [1], [2]]


def test_victims_chosen_by_their_number_leave_the_rest_connected() -> None:
    path = Graph.of("path:6")
    for seed in range(20):
        changes = _plan_changes(3, (), path, np.random.default_rng(seed))
        victims = [node for _, node, _ in changes]
        left = sorted(set(range(6)) - set(victims))
        assert left == list(range(left[0], left[0] + 3)), victims
