"""How contestants are timed.

In each round every contestant has a turn, so that a busy machine slows all of them alike; the
rounds start with a different one each, so that none has always the same neighbour before it.  In
its turn it works once, or again and again until `TURN` is over, for a first short call finds a core
asleep and the caches of its neighbour; the minimum is kept.  A first call, in which things are
compiled and answers are checked, is not timed.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from benchmarks.outcome import ABSENT, AT_LEAST, FAILED, NOT_RUN, TIMED, Contest, Entry
from benchmarks.peers import AbsentError, first_line

Answer = TypeVar("Answer")
Work = Callable[[], Any]
Say = Callable[[str], None]

TURN = 0.03  # seconds for which a contestant repeats its work in a round
PAUSE = 0.12  # seconds: OpenBLAS's threads spin for 0.1 s after a product, on the cores of the next


class Contestant(NamedTuple):
    """A name, and a function that gets all ready and gives the work to be timed."""

    name: str
    prepare: Callable[[], Work]


class StoppedError(Exception):
    """Raised by `prepare` where the work was given up: it takes more than so many seconds."""

    def __init__(self, seconds: float, why: str) -> None:
        super().__init__(why)
        self.seconds = seconds


class NotRunError(Exception):
    """Raised by `prepare` where the work is not for this contestant."""


class WrongError(Exception):
    """A contestant's answer is not the answer."""


def no_check(answer: Any) -> float:
    """Every answer will do, and counts as one."""
    return 1.0


def compete(
    title: str,
    contestants: Sequence[Contestant],
    *,
    repeats: int,
    check: Callable[[Any], float] = no_check,
    note: str = "",
    say: Say = lambda words: None,
) -> Contest:
    """Time the contestants; the first is ours.

    Parameters
    ----------
    check : function
        Given the answer of the first call; returns by what the time is to be divided (the number
        of gradients, say), or raises WrongError.
    repeats : int
        Rounds.

    Returns
    -------
    Contest
        In seconds.  A peer that is absent, fails or answers wrongly has an entry that says so.

    Raises
    ------
    Exception
        Whatever ours raises: that is a mistake of ours, and not an outcome.
    """
    entries: dict[str, Entry] = {}
    works: dict[str, Work] = {}
    counts: dict[str, float] = {}
    for place, (name, prepare) in enumerate(contestants):
        say(f"{title}: {name}")
        try:
            works[name] = quietly(prepare)
            counts[name] = check(quietly(works[name]))
        except Exception as error:
            works.pop(name, None)
            if place == 0:
                raise
            entries[name] = _without_a_time(name, error)
    best = _run_rounds(title, works, entries, repeats, say)
    for name, seconds in best.items():
        entries.setdefault(name, Entry(name, TIMED, seconds / counts[name]))
    return Contest(title, "s", tuple(entries[c.name] for c in contestants), note)


def _without_a_time(name: str, error: Exception) -> Entry:
    if isinstance(error, AbsentError):
        return Entry(name, ABSENT, words=str(error))
    if isinstance(error, NotRunError):
        return Entry(name, NOT_RUN, words=str(error))
    if isinstance(error, StoppedError):
        return Entry(name, AT_LEAST, error.seconds, str(error))
    return Entry(name, FAILED, words=first_line(error))


def _run_rounds(
    title: str, works: dict[str, Work], entries: dict[str, Entry], repeats: int, say: Say
) -> dict[str, float]:
    """Seconds; what fails on the way gets its entry."""
    best = dict.fromkeys(works, math.inf)
    ours = next(iter(works))
    for n in range(repeats):
        say(f"{title}: round {n + 1} of {repeats}")
        for name in rotated(list(works), n):
            if name in entries:
                continue
            time.sleep(PAUSE)
            try:
                best[name] = min(best[name], take_turn(works[name]))
            except Exception as error:
                if name == ours:
                    raise
                entries[name] = _without_a_time(name, error)
    return best


def quietly(work: Callable[[], Answer]) -> Answer:
    """What the work gives; the warnings of peers, that a tolerance was not met, are not shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return work()


def take_turn(work: Work) -> float:
    """The least wall time of a call in a turn."""
    least = spent = seconds_of(work)
    while spent < TURN:
        seconds = seconds_of(work)
        least, spent = min(least, seconds), spent + seconds
    return least


def seconds_of(work: Work) -> float:
    """The wall time of a call."""

    def timed() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return quietly(timed)


def time_in_turn(works: Mapping[str, Work], rounds: int) -> dict[str, float]:
    """Seconds of each, the minimum over rounds in which all work; the first calls do not count."""
    best = dict.fromkeys(works, math.inf)
    for work in works.values():
        quietly(work)
    for _ in range(rounds):
        for name, work in works.items():
            best[name] = min(best[name], seconds_of(work))
    return best


def rotated(names: list[str], by: int) -> list[str]:
    """The names from another first one.

    >>> rotated(["a", "b", "c"], 4)
    ['b', 'c', 'a']
    """
    first = by % len(names)
    return names[first:] + names[:first]
