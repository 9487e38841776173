"""Clocks: when events happen, and with what mark.

All randomness of a run comes from children of one seed (`random_streams`); the clock draws the
times and the marks.

A clock is a description (a seed, a list of times); `clock.stream()` starts it from the
beginning, so that the same clock gives the same run again.  A stream is drawn in blocks;
how a run is cut into blocks does not change its times, nor independent marks.  Stratified marks
are the same if it is cut between passes, and a law that changes does so between blocks.

A run is recorded by drawing its events from its clock, and replayed by `Recorded`: see there.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuized.process.marks import Law, probabilities
from continuized.process.random_streams import MARKS, TIMES, Root, Seed, generator, seed_sequence
from continuized.support import validation as check
from continuized.support.checkpoints.checkpointer import CheckpointError
from continuized.support.checkpoints.state import Checkpointed
from continuized.support.display import show_line

__all__ = ["Clock", "Event", "Events", "Merged", "Poisson", "Recorded", "Stream", "Unit"]

Floats = NDArray[np.float64]

LARGEST_RATE = 1e100
# Looked up among the loaded modules and never imported here: that would import Numba (0.3 s).
EXPONENTIAL = "continuized.process.exponential"
# Compiled code draws a block if both of these are reached.
LONG_RUN = 4096  # events of the run, this block included: then reading or compiling the code pays
COMPILED_BLOCK = 512  # events of the block: NumPy draws smaller ones more quickly
SKIPPED_AT_ONCE = 2**16  # events drawn at once, where they are only counted


class Event(NamedTuple):
    """The k-th event (k >= 1): its time t, the gap dt drawn before it, and its mark.

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

    def __repr__(self) -> str:
        return show_line(self)

    def each(self) -> Iterator[Event]:
        """Yield the events one by one."""
        for i, (t, dt) in enumerate(zip(self.t.tolist(), self.dt.tolist(), strict=True)):
            mark = None if self.marks is None else self.marks[i]
            yield Event(self.k0 + 1 + i, t, dt, mark)

    @property
    def size(self) -> int:
        """How many events there are."""
        return int(self.t.size)


def _add_up(t0: float, dt: NDArray[Any]) -> Floats:
    """Return the times of events with these gaps after t0.

    They are added from left to right, so that blocks of any size give equal bits.
    """
    if dt.size == 1:
        return np.array([t0 + float(dt[0])])
    t = dt.astype(np.float64)
    t[:1] += t0
    return t.cumsum(out=t)


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

    __repr__ = show_line

    def _facts(self) -> dict[str, Any]:
        return {"k": self.k, "t": self.t}

    def __init__(
        self,
        gaps: Callable[[int], Floats],
        times: Floats | None = None,
        marks: Callable[[int], NDArray[Any]] | None = None,
        generators: Sequence[np.random.Generator] = (),
    ) -> None:
        self.gaps, self._times, self._marks = gaps, times, marks
        self.generators = list(generators)
        self.k, self.t = 0, 0.0

    def draw(self, n: int) -> Events:
        """The next n events, or fewer when a recorded clock runs out.

        Raises ValueError where a gap is negative or NaN.
        """
        dt, t = self._draw_times(n)
        marks = None if self._marks is None else self._marks(len(t))
        events = Events(self.k, self.t, t, dt, marks)
        if t.size:
            self.k, self.t = self.k + int(t.size), float(t[-1])
        return events

    def _draw_times(self, n: int) -> tuple[Floats, Floats]:
        """Draw the gaps before the next n events, and their times."""
        dt = self.gaps(n)
        # One gap is compared as a float in less than a microsecond; an array takes over two.
        if not (float(dt[0]) >= 0.0 if dt.size == 1 else (dt >= 0.0).all()):
            raise ValueError(f"a clock must draw gaps >= 0, got {float(np.min(dt))!r}")
        if self._times is not None:
            return dt, self._times[self.k : self.k + n]
        return dt, _add_up(self.t, dt)

    def draw_ahead(self, n: int) -> None:
        """Begin to draw the next n events, where that pays: `draw` gives the same without."""

    def skip(self, n: int) -> None:
        """Pass over the next n events.

        They are drawn: an exponential takes a varying number of words from the generator, so
        that it cannot jump ahead.  A million takes some milliseconds.
        """
        end = self.k + n
        while self.k < end and self.draw(min(SKIPPED_AT_ONCE, end - self.k)).size:
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


def _check_rate(given: Any) -> float:
    rate = check.real(given, "rate", above=0.0)
    # The times of such a clock, and the steps that grow with them, would overflow.
    advice = "count time in another unit"
    return check.real(rate, "rate", minimum=1.0 / LARGEST_RATE, maximum=LARGEST_RATE, advice=advice)


def _check_law(marks: Any) -> None:
    if marks is not None:
        check.instance(marks, "marks", "draw", "a law such as cz.marks.Categorical(p)")


def _make_marks(
    law: Law | None, root: Root | None
) -> tuple[Callable[[int], Any] | None, list[np.random.Generator]]:
    """Make what draws the marks, and the generator that it draws from."""
    if law is None or root is None:
        return None, []
    rng = generator(root, MARKS)
    return lambda n: law.draw(rng, n), [rng]


@dataclass(frozen=True)
class Poisson(Clock):
    """Events at the times of a Poisson process: independent exponential gaps of mean 1/rate.

    With `marks`, a law such as `cz.marks.Categorical(p)`, every event has a mark drawn from it.
    The times do not depend on the marks.  Multiplied by the rate, they are those of rate 1, up to
    rounding.

    rng: int, SeedSequence or Generator; None takes one from the system, once.  The rate is a finite
    number > 0, from 1e-100 to 1e100.  Raises TypeError where `marks` is no law.

    >>> [round(e.t, 6) for e in Poisson(0).stream().draw(3).each()]
    [3.293528, 4.056659, 5.309026]
    """

    rng: Seed = None
    rate: float = 1.0
    marks: Law | None = None
    root: Root = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (type(self.rate) is float and self.rate == 1.0):  # a check takes a microsecond
            object.__setattr__(self, "rate", _check_rate(self.rate))
        _check_law(self.marks)
        object.__setattr__(self, "root", seed_sequence(self.rng))

    def stream(self) -> Stream:
        return PoissonStream(self)


class PoissonStream(Stream):
    """The stream of a Poisson clock.

    Large blocks of long runs are drawn by compiled code, if something has imported it already
    (`process.compiled` does); it draws the same bits as NumPy, the next block on another thread.
    """

    def __init__(self, clock: Poisson) -> None:
        marks, others = _make_marks(clock.marks, clock.root)
        times = generator(clock.root, TIMES)
        super().__init__(self._draw_gaps, marks=marks, generators=[times, *others])
        self._rate = clock.rate
        self._drawer: Any = None  # of long blocks

    def _draw_gaps(self, n: int) -> Floats:
        # standard_exponential calls exp or log1p for about 1 gap in 100 only.  All other gaps are
        # the same bits on every machine.
        gaps = self.generators[0].standard_exponential(n)
        return gaps if self._rate == 1.0 else gaps / self._rate

    def _draw_times(self, n: int) -> tuple[Floats, Floats]:
        is_long = n >= COMPILED_BLOCK and self.k + n >= LONG_RUN
        compiled: Any = sys.modules.get(EXPONENTIAL) if is_long else None
        if compiled is None or not compiled.HAS_NUMBA or self.gaps != self._draw_gaps:
            return super()._draw_times(n)  # also where a user has replaced `gaps`
        self._drawer = self._drawer or compiled.BlockDrawer()
        drawn: tuple[Floats, Floats] = self._drawer.draw(self.generators[0], self._rate, self.t, n)
        return drawn

    def draw_ahead(self, n: int) -> None:
        if self._drawer is not None:
            self._drawer.draw_ahead(n)


@dataclass(frozen=True)
class Unit(Clock):
    """Events at 1, 2, 3, ...: the iteration counter of a discrete method.

    With `marks`, every event has a mark drawn from that law with the generator of `rng`.
    Raises TypeError where `marks` is no law.

    >>> Unit().stream().draw(3).t.tolist()
    [1.0, 2.0, 3.0]
    """

    rate: ClassVar[float] = 1.0
    rng: Seed = None
    marks: Law | None = None
    root: Root | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_law(self.marks)
        root = None if self.marks is None else seed_sequence(self.rng)
        object.__setattr__(self, "root", root)

    def stream(self) -> Stream:
        marks, generators = _make_marks(self.marks, self.root)
        return Stream(np.ones, marks=marks, generators=generators)


@dataclass(frozen=True, eq=False)
class Recorded(Clock):
    """Events at given times 0 < T_1 < T_2 < ..., to replay a run.

    Give `gaps`, if they were recorded too, for a replay to the last bit: T_k - T_{k-1}
    has lost digits when T_k is large.  With them T_k may be equal to T_{k-1}, as for events of
    two clocks at once, or a gap too small to count.  Give `marks` to replay events with their
    marks.

    Raises ValueError where the times do not increase, or the gaps are not their differences;
    TypeError for what is no sequence of numbers.

    >>> Recorded([0.5, 1.25]).stream().draw(5).t.tolist()
    [0.5, 1.25]

    A run with marks is recorded by drawing its events from its clock, which begins anew at each
    `stream()`.  The clock that `minimize` makes is Poisson(rng, marks=law of the method):

    >>> import continuized as cz
    >>> p, x0 = cz.problems.Quadratic([1.0, 0.1, 0.01]), np.ones(3)
    >>> method = cz.CoordinateDescent(sampling=[0.6, 0.3, 0.1])
    >>> clock = cz.clock.Poisson(0, marks=cz.marks.Categorical([0.6, 0.3, 0.1]))
    >>> events = clock.stream().draw(50)
    >>> record = Recorded(events.t, events.dt, events.marks)
    >>> runs = [cz.minimize(p, x0, method=method, maxiter=50, rng=0)]
    >>> runs += [cz.minimize(p, x0, method=method, maxiter=50, clock=c) for c in (clock, record)]
    >>> all(np.array_equal(r.x, runs[0].x) for r in runs)
    True

    DualCoordinate on logistic regression is the exception: where its metric, and with it the law
    of its marks, changes on the way (see there), it keeps the first one on a clock that brings
    its own marks.  A record then repeats a run on such a clock, but not one by its seed alone.
    """

    times: ArrayLike
    gaps: ArrayLike | None = None
    marks: ArrayLike | None = None

    __repr__ = show_line

    def _facts(self) -> dict[str, Any]:
        facts = {"events": len(self)}
        if len(self):
            facts["until"] = np.asarray(self.times)[-1]
        return facts if self.marks is None else facts | {"marks": True}

    def __post_init__(self) -> None:
        times = _vector(self.times, "times")
        before = np.concatenate(([0.0], times[:-1]))
        increases = times > before
        if self.gaps is not None:  # they say that two events at the same time are meant
            increases |= (times == before) & (times > 0.0)
        if not np.all(increases):
            k = int(np.argmin(increases))
            strictly = "strictly " if self.gaps is None else ""
            raise ValueError(
                f"times must be positive and {strictly}increasing, but times[{k}] = {times[k]} "
                f"follows {before[k]}"
            )
        gaps = times - before if self.gaps is None else _vector(self.gaps, "gaps")
        if gaps.shape != times.shape:
            raise ValueError(f"gaps has {gaps.size} entries, but times has {times.size}")
        near = np.abs(gaps - (times - before)) <= 4.0 * np.spacing(times)
        if not np.all(near & (gaps >= 0.0)):
            raise ValueError("gaps must be the differences of times, up to the rounding of times")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "gaps", gaps)
        if self.marks is not None:
            try:
                marks = np.array(self.marks)
            except ValueError as error:  # of rows that are not equally long
                raise check.refusal(ValueError, "marks", "a sequence", self.marks) from error
            if marks.ndim == 0:
                raise check.refusal(TypeError, "marks", "a sequence", self.marks)
            if len(marks) != times.size:
                raise ValueError(f"marks has {len(marks)} entries, but times has {times.size}")
            object.__setattr__(self, "marks", marks)

    def __len__(self) -> int:
        return int(np.size(self.times))

    def stream(self) -> Stream:
        marks = None if self.marks is None else _next_of(np.asarray(self.marks))
        return Stream(_next_of(np.asarray(self.gaps)), np.asarray(self.times), marks)


def _next_of(array: NDArray[Any]) -> Callable[[int], NDArray[Any]]:
    """Make a function that gives the next n entries at each call, fewer at the end."""
    position = 0

    def take_next(n: int) -> NDArray[Any]:
        nonlocal position
        position += n
        return array[position - n : position]

    return take_next


def _vector(values: ArrayLike, name: str) -> Floats:
    noun = "a sequence of numbers"
    array = check.array(values, name, dtype=np.float64, ndim=1, finite=True, noun=noun)
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class Merged(Clock):
    """Several independent clocks as one: the mark of an event says whose it is.

    Marks are rows (number of the clock, its own mark, or -1 where it has none).  The merger of
    Poisson clocks of rates r_1, r_2, ... is a Poisson clock of rate r_1 + r_2 + ...  Events at
    the same time, such as those of two Unit clocks, come in the order of the clocks, with gaps
    of 0 between.  An event of n clocks takes O(log n).

    Raises TypeError or ValueError unless `clocks` are one clock or more; ValueError, from
    `stream` or `draw`, where their marks are no integers.

    >>> events = Merged([Poisson(0), Poisson(1, 3.0)]).stream().draw(4000)
    >>> bool(0.7 < (events.marks[:, 0] == 1).mean() < 0.8)
    True
    """

    clocks: Iterable[Clock]

    __repr__ = show_line

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
    """Draws the next few events of every clock, and sorts them by time and number of the clock.

    How many are drawn ahead depends on the number of clocks alone, so that how a run is cut into
    blocks does not change its events, and a run that is resumed draws the same ones again.
    """

    AHEAD = 256  # events of a clock, where there are few clocks
    ALTOGETHER = 2**20  # of all, where there are many

    def __init__(self, streams: list[Stream]) -> None:
        super().__init__(self._no_gaps)
        self._streams = streams
        self._ahead = max(1, min(self.AHEAD, self.ALTOGETHER // len(streams)))
        self._ends: list[tuple[float, int]] = []  # a heap: the last event drawn of each clock
        self._sort([self._draw_ahead(whose) for whose in range(len(streams))])

    def _no_gaps(self, n: int) -> Floats:
        raise NotImplementedError("a merged clock is drawn with its times")

    def _draw_ahead(self, whose: int) -> tuple[Floats, NDArray[np.int64]]:
        """Draw the times and marks of the next events of a clock; none where it has ended."""
        events = self._streams[whose].draw(self._ahead)
        marks, own = np.full((events.size, 2), (whose, -1)), events.marks
        if events.size:
            heapq.heappush(self._ends, (float(events.t[-1]), whose))
        if own is not None and own.size:
            if own.ndim != 1 or own.dtype.kind not in "iu":
                raise ValueError(
                    "clocks can be merged if their marks are integers, got marks of shape "
                    f"{own.shape[1:]} and dtype {own.dtype}"
                )
            marks[:, 1] = own
        return events.t, marks

    def _sort(self, blocks: list[tuple[Floats, NDArray[np.int64]]]) -> None:
        """Sort all events not given yet; the first `_ready` come before any that is drawn later."""
        t, marks = (np.concatenate(part) for part in zip(*blocks, strict=True))
        order = np.lexsort((marks[:, 0], t))  # which leaves the order of one clock's as it is
        t, marks = t[order], marks[order]
        self._t, self._pairs, self._ready = t, marks, t.size
        if self._ends:
            end, whose = self._ends[0]
            first = (t < end) | ((t == end) & (marks[:, 0] <= whose))
            self._ready = int(np.count_nonzero(first))

    def draw(self, n: int) -> Events:
        """Draw the next n events."""
        while self._ready < n and self._ends:
            blocks = [(self._t, self._pairs)]
            # What was drawn of a clock that ends first is ready when it is drawn on.  With as many
            # times as there are clocks, half of the events that are sorted are ready, or more.
            for _ in range(max(n // self._ahead, len(self._ends)) + 1):
                if self._ends:
                    blocks.append(self._draw_ahead(heapq.heappop(self._ends)[1]))
            self._sort(blocks)
        n = min(n, self._ready)
        t, marks = self._t[:n], self._pairs[:n]
        self._t, self._pairs, self._ready = self._t[n:], self._pairs[n:], self._ready - n
        events = Events(self.k, self.t, t, np.diff(t, prepend=self.t), marks)
        if n:
            self.k, self.t = self.k + n, float(t[-1])
        return events


def mark_shares(clock: Any) -> Floats | None:
    """Return the share of each mark 0, 1, ... in the events of a clock, or None where it is not
    known: that of recorded marks, and of laws that have no `p`.

    Of merged clocks, the share of a clock's events is its rate over the sum of all; marks are
    their own, or where no clock has any, the numbers of the clocks.

    >>> from continuized.process.marks import Categorical
    >>> mark_shares(Merged([Poisson(0, 1.0), Poisson(1, 3.0)])).tolist()
    [0.25, 0.75]
    >>> fair = Poisson(2, 3.0, Categorical([0.5, 0.5]))
    >>> mark_shares(Merged([Poisson(0, 1.0, Categorical([1.0])), fair])).tolist()
    [0.625, 0.375]
    """
    if not isinstance(clock, Merged):
        return probabilities(getattr(clock, "marks", None))
    merged = tuple(clock.clocks)
    rates = np.array([each.rate for each in merged if isinstance(each, Poisson | Unit)])
    if rates.size < len(merged):
        return None
    shares: Floats = rates / rates.max()  # whose sum cannot overflow
    shares /= shares.sum()
    if all(getattr(each, "marks", None) is None for each in merged):
        return shares
    laws = [probabilities(getattr(each, "marks", None)) for each in merged]
    known = [p for p in laws if p is not None]
    if len(known) < len(laws):
        return None
    total = np.zeros(max(p.size for p in known))
    for share, p in zip(shares, known, strict=True):
        total[: p.size] += share * p
    return total


def __dir__() -> list[str]:
    return sorted(__all__)
