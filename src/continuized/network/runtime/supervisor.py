"""The loop of a real run: it hears reports, makes the troubles asked for, ends in time."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from continuized.network.analysis.stability import too_stale
from continuized.network.gossip import Gossip
from continuized.network.result import Outcome
from continuized.network.runtime.merge_logs import merged
from continuized.network.runtime.monitor import Board, entries
from continuized.network.runtime.transport import Crew, Event, Plan
from continuized.support.progress import Bar

SILENT = 10.0  # seconds after which a process that says nothing is ended
BEGIN_WITHIN = 10.0
SETTLE_WITHIN = 3.0  # for exchanges under way to be finished, at the end
FINAL_WITHIN = 5.0
LOOK_EVERY = 0.05
SOON = 300.0  # units of t before the share of exchanges is looked at
DEVIATIONS = 3.0  # by which it must be too small: chance alone should not decide
OLD = 0.5  # theta times age: below, what mixing does to an answer until it is used is small


class StalenessWarning(UserWarning):
    """Messages are slow against the pace at which nodes mix.

    Past what acceleration bears, the nodes go on as plain gossip (`Outcome.fell_back`), and the
    warning says so.  Where that is welcome:

    >>> from continuized import network
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", StalenessWarning)
    ...     r = network.run("path:3", [0.0, 1.0, 2.0], tol=1e-4, processes=1, rng=0)
    >>> r.reached
    True
    """


@dataclass
class Troubles:
    """Kills and returns to come: (seconds, node, whether it comes back), in time."""

    changes: list[tuple[float, int, bool]]

    def nodes(self) -> set[int]:
        """The nodes that need a process of their own."""
        return {node for _, node, _ in self.changes}

    def due(self, seconds: float) -> list[tuple[int, bool]]:
        """(node, whether it comes back) of those due by now, which are taken off."""
        now = [(node, back) for when, node, back in self.changes if when <= seconds]
        self.changes = [change for change in self.changes if change[0] > seconds]
        return now


@dataclass
class Goal:
    """When to end, and what may be too slow for acceleration (None: nothing)."""

    tol: float
    seconds: float
    accelerated: Gossip | None = None


@dataclass
class Supervisor:
    """One run."""

    crew: Crew
    plan: Plan
    board: Board
    troubles: Troubles
    goal: Goal
    tell: Bar
    wall: float = 0.0
    reached: bool = False
    plain: bool = False  # whether it fell back
    _log: list[NDArray[Any]] = field(default_factory=list)
    _lives: dict[int, int] = field(default_factory=dict)  # of nodes that died: how often
    _coming: set[int] = field(default_factory=set)  # nodes on their way back
    _reasons: dict[int, str] = field(default_factory=dict)
    _warned: bool = False

    def __post_init__(self) -> None:
        self._home = dict(self.plan.home())
        self._places = set(range(len(self.plan.places)))  # whose processes live

    def run(self) -> None:
        """From the start of the processes to their last reports."""
        self.crew.start(self.plan)
        self.board.heard[:] = time.monotonic()
        if not self._until(self.board.complete, BEGIN_WITHIN):
            raise TimeoutError(f"nodes did not report within {BEGIN_WITHIN:.0f} s of their start")
        self.board.begin()
        began = time.monotonic()
        while not self._over(time.monotonic() - began):
            self._hear()
        self.wall = time.monotonic() - began
        self.crew.tell({"quiet": True})
        self._until(lambda: self._all(self.board.idle), SETTLE_WITHIN)
        self.crew.tell({"end": True})
        if not self._until(lambda: self._all(self.board.final), FINAL_WITHIN):
            for place in [place for place in self._places if not self.board.final[place]]:
                self._lost(place, "it gave no last report")
        self.board.row()

    def outcome(self, method: str, shape: tuple[int, ...]) -> Outcome:
        """What the run came to."""
        board = self.board
        return Outcome(
            x=(board.x if board.averaging else board.answer).reshape(shape),
            z=board.z.reshape(shape),
            t=board.t,
            method=method,
            messages=board.messages,
            tol=self.goal.tol,
            reached=self.reached,
            error=board.error,
            trace=board.trace,
            deaths=board.deaths,
            joins=board.joins,
            ledger_error=board.ledger_error(),
            mean_drift=board.drift(),
            events_per_s=board.messages / max(self.wall, 1e-9),
            staleness=board.staleness(),
            dropped=int(board.dropped.sum()),
            fell_back=self.plain,
            rounding=board.rounding(),
            log=merged(entries(self._log)) if self.plan.log else None,
        )

    def _all(self, flags: NDArray[Any]) -> bool:
        return all(flags[place] for place in self._places)

    def _over(self, elapsed: float) -> bool:
        if elapsed >= self.goal.seconds or not self.board.living.any():
            return True
        for node, back in self.troubles.due(elapsed):
            if back:
                self._revive(node)
            else:
                self.crew.kill(self._home[node])
        if self.troubles.changes or self._coming:
            return False  # what was asked for is still to come
        self.reached = self.board.error <= self.goal.tol
        return self.reached

    def _until(self, done: Callable[[], bool], seconds: float) -> bool:
        limit = time.monotonic() + seconds
        while not done():
            if time.monotonic() >= limit:
                return False
            self._hear()
        return True

    def _hear(self) -> None:
        """Wait a little for an event, and act on it."""
        event = self.crew.next(LOOK_EVERY)
        if event is not None:
            self._take(event)
        for place in self._places:
            if time.monotonic() - self.board.heard[place] > SILENT:
                self._reasons[place] = f"its process said nothing for {SILENT:.0f} s"
                self.board.heard[place] = time.monotonic()
                self.crew.kill(place)

    def _take(self, event: Event) -> None:
        if event.record is None:
            if not self.board.final[event.place]:
                self._lost(event.place, self._reasons.get(event.place, event.why))
            return
        header, arrays = event.record
        if "entries" in arrays:
            self._log.append(arrays["entries"])
        if header.get("started") and self._lives:  # one that came back has no past
            self._tell_lives()
        fell = self.board.take(event.place, event.record)
        self._coming -= set(arrays.get("number", ()))
        self._bury(fell)
        if self.board.rows and self.board.living.any() and self.board.round(self._places):
            dead = f", {len(self.board.deaths)} dead" if self.board.deaths else ""
            self.tell(self.board.messages, f"error {self.board.error:.1e}{dead}")
            self._watch()

    def _lost(self, place: int, why: str) -> None:
        """A process ended."""
        self._places.discard(place)
        nodes = self.plan.places[place]
        self._bury([(n, why) for n in nodes if self.board.living[n] or n in self._coming])
        self._coming -= set(nodes)

    def _bury(self, fell: list[tuple[int, str]]) -> None:
        for node, why in fell:
            self.board.bury(node, why)
            self._lives[node] = self._lives.get(node, 0) + 1
        if fell:
            self._tell_lives()

    def _revive(self, node: int) -> None:
        place = self._home[node]
        self.board.restart(place)
        self._places.add(place)
        self._coming.add(node)
        self.crew.revive(place, self._lives.get(node, 0))
        self._tell_lives()

    def _tell_lives(self) -> None:
        back = [n for n in self._lives if self.board.living[n] or n in self._coming]
        self.crew.tell({"dead": list(self._lives.items()), "back": back, "plain": self.plain})

    def _watch(self) -> None:
        """Warn when acceleration is at risk; past its limit, go on without it.

        These nodes make up for rings that found them busy, so that delay does harm by exchanges
        that are missing, and not before it is long against 1/theta by age.
        """
        method, stale = self.goal.accelerated, self.board.staleness()
        if method is None or self.plain or self.board.t < SOON:
            return
        share = self.board.messages / self.board.t
        age = 0.0 if stale is None else stale.mean
        aged = method.constants(self.plan.graph).theta * age
        at_most = share + DEVIATIONS * math.sqrt(share / self.board.t)
        verdict = too_stale(self.plan.graph, method, age if aged > OLD else 0.0, at_most)
        if verdict == "past":
            self.plain = True
            self.crew.tell({"plain": True})
        elif verdict == "fine" or self._warned:
            return
        self._warned = True
        what = "all nodes went on as plain gossip" if self.plain else "acceleration is at risk"
        warnings.warn(
            f"{100.0 * share:.0f} % of the exchanges took place that the clocks asked for, and "
            f"answers were {aged:.2g} / theta old when used: {what}; give a lower speed=",
            StalenessWarning,
            stacklevel=5,
        )
