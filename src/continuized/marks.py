"""Laws of marks: which coordinate, row or edge an event is about.

A law draws from the generator that the clock gives it; it keeps no random state of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from continuized.words import brief

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SUM_TOLERANCE = 1e-9


class Law(Protocol):
    """What a clock needs of the law of its marks."""

    def draw(self, rng: np.random.Generator, n: int) -> Ints:
        """n independent marks."""
        ...


@dataclass(frozen=True, eq=False)
class Categorical:
    """Mark i with probability p[i], in O(1) by Walker's alias method.

    Each draw takes one uniform number: its integer part chooses a column of the table, its
    fraction one of the two marks that share the column.

    >>> Categorical([0.5, 0.0, 0.5]).draw(np.random.default_rng(0), 5).tolist()
    [2, 0, 0, 0, 2]
    """

    p: ArrayLike
    threshold: Floats = field(init=False, repr=False)
    alias: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        p = checked_probabilities(self.p)
        object.__setattr__(self, "p", p)
        threshold, alias = _alias_table(p)
        object.__setattr__(self, "threshold", threshold)
        object.__setattr__(self, "alias", alias)

    def draw(self, rng: np.random.Generator, n: int) -> Ints:
        u = rng.random(n) * self.threshold.size
        column = np.minimum(u.astype(np.int64), self.threshold.size - 1)
        return np.where(u - column < self.threshold[column], column, self.alias[column])


def checked_probabilities(p: ArrayLike) -> Floats:
    """A distribution as float64, or a sentence that says what is wrong."""
    try:
        values = np.array(p, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"probabilities must be a vector of numbers, got {brief(p)}") from error
    if values.ndim != 1 or values.size == 0 or not np.all(np.isfinite(values)):
        raise ValueError("probabilities must be a vector of one or more finite numbers")
    if np.any(values < 0.0):
        raise ValueError(f"probabilities must be >= 0, got {values.min():.6g}")
    total = float(values.sum())
    if abs(total - 1.0) > SUM_TOLERANCE * max(1.0, np.sqrt(values.size)):
        raise ValueError(f"probabilities must sum to 1, but sum to {total:.12g}")
    return values / total


def _alias_table(p: Floats) -> tuple[Floats, Ints]:
    """Vose's construction: every column holds mass 1/n, of one mark or of two."""
    n = p.size
    mass = p * n
    alias = np.arange(n)
    small = np.flatnonzero(mass < 1.0).tolist()
    large = np.flatnonzero(mass >= 1.0).tolist()
    share = mass.tolist()
    while small and large:
        low, high = small.pop(), large[-1]
        alias[low] = high
        share[high] -= 1.0 - share[low]
        if share[high] < 1.0:
            small.append(large.pop())
    threshold = np.array(share)
    # What is left over in either list differs from 1 by rounding only...
    threshold[large] = 1.0
    threshold[small] = 1.0
    # ... but a mark of probability 0 is never drawn, whatever the rounding.
    never = np.flatnonzero(p == 0.0)
    threshold[never] = 0.0
    alias[never[alias[never] == never]] = int(np.argmax(p))
    return threshold, alias
