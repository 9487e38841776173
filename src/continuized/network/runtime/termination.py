"""SIGTERM as a request: a run finishes its exchanges, writes its checkpoint, and leaves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

EXIT_CODE = 128 + signal.SIGTERM  # as of a process that SIGTERM ended


@contextmanager
def hear_termination() -> Iterator[Callable[[], bool]]:
    """Let SIGTERM be noted in the block, and not end the process; yield what tells whether it came.

    Signals come to the main thread alone.  A handler of the user's own stays; that of Ray, which
    ends the process at once, does not.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if in_main_thread else None
    of_ray = str(getattr(handler, "__module__", "")).partition(".")[0] == "ray"
    if handler is not signal.SIG_DFL and not of_ray:
        yield lambda: False
        return
    heard: list[int] = []

    def note(number: int, _: Any) -> None:
        heard.append(number)

    signal.signal(signal.SIGTERM, note)
    try:
        yield lambda: bool(heard)
    finally:
        signal.signal(signal.SIGTERM, handler)
