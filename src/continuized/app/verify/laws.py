"""Checks of the law of every random draw: gaps, noise, marks and edges, drawn and counted.

Frequencies are judged by Chernoff's bound, which holds for every number of draws: a mark of
probability p has the share f among n independent draws, or one farther from p on that side, with
probability e^{-n D(f, p)} at most, D the relative entropy of the two coins.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.app.verify.claims import Effort, Found, Subject
from continuized.network import Graph
from continuized.network.faults import Links, draw_copies, draw_delay
from continuized.network.simulation.instant import InstantEngine
from continuized.network.simulation.node_models import gossip as gossip_nodes
from continuized.problems import LeastSquares, Quadratic
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process import random_streams
from continuized.process.marks import batch_of
from continuized.support.statistics import Measurement, SampleMoments, mean_test

MARKS = 50  # times the runs of other checks: so many marks are drawn from each law
TOGETHER = 5  # times the runs, so many put together: draws of messages
WIDTH = 50  # of a vector of noise; also the gaps that are put together


def gaps(subject: Subject, effort: Effort) -> Found:
    """Measure the mean of the clock's gaps, the variance of e^{-gap}, and what one tells of the
    next.

    e^{-gap} is uniform on [0, 1], and so bounded, where squares of gaps would be very skewed.
    """
    clock = subject.continuized(1.0).clock(effort.seed)
    drawn = clock.stream().draw(WIDTH * effort.runs).dt.reshape(effort.runs, WIDTH)
    uniform = np.exp(-drawn) - 0.5
    columns = [drawn.mean(axis=1), (uniform**2).mean(axis=1), _neighbours(uniform)]
    yield _compare(columns, [1.0, 1.0 / 12.0, 0.0], effort.alpha)


def noise(subject: Subject, effort: Effort) -> Found:
    """Measure the mean and the variance of noise, and what an entry tells of another one and of
    the next vector."""
    root, variance = random_streams.seed_sequence(effort.seed), 0.04
    rng = random_streams.generator(root, random_streams.MARKS)
    drawn = subject.gaussian(variance).draw(rng, 2 * effort.runs, WIDTH)
    first, second = drawn[::2], drawn[1::2]
    columns = [drawn.mean(axis=1).reshape(-1, 2).mean(axis=1), (first**2).mean(axis=1)]
    columns += [_neighbours(first), (first * second).mean(axis=1), *first.T]
    yield _compare(columns, [0.0, variance] + (len(columns) - 2) * [0.0], effort.alpha)


def _neighbours(rows: Array) -> Array:
    return np.asarray((rows[:, ::2] * rows[:, 1::2]).mean(axis=1))


def _compare(columns: list[Array], expected: list[float], alpha: float) -> Measurement:
    return mean_test(SampleMoments.of(np.stack(columns, axis=1)), np.array(expected), alpha)


def marks(subject: Subject, effort: Effort) -> Found:
    """Measure how often coordinates, blocks and rows are drawn, alone and one after the other."""
    L_i = np.array([1.0, 0.6, 0.3, 0.2, 0.1])
    rng = np.random.default_rng(10)
    X = rng.standard_normal((6, 3)) * rng.uniform(0.5, 1.5, (6, 1))
    p, rows, norms2 = Quadratic(L_i, np.ones(5)), LeastSquares(X, X.sum(axis=1)), (X**2).sum(axis=1)
    pairs = np.sqrt([1.0, 0.3, 0.1])  # the largest of L_i in each block of two
    make: Any = subject.coordinate_descent
    cases: list[tuple[Any, Any, Array]] = [
        (make(), p, np.sqrt(L_i)),
        (make("uniform"), p, np.ones(5)),
        (make(blocks=2), p, pairs),
        (subject.stochastic_least_squares(), rows, np.ones(6)),
        (subject.kaczmarz(), rows, norms2),
        (subject.kaczmarz(batch=2), rows, norms2),
    ]
    for number, (method, problem, weights) in enumerate(cases):
        law = method.prepare(problem, np.zeros(problem.dim)).law
        stream = clocks.Poisson(np.random.SeedSequence([effort.seed, number]), marks=law).stream()
        drawn = stream.draw(MARKS * effort.runs // batch_of(law)).marks
        yield _compare_shares(drawn, weights / weights.sum(), effort.alpha / len(cases))


def edges(subject: Subject, effort: Effort) -> Found:
    """Measure how often each edge ticks in the simulator, alone and one after the other."""
    g = Graph.of("grid:2x3", rates=[0.05, 0.1, 0.1, 0.15, 0.15, 0.2, 0.25])
    root = random_streams.seed_sequence(effort.seed)
    nodes = gossip_nodes.make_nodes(np.zeros((g.nodes, 1)), subject.gossip().constants(g))
    drawn = InstantEngine(g, nodes, root).make_stream(root, 1.0).draw(MARKS * effort.runs)
    yield _compare_shares(drawn.marks, g.P, effort.alpha)


def messages(subject: Subject, effort: Effort) -> Found:
    """Measure how often a message comes (never, once, twice), and how long it takes."""
    links = Links(delay=2.0, constant=False, loss=0.1, duplication=0.3)
    rng = random_streams.generator(random_streams.seed_sequence(effort.seed), random_streams.LINKS)
    copies = [draw_copies(links, rng) for _ in range(TOGETHER * effort.runs)]
    delays = np.array([draw_delay(links, rng) for _ in range(TOGETHER * effort.runs)])
    uniform = (np.exp(-0.5 * delays) - 0.5) ** 2
    columns = [part.reshape(-1, TOGETHER).mean(axis=1) for part in (delays, uniform)]
    shares = _compare_shares(copies, np.array([0.1, 0.9 * 0.7, 0.9 * 0.3]), 0.5 * effort.alpha)
    means = _compare(columns, [2.0, 1.0 / 12.0], 0.5 * effort.alpha)
    yield max(shares, means, key=lambda m: (not m.passed, m.measured / m.allowed))


def _compare_shares(drawn: Any, p: Array, alpha: float) -> Measurement:
    """Measure the largest -log of the bound on the probability of a share, of marks and of
    pairs."""
    flat = np.ravel(drawn)[: 2 * (np.size(drawn) // 2)]
    both = flat[::2] * len(p) + flat[1::2]
    worst = max(_surprise(flat, p), _surprise(both, np.outer(p, p).ravel()))
    cases = 2.0 * (len(p) + len(p) ** 2)  # above and below
    return Measurement(worst, math.log(cases / alpha))


def _surprise(drawn: Array, p: Array) -> float:
    """Return the largest n D(f, p) of all marks; infinite for a mark that there is not."""
    from scipy.special import rel_entr

    counts, n = np.bincount(drawn, minlength=len(p)), len(drawn)
    if len(counts) > len(p):
        return math.inf
    f = counts / n
    return float(np.max(n * (rel_entr(f, p) + rel_entr(1.0 - f, 1.0 - p))))
