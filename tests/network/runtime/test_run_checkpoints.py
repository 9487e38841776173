"""Real runs that are ended and go on: by a limit, by SIGTERM, by the death of whoever started them;
and workers that are started again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized.network import Faults, Graph, NodeModelSpec, minimize, replay, run, split
from continuized.network.runtime.transports import local
from continuized.problems import LeastSquares
from continuized.support.checkpoints.checkpointer import CheckpointError, load
from tests.helpers.ports import find_port
from tests.helpers.processes import TELL_WORKERS, is_alive
from tests.helpers.simulated_wires import OCTAHEDRON

GRAPH = Graph.of("cycle:6")
VALUES = np.array([6.0, 0.0, 0.0, 3.0, 0.0, 0.0])
SLOW = {"speed": 100.0, "processes": 2}


def check_whole(r: Any) -> None:
    """The run is one, from its start to its end: its log leads there, and nothing was lost."""
    assert r.ledger_error < 1e-12
    assert (np.diff(r.trace.t) >= 0.0).all()
    assert (np.diff(r.trace.messages) >= 0).all()
    assert r.messages == np.count_nonzero(r.log.kind == 1)
    x, z = replay(GRAPH, VALUES, r.method, r.log)
    dead = {node for _, node, _ in r.deaths} - {node for _, node in r.joins}
    alive = [node for node in range(6) if node not in dead]
    np.testing.assert_allclose(x[alive], r.x[alive], rtol=0, atol=1e-12)
    np.testing.assert_allclose(z[alive], r.z[alive], rtol=0, atol=1e-12)


def test_a_run_that_ended_goes_on_with_other_processes(tmp_path: Path) -> None:
    """Soon after it goes on it is compared with its log: later, all mistakes are averaged out."""
    given = {"rng": 0, "checkpoint": tmp_path / "run", "speed": 60.0}
    first = run(GRAPH, VALUES, tol=1e-300, seconds=0.8, processes=2, every=0.2, **given)
    assert not first.reached
    assert first.messages > 20
    soon = run(GRAPH, VALUES, tol=1e-300, seconds=1.3, processes=3, resume=True, **given)
    assert soon.messages > first.messages
    check_whole(soon)
    r = run(GRAPH, VALUES, loss=0.1, tol=1e-12, processes=1, resume=True, **given)
    check_whole(r)
    assert r.reached
    assert r.deaths == []
    assert r.mean_drift < 1e-12
    assert r.t > soon.t > first.t
    assert r.trace.error[: len(first.trace.error) - 1].tolist() == first.trace.error[:-1].tolist()


@pytest.mark.slow
def test_the_dead_stay_dead_and_their_share_stays_lost(tmp_path: Path) -> None:
    file, kill = tmp_path / "run", [(0.1, 4)]
    first = run(
        GRAPH, VALUES, tol=1e-300, seconds=0.5, rng=0, kill=kill, checkpoint=file, **SLOW
    )  # fmt: skip
    r = run(GRAPH, VALUES, rng=0, kill=kill, checkpoint=file, resume=True, speed=300.0)
    check_whole(r)
    assert r.reached
    assert r.deaths == first.deaths
    assert [node for _, node, _ in r.deaths] == [4]
    alive = [0, 1, 2, 3, 5]
    np.testing.assert_allclose(r.x[4], first.x[4])
    np.testing.assert_allclose(
        (r.x + r.z)[alive].sum(), (first.x + first.z)[alive].sum(), rtol=1e-12
    )


STOPPED = [
    pytest.param([(0.4, 4)], [], 0.4, id="before a kill"),
    pytest.param([(0.1, 4)], [(0.5, 4)], 0.5, id="before a return"),
    pytest.param([(0.1, 4)], [(0.9, 4)], 0.5, id="long before", marks=pytest.mark.slow),
    pytest.param([(0.1, 4)], [(0.5, 4)], 0.55, id="in a return"),
]


@pytest.mark.parametrize(("kill", "rejoin", "seconds"), STOPPED)
def test_what_was_planned_and_not_done_is_done_by_the_run_that_goes_on(
    kill: Any, rejoin: Any, seconds: float, tmp_path: Path
) -> None:
    """A port that is given is free again where a node returns: nobody else holds it."""
    port = find_port()
    given: Any = {
        "kill": kill, "rejoin": rejoin, "rng": 0, "checkpoint": tmp_path / "run", "port": port,
        "processes": 1, "speed": 100.0,
    }  # fmt: skip
    first = run(GRAPH, VALUES, tol=1e-300, seconds=seconds, **given)
    assert len(first.deaths) + len(first.joins) < len(kill) + len(rejoin)
    r = run(GRAPH, VALUES, tol=1e-6, seconds=60.0, resume=True, **given)
    assert [node for _, node, _ in r.deaths] == [node for _, node in kill]
    assert [node for _, node in r.joins] == [node for _, node in rejoin]
    assert r.reached
    check_whole(r)


def test_a_kill_that_was_not_heard_of_is_done_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Deaf(local.LocalTransport):
        def kill(self, worker: int) -> None:
            """Do not end it yet."""

    given: Any = {"kill": [(0.1, 4)], "rng": 0, "checkpoint": tmp_path / "run", **SLOW}
    with monkeypatch.context() as patch:
        patch.setattr(local, "LocalTransport", Deaf)
        first = run(GRAPH, VALUES, tol=1e-300, seconds=0.4, **given)
    assert first.deaths == []
    r = run(GRAPH, VALUES, tol=1e-6, seconds=60.0, resume=True, **given)
    assert [node for _, node, _ in r.deaths] == [4]
    check_whole(r)


@pytest.mark.slow
def test_a_node_that_was_to_return_by_t_returns_to_those_that_minimise(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    parts = split(LeastSquares(rng.standard_normal((60, 3)), rng.standard_normal(60), l2=0.1), 6)
    given: Any = {
        "method": "dual", "transport": "local", "rng": 0, "checkpoint": tmp_path / "run",
        "processes": 1, "speed": 10.0, "faults": Faults(deaths=[(2.0, 4)], joins=[(6.0, 4)]),
    }  # fmt: skip
    first = minimize("cycle:6", parts, tol=1e-300, seconds=0.7, **given)
    assert [node for _, node in first.deaths] == [4]
    assert first.joins == []
    r = minimize("cycle:6", parts, tol=1e-300, seconds=5.0, resume=True, **given)
    assert r.deaths == first.deaths
    assert [node for _, node in r.joins] == [4]
    assert r.ledger_error < 1e-12


@pytest.mark.slow
def test_nodes_that_minimise_go_on_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    problem = LeastSquares(X, X @ [1.0, 2.0, 3.0], l2=0.1)
    given = {"method": "dadao", "transport": "local", "rng": 0, "checkpoint": tmp_path / "run"}
    parts = split(problem, 6)
    first = minimize("cycle:6", parts, tol=1e-300, seconds=1.0, processes=2, **given)
    r = minimize("cycle:6", parts, seconds=60.0, processes=1, resume=True, **given)
    assert not first.reached
    assert r.reached
    assert r.gradients > first.gradients > 0
    assert r.ledger_error < 1e-12
    np.testing.assert_allclose(r.x, np.broadcast_to(problem.x_star, (6, 3)), atol=1e-2)


DRIVER = f"""{TELL_WORKERS}
import sys
from tests.network.runtime.test_run_checkpoints import GRAPH, VALUES
folder, every = sys.argv[1:]
network.run(GRAPH, VALUES, tol=1e-300, seconds=60.0, rng=0, speed=100.0, processes=2,
    checkpoint=folder + "/run", log_file=folder + "/log", every=float(every))
"""


def read_events(path: Path) -> list[dict[str, Any]]:
    """Read the whole lines of a log."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]


def wait_for(done: Any) -> None:
    limit = time.monotonic() + 30.0
    while not done():
        assert time.monotonic() < limit, "it did not come"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("how", "every"),
    [(signal.SIGTERM, 1000.0), pytest.param(signal.SIGKILL, 0.2, marks=pytest.mark.slow)],
)
def test_a_run_goes_on_after_whoever_started_it_was_ended(
    how: signal.Signals, every: float, tmp_path: Path
) -> None:
    """SIGTERM has the checkpoint written; before SIGKILL there must have been one."""
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(tmp_path), str(every)],
        stdout=subprocess.PIPE, cwd=Path(__file__).parents[3],
    ) as child:  # fmt: skip
        assert child.stdout is not None
        workers = [int(word) for word in child.stdout.readline().split()]
        wanted, count = ("summary", 1) if how == signal.SIGTERM else ("checkpoint", 2)
        log = tmp_path / "log"
        wait_for(lambda: sum(line["event"] == wanted for line in read_events(log)) >= count)
        child.send_signal(how)
        code = child.wait(20.0)
    assert code == (143 if how == signal.SIGTERM else -signal.SIGKILL)
    wait_for(lambda: not any(is_alive(number) for number in workers))
    events = read_events(log)
    if how == signal.SIGTERM:
        assert [line["event"] for line in events[-2:]] == ["checkpoint", "end"]
        assert events[-1]["message"] == "SIGTERM ended the run."
    saved = load(tmp_path / "run")[0]["state"]
    assert len(saved["saved_nodes"]) == 6
    r = run(GRAPH, VALUES, rng=0, checkpoint=tmp_path / "run", resume=True, speed=300.0)
    check_whole(r)
    assert r.reached
    assert r.mean_drift < 1e-12
    assert r.messages > 20
    assert r.deaths == []


def test_a_process_that_ends_unasked_is_started_again_and_its_nodes_join(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Unlucky(local.LocalTransport):
        exchanges = 0

        def next_report(self, timeout: float) -> Any:
            report = super().next_report(timeout)
            before = self.exchanges
            if report is not None and report.record is not None:
                self.exchanges += len(report.record[1].get("entries", ()))
            if before < 60 <= self.exchanges:
                self._processes[0].kill()
            return report

    monkeypatch.setattr(local, "LocalTransport", Unlucky)
    log = tmp_path / "log"
    r = run(
        Graph.of(OCTAHEDRON), VALUES, processes=3, speed=100.0, restarts=1, rng=0, seconds=60.0,
        tol=1e-6, log_file=log,
    )  # fmt: skip
    assert [node for _, node, _ in r.deaths] == [0, 3]
    assert sorted(node for _, node in r.joins) == [0, 3]
    assert r.reached
    assert r.ledger_error < 1e-12
    np.testing.assert_allclose(r.x, r.x.mean(), atol=1e-2)
    events = read_events(log)
    kinds = [line["event"] for line in events]
    assert kinds[0] == "start"
    assert kinds[-1] == "end"
    assert kinds.count("exchange") == np.count_nonzero(r.log.kind == 1)
    assert [line["node"] for line in events if line["event"] == "death"] == [0, 3]
    assert sorted(line["node"] for line in events if line["event"] == "join") == [0, 3]
    assert kinds.count("summary") >= 1
    assert events[-1]["living"] == 6
    assert 0.0 < events[-1]["error"] < 1.0
    assert events[-1]["message"] == r.message


class Unsaved:
    """A model that does not say what changes in it."""

    plain = False

    def answer(self) -> np.ndarray:
        return np.zeros(1)


def test_what_cannot_be_kept_or_resumed_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run"
    run(GRAPH, VALUES, checkpoint=file, processes=1, tol=0.5, rng=0, speed=300.0)
    with pytest.raises(CheckpointError, match="of another run: its values"):
        run(GRAPH, VALUES + 1.0, checkpoint=file, resume=True, processes=1)
    with pytest.raises(ValueError, match="resume=True needs the path"):
        run(GRAPH, VALUES, resume=True)
    specs = [NodeModelSpec("tests.network.runtime.test_run_checkpoints:Unsaved")] * 6
    with pytest.raises(TypeError, match="checkpoint= needs models that are Checkpointed"):
        run(GRAPH, specs, checkpoint=tmp_path / "other")
    with pytest.raises(FileNotFoundError):
        run(GRAPH, VALUES, checkpoint=tmp_path / "absent" / "run", processes=1)
    with pytest.raises(FileNotFoundError):
        run(GRAPH, VALUES, log_file=tmp_path / "absent" / "log", processes=1)
    with pytest.raises(TypeError, match="log_file must be the path of a file or None, got 3"):
        run(GRAPH, VALUES, log_file=3)
    assert not (tmp_path / "other").exists()
