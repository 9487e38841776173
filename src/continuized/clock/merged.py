"""Several clocks as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from continuized.clock.stream import Clock, Events, Floats, Stream


@dataclass(frozen=True, eq=False)
class Merged:
    """Several independent clocks as one: the mark of an event says whose it is.

    Marks are rows (number of the clock, its own mark, or -1 where it has none).  The merger of
    Poisson clocks of rates r_1, r_2, ... is a Poisson clock of rate r_1 + r_2 + ...  ValueError
    where `clocks` is empty, or (from `draw`) marks are no integers.

    >>> from continuized.clock import Poisson
    >>> events = Merged([Poisson(0), Poisson(1, 3.0)]).stream().draw(4000)
    >>> bool(0.7 < (events.marks[:, 0] == 1).mean() < 0.8)
    True
    """

    clocks: Sequence[Clock]

    def __post_init__(self) -> None:
        if not self.clocks:
            raise ValueError("clocks must be one clock or more, got none")

    def stream(self) -> Stream:
        """The clock from its beginning, the same at each call."""
        return _MergedStream([clock.stream() for clock in self.clocks])


class _MergedStream(Stream):
    """Keeps the next few events of every clock, and gives them in the order of their times."""

    AHEAD = 256

    def __init__(self, streams: list[Stream]) -> None:
        super().__init__(self._no_gaps)
        self._streams = streams
        self._waiting = [_with_whole_marks(s.draw(self.AHEAD)) for s in streams]
        self._next = [0] * len(streams)

    def _no_gaps(self, n: int) -> Floats:
        raise NotImplementedError("a merged clock is drawn with its times")

    def draw(self, n: int) -> Events:
        """The next n events."""
        t, marks = np.empty(n), np.empty((n, 2), np.int64)
        done = 0
        while done < n:
            whose = self._earliest()
            if whose is None:
                break
            block, i = self._waiting[whose], self._next[whose]
            t[done] = block.t[i]
            marks[done] = whose, -1 if block.marks is None else block.marks[i]
            self._next[whose] += 1
            done += 1
        t, marks = t[:done], marks[:done]
        events = Events(self.k, self.t, t, np.diff(t, prepend=self.t), marks)
        if done:
            self.k, self.t = self.k + done, float(t[-1])
        return events

    def _earliest(self) -> int | None:
        best, when = None, np.inf
        for j, block in enumerate(self._waiting):
            if self._next[j] == block.size and block.size:
                block = self._waiting[j] = _with_whole_marks(self._streams[j].draw(self.AHEAD))
                self._next[j] = 0
            if self._next[j] < block.size and block.t[self._next[j]] < when:
                best, when = j, block.t[self._next[j]]
        return best


def _with_whole_marks(events: Events) -> Events:
    marks = events.marks
    if marks is not None and marks.size and (marks.ndim != 1 or marks.dtype.kind not in "iu"):
        raise ValueError(
            "clocks can be merged if their marks are integers, got marks of shape "
            f"{marks.shape[1:]} and dtype {marks.dtype}"
        )
    return events
