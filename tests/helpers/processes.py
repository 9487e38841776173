"""Processes that a test has started, by their numbers."""

from __future__ import annotations

import os
from pathlib import Path


def is_alive(number: int) -> bool:
    """Whether a process is there, and not one that was killed and is not waited for yet."""
    try:
        os.kill(number, 0)
    except OSError:
        return False
    status = Path(f"/proc/{number}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")
