"""What two local shards cost, beside one process with two threads that holds all rows.

    python -m benchmarks.studies.shards [ROWS] [COLUMNS]

ROWS, 50,000 by default, are those of a shard; COLUMNS are 500.  A value and gradient, and a whole
run, are taken in turn, so that a busy machine slows both alike; the minimum is kept.  The aim is at
most 1.3 times the time of one process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import continuized as cz
from benchmarks.timing import time_in_turn

PASSES, RUNS = 100, 5


def compare(what: str, repeats: int, work: Callable[[Any], Any], whole: Any, sharded: Any) -> None:
    works = {"one": partial(work, whole), "shards": partial(work, sharded)}
    one, shards = (1e3 * seconds for seconds in time_in_turn(works, repeats).values())
    print(f"{what}: {one:.1f} ms in one process, {shards:.1f} ms in shards: {shards / one:.2f} x")


def main() -> None:
    given = [int(each) for each in sys.argv[1:]]
    n, d = [*given, *(50_000, 500)[len(given) :]]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * n, d))
    y = np.sign(X[:, 0] + rng.standard_normal(2 * n))
    kind = cz.problems.LogisticRegression
    whole = kind(X, y, l2=1e-3)
    w = 0.01 * rng.standard_normal(d)
    halves = [kind(X[rows], y[rows], l2=1e-3) for rows in (slice(n), slice(n, 2 * n))]
    with cz.network.Sharded(halves) as p:
        compare("value and gradient", PASSES, lambda q: q.value_and_gradient(w), whole, p)
        how: Any = {"method": "auto", "tol": 1e-8, "rng": 0}
        compare('method="auto"', RUNS, lambda q: cz.minimize(q, np.zeros(d), **how), whole, p)


if __name__ == "__main__":
    main()
