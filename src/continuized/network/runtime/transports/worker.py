"""What the workers of all transports do: they give their nodes their turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from continuized.network.protocol.transitions import Message
from continuized.network.runtime.node_process import NodeProcess
from continuized.network.workers.records import Record

# Seconds between reports; where nodes are so large that a report takes long, it is for reports to
# take no more than a part of the time.
REPORT_EVERY, REPORT_AT_LEAST_EVERY = 0.1, 2.0
REPORT_SHARE = 0.05
LONGEST_WAIT = 1.0


class Worker:
    """Gives the nodes of a worker their turns; what carries their frames is the transport's."""

    def __init__(
        self, order: Record, objects: Mapping[int, Mapping[str, Any]] | None = None
    ) -> None:
        self.process = NodeProcess(order, objects or {})
        self._saving = bool(order[0]["saving"])
        self._addresses: dict[int, Any] = {}  # of the other workers
        self._links: dict[int, Any] = {}  # to them, as far as there was something to send
        self._inbox: list[Message] = []
        self._timer: asyncio.Handle | None = None
        self._woken = self._ended = False
        self._report_after = REPORT_EVERY  # seconds

    def report(self, whole: bool = False, saving: bool = False) -> Record:
        """Make a report, and find when the next one may be made."""
        began = time.monotonic()
        saving = saving or (self._ended and self._saving)
        record = self.process.make_report(self._ended, whole, saving)
        if not whole:
            due = (time.monotonic() - began) / REPORT_SHARE
            self._report_after = min(max(REPORT_EVERY, due), REPORT_AT_LEAST_EVERY)
        return record

    def receive(self, messages: list[Message]) -> None:
        """Take messages from another worker."""
        self._inbox += messages
        self._wake()

    def obey(self, command: dict[str, Any]) -> None:
        """Obey a command of the run; the first one with addresses starts the clock."""
        for worker, address in command.get("addresses", ()):
            if self._addresses.get(worker) != address:
                self._addresses[worker] = address
                self._links.pop(worker, None)
        self.process.obey(command)
        self._ended = self._ended or bool(command.get("end"))
        self._wake()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._woken = False
        if not self._addresses or self._ended:
            return
        inbox, self._inbox = self._inbox, []
        self._send(self.process.take_turn(time.monotonic(), inbox))
        if self._timer is not None:
            self._timer.cancel()
        wait = min(self.process.seconds_to_wait(), LONGEST_WAIT)
        self._timer = asyncio.get_running_loop().call_later(wait, self._wake)

    def _send(self, frames: dict[int, bytes]) -> None:
        raise NotImplementedError
