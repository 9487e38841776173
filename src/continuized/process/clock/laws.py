"""How often each mark comes among the events of a clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from continuized.process import marks
from continuized.process.clock.clocks import Poisson, Unit
from continuized.process.clock.events import Clock, Floats
from continuized.process.clock.merged import Merged


def probabilities(clock: Any) -> Floats | None:
    """The share of each mark 0, 1, ... in the events of a clock, or None where it is not known:
    that of recorded marks, and of laws that have no `p`.

    Of merged clocks, the share of a clock's events is its rate over the sum of all; marks are
    their own, or where no clock has any, the numbers of the clocks.

    >>> from continuized.process.marks import Categorical
    >>> probabilities(Merged([Poisson(0, 1.0), Poisson(1, 3.0)])).tolist()
    [0.25, 0.75]
    >>> fair = Poisson(2, 3.0, Categorical([0.5, 0.5]))
    >>> probabilities(Merged([Poisson(0, 1.0, Categorical([1.0])), fair])).tolist()
    [0.625, 0.375]
    """
    if not isinstance(clock, Merged):
        return marks.probabilities(getattr(clock, "marks", None))
    its = tuple(clock.clocks)
    rates = np.array([_rate(each) for each in its])
    if np.any(np.isnan(rates)):
        return None
    shares: Floats = rates / rates.max()  # whose sum cannot overflow
    shares /= shares.sum()
    if all(getattr(each, "marks", None) is None for each in its):
        return shares
    return _mixed(shares, its)


def _mixed(shares: Floats, its: Sequence[Clock]) -> Floats | None:
    laws = [marks.probabilities(getattr(each, "marks", None)) for each in its]
    known = [p for p in laws if p is not None]
    if len(known) < len(laws):
        return None
    total = np.zeros(max(p.size for p in known))
    for share, p in zip(shares, known, strict=True):
        total[: p.size] += share * p
    return total


def _rate(clock: Clock) -> float:
    """Events per unit of time; NaN where it is not known."""
    if isinstance(clock, Unit):
        return 1.0
    return float(clock.rate) if isinstance(clock, Poisson) else np.nan
