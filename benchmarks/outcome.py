"""What a contest gives: an entry for each contestant, and the ratio of each to ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from continuized.problems.base import Array

# The statuses of an entry.
TIMED, AT_LEAST, NOT_RUN, ABSENT, FAILED = "timed", "at least", "not run", "absent", "failed"


@dataclass(frozen=True)
class Entry:
    """One contestant's outcome.

    `amount` is what was measured, in the contest's unit: a lower bound where the contestant was
    stopped ("at least"), None where it is absent, failed or was not run.  `words` say why.
    """

    name: str
    status: str
    amount: float | None = None
    words: str = ""


class Curve(NamedTuple):
    """How far above the least value a contestant is, against gradients or seconds."""

    name: str
    along: Array
    above: Array


@dataclass(frozen=True)
class Panel:
    """Curves to be drawn together; `note` says which could not be made, and why."""

    title: str
    xlabel: str
    curves: tuple[Curve, ...]
    ylabel: str = "relative suboptimality"
    note: str = ""


@dataclass(frozen=True)
class Contest:
    """Entries on the same work, ours first.

    Parameters
    ----------
    title : str
        What was done, and on what.
    unit : str
        Of the amounts: "s", or what was counted.
    entries : tuple of Entry
    note : str
        What must be known to read the ratios.
    """

    title: str
    unit: str
    entries: tuple[Entry, ...]
    note: str = ""

    def ratio(self, entry: Entry) -> float | None:
        """How many times ours.

        >>> c = Contest("work", "s", (Entry("ours", TIMED, 2.0), Entry("theirs", TIMED, 1.0)))
        >>> [c.ratio(e) for e in c.entries], c.lost()
        ([1.0, 0.5], ['theirs'])
        """
        ours = self.entries[0].amount
        return None if entry.amount is None or not ours else entry.amount / ours

    def lost(self) -> list[str]:
        """Who needed less than ours."""
        ratios = [(e, self.ratio(e)) for e in self.entries[1:] if e.status == TIMED]
        return [entry.name for entry, ratio in ratios if ratio is not None and ratio < 1.0]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "title": self.title,
            "unit": self.unit,
            "note": self.note,
            "entries": [
                {
                    "name": e.name,
                    "status": e.status,
                    "times_ours": self.ratio(e),
                    "amount": e.amount,
                    "words": e.words,
                }
                for e in self.entries
            ],
        }


class Suite(NamedTuple):
    """What a suite gives: its contests, and what may be drawn."""

    contests: list[Contest]
    panels: list[Panel]
