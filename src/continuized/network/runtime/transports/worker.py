"""What the workers of all transports do, and the worker on 127.0.0.1, which `local` starts.

    python -m continuized.network.runtime.transports.worker

That one obeys its standard input, and ends when told to or with it: it does not outlive the run.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, BinaryIO

from continuized.network.runtime import wire_format
from continuized.network.runtime.transports.doorkeeper import Doorkeeper

HOST = "127.0.0.1"
# Seconds between reports; where nodes are so large that a report takes long, it is for reports to
# take no more than a part of the time.
REPORT_EVERY, REPORT_AT_LEAST_EVERY = 0.1, 2.0
REPORT_SHARE = 0.05
LONGEST_WAIT = 1.0
MOST_BUFFERED = 1 << 20  # bytes for one worker: above, frames are dropped, as if lost
RECONNECT = 0.2  # seconds


def main() -> None:
    """Run the nodes of the order that comes through standard input."""
    serve(sys.stdin.buffer, open_reports())


def serve(
    orders: BinaryIO, reports: BinaryIO, objects: Mapping[int, Mapping[str, Any]] | None = None
) -> None:
    """Obey orders that come through a pipe, until it ends, and end this process.

    objects: of nodes, by their numbers (see `NodeModelSpec`).
    """
    # Whoever started this process ends it, in order; such signals come to the whole group.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    order = wire_format.read(orders)
    if order is None:
        return
    sys.path[:] = order[0]["path"]  # models may stand wherever the caller can import from
    worker, port = LocalWorker(order, reports, objects), int(order[0]["port"])
    try:
        asyncio.run(worker.run(orders, port))
    except OSError as error:
        reason = f"a process of nodes cannot listen on {HOST}: {error.strerror or error}"
        if port and error.errno == errno.EADDRINUSE:
            what = "give another port=, or none to take free ones"
            reason = f"port {port} of {HOST} is in use: {what}"
        write_record(reports, {"failed": reason})
    os._exit(0)  # a thread still waits for orders, and would hold the exit up


class Worker:
    """Gives the nodes of a worker their turns; what carries their frames is the transport's."""

    def __init__(
        self, order: wire_format.Record, objects: Mapping[int, Mapping[str, Any]] | None = None
    ) -> None:
        from continuized.network.runtime.node_process import NodeProcess

        self.process = NodeProcess(order, objects or {})
        self._saving = bool(order[0]["saving"])
        self._addresses: dict[int, Any] = {}  # of the other workers
        self._links: dict[int, Any] = {}  # to them, as far as there was something to send
        self._inbox: list[Any] = []
        self._timer: asyncio.Handle | None = None
        self._woken = self._ended = False
        self._report_after = REPORT_EVERY  # seconds

    def report(self, whole: bool = False, saving: bool = False) -> wire_format.Record:
        """Make a report, and find when the next one may be made."""
        began = time.monotonic()
        saving = saving or (self._ended and self._saving)
        record = self.process.make_report(self._ended, whole, saving)
        if not whole:
            due = (time.monotonic() - began) / REPORT_SHARE
            self._report_after = min(max(REPORT_EVERY, due), REPORT_AT_LEAST_EVERY)
        return record

    def receive(self, messages: list[Any]) -> None:
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


class LocalWorker(Worker):
    """A worker with sockets, and pipes to whoever started it."""

    def __init__(
        self,
        order: wire_format.Record,
        reports: BinaryIO,
        objects: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(order, objects)
        self._reports = reports
        self._doorkeeper = Doorkeeper(self._count_stranger)

    async def run(self, orders: BinaryIO, port: int) -> None:
        """Listen, then obey orders until told to end."""
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        server = await self._loop.create_server(lambda: Incoming(self), HOST, port)
        port = server.sockets[0].getsockname()[1]
        self._report({"address": port}, whole=True)
        threading.Thread(target=self._read_orders, args=(orders,), daemon=True).start()
        await self._over.wait()
        server.close()

    def admit(self, incoming: Incoming) -> None:
        """Let a connection stay for a while, in which it has to prove itself."""
        self._doorkeeper.admit(incoming, len(self._addresses))

    def release(self, incoming: Incoming) -> None:
        """Watch a connection no longer: it has proven itself, or it has ended."""
        self._doorkeeper.release(incoming)

    def _count_stranger(self) -> None:
        self.process.strangers += 1

    def _read_orders(self, orders: BinaryIO) -> None:
        # In a thread: pipes cannot be waited for on every system.
        while (record := wire_format.read(orders)) is not None:
            self._loop.call_soon_threadsafe(self.obey, record[0])
        os._exit(1)  # whoever started this process is gone

    def obey(self, command: dict[str, Any]) -> None:
        waited = not self._addresses
        super().obey(command)
        if self._ended:
            self._report({})
            self._over.set()
        elif command.get("save"):
            self._report({}, whole=True, saving=True)
        elif waited and self._addresses:
            self._report_often()

    def _send(self, frames: dict[int, bytes]) -> None:
        # The log leaves before the messages it explains: whatever others have seen of a node
        # that is killed, the log has too.
        entries = self.process.take_log()
        if entries.size:
            write_record(self._reports, {}, {"entries": entries})
        for worker, data in frames.items():
            if worker in self._addresses:
                if worker not in self._links:
                    self._links[worker] = Outgoing(self._addresses[worker])
                self._links[worker].send(data)

    def _report(self, also: dict[str, Any], whole: bool = False, saving: bool = False) -> None:
        header, arrays = self.report(whole, saving)
        write_record(self._reports, {**header, **also}, arrays)

    def _report_often(self) -> None:
        if not self._ended:
            self._report({})
            self._loop.call_later(self._report_after, self._report_often)


class Incoming(asyncio.Protocol):
    """Reads a connection from another worker, or from a stranger."""

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker
        self._stream = wire_format.FrameReader(worker.process.codec)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._worker.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._worker.release(self)

    def data_received(self, data: bytes) -> None:
        messages = list(self._stream.feed(data))
        if messages:
            self._worker.release(self)
            self._worker.receive(messages)
        if self._stream.broken:
            self._worker.release(self)  # it ends by what it said, whenever the loop notices
            self.transport.abort()


class Outgoing(asyncio.Protocol):
    """Holds the connection to another worker.  What cannot be sent is lost: nodes send it again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._transport: Any = None
        self._waiting = bytearray()
        self._attempt: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def send(self, data: bytes) -> None:
        """Send it as soon as there is a connection, or drop it."""
        if self._transport is not None and not self._transport.is_closing():
            if self._transport.get_write_buffer_size() < MOST_BUFFERED:
                self._transport.write(data)
            return
        if len(self._waiting) < MOST_BUFFERED:
            self._waiting += data
        if self._attempt is None:
            self._attempt = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_connection(lambda: self, HOST, self._port)
            self._transport.write(bytes(self._waiting))
            self._waiting.clear()
        except OSError:
            self._waiting.clear()
            await asyncio.sleep(RECONNECT)
        self._attempt = None


def open_reports() -> BinaryIO:
    """Keep the standard output for reports alone: what node models print goes to standard error."""
    reports = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    return reports


def write_record(stream: BinaryIO, header: dict[str, Any], arrays: Any = None) -> None:
    """Write a record to whoever started this process; end with it, if it is gone."""
    try:
        for part in wire_format.pack_parts(header, arrays):
            data = memoryview(part)
            while data:  # a pipe may take a part
                data = data[stream.write(data) :]
    except BrokenPipeError:
        os._exit(1)  # whoever started this process is gone


if __name__ == "__main__":
    main()
