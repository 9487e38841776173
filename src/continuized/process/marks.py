"""Laws of marks: which coordinate, row or edge an event is about.

A law draws from the generator that the clock gives it; it keeps no random state of its own.
Marks that were drawn are replayed with their times by `cz.clock.Recorded`, which shows how.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuized.support import validation as check
from continuized.support.display import show_line

__all__ = ["Batches", "Categorical", "Changing", "Finite", "Law", "Stratified"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SUM_TOLERANCE = 1e-9
COMPILED_FROM = 4096  # marks: below, Python is quick enough to do without Numba


class Law(Protocol):
    """What a clock needs of the law of its marks.  One of your own:

    >>> class Coin:
    ...     def draw(self, rng, n):
    ...         return rng.integers(2, size=n)
    >>> from continuized.process.clock import Poisson
    >>> Poisson(0, marks=Coin()).stream().draw(6).marks.tolist()
    [1, 1, 0, 0, 0, 1]
    """

    def draw(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n marks from rng; independent ones, where a theorem is to hold."""
        ...


class Finite(Law, Protocol):
    """A law of the marks 0, ..., size - 1.

    >>> Categorical([0.5, 0.0, 0.5]).size
    3
    """

    @property
    def size(self) -> int:
        """How many marks there are."""
        ...


@dataclass(frozen=True, eq=False)
class Categorical(Finite):
    """Mark i with probability p[i], in O(1) by Walker's alias method.

    Each draw takes one uniform number: its integer part chooses a column of the table, its
    fraction one of the two marks that share the column.  threshold, alias: the table.

    Raises TypeError or ValueError unless p is a vector of numbers >= 0 whose sum is 1.

    >>> Categorical([0.5, 0.0, 0.5]).draw(np.random.default_rng(0), 5).tolist()
    [2, 0, 0, 0, 2]
    """

    p: ArrayLike
    threshold: Floats = field(init=False, repr=False)
    alias: Ints = field(init=False, repr=False)

    __repr__ = show_line

    def __post_init__(self) -> None:
        p = check_probabilities(self.p)
        object.__setattr__(self, "p", p)
        threshold, alias = _alias_table(p)
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "alias", alias)

    @property
    def size(self) -> int:
        return self.threshold.size

    def draw(self, rng: np.random.Generator, n: int) -> Ints:
        u = rng.random(n) * self.size
        column = np.minimum(u.astype(np.int64), self.size - 1)
        return np.where(u - column < self.threshold[column], column, self.alias[column])


@dataclass(frozen=True, eq=False)
class Stratified(Finite):
    """Mark i with probability p[i], and in every pass nearly as often as that says.

    Of len(p) marks in a row, counted from the first of a draw, mark i comes len(p) p[i] times,
    rounded down or up, in a random order: systematic sampling.  Each mark has the law p, but
    they are not independent, as theorems want them; with equal p[i] a pass is a permutation.
    Passes drawn one by one are the same as drawn at once.  sums: those of p up to each mark.

    Raises TypeError or ValueError unless p is a vector of numbers >= 0 whose sum is 1.

    >>> Stratified([0.25, 0.25, 0.5]).draw(np.random.default_rng(0), 6).tolist()
    [2, 0, 1, 2, 1, 2]
    """

    p: ArrayLike
    sums: Floats = field(init=False, repr=False)

    __repr__ = show_line

    def __post_init__(self) -> None:
        p = check_probabilities(self.p)
        sums = np.cumsum(p)
        object.__setattr__(self, "p", p)
        object.__setattr__(self, "sums", sums / sums[-1])

    @property
    def size(self) -> int:
        return self.sums.size

    def draw(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n marks from rng, in passes and at last a part of one."""
        marks = np.empty(n, np.int64)
        for first in range(0, n, self.size):
            part = marks[first : first + self.size]
            part[:] = self._pass(rng, part.size)
        return marks

    def _pass(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw the n marks of a pass, or of a part of one."""
        # Place j has the mark i with n sums[i - 1] + u < j + 1 <= n sums[i] + u: over u, mark i
        # has n p[i] places on average, and never one if p[i] is 0.
        ends = (n * self.sums + rng.random()).astype(np.int64)
        np.minimum(ends, n, out=ends)  # n + u may have been rounded to n + 1
        ended = np.bincount(ends, minlength=n + 1)[:-1]
        marks = np.cumsum(ended, out=ended)
        return rng.permuted(marks, out=marks)


@dataclass(frozen=True, eq=False)
class Batches(Finite):
    """A mark is a batch: `batch` marks of another law, drawn one by one, so that one may be there
    twice.

    law: of the marks in a batch.  batch: how many they are, an integer >= 1; TypeError or
    ValueError otherwise.

    >>> Batches(Categorical([0.5, 0.0, 0.5]), 2).draw(np.random.default_rng(0), 2).tolist()
    [[2, 0], [0, 0]]
    """

    law: Finite
    batch: int

    def __post_init__(self) -> None:
        check.instance(self.law, "law", "draw", "a law such as cz.marks.Categorical(p)")
        batch = check.whole(self.batch, "batch", minimum=1, maximum=2**31 - 1)
        object.__setattr__(self, "batch", batch)

    @property
    def size(self) -> int:
        """How many marks there are to fill a batch with."""
        return self.law.size

    @property
    def p(self) -> Floats | None:
        """The probabilities of the marks that fill a batch, where their law says them."""
        return probabilities(self.law)

    def draw(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n batches from rng, a row each."""
        return self.law.draw(rng, n * self.batch).reshape(n, self.batch)


@dataclass(eq=False)
class Changing(Finite):
    """A law that a run may replace by another between two blocks of events.

    now: the law that holds.  is_drawn: whether marks were drawn, from this law or one before.

    >>> law, rng = Changing(Categorical([1.0, 0.0])), np.random.default_rng(0)
    >>> first = law.draw(rng, 2)
    >>> law.now = Categorical([0.0, 1.0])
    >>> first.tolist(), law.draw(rng, 2).tolist()
    ([0, 0], [1, 1])
    """

    now: Finite
    is_drawn: bool = False

    @property
    def size(self) -> int:
        """The number of marks of the law that holds."""
        return self.now.size

    @property
    def p(self) -> Floats | None:
        """The probabilities of the law that holds, where it says them."""
        return probabilities(self.now)

    def draw(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n marks of the law that holds from rng."""
        self.is_drawn = True
        return self.now.draw(rng, n)


def probabilities(law: Any) -> Floats | None:
    """Return the probabilities of the marks 0, 1, ... of a law that has `p`; None for others."""
    p, size = getattr(law, "p", None), getattr(law, "size", None)
    return None if p is None or np.shape(p) != (size,) else np.asarray(p, dtype=np.float64)


def batch_of(law: Any) -> int:
    """Tell how many marks an event of a law draws."""
    return law.batch if isinstance(law, Batches) else 1


def events_of(law: Finite, marks: int) -> int:
    """Tell how many events draw so many marks of a law, but at least one."""
    return max(1, marks // batch_of(law))


def check_probabilities(p: ArrayLike) -> Floats:
    """Return a distribution as float64, or say in a sentence what is wrong."""
    noun = "a vector of numbers"
    values = check.array(p, "probabilities", dtype=np.float64, ndim=1, minimum=0.0, noun=noun)
    if not values.size:
        raise ValueError("probabilities must be one or more, got none")
    total = float(values.sum())
    if abs(total - 1.0) > SUM_TOLERANCE * max(1.0, np.sqrt(values.size)):
        raise ValueError(f"probabilities must sum to 1, but sum to {total:.12g}")
    return values / total


def _alias_table(p: Floats) -> tuple[Floats, Ints]:
    """Make the table by Vose's construction: every column holds mass 1/n, of one mark or of two."""
    share, alias = p * p.size, np.arange(p.size)
    small, large = np.flatnonzero(share < 1.0), np.flatnonzero(share >= 1.0)
    stack = np.empty(p.size, np.int64)
    stack[: small.size] = small
    fill = _compile_fill() if p.size >= COMPILED_FROM else _fill
    fill(share, alias, stack, small.size, large)
    return share, alias


def _fill(share: Any, alias: Any, small: Any, smalls: int, large: Any) -> None:
    """Give each column that holds too little what is left of one that holds too much."""
    larges = large.size
    while smalls > 0 and larges > 0:
        low, high = small[smalls - 1], large[larges - 1]
        smalls -= 1
        alias[low] = high
        share[high] -= 1.0 - share[low]
        if share[high] < 1.0:
            larges -= 1
            small[smalls] = high
            smalls += 1
    # What is left over in either list differs from 1 by rounding only: the shares add up to their
    # number.  So a mark of probability 0 is none of them, and is never drawn.
    share[small[:smalls]] = 1.0
    share[large[:larges]] = 1.0


@cache
def _compile_fill() -> Any:
    from continuized.support.jit import jit

    return jit(_fill)


def __dir__() -> list[str]:
    return sorted(__all__)
