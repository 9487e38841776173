"""Processes that a test has started, by their numbers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def assert_all_end(numbers: Sequence[int], seconds: float = 10.0) -> None:
    """Wait until none of these processes is left."""
    limit = time.monotonic() + seconds
    while any(map(is_alive, numbers)):
        assert time.monotonic() < limit, "its processes are still there"
        time.sleep(0.05)


def is_alive(number: int) -> bool:
    """Whether a process is there, and not one that was killed and is not waited for yet."""
    try:
        os.kill(number, 0)
    except OSError:
        return False
    status = Path(f"/proc/{number}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


# A program that tells the numbers of the processes that its run starts.
TELL_WORKERS = """
import numpy as np
from continuized import network
from continuized.network.runtime.transports import local

start = local.LocalTransport.start

def started(self, plan):
    start(self, plan)
    print(*[p.pid for p in self._processes.values()], flush=True)

local.LocalTransport.start = started
"""


def assert_none_outlives(call: str) -> None:
    """Kill a program that makes this call of `network` once its two workers run: they end too."""
    command = [sys.executable, "-c", f"{TELL_WORKERS}{call}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        numbers = [int(word) for word in child.stdout.readline().split()]
        assert len(numbers) == 2
        child.kill()
    assert_all_end(numbers)
