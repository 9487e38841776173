"""The clocks of one process: Poisson, Unit, Recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuized.process.clock.events import Floats, Stream
from continuized.process.marks import Law
from continuized.process.random_streams import MARKS, TIMES, Root, Seed, generator, seed_sequence
from continuized.support import validation as check

LARGEST_RATE = 1e100


def _check_law(marks: Any) -> None:
    if marks is not None:
        check.instance(marks, "marks", "draw", "a law such as cz.marks.Categorical(p)")


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
        rate = check.real(self.rate, "rate", above=0.0)
        # The times of such a clock, and the steps that grow with them, would overflow.
        advice = "count time in another unit"
        check.real(rate, "rate", minimum=1.0 / LARGEST_RATE, maximum=LARGEST_RATE, advice=advice)
        object.__setattr__(self, "rate", rate)
        _check_law(self.marks)
        object.__setattr__(self, "root", seed_sequence(self.rng))

    def stream(self) -> Stream:
        """The clock from its beginning, the same at each call."""
        # The ziggurat of standard_exponential rarely calls a transcendental function, so
        # its draws are the same bits on every machine.
        times, rate = generator(self.root, TIMES), self.rate
        draw = times.standard_exponential
        gaps = draw if rate == 1.0 else lambda n: draw(n) / rate
        marks, others = _drawn(self.marks, self.root)
        return Stream(gaps, marks=marks, generators=[times, *others])


@dataclass(frozen=True)
class Unit:
    """Events at 1, 2, 3, ...: the iteration counter of a discrete method.

    With `marks`, every event has a mark drawn from that law with the generator of `rng`.
    Raises TypeError where `marks` is no law.

    >>> Unit().stream().draw(3).t.tolist()
    [1.0, 2.0, 3.0]
    """

    rng: Seed = None
    marks: Law | None = None
    root: Root | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_law(self.marks)
        root = None if self.marks is None else seed_sequence(self.rng)
        object.__setattr__(self, "root", root)

    def stream(self) -> Stream:
        """The clock from its beginning, the same at each call."""
        marks, generators = _drawn(self.marks, self.root)
        return Stream(np.ones, marks=marks, generators=generators)


@dataclass(frozen=True, eq=False)
class Recorded:
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
            marks = np.array(self.marks)
            if marks.ndim == 0:
                raise check.refusal(TypeError, "marks", "a sequence", self.marks)
            if len(marks) != times.size:
                raise ValueError(f"marks has {len(marks)} entries, but times has {times.size}")
            object.__setattr__(self, "marks", marks)

    def __len__(self) -> int:
        return int(np.size(self.times))

    def stream(self) -> Stream:
        """The clock from its beginning, the same at each call."""
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


def _vector(values: ArrayLike, name: str) -> Floats:
    noun = "a sequence of numbers"
    array = check.array(values, name, dtype=np.float64, ndim=1, finite=True, noun=noun)
    array.flags.writeable = False
    return array
