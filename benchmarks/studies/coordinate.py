"""Coordinate descent: passes, cost of a pass, and time against scikit-learn and cyanure.

    pip install ".[sklearn]" --group bench
    python -m benchmarks.studies.coordinate [--quick] [--part ridge]

Data, all from fixed seeds.  Ridge: dense Gaussian rows whose feature j has scale 1/j (|x|^2 is
about 1.6), j^-1/2 (about 6.3) or 5/j (about 41); targets <x, w>, w Gaussian in the units of the
features, normalised, plus a tenth of noise.  The dual has condition number 1 + 100 |x|^2, and
acceleration gains at most about its square root: 13, 25 and 64.  Logistic: sparse rows of 50
Gaussian entries, column j drawn with probability proportional to j^-0.7 (equal columns are added
up) and rows scaled to |x|^2 = 1, or to 50, as long as such entries are; or all columns alike and
|x|^2 = 50; labels from a planted Gaussian w through the logistic law.  l2 = 0.01/n throughout.  On
the logistic problem the rows come in stratified passes, accelerated or not: plain SDCA is the
permuted one.  On ridge they are independent, as the theorem wants them.

Things compared are timed in turn within each round and the minimum over the rounds is kept.  A
solver's time to a precision is that of its loosest setting of tol that reaches it, ours too;
preparation is included, compilation is not.  scikit-learn and cyanure minimise the same function:
C = 1/(n l2), no intercept.  A solver that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import continuized as cz
from benchmarks.data import sparse_rows
from benchmarks.timing import time_in_turn

TOLERANCES = np.outer(10.0 ** -np.arange(1, 10), [1.0, 0.5, 0.2]).ravel()
WITHIN = {"ridge": 1e-3, "logistic": 1e-6}
POWER_LAWS = {"1/j": (1.0, 1.0), "j^-1/2": (1.0, 0.5), "5/j": (5.0, 1.0)}
# The length of rows and the law of columns: (power, |x|^2).
ROWS = {"unit, j^-0.7": (0.7, 1.0), "long, j^-0.7": (0.7, 50.0), "long, all alike": (0.0, 50.0)}


def ridge_problem(n: int, d: int, largest: float, power: float) -> cz.problems.LeastSquares:
    rng = np.random.default_rng(0)
    scales = largest * np.arange(1, d + 1.0) ** -power
    X = rng.standard_normal((n, d)) * scales
    y = X @ (rng.standard_normal(d) / scales)
    y = y / y.std() + 0.1 * rng.standard_normal(n)
    return cz.problems.LeastSquares(X, y, l2=0.01 / n)


def logistic_problem(n: int, d: int, power: float, norm2: float) -> cz.problems.LogisticRegression:
    rng = np.random.default_rng(0)
    X = sparse_rows(n, d, 50, rng, power)
    margins = 4.0 * (X @ rng.standard_normal(d))
    X *= norm2**0.5
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
    return cz.problems.LogisticRegression(X, y, l2=0.01 / n)


def passes_to(
    p: Any, f_star: float, within: float, most: int, clock: Any = None, **options: bool
) -> tuple[float, float]:
    """(passes until f - f* is at most `within` f*, where that stands at the end).  f is measured
    after every pass, or after 4096 events, if those are more."""

    def enough(intermediate_result: Any) -> None:
        if intermediate_result.fun - f_star <= within * f_star:
            raise StopIteration

    n = p.X.shape[0]
    r = cz.minimize(
        p, np.zeros(p.dim), method=cz.DualCoordinate(**options), clock=clock, rng=0,
        maxiter=most * n, callback=enough, record=False,
    )  # fmt: skip
    return r.passes, (r.fun - f_star) / f_star


def show_passes(p: cz.Problem, f_star: float, within: float, most: int) -> None:
    contenders: dict[str, Any] = {
        "accelerated, Poisson clock": {},
        "accelerated, unit clock": {"clock": cz.clock.Unit()},
        "plain SDCA": {"accelerated": False},
    }
    base = 0.0
    for name, options in contenders.items():
        passes, reached = passes_to(p, f_star, within, most, **options)
        base = base or passes
        more = ">" if reached > within else " "
        print(f"  {name:28}{more}{passes:7.1f} passes {more}{passes / base:6.2f} x", end="")
        print(f"   (relative suboptimality {reached:.1e})", flush=True)


def advancer(p: cz.Problem, accelerated: bool) -> Callable[[], None]:
    """A pass: events drawn, coefficients, and the kernel."""
    stepper = cz.DualCoordinate(accelerated=accelerated).prepare(p, np.zeros(p.dim))
    stream = cz.clock.Poisson(0, marks=stepper.law).stream()

    def work() -> None:
        events = stream.draw(stepper.law.size)
        stepper.take(events.marks, stepper.coefficients(events))

    return work


def show_cost_of_a_pass(p: cz.Problem, rounds: int) -> None:
    best = time_in_turn({str(a): advancer(p, a) for a in (True, False)}, rounds)
    ratio = best["True"] / best["False"]
    print(f"  an accelerated pass costs {ratio:.2f} x a plain one", end="")
    print(f"   ({best['True'] * 1e3:.1f} ms, {best['False'] * 1e3:.1f} ms)", flush=True)


Solver = Callable[[float], np.ndarray]  # tol -> w
Regression = cz.problems.LeastSquares | cz.problems.LogisticRegression


def solvers(p: cz.problems.LogisticRegression) -> dict[str, Solver]:
    found: dict[str, Solver] = {"continuized": lambda tol: _ours(p, tol)}
    if importlib.util.find_spec("sklearn"):
        for name in ("newton-cg", "lbfgs"):
            found[f"scikit-learn {name}"] = lambda tol, name=name: _sklearn(p, name, tol)
    if importlib.util.find_spec("cyanure"):
        found["cyanure"] = lambda tol: _cyanure(p, tol)
    return found


def _ours(p: Regression, tol: float) -> np.ndarray:
    method = cz.DualCoordinate()
    r = cz.minimize(p, np.zeros(p.dim), method=method, tol=tol, maxiter=10**9, rng=0, record=False)
    return r.x


def _sklearn(p: cz.problems.LogisticRegression, solver: str, tol: float) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    C = 1.0 / (p.l2 * p.X.shape[0])
    model = LogisticRegression(C=C, fit_intercept=False, solver=solver, tol=tol, max_iter=3000)
    return model.fit(p.X, p.y).coef_.ravel()


def _cyanure(p: cz.problems.LogisticRegression, tol: float) -> np.ndarray:
    from cyanure.estimators import Classifier

    model = Classifier(
        loss="logistic", penalty="l2", lambda_1=p.l2, fit_intercept=False, tol=tol, max_iter=3000,
        verbose=False,
    )  # fmt: skip
    model.fit(sparse.csr_matrix(p.X), p.y)
    return model.get_weights().ravel()


def setting_that_reaches(p: cz.Problem, solve: Solver, f_star: float) -> float | None:
    """The loosest tol with which f - f* is at most 1e-6 f*; None if there is none."""
    for tol in TOLERANCES:
        if p.fun(solve(tol)) - f_star <= WITHIN["logistic"] * f_star:
            return float(tol)
    return None


def show_times(p: cz.problems.LogisticRegression, f_star: float, rounds: int) -> None:
    works: dict[str, Callable[[], object]] = {}
    for name, solve in solvers(p).items():
        tol = setting_that_reaches(p, solve, f_star)
        if tol is None:
            print(f"  {name:28} does not reach 1e-6")
        else:
            works[f"{name}, tol {tol:.0e}"] = lambda solve=solve, tol=tol: solve(tol)
    best = time_in_turn(works, rounds)
    base = next(iter(best.values()))
    for name, seconds in best.items():
        print(f"  {name:36}{seconds / base:7.2f} x   ({seconds:.2f} s)", flush=True)


def optimum(p: Regression) -> float:
    """f*: by a direct solver, or by a long run to a duality gap of 1e-10."""
    if p.f_star is not None:
        return p.f_star
    return p.fun(_ours(p, 1e-10))


def show_ridge(quick: bool, rounds: int) -> None:
    n, d = (2_000, 100) if quick else (10_000, 300)
    for name, law in POWER_LAWS.items():
        p = ridge_problem(n, d, *law)
        print(f"ridge, dense {n:,} x {d:,}, feature scales {name}, l2 = 0.01/n: passes to 1e-3")
        show_passes(p, optimum(p), WITHIN["ridge"], most=4000)
        show_cost_of_a_pass(p, 10 * rounds)


def show_logistic(quick: bool, rounds: int) -> None:
    n, d = (5_000, 2_500) if quick else (100_000, 50_000)
    for name, kind in ROWS.items():
        p = logistic_problem(n, d, *kind)
        print(f"logistic, sparse {n:,} x {d:,}, 50 nonzeros a row, {name}: passes to 1e-6")
        f_star = optimum(p)
        show_passes(p, f_star, WITHIN["logistic"], most=200)
        show_cost_of_a_pass(p, 3 * rounds)
        print("  time to relative suboptimality 1e-6")
        show_times(p, f_star, 1 if quick else 2)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--quick", action="store_true", help="small sizes")
    arguments.add_argument("--part", choices=["ridge", "logistic"], help="one part only")
    arguments.add_argument("--rounds", type=int, default=5)
    a = arguments.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")

    if a.part in (None, "ridge"):
        show_ridge(a.quick, a.rounds)
    if a.part in (None, "logistic"):
        show_logistic(a.quick, a.rounds)


if __name__ == "__main__":
    main()
