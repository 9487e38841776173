"""A cluster of three machines of Ray on this one, which asks for a token: a program.

    python -m tests.helpers.ray_cluster FOLDER

All on 127.0.0.1, and ended with the program, however that ends.  What came of each run stands in
FOLDER/results, as lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from continuized.network import Gossip, Graph, NodeModelSpec, Ray, run
from continuized.network.protocol.node_model import GossipModel
from continuized.network.workers import ray_watch
from tests.helpers.simulated_wires import OCTAHEDRON

GRAPH = Graph.of(OCTAHEDRON)
SITES = [{f"site_{k}": 1.0} for k in range(3)]
LONG = 50_000  # numbers of a vector: 400 kB


class Placed(GossipModel):
    """Writes down on which machine of Ray it was made, and in what environment."""

    def __init__(self, folder: str, number: int, **options: Any) -> None:
        import ray

        super().__init__(**options)
        if ray.is_initialized():  # not in the program that starts the run
            machine = ray.get_runtime_context().get_node_id()
            Path(folder, str(number)).write_text(f"{machine} {os.environ.get('MARK')}")


def place(folder: Path, transport: Ray) -> list[list[str]]:
    """Run three nodes in a process each; return their machines and their environments."""
    folder.mkdir()
    graph = Graph.of("complete:3")
    constants = Gossip().constants(Graph.of(OCTAHEDRON))._asdict()
    specs = [
        NodeModelSpec(
            "tests.helpers.ray_cluster:Placed",
            {"x": np.array([float(i)])},
            {"folder": str(folder), "number": i, **constants},
        )
        for i in range(3)
    ]
    assert run(graph, specs, transport=transport, processes=3, speed=100.0, tol=1e-2, rng=0).reached
    return [Path(folder, str(i)).read_text().split() for i in range(3)]


def main(folder: Path) -> None:
    import ray
    from ray.cluster_utils import Cluster
    from ray.util.placement_group import placement_group
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def tell(name: str, **what: Any) -> None:
        with open(folder / "results", "a") as results:
            results.write(json.dumps({"name": name, **what}) + "\n")

    local = {"node_ip_address": "127.0.0.1", "num_cpus": 1}
    cluster = Cluster()
    cluster.add_node(
        **local, include_dashboard=False, temp_dir=str(folder / "r"), resources=SITES[0]
    )
    cluster.add_node(**local, resources=SITES[1])
    third = cluster.add_node(**local, resources=SITES[2])
    address = cluster.address
    tell("started", address=address)

    ray.init(address=address, namespace="continuized", log_to_driver=False, logging_level="error")
    where = {
        machine["NodeID"]: next(k for k in range(3) if f"site_{k}" in machine["Resources"])
        for machine in ray.nodes()
    }
    found = place(folder / "a", Ray(resources=SITES, runtime_env={"env_vars": {"MARK": "ours"}}))
    tell("resources", machines=[[where[m], mark] for m, mark in found])
    group = placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    ray.get(group.ready(), timeout=30.0)
    found = place(folder / "b", Ray(scheduling_strategy=group))
    tell("placement group", machines=sorted(where[machine] for machine, _ in found))
    ray.util.remove_placement_group(group)

    values = np.random.default_rng(0).standard_normal((6, LONG))
    log = folder / "log"

    def wait_for(event: str, count: int) -> None:
        while not log.exists() or log.read_text().count(f'"event": "{event}"') < count:
            time.sleep(0.05)

    def kill_third_and_end() -> None:
        wait_for("exchange", 30)
        cluster.remove_node(third, allow_graceful=False)
        wait_for("join", 2)  # its nodes are back, on another machine
        os.kill(os.getpid(), signal.SIGTERM)

    killer = threading.Thread(target=kill_third_and_end, daemon=True)
    killer.start()
    machines = sorted(where, key=lambda machine: where[machine])
    near = [NodeAffinitySchedulingStrategy(machine, soft=True) for machine in machines]
    began, code = time.monotonic(), None
    try:
        run(
            GRAPH, values, transport=Ray(scheduling_strategy=near), processes=3, speed=30.0,
            tol=1e-300, restarts=1, seconds=60.0, rng=0, log_file=log, checkpoint=folder / "run",
            every=2.0,
        )  # fmt: skip
    except SystemExit as end:
        code = end.code
    tell("killed", code=code, seconds=time.monotonic() - began)
    r = run(
        GRAPH, values, tol=1e-8, rng=0, seconds=120.0, processes=2, speed=300.0,
        checkpoint=folder / "run", resume=True,
    )  # fmt: skip
    tell(
        "resumed", reached=r.reached, deaths=sorted(node for _, node, _ in r.deaths),
        reasons=sorted({why.split(":")[0] for _, _, why in r.deaths}),
        joins=sorted(node for _, node in r.joins), ledger_error=r.ledger_error,
        spread=float(np.abs(r.x - r.x.mean(axis=0)).max()),
    )  # fmt: skip
    ray.shutdown()
    cluster.shutdown()


# On this machine alone; and a machine that is gone is found out in a second, not in half a minute.
SETTINGS = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "300",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}

if __name__ == "__main__":
    os.environ |= SETTINGS
    here = Path(sys.argv[1])
    with subprocess.Popen(
        [sys.executable, "-P", ray_watch.__file__, str(here / "r")],
        stdin=subprocess.PIPE,
        start_new_session=True,
    ):
        warnings.simplefilter("ignore")
        main(here)
