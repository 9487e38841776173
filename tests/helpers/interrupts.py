"""Ctrl-C, and whether it is heard in time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

SOON = 0.3  # seconds
HEARD_WITHIN = 20.0  # far more than is promised, for machines that are busy


def assert_interrupted(call: Callable[[], Any]) -> None:
    """Press Ctrl-C soon after the beginning of a call that takes hours, and see it end."""
    timer = threading.Timer(SOON, os.kill, (os.getpid(), signal.SIGINT))
    started = time.perf_counter()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        timer.cancel()
    assert time.perf_counter() - started < SOON + HEARD_WITHIN
