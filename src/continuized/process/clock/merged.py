"""Several clocks as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from continuized.process.clock.events import Clock, Events, Floats, Stream
from continuized.support import validation as check


@dataclass(frozen=True, eq=False)
class Merged(Clock):
    """Several independent clocks as one: the mark of an event says whose it is.

    Marks are rows (number of the clock, its own mark, or -1 where it has none).  The merger of
    Poisson clocks of rates r_1, r_2, ... is a Poisson clock of rate r_1 + r_2 + ...  Events at
    the same time, such as those of two Unit clocks, come in the order of the clocks, with gaps
    of 0 between.  An event of n clocks takes O(log n).

    Raises TypeError or ValueError unless `clocks` are one clock or more; ValueError, from
    `stream` or `draw`, where their marks are no integers.

    >>> from continuized.process.clock import Poisson
    >>> events = Merged([Poisson(0), Poisson(1, 3.0)]).stream().draw(4000)
    >>> bool(0.7 < (events.marks[:, 0] == 1).mean() < 0.8)
    True
    """

    clocks: Iterable[Clock]

    def __post_init__(self) -> None:
        clocks = tuple(check.sequence(self.clocks, "clocks", "a sequence of clocks"))
        if not clocks:
            raise ValueError("clocks must be one clock or more, got none")
        for i, clock in enumerate(clocks):
            what = "a clock such as cz.clock.Poisson(rng)"
            check.instance(clock, f"clocks[{i}]", "stream", what)
        object.__setattr__(self, "clocks", clocks)

    def stream(self) -> Stream:
        return _MergedStream([clock.stream() for clock in self.clocks])


class _MergedStream(Stream):
    """Keeps the next few events of every clock, and gives them in the order of their times.

    How many are drawn ahead depends on the number of clocks alone, so that how a run is cut into
    blocks does not change its events, and a run that is resumed draws the same ones again.
    """

    AHEAD = 256  # events of a clock, where there are few clocks
    ALTOGETHER = 2**20  # of all, where there are many

    def __init__(self, streams: list[Stream]) -> None:
        super().__init__(self._no_gaps)
        self._streams = streams
        n = len(streams)
        self._ahead = max(1, min(self.AHEAD, self.ALTOGETHER // n))
        self._waiting = np.full((n, self._ahead), np.inf)
        self._own = np.full((n, self._ahead), -1)
        self._counts, self._given = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for whose in range(n):
            self._refill(whose)
        # Sorted is a heap.  Clocks that have no event are last, and left out of it.
        self._heap = np.argsort(self._waiting[:, 0], kind="stable")
        self._size = int(np.count_nonzero(self._counts))

    def _no_gaps(self, n: int) -> Floats:
        raise NotImplementedError("a merged clock is drawn with its times")

    def _refill(self, whose: int) -> None:
        """The next events of a clock, all of whose events were given; none where it has ended."""
        events = self._streams[whose].draw(self._ahead)
        self._waiting[whose, : events.size] = events.t
        if events.marks is not None:
            self._own[whose, : events.size] = _whole(events.marks)
        self._counts[whose], self._given[whose] = events.size, 0

    def draw(self, n: int) -> Events:
        """The next n events."""
        t, marks, done = np.empty(n), np.empty((n, 2), np.int64), 0
        merge, sift = _compiled()
        state = (self._waiting, self._own, self._counts, self._given, self._heap)
        while done < n and self._size:
            whose = int(self._heap[0])
            if self._given[whose] == self._counts[whose]:
                self._refill(whose)
                if not self._counts[whose]:
                    self._size -= 1
                    self._heap[0] = self._heap[self._size]
                sift(self._waiting, self._given, self._heap, self._size)
                continue
            done = merge(*state, self._size, t, marks, done)
        t, marks = t[:done], marks[:done]
        events = Events(self.k, self.t, t, np.diff(t, prepend=self.t), marks)
        if done:
            self.k, self.t = self.k + done, float(t[-1])
        return events


def _sift(times: Any, given: Any, heap: Any, size: int) -> None:
    """Let the first clock of a heap sink to its place by (time of the next event, number)."""
    place, whose = 0, heap[0]
    t = times[whose, given[whose]]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        below = heap[child]
        t_below = times[below, given[below]]
        if child + 1 < size:
            other = heap[child + 1]
            t_other = times[other, given[other]]
            if t_other < t_below or (t_other == t_below and other < below):
                child, below, t_below = child + 1, other, t_other
        if t < t_below or (t == t_below and whose < below):
            break
        heap[place] = below
        place = child
    heap[place] = whose


def _merge(
    times: Any,
    own: Any,
    counts: Any,
    given: Any,
    heap: Any,
    size: int,
    t: Any,
    marks: Any,
    done: int,
) -> int:
    """Events in the order of their times, up to the last one drawn of the clock that is first."""
    while done < t.size:
        whose = heap[0]
        i = given[whose]
        t[done] = times[whose, i]
        marks[done, 0], marks[done, 1] = whose, own[whose, i]
        done += 1
        given[whose] = i + 1
        if i + 1 == counts[whose]:
            break
        _sift(times, given, heap, size)
    return done


@cache
def _compiled() -> tuple[Any, Any]:
    from continuized.support.jit import compile_formulas, jit

    compile_formulas(_sift)
    return jit(_merge), jit(_sift)


def _whole(marks: Any) -> Any:
    if marks.size and (marks.ndim != 1 or marks.dtype.kind not in "iu"):
        raise ValueError(
            "clocks can be merged if their marks are integers, got marks of shape "
            f"{marks.shape[1:]} and dtype {marks.dtype}"
        )
    return marks
