"""Proximal steps beside FISTA: gradients to a relative suboptimality of 1e-6 on the lasso.

    python -m benchmarks.studies.prox

FISTA is told L (the largest eigenvalue of X^T X / n).  Ours:

    L unknown   `minimize` without L: it finds L, and restarts
    L, beyond   told L, the run of the theorem, at the point one proximal step beyond x, which is
                where a run with tol ends
    L, x        the same run at x itself, which the theorem bounds
    L, restart  the run of the theorem, begun again from the point beyond whenever f + psi has
                risen there; two gradients an event, one of them for that point

Problems: Gaussian rows with feature scales j^-power, a tenth of the coefficients not zero, weight
of the l1 norm a hundredth of the least one at which all coefficients are zero.  Medians over three
seeds; > where the limit of gradients came first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import continuized as cz

PRECISION = 1e-6
MOST = 10_000
Values = np.ndarray  # the objective after every gradient


def lasso(power: float, n: int, d: int, seed: int) -> tuple[cz.problems.LeastSquares, cz.prox.L1]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -power
    w = np.where(rng.random(d) < 0.1, rng.standard_normal(d), 0.0)
    y = X @ w + 0.1 * rng.standard_normal(n)
    p = cz.problems.LeastSquares(X, y)
    return p, cz.prox.L1(0.01 * float(np.abs(X.T @ y).max()) / n)


def fista(p: cz.problems.LeastSquares, h: cz.prox.L1, enough: float) -> Values:
    x = y = np.zeros(p.dim)
    t, values = 1.0, [math.inf]
    while values[-1] > enough and len(values) < MOST:
        new = h(y - p.grad(y) / p.L, 1.0 / p.L)
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        x, y, t = new, new + (t - 1.0) / following * (new - x), following
        values.append(p.fun(x) + h.value(x))
    return np.array(values[1:])


def watch(
    p: cz.problems.LeastSquares, h: cz.prox.L1, seed: int, enough: float,
    x0: np.ndarray | None = None, look: Callable[..., Any] = lambda x: x, rising: bool = False,
    **constants: float,
) -> tuple[Values, np.ndarray]:  # fmt: skip
    """A run until the objective at look(x) is small enough; `rising`: or until it has risen.

    The objective is measured anew, for the trace may hold estimates.
    """
    values: list[float] = []

    def measure(intermediate_result: Any) -> None:
        x = look(intermediate_result.x)
        values.append(p.fun(x) + h.value(x))
        has_risen = rising and len(values) > 1 and values[-1] > values[-2]
        if values[-1] <= enough or has_risen:
            raise StopIteration

    given: Any = constants or {"tol": 0.0}
    start = np.zeros(p.dim) if x0 is None else x0
    r = cz.minimize(
        p, start, prox=h, maxiter=MOST, rng=seed, record=False, callback=measure, **given
    )
    return np.array(values), np.asarray(r.x)


def restart(
    p: cz.problems.LeastSquares, h: cz.prox.L1, seed: int, enough: float,
    beyond: Callable[..., Any],
) -> Values:  # fmt: skip
    all_values, x, root = [np.empty(0)], np.zeros(p.dim), 1000 * seed
    while sum(map(len, all_values)) < MOST:
        values, x = watch(p, h, root, enough, beyond(x), beyond, True, L=p.L, mu=0.0)
        all_values.append(values)
        root += 1
        if values[-1] <= enough:
            break
    return np.concatenate(all_values)


def count(values: Values, enough: float) -> float:
    """How many gradients until the objective is small enough."""
    reached = np.flatnonzero(values <= enough)
    return float(reached[0]) + 1.0 if reached.size else math.inf


def measure(power: float, n: int, d: int, seed: int) -> dict[str, float]:
    p, h = lasso(power, n, d, seed)
    x = cz.minimize(p, np.zeros(p.dim), prox=h, tol=1e-9 * p.L, rng=0, record=False).x
    best = p.fun(x) + h.value(x)
    enough = best + PRECISION * best

    def beyond(x: np.ndarray) -> np.ndarray:
        return h(x - p.grad(x) / p.L, 1.0 / p.L)

    known: Any = {"L": p.L, "mu": 0.0}
    runs = {
        "FISTA": fista(p, h, enough),
        "L unknown": watch(p, h, seed, enough)[0],
        "L, beyond": watch(p, h, seed, enough, look=beyond, **known)[0],
        "L, x": watch(p, h, seed, enough, **known)[0],
        "L, restart": restart(p, h, seed, enough, beyond),
    }
    counts = {name: count(values, enough) for name, values in runs.items()}
    counts["L, beyond"] += 1.0  # the gradient of that step
    counts["L, restart"] *= 2.0
    return counts


def main() -> None:
    for power in (0.0, 0.5, 1.0):
        for n, d in ((500, 100), (500, 300), (200, 400)):
            counts = [measure(power, n, d, seed) for seed in range(3)]
            line = f"scales j^-{power}, {n} x {d}:"
            for name in counts[0]:
                middle = float(np.median([each[name] for each in counts]))
                shown = f"{middle:.0f}" if middle < math.inf else f"> {MOST}"
                line += f"  {name} {shown}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
