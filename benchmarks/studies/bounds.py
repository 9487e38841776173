"""Bounds on the entries of x, beside SciPy: time to a relative 1e-6.

    python -m benchmarks.studies.bounds [--repeats 5]

Non-negative least squares, and least squares and logistic regression in a box of which about half
of the bounds are met.  Data, all from fixed seeds: Gaussian rows with columns alike, or of scale
1/j; and sparse rows.  Each solver has the loosest tol, on a grid, with which it gets there; they
are timed in turn, and the minimum is kept.  Preparation counts, compilation does not; "with L, mu"
is told both, and finding them does not count.  nnls has no tol: it is exact.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize

import continuized as cz
from benchmarks import data
from benchmarks.race import Race, Solve
from continuized.problems.base import Array

MOST = 30.0  # times our time, after which a solver is given up


class Bounded(NamedTuple):
    """f, and the box that x is in."""

    smooth: Any
    low: float
    high: float

    @property
    def box(self) -> cz.prox.Box:
        return cz.prox.Box(self.low, self.high)

    def fun(self, x: Array) -> float:
        """f, infinite outside."""
        return float(self.smooth.fun(x)) + self.box.value(x)

    def anew(self) -> Any:
        """f with nothing computed before."""
        return type(self.smooth)(self.smooth.X, self.smooth.y, self.smooth.l2)

    @property
    def start(self) -> Array:
        return np.zeros(self.smooth.dim)


def ours(p: Bounded, tol: float) -> Array:
    return _minimize(p, p.anew(), tol)


def ours_with_L(p: Bounded, tol: float) -> Array:
    return _minimize(p, p.anew(), tol, L=p.smooth.L, mu=p.smooth.mu)


def ours_by_coordinates(p: Bounded, tol: float) -> Array:
    r = cz.minimize(
        p.anew(), p.start, method=cz.CoordinateDescent(prox=p.box), tol=tol, rng=0, record=False,
        maxiter=10_000 * p.smooth.dim,
    )  # fmt: skip
    return np.asarray(r.x)


def _minimize(p: Bounded, f: Any, tol: float, **known: Any) -> Array:
    r = cz.minimize(f, p.start, prox=p.box, tol=tol, rng=0, record=False, maxiter=50_000, **known)
    return np.asarray(r.x)


def nnls(p: Bounded, tol: float) -> Array:
    return np.asarray(optimize.nnls(p.smooth.X, p.smooth.y, maxiter=10**6)[0])


def lsq_linear(p: Bounded, tol: float) -> Array:
    found = optimize.lsq_linear(p.smooth.X, p.smooth.y, (p.low, p.high), tol=tol, max_iter=10**5)
    return np.clip(found.x, p.low, p.high)


def lbfgsb(p: Bounded, tol: float) -> Array:
    found = optimize.minimize(
        p.smooth.value_and_gradient, p.start, jac=True, method="L-BFGS-B",
        bounds=optimize.Bounds(p.low, p.high),
        options={"gtol": tol, "ftol": 0.0, "maxiter": 50_000, "maxfun": 50_000},
    )  # fmt: skip
    return np.asarray(found.x)


SQUARES: dict[str, Solve] = {
    "with L, mu": ours_with_L,
    "coordinates": ours_by_coordinates,
    "lsq_linear": lsq_linear,
    "L-BFGS-B": lbfgsb,
}
LOGISTIC: dict[str, Solve] = {"with L, mu": ours_with_L, "L-BFGS-B": lbfgsb}


def problems() -> Iterator[tuple[str, Bounded, dict[str, Solve]]]:
    """(title, problem, solvers beside ours)."""
    rng = np.random.default_rng(0)
    for n, d, power in ((2_000, 200, 0.0), (2_000, 200, 1.0), (1_000, 800, 0.0)):
        X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -power
        w = rng.standard_normal(d) / np.sqrt(d)
        noise = rng.standard_normal(n)
        f = cz.problems.LeastSquares(X, X @ np.maximum(w, 0.0) + 0.1 * noise)
        name = f"{n} x {d}, columns {'alike' if power == 0.0 else 'of scale 1/j'}"
        yield f"non-negative, {name}", Bounded(f, 0.0, np.inf), {"nnls": nnls, **SQUARES}
        half = 0.67 / np.sqrt(d)  # of a Gaussian of this scale, half are farther out
        f = cz.problems.LeastSquares(X, X @ w + 0.1 * noise)
        yield f"box, {name}", Bounded(f, -half, half), SQUARES
        signs = np.where(X @ w + 0.1 * noise > 0.0, 1.0, -1.0)
        f = cz.problems.LogisticRegression(X, signs, 1e-4)
        yield f"logistic in a box, {name}", Bounded(f, -half, half), LOGISTIC
    X, y = data.planted(data.sparse_rows(20_000, 2_000, 25, rng))
    f = cz.problems.LeastSquares(X, y)
    yield "non-negative, 20000 x 2000 sparse", Bounded(f, 0.0, np.inf), SQUARES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    for title, p, solvers in problems():
        contest = Race(p, MOST, ours, solvers).run(title, repeats, lambda words: None)
        print(title)
        for entry in contest.entries:
            ratio, amount = contest.ratio(entry), entry.amount
            timed = (
                "" if ratio is None or amount is None else f"{1e3 * amount:9.1f} ms {ratio:7.2f}"
            )
            print(f"    {entry.name:14s} {timed} {entry.words}", flush=True)


if __name__ == "__main__":
    main()
