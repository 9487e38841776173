"""A node in a thread beside the program that learns, and its way from the first link to the end.

A worker whose link closes is dead, unless it has said that it leaves.  No link lasts longer than
the program: its thread and its sockets end with it, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from continuized.network.learning.final_mean import FinalMean
from continuized.network.learning.learning_node import LearningNode
from continuized.network.learning.links import DONE, GONE, OF_THE_NODE, Link
from continuized.network.learning.membership import Membership
from continuized.network.protocol.transitions import Message
from continuized.network.workers.doorkeeper import Doorkeeper
from continuized.network.workers.frames import RECONNECT, Codec
from continuized.problems.base import Array


class BackgroundNode:
    """Runs a node, and its links, until it is finished or closed.

    Parameters
    ----------
    node : LearningNode
    membership : Membership
    codec : Codec
        See `links.make_codec`.
    listening : socket
        See `links.listen`.
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
        self.final_mean = FinalMean(node.model, membership, self.lock)
        self._notices: list[str] = []
        self._listening, self._addresses = listening, dict(addresses)
        self._linked, self._ended = threading.Event(), threading.Event()
        self._woken = False
        self._timer: asyncio.Handle | None = None
        self._finishing = self._leaving = self._announced = False
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
            self._announce_if_ended()
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
            self._go_on_with_mean(self.final_mean.receive(message))

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

    def accept_link(self, link: Link, peer: int) -> bool:
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
        if self.final_mean.began:
            self.final_mean.lose(rank)
            self._go_on_with_mean([])
            return
        with self.lock:
            cut_off = set(membership.find_cut_off())
            (membership.left if left else membership.dead).append(rank)
            if rank in membership.neighbours:
                self.node.drop(rank)
            self.node.model.constants = membership.constants()
            lost = sorted(set(membership.find_cut_off()) - cut_off)
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
        self._announce_if_ended()

    def _announce_if_ended(self) -> None:
        with self.lock:
            ended = self.node.idle if self._leaving else self.node.has_ended_own
        if ended:
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
        late = sorted(set(self.membership.find_reachable()) - self.membership.done)
        if late and not self.final_mean.began and not self._over.is_set():
            with self.lock:
                self._notices.append(f"the ranks {late} had not finished after {seconds:g} s")
            for rank in late:
                self._note_gone(rank, left=True)

    def _sum_if_all_done(self) -> None:
        if self.final_mean.began or not self._announced or self._over.is_set():
            return
        if set(self.membership.find_reachable()) <= self.membership.done:
            self._go_on_with_mean(self.final_mean.begin())

    def _go_on_with_mean(self, messages: list[Message]) -> None:
        self._send(messages)
        if self.final_mean.is_over:
            self._end()
