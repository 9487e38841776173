"""Who may stay connected: whoever has sent a frame of this run in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

# Whoever connects must send a frame of this run within so many seconds, as other workers do at
# once; only so many who have not yet may be there, beside the workers.  It is more than the system
# lets wait to be accepted (100), so that a worker is not driven out before its frame is read.
PROVE_WITHIN = 2.0
MOST_UNPROVEN = 128


class Doorkeeper:
    """Ends connections that prove nothing in time; `note_stranger` is called for each of them.

    A connection is an object whose `transport` can be aborted.
    """

    def __init__(self, note_stranger: Callable[[], None]) -> None:
        self._note_stranger = note_stranger
        self._unproven: dict[Any, asyncio.Handle] = {}  # in the order in which they came

    def admit(self, connection: Any, workers: int) -> None:
        """Let a connection stay for a while; of too many that prove nothing, end the oldest."""
        if len(self._unproven) >= workers + MOST_UNPROVEN:
            self._end(next(iter(self._unproven)))
        loop = asyncio.get_running_loop()
        self._unproven[connection] = loop.call_later(PROVE_WITHIN, self._end, connection)

    def release(self, connection: Any) -> None:
        """Watch a connection no longer: it has proven itself, or it has ended."""
        timer = self._unproven.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _end(self, connection: Any) -> None:
        self.release(connection)
        connection.transport.abort()
        self._note_stranger()
