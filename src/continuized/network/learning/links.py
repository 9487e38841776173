"""The TCP links of a node that learns: one to each neighbour, in both directions.

They carry the frames of `network.workers.frames`: the exchanges of `network.protocol`, and a few
messages more.  HELLO names who connects; GONE and DONE are passed on from neighbour to neighbour
until everybody has heard who died or left, and who has finished; PARTIAL_SUM and FINAL_MEAN carry
sums up a tree and the mean down, once, at the end.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from continuized.network.learning.learning_node import CANCEL
from continuized.network.protocol.transitions import MESSAGE_KINDS, WITH_VALUES, Message
from continuized.network.workers.frames import MOST_BUFFERED, Codec, FrameReader

if TYPE_CHECKING:
    from continuized.network.learning.background import BackgroundNode

HELLO, GONE, DONE, PARTIAL_SUM, FINAL_MEAN = range(CANCEL + 1, CANCEL + 6)
OF_THE_NODE = frozenset({*MESSAGE_KINDS, CANCEL})
ALL_KINDS = OF_THE_NODE | {HELLO, GONE, DONE, PARTIAL_SUM, FINAL_MEAN}
ALL_WITH_VALUES = WITH_VALUES | {PARTIAL_SUM, FINAL_MEAN}
PIECE_BYTES = 1 << 18  # that are written at once
BACKLOG = 1024  # connections that wait to be accepted
# A machine that fell silent, without a word to its peers, is given up after about half a minute.
KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}


def make_codec(key: bytes, dim: int, dtype: Any) -> Codec:
    """Make the codec of a run whose models have `dim` numbers of type `dtype`."""
    return Codec(key, dim + 1, np.dtype(dtype).newbyteorder("<").str, ALL_KINDS, ALL_WITH_VALUES)


def listen(host: str, port: int) -> socket.socket:
    """Open the socket on which neighbours connect; port 0 takes a free one."""
    family, kind, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    opened = socket.socket(family, kind)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
    except OSError:
        opened.close()
        raise
    opened.setblocking(False)
    return opened


class Link(asyncio.Protocol):
    """The connection to a neighbour, in both directions; `peer` is None until it is known."""

    transport: Any

    def __init__(self, owner: BackgroundNode, peer: int | None) -> None:
        self.peer = peer
        self._owner = owner
        # Who has proven nothing is let send only short frames.
        codec = owner.codec.without_values() if peer is None else owner.codec
        self._reader = FrameReader(codec)
        self._queue: deque[memoryview] = deque()  # what the transport has not taken yet
        self._paused = False

    @property
    def waiting(self) -> int:
        """The bytes that wait to be sent."""
        return sum(map(len, self._queue)) + int(self.transport.get_write_buffer_size())

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        opened = transport.get_extra_info("socket")
        # Short messages go at once: asyncio sees to it only where it made the socket itself.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            if hasattr(socket, name):
                opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if self.peer is None:
            self._owner.doorkeeper.admit(self, len(self._owner.membership.neighbours))
        elif self._owner.accept_link(self, self.peer):
            self.send(Message(HELLO, self._owner.membership.rank, self.peer, 0))
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.doorkeeper.release(self)
        self._owner.note_end(self)

    def data_received(self, data: bytes) -> None:
        owner = self._owner
        owner.received_bytes += len(data)
        for message in self._reader.feed(data):
            if self.peer is None:
                self._introduce(message)
            elif message.sender == self.peer and message.receiver == owner.membership.rank:
                owner.receive(message)
        if self._reader.broken:
            self.transport.abort()

    def _introduce(self, message: Message) -> None:
        owner = self._owner
        right = message.kind == HELLO and message.receiver == owner.membership.rank
        if right and owner.accept_link(self, message.sender):
            self.peer = message.sender
            owner.doorkeeper.release(self)
            self._reader.codec = owner.codec
        else:
            self.transport.abort()

    def send(self, message: Message) -> None:
        """Send a message; one with values is dropped, as if lost, while much waits to be sent."""
        long = message.values is not None and message.kind in MESSAGE_KINDS
        if self.transport.is_closing() or (long and self.waiting > MOST_BUFFERED):
            return
        frame = self._owner.codec.encode(message)
        self._owner.sent_bytes += len(frame)
        self._queue.append(memoryview(frame))
        self._pass_on()

    def _pass_on(self) -> None:
        """Give the transport as much as it takes: it would move what is left with every send."""
        while self._queue and not self._paused:
            view = self._queue.popleft()
            if len(view) > PIECE_BYTES:
                self._queue.appendleft(view[PIECE_BYTES:])
            self.transport.write(view[:PIECE_BYTES])

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pass_on()
