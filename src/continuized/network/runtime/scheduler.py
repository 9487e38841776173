"""Several nodes in one process, and the clock that they read.

The clock runs at `speed` units of t a second of wall time.  A process that was kept from running,
or has more to do than it can, slows its clock instead of letting messages age: nodes know nothing
but their own time, so that only the pace changes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from continuized.network.protocol.messages import Message
from continuized.network.protocol.node import Node
from continuized.network.runtime.faulty_link import Link
from continuized.support.validation import short_repr

LONGEST = 200  # letters of an error that is passed on whole


class Host:
    """Nodes by their numbers, each with the speed of its own clock (1 + skew), and their link.

    `stride`: the most, in units of t, that the clock moves on between two looks, but for sleep.
    """

    def __init__(
        self,
        nodes: Mapping[int, Node],
        skews: Mapping[int, float],
        speed: float,
        stride: float,
        link: Link,
    ) -> None:
        self.nodes = dict(nodes)
        self.speed, self.stride = speed, stride
        self.t = 0.0
        self.link = link
        self.fell: list[tuple[int, str]] = []  # nodes whose rule raised, and what
        self._skews = dict(skews)
        self._wall: float | None = None
        self._rest = 0.0
        self._dues: list[tuple[float, int]] = []
        self._next: dict[int, float] = {}
        for number in self.nodes:
            self._schedule(number)

    @property
    def due(self) -> float:
        """The t at which something is to be done, even if nothing comes."""
        return min(self._dues[0][0] if self._dues else float("inf"), self.link.due)

    def advance(self, wall: float) -> None:
        """Look at the wall clock."""
        if self._wall is not None:
            passed = self.speed * max(0.0, wall - self._wall)
            self.t += min(passed, self.speed * self._rest + self.stride)
        self._wall, self._rest = wall, 0.0

    def rest(self) -> float:
        """Seconds of wall time until something is due: so long the process may sleep."""
        self._rest = max(0.0, (self.due - self.t) / self.speed)
        return self._rest

    def turn(self) -> list[Message]:
        """What the nodes, and their link, send because time passed."""
        due: list[int] = []
        while self._dues and self._dues[0][0] <= self.t:
            when, number = heapq.heappop(self._dues)
            if self._next.get(number) == when:  # else it was put earlier since, and is done
                del self._next[number]
                due.append(number)
        out = [message for number in due for message in self._act(number, None)]
        return self.link.send(out, self.t)

    def receive(self, messages: Iterable[Message]) -> list[Message]:
        """What the nodes send because messages came."""
        out: list[Message] = []
        for message in messages:
            out += self._act(message.receiver, message)
        return self.link.send(out, self.t)

    def own_time(self, number: int) -> float:
        """The time on a node's own clock."""
        return self.t * self._skews[number]

    def fail(self, number: int, error: Exception) -> None:
        """The node dies of an error."""
        del self.nodes[number]
        self.fell.append((number, sentence(error)))

    def _act(self, number: int, message: Message | None) -> list[Message]:
        node = self.nodes.get(number)
        if node is None:
            return []
        now = max(node.now, self.own_time(number))
        try:
            out = node.tick(now) if message is None else node.receive(message, now)
        except Exception as error:  # a rule is the user's code: only its own node dies of it
            self.fail(number, error)
            return []
        self._schedule(number)
        return out

    def _schedule(self, number: int) -> None:
        due = self.nodes[number].due / self._skews[number]
        if due < self._next.get(number, float("inf")):
            self._next[number] = due
            heapq.heappush(self._dues, (due, number))


def sentence(error: Exception) -> str:
    """An error on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) < LONGEST else short_repr(text)}"
