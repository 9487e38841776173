"""The time of an accelerated event on a sparse row, against the columns and against its nonzeros.

    python -m benchmarks.studies.events [--quick] [--plot events.png]

The dual of logistic regression on 1000 rows, so that their entries stay in cache: with the nonzeros
of a row fixed, what could grow is only what depends on the columns.  Beside it stands what the
machine takes to read and write the same entries where the values of all columns are kept, in
another order of rows: then they leave the nearer caches.  Drawing marks and times is counted, and
so are rebasings: a round holds several.  Interleaved, the minimum over the rounds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numba
import numpy as np
from scipy import sparse

import continuized as cz
from benchmarks.timing import time_in_turn

ROWS = 1000
BLOCK = 5 * ROWS  # events, as many as `minimize` takes at a time where columns are few
BLOCKS = 80  # in a round


def advancer(p: cz.Problem) -> Callable[[], None]:
    stepper = cz.DualCoordinate().prepare(p, np.zeros(p.dim))
    stream = cz.clock.Poisson(0, marks=stepper.law).stream()

    def work() -> None:
        for _ in range(BLOCKS):
            events = stream.draw(BLOCK)
            stepper.take(events.marks, stepper.coefficients(events))

    return work


def events_of(d: int, per_row: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """Events on 1000 rows over d columns, each with entries in columns of its own choice, and what
    the same entries cost the machine at least: to be read and written."""
    rng, pairs = np.random.default_rng(0), np.zeros((d, 2))
    columns = [np.sort(rng.choice(d, per_row, replace=False)) for _ in range(ROWS)]
    starts = np.arange(0, ROWS * per_row + 1, per_row)
    entries = rng.standard_normal(ROWS * per_row) / math.sqrt(per_row)
    X = sparse.csr_array((entries, np.concatenate(columns), starts), shape=(ROWS, d))
    y = np.where(np.arange(ROWS) % 2, 1.0, -1.0)
    p = cz.problems.LogisticRegression(X, y, l2=1e-5)

    def touch() -> None:
        for _ in range(BLOCKS * BLOCK // ROWS):
            read_and_write(rng.permutation(ROWS), X.indptr, X.indices, X.data, pairs)

    return advancer(p), touch


@numba.njit(cache=False)
def read_and_write(rows, indptr, indices, values, pairs):
    for i in rows:
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += values[k] * (pairs[indices[k], 0] + 0.5 * pairs[indices[k], 1])
        for k in range(indptr[i], indptr[i + 1]):
            pairs[indices[k], 0] += 1e-9 * (1.0 + total) * values[k]
            pairs[indices[k], 1] -= 1e-9 * (1.0 + total) * values[k]


def time_of_an_event(cases: list[tuple[int, int]], rounds: int) -> dict[str, list[float]]:
    """ns, of events and of reading and writing, for each (columns, nonzeros a row)."""
    works = {}
    for case in cases:
        works[f"event {case}"], works[f"touch {case}"] = events_of(*case)
    best = time_in_turn(works, rounds)
    per = 1e9 / (BLOCKS * BLOCK)
    return {kind: [per * best[f"{kind} {case}"] for case in cases] for kind in ("event", "touch")}


def show_time_of_an_event(sizes: list[int], rounds: int, plot: str | None) -> None:
    """1000 rows, so that their entries stay in cache: what could grow is only what depends on d."""
    nnz = [12, 25, 50, 100, 200]
    found = time_of_an_event([(d, 50) for d in sizes], rounds)
    for d, event, touch in zip(sizes, found["event"], found["touch"], strict=True):
        print(f"  d = {d:9,}{event:8.0f} ns an event{event / found['event'][0]:7.2f} x", end="")
        print(f"   (its entries, among all columns{touch / found['touch'][0]:6.2f} x)", flush=True)
    longer = time_of_an_event([(10_000, m) for m in nnz], rounds)["event"]
    print(f"  {nnz[0]:4} nonzeros{longer[0]:8.0f} ns an event")
    more = np.diff(longer) / np.diff(nnz)
    for m, event, each in zip(nnz[1:], longer[1:], more, strict=True):
        print(f"  {m:4} nonzeros{event:8.0f} ns an event{each:7.2f} ns for each more", flush=True)
    if plot is not None:
        draw_times(sizes, found, nnz, longer, plot)


def draw_times(
    sizes: list[int], found: dict[str, list[float]], nnz: list[int], longer: list[float], file: str
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    left.plot(sizes, found["event"], "o-", color="black", label="an event")
    left.plot(sizes, found["touch"], "s--", color="gray", label="its entries, among all columns")
    left.set(xscale="log", xlabel="columns d, with 50 nonzeros a row", ylabel="ns")
    left.set_ylim(0.0, 2.0 * max(found["event"]))
    left.legend(frameon=False)
    right.plot(nnz, longer, "o-", color="black")
    right.set(xlabel="nonzeros a row, with 10,000 columns", ylabel="ns", xlim=(0, None))
    right.set_ylim(0.0, None)
    figure.savefig(file, dpi=150)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="fewer columns")
    arguments.add_argument("--plot", metavar="FILE", help="save the pictures")
    arguments.add_argument("--rounds", type=int, default=10)
    a = arguments.parse_args()
    sizes = [1_000, 10_000, 100_000] if a.quick else [1_000, 10_000, 100_000, 1_000_000]
    show_time_of_an_event(sizes, a.rounds, a.plot)


if __name__ == "__main__":
    main()
