"""The simplex: mirror steps beside projections, accelerated and plain, as d grows.

    python -m benchmarks.studies.simplex [--repeats 3] [--dims 1000 10000 100000]

Two functions, both from fixed seeds.  "rows": least squares on 100 rows with entries between -1
and 1, of a mean of five columns, and noise; max|H_ij| stays, lambda_max grows with d.  "diagonal":
a quadratic along the axes, with curvatures from 1/1000 to 1; both constants are 1.  All start in
the middle.  Steps (gradients) and seconds to (f - f*) / (f(x_0) - f*) of 1e-4 and 1e-6; > where the
limit of steps or seconds came first.  f* is that of our best run, which its gap vouches for.  Each
is timed with as many steps as it needs, in turns, and the minimum is kept.

    entropy            `minimize(mirror=Entropy())`: accelerated; L is max|H_ij|
    entropy, plain     mirror descent, exponentiated gradients, with the same L
    projected          `minimize(prox=Simplex(), L=lambda_max)`, the run of the theorem
    projected, free    `minimize(prox=Simplex())`: L unknown, and restarts
    projected, plain   projected gradients with 1/lambda_max
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import brentq

import continuized as cz
from continuized.problems.base import Array

PRECISIONS = (1e-4, 1e-6)
MOST_STEPS, MOST_SECONDS = 10_000, 300.0
SIMPLEX = cz.prox.Simplex()
Look = Callable[[Array], bool]  # given x after a step; tells whether it is enough
Solve = Callable[[Any, Array, int, Look | None], None]  # f, x_0, steps


def functions(d: int) -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (100, d))
    y = X[:, :5].mean(axis=1) + 0.1 * rng.standard_normal(100)
    yield "rows", cz.problems.LeastSquares(X, y)
    centre = rng.exponential(2.0, d) / d
    yield "diagonal", cz.problems.Quadratic(np.geomspace(1e-3, 1.0, d), centre)


def run_ours(p: Any, x0: Array, steps: int, look: Look | None, **given: Any) -> None:
    def call(intermediate_result: Any) -> None:
        if look is not None and look(intermediate_result.x):
            raise StopIteration

    callback = None if look is None else call
    cz.minimize(p, x0, maxiter=steps, rng=0, record=False, callback=callback, **given)


def entropy(p: Any, x0: Array, steps: int, look: Look | None) -> None:
    run_ours(p, x0, steps, look, mirror=cz.mirror.Entropy())


def projected(p: Any, x0: Array, steps: int, look: Look | None) -> None:
    run_ours(p, x0, steps, look, prox=SIMPLEX, L=p.L, mu=0.0)


def projected_free(p: Any, x0: Array, steps: int, look: Look | None) -> None:
    run_ours(p, x0, steps, look, prox=SIMPLEX, tol=0.0)


def descend(
    p: Any, x0: Array, steps: int, look: Look | None, move: Callable[[Array, Array], Array]
) -> None:
    """Plain steps."""
    x = x0
    for _ in range(steps):
        x = move(x, p.grad(x))
        if look is not None and look(x):
            return


def entropy_plain(p: Any, x0: Array, steps: int, look: Look | None) -> None:
    L = cz.mirror.Entropy().find_L(p, x0.shape)

    def move(x: Array, g: Array) -> Array:
        x = x * np.exp(-(g - g.min()) / L)
        return x / x.sum()

    descend(p, x0, steps, look, move)


def projected_plain(p: Any, x0: Array, steps: int, look: Look | None) -> None:
    descend(p, x0, steps, look, lambda x, g: SIMPLEX(x - g / p.L, 1.0 / p.L))


SOLVERS: dict[str, Solve] = {
    "entropy": entropy,
    "entropy, plain": entropy_plain,
    "projected": projected,
    "projected, free": projected_free,
    "projected, plain": projected_plain,
}


def find_least(p: Any, x0: Array) -> float:
    """f*, exact along the axes, and otherwise less than a tenth of the smallest precision off."""
    if isinstance(p, cz.problems.Quadratic):

        def solve(slope: float) -> Array:
            return np.maximum(p.x_star - slope / p.eigenvalues, 0.0)

        slope = brentq(lambda s: solve(s).sum() - 1.0, -1.0, 1.0, xtol=1e-18, rtol=1e-15)
        return float(p.fun(solve(slope)))
    scale = float(p.fun(x0))
    r = cz.minimize(p, x0, prox=SIMPLEX, tol=1e-12 * p.L, maxiter=50_000, rng=0, record=False)
    gap = float(r.jac @ r.x - r.jac.min())
    assert gap <= 0.1 * PRECISIONS[-1] * scale, gap / scale
    return float(r.fun)


def count_steps(p: Any, x0: Array, solve: Solve, targets: list[float]) -> list[int | None]:
    """The steps to each target, from large to small."""
    found: list[int | None] = [None] * len(targets)
    taken, began = 0, time.perf_counter()

    def look(x: Array) -> bool:
        nonlocal taken
        taken += 1
        value = p.fun(x)
        for i, target in enumerate(targets):
            if found[i] is None and value <= target:
                found[i] = taken
        return found[-1] is not None or time.perf_counter() - began > MOST_SECONDS

    solve(p, x0, MOST_STEPS, look)
    return found


def measure(p: Any, d: int, repeats: int, solvers: dict[str, Solve]) -> None:
    x0 = np.full(d, 1.0 / d)
    least, first = find_least(p, x0), float(p.fun(x0))
    targets = [least + precision * (first - least) for precision in PRECISIONS]
    steps = {name: count_steps(p, x0, solve, targets) for name, solve in solvers.items()}
    best = {(name, i): np.inf for name in solvers for i in range(len(targets))}
    for _ in range(repeats):
        for name, i in best:
            n = steps[name][i]
            if n is not None:
                began = time.perf_counter()
                solvers[name](p, x0, n, None)
                best[name, i] = min(best[name, i], time.perf_counter() - began)
    for name in solvers:
        line = f"    {name:17s}"
        for i, precision in enumerate(PRECISIONS):
            n, seconds = steps[name][i], best[name, i]
            shown = "       >" if n is None else f"{n:8d} steps {seconds:8.3f} s"
            line += f"   {precision:.0e}: {shown}"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dims", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--only", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--functions", nargs="+", default=["rows", "diagonal"])
    given = parser.parse_args()
    solvers = {name: SOLVERS[name] for name in given.only}
    for d in given.dims:
        for name, p in functions(d):
            if name not in given.functions:
                continue
            L = cz.mirror.Entropy().find_L(p, (d,))
            print(f"{name}, d = {d}: max|H_ij| = {L:.3g}, lambda_max = {p.L:.3g}")
            measure(p, d, given.repeats, solvers)


if __name__ == "__main__":
    main()
