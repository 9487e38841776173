"""The worker of `local`: nodes in a process of their own, with sockets on 127.0.0.1.

python -m continuized.network.runtime.transports.local_worker
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

from continuized.network.runtime.transports.worker import Worker
from continuized.network.workers.doorkeeper import Doorkeeper
from continuized.network.workers.frames import HOST, MOST_BUFFERED, RECONNECT, FrameReader
from continuized.network.workers.processes import (
    follow_orders,
    open_reports,
    read_first_order,
    report,
)
from continuized.network.workers.records import Record


def main() -> None:
    """Run the nodes of the order that comes through standard input."""
    serve(sys.stdin.buffer, open_reports())


def serve(
    orders: BinaryIO, reports: BinaryIO, objects: Mapping[int, Mapping[str, Any]] | None = None
) -> None:
    """Obey orders that come through a pipe, until it ends, and end this process.

    objects: of nodes, by their numbers (see `NodeModelSpec`).
    """
    order = read_first_order(orders)
    if order is None:
        return
    worker, port = LocalWorker(order, reports, objects), int(order[0]["port"])
    try:
        asyncio.run(worker.run(orders, port))
    except OSError as error:
        reason = f"a process of nodes cannot listen on {HOST}: {error.strerror or error}"
        if port and error.errno == errno.EADDRINUSE:
            what = "give another port=, or none to take free ones"
            reason = f"port {port} of {HOST} is in use: {what}"
        report(reports, {"failed": reason})
    os._exit(0)  # a thread still waits for orders, and would hold the exit up


class LocalWorker(Worker):
    """A worker with sockets, and pipes to whoever started it."""

    def __init__(
        self,
        order: Record,
        reports: BinaryIO,
        objects: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__(order, objects)
        self._reports = reports
        self.doorkeeper = Doorkeeper(self._count_stranger)

    async def run(self, orders: BinaryIO, port: int) -> None:
        """Listen, then obey orders until told to end."""
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        server = await self._loop.create_server(lambda: Incoming(self), HOST, port)
        port = server.sockets[0].getsockname()[1]
        self._report({"address": port}, whole=True)
        follow_orders(orders, lambda record: self._loop.call_soon_threadsafe(self.obey, record[0]))
        await self._over.wait()
        server.close()

    def admit(self, incoming: Incoming) -> None:
        """Let a connection stay for a while, in which it has to prove itself."""
        self.doorkeeper.admit(incoming, len(self._addresses))

    def _count_stranger(self) -> None:
        self.process.strangers += 1

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
            report(self._reports, {}, {"entries": entries})
        for worker, data in frames.items():
            if worker in self._addresses:
                if worker not in self._links:
                    self._links[worker] = Outgoing(self._addresses[worker])
                self._links[worker].send(data)

    def _report(self, also: dict[str, Any], whole: bool = False, saving: bool = False) -> None:
        header, arrays = self.report(whole, saving)
        report(self._reports, {**header, **also}, arrays)

    def _report_often(self) -> None:
        if not self._ended:
            self._report({})
            self._loop.call_later(self._report_after, self._report_often)


class Incoming(asyncio.Protocol):
    """Reads a connection from another worker, or from a stranger."""

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker
        self._stream = FrameReader(worker.process.codec)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._worker.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._worker.doorkeeper.release(self)

    def data_received(self, data: bytes) -> None:
        messages = list(self._stream.feed(data))
        if messages:
            self._worker.doorkeeper.release(self)
            self._worker.receive(messages)
        if self._stream.broken:
            # It ends by what it said, whenever the loop notices.
            self._worker.doorkeeper.release(self)
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


if __name__ == "__main__":
    main()
