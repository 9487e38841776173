"""Signals that are noted while a block runs, in place of what they would do."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def note_signal(
    number: int, replaces: Callable[[Any], bool], then: Callable[..., Any] | None = None
) -> Iterator[list[int]]:
    """Note a signal that comes in the block, and call `then` at once; yield those that came.

    Signals come to the main thread alone.  Elsewhere, and where `replaces(handler)` is False, as
    of a handler of the user's own, nothing is done.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(number) if in_main_thread else None
    noted: list[int] = []
    if not replaces(handler):
        yield noted
        return

    def note(number: int, frame: Any) -> None:
        noted.append(number)
        if then is not None:
            then(number, frame)

    signal.signal(number, note)
    try:
        yield noted
    finally:
        signal.signal(number, handler)
