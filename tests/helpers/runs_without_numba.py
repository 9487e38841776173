"""Runs of every kind, made with Numba and without: `python runs_without_numba.py FILE [NAME ...]`.

Each gives arrays, which are written to FILE.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import numpy as np
from scipy import sparse

import continuized as cz
from continuized import network
from continuized.network.optimisation import local_solver
from continuized.problems import losses
from continuized.solver import metric, metric_factory

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6))
SPARSE = sparse.csr_array(RNG.standard_normal((40, 12)) * (RNG.random((40, 12)) < 0.3))
LABELS = np.sign(X @ RNG.standard_normal(6) + 0.3 * RNG.standard_normal(40))
COUNTS = RNG.poisson(2.0, 40).astype(float)
Y = X @ RNG.standard_normal(6) + 0.1 * RNG.standard_normal(40)
SHARES = RNG.uniform(0.5, 2.0, 40)
SLOPES = np.array([1.0, 0.1])
WIDE = RNG.standard_normal((30, 310))


def with_holes() -> Callable[[np.ndarray], np.ndarray]:
    """Make a gradient that every seventh time is not known."""
    calls = count()
    return lambda x: SLOPES * x if next(calls) % 7 != 3 else np.full(2, np.nan)


PROBLEMS: Mapping[str, Callable[[], Any]] = {
    "quadratic": cz.problems.paper_convex,
    "strongly-convex": cz.problems.paper_strongly_convex,
    "unpenalised": lambda: cz.problems.LeastSquares(X, Y),
    "sparse, unpenalised": lambda: cz.problems.LeastSquares(SPARSE, Y),
    "least-squares": lambda: cz.problems.LeastSquares(X, Y, 0.1),
    "sparse": lambda: cz.problems.LeastSquares(SPARSE, Y, 0.1),
    "logistic": lambda: cz.problems.LogisticRegression(X, LABELS, 0.1),
    "weighted": lambda: cz.problems.LogisticRegression(
        SPARSE, LABELS, 0.1, weights=SHARES, intercept=True
    ),
    "huber": lambda: cz.problems.HuberRegression(X, Y, 0.1, delta=0.5),
    "poisson": lambda: cz.problems.PoissonRegression(X, COUNTS, 0.1, intercept=True),
    "charbonnier": lambda: cz.problems.Charbonnier(0.5, [1.0, -1.0]),
    "own": lambda: cz.Problem(
        lambda x: float(np.log(np.cosh(x)).sum()), np.tanh, L=1.0, mu=0.0, x_star=[0.0, 0.0]
    ),
    "holes": lambda: cz.Problem(
        lambda x: float(0.5 * x @ (SLOPES * x)), with_holes(), L=1.0, x_star=[0.0, 0.0]
    ),
    "wide": lambda: cz.problems.LogisticRegression(WIDE, np.sign(WIDE[:, 0]), 0.1),
}


def solve(problem: str, dtype: Any = np.float64, **options: Any) -> Callable[[], list[Any]]:
    """A run of `minimize` from 0.5, and what it says of itself."""

    def run() -> list[Any]:
        p = PROBLEMS[problem]()
        options.setdefault("rng", 3)
        r = cz.minimize(p, np.full(p.dim, 0.5, dtype), **options)
        # Where L is found on the way, the path is sensitive to rounding; its end is less so.
        on_the_way = [r.trace.fun] if "method" in options else []
        return [r.x, r.fun, r.jac, r.nit, r.trace.t, r.status.name == "CONVERGED", *on_the_way]

    return run


def repeat(problem: str, **options: Any) -> Callable[[], list[Any]]:
    """An ensemble of runs of the continuized method from 0.5."""

    def run() -> list[Any]:
        p = PROBLEMS[problem]()
        method = cz.Continuized(p.L, p.mu or 0.0)
        return [cz.ensemble(p, method, np.full(p.dim, 0.5), runs=5, rng=1, **options).fun]

    return run


def gossip(**options: Any) -> Callable[[], list[Any]]:
    """Gossip on a ring of eight nodes."""

    def run() -> list[Any]:
        values = np.random.default_rng(5).standard_normal((8, 2))
        r = network.simulate("cycle:8", values, rng=2, log=True, **options)
        return [r.x, r.t, r.messages, r.trace.error, r.log.time, r.log.node]

    return run


def share(problem: str, **options: Any) -> Callable[[], list[Any]]:
    """A regression dealt out to the nodes of a ring."""

    def run() -> list[Any]:
        parts = network.split(PROBLEMS[problem](), 4)
        r = network.minimize("cycle:4", parts, rng=2, events=400, tol=1e-10, **options)
        return [r.x, r.t, r.messages, r.trace.error]

    return run


def warn() -> list[Any]:
    """A run with an L that is too small, and the sentence about it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", cz.ConstantsWarning)
        r = cz.minimize(PROBLEMS["own"](), np.full(2, 0.5), L=0.7, mu=0.0, maxiter=30, rng=0)
    sentences = [str(w.message) for w in caught if w.category is cz.ConstantsWarning]
    return [r.x, len(sentences), list("".join(sentences).encode())]


def algebra() -> list[Any]:
    """What metrics and nodes compute, where a mistake would only make a run longer."""
    changes = [(X[i], X[i] + 0.1 * X[i + 1]) for i in range(0, 12, 2)]
    hessian = np.zeros((6, 6))
    local_solver.hessian(losses.LOGISTIC, X, LABELS, SHARES, 0.1, X[0], hessian)
    return [
        metric.Secant(metric.Diagonal(SHARES[:6]), changes, 10).solve(X[30]),
        metric.Dense(X.T @ X).solve(X[:2].T),
        metric_factory._sparse_gram(SPARSE),
        np.tril(hessian),
    ]


FAULTS = network.Faults(
    delay=0.3, loss=0.1, duplication=0.1, skew=0.1, deaths=((8.0, 3),), joins=((16.0, 3),)
)
EVENTS = {"maxiter": 60}
# Constants that are found on the way, and what "auto" chooses.
UNKNOWN: Mapping[str, Callable[[], list[Any]]] = {
    "float32 unknown": solve("logistic", np.float32, metric="diag"),
    "diag": solve("poisson", metric="diag"),
    "gram": solve("logistic", metric="gram"),
    "lasso": solve("least-squares", prox=cz.prox.L1(0.05)),
    **{f"auto {name}": solve(name) for name in PROBLEMS if name != "holes"},
}
RUNS: Mapping[str, Callable[[], list[Any]]] = {
    # known constants
    "quadratic": solve("quadratic", method="continuized", maxiter=300),
    "to tol": solve("strongly-convex", method="continuized", tol=1e-8),
    "path": solve("strongly-convex", method="continuized", record="path", **EVENTS),
    "noise": solve("quadratic", method="continuized", noise=cz.noise.Gaussian(1e-4), **EVENTS),
    "nesterov": solve("logistic", method="nesterov", **EVENTS),
    "gradient descent": solve("least-squares", method="gradient-descent", **EVENTS),
    "sharp": solve("strongly-convex", method=cz.SharpContinuized(1.0, 0.01), **EVENTS),
    "weighted": solve("weighted", method="continuized", L=1.0, mu=0.0, **EVENTS),
    "own": solve("own", method="continuized", **EVENTS),
    "charbonnier": solve("charbonnier", method="continuized", **EVENTS),
    "float32": solve("quadratic", np.float32, method="continuized", **EVENTS),
    **UNKNOWN,
    "warned": warn,
    "skipped": solve("holes", method=cz.Continuized(1.0, 0.1), nonfinite="skip", maxiter=20),
    "algebra": algebra,
    # proximal steps
    "L1": solve("least-squares", method="continuized", L=5.0, prox=cz.prox.L1(0.05), **EVENTS),
    "box": solve("logistic", method="continuized", L=2.0, prox=cz.prox.Box(-1.0, 1.0), **EVENTS),
    "ball": solve("logistic", method="continuized", L=2.0, prox=cz.prox.L2Ball(2.0), **EVENTS),
    # marks
    "coordinates": solve("least-squares", method=cz.CoordinateDescent(), maxiter=300),
    "sparse coordinates": solve("sparse", method=cz.CoordinateDescent(), maxiter=300),
    "plain coordinates": solve("sparse", method=cz.CoordinateDescent(accelerated=False)),
    "logistic coordinates": solve("logistic", method=cz.CoordinateDescent(), maxiter=300),
    "blocks": solve("logistic", method=cz.CoordinateDescent(blocks=2), maxiter=200),
    "lasso coordinates": solve(
        "least-squares", method=cz.CoordinateDescent(prox=cz.prox.L1(0.05)), maxiter=300
    ),
    "active": solve(
        "least-squares",
        method=cz.CoordinateDescent("active", accelerated=False, prox=cz.prox.L1(0.05)),
    ),
    "rows": solve("unpenalised", method=cz.StochasticLeastSquares(), maxiter=300),
    "batches": solve("unpenalised", method=cz.StochasticLeastSquares(batch=4), maxiter=200),
    "Kaczmarz": solve("sparse, unpenalised", method=cz.Kaczmarz(accelerated=False), maxiter=300),
    "dual": solve("least-squares", method=cz.DualCoordinate(), maxiter=300),
    "logistic dual": solve("logistic", method=cz.DualCoordinate(), maxiter=300),
    # many runs
    "ensemble": repeat("strongly-convex", steps=30),
    "ensemble at times": repeat("strongly-convex", times=[1.0, 5.0, 20.0]),
    "noisy ensemble": repeat("quadratic", steps=10, noise=cz.noise.Gaussian(1e-4)),
    "ensemble of lassos": repeat("least-squares", steps=20, prox=cz.prox.L1(0.05)),
    # networks
    "gossip": gossip(),
    "plain gossip": gossip(method="plain"),
    "faults": gossip(faults=FAULTS, until=60.0),
    **{f"network {name}": share("logistic", method=name) for name in ("dual", "dadao", "a2cid2")},
    "network ridge": share("least-squares"),
    "network faults": share("logistic", faults=network.Faults(delay=0.1, loss=0.05)),
    # theory
    "moments": lambda: [
        cz.theory.moments(
            cz.problems.paper_convex(), cz.Continuized(1.0), np.zeros(100), [1.0, 9.0]
        ).fun
    ],
}


def make(names: list[str]) -> dict[str, np.ndarray]:
    """Run them, and number what they give."""
    return {
        f"{name}/{i}": np.asarray(value) for name in names for i, value in enumerate(RUNS[name]())
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)
    np.savez(sys.argv[1], **make(sys.argv[2:] or list(RUNS)))  # type: ignore[arg-type]
