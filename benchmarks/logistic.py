"""`logistic`: time to a relative suboptimality of 1e-6 on l2-logistic regression.

Ours is minimize(p, x0, method="auto").  A solver's time is that of the loosest tol, on a grid,
with which it gets there, ours too; setting up counts, compiling does not.  No intercept, and the
same l2: all minimise the same function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import continuized as cz
from benchmarks import data
from benchmarks.logistic_peers import SOLVERS, Solve
from benchmarks.outcome import Contest, Curve, Panel, Suite
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

PRECISION = 1e-6
LEAST = 0.5  # seconds that a trial of a solver may always take
FIRST_TOL = 1e-3  # tight enough for all of a solver to be compiled
TOLERANCES = tuple(np.geomspace(1e-1, 1e-9, 17).tolist())
NOTE = (
    "Time to (f - f*) / f* <= 1e-6, each with the loosest tolerance that gets there. > is a solver "
    "that was given up before."
)


class Size(NamedTuple):
    """How much is done.  A solver is given up when a trial takes more than `most` times ours."""

    dense: tuple[int, int]
    sparse: tuple[int, int]
    repeats: int
    most: float
    factors: tuple[float, ...] = (1.0, 0.01)  # l2 = factor / n
    file: Path | None = None
    kinds: tuple[str, ...] = ("axis-aligned", "rotated", "sparse")


FULL = Size(dense=(50_000, 500), sparse=(100_000, 50_000), repeats=3, most=40.0)
QUICK = Size(
    dense=(5_000, 100), sparse=(5_000, 5_000), repeats=2, most=20.0, kinds=("rotated", "sparse")
)


def run(size: Size, say: Say) -> Suite:
    """The contests of this suite; with a file, also on it."""
    contests, panels = [], []
    for title, X, y in _sets(size):
        for factor in size.factors:
            p = cz.problems.LogisticRegression(X, y, l2=factor / len(y))
            n, d = X.shape
            race = Race(p, size.most)
            name = f"{title} {n:,} x {d:,}, l2 = {factor:g}/n"
            contests.append(race.run(f"time to 1e-6, {name}", size.repeats, say))
            panels.append(Panel(name, "seconds", race.curves()))
    return Suite(contests, panels)


def _sets(size: Size) -> Any:
    """(title, X, y), one at a time: they are large."""
    if size.file is not None:
        X, y = cz.problems.read(size.file)
        yield size.file.name, X, np.where(y == y.max(), 1.0, -1.0)
    for kind in size.kinds:
        if kind == "sparse":
            yield "sparse", *data.sparse(*size.sparse)
        else:
            yield f"dense, {kind},", *data.dense(*size.dense, rotated=kind == "rotated")


class Trial(NamedTuple):
    """One solve: how long it took, and where it ended, relative to f*."""

    seconds: float
    above: float


@dataclass
class Race:
    """Solvers on one problem."""

    p: cz.problems.LogisticRegression
    most: float
    trials: dict[str, list[Trial]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.f_star = min(self.p.fun(_ours(self.p, tol)) for tol in (1e-13, 1e-11))
        self.ours = math.inf  # seconds, once known

    def run(self, title: str, repeats: int, say: Say) -> Contest:
        """Every solver, ours first."""
        solvers: dict[str, Solve] = {"continuized": _ours, **SOLVERS}
        contestants = [
            Contestant(name, partial(self.prepare, name, solve)) for name, solve in solvers.items()
        ]
        return compete(title, contestants, repeats=repeats, note=NOTE, say=say)

    def prepare(self, name: str, solve: Solve) -> Work:
        """Find the loosest tolerance that gets there; the work is to solve with it."""
        trials = self.trials[name] = []
        quietly(lambda: solve(self.p, FIRST_TOL))
        limit = max(self.most * self.ours, LEAST)
        for tol in TOLERANCES:
            trial = self._try(solve, tol)
            trials.append(trial)
            if trial.above <= PRECISION:
                if math.isinf(self.ours):
                    self.ours = trial.seconds
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


def _ours(p: cz.problems.LogisticRegression, tol: float) -> Array:
    # Our tol is an absolute duality gap: 1e-1 would do nothing at all.
    r = cz.minimize(p, np.zeros(p.dim), method="auto", tol=1e-3 * tol, rng=0, record=False)
    x: Array = r.x
    return x
