"""The example of learning: by torchrun, and as plain processes that are told to end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = str(ROOT / "examples" / "learn_digits.py")
WITHIN = 300.0  # seconds
LINE = re.compile(
    r"rank (\d): (\d+) steps, ([\d.]+) exchanges for each gradient, accuracy ([\d.]+)"
)

pytestmark = [pytest.mark.slow, pytest.mark.needs("torch")]


def make_environment(**more: Any) -> dict[str, str]:
    path = os.pathsep.join(filter(None, sys.path))
    given = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return {**os.environ, **given, **{name: str(value) for name, value in more.items()}}


def test_torchrun_learns_digits() -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4"]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    done = subprocess.run(
        [*launcher, SCRIPT, "--steps", "300"],
        env=make_environment(),
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )
    assert done.returncode == 0, done.stderr
    found = LINE.findall(done.stdout)
    assert sorted(rank for rank, *_ in found) == ["0", "1", "2", "3"]
    accuracies = {accuracy for *_, accuracy in found}
    assert len(accuracies) == 1  # all have the mean
    assert float(accuracies.pop()) > 0.8


def start(folder: Path, steps: int) -> list[subprocess.Popen[str]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": 2}
    command = [sys.executable, SCRIPT, "--steps", str(steps), "--folder", str(folder)]
    return [
        subprocess.Popen(
            command, env=make_environment(**place, RANK=rank), stdout=subprocess.PIPE, text=True
        )
        for rank in range(2)
    ]


def end(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_one_that_is_told_to_end_writes_its_state_and_the_run_is_taken_up(tmp_path: Path) -> None:
    processes = start(tmp_path, 10**9)
    try:
        for process in processes:
            assert process.stdout is not None
            assert "rows" in process.stdout.readline()
        said = []
        for process in reversed(processes):  # rank 0 holds the rendezvous
            process.send_signal(signal.SIGTERM)
            said += LINE.findall(process.communicate(timeout=WITHIN)[0])
            assert process.returncode == 0
    finally:
        end(processes)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.pt", "rank1.pt"]
    steps = max(int(count) for _, count, *_ in said) + 50
    processes = start(tmp_path, steps)
    try:
        again = [LINE.findall(p.communicate(timeout=WITHIN)[0])[0] for p in processes]
        assert [int(count) for _, count, *_ in again] == [steps, steps]
        assert again[0][3] == again[1][3]
    finally:
        end(processes)
