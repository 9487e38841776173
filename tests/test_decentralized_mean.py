"""Decentralised optimisation on ridge, against exact means and a numerical solver of the flow.

On ridge every event and the flow are affine, so that E u_t = expm(t A) u_0, with u the state of
all nodes and a last entry 1, and A = flow + sum of rate (jump - identity).  Everything on the
exact side is written from the formulas, not from the package.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from continuized import clock as clocks
from continuized import seeds
from continuized.marks import Categorical
from continuized.network import DADAO, A2CiD2, Dual, Graph, Objective, optimisers
from continuized.network.dadao import decay, flowed
from continuized.problems import LeastSquares
from continuized.statistics import Moments, mean_test

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


def kron_nodes(block: np.ndarray) -> np.ndarray:
    """The flow of all nodes, and the entry 1, which stays."""
    size = 3 * len(block)
    A = np.zeros((size + 1, size + 1))
    A[:size, :size] = np.kron(np.eye(3), block)
    return A


def dual_mean(t: float, wrong: float) -> np.ndarray:
    mu_g, R, L, mu = GRAPH.mu_g, GRAPH.R, CURVATURE.max(), CURVATURE.min()
    eta = math.sqrt(mu_g / (2.0 * R)) * math.sqrt(mu / L)
    gamma, gamma_prime = mu / 2.0, wrong * math.sqrt(L * mu / (2.0 * mu_g * R))
    A = kron_nodes(np.array([[-eta, eta], [eta, -eta]]))
    guess = np.zeros((3, 7))  # w_i = (y_i + pull_i) / curvature_i
    for i in range(3):
        guess[i, 2 * i], guess[i, 6] = 1.0 / CURVATURE[i], PULL[i] / CURVATURE[i]
    for (i, j), P in zip(GRAPH.edges, GRAPH.P, strict=True):
        G = guess[i] - guess[j]
        for node, sign in ((i, -1.0), (j, 1.0)):
            A[2 * node] += P * sign * gamma * G
            A[2 * node + 1] += P * sign * gamma_prime * G
    return np.asarray(guess @ expm(t * A)[:, 6])


def dadao_mean(t: float, wrong: float) -> np.ndarray:
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
    A = kron_nodes(block)
    for i in range(3):
        g = np.zeros(19)
        g[6 * i + x], g[6 * i + yt], g[18] = CURVATURE[i] - nu, -1.0, -PULL[i]
        A[6 * i + x] -= g / (4.0 * L)
        A[6 * i + xt] -= wrong * g / (4.0 * math.sqrt(L * nu))
        A[6 * i + yt] += (s / 4.0 + 1.0) * g
    rate = math.sqrt(GRAPH.R / GRAPH.mu_g)
    chi_1, chi_2 = 1.0 / (rate * GRAPH.mu_g), GRAPH.R / rate / 2.0
    assert 2.0 * chi_1 * chi_2 == pytest.approx(1.0)
    for (i, j), P in zip(GRAPH.edges, rate * GRAPH.P, strict=True):
        q = np.zeros(19)
        q[[6 * i + y, 6 * i + z]], q[[6 * j + y, 6 * j + z]] = 1.0, -1.0
        for node, sign in ((i, -1.0), (j, 1.0)):
            A[6 * node + z] += P * sign * 0.5 * q
            A[6 * node + zt] += P * sign * (2.0 * chi_1 / s) * q
    return np.asarray(expm(t * A)[[0, 6, 12], 18])


def a2cid2_mean(t: float, wrong: float) -> np.ndarray:
    rate = 1.5 * 3
    chi_1, chi_2 = 1.0 / (rate * GRAPH.mu_g), GRAPH.R / rate / 2.0
    eta, alpha_t = 1.0 / (2.0 * math.sqrt(chi_1 * chi_2)), wrong * 0.5 * math.sqrt(chi_1 / chi_2)
    A = kron_nodes(np.array([[-eta, eta], [eta, -eta]]))
    for i in range(3):
        g = np.zeros(7)
        g[2 * i], g[6] = CURVATURE[i], -PULL[i]
        A[2 * i] -= 0.2 * g
        A[2 * i + 1] -= 0.2 * g
    for (i, j), P in zip(GRAPH.edges, rate * GRAPH.P, strict=True):
        d = np.zeros(7)
        d[2 * i], d[2 * j] = 1.0, -1.0
        for node, sign in ((i, -1.0), (j, 1.0)):
            A[2 * node] += P * sign * 0.5 * d
            A[2 * node + 1] += P * sign * alpha_t * d
    return np.asarray(expm(t * A)[[0, 2, 4], 6])


def stochastic(batch: int) -> Any:
    method = A2CiD2(step=0.2, batch=batch, communications=1.5)
    return lambda: optimisers.StochasticEvents(GRAPH, PARTS, method)


CASES: dict[str, tuple[Any, Any, float]] = {
    "dual": (lambda: optimisers.DualExchanges.of(GRAPH, PARTS, Dual()), dual_mean, 2.0),
    "dadao": (lambda: optimisers.DadaoEvents.of(GRAPH, PARTS, DADAO()), dadao_mean, 8.0),
    "a2cid2": (stochastic(0), a2cid2_mean, 5.0),
    "a2cid2, one row at a time": (stochastic(1), a2cid2_mean, 5.0),
}


def sampled(make: Any, t: float, runs: int) -> Moments:
    """Moments of the nodes' guesses at time t."""
    engine = make()
    total = float(engine.rates.sum())
    law = Categorical(engine.rates / total)
    most = int(total * t + 12.0 * math.sqrt(total * t) + 20.0)  # more come with chance < 1e-15
    found = np.empty((runs, 3))
    for run in range(runs):
        for name in engine.arrays:
            getattr(engine, name)[...] = 0
        root = seeds.child(seeds.seed_sequence(7), run)
        if hasattr(engine, "seed"):
            engine.seed(root)
        events = clocks.Poisson(root, total, law).stream().draw(most)
        end = int(np.searchsorted(events.t, t))
        engine.advance(events._replace(t=events.t[:end], marks=events.marks[:end]))
        found[run] = engine.guesses(t)[:, 0]
    return Moments.of(found)


@pytest.mark.parametrize("case", CASES)
def test_the_mean_is_the_exact_mean(case: str) -> None:
    """At level ALPHA; a constant that is 40 % off, on the exact side, is caught."""
    make, mean, t = CASES[case]
    moments = sampled(make, t, 8000)
    assert mean_test(moments, mean(t, 1.0), ALPHA).passed
    mistaken = mean_test(moments, mean(t, 0.6), ALPHA)
    assert mistaken.usable
    assert not mistaken.passed


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
    found = np.array(flowed(*start, decay(dt, s), s, nu))
    np.testing.assert_allclose(found, solved.y[:, -1], rtol=0, atol=1e-10 * max(1.0, 1.0 / s))
