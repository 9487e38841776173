"""The mean of the models of all workers in reach, taken once, at the end.

Sums go up a tree (`Membership.find_tree`), and the mean comes down it.
"""

from __future__ import annotations

import threading

import numpy as np

from continuized.network.learning.links import FINAL_MEAN, PARTIAL_SUM
from continuized.network.learning.membership import Membership
from continuized.network.learning.model import LearningModel
from continuized.network.protocol.transitions import Message
from continuized.problems.base import Array


class FinalMean:
    """What one worker does for the mean; its methods return the messages to send.

    taken: whether the model is the mean now.  why_not: the reason, where it cannot be any more.
    lock: of the model.
    """

    def __init__(self, model: LearningModel, membership: Membership, lock: threading.Lock) -> None:
        self.began = self.taken = False
        self.why_not = ""
        self._model, self._membership, self._lock = model, membership, lock
        self._parent: int | None = None
        self._children: list[int] = []
        self._sums: dict[int, Array] = {}  # that children sent, some before this worker began

    @property
    def is_over(self) -> bool:
        """Whether the mean was taken, or cannot be taken any more."""
        return self.taken or bool(self.why_not)

    def begin(self) -> list[Message]:
        """Begin, once all workers in reach have finished."""
        self.began = True
        self._parent, self._children = self._membership.find_tree()
        return self._sum_up()

    def receive(self, message: Message) -> list[Message]:
        """Take the sum of a child, or the mean from the parent."""
        assert message.values is not None  # the schema of frames
        if message.kind == PARTIAL_SUM:
            self._sums[message.sender] = message.values
            return self._sum_up()
        return self._take(message.values) if message.sender == self._parent else []

    def lose(self, rank: int) -> None:
        """Give up if a worker that is gone has not done its part."""
        awaited = rank == self._parent or rank in set(self._children) - self._sums.keys()
        if awaited and not self.taken:
            self.why_not = f"rank {rank} is gone, while the mean was taken"

    def _sum_up(self) -> list[Message]:
        """Once the sums of all children are there, pass the sum on, or make the mean of it."""
        if not self.began or set(self._children) - self._sums.keys():
            return []
        with self._lock:
            self._model.mix(np.inf)  # the last transfer may have parted x~ from x again
            total = self._model.x.astype(np.float64)
        for child in self._children:
            total += self._sums[child]
        if self._parent is None:
            mean = total / len(self._membership.find_reachable())
            return self._take(mean.astype(self._model.x.dtype))
        return [Message(PARTIAL_SUM, self._membership.rank, self._parent, 0, values=total)]

    def _take(self, mean: Array) -> list[Message]:
        with self._lock:
            self._model.join(mean)
        self.taken = True
        own = self._membership.rank
        return [Message(FINAL_MEAN, own, child, 0, values=mean) for child in self._children]
