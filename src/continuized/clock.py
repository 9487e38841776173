"""Clocks: when events happen, and with what mark.  All randomness of a run lives here.

A clock is a description (a seed, a list of times); `clock.stream()` starts it from the
beginning, so that the same clock gives the same run again.  A stream is drawn in blocks;
how a run is cut into blocks does not change its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuized.words import brief

Floats = NDArray[np.float64]
Seed = int | np.random.SeedSequence | np.random.Generator | None

TIMES, MARKS = 0, 1  # the two child streams of a seed: event times do not depend on marks


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

    def each(self) -> Iterator[Event]:
        """The events one by one."""
        for i, (t, dt) in enumerate(zip(self.t.tolist(), self.dt.tolist(), strict=True)):
            yield Event(self.k0 + 1 + i, t, dt)

    @property
    def size(self) -> int:
        return int(self.t.size)


class Stream:
    """A clock under way: draws the next n gaps and adds them up."""

    def __init__(self, gaps: Callable[[int], Floats], times: Floats | None = None) -> None:
        self.gaps = gaps  # draws the next n gaps without counting them
        self._times = times  # exact, where they were recorded: a sum of gaps would round
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
        events = Events(self.k, self.t, t, dt)
        if t.size:
            self.k, self.t = self.k + int(t.size), float(t[-1])
        return events


class Clock(Protocol):
    """What a run needs of a clock."""

    def stream(self) -> Stream: ...


def seed_sequence(seed: Seed) -> np.random.SeedSequence:
    """The root of a run's randomness.  None takes fresh entropy from the system; a
    Generator gives 128 bits of its own (and so moves on)."""
    if isinstance(seed, np.random.SeedSequence):
        return seed
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(0, 2**32, size=4, dtype=np.uint32).tolist())
    if seed is not None:
        wrong_type = isinstance(seed, bool) or not isinstance(seed, int | np.integer)
        if wrong_type or seed < 0:
            raise (TypeError if wrong_type else ValueError)(
                "seed must be an integer >= 0, a SeedSequence, a Generator or None, "
                f"got {brief(seed)}"
            )
    return np.random.SeedSequence(None if seed is None else int(seed))


def child(root: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """A named descendant of a seed sequence; unlike spawn, it leaves the parent unchanged."""
    return np.random.SeedSequence(
        root.entropy, spawn_key=(*root.spawn_key, *key), pool_size=root.pool_size
    )


def generator(root: np.random.SeedSequence, *key: int) -> np.random.Generator:
    """A generator of its own for each key: TIMES or MARKS, after a run's number if many."""
    return np.random.Generator(np.random.PCG64(child(root, *key)))


@dataclass(frozen=True)
class Poisson:
    """Events at the times of a Poisson process of rate 1: independent Exp(1) gaps.

    >>> [round(e.t, 6) for e in Poisson(0).stream().draw(3).each()]
    [3.293528, 4.056659, 5.309026]
    """

    seed: Seed = None
    root: np.random.SeedSequence = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", seed_sequence(self.seed))

    def stream(self) -> Stream:
        # The ziggurat of standard_exponential rarely calls a transcendental function, so
        # its draws are the same bits on every machine.
        return Stream(generator(self.root, TIMES).standard_exponential)


@dataclass(frozen=True)
class Unit:
    """Events at 1, 2, 3, ...: the iteration counter of a discrete method."""

    def stream(self) -> Stream:
        return Stream(np.ones)


@dataclass(frozen=True, eq=False)
class Recorded:
    """Events at given times 0 < T_1 < T_2 < ..., to replay a run.

    Give `gaps`, if they were recorded too, for a replay to the last bit: T_k - T_{k-1}
    has lost digits when T_k is large.
    """

    times: ArrayLike
    gaps: ArrayLike | None = None

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

    def __len__(self) -> int:
        return int(np.size(self.times))

    def stream(self) -> Stream:
        times, gaps = np.asarray(self.times), np.asarray(self.gaps)
        position = 0

        def next_gaps(n: int) -> Floats:
            nonlocal position
            position += n
            return gaps[position - n : position]

        return Stream(next_gaps, times)


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
