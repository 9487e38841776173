"""Checks of marks that are several: blocks of coordinates, batches of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.app.verify import marked
from continuized.app.verify.claims import Effort, Measurement, Subject
from continuized.marked.coordinate import CoordinateDescent
from continuized.marked.rows import Kaczmarz, StochasticLeastSquares
from continuized.problems import LeastSquares, Problem
from continuized.process import oracle

BLOCKS = [[0, 2, 4, 5], [1, 3]]
# Early times, and enough blocks and columns for what is measured to be nearly normal.
BLOCK_TIMES = [4.5, 6.0]
BATCH_TIMES = [3.0, 5.0]


def correlated(noise: float = 1.0, l2: float = 0.01) -> LeastSquares:
    """Columns that are much alike: L_B is far above the largest L_i, and L_H not far below R2."""
    rng = np.random.default_rng(7)
    X = 0.3 * rng.standard_normal((12, 6)) + rng.standard_normal((12, 1))
    return LeastSquares(X, X @ np.arange(6.0) + noise * rng.standard_normal(12), l2=l2)


def wide() -> LeastSquares:
    """Thirty columns."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((80, 30))
    return LeastSquares(X, X @ np.ones(30) + rng.standard_normal(80), l2=0.1)


def block_equality(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) of blocks: alone on a quadratic, together on least squares, plain."""
    make = subject.coordinate_descent
    cases: list[tuple[Problem, Any]] = [
        (marked.quadratic(), make(blocks=3, start=0.0)),
        (wide(), make(blocks=3)),
        (wide(), make("uniform", blocks=3, accelerated=False)),
    ]
    return marked.equality(effort, cases, BLOCK_TIMES, distance=False)


def batch_equality(subject: Subject, effort: Effort) -> Measurement:
    """E |x_t - x*|^2 / 2 of batches: of rows drawn uniformly, and by their norms."""
    p = marked.wide_least_squares()
    cases: list[tuple[Problem, Any]] = [
        (p, subject.stochastic_least_squares(batch=2)),
        (p, subject.stochastic_least_squares(batch=2, accelerated=False)),
        (p, subject.kaczmarz(batch=2)),
    ]
    return marked.equality(effort, cases, BATCH_TIMES, distance=True)


def block_bound(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) - f* <= the bound of theory.marked_bounds with S = max_B L_B / p_B^2 for L."""
    chosen: list[tuple[Problem, dict[str, Any]]] = [
        (correlated(), {}),
        (correlated(), {"sampling": "uniform", "start": 0.0}),
        (correlated(), {"accelerated": False}),
        (marked.quadratic(mu=0.0), {"blocks": 6}),
    ]
    options = [(p, {"blocks": BLOCKS, **o}) for p, o in chosen]
    cases = [(p, subject.coordinate_descent(**o), CoordinateDescent(**o)) for p, o in options]
    return marked.below(cases, lambda m, p: m.fun - p.f_star)


def batch_bound(subject: Subject, effort: Effort) -> Measurement:
    """E |x_t - x*|^2 / 2 <= its bound with R2 and kappa of batches."""
    p = correlated(noise=0.0, l2=0.0)
    uniform: list[dict[str, Any]] = [{"batch": 2}, {"batch": 8}, {"batch": 8, "mu": 0.0}]
    by_norm: list[dict[str, Any]] = [{"batch": 3}, {"batch": 20, "accelerated": False}]
    cases: list[tuple[Problem, Any, Any]] = [
        *((p, subject.stochastic_least_squares(**o), StochasticLeastSquares(**o)) for o in uniform),
        *((p, subject.kaczmarz(**o), Kaczmarz(**o)) for o in by_norm),
    ]
    return marked.below(cases, lambda m, p: 0.5 * m.xx.sum(axis=1))


def lazy_is_eager(subject: Subject, effort: Effort) -> Measurement:
    """The largest relative distance of the lazy kernels from steps that mix everything."""
    p, rows, worst = correlated(), marked.wide_least_squares(), 0.0
    for start in (None, 0.0, 5.0):
        method = subject.coordinate_descent(start=start, blocks=BLOCKS)
        engine: Any = method.prepare(p, np.zeros(p.dim))
        together = [np.array(block) for block in BLOCKS]
        jumps: Any = oracle.Coordinates(p, engine.form.L_i, engine.p, together)
        worst = max(worst, marked.lazy_distance(engine, jumps, effort.seed))
        batches = subject.stochastic_least_squares(start=start, batch=3)
        engine = batches.prepare(rows, np.zeros(rows.dim))
        jumps = oracle.Rows(rows, engine.R2, engine.factors)
        worst = max(worst, marked.lazy_distance(engine, jumps, effort.seed))
    return Measurement(worst, 1e-12)
