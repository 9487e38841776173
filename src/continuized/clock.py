"""Clocks: when events happen, and with what mark.  All randomness of a run lives here.

A clock is a description (a seed, a list of times); `clock.stream()` starts it from the
beginning, so that the same clock gives the same run again.  A stream is drawn in blocks;
how a run is cut into blocks does not change its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuized.checkpoints import CheckpointError
from continuized.marks import Law
from continuized.seeds import MARKS, TIMES, Root, Seed, generator, seed_sequence
from continuized.words import brief, is_real

Floats = NDArray[np.float64]

SKIP = 2**16  # events drawn at once, where they are only counted


class Event(NamedTuple):
    """The k-th event (k >= 1): its time, the gap drawn before it, and its mark."""

    k: int
    t: float
    dt: float
    mark: Any = None


class Events(NamedTuple):
    """A block of consecutive events k0 + 1, ..., k0 + n as arrays."""

    k0: int
    t0: float
    t: Floats
    dt: Floats
    marks: NDArray[Any] | None = None

    def each(self) -> Iterator[Event]:
        """The events one by one."""
        for i, (t, dt) in enumerate(zip(self.t.tolist(), self.dt.tolist(), strict=True)):
            mark = None if self.marks is None else self.marks[i]
            yield Event(self.k0 + 1 + i, t, dt, mark)

    @property
    def size(self) -> int:
        return int(self.t.size)


class Stream:
    """A clock under way: draws the next n gaps and adds them up."""

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
        self._generators = generators  # all that gaps and marks draw from, or none of it
        self.k = 0
        self.t = 0.0

    def draw(self, n: int) -> Events:
        """The next n events, or fewer when a recorded clock runs out."""
        dt = self.gaps(n)
        if not np.all(dt >= 0.0):
            raise ValueError(f"a clock must draw gaps >= 0, got {float(np.min(dt))!r}")
        if self._times is None:
            # cumsum adds from left to right, so that blocks of any size give equal bits.
            t = np.cumsum(np.concatenate(([self.t], dt)))[1:]
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

    def state(self) -> dict[str, Any]:
        """How far the stream is, as plain data; see `restore`."""
        states = [rng.bit_generator.state for rng in self._generators]
        return {"k": self.k, "t": self.t, "generators": states}

    def restore(self, state: dict[str, Any]) -> None:
        """Go to where `state` was taken; this stream must not have been drawn from.

        Without generators the events up to there are drawn again, and must end at the same time.
        """
        saved = state["generators"]
        if saved and len(saved) == len(self._generators):
            for rng, its in zip(self._generators, saved, strict=True):
                rng.bit_generator.state = its
            self.k, self.t = state["k"], state["t"]
            return
        self.skip(state["k"] - self.k)
        if (self.k, self.t) != (state["k"], state["t"]):
            raise CheckpointError(
                f"the clock is not that of the checkpoint: event {self.k} is at {self.t!r}, but "
                f"event {state['k']} was at {state['t']!r}; give the same clock, with its seed"
            )


class Clock(Protocol):
    """What a run needs of a clock."""

    def stream(self) -> Stream: ...


def _drawn(
    law: Law | None, root: Root | None
) -> tuple[Callable[[int], Any] | None, list[np.random.Generator]]:
    """What draws the marks, and the generator it draws from."""
    if law is None or root is None:
        return None, []
    rng = generator(root, MARKS)
    return lambda n: law.draw(rng, n), [rng]


@dataclass(frozen=True)
class Poisson:
    """Events at the times of a Poisson process: independent exponential gaps of mean 1/rate.

    With `marks`, a law such as `cz.marks.Categorical(p)`, every event has a mark drawn from it.
    The times do not depend on the marks, and times a rate are those of rate 1.

    >>> [round(e.t, 6) for e in Poisson(0).stream().draw(3).each()]
    [3.293528, 4.056659, 5.309026]
    """

    seed: Seed = None
    rate: float = 1.0
    marks: Law | None = None
    root: Root = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (is_real(self.rate) and np.isfinite(self.rate) and self.rate > 0.0):
            raise ValueError(f"rate must be a finite number > 0, got {brief(self.rate)}")
        object.__setattr__(self, "root", seed_sequence(self.seed))

    def stream(self) -> Stream:
        # The ziggurat of standard_exponential rarely calls a transcendental function, so
        # its draws are the same bits on every machine.
        times, rate = generator(self.root, TIMES), float(self.rate)
        draw = times.standard_exponential
        gaps = draw if rate == 1.0 else lambda n: draw(n) / rate
        marks, others = _drawn(self.marks, self.root)
        return Stream(gaps, marks=marks, generators=[times, *others])


@dataclass(frozen=True)
class Unit:
    """Events at 1, 2, 3, ...: the iteration counter of a discrete method.

    With `marks`, every event has a mark drawn from that law with the generator of `seed`.
    """

    seed: Seed = None
    marks: Law | None = None
    root: Root | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        root = None if self.marks is None else seed_sequence(self.seed)
        object.__setattr__(self, "root", root)

    def stream(self) -> Stream:
        marks, generators = _drawn(self.marks, self.root)
        return Stream(np.ones, marks=marks, generators=generators)


@dataclass(frozen=True, eq=False)
class Recorded:
    """Events at given times 0 < T_1 < T_2 < ..., to replay a run.

    Give `gaps`, if they were recorded too, for a replay to the last bit: T_k - T_{k-1}
    has lost digits when T_k is large.  Give `marks` to replay events with their marks.
    """

    times: ArrayLike
    gaps: ArrayLike | None = None
    marks: ArrayLike | None = None

    def __post_init__(self) -> None:
        times = _vector(self.times, "times")
        before = np.concatenate(([0.0], times[:-1]))
        if times.size and not np.all(times > before):
            k = int(np.argmin(times > before))
            raise ValueError(
                f"times must be positive and strictly increasing, but times[{k}] = {times[k]} "
                f"follows {before[k]}"
            )
        gaps = times - before if self.gaps is None else _vector(self.gaps, "gaps")
        if gaps.shape != times.shape:
            raise ValueError(f"gaps has {gaps.size} entries, but times has {times.size}")
        if not np.all(np.abs(gaps - (times - before)) <= 4.0 * np.spacing(times)):
            raise ValueError("gaps must be the differences of times, up to the rounding of times")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "gaps", gaps)
        if self.marks is not None:
            marks = np.array(self.marks)
            if marks.ndim == 0:
                raise TypeError(f"marks must be a sequence, got {brief(self.marks)}")
            if len(marks) != times.size:
                raise ValueError(f"marks has {len(marks)} entries, but times has {times.size}")
            object.__setattr__(self, "marks", marks)

    def __len__(self) -> int:
        return int(np.size(self.times))

    def stream(self) -> Stream:
        marks = None if self.marks is None else _next_of(np.asarray(self.marks))
        return Stream(_next_of(np.asarray(self.gaps)), np.asarray(self.times), marks)


def _next_of(array: NDArray[Any]) -> Callable[[int], NDArray[Any]]:
    """Gives the next n entries at each call, fewer at the end."""
    position = 0

    def following(n: int) -> NDArray[Any]:
        nonlocal position
        position += n
        return array[position - n : position]

    return following


@dataclass(frozen=True, eq=False)
class Merged:
    """Several independent clocks as one: the mark of an event says whose it is.

    Marks are rows (number of the clock, its own mark, or -1 where it has none).  The merger of
    Poisson clocks of rates r_1, r_2, ... is a Poisson clock of rate r_1 + r_2 + ...
    """

    clocks: Sequence[Clock]

    def __post_init__(self) -> None:
        if not self.clocks:
            raise ValueError("clocks must be one clock or more, got none")

    def stream(self) -> Stream:
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


def _vector(values: ArrayLike, name: str) -> Floats:
    try:
        given = np.asarray(values)
    except ValueError as error:  # ragged
        raise TypeError(f"{name} must be a sequence of numbers, got {brief(values)}") from error
    if given.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be a sequence of numbers, got {brief(values)}")
    array = np.array(given, dtype=np.float64)
    if array.ndim != 1 or not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be a one-dimensional sequence of finite numbers")
    array.flags.writeable = False
    return array
