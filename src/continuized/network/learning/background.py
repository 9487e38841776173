"""A node in a thread beside the program that learns, with a TCP link to each of its neighbours.

The exchanges are those of `network.protocol`, in the frames of `runtime.wire_format`.  Beside them
there are a few messages of this file's own: HELLO names who connects; GONE and DONE are passed on
from neighbour to neighbour until everybody has heard who died or left, and who has finished;
PARTIAL and MEAN carry sums up a tree and the mean down, once, at the end.

A worker whose link closes is dead, unless it has said that it leaves.  No link lasts longer than
the program: its thread and its sockets end with it, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from continuized.network.learning.learning_node import CANCEL, LearningNode
from continuized.network.learning.membership import Membership
from continuized.network.protocol.transitions import KINDS, WITH_VALUES, Message
from continuized.network.runtime.transports.doorkeeper import Doorkeeper
from continuized.network.runtime.transports.worker import MOST_BUFFERED, RECONNECT
from continuized.network.runtime.wire_format import Codec, FrameReader
from continuized.problems.base import Array

HELLO, GONE, DONE, PARTIAL, MEAN = range(CANCEL + 1, CANCEL + 6)
OF_THE_NODE = frozenset({*KINDS, CANCEL})
ALL_KINDS = OF_THE_NODE | {HELLO, GONE, DONE, PARTIAL, MEAN}
ALL_WITH_VALUES = WITH_VALUES | {PARTIAL, MEAN}
PIECE = 1 << 18  # bytes that are written at once
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


class BackgroundNode:
    """Runs a node, and its links, until it is finished or closed.

    Parameters
    ----------
    node : LearningNode
    membership : Membership
    codec : Codec
        See `make_codec`.
    listening : socket
        See `listen`.
    addresses : pairs (host, port) by rank
        Where the neighbours listen.
    """

    def __init__(
        self,
        node: LearningNode,
        membership: Membership,
        codec: Codec,
        listening: socket.socket,
        addresses: Mapping[int, tuple[str, int]],
    ) -> None:
        self.node, self.membership, self.codec = node, membership, codec
        self.lock = threading.Lock()  # of the node and the membership
        self.links: dict[int, Link] = {}
        self.strangers = self.sent_bytes = self.received_bytes = 0
        self.nonfinite = 0  # steps whose parameters were not finite, and exchanges that were not
        self.failure: BaseException | None = None
        self.averaged = False
        self.why_not = ""  # averaged
        self._notices: list[str] = []
        self._listening, self._addresses = listening, dict(addresses)
        self._linked, self._ended = threading.Event(), threading.Event()
        self._woken = False
        self._timer: asyncio.Handle | None = None
        self._finishing = self._leaving = self._announced = self._summing = False
        self._parent: int | None = None
        self._children: list[int] = []
        self._partials: dict[int, Array] = {}
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="continuized-gossip", daemon=True)

    # What the program calls, in its own thread

    def start(self, within: float) -> None:
        """Start the thread, and wait until there is a link to every neighbour."""
        self._thread.start()
        self._linked.wait(within)
        missing = sorted(set(self.membership.neighbours) - set(self.links))
        if self.failure is not None or missing:
            self.close()
            if self.failure is not None:
                raise RuntimeError(f"the thread of exchanges ended: {self.failure}")
            raise TimeoutError(
                f"no link to the ranks {missing} within {within:g} s: they ended, or a firewall is "
                "between the machines"
            )

    def take_step(self, new: Array, old: Array, counts: bool = True) -> bool:
        """Take what a step of the program did, from `old` to `new`; then `old` becomes x.

        Returns False, and takes nothing, where `new` is not finite: until it is again, the node
        exchanges nothing.  `counts` tells whether it was a step.
        """
        if self.failure is not None:
            raise RuntimeError(f"the thread of exchanges ended: {self.failure}")
        finite = bool(np.isfinite(new).all())
        with self.lock:
            now = self._now()
            if counts:
                self.node.clock.count_step(now)
            if finite:
                self.node.take(new, old, now)
            else:
                self.nonfinite += 1
                self.node.quiet = True
            wake = self.node.due_at < np.inf
        if wake:
            self._call(self._wake)
        return finite

    def pause(self) -> None:
        """Finish the exchange under way, and exchange nothing until the next step.

        Bounded by the timeout: a transfer to a neighbour that is stopped may stay owed.
        """
        limit = time.monotonic() + self.node.timeout
        while time.monotonic() < limit and not self._ended.is_set():
            with self.lock:
                self.node.quiet = True
                if self.node.idle:
                    return
            time.sleep(0.001)

    def take_notices(self) -> list[str]:
        """Return what is to be said of deaths since the last call."""
        with self.lock:
            notices, self._notices = self._notices, []
        return notices

    def finish(self, average: bool, seconds: float) -> None:
        """Finish the exchanges under way.  Then leave; or, with `average`, go on answering until
        all others in reach have finished too, and take the mean with them.

        Those that have not finished after so many seconds are left behind as if they were dead.
        """
        self._call(self._begin_to_finish, average, seconds)
        # Every wait of the thread is bounded; this one only guards against the thread itself.
        self._ended.wait(seconds + 4.0 * self.node.timeout + 60.0)
        self.close()

    def close(self) -> None:
        """End the thread and close all links.  May be called at any time, and more than once."""
        self._call(self._end)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(2.0 * self.node.timeout)
        with contextlib.suppress(OSError):
            self._listening.close()

    def _call(self, function: Any, *arguments: Any) -> None:
        with contextlib.suppress(AttributeError, RuntimeError):  # not started, or ended
            self._loop.call_soon_threadsafe(function, *arguments)

    def _now(self) -> float:
        return time.monotonic() - self._began

    # The thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # told at the next step
            self.failure = error
        finally:
            self._linked.set()
            self._ended.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._note_failure)
        self._over = asyncio.Event()
        self.doorkeeper = Doorkeeper(self._count_stranger)
        server = await self._loop.create_server(lambda: Link(self, None), sock=self._listening)
        callers = [
            asyncio.create_task(self._connect(peer))
            for peer in self.membership.neighbours
            if peer < self.membership.rank
        ]
        if not self.membership.neighbours:
            self._linked.set()
        await self._over.wait()
        for caller in callers:
            caller.cancel()
        server.close()
        limit = self._now() + self.node.timeout
        while self.links and self._now() < limit:
            for link in list(self.links.values()):
                if not link.waiting:  # what was to be sent goes first
                    link.transport.close()
            await asyncio.sleep(0.001)
        for link in list(self.links.values()):
            link.transport.abort()
        await asyncio.sleep(0)

    async def _connect(self, peer: int) -> None:
        while True:
            try:
                await self._loop.create_connection(lambda: Link(self, peer), *self._addresses[peer])
                return
            except OSError:  # not yet there: `start` gives up in time
                await asyncio.sleep(RECONNECT)

    def _note_failure(self, loop: Any, context: dict[str, Any]) -> None:
        if self.failure is None and not self._over.is_set():
            self.failure = context.get("exception") or RuntimeError(context["message"])
            self._end()

    def _end(self) -> None:
        self._over.set()

    def _count_stranger(self) -> None:
        self.strangers += 1

    # Turns of the node

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._woken = False
        if self._over.is_set():
            return
        with self.lock:
            out = self.node.pass_time(self._now())
            due = self.node.due_at
        self._send(out)
        if self._finishing:
            self._announce_if_settled()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due < np.inf:
            self._timer = self._loop.call_later(max(0.0, due - self._now()), self._wake)

    def receive(self, message: Message) -> None:
        """Take a message from a neighbour."""
        if message.kind in OF_THE_NODE:
            with self.lock:
                try:
                    out = self.node.receive(message, self._now())
                except ArithmeticError:  # the difference of two finite models is not
                    self.nonfinite += 1
                    self.node.abandon(message)
                    out = []
            self._send(out)
            self._wake()
        elif message.kind == GONE:
            self._note_gone(message.seq, left=message.plain)
        elif message.kind == DONE:
            self._note_done(message.seq)
        else:
            assert message.values is not None  # the schema of frames
            if message.kind == PARTIAL:
                self._partials[message.sender] = message.values
                self._sum_up()
            elif message.sender == self._parent:
                self._take_mean(message.values)

    def _send(self, messages: list[Message]) -> None:
        for message in messages:
            link = self.links.get(message.receiver)
            if link is not None:
                link.send(message)

    def _tell(self, kind: int, rank: int, plain: bool = False) -> None:
        """Tell all neighbours something about a rank."""
        own = self.membership.rank
        self._send([Message(kind, own, peer, rank, plain) for peer in list(self.links)])

    # Links

    def greet(self, link: Link, peer: int) -> bool:
        """Take a new link to a neighbour; returns False where there is one, or none should be."""
        if peer in self.links or peer not in self.membership.neighbours:
            return False
        if peer in self.membership.gone or self._over.is_set():
            return False
        self.links[peer] = link
        if len(self.links) + len(self.membership.gone & set(self.membership.neighbours)) == len(
            self.membership.neighbours
        ):
            self._linked.set()
        return True

    def note_end(self, link: Link) -> None:
        """Take note that a link has closed."""
        peer = link.peer
        if peer is None or self.links.get(peer) is not link:
            return
        del self.links[peer]
        if not self._over.is_set() and peer not in self.membership.gone:
            self._note_gone(peer, left=False)

    def _note_gone(self, rank: int, left: bool) -> None:
        """Drop a rank that died, or that left, and pass the news on."""
        membership = self.membership
        if rank in membership.gone or rank == membership.rank:
            return
        if self._summing:
            self._check_sum(rank)
            return
        with self.lock:
            cut_off = set(membership.cut_off())
            (membership.left if left else membership.dead).append(rank)
            if rank in membership.neighbours:
                self.node.drop(rank)
            self.node.model.constants = membership.constants()
            lost = sorted(set(membership.cut_off()) - cut_off)
            if not left:
                self._notices.append(f"rank {rank} is gone: its link closed")
            if lost:
                self._notices.append(
                    f"without rank {rank} the graph falls apart: this rank no longer reaches {lost}"
                )
        link = self.links.pop(rank, None)
        if link is not None:
            link.transport.close()
        self._tell(GONE, rank, left)
        self._sum_if_all_done()
        self._wake()

    # The end

    def _begin_to_finish(self, average: bool, seconds: float) -> None:
        if self._finishing or self._over.is_set():
            return
        self._finishing, self._leaving = True, not average
        with self.lock:
            self.node.finish(self._now())
            # One that leaves refuses, so that none pays it what it would no longer get.
            self.node.quiet = self._leaving
        self._loop.call_later(self.node.timeout, self._announce)
        self._loop.call_later(seconds, self._leave_late_ones_behind, seconds)
        self._announce_if_settled()

    def _announce_if_settled(self) -> None:
        with self.lock:
            settled = self.node.idle if self._leaving else self.node.settled
        if settled:
            self._announce()

    def _announce(self) -> None:
        """Tell that it leaves, or that it has finished."""
        if self._announced or self._over.is_set():
            return
        self._announced = True
        rank = self.membership.rank
        if self._leaving:
            with self.lock:
                self.node.model.mix(np.inf)
            self._tell(GONE, rank, plain=True)
            self._end()
        else:
            self._note_done(rank)

    def _note_done(self, rank: int) -> None:
        if rank not in self.membership.done:
            self.membership.done.add(rank)
            self._tell(DONE, rank)
            self._sum_if_all_done()

    def _leave_late_ones_behind(self, seconds: float) -> None:
        late = sorted(set(self.membership.reach()) - self.membership.done)
        if late and not self._summing and not self._over.is_set():
            with self.lock:
                self._notices.append(f"the ranks {late} had not finished after {seconds:g} s")
            for rank in late:
                self._note_gone(rank, left=True)

    def _sum_if_all_done(self) -> None:
        if self._summing or not self._announced or self._over.is_set():
            return
        if set(self.membership.reach()) <= self.membership.done:
            self._summing = True
            self._parent, self._children = self.membership.tree()
            self._sum_up()

    def _sum_up(self) -> None:
        """Once the sums of all children are there, pass the sum on, or make the mean of it."""
        if not self._summing or set(self._children) - self._partials.keys():
            return
        with self.lock:
            self.node.model.mix(np.inf)  # the last transfer may have parted x~ from x again
            total = self.node.model.x.astype(np.float64)
        for child in self._children:
            total += self._partials[child]
        if self._parent is not None:
            own = self.membership.rank
            self._send([Message(PARTIAL, own, self._parent, 0, values=total)])
        else:
            mean = total / len(self.membership.reach())
            self._take_mean(mean.astype(self.node.model.x.dtype))

    def _take_mean(self, mean: Array) -> None:
        own = self.membership.rank
        with self.lock:
            self.node.model.join(mean)
        self.averaged = True
        self._send([Message(MEAN, own, child, 0, values=mean) for child in self._children])
        self._end()

    def _check_sum(self, rank: int) -> None:
        """A rank is gone while sums are taken: give up if its part of them is missing."""
        awaited = rank == self._parent or rank in set(self._children) - self._partials.keys()
        if awaited and not self.averaged:
            self.why_not = f"rank {rank} is gone, while the mean was taken"
            self._end()


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
        elif self._owner.greet(self, self.peer):
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
        if right and owner.greet(self, message.sender):
            self.peer = message.sender
            owner.doorkeeper.release(self)
            self._reader.codec = owner.codec
        else:
            self.transport.abort()

    def send(self, message: Message) -> None:
        """Send a message; one with values is dropped, as if lost, while much waits to be sent."""
        long = message.values is not None and message.kind in KINDS
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
            if len(view) > PIECE:
                self._queue.appendleft(view[PIECE:])
            self.transport.write(view[:PIECE])

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._pass_on()
