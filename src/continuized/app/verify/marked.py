"""Checks of the marked methods: coordinates and rows, alone, in blocks and in batches.

Means over runs against exact moments (by Monte Carlo), exact moments against bounds, and the lazy
kernels against steps that mix everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from continuized import theory
from continuized.app.verify.claims import LARGEST_RATIO, Effort, Found, Subject, at_most
from continuized.marked.coordinate import CoordinateDescent
from continuized.problems import LeastSquares, Problem, Quadratic
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process import reference
from continuized.process.flow import mix
from continuized.process.methods import State
from continuized.process.prox import L1, Box
from continuized.process.random_streams import Seed
from continuized.process.reference import marked_step, proximal_coordinate_step
from continuized.support.checkpoints.state import capture
from continuized.support.statistics import SampleMoments, mean_test

Step = Callable[[State, clocks.Event], State]
BLOCKS = [[0, 2, 4, 5], [1, 3]]
# One of so many of the runs of other checks: these are not compiled as a whole.
RUNS, ROW_RUNS = 6, 4


def quadratic(mu: float | None = None) -> Quadratic:
    """Return a quadratic of twenty coordinates."""
    return Quadratic(np.linspace(0.2, 1.0, 20), np.ones(20), mu=mu)


def small_quadratic() -> Quadratic:
    """Return a quadratic of three coordinates that differ much."""
    return Quadratic([1.0, 0.3, 0.02], [1.0, -2.0, 3.0])


def least_squares(noise: float = 0.0, l2: float = 0.0) -> LeastSquares:
    """Return least squares on rows of three very different columns; labels without noise by
    default."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((12, 3)) * [1.0, 0.5, 0.2]
    return LeastSquares(X, X @ [1.0, -2.0, 3.0] + noise * rng.standard_normal(12), l2=l2)


def wide_least_squares() -> LeastSquares:
    """Return least squares on rows of ten columns, of different lengths."""
    rng = np.random.default_rng(6)
    X = rng.standard_normal((30, 10)) * rng.uniform(0.5, 1.5, (30, 1))
    return LeastSquares(X, X @ np.ones(10))


def make_correlated(noise: float = 1.0, l2: float = 0.01) -> LeastSquares:
    """Return ridge regression on columns that are much alike: L_B is far above the largest L_i, and
    L_H not far below R2."""
    rng = np.random.default_rng(7)
    X = 0.3 * rng.standard_normal((12, 6)) + rng.standard_normal((12, 1))
    return LeastSquares(X, X @ np.arange(6.0) + noise * rng.standard_normal(12), l2=l2)


def thirty_columns() -> LeastSquares:
    """Return a ridge regression of thirty columns."""
    rng = np.random.default_rng(8)
    X = rng.standard_normal((80, 30))
    return LeastSquares(X, X @ np.ones(30) + rng.standard_normal(80), l2=0.1)


def draw_samples(stepper: Any, times: list[float], runs: int, seed: Seed) -> Array:
    """Return x at fixed times in independent runs of a stepper, shape (runs, times, dim)."""
    stream = clocks.Poisson(seed, marks=stepper.law).stream()
    start, found = capture(stepper), []
    for events in cut_into_runs(stream, times[-1], runs):
        stepper.restore(*start)
        found.append(_follow(stepper, events, times))
    return np.stack(found)


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


def _follow(stepper: Any, events: clocks.Events, times: list[float]) -> Array:
    """Return x at the given times of one run."""
    coefs = stepper.coefficients(events)
    rows, done, last = [], 0, 0.0
    for time in times:
        until = int(np.searchsorted(events.t, time, side="right"))
        if until > done:
            stepper.take(events.marks[done:until], coefs[done:until])  # type: ignore[index]
            done, last = until, float(events.t[until - 1])
        kept = stepper.scalars.copy()
        if stepper.accelerated:  # since the last event, two scalars flow
            stepper.scalars[:] = mix(*kept.tolist(), *stepper.process.flow(last, time, time - last))
        rows.append(stepper.point())
        stepper.scalars[:] = kept
    return np.stack(rows)


Cases = list[tuple[Problem, Any]]  # problems, and a method for each


def compare_means(effort: Effort, cases: Cases, times: list[float]) -> Found:
    """Compare means over runs: of f, or for rows of |x - x*|^2 / 2.

    At early times, and with enough coordinates or columns for these to be nearly normal.
    """
    for number, (p, method) in enumerate(cases):
        x0, by_f = np.zeros(p.dim or 0), isinstance(method, CoordinateDescent)
        runs = effort.runs // (RUNS if by_f else ROW_RUNS)
        seed = np.random.SeedSequence([effort.seed, number])
        x = draw_samples(method.prepare(p, x0), times, runs, seed)
        exact = theory.moments(p, method, x0, times)
        if by_f:
            found = p.values(x.reshape(-1, x.shape[2])).reshape(x.shape[:2])
            expected = exact.fun
        else:
            found = 0.5 * ((x - p.x_star) ** 2).sum(axis=2)
            expected = 0.5 * exact.xx.sum(axis=1)
        yield mean_test(SampleMoments.of(found), expected, effort.alpha / len(cases))


def compare_with_bound(cases_of: Callable[[Subject], Cases]) -> Callable[[Subject, Effort], Found]:
    """Make a check of exact expectations against the bounds of the methods that should be."""

    def check(subject: Subject, effort: Effort) -> Found:
        times = np.geomspace(0.1, 60.0, 12)
        for (p, method), (_, intended) in zip(cases_of(subject), cases_of(Subject()), strict=True):
            x0 = np.zeros(p.dim or 0)
            exact = theory.moments(p, method, x0, times)
            by_f = isinstance(intended, CoordinateDescent)
            bounded = exact.fun - p.f_star if by_f else 0.5 * exact.xx.sum(axis=1)
            yield at_most(LARGEST_RATIO, bounded / theory.bound(intended, p, x0, t=times))

    return check


def compare_lazy(stepper: Any, step: Step, seed: int) -> Found:
    """Compare after every twenty events: in the end both are at the solution."""
    stream = clocks.Poisson(seed, marks=stepper.law).stream()
    state = stepper.process.init(stepper.point())
    for _ in range(20):
        block = stream.draw(20)
        for event in block.each():
            state = step(state, event)
        stepper.take(block.marks, stepper.coefficients(block))
        yield at_most(1e-12, np.abs(stepper.point() - state.x) / (1.0 + np.abs(state.x).max()))


def coordinate_equality(subject: Subject, effort: Effort) -> Found:
    """Measure E f(x_t) of coordinate descent: convex, strongly convex, start = 0, plain."""
    make = subject.coordinate_descent
    cases: Cases = [
        (quadratic(mu=0.0), make()),
        (quadratic(), make("uniform")),
        (quadratic(), make(start=0.0)),
        (quadratic(), make(accelerated=False)),
    ]
    return compare_means(effort, cases, [10.0, 25.0])


def row_equality(subject: Subject, effort: Effort) -> Found:
    """Measure E |x_t - x*|^2 / 2 of rows: stochastic least squares and Kaczmarz."""
    p = wide_least_squares()
    cases: Cases = [
        (p, subject.stochastic_least_squares()),
        (p, subject.stochastic_least_squares(mu=0.0)),
        (p, subject.kaczmarz()),
        (p, subject.kaczmarz(accelerated=False)),
    ]
    return compare_means(effort, cases, [8.0, 12.0])


def block_equality(subject: Subject, effort: Effort) -> Found:
    """Measure E f(x_t) of blocks: alone on a quadratic, together on least squares, plain."""
    make = subject.coordinate_descent
    cases: Cases = [
        (quadratic(), make(blocks=3, start=0.0)),
        (thirty_columns(), make(blocks=3)),
        (thirty_columns(), make("uniform", blocks=3, accelerated=False)),
    ]
    return compare_means(effort, cases, [4.5, 6.0])


def batch_equality(subject: Subject, effort: Effort) -> Found:
    """Measure E |x_t - x*|^2 / 2 of batches: of rows drawn uniformly, and by their norms."""
    p = wide_least_squares()
    cases: Cases = [
        (p, subject.stochastic_least_squares(batch=2)),
        (p, subject.stochastic_least_squares(batch=2, accelerated=False)),
        (p, subject.kaczmarz(batch=2)),
    ]
    return compare_means(effort, cases, [3.0, 5.0])


@compare_with_bound
def coordinate_bound(subject: Subject) -> Cases:
    """List what must satisfy E f(x_t) - f* <= the bound of theory.bounds.marked with S for L; and
    the plain bounds."""
    make = subject.coordinate_descent
    return [
        (small_quadratic(), make()),
        (small_quadratic(), make("uniform", start=0.0)),
        (small_quadratic(), make(accelerated=False)),
        (quadratic(mu=0.0), make()),
        (quadratic(mu=0.0), make(accelerated=False)),
        (least_squares(noise=1.0, l2=0.01), make()),
    ]


@compare_with_bound
def row_bound(subject: Subject) -> Cases:
    """List what must satisfy E |x_t - x*|^2 / 2 <= its bound, for rows."""
    uniform, by_norm = subject.stochastic_least_squares, subject.kaczmarz
    methods = [uniform(), uniform(mu=0.0), uniform(start=0.0)]
    methods += [by_norm(), by_norm(accelerated=False), by_norm(accelerated=False, mu=0.0)]
    return [(least_squares(), method) for method in methods]


@compare_with_bound
def block_bound(subject: Subject) -> Cases:
    """List what must satisfy E f(x_t) - f* <= the bound of theory.bounds.marked with S = max_B L_B
    / p_B^2 for L."""
    make = subject.coordinate_descent
    return [
        (make_correlated(), make(blocks=BLOCKS)),
        (make_correlated(), make("uniform", blocks=BLOCKS, start=0.0)),
        (make_correlated(), make(blocks=BLOCKS, accelerated=False)),
        (quadratic(mu=0.0), make(blocks=6)),
    ]


@compare_with_bound
def batch_bound(subject: Subject) -> Cases:
    """List what must satisfy E |x_t - x*|^2 / 2 <= its bound with R2 and kappa of batches."""
    uniform, by_norm = subject.stochastic_least_squares, subject.kaczmarz
    methods = [uniform(batch=2), uniform(batch=8), uniform(batch=8, mu=0.0)]
    methods += [by_norm(batch=3), by_norm(batch=20, accelerated=False)]
    return [(make_correlated(noise=0.0, l2=0.0), method) for method in methods]


def lazy_is_eager(subject: Subject, effort: Effort) -> Found:
    """Measure the relative distance of the lazy kernels from steps that mix everything."""
    noisy = least_squares(noise=1.0, l2=0.01)
    large = Quadratic(np.linspace(0.2, 1.0, 200), np.ones(200))
    return compare_with_eager(subject, effort, [small_quadratic(), noisy, large])


def lazy_groups_are_eager(subject: Subject, effort: Effort) -> Found:
    """Measure the relative distance of the lazy kernels of blocks and batches from steps that mix
    all."""
    return compare_with_eager(subject, effort, [make_correlated()], BLOCKS, batch=3)


def compare_with_eager(
    subject: Subject, effort: Effort, problems: Sequence[Problem], blocks: Any = None,
    batch: int = 1,
) -> Found:  # fmt: skip
    """Compare coordinates (or blocks of them) on the problems, and rows (or batches of them)."""
    rows = wide_least_squares()
    groups = None if blocks is None else [np.array(block) for block in blocks]
    for start in (None, 0.0, 5.0):
        for p in problems:
            method: Any = subject.coordinate_descent(start=start, blocks=blocks)
            stepper: Any = method.prepare(p, np.zeros(p.dim or 0))
            jumps: Any = reference.CoordinateJumps(p, stepper.form.L_i, stepper.p, groups)
            yield from compare_lazy(stepper, _eager(stepper, jumps), effort.seed)
        method = subject.stochastic_least_squares(start=start, batch=batch)
        stepper = method.prepare(rows, np.zeros(rows.dim))
        jumps = reference.RowJumps(rows, stepper.R2, stepper.factors)
        yield from compare_lazy(stepper, _eager(stepper, jumps), effort.seed)


def _eager(stepper: Any, jumps: Any) -> Step:
    return lambda state, event: marked_step(stepper.process, state, event, jumps)


def lazy_proximal_steps_are_eager(subject: Subject, effort: Effort) -> Found:
    """Measure the same of proximal steps: the lasso and a box, with unequal p_i, from x_0 = 0."""
    p = least_squares(noise=1.0)
    shares = np.arange(1.0, p.dim + 1.0)
    for prox in (L1(0.1), Box(-0.2, 0.3)):
        for sampling in ("sqrt", shares / shares.sum()):
            method = subject.coordinate_descent(sampling, prox=prox)
            stepper = method.prepare(p, np.zeros(p.dim))
            step = partial(proximal_coordinate_step, stepper.process)
            known = {"problem": p, "prox": prox, "p": stepper.p}
            yield from compare_lazy(stepper, partial(step, **known), effort.seed)
