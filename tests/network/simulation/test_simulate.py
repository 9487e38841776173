"""The simulator without faults: the process itself, and its law."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm

import continuized as cz
from continuized import network
from continuized.network import Faults, Gossip, Graph
from continuized.network.gossip import mix_over
from continuized.network.logs.entries import LOG_PAY
from continuized.process import random_streams
from continuized.process.marks import Categorical
from continuized.process.methods import jump

GRAPHS = ("path:12", "star:9", "grid:4x5")
METHODS = ("accelerated", "plain")


def one_hot(graph: Graph) -> np.ndarray:
    return np.eye(graph.nodes)[0]


def by_hand(graph: Graph, values: np.ndarray, method: str, events: Any) -> Any:
    """All nodes mixed at every event (dt, i, j), one after the other."""
    theta, gamma, gamma_prime = Gossip(method == "accelerated").constants(graph)
    x, z = values.astype(float), values.astype(float)
    for dt, i, j in events:
        x, z = mix_over(x, z, dt, theta)
        d = x[i] - x[j]
        x[i], z[i] = jump(x[i], z[i], d, gamma, gamma_prime)
        x[j], z[j] = jump(x[j], z[j], -d, gamma, gamma_prime)
    return x, z


@pytest.mark.parametrize("spec", GRAPHS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dim", [0, 3])
def test_lazy_mixing_is_mixing(spec: str, method: str, dim: int) -> None:
    graph = Graph.of(spec)
    values = np.random.default_rng(1).normal(size=(graph.nodes, dim) if dim else graph.nodes)
    drawn = cz.clock.Poisson(5, marks=Categorical(graph.P)).stream().draw(300)
    x, z = by_hand(
        graph, values, method, ((event.dt, *graph.edges[event.mark]) for event in drawn.each())
    )
    r = network.simulate(graph, values, method=method, rng=5, events=300, tol=0.0)
    assert r.messages == 300
    assert r.t == drawn.t[-1]
    assert np.abs(r.x - x).max() < 1e-12
    assert np.abs(r.z - z).max() < 1e-12
    middle = (x + z).mean(axis=0) / 2
    start = np.sum((values - values.mean(axis=0)) ** 2)
    assert r.error == pytest.approx(np.sum((x - middle) ** 2) / start, rel=1e-9)


@pytest.mark.parametrize("spec", GRAPHS)
@pytest.mark.parametrize("method", METHODS)
def test_the_mean_is_reached_and_nothing_lost(spec: str, method: str) -> None:
    graph = Graph.of(spec)
    values = np.random.default_rng(2).normal(size=(graph.nodes, 2))
    given = values.copy()
    r = network.simulate(graph, values, method=method, rng=0, tol=1e-12)
    assert np.array_equal(values, given)
    assert r.reached
    assert r.error <= 1e-12
    assert np.abs((r.x + r.z).sum(axis=0) - 2 * values.sum(axis=0)).max() < 1e-12
    assert r.ledger_error < 1e-12
    assert r.mean_drift < 1e-12
    assert np.abs(r.x - values.mean(axis=0)).max() < 1e-5
    assert r.staleness is None


@pytest.mark.parametrize("method", METHODS)
def test_messages_without_delay_are_edges_that_tick(method: str) -> None:
    graph = Graph.of("grid:4x5")
    values = np.random.default_rng(1).normal(size=(20, 2))
    r = network.simulate(
        graph, values, method=method, rng=2, events=4000, tol=0.0, faults=Faults(), log=True
    )
    assert r.log is not None
    paid = r.log.kind == LOG_PAY
    paid_by, to, t = (column[paid] for column in (r.log.node, r.log.peer, r.log.time))
    gaps = np.diff(t, prepend=0.0)
    x, z = by_hand(graph, values, method, zip(gaps[:300], paid_by[:300], to[:300], strict=True))
    short = network.simulate(
        graph, values, method=method, rng=2, events=300, tol=0.0, faults=Faults()
    )
    assert np.abs(short.x - x).max() < 1e-12
    assert np.abs(short.z - z).max() < 1e-12
    # Every edge in both directions alike, at the rate P; false alarms below 1e-4 each.
    ends = [tuple(edge) for edge in graph.edges] + [tuple(edge[::-1]) for edge in graph.edges]
    counts = [np.count_nonzero((paid_by == i) & (to == j)) for i, j in ends]
    assert stats.chisquare(counts, 4000 * np.tile(graph.P, 2) / 2).pvalue > 1e-4
    assert stats.kstest(gaps, "expon").pvalue > 1e-4


def exact_error(graph: Graph, method: str, values: np.ndarray, t: float) -> float:
    """E |x_t - mean|^2 from the linear equation of all second moments."""
    theta, gamma, gamma_prime = Gossip(method == "accelerated").constants(graph)
    n = graph.nodes
    one, eye = np.eye(n), np.eye(2 * n)
    mean = theta * np.block([[-one, one], [one, -one]])
    generator = np.kron(mean, eye) + np.kron(eye, mean)
    for (i, j), p in zip(graph.edges, graph.P, strict=True):
        difference = one[i] - one[j]
        jump = eye.copy()
        jump[:n, :n] -= gamma * np.outer(difference, difference)
        jump[n:, :n] -= gamma_prime * np.outer(difference, difference)
        generator += p * (np.kron(jump, jump) - np.kron(eye, eye))
    y = np.concatenate([values, values]) - values.mean()
    moments = (expm(t * generator) @ np.kron(y, y)).reshape(2 * n, 2 * n)
    return float(np.trace(moments[:n, :n]))


@pytest.mark.parametrize(
    ("method", "faults"),
    [
        ("accelerated", Faults()),
        ("plain", None),
        pytest.param("accelerated", None, marks=pytest.mark.slow),
        pytest.param("plain", Faults(), marks=pytest.mark.slow),
    ],
)
def test_the_law_of_both_engines(faults: Faults | None, method: str) -> None:
    # 800 runs: a right engine fails each of the two tests with probability below 2e-5 (|z| > 4.5;
    # the errors' skewness of 3, over sqrt(800), less than trebles the normal tail).
    graph, t = Graph.of("path:4"), 8.0
    values = np.array([1.0, 0.0, 0.0, 0.5])
    start = np.sum((values - values.mean()) ** 2)
    runs = [
        network.simulate(
            graph, values, method=method, until=t, tol=0.0, rng=seed, faults=faults, record=0
        )
        for seed in range(800)
    ]
    errors = start * np.array([r.error for r in runs])
    z = (errors.mean() - exact_error(graph, method, values, t)) / (errors.std() / math.sqrt(800))
    assert abs(z) < 4.5
    counts = np.array([r.messages for r in runs])  # Poisson, of mean t
    assert abs(counts.mean() - t) < 4.5 * math.sqrt(t / 800)


def test_the_same_seed_gives_the_same_run_and_another_does_not() -> None:
    graph = Graph.of("grid:4x4")
    for faults in (None, Faults(delay=0.2, loss=0.1, duplication=0.1, skew=0.2)):
        a, b, c = (
            network.simulate(graph, one_hot(graph), rng=seed, faults=faults, tol=1e-4)
            for seed in (3, np.random.SeedSequence(3), 4)
        )
        assert a.x.tobytes() == b.x.tobytes()
        assert a.trace.error.tobytes() == b.trace.error.tobytes()
        assert a.x.tobytes() != c.x.tobytes()


def test_recording_changes_nothing_and_is_bounded() -> None:
    graph = Graph.of("path:12")
    whole = network.simulate(graph, one_hot(graph), method="plain", rng=1)
    few = network.simulate(
        graph, one_hot(graph), method="plain", rng=1, record=20, snapshots=[1.0, 50.5]
    )
    none = network.simulate(graph, one_hot(graph), method="plain", rng=1, record=0)
    assert whole.x.tobytes() == few.x.tobytes() == none.x.tobytes()
    assert 20 <= len(few.trace.t) <= 42 < len(whole.trace.t)
    assert len(none.trace.t) == 2
    assert set(few.trace.t) <= set(whole.trace.t)
    assert few.trace.messages[-1] == few.messages
    assert few.trace.error[0] == 1.0
    for t in (1.0, 50.5):
        alone = network.simulate(graph, one_hot(graph), method="plain", rng=1, until=t)
        assert alone.t == t
        assert np.abs(few.snapshots[t] - alone.x).max() < 1e-15
    gap = np.diff(few.trace.messages[:-1])
    assert gap.min() == gap.max()


def test_the_measured_rate_is_that_of_the_slowest_mode() -> None:
    # E x falls as e^{-mu_g t / 2} there, its square as e^{-mu_g t}.  Over 40 seeds the ratio is
    # 0.998 on average with a standard deviation of 0.027: a false alarm is beyond 7 of them.
    graph = Graph.of("cycle:20")
    r = network.simulate(graph, one_hot(graph), method="plain", rng=0, tol=1e-20)
    assert r.rate_measured == pytest.approx(graph.mu_g, rel=0.2)


@pytest.mark.blas
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("method", ["plain", "accelerated"])
def test_no_rate_is_fitted_to_rounding(method: str, offset: float) -> None:
    """A run that goes on where only rounding is left has the rate of the run that stops there."""
    values = np.random.default_rng(1).standard_normal(20) + offset
    # Chance decides when rounding makes all values equal, and ends the run; most often it is late.
    most = 200_000 if method == "plain" else 25_000
    on = network.simulate("path:20", values, method=method, rng=0, tol=0.0, events=most)
    stopped = network.simulate("path:20", values, method=method, rng=0, tol=on.rounding)
    assert on.error < on.rounding < 1e-15
    assert np.count_nonzero(on.trace.error < on.rounding) > 10
    # Rows are thinned in the longer run: a few per cent.
    assert on.rate_measured == pytest.approx(stopped.rate_measured, rel=0.05)


def test_a_run_that_is_rounding_from_the_start_has_no_rate() -> None:
    r = network.simulate("path:20", 1.0 + 1e-16 * np.arange(20.0), method="plain", rng=0, tol=0.0)
    assert math.isnan(r.rate_measured)


def test_divergence_ends_the_run() -> None:
    graph = Graph.of("path:30")
    faults = Faults(delay=20.0)
    with pytest.warns(network.StalenessWarning, match="past the limit"):
        r = network.simulate(graph, one_hot(graph), rng=0, faults=faults, until=1e7)
    assert not r.reached
    assert r.message.startswith("The error grew without end")
    assert 1e12 <= r.error < math.inf
    assert r.t < 1e7
    assert r.rate_measured < 0.0


ALONE = Faults(deaths=((1.0, 1),))  # the node between the other two
ALL_DEAD = Faults(deaths=((1.0, 0), (2.0, 1), (3.0, 2)))
ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "tol": ({}, "The error is at most tol."),
    "events": ({"events": 3}, "The limit of events"),
    "no events": ({"events": 0}, "The limit of events"),
    "until": ({"until": 3.0}, "The time asked for"),
    "deaths": ({"faults": ALONE}, "No two living nodes"),
    "all dead": ({"faults": ALL_DEAD}, "No two living nodes"),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_message_says_why_a_run_ended(name: str) -> None:
    options, start = ENDS[name]
    r = network.simulate("path:3", np.arange(3.0), rng=0, **options)
    assert r.message.startswith(start)
    assert r.reached == (name == "tol")


def test_values_whose_squares_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match="too large, their squares overflow"):
        network.simulate("path:3", np.arange(3.0) * 1e160, rng=0)
    assert network.simulate("path:3", np.arange(3.0) * 1e150, rng=0).error <= 1e-6


@pytest.mark.parametrize("faults", [None, Faults()])
@pytest.mark.parametrize("value", [0.5, 0.1])  # the mean of three times 0.1 is another number
def test_a_start_in_agreement_needs_nothing(value: float, faults: Faults | None) -> None:
    r = network.simulate("path:3", 3 * [value], rng=0, faults=faults)
    assert (r.reached, r.messages, r.error) == (True, 0, 0.0)


def test_the_progress_bar_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    network.simulate("path:5", np.eye(5)[0], rng=0, progress=True)
    assert "accelerated gossip" in capsys.readouterr().err


def test_a_million_nodes_fit() -> None:
    n = 1_000_000
    i = np.arange(n)
    graph = Graph(n, np.column_stack([i, (i + 1) % n]), np.full(n, 1.0 / n))
    r = network.simulate(graph, np.sin(i), method="plain", rng=0, events=n, tol=0.0)
    assert r.messages == n
    assert 0.0 < r.error < 1.0
    assert r.ledger_error < 1e-12


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "values of another length": ({"values": [1.0, 2.0]}, "a row for each node"),
    "ragged values": (
        {"values": [[1.0], [1.0, 2.0], [0.0]]},
        "values must be an array of real numbers, got",
    ),
    "NaN": ({"values": [0.0, math.nan, 1.0]}, r"values\[1\] is nan"),
    "words": ({"values": ["a", "b", "c"]}, "real numbers"),
    "method": ({"method": "fast"}, '"accelerated", "plain"'),
    "tol": ({"tol": -1.0}, "tol"),
    "events": ({"events": 1.5}, "events"),
    "until": ({"until": math.inf}, "until"),
    "record": ({"record": True}, "record"),
    "snapshots": ({"snapshots": [-1.0]}, "snapshots"),
    "faults": ({"faults": 0.1}, "faults"),
    "rng": ({"rng": -1}, "rng"),
    "resume": ({"resume": True}, "checkpoint"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str) -> None:
    given, words = BAD[name]
    how = {"values": [1.0, 0.0, 0.0], **given}
    with pytest.raises((TypeError, ValueError), match=words):
        network.simulate("path:3", **how)


def test_links_have_randomness_of_their_own() -> None:
    root = random_streams.seed_sequence(7)
    keys = (
        random_streams.TIMES,
        random_streams.MARKS,
        random_streams.METRICS,
        random_streams.LINKS,
    )
    assert len({random_streams.generator(root, key).random() for key in keys}) == 4
