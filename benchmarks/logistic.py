"""Time to a relative suboptimality of 1e-6 on l2-logistic regression, beside other solvers.

    pip install "continuized[bench]"
    python benchmarks/logistic.py [--data FILE] [--quick] [--plot curves.png]

Data: FILE (LIBSVM, such as w8a), dense 50,000 x 500 with scales 1/j, axis-aligned and rotated
(labels drawn from a planted w through the logistic law, margins of standard deviation 3), and
sparse 100,000 x 50,000 with 50 nonzeros a row; l2 = 1/n and 0.01/n.  Ours is
minimize(p, x0, method="auto") at its default settings but for tol.

A solver's time is that of its quickest setting of tol, on a grid, that reaches the precision;
all are timed in turn within each round, and the minimum over the rounds is kept.  Setting up
counts, compiling does not.  No intercept, C = 1/(n l2): all minimise the same function.  A solver
that takes more than --most times as long as ours is stopped at that and shown with >.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

import continuized as cz

sys.path.insert(0, str(Path(__file__).parent))
from coordinate import sparse_rows

PRECISION = 1e-6
Solver = Callable[[float], np.ndarray]


def dense(rotated: bool, n: int = 50_000, d: int = 500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -1.0
    if rotated:
        X = X @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    return X, _labels(X, rng)


def sparse_set(n: int = 100_000, d: int = 50_000) -> tuple[sparse.csr_array, np.ndarray]:
    rng = np.random.default_rng(0)
    X = sparse_rows(n, d, 50, rng)
    return X, _labels(X, rng)


def _labels(X: object, rng: np.random.Generator) -> np.ndarray:
    margins = X @ rng.standard_normal(X.shape[1])  # type: ignore[operator, attr-defined]
    margins *= 3.0 / margins.std()
    return np.where(rng.random(len(margins)) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)


def solvers(p: cz.problems.LogisticRegression) -> dict[str, tuple[Solver, np.ndarray]]:
    """Each with the settings of tol to try, from loose to tight."""
    found: dict[str, tuple[Solver, np.ndarray]] = {
        "continuized": (lambda tol: _ours(p, tol), np.geomspace(1e-4, 1e-9, 16))
    }
    grid = np.geomspace(1e-1, 1e-8, 15)
    if importlib.util.find_spec("sklearn"):
        for name in ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga"):
            if name == "newton-cholesky" and p.dim > 5_000:
                continue  # its Hessian would take 20 GB
            found[name] = (lambda tol, name=name: _sklearn(p, name, tol), grid)
    if importlib.util.find_spec("cyanure"):
        found["cyanure"] = (lambda tol: _cyanure(p, tol), grid)
    return found


def _ours(p: cz.problems.LogisticRegression, tol: float) -> np.ndarray:
    r = cz.minimize(p, np.zeros(p.dim), method="auto", tol=tol, seed=0, record=False)
    return r.x


def _sklearn(p: cz.problems.LogisticRegression, solver: str, tol: float) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    C = 1.0 / (p.l2 * len(p.y))
    model = LogisticRegression(C=C, fit_intercept=False, solver=solver, tol=tol, max_iter=2000)
    return model.fit(p.X, p.y).coef_.ravel()


def _cyanure(p: cz.problems.LogisticRegression, tol: float) -> np.ndarray:
    from cyanure.estimators import Classifier

    model = Classifier(
        loss="logistic", penalty="l2", lambda_1=p.l2, fit_intercept=False, tol=tol, max_iter=2000,
        verbose=False,
    )  # fmt: skip
    model.fit(sparse.csr_matrix(p.X) if p.is_sparse else p.X, p.y)
    return model.get_weights().ravel()


Trials = list[tuple[float, float]]  # (seconds, relative suboptimality)


def reaching(
    p: cz.problems.LogisticRegression, solve: Solver, grid: np.ndarray, f_star: float, most: float,
    trials: Trials,
) -> tuple[float | None, float]:  # fmt: skip
    """(the loosest tol that reaches the precision, the time it took), or (None, the time given)."""
    whole = time.perf_counter()
    for tol in grid:
        started = time.perf_counter()
        w = solve(float(tol))
        seconds = time.perf_counter() - started
        above = (p.fun(w) - f_star) / f_star
        trials.append((seconds, above))
        if above <= PRECISION:
            return float(tol), seconds
        if time.perf_counter() - whole > 3.0 * most:  # the trials before it count, a little
            return None, seconds
    return None, most


def compare(
    title: str, X: object, y: np.ndarray, c: float, rounds: int, most: float
) -> dict[str, Trials]:
    """Prints the table; gives the trials of every solver, for the curves."""
    n = len(y)
    p = cz.problems.LogisticRegression(X, y, l2=c / n)
    f_star = min(p.fun(_ours(p, 1e-13)), p.fun(_ours(p, 1e-11)))
    print(f"{title}, {n:,} x {p.dim:,}, l2 = {c:g}/n", flush=True)
    works: dict[str, Callable[[], np.ndarray]] = {}
    limits: dict[str, float] = {}
    ours, curves = 1.0, {}
    for name, (solve, grid) in solvers(p).items():
        curves[name] = trials = []
        tol, seconds = reaching(p, solve, grid, f_star, most * ours, trials)
        if name == "continuized":
            trials.clear()
            ours = reaching(p, solve, grid, f_star, np.inf, trials)[1]  # now compiled
        if tol is None:
            limits[name] = seconds
        else:
            works[name] = lambda solve=solve, tol=tol: solve(tol)
    best = dict.fromkeys(works, float("inf"))
    for _ in range(rounds):
        for name, work in works.items():
            time.sleep(0.05)  # threads of BLAS and OpenMP spin for a while after their work
            started = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - started)
    base = best["continuized"]
    for name, seconds in best.items():
        print(f"  {name:18}{seconds / base:8.2f} x   ({seconds:.3f} s)", flush=True)
    for name, seconds in limits.items():
        print(f"  {name:18}{'>':>2}{seconds / base:6.1f} x   (stopped or not reached)", flush=True)
    return curves


def draw(curves: dict[str, dict[str, Trials]], path: Path) -> None:
    """Relative suboptimality against seconds, a panel for each set of data."""
    from matplotlib.figure import Figure

    columns = min(len(curves), 2)
    lines = -(-len(curves) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.2 * lines), layout="constrained")
    for i, (title, solvers_) in enumerate(curves.items()):
        axes = figure.add_subplot(lines, columns, i + 1)
        for name, trials in solvers_.items():
            ours = name == "continuized"
            points = sorted((s, max(above, 1e-12)) for s, above in trials)
            axes.plot(*zip(*points, strict=True), "o-", markersize=3, label=name,
                      color="black" if ours else None, linewidth=1.8 if ours else 0.9)  # fmt: skip
        axes.set(xscale="log", yscale="log", title=title, xlabel="seconds",
                 ylabel="relative suboptimality")  # fmt: skip
        axes.axhline(PRECISION, color="grey", linewidth=0.5)
        axes.legend(fontsize=6, loc="upper right")
    figure.savefig(path, dpi=150)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, help="a LIBSVM file")
    arguments.add_argument("--quick", action="store_true", help="small sizes")
    arguments.add_argument("--plot", type=Path, metavar="FILE", help="draw the trials as curves")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--most", type=float, default=40.0, help="times ours, for each solver")
    arguments.add_argument("--only", choices=["file", "aligned", "rotated", "sparse"])
    a = arguments.parse_args()
    warnings.filterwarnings("ignore")
    small = {"n": 5_000, "d": 100} if a.quick else {}
    sets: dict[str, Callable[[], tuple[object, np.ndarray]]] = {}
    if a.data is not None:
        sets["file"] = lambda: cz.problems.read(a.data)
    sets["aligned"] = lambda: dense(False, **small)
    sets["rotated"] = lambda: dense(True, **small)
    sets["sparse"] = lambda: sparse_set(**({"n": 5_000, "d": 5_000} if a.quick else {}))
    curves = {}
    for name, make in sets.items():
        if a.only in (None, name):
            X, y = make()
            for c in (1.0, 0.01):
                curves[f"{name}, l2 = {c:g}/n"] = compare(name, X, y, c, a.rounds, a.most)
    if a.plot is not None:
        draw(curves, a.plot)


if __name__ == "__main__":
    main()
