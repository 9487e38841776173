"""Events, and a clock under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from continuized.support.checkpoints.files import CheckpointError
from continuized.support.checkpoints.state import Checkpointed

Floats = NDArray[np.float64]

SKIP = 2**16  # events drawn at once, where they are only counted


class Event(NamedTuple):
    """The k-th event (k >= 1): its time t, the gap dt drawn before it, and its mark.

    >>> from continuized.process.clock import Recorded
    >>> for event in Recorded([0.5, 1.25], marks=[7, 3]).stream().draw(2).each():
    ...     print(event.k, event.t, event.dt, event.mark)
    1 0.5 0.5 7
    2 1.25 0.75 3
    """

    k: int
    t: float
    dt: float
    mark: Any = None


class Events(NamedTuple):
    """A block of consecutive events k0 + 1, ..., k0 + n as arrays.

    t0 is the time of event k0, where the block begins; t, dt and marks (None where there are
    none) have an entry for each event.

    >>> from continuized.process.clock import Unit
    >>> stream = Unit().stream()
    >>> stream.skip(10)
    >>> block = stream.draw(2)
    >>> block.k0, block.t0, block.t.tolist(), block.size
    (10, 10.0, [11.0, 12.0], 2)
    """

    k0: int
    t0: float
    t: Floats
    dt: Floats
    marks: NDArray[Any] | None = None

    def each(self) -> Iterator[Event]:
        """Yield the events one by one."""
        for i, (t, dt) in enumerate(zip(self.t.tolist(), self.dt.tolist(), strict=True)):
            mark = None if self.marks is None else self.marks[i]
            yield Event(self.k0 + 1 + i, t, dt, mark)

    @property
    def size(self) -> int:
        """How many events there are."""
        return int(self.t.size)


class Stream(Checkpointed):
    """A clock under way: draws the next n gaps and adds them up.

    k and t: the number and the time of the last event drawn.  For a clock of one's own:

    Parameters
    ----------
    gaps : callable
        n -> the next n gaps >= 0, or fewer where the clock ends.
    times : array, optional
        The times themselves, where they are known exactly; otherwise the gaps are added up.
    marks : callable, optional
        n -> the marks of the next n events.
    generators : sequence of numpy.random.Generator
        All that gaps and marks draw from, for checkpoints.  Where some are missing give none:
        a run that is resumed then draws its events again.

    >>> stream = Stream(lambda n: np.full(n, 0.5))
    >>> stream.draw(3).t.tolist(), stream.k
    ([0.5, 1.0, 1.5], 3)
    """

    changing = ("k", "t", "generators")

    def __init__(
        self,
        gaps: Callable[[int], Floats],
        times: Floats | None = None,
        marks: Callable[[int], NDArray[Any]] | None = None,
        generators: Sequence[np.random.Generator] = (),
    ) -> None:
        self.gaps = gaps  # draws the next n gaps without counting them
        self._marks = marks  # draws the next n marks
        self._times = times  # exact, where they were recorded: a sum of gaps would round
        self.generators = list(generators)  # all that gaps and marks draw from, or none of it
        self.k = 0
        self.t = 0.0

    def draw(self, n: int) -> Events:
        """The next n events, or fewer when a recorded clock runs out.

        Raises ValueError where a gap is negative or NaN.
        """
        dt = self.gaps(n)
        if not (dt >= 0.0).all():
            raise ValueError(f"a clock must draw gaps >= 0, got {float(np.min(dt))!r}")
        if self._times is None:
            # cumsum adds from left to right, so that blocks of any size give equal bits.
            t = dt.astype(np.float64)
            t[:1] += self.t
            t.cumsum(out=t)
        else:
            t = self._times[self.k : self.k + n]
        marks = None if self._marks is None else self._marks(len(t))
        events = Events(self.k, self.t, t, dt, marks)
        if t.size:
            self.k, self.t = self.k + int(t.size), float(t[-1])
        return events

    def skip(self, n: int) -> None:
        """Pass over the next n events.

        They are drawn: an exponential takes a varying number of words from the generator, so
        that it cannot jump ahead.  A million takes a twentieth of a second.
        """
        end = self.k + n
        while self.k < end and self.draw(min(SKIP, end - self.k)).size:
            pass

    def restore(self, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Go to where the state was taken; this stream must not have been drawn from.

        Without generators the events up to there are drawn again, and must end at the same time:
        CheckpointError where they do not.
        """
        saved = plain["generators"]
        if saved and len(saved) == len(self.generators):
            super().restore(plain, arrays)
            return
        self.skip(plain["k"] - self.k)
        if (self.k, self.t) != (plain["k"], plain["t"]):
            raise CheckpointError(
                f"the clock is not that of the checkpoint: event {self.k} is at {self.t!r}, but "
                f"event {plain['k']} was at {plain['t']!r}; give the same clock, with its seed"
            )


class Clock(Protocol):
    """What a run needs of a clock.  Anything with a `stream` will do:

    >>> class Halves:
    ...     def stream(self):
    ...         return Stream(lambda n: np.full(n, 0.5))
    >>> import continuized as cz
    >>> cz.minimize(cz.problems.paper_convex(), np.zeros(100), clock=Halves(), maxiter=4).trace.t
    array([0. , 0.5, 1. , 1.5, 2. ])
    """

    def stream(self) -> Stream:
        """The clock from its beginning, the same at each call."""
        ...
