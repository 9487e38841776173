"""Processes that a test has started, by their numbers."""

from __future__ import annotations

import os
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
