"""Decentralised optimisation on ridge, against exact means and a numerical solver of the flow.

On ridge every event and the flow are affine, so that E u_t = expm(t A) u_0, with u the state of
all nodes and a last entry 1, and A = flow + sum of rate (jump - identity).  Everything on the
exact side is written from the formulas, not from the package.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from continuized import clock as clocks
from continuized.network import DADAO, A2CiD2, Dual, Faults, Graph, Objective
from continuized.network.optimisation.dadao import decay, flow_node
from continuized.network.optimisation.node_models import make_nodes
from continuized.network.simulation.instant import InstantEngine
from continuized.network.simulation.messages import MessageEngine
from continuized.problems import LeastSquares
from continuized.process.marks import Categorical
from continuized.process.random_streams import child, seed_sequence
from continuized.support.checkpoints.state import capture
from continuized.support.statistics import SampleMoments, mean_test

ALPHA = 1e-6  # the false-alarm probability of each statistical test
GRAPH = Graph.of([(0, 1), (1, 2)], rates=[1.0, 2.0])
PARTS = Objective.of(
    [
        LeastSquares([[1.0], [0.4]], [1.0, -1.0], l2=0.2),
        LeastSquares([[0.7], [1.1]], [2.0, 0.5], l2=0.3),
        LeastSquares([[0.5], [0.9]], [-1.0, 3.0], l2=0.2),
    ]
)
CURVATURE = np.array([np.mean(PARTS.X[PARTS.rows(i)] ** 2) + PARTS.l2[i] for i in range(3)])
PULL = np.array([np.mean(PARTS.X[PARTS.rows(i), 0] * PARTS.y[PARTS.rows(i)]) for i in range(3)])


class Affine(NamedTuple):
    """u' = flow u between events, u += jumps[mark] u at them, and estimates = readout u."""

    flow: np.ndarray
    rates: np.ndarray
    jumps: list[np.ndarray]
    readout: np.ndarray

    def mean(self, t: float) -> np.ndarray:
        A = self.flow + sum(r * K for r, K in zip(self.rates, self.jumps, strict=True))
        return np.asarray(self.readout @ expm(t * A)[:, -1])

    def path(self, times: np.ndarray, marks: np.ndarray, t: float) -> np.ndarray:
        """The estimates at time t, all nodes mixed at every event."""
        u, now = np.eye(len(self.flow))[-1], 0.0
        for at, mark in zip(times, marks, strict=True):
            u = expm((at - now) * self.flow) @ u
            u, now = u + self.jumps[mark] @ u, at
        return np.asarray(self.readout @ expm((t - now) * self.flow) @ u)


def all_nodes(block: np.ndarray) -> np.ndarray:
    """The flow of all nodes, and the entry 1, which stays."""
    flow = np.zeros((3 * len(block) + 1, 3 * len(block) + 1))
    flow[:-1, :-1] = np.kron(np.eye(3), block)
    return flow


def exchange(i: int, j: int, size: int, d: np.ndarray, steps: dict[int, float]) -> np.ndarray:
    """The jump that takes steps[v] d off entry v of node i, and adds it at node j."""
    K = np.zeros((d.size, d.size))
    for v, step in steps.items():
        K[size * i + v] -= step * d
        K[size * j + v] += step * d
    return K


def dual(wrong: float) -> Affine:
    mu_g, R, L, mu = GRAPH.mu_g, GRAPH.R, CURVATURE.max(), CURVATURE.min()
    eta = math.sqrt(mu_g / (2.0 * R)) * math.sqrt(mu / L)
    steps = {0: mu / 2.0, 1: wrong * math.sqrt(L * mu / (2.0 * mu_g * R))}
    estimate = np.zeros((3, 7))  # w_i = (y_i + pull_i) / curvature_i
    for i in range(3):
        estimate[i, 2 * i], estimate[i, 6] = 1.0 / CURVATURE[i], PULL[i] / CURVATURE[i]
    jumps = [exchange(i, j, 2, estimate[i] - estimate[j], steps) for i, j in GRAPH.edges]
    return Affine(all_nodes(np.array([[-eta, eta], [eta, -eta]])), GRAPH.P, jumps, estimate)


def dadao(wrong: float) -> Affine:
    L, mu = CURVATURE.max(), CURVATURE.min()
    nu = mu / 2.0
    s = math.sqrt(nu / L)
    alpha, alpha_t, theta = s / 4.0, s / 8.0, 1.0 / (2.0 * s)
    x, xt, y, yt, z, zt = range(6)
    block = np.zeros((6, 6))
    block[x, [x, xt]], block[xt, [x, xt]] = (-s / 8, s / 8), (s / 8, -s / 8)
    block[y, [y, yt]] = -alpha, alpha
    block[yt, [y, z, xt]] = -theta, -theta, -theta * nu
    block[z, [z, zt]], block[zt, [z, zt]] = (-alpha, alpha), (alpha_t, -alpha_t)
    rate = math.sqrt(GRAPH.R / GRAPH.mu_g)
    chi_1, chi_2 = 1.0 / (rate * GRAPH.mu_g), GRAPH.R / rate / 2.0
    assert 2.0 * chi_1 * chi_2 == pytest.approx(1.0)
    jumps = []
    for i, j in GRAPH.edges:
        q = np.zeros(19)
        q[[6 * i + y, 6 * i + z]], q[[6 * j + y, 6 * j + z]] = 1.0, -1.0
        jumps.append(exchange(i, j, 6, q, {z: 0.5, zt: 2.0 * chi_1 / s}))
    for i in range(3):
        g, K = np.zeros(19), np.zeros((19, 19))
        g[6 * i + x], g[6 * i + yt], g[18] = CURVATURE[i] - nu, -1.0, -PULL[i]
        K[6 * i + x] = -g / (4.0 * L)
        K[6 * i + xt] = -wrong * g / (4.0 * math.sqrt(L * nu))
        K[6 * i + yt] = (s / 4.0 + 1.0) * g
        jumps.append(K)
    rates = np.concatenate([rate * GRAPH.P, np.ones(3)])
    return Affine(all_nodes(block), rates, jumps, np.eye(19)[[0, 6, 12]])


def a2cid2(wrong: float) -> Affine:
    rate = 1.5 * 3
    chi_1, chi_2 = 1.0 / (rate * GRAPH.mu_g), GRAPH.R / rate / 2.0
    eta, alpha_t = 1.0 / (2.0 * math.sqrt(chi_1 * chi_2)), wrong * 0.5 * math.sqrt(chi_1 / chi_2)
    unit = np.eye(7)
    jumps = [
        exchange(i, j, 2, unit[2 * i] - unit[2 * j], {0: 0.5, 1: alpha_t}) for i, j in GRAPH.edges
    ]
    for i in range(3):
        K = np.zeros((7, 7))
        K[[2 * i, 2 * i + 1]] = -0.2 * (CURVATURE[i] * unit[2 * i] - PULL[i] * unit[6])
        jumps.append(K)
    flow = all_nodes(np.array([[-eta, eta], [eta, -eta]]))
    rates = np.concatenate([rate * GRAPH.P, np.ones(3)])
    return Affine(flow, rates, jumps, np.eye(7)[[0, 2, 4]])


def at_once(method: Any) -> Any:
    return lambda: InstantEngine(GRAPH, make_nodes(method, GRAPH, PARTS), seed_sequence(0))


def by_messages(method: Any) -> Any:
    """Messages that take no time: the same law, by the engine that has faults."""
    nodes = make_nodes(method, GRAPH, PARTS)
    return lambda: MessageEngine(GRAPH, nodes, seed_sequence(0), Faults())


def stochastic(batch: int) -> Any:
    return at_once(A2CiD2(step=0.2, batch=batch, communications=1.5))


CASES: dict[str, tuple[Any, Any, float]] = {
    "dual": (at_once(Dual()), dual, 2.0),
    "dadao": (at_once(DADAO()), dadao, 8.0),
    "a2cid2": (stochastic(0), a2cid2, 5.0),
    "a2cid2, one row at a time": (stochastic(1), a2cid2, 5.0),
    "dual, messages": (by_messages(Dual()), dual, 2.0),
    "dadao, messages": (by_messages(DADAO()), dadao, 8.0),
    "a2cid2, messages": (by_messages(A2CiD2(step=0.2, batch=1, communications=1.5)), a2cid2, 5.0),
}


def sampled(make: Any, t: float, runs: int) -> SampleMoments:
    """Moments of the nodes' estimates at time t."""
    engine = make()
    start = capture(engine)
    total = float(engine.rates.sum())
    law = Categorical(engine.rates / total)
    most = int(total * t + 12.0 * math.sqrt(total * t) + 20.0)  # more come with chance < 1e-15
    found = np.empty((runs, 3))
    for run in range(runs):
        engine.restore(*start)
        root = child(seed_sequence(7), run)
        events = clocks.Poisson(root, total, law).stream().draw(most)
        end = int(np.searchsorted(events.t, t))
        engine.advance(events._replace(t=events.t[:end], marks=events.marks[:end]))
        found[run] = engine.estimate(t)[:, 0]
    return SampleMoments.of(found)


LONG = ("a2cid2, messages", "a2cid2, one row at a time", "dual, messages")


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=pytest.mark.slow) if c in LONG else c for c in CASES],
)
def test_the_mean_is_the_exact_mean(case: str) -> None:
    """At level ALPHA; a constant that is 40 % off, on the exact side, is caught."""
    make, affine, t = CASES[case]
    moments = sampled(make, t, 5000)
    assert mean_test(moments, affine(1.0).mean(t), ALPHA).passed
    mistaken = mean_test(moments, affine(0.6).mean(t), ALPHA)
    assert mistaken.usable
    assert not mistaken.passed


@pytest.mark.blas
@pytest.mark.parametrize("case", ["dual", "dadao", "a2cid2"])
def test_lazy_nodes_are_where_eager_ones_would_be(case: str) -> None:
    """On the same events, all nodes mixed at each of them."""
    make, affine, _ = CASES[case]
    engine, exact = make(), affine(1.0)
    np.testing.assert_allclose(engine.rates, exact.rates, rtol=1e-12)
    total = float(engine.rates.sum())
    events = clocks.Poisson(1, total, Categorical(engine.rates / total)).stream().draw(20)
    engine.advance(events)
    t = float(events.t[-1]) + 0.7
    expected = exact.path(events.t, events.marks, t)
    np.testing.assert_allclose(engine.estimate(t)[:, 0], expected, rtol=0, atol=1e-12)
    mistaken = affine(0.99).path(events.t, events.marks, t)
    assert np.abs(mistaken - expected).max() > 1e-5


@pytest.mark.blas
@pytest.mark.parametrize("s", [1e-4, 0.03, 0.7])
@pytest.mark.parametrize("dt", [1e-3, 1.0, 40.0])
def test_the_flow_of_dadao_solves_its_equation(s: float, dt: float) -> None:
    nu, start = 0.3, np.array([1.0, -0.5, 0.3, 0.9, -1.2, 0.4])
    alpha, alpha_t, theta = s / 4.0, s / 8.0, 1.0 / (2.0 * s)

    def slope(t: float, u: np.ndarray) -> list[float]:
        x, xt, y, yt, z, zt = u
        return [
            s / 8 * (xt - x), s / 8 * (x - xt), alpha * (yt - y), -theta * (y + z + nu * xt),
            alpha * (zt - z), alpha_t * (z - zt),
        ]  # fmt: skip

    solved = solve_ivp(slope, (0.0, dt), start, method="DOP853", rtol=1e-13, atol=1e-14)
    found = np.array(flow_node(*start, decay(dt, s), s, nu))
    np.testing.assert_allclose(found, solved.y[:, -1], rtol=0, atol=1e-10 * max(1.0, 1.0 / s))
