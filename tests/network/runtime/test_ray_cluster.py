"""A cluster of three machines of Ray, all of them on this one: see `tests.helpers.ray_cluster`."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from continuized.network.workers.ray_watch import find_processes


@pytest.mark.slow
@pytest.mark.needs("ray")
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")
def test_nodes_on_three_machines_of_which_one_is_killed() -> None:
    """The cluster asks for a token.  Processes go where they are sent; those of the machine that is
    killed come back on another; SIGTERM ends the run, which goes on without Ray."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    # The names of Ray's sockets may not be longer than this allows.
    with tempfile.TemporaryDirectory(prefix="cz-", dir="/tmp") as folder:
        with subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.ray_cluster", folder],
            env={**os.environ, **token},
            cwd=Path(__file__).parents[3],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            try:
                _, errors = child.communicate(timeout=150.0)
            except subprocess.TimeoutExpired:
                child.kill()
                raise
        assert child.returncode == 0, errors[-2000:]
        lines = Path(folder, "results").read_text().splitlines()
        limit = time.monotonic() + 10.0
        while find_processes(f"{folder}/r", child.pid):
            assert time.monotonic() < limit, "processes of Ray are still there"
            time.sleep(0.1)
    found = {line.pop("name"): line for line in map(json.loads, lines)}
    assert found["started"]["address"].startswith("127.0.0.1:")
    assert found["resources"]["machines"] == [[k, "ours"] for k in range(3)]
    assert found["placement group"]["machines"] == [0, 1, 2]
    assert found["killed"]["code"] == 143
    assert found["killed"]["seconds"] < 60.0
    resumed = found["resumed"]
    assert resumed["reached"]
    assert resumed["deaths"] == resumed["joins"] == [2, 5]
    assert set(resumed["reasons"]) <= {"ActorDiedError", "ActorUnavailableError"}
    assert resumed["ledger_error"] < 1e-12
    assert resumed["spread"] < 0.01
