"""Delays: the predicted limit against exact second moments and against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from continuized import network
from continuized.network import Faults, Gossip, Graph, delays


def abscissa(graph: Graph, delay: float) -> float:
    """The growth rate of all second moments of the linear model, in x and z, by brute force."""
    theta, gamma, gamma_prime = Gossip().constants(graph)
    n, f = graph.nodes, delays.free_shares(graph, delay)
    one, eye = np.eye(n), np.eye(2 * n)
    mean = theta * np.block([[-one, one], [one, -one]])
    generator = np.kron(mean, eye) + np.kron(eye, mean)
    later = -0.5 * math.expm1(-2.0 * theta * delay)
    for (a, b), p in zip(graph.edges, graph.P, strict=True):
        for i, j in ((a, b), (b, a)):
            seen = np.concatenate([(1.0 - later) * one[i] - one[j], later * one[i]])
            step = np.concatenate([gamma * (one[i] - one[j]), gamma_prime * (one[i] - one[j])])
            jump = eye - np.outer(step, seen)
            rate = 0.5 * p * f[i] * f[j]
            generator += rate * (np.kron(jump, jump) - np.kron(eye, eye))
    # Deviations only: the conserved direction (x = z, all equal) is never left nor seen.
    agreed = np.ones(2 * n) / math.sqrt(2 * n)
    apart = eye - np.outer(agreed, agreed)
    both = np.kron(apart, apart)
    return float(
        np.linalg.eigvals(both @ generator @ both - 10.0 * (np.eye(4 * n * n) - both)).real.max()
    )


@pytest.mark.parametrize("spec", ["path:6", "cycle:8", "star:5"])
def test_the_gain_tells_the_sign_of_the_growth(spec: str) -> None:
    graph = Graph.of(spec)
    for delay in (0.0, 0.5, 3.0, 8.0, 30.0):
        stable = delays.gain(graph, Gossip().constants(graph), delay) < 1.0
        assert stable == (abscissa(graph, delay) < 0.0), delay


def test_the_limit_is_where_the_moments_stop_falling() -> None:
    graph = Graph.of("path:9")
    limit = network.delay_limit(graph)
    assert abscissa(graph, 0.98 * limit) < 0.0 < abscissa(graph, 1.02 * limit)


def test_the_gain_of_long_delays_is_that_of_the_steps() -> None:
    graph = Graph.of("complete:8")
    constants = Gossip().constants(graph)._replace(gamma_prime=1.2)
    at_last = delays.gain(graph, constants, 1e4)
    assert at_last == pytest.approx(0.85, rel=2e-2)


@pytest.mark.parametrize(("spec", "infinite"), [("path:5", True), ("path:10", False)])
def test_no_limit_where_a_step_never_overshoots(spec: str, infinite: bool) -> None:
    _, gamma, gamma_prime = Gossip().constants(Graph.of(spec))
    assert infinite == (gamma + gamma_prime < 2.0)
    assert infinite == math.isinf(network.delay_limit(spec))
    assert network.delay_limit(spec, "plain") == math.inf


def test_the_share_of_exchanges_is_as_predicted() -> None:
    graph = Graph.of("grid:5x5")
    for delay in (0.3, 2.0, 10.0):
        # 4000 exchanges: 5 standard errors are 8 %, the independence assumed costs 7 % (measured).
        r = network.simulate(
            graph, np.eye(25)[0], "plain", tol=0.0, events=4000, seed=1,
            faults=Faults(delay=delay, law="constant"),
        )  # fmt: skip
        assert r.messages / r.t == pytest.approx(network.exchange_share(graph, delay), rel=0.15)


def test_the_fit_for_large_graphs_agrees_with_the_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in ("path:30", "cycle:40"):
        graph = Graph.of(spec)
        computed = network.delay_limit(graph)
        monkeypatch.setattr(delays, "MOST_NODES", 10)
        fitted = network.delay_limit(Graph.of(spec))
        monkeypatch.undo()
        assert fitted == pytest.approx(computed, rel=0.15)


def test_predicted_beside_simulated() -> None:
    # In mean square the limit comes first; a typical run lasts longer, but not four times so.
    predicted = network.delay_limit("path:10")
    simulated = network.simulated_limit("path:10", runs=3)
    assert predicted < simulated < 4.0 * predicted
    before, after = network.delay_study("path:10", [0.2 * predicted, 4.0 * predicted], runs=3)
    assert before.stable
    assert not after.stable
    assert before.accelerated > before.plain > 0.0
    assert after.accelerated < 0.0 < after.plain
    assert after.share < before.share < 1.0


def test_too_stale() -> None:
    limit = network.delay_limit("path:10")
    for part, verdict in ((0.4, "fine"), (0.7, "near"), (1.1, "past")):
        assert network.too_stale("path:10", "accelerated", 2.0 * part * limit) == verdict
        share = network.exchange_share(Graph.of("path:10"), part * limit)
        assert network.too_stale("path:10", "accelerated", 0.0, share) == verdict
        assert network.too_stale("path:10", "plain", 1e9, 0.0) == "fine"
    with pytest.raises(ValueError, match="staleness"):
        network.too_stale("path:10", "accelerated", math.nan)
