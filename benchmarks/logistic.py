"""`logistic`: time to a relative suboptimality of 1e-6 on l2-logistic regression.

Ours is minimize(p, x0, method="auto").  A solver's time is that of the loosest tol, on a grid,
with which it gets there, ours too; setting up counts, compiling does not.  No intercept, and the
same l2: all minimise the same function.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import continuized as cz
from benchmarks import data
from benchmarks.logistic_peers import SOLVERS
from benchmarks.outcome import Panel, Suite
from benchmarks.race import Race
from benchmarks.timing import Say
from continuized.problems.base import Array


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
            race = Race(p, size.most, ours, SOLVERS)
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


def ours(p: cz.problems.LogisticRegression, tol: float) -> Array:
    """Our solver, with the tolerance that peers are given."""
    # Our tol is an absolute duality gap: 1e-1 would do nothing at all.
    r = cz.minimize(p, np.zeros(p.dim), method="auto", tol=1e-3 * tol, rng=0, record=False)
    x: Array = r.x
    return x
