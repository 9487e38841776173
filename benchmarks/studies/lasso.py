"""Coordinates on the lasso: passes, and time to a relative duality gap of 1e-6, beside the peers.

    pip install ".[sklearn]" --group bench
    python -m benchmarks.studies.lasso [--repeats 10]

Data, all from fixed seeds: those of the suite `penalised` (dense and sparse), Gaussian columns all
alike, and Gaussian columns of which neighbours have the correlation rho.  The weight of the l1 norm
is a share of the least one at which all coefficients are zero.  The gap is relative to the
objective at 0.  A solver's time is that of its loosest tol, on a grid, with which it gets there;
solvers are timed in turn, and the minimum is kept.  Preparation counts, X by columns included, and
compilation does not.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import continuized as cz
from benchmarks import data
from benchmarks.penalised_peers import Lasso, celer, skglm_lasso, sklearn_lasso
from benchmarks.race import Solve
from benchmarks.timing import time_in_turn
from continuized.problems.base import Array

GAP = 1e-6
TOLERANCES = np.geomspace(1e-3, 1e-10, 15).tolist()
MOST_SECONDS = 30.0  # seconds that a solve may take to be tried again with a smaller tol


def sets() -> Iterator[tuple[str, Any, Array, float]]:
    """(title, X, y, share)."""
    rng = np.random.default_rng(1)
    for n, d in ((2_000, 500), (500, 2_000)):
        X, y = data.planted(data.dense(n, d, rotated=False)[0])
        yield f"dense {n} x {d}", X, y, 0.01
    X, y = data.planted(data.sparse_rows(20_000, 5_000, 25, np.random.default_rng(0)))
    yield "sparse 20000 x 5000", X, y, 0.01
    for n, d in ((2_000, 500), (500, 2_000)):
        X = rng.standard_normal((n, d))
        for share in (0.1, 0.01):
            yield f"alike {n} x {d}", X, respond(X, rng), share
    for rho in (0.9, 0.99):
        X = rng.standard_normal((2_000, 500))
        for j in range(1, 500):
            X[:, j] = rho * X[:, j - 1] + (1.0 - rho**2) ** 0.5 * X[:, j]
        for share in (0.01, 0.0001):
            yield f"rho = {rho}, 2000 x 500", X, respond(X, rng), share


def respond(X: Array, rng: np.random.Generator) -> Array:
    """Targets of fifty coefficients of size 1, with noise."""
    w = np.zeros(X.shape[1])
    w[:: X.shape[1] // 50] = 1.0
    return np.asarray(X @ w + rng.standard_normal(len(X)))


def solve_ours(p: Lasso, tol: float, method: Callable[..., Any], seen: list[float]) -> Array:
    problem = cz.problems.LeastSquares(p.smooth.X, p.smooth.y)  # with nothing computed before
    zero = np.zeros(problem.dim)
    scale = p.fun(zero)
    r = cz.minimize(
        problem, zero, method=method(prox=p.l1), tol=tol * scale, rng=0, record=False,
        maxiter=10_000 * problem.dim,
    )  # fmt: skip
    seen.append(float(r.passes))
    return np.asarray(r.x)


OURS = {
    "accelerated": cz.CoordinateDescent,
    "plain": partial(cz.CoordinateDescent, accelerated=False),
    "working set": partial(cz.CoordinateDescent, "active", accelerated=False),
}
PEERS: dict[str, Solve] = {"scikit-learn": sklearn_lasso, "skglm": skglm_lasso, "celer": celer}


def gap(p: Lasso, w: Array) -> float:
    """The duality gap over the objective at 0, by scikit-learn's formula."""
    X, y, n = p.smooth.X, p.smooth.y, len(p.smooth.y)
    r = y - X @ w
    scale = min(1.0, p.weight / float(np.abs(X.T @ r).max() / n))
    dual = float(scale * (r @ y) - 0.5 * scale**2 * (r @ r)) / n
    return (p.fun(w) - dual) / p.fun(np.zeros(p.smooth.dim))


def loosest(p: Lasso, solve: Solve) -> float | None:
    """The loosest tol with which the gap is reached; None where none is, or it takes too long."""
    solve(p, TOLERANCES[0])  # which compiles
    for tol in TOLERANCES:
        began = time.perf_counter()
        if gap(p, solve(p, tol)) <= GAP:
            return tol
        if time.perf_counter() - began > MOST_SECONDS:
            return None
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=10)
    repeats = parser.parse_args().repeats
    warnings.simplefilter("ignore")
    for title, X, y, share in sets():
        weight = share * float(np.abs(X.T @ y).max()) / len(y)
        p = Lasso(cz.problems.LeastSquares(X, y), cz.prox.L1(weight))
        passes: dict[str, list[float]] = {name: [] for name in OURS}
        solvers: dict[str, Solve] = {
            name: partial(solve_ours, method=method, seen=passes[name])
            for name, method in OURS.items()
        } | PEERS
        tols = {name: loosest(p, solve) for name, solve in solvers.items()}
        works = {name: partial(solvers[name], p, tol) for name, tol in tols.items() if tol}
        best = dict.fromkeys(solvers, np.inf) | time_in_turn(works, repeats)
        print(f"{title}, weight {share:g}")
        for name, seconds in best.items():
            count = f"{passes[name][-1]:7.0f} passes" if passes.get(name) else ""
            ratio = seconds / best["scikit-learn"]
            print(f"    {name:14s} {1e3 * seconds:9.1f} ms {ratio:7.2f} of scikit-learn {count}")


if __name__ == "__main__":
    main()
