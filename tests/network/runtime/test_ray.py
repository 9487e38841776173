"""Real nodes as actors of Ray: one small cluster for all of these tests."""

from __future__ import annotations

import builtins
import gc
import os
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from continuized.network import Graph, Ray, replay, run
from continuized.network.runtime import supervisor
from continuized.network.workers import ray_cluster
from continuized.network.workers.ray_watch import find_processes
from tests.helpers.simulated_wires import OCTAHEDRON

GRAPH = Graph.of(OCTAHEDRON)
VALUES = np.array([6.0, 0.0, 0.0, 3.0, 0.0, 0.0])


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "ray":
            raise ImportError("no ray here")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError) as caught:
        run(GRAPH, VALUES, transport="ray")
    assert 'pip install "continuized[ray]"' in str(caught.value)
    assert "\n" not in str(caught.value)


class FailingRay:
    """Stands for Ray: `init` raises, or comes to listen at this address."""

    def __init__(self, outcome: Exception | str) -> None:
        self.outcome, self.running = outcome, False

    def is_initialized(self) -> bool:
        return self.running

    def init(self, **given: Any) -> None:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        self.running = True

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(gcs_address=self.outcome)

    def shutdown(self) -> None:
        self.running = False


def refusal(ray: FailingRay, monkeypatch: pytest.MonkeyPatch, **how: Any) -> str:
    monkeypatch.setattr(ray_cluster, "import_ray", lambda: ray)
    with pytest.raises((RuntimeError, ConnectionError)) as caught:
        run(GRAPH, VALUES, transport="ray", **how)
    assert not ray.running
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_ray_that_does_not_start_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    text = refusal(FailingRay(ValueError("no room.\nTraceback of Ray")), monkeypatch)
    assert text.startswith("Ray did not start on this machine (ValueError: no room); see whether")
    assert 'transport="local"' in text


@pytest.mark.skipif(sys.platform != "linux", reason="other systems need no folder of their own")
def test_a_folder_that_cannot_be_made_is_said_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "absent"))
    text = refusal(FailingRay("127.0.0.1:6379"), monkeypatch)
    assert text.startswith("Ray did not start on this machine (FileNotFoundError: ")


def test_a_ray_at_another_address_than_asked_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    text = refusal(FailingRay("192.0.2.2:6379"), monkeypatch)
    assert text.startswith("Ray listens at 192.0.2.2, where others may reach it, and not at 127.0")
    assert "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0" in text


def test_a_cluster_that_was_joined_before_stays_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = FailingRay("192.0.2.2:6379")
    ray.init()
    monkeypatch.setattr(ray_cluster, "import_ray", lambda: ray)
    for address in (None, "auto", "192.0.2.2:6379"):
        ray_cluster.RayCluster(Ray(address=address)).connect()
    with pytest.warns(RuntimeWarning, match="in the Ray cluster at 192.0.2.2:6379 already: add"):
        ray_cluster.RayCluster(Ray(address="192.0.2.9:6379")).connect()


def test_a_cluster_that_cannot_be_joined_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        began = time.monotonic()
        nobody = refusal(FailingRay(""), monkeypatch, address=address)
        assert time.monotonic() - began < 5.0
    assert nobody.startswith(f"the Ray cluster at '{address}' cannot be joined (ConnectionRefused")
    # This is all that Ray says where the token is missing.
    words = "Failed to connect to Ray cluster at"
    for text in (nobody, refusal(FailingRay(ConnectionError(words)), monkeypatch, address="auto")):
        assert "give the address that `ray start --head` tells, which may not be 127.0.0.1" in text
        assert "wants a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN" in text


def _is_child(number: int, parent: int) -> bool:
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except OSError:  # it has ended
        return True
    return int(status.rpartition(")")[2].split()[1]) == parent


@pytest.mark.slow
@pytest.mark.needs("ray")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_no_process_of_ray_outlives_a_run_that_is_killed_as_it_starts() -> None:
    """Not even those that Ray's processes have started in their turn."""
    code = "import numpy as np; from continuized.network import run\n" + (
        "run('cycle:6', np.arange(6.0), transport='ray', processes=2, tol=1e-300, seconds=60.0)"
    )
    # The names of Ray's sockets may not be longer than this allows.
    with tempfile.TemporaryDirectory(prefix="cz-", dir="/tmp") as folder:
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "RAY_TMPDIR": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as child:
            limit = time.monotonic() + 60.0
            while all(_is_child(n, child.pid) for n in find_processes(folder, child.pid)):
                assert time.monotonic() < limit, "Ray did not start"
                time.sleep(0.05)
            child.kill()
        limit = time.monotonic() + 5.0
        while find_processes(folder, child.pid):
            assert time.monotonic() < limit, "processes of Ray are still there"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    for name in ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_USAGE_STATS_ENABLED"):
        os.environ[name] = "0"
    import ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own, about its future defaults and open files
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            log_to_driver=False,
            logging_level="error",
            namespace="continuized",
        )
        yield ray
        ray.shutdown()
        gc.collect()


@pytest.mark.needs("ray")
def test_actors_reach_consensus_and_their_log_replays(cluster: Any) -> None:
    r = run(
        GRAPH, VALUES, transport="ray", processes=2, loss=0.05, duplication=0.05, speed=300.0, rng=0
    )
    assert r.reached
    assert r.deaths == []
    assert r.ledger_error < 1e-12
    np.testing.assert_allclose(r.x, 1.5, atol=1e-3)
    x, z = replay(GRAPH, VALUES, "accelerated", r.log)
    np.testing.assert_allclose(x, r.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(z, r.z, rtol=0, atol=1e-12)
    assert cluster.is_initialized()  # a cluster that was there stays


@pytest.mark.needs("ray")
def test_a_process_that_no_machine_can_take_is_named(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "START_WITHIN", 2.0)
    nowhere = Ray(resources=[{"nowhere": 1}, {}], num_cpus=0.5)
    with pytest.raises(TimeoutError, match="of 2 processes did not start within 2 s") as caught:
        run(GRAPH, VALUES, transport=nowhere, processes=2)
    assert "no machine of the cluster has what process 0 asks for, CPU 0.5, nowhere 1" in str(
        caught.value
    )


ELSEWHERE = """
import sys
import numpy as np
from continuized.network import Graph, run
from tests.network.runtime.test_ray import GRAPH, VALUES
r = run(GRAPH, VALUES, transport="ray", address=sys.argv[1], processes=2, speed=200.0, tol=1e-4,
        rng=2)
print(r.reached, r.ledger_error < 1e-12, len(r.deaths))
"""


@pytest.mark.needs("ray")
def test_a_cluster_is_joined_by_its_address_and_stays(cluster: Any) -> None:
    address = cluster.get_runtime_context().gcs_address
    told = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ELSEWHERE, address],
        capture_output=True, text=True, timeout=60.0, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert told.stdout.split() == ["True", "True", "0"], told.stderr
    assert [node["Alive"] for node in cluster.nodes()] == [True]


@pytest.mark.needs("ray")
def test_an_actor_is_killed_and_its_node_comes_back(cluster: Any) -> None:
    r = run(
        GRAPH, VALUES, transport="ray", processes=1, kill=[(0.2, 1)], rejoin=[(0.4, 1)],
        speed=200.0, rng=1, seconds=20.0,
    )  # fmt: skip
    assert r.reached
    assert [node for _, node, _ in r.deaths] == [1]
    assert "ActorDiedError" in r.deaths[0][2]
    assert [node for _, node in r.joins] == [1]
    assert r.ledger_error < 1e-12
    np.testing.assert_allclose(r.x, r.x.mean(), atol=1e-2)
