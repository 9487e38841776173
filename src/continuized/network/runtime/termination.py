"""SIGTERM as a request: a run finishes its exchanges, writes its checkpoint, and leaves."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from continuized.support.signals import note_signal

EXIT_CODE = 128 + signal.SIGTERM  # as of a process that SIGTERM ended


@contextmanager
def hear_termination() -> Iterator[Callable[[], bool]]:
    """Let SIGTERM be noted in the block, and not end the process; yield what tells whether it came.

    A handler of the user's own stays; that of Ray, which ends the process at once, does not.
    """
    with note_signal(signal.SIGTERM, _ends_the_process) as noted:
        yield lambda: bool(noted)


def _ends_the_process(handler: Any) -> bool:
    of_ray = str(getattr(handler, "__module__", "")).partition(".")[0] == "ray"
    return handler is signal.SIG_DFL or of_ray
