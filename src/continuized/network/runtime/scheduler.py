"""The nodes of one worker, the clock that they read, and the link that carries what they send.

The clock runs at `speed` units of t a second of wall time.  A worker that was kept from running,
or that has more to do than it can, slows its clock instead of letting messages age.  Nodes know
nothing but their own time, so that nothing else changes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping

import numpy as np

from continuized.network.faults import Links, draw_copies, draw_delay
from continuized.network.protocol.node import Node
from continuized.network.protocol.transitions import Message
from continuized.support.validation import short_repr

LONGEST_ERROR = 200  # letters of an error message that is passed on whole


class FaultyLink:
    """Carries what the nodes of a worker send, with the faults that were asked for."""

    def __init__(self, random: np.random.Generator, links: Links) -> None:
        self._random, self._links = random, links
        self._perfect = links.loss == links.duplication == links.delay == 0.0
        self._held: list[tuple[float, int, Message]] = []
        self._count = 0  # messages held up until the same time leave in the order they came

    @property
    def due(self) -> float:
        """The time at which the next message is to leave."""
        return self._held[0][0] if self._held else np.inf

    def send(self, messages: Iterable[Message], t: float) -> list[Message]:
        """Take these messages in; return what leaves at t, of them and of those held up before."""
        if self._perfect:
            return list(messages)
        for message in messages:
            for _ in range(draw_copies(self._links, self._random)):
                self._count += 1
                leaves = t + draw_delay(self._links, self._random)
                heapq.heappush(self._held, (leaves, self._count, message))
        out = []
        while self._held and self._held[0][0] <= t:
            out.append(heapq.heappop(self._held)[2])
        return out


class NodeScheduler:
    """Wakes nodes, which are given by their numbers, when they are due, and hands them messages.

    The clock runs at `speed` units of t a second from `t` on, but moves on by at most `stride`
    between two looks at the wall clock, sleep apart.
    """

    def __init__(
        self,
        nodes: Mapping[int, Node],
        speed: float,
        stride: float,
        link: FaultyLink,
        t: float = 0.0,
    ) -> None:
        self.nodes = dict(nodes)
        self.speed, self.stride = speed, stride
        self.t = t
        self.link = link
        self.failures: list[tuple[int, str]] = []  # nodes whose model raised, and what it said
        self._wall: float | None = None
        self._sleep = 0.0  # seconds that the worker was told it may sleep
        self._dues: list[tuple[float, int]] = []
        self._next: dict[int, float] = {}
        for number in self.nodes:
            self._schedule(number)

    @property
    def at_rest(self) -> bool:
        """Whether all nodes are quiet and idle, and nothing is held up on its way."""
        nodes = self.nodes.values()
        idle = bool(nodes) and all(node.quiet and node.idle for node in nodes)
        return idle and self.link.due == math.inf

    def advance(self, wall: float) -> None:
        """Look at the wall clock, and move t on; time stands still while all is at rest."""
        if self._wall is not None and not self.at_rest:
            passed = self.speed * max(0.0, wall - self._wall)
            self.t += min(passed, self.speed * self._sleep + self.stride)
        self._wall, self._sleep = wall, 0.0

    def seconds_to_sleep(self) -> float:
        """Return the seconds of wall time until something is due."""
        due = min(self._dues[0][0] if self._dues else math.inf, self.link.due)
        self._sleep = max(0.0, (due - self.t) / self.speed)
        return self._sleep

    def receive(self, messages: Iterable[Message]) -> list[Message]:
        """Hand messages to their nodes, and wake those that are due; return what they and their
        link send."""
        out: list[Message] = []
        for message in messages:
            out += self._act(message.receiver, message)
        due: list[int] = []
        while self._dues and self._dues[0][0] <= self.t:
            when, number = heapq.heappop(self._dues)
            if self._next.get(number) == when:  # else it was woken at an earlier time
                del self._next[number]
                due.append(number)
        for number in due:
            out += self._act(number, None)
        return self.link.send(out, self.t)

    def set_quiet(self, quiet: bool) -> None:
        """Let the nodes begin no exchange any more, or go on."""
        for number, node in self.nodes.items():
            node.quiet = quiet
            self._schedule(number)

    def local_time(self, node: Node) -> float:
        """Return the time on a node's own clock, which never goes back."""
        return max(node.now, self.t * node.speed)

    def fail(self, number: int, error: Exception) -> None:
        """Remove a node that died of an error."""
        del self.nodes[number]
        self.failures.append((number, describe_error(error)))

    def _act(self, number: int, message: Message | None) -> list[Message]:
        node = self.nodes.get(number)
        if node is None:
            return []
        now = self.local_time(node)
        try:
            out = node.tick(now) if message is None else node.receive(message, now)
        except Exception as error:  # a model is the user's code: only its own node dies of it
            self.fail(number, error)
            return []
        self._schedule(number)
        return out

    def _schedule(self, number: int) -> None:
        due = self.nodes[number].due / self.nodes[number].speed
        if due < self._next.get(number, math.inf):
            self._next[number] = due
            heapq.heappush(self._dues, (due, number))


def describe_error(error: Exception) -> str:
    """Write an error on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) < LONGEST_ERROR else short_repr(text)}"
