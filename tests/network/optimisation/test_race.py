"""Nodes of unequal speed: how often they exchange, and methods in rounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from continuized.network import Dual, Graph, race, split
from continuized.network.optimisation.local_solver import DualFunction
from continuized.network.optimisation.node_models import make_nodes
from continuized.network.optimisation.race import (
    INTENSITY,
    PILOT,
    Silent,
    count_rates,
    run_all_reduce_rounds,
    run_dual_rounds,
)
from continuized.network.simulation.engine import NodeSet
from continuized.network.simulation.instant import InstantEngine
from continuized.problems import LeastSquares, LogisticRegression
from continuized.process.clock import Poisson
from continuized.process.marks import Categorical
from continuized.process.random_streams import seed_sequence


def regression(kind: str = "ridge", n: int = 250) -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4)) * np.linspace(0.3, 1.0, 4)
    y = X @ np.arange(1.0, 5.0) + rng.standard_normal(n)
    return LeastSquares(X, y, 0.01) if kind == "ridge" else LogisticRegression(X, np.sign(y), 0.02)


def test_two_nodes_exchange_as_renewals_say() -> None:
    """Both are free after the longer work, and the next tick is exponential: so are the gaps, but
    for the work.  The count is within 6 standard deviations but for a chance of 2e-9."""
    tick = 2.0 * INTENSITY
    rate = count_rates(Graph.of("path:2"), np.array([1.0, 3.0]), seed_sequence(0))[0]
    gap, spread, horizon = 3.0 + 1.0 / tick, 1.0 / tick, 3.0 * PILOT
    deviation = spread / gap * math.sqrt(1.0 / (gap * horizon))
    assert abs(rate - 1.0 / gap) < 6.0 * deviation + 2.0 / horizon


def test_exchanges_held_are_those_counted() -> None:
    g, parts, work = (
        Graph.of("cycle:5"),
        split(regression(), 5),
        np.array([2.0, 0.3, 1.0, 0.5, 4.0]),
    )
    root = seed_sequence(0)
    engine = InstantEngine(g, make_nodes(Dual(), g, parts), root, busy=work)
    events = Poisson(0, 3.0, Categorical(g.P)).stream().draw(2000)
    engine.advance(events)
    counted = InstantEngine(g, NodeSet(Silent(), 0), root, busy=work)
    counted.advance(events)
    counts, free = counted.activity.counts, counted.activity.free
    assert np.array_equal(engine.activity.counts, counts)
    assert np.array_equal(engine.activity.free, free)
    assert 0 < counts.sum() < 1000  # many were refused


def test_a_node_that_never_comes_back_is_named() -> None:
    work = np.array([1e18, 1.0, 1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match=r"edge [04] had no exchange"):
        count_rates(Graph.of("cycle:5"), work, seed_sequence(0))


def test_the_unit_of_time_is_the_users() -> None:
    parts, work = split(regression(), 5), np.array([8.0, 1.0, 1.0, 1.0, 1.0])
    long, short = (race("cycle:5", parts, scale * work, rng=0) for scale in (1.0, 1.0 / 64.0))
    for a, b in zip(long, short, strict=True):
        assert a.steps == b.steps
        assert a.time == 64.0 * b.time


@pytest.mark.blas
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_the_synchronous_dual_method(kind: str) -> None:
    """Its errors are those of the three sequences written with W itself, not its root."""
    g, parts = Graph.of("grid:2x3"), split(regression(kind), 6)
    found = run_dual_rounds(g, parts, 1e-30, 12)
    assert found[-1] > 1e-30
    W = np.zeros((6, 6))
    for i, j in g.edges:
        W[[i, j], [i, j]] += 1.0
        W[[i, j], [j, i]] -= 1.0
    ends = np.linalg.eigvalsh(W)
    L, mu = ends[-1] / parts.mu, ends[1] / parts.L
    q = math.sqrt(mu / L)
    D = DualFunction(parts)
    x = z = np.zeros((6, 4))
    errors = [parts.error(D.slopes(x))]
    for _ in range(12):
        y = x + q / (1.0 + q) * (z - x)
        step = W @ D.slopes(y)
        x, z = y - step / L, z + q * (y - z) - step / math.sqrt(mu * L)
        errors.append(parts.error(D.slopes(x)))
    np.testing.assert_allclose(found, errors, rtol=1e-8)


@pytest.mark.blas
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_all_reduce(kind: str) -> None:
    parts = split(regression(kind), 5)
    rounds = run_all_reduce_rounds(parts, 1e-10, 1000)
    assert rounds[0] == 1.0
    assert rounds[-1] <= 1e-10 < rounds[-2]
    assert run_all_reduce_rounds(parts, 2.0, 1000).tolist() == [1.0]


def test_exchanges_at_any_time_beat_rounds_when_a_node_is_slow() -> None:
    """And do not when all are alike: waiting is then what gives synchronous methods their pace."""
    g, parts = Graph.of("grid:5x5"), split(regression(n=1000), 25)
    times = {}
    for slow in (1.0, 10.0):
        work = np.ones(25)
        work[12] = slow
        racers = race(g, parts, work, tol=1e-4, rng=0)
        assert all(r.reached and r.error[-1] <= 1e-4 for r in racers)
        times[slow] = {r.method: r.time for r in racers}
    assert times[10.0]["synchronous-dual"] == 10.0 * times[1.0]["synchronous-dual"]
    assert times[1.0]["dual"] > times[1.0]["synchronous-dual"]
    assert times[10.0]["synchronous-dual"] > 2.0 * times[10.0]["dual"]
    assert times[10.0]["plain-dual"] > 1.5 * times[10.0]["dual"]


def test_a_race_ends() -> None:
    """Whatever the method would need."""
    racers = race("cycle:5", split(regression(), 5), np.ones(5), tol=1e-300, events=500, rng=0)
    assert not any(r.reached for r in racers)
    assert max(r.steps for r in racers) < 2000
    with pytest.raises(ValueError, match="events must be an integer >= 0"):
        race("cycle:5", split(regression(), 5), np.ones(5), events=-1)


@pytest.mark.parametrize(
    ("work", "complaint"),
    [
        ([1.0, 1.0], r"work must have shape \(5,\), one for each node, got \(2,\)"),
        ([1.0, 1.0, 1.0, 1.0, 0.0], r"work must be finite and > 0, but work\[4\] is 0.0"),
        ([1.0, 1.0, 1.0, 1.0, math.inf], r"work must be finite and > 0, but work\[4\] is inf"),
        ("slow", "work must be an array of real numbers, got 'slow'"),
    ],
)
def test_bad_input(work: Any, complaint: str) -> None:
    with pytest.raises((ValueError, TypeError), match=complaint):
        race("cycle:5", split(regression(), 5), work)
