"""Links that lose, double and hold up what is sent over them, on purpose."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np

from continuized.network.protocol.messages import Message


class FaultyLink:
    """Carries what the nodes of a worker send, with the faults that were asked for.

    Parameters
    ----------
    loss, duplication : float
        The probability that a message is lost, and that one which is not lost goes out twice.
    delay : float
        The mean of the exponential time that each copy is held up, in units of t.
    """

    def __init__(
        self, random: np.random.Generator, loss: float, duplication: float, delay: float
    ) -> None:
        self.loss, self.duplication, self.delay = loss, duplication, delay
        self._random = random
        self._perfect = loss == duplication == delay == 0.0
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
            if self._random.random() < self.loss:
                continue
            for _ in range(1 + (self._random.random() < self.duplication)):
                self._count += 1
                leaves = t + (self._random.exponential(self.delay) if self.delay > 0.0 else 0.0)
                heapq.heappush(self._held, (leaves, self._count, message))
        out = []
        while self._held and self._held[0][0] <= t:
            out.append(heapq.heappop(self._held)[2])
        return out
