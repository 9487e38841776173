"""Delays: the predicted limit against exact second moments and against simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from continuized import network
from continuized.network import Faults, Gossip, Graph, analysis
from continuized.network.gossip import Constants
from continuized.network.graphs.graph import list_directed


def abscissa(graph: Graph, delay: float, rates: np.ndarray, damping: float = 0.9) -> float:
    """The growth rate of all second moments of the linear model, in x and z, by brute force."""
    theta, gamma, gamma_prime = Gossip(damping=damping).constants(graph)
    n = graph.nodes
    one, eye = np.eye(n), np.eye(2 * n)
    mean = theta * np.block([[-one, one], [one, -one]])
    generator = np.kron(mean, eye) + np.kron(eye, mean)
    later = -0.5 * math.expm1(-2.0 * theta * delay)
    for i, j, rate in zip(*list_directed(graph), rates, strict=True):
        seen = np.concatenate([(1.0 - later) * one[i] - one[j], later * one[i]])
        step = np.concatenate([gamma * (one[i] - one[j]), gamma_prime * (one[i] - one[j])])
        jump = eye - np.outer(step, seen)
        generator += rate * (np.kron(jump, jump) - np.kron(eye, eye))
    # Deviations only: the conserved direction (x = z, all equal) is never left nor seen.
    agreed = np.ones(2 * n) / math.sqrt(2 * n)
    apart = eye - np.outer(agreed, agreed)
    both = np.kron(apart, apart)
    return float(
        np.linalg.eigvals(both @ generator @ both - 10.0 * (np.eye(4 * n * n) - both)).real.max()
    )


@pytest.mark.blas
@pytest.mark.parametrize("spec", ["path:6", "cycle:8", "star:5"])
def test_the_gain_tells_the_sign_of_the_growth(spec: str) -> None:
    graph = Graph.of(spec)
    for delay in (0.0, 0.5, 3.0, 8.0, 30.0):
        rates = analysis.exchange_rates(graph, delay)
        stable = analysis.gain(graph, Gossip().constants(graph), delay, rates) < 1.0
        assert stable == (abscissa(graph, delay, rates) < 0.0), delay


@pytest.mark.blas
def test_the_limits_are_where_the_moments_stop_falling() -> None:
    graph = Graph.of("path:9")
    limit = network.delay_limit(graph)
    before, after = (
        abscissa(graph, delay, analysis.exchange_rates(graph, delay))
        for delay in (0.97 * limit, 1.03 * limit)
    )
    assert before < 0.0 < after
    share = network.share_limit(graph, Gossip(damping=0.7))
    rates = 0.5 * np.tile(graph.P, 2)
    assert abscissa(graph, 0.0, 1.03 * share * rates, 0.7) < 0.0
    assert abscissa(graph, 0.0, 0.97 * share * rates, 0.7) > 0.0


@pytest.mark.blas
def test_the_gain_of_long_delays_is_that_of_the_steps() -> None:
    graph = Graph.of("complete:8")
    constants = Constants(graph.theta, 0.5, 1.2)
    rates = analysis.exchange_rates(graph, 1e4)
    assert analysis.gain(graph, constants, 1e4, rates) == pytest.approx(0.85, rel=2e-2)


@pytest.mark.parametrize(("spec", "infinite"), [("path:5", True), ("path:10", False)])
def test_no_limit_where_a_step_never_overshoots(spec: str, infinite: bool) -> None:
    _, gamma, gamma_prime = Gossip().constants(Graph.of(spec))
    assert infinite == (gamma + gamma_prime < 2.0)
    assert infinite == math.isinf(network.delay_limit(spec))
    assert network.delay_limit(spec, "plain") == math.inf


@pytest.mark.parametrize("spec", ["path:10", "grid:5x5"])
def test_the_share_of_exchanges_is_as_predicted(spec: str) -> None:
    graph = Graph.of(spec)
    for delay in (0.3, 2.0, 10.0):
        # 4000 exchanges: 5 standard errors are 8 %, the independence assumed costs 15 %.
        r = network.simulate(
            graph, np.eye(graph.nodes)[0], method="plain", tol=0.0, events=4000, rng=1,
            faults=Faults(delay=delay),
        )  # fmt: skip
        assert r.messages / r.t == pytest.approx(network.exchange_share(graph, delay), rel=0.23)


@pytest.mark.parametrize("faults", [Faults(delay=0.3), Faults(delay=1.0), Faults(loss=0.6)])
def test_ticks_are_made_up_for_until_a_node_has_no_time_left(faults: Faults) -> None:
    graph = Graph.of("cycle:20")  # an exchange keeps a node for 2 delays, and 0.1 begin in a unit
    r = network.simulate(
        graph, np.eye(20)[0], method="plain", tol=0.0, events=4000, rng=1, faults=faults
    )
    # Poisson(t): 5 standard errors.  Without making up, 6 %, 19 % and 84 % would be lost; with
    # nodes that make up for a lost request at their next tick only, three quarters.
    assert abs(r.messages - r.t) < 5.0 * math.sqrt(4000)


@pytest.mark.parametrize("spec", ["path:100", "grid:8x8"])
def test_losses_cost_no_exchanges(spec: str) -> None:
    # The number of exchanges to 1e-8 varies by 5 % from run to run (measured): 0.15 is more than 5
    # standard deviations of the ratio of two means of 4.
    graph = Graph.of(spec)
    counts = [
        [
            network.simulate(graph, np.eye(graph.nodes)[0], rng=seed, faults=faults).messages
            for seed in range(4)
        ]
        for faults in (None, Faults(loss=0.1, duplication=0.05))
    ]
    assert np.mean(counts[1]) == pytest.approx(np.mean(counts[0]), rel=0.15)


def test_the_share_limit_goes_with_the_damping() -> None:
    for spec in ("path:20", "cycle:24"):
        whole = network.share_limit(spec, Gossip(damping=1.0))
        assert network.share_limit(spec, Gossip(damping=0.6)) == pytest.approx(
            0.6 * whole, abs=2e-3
        )


@pytest.mark.slow
@pytest.mark.blas
def test_the_fit_for_large_graphs_agrees_with_the_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in ("path:24", "cycle:36", "grid:6x6"):
        limits = []
        for most in (64, 10):
            monkeypatch.setattr(analysis, "GAIN_UP_TO", most)
            graph = Graph.of(spec)  # a fresh one: limits are remembered
            limits.append((network.share_limit(graph), network.delay_limit(graph)))
        computed, fitted = limits
        assert 1.0 - fitted[0] == pytest.approx(1.0 - computed[0], rel=0.03)
        assert fitted[1] == pytest.approx(computed[1], rel=0.15)


def test_too_stale() -> None:
    limit, least = network.delay_limit("path:10"), network.share_limit("path:10")
    for part, verdict in ((0.4, "fine"), (0.7, "near"), (1.1, "past")):
        assert network.too_stale("path:10", "accelerated", 2.0 * part * limit) == verdict
        share = 1.0 - part * (1.0 - least)
        assert network.too_stale("path:10", "accelerated", 0.0, share) == verdict
        assert network.too_stale("path:10", "plain", 1e9, 0.0) == "fine"
    with pytest.raises(ValueError, match="staleness"):
        network.too_stale("path:10", "accelerated", math.nan)
