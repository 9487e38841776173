"""`penalised`: time to a relative suboptimality of 1e-6 on ridge regression and on the lasso.

Ours are minimize(p, x0, method="auto"), the lasso with prox=cz.prox.L1(weight).  A solver's
time is that of the loosest tol, on a grid, with which it gets there, ours too; setting up counts,
compiling does not.  No intercept, and the same penalty: all minimise the same function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import continuized as cz
from benchmarks import data, penalised_peers
from benchmarks.outcome import Panel, Suite
from benchmarks.penalised_peers import Lasso
from benchmarks.race import Race
from benchmarks.timing import Say
from continuized.problems.base import Array

LEAST_ZERO = 0.01  # of the least l1 weight at which all coefficients are zero


class Size(NamedTuple):
    """How much is done.  A solver is given up when a trial takes more than `most` times ours."""

    dense: tuple[tuple[int, int], ...]
    sparse: tuple[int, int, int]  # rows, columns, entries a row
    repeats: int
    most: float


FULL = Size(dense=((2_000, 500), (20_000, 200)), sparse=(20_000, 5_000, 25), repeats=5, most=20.0)
QUICK = Size(dense=((1_000, 100),), sparse=(2_000, 500, 10), repeats=7, most=20.0)


def run(size: Size, say: Say) -> Suite:
    """The contests of this suite."""
    contests, panels = [], []
    for title, X, y in _sets(size):
        n, d = X.shape
        ridge = cz.problems.LeastSquares(X, y, 1.0 / n)
        weight = LEAST_ZERO * float(np.abs(X.T @ y).max()) / n
        lasso = Lasso(cz.problems.LeastSquares(X, y), cz.prox.L1(weight))
        for kind, race in {
            "ridge": Race(ridge, size.most, our_ridge, penalised_peers.RIDGE),
            "lasso": Race(lasso, size.most, our_lasso, penalised_peers.LASSO),
        }.items():
            name = f"{kind}, {title} {n:,} x {d:,}"
            contests.append(race.run(f"time to 1e-6, {name}", size.repeats, say))
            panels.append(Panel(name, "seconds", race.curves()))
    return Suite(contests, panels)


def _sets(size: Size) -> Any:
    """(title, X, y)."""
    for n, d in size.dense:
        yield "dense", *data.planted(data.dense(n, d, rotated=False)[0])
    yield "sparse", *data.planted(data.sparse_rows(*size.sparse, np.random.default_rng(0)))


def our_ridge(p: cz.problems.LeastSquares, tol: float) -> Array:
    # Our tol is an absolute duality gap.
    r = cz.minimize(p, np.zeros(p.dim), method="auto", tol=1e-3 * tol, rng=0, record=False)
    x: Array = r.x
    return x


def our_lasso(p: Lasso, tol: float) -> Array:
    smooth = cz.problems.LeastSquares(p.smooth.X, p.smooth.y)  # with nothing computed before
    start = np.zeros(smooth.dim)
    r = cz.minimize(smooth, start, method="auto", prox=p.l1, tol=tol, rng=0, record=False)
    x: Array = r.x
    return x
