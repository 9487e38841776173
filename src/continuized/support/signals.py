"""Ctrl-C that waits."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the end of a short block that would be left in pieces by it.

    An archive that is closed in the middle of a member, for one, has an error of its own to raise,
    in place of KeyboardInterrupt.  Signals come to the main thread alone: elsewhere, and where the
    handler is not Python's, nothing is done.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT) if in_main_thread else None
    if not callable(handler):
        yield
        return
    heard: list[int] = []

    def note(number: int, _: Any) -> None:
        heard.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if heard:
            handler(heard[0], None)
