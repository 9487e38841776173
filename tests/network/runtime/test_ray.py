"""Real nodes as actors of Ray: one small cluster for all of these tests."""

from __future__ import annotations

import builtins
import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized.network import Graph, replay, run
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
        run(GRAPH, VALUES, "ray")
    assert 'pip install "continuized[ray]"' in str(caught.value)
    assert "\n" not in str(caught.value)


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
    r = run(GRAPH, VALUES, "ray", processes=2, loss=0.05, duplication=0.05, speed=300.0, rng=0)
    assert r.reached
    assert r.deaths == []
    assert r.ledger_error < 1e-12
    np.testing.assert_allclose(r.x, 1.5, atol=1e-3)
    x, z = replay(GRAPH, VALUES, "accelerated", r.log)
    np.testing.assert_allclose(x, r.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(z, r.z, rtol=0, atol=1e-12)
    assert cluster.is_initialized()  # a cluster that was there stays


ELSEWHERE = """
import sys
import numpy as np
from continuized.network import Graph, run
from tests.network.runtime.test_ray import GRAPH, VALUES
r = run(GRAPH, VALUES, "ray", address=sys.argv[1], processes=2, speed=200.0, tol=1e-4, rng=2)
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
        GRAPH, VALUES, "ray", processes=1, kill=[(0.2, 1)], rejoin=[(0.4, 1)],
        speed=200.0, rng=1, seconds=20.0,
    )  # fmt: skip
    assert r.reached
    assert [node for _, node, _ in r.deaths] == [1]
    assert "ActorDiedError" in r.deaths[0][2]
    assert [node for _, node in r.joins] == [1]
    assert r.ledger_error < 1e-12
    np.testing.assert_allclose(r.x, r.x.mean(), atol=1e-2)
