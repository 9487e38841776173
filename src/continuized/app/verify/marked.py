"""Checks of the marked methods: coordinates and rows, alone, in blocks and in batches.

Means over runs against exact moments (by Monte Carlo), exact moments against bounds, and the lazy
kernels against steps that mix everything.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from continuized import theory
from continuized.app.verify.claims import ROUNDING, Effort, Measurement, Subject, worst_of
from continuized.marked.coordinate import CoordinateDescent
from continuized.marked.rows import Kaczmarz, StochasticLeastSquares
from continuized.problems import LeastSquares, Problem, Quadratic
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process import reference
from continuized.process.compiled import coefficients
from continuized.process.flow import mix
from continuized.process.random_streams import Seed
from continuized.process.reference import marked_step
from continuized.support.statistics import SampleMoments, mean_test

# Early times, and enough coordinates or columns for what is measured to be nearly normal.
COORDINATE_TIMES = [10.0, 25.0]
ROW_TIMES = [8.0, 12.0]
BLOCK_TIMES = [4.5, 6.0]
BATCH_TIMES = [3.0, 5.0]
BLOCKS = [[0, 2, 4, 5], [1, 3]]
# One of so many of the runs of other checks: these are not compiled as a whole.
RUNS, ROW_RUNS = 6, 4


def quadratic(mu: float | None = None) -> Quadratic:
    """A quadratic of twenty coordinates."""
    return Quadratic(np.linspace(0.2, 1.0, 20), np.ones(20), mu=mu)


def small_quadratic() -> Quadratic:
    """Three coordinates that differ much."""
    return Quadratic([1.0, 0.3, 0.02], [1.0, -2.0, 3.0])


def least_squares(noise: float = 0.0, l2: float = 0.0) -> LeastSquares:
    """Rows of three very different columns; labels without noise by default."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((12, 3)) * [1.0, 0.5, 0.2]
    return LeastSquares(X, X @ [1.0, -2.0, 3.0] + noise * rng.standard_normal(12), l2=l2)


def wide_least_squares() -> LeastSquares:
    """Rows of ten columns, of different lengths."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((30, 10)) * rng.uniform(0.5, 1.5, (30, 1))
    return LeastSquares(X, X @ np.ones(10))


def make_correlated(noise: float = 1.0, l2: float = 0.01) -> LeastSquares:
    """Columns that are much alike: L_B is far above the largest L_i, and L_H not far below R2."""
    rng = np.random.default_rng(7)
    X = 0.3 * rng.standard_normal((12, 6)) + rng.standard_normal((12, 1))
    return LeastSquares(X, X @ np.arange(6.0) + noise * rng.standard_normal(12), l2=l2)


def thirty_columns() -> LeastSquares:
    """Ridge regression of thirty columns."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((80, 30))
    return LeastSquares(X, X @ np.ones(30) + rng.standard_normal(80), l2=0.1)


def draw_samples(engine: Any, times: list[float], runs: int, seed: Seed) -> Array:
    """x at fixed times in independent runs of an engine, shape (runs, times, dim)."""
    stream = clocks.Poisson(seed, marks=engine.law).stream()
    events = cut_into_runs(stream, times[-1], runs)
    return np.stack([_follow(_copy(engine), run, times) for run in events])


def cut_into_runs(stream: clocks.Stream, T: float, runs: int) -> Iterator[clocks.Events]:
    """Cut one long stream into windows of length T: what happens in each is independent."""
    blocks = []
    while stream.t < runs * T:
        blocks.append(stream.draw(1 << 16))
    marks = np.concatenate([b.marks for b in blocks if b.marks is not None])
    times = np.concatenate([b.t for b in blocks])
    ends = np.searchsorted(times, T * np.arange(runs + 1))
    for run, (i, j) in enumerate(pairwise(ends.tolist())):
        t = times[i:j] - run * T
        yield clocks.Events(0, 0.0, t, np.diff(t, prepend=0.0), marks[i:j])


def _copy(engine: Any) -> Any:
    """An engine of its own in the same state, quicker than preparing it anew."""
    twin = copy.copy(engine)
    for name, value in vars(engine).items():
        if isinstance(value, np.ndarray):
            setattr(twin, name, value.copy())
    return twin


def _follow(engine: Any, events: clocks.Events, times: list[float]) -> Array:
    """x at the given times of one run."""
    coefs = coefficients(engine.process, events, 0.0)
    rows, done, last = [], 0, 0.0
    for time in times:
        until = int(np.searchsorted(events.t, time, side="right"))
        if until > done:
            engine.take(events.marks[done:until], coefs[done:until])  # type: ignore[index]
            done, last = until, float(events.t[until - 1])
        rows.append(_point_at(engine, last, time))
    return np.stack(rows)


def _point_at(engine: Any, last: float, time: float) -> Array:
    """x at a time after the last event: the flow is on two scalars."""
    kept = engine.scalars.copy()
    if engine.accelerated:
        engine.scalars[:] = mix(*kept.tolist(), *engine.process.flow(last, time, time - last))
    x: Array = engine.point()
    engine.scalars[:] = kept
    return x


def compare_means(
    effort: Effort, cases: list[tuple[Problem, Any]], times: list[float], distance: bool
) -> Measurement:
    """The worst z over the cases: of f, or of |x - x*|^2 / 2."""
    tests, runs = [], effort.runs // (ROW_RUNS if distance else RUNS)
    for number, (p, method) in enumerate(cases):
        x0 = np.zeros(p.dim or 0)
        seed = np.random.SeedSequence([effort.seed, number])
        x = draw_samples(method.prepare(p, x0), times, runs, seed)
        exact = theory.moments(p, method, x0, times)
        if distance:
            found = 0.5 * ((x - p.x_star) ** 2).sum(axis=2)
            expected = 0.5 * exact.xx.sum(axis=1)
        else:
            found = p.values(x.reshape(-1, x.shape[2])).reshape(x.shape[:2])
            expected = exact.fun
        tests.append(mean_test(SampleMoments.of(found), expected, effort.alpha / len(cases)))
    return worst_of(Measurement(*test) for test in tests)


def compare_with_bound(
    cases: Sequence[tuple[Problem, Any, Any]], value: Callable[[Any, Problem], Array]
) -> Measurement:
    """The largest exact expectation of a method over the bound of the one it should be."""
    times, ratios = np.geomspace(0.1, 60.0, 12), []
    for p, method, intended in cases:
        x0 = np.zeros(p.dim or 0)
        exact = value(theory.moments(p, method, x0, times), p)
        ratios.append(exact / theory.bound(intended, p, x0, t=times))
    return Measurement(float(np.max(ratios)), ROUNDING)


def compare_coordinates_with_bound(
    subject: Subject, chosen: Sequence[tuple[Problem, dict[str, Any]]]
) -> Measurement:
    """E f(x_t) - f* of coordinate descent, by the problem and the options of each case."""
    cases = [(p, subject.coordinate_descent(**o), CoordinateDescent(**o)) for p, o in chosen]
    return compare_with_bound(cases, lambda m, p: m.fun - p.f_star)


def compare_rows_with_bound(
    subject: Subject, p: LeastSquares, uniform: Sequence[Any], by_norm: Sequence[Any]
) -> Measurement:
    """E |x_t - x*|^2 / 2 of rows drawn uniformly, and of rows drawn by their norms."""
    cases: list[tuple[Problem, Any, Any]] = [
        *((p, subject.stochastic_least_squares(**o), StochasticLeastSquares(**o)) for o in uniform),
        *((p, subject.kaczmarz(**o), Kaczmarz(**o)) for o in by_norm),
    ]
    return compare_with_bound(cases, lambda m, p: 0.5 * m.xx.sum(axis=1))


def measure_lazy_distance(engine: Any, jumps: Any, seed: int, blocks: int = 20) -> float:
    """Compared after every twenty events: in the end both are at the solution."""
    stream = clocks.Poisson(seed, marks=engine.law).stream()
    state, worst = engine.process.init(engine.point()), 0.0
    for _ in range(blocks):
        block = stream.draw(20)
        for event in block.each():
            state = marked_step(engine.process, state, event, jumps)
        engine.take(block.marks, coefficients(engine.process, block, 0.0))
        difference = np.abs(engine.point() - state.x).max()
        worst = max(worst, float(difference / (1.0 + np.abs(state.x).max())))
    return worst


def coordinate_equality(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) of coordinate descent: convex, strongly convex, start = 0, plain."""
    make = subject.coordinate_descent
    cases: list[tuple[Problem, Any]] = [
        (quadratic(mu=0.0), make()),
        (quadratic(), make("uniform")),
        (quadratic(), make(start=0.0)),
        (quadratic(), make(accelerated=False)),
    ]
    return compare_means(effort, cases, COORDINATE_TIMES, distance=False)


def row_equality(subject: Subject, effort: Effort) -> Measurement:
    """E |x_t - x*|^2 / 2 of rows: stochastic least squares and Kaczmarz."""
    p = wide_least_squares()
    cases: list[tuple[Problem, Any]] = [
        (p, subject.stochastic_least_squares()),
        (p, subject.stochastic_least_squares(mu=0.0)),
        (p, subject.kaczmarz()),
        (p, subject.kaczmarz(accelerated=False)),
    ]
    return compare_means(effort, cases, ROW_TIMES, distance=True)


def block_equality(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) of blocks: alone on a quadratic, together on least squares, plain."""
    make = subject.coordinate_descent
    cases: list[tuple[Problem, Any]] = [
        (quadratic(), make(blocks=3, start=0.0)),
        (thirty_columns(), make(blocks=3)),
        (thirty_columns(), make("uniform", blocks=3, accelerated=False)),
    ]
    return compare_means(effort, cases, BLOCK_TIMES, distance=False)


def batch_equality(subject: Subject, effort: Effort) -> Measurement:
    """E |x_t - x*|^2 / 2 of batches: of rows drawn uniformly, and by their norms."""
    p = wide_least_squares()
    cases: list[tuple[Problem, Any]] = [
        (p, subject.stochastic_least_squares(batch=2)),
        (p, subject.stochastic_least_squares(batch=2, accelerated=False)),
        (p, subject.kaczmarz(batch=2)),
    ]
    return compare_means(effort, cases, BATCH_TIMES, distance=True)


def coordinate_bound(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) - f* <= the bound of theory.bounds.marked with S for L; and the plain bounds."""
    chosen: list[tuple[Problem, dict[str, Any]]] = [
        (small_quadratic(), {}),
        (small_quadratic(), {"sampling": "uniform", "start": 0.0}),
        (small_quadratic(), {"accelerated": False}),
        (quadratic(mu=0.0), {}),
        (quadratic(mu=0.0), {"accelerated": False}),
        (least_squares(noise=1.0, l2=0.01), {}),
    ]
    return compare_coordinates_with_bound(subject, chosen)


def row_bound(subject: Subject, effort: Effort) -> Measurement:
    """E |x_t - x*|^2 / 2 <= its bound, for rows."""
    plain = {"accelerated": False}
    uniform: Any = ({}, {"mu": 0.0}, {"start": 0.0})
    by_norm: Any = ({}, plain, {**plain, "mu": 0.0})
    return compare_rows_with_bound(subject, least_squares(), uniform, by_norm)


def block_bound(subject: Subject, effort: Effort) -> Measurement:
    """E f(x_t) - f* <= the bound of theory.bounds.marked with S = max_B L_B / p_B^2 for L."""
    chosen: list[tuple[Problem, dict[str, Any]]] = [
        (make_correlated(), {"blocks": BLOCKS}),
        (make_correlated(), {"blocks": BLOCKS, "sampling": "uniform", "start": 0.0}),
        (make_correlated(), {"blocks": BLOCKS, "accelerated": False}),
        (quadratic(mu=0.0), {"blocks": 6}),
    ]
    return compare_coordinates_with_bound(subject, chosen)


def batch_bound(subject: Subject, effort: Effort) -> Measurement:
    """E |x_t - x*|^2 / 2 <= its bound with R2 and kappa of batches."""
    uniform = ({"batch": 2}, {"batch": 8}, {"batch": 8, "mu": 0.0})
    by_norm = ({"batch": 3}, {"batch": 20, "accelerated": False})
    return compare_rows_with_bound(subject, make_correlated(noise=0.0, l2=0.0), uniform, by_norm)


def lazy_is_eager(subject: Subject, effort: Effort) -> Measurement:
    """The largest relative distance of the lazy kernels from steps that mix everything."""
    noisy = least_squares(noise=1.0, l2=0.01)
    large = Quadratic(np.linspace(0.2, 1.0, 200), np.ones(200))
    return compare_with_eager(subject, effort, [small_quadratic(), noisy, large])


def lazy_groups_are_eager(subject: Subject, effort: Effort) -> Measurement:
    """The same of blocks of coordinates and batches of rows."""
    return compare_with_eager(subject, effort, [make_correlated()], BLOCKS, batch=3)


def compare_with_eager(
    subject: Subject, effort: Effort, problems: Sequence[Problem], blocks: Any = None,
    batch: int = 1,
) -> Measurement:  # fmt: skip
    """Coordinates (or blocks of them) on the problems, and rows (or batches of them)."""
    rows, distances = wide_least_squares(), []
    groups = None if blocks is None else [np.array(block) for block in blocks]
    for start in (None, 0.0, 5.0):
        for p in problems:
            method: Any = subject.coordinate_descent(start=start, blocks=blocks)
            engine: Any = method.prepare(p, np.zeros(p.dim or 0))
            jumps: Any = reference.CoordinateJumps(p, engine.form.L_i, engine.p, groups)
            distances.append(measure_lazy_distance(engine, jumps, effort.seed))
        method = subject.stochastic_least_squares(start=start, batch=batch)
        engine = method.prepare(rows, np.zeros(rows.dim))
        jumps = reference.RowJumps(rows, engine.R2, engine.factors)
        distances.append(measure_lazy_distance(engine, jumps, effort.seed))
    return Measurement(float(np.max(distances)), 1e-12)
