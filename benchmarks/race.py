"""Solvers on one problem: the time of the loosest tolerance with which each reaches a precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.outcome import Contest, Curve
from benchmarks.timing import (
    Contestant,
    Say,
    StoppedError,
    Work,
    compete,
    quietly,
    seconds_of,
)
from continuized.problems.base import Array

Solve = Callable[[Any, float], Array]  # of a problem with `fun`, and a tolerance

LEAST = 0.5  # seconds that a trial of a solver may always take
FIRST_TOL = 1e-3  # tight enough for all of a solver to be compiled
TOLERANCES = tuple(np.geomspace(1e-1, 1e-9, 17).tolist())
EXACT = (1e-13, 1e-11)  # tolerances of ours for f*


def note(precision: float) -> str:
    """What must be known to read the ratios."""
    return (
        f"Time to (f - f*) / f* <= {precision:.0e}, each with the loosest tolerance that gets "
        "there. > is a solver that was given up before."
    )


class Trial(NamedTuple):
    """One solve: how long it took, and where it ended, relative to f*."""

    seconds: float
    above: float


@dataclass
class Race:
    """Solvers on one problem."""

    p: Any
    most: float  # times our time, after which a solver is given up
    ours: Solve
    solvers: dict[str, Solve]
    precision: float = 1e-6
    trials: dict[str, list[Trial]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.f_star = min(self.p.fun(self.ours(self.p, tol)) for tol in EXACT)
        self.our_time = math.inf  # seconds, once known

    def run(self, title: str, repeats: int, say: Say) -> Contest:
        """Every solver, ours first."""
        solvers: dict[str, Solve] = {"continuized": self.ours, **self.solvers}
        contestants = [
            Contestant(name, partial(self.prepare, name, solve)) for name, solve in solvers.items()
        ]
        return compete(title, contestants, repeats=repeats, note=note(self.precision), say=say)

    def prepare(self, name: str, solve: Solve) -> Work:
        """Find the loosest tolerance that gets there; the work is to solve with it."""
        trials = self.trials[name] = []
        quietly(lambda: solve(self.p, FIRST_TOL))
        limit = max(self.most * self.our_time, LEAST)
        for tol in TOLERANCES:
            trial = self._try(solve, tol)
            trials.append(trial)
            if trial.above <= self.precision:
                if math.isinf(self.our_time):
                    self.our_time = trial.seconds
                return lambda: solve(self.p, tol)
            longest = max(t.seconds for t in trials)
            if longest > limit or sum(t.seconds for t in trials) > 3.0 * limit:
                raise StoppedError(longest, f"given up at {trial.above:.1e}")
        raise StoppedError(longest, f"ends at {trial.above:.1e} with its tightest tolerance")

    def _try(self, solve: Solve, tol: float) -> Trial:
        found: list[Array] = []
        seconds = seconds_of(lambda: found.append(solve(self.p, tol)))
        return Trial(seconds, (self.p.fun(found[0]) - self.f_star) / self.f_star)

    def curves(self) -> tuple[Curve, ...]:
        """The best that each had within so many seconds, of all its trials."""
        drawn = []
        for name, trials in self.trials.items():
            if trials:
                points = np.array(sorted(trials))
                best = np.minimum.accumulate(points[:, 1])
                drawn.append(Curve(name, points[:, 0], best))
        return tuple(drawn)
