"""Processes that must not outlive whoever started them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path


def assert_all_end(numbers: Sequence[int], seconds: float = 10.0) -> None:
    """Wait until none of these processes is left."""
    limit = time.monotonic() + seconds
    while any(map(_lives, numbers)):
        assert time.monotonic() < limit, "its processes are still there"
        time.sleep(0.05)


def _lives(number: int) -> bool:
    try:
        os.kill(number, 0)
    except OSError:
        return False
    status = Path(f"/proc/{number}/stat")  # killed and not waited for yet: dead
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
