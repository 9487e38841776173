"""Decentralised optimisation: exact means, rates, gossip as a special case, and its bounds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import continuized as cz
from continuized import clock as clocks
from continuized import network, seeds
from continuized.marks import Categorical
from continuized.network import DADAO, A2CiD2, Dual, Graph, Objective, optimisers
from continuized.network.dadao import decay, flowed
from continuized.problems import LeastSquares, LogisticRegression
from continuized.statistics import Moments, mean_test

ALPHA = 1e-6  # the false-alarm probability of each statistical test
METHODS = ["dual", "plain-dual", "dadao", "a2cid2", "plain-sgd"]


def regression(kind: str = "ridge", n: int = 60, d: int = 3, l2: float = 0.1) -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X @ np.arange(1.0, d + 1.0) + rng.standard_normal(n)
    return LeastSquares(X, y, l2) if kind == "ridge" else LogisticRegression(X, np.sign(y), l2)


# The exact mean: on ridge every event and the flow are affine, so that E u_t = expm(t A) u_0,
# with u the state of all nodes and a last entry 1, and A = flow + sum of rate (jump - identity).
# Everything below is written from the formulas, not from the package.

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


# Gossip is the dual method with f_i(w) = |w - x_i|^2 / 2.


def averaging(values: np.ndarray) -> Objective:
    return Objective.of([LeastSquares([[1.0]], [v]) for v in values])


@pytest.mark.parametrize("accelerated", [True, False])
def test_gossip_is_a_special_case(accelerated: bool) -> None:
    values = np.random.default_rng(5).standard_normal(12)
    g, parts = Graph.of("grid:3x4"), averaging(values)
    theirs = network.simulate(g, values, network.Gossip(accelerated), tol=0.0, events=300, seed=3)
    ours = network.minimize(g, parts, Dual(accelerated), tol=0.0, events=300, seed=3)
    np.testing.assert_allclose(ours.x[:, 0], theirs.x, rtol=0, atol=1e-14)
    t, k = np.array([0.0, 10.0, 100.0]), np.array([0, 10, 100])
    for at in ({"t": t}, {"k": k}):
        bound = cz.theory.bound(network.Gossip(accelerated), g, values, **at)
        mine = 12.0 * cz.theory.bound(Dual(accelerated), (g, parts), 0.0, **at)
        np.testing.assert_allclose(mine, bound, rtol=1e-9)


# All methods on all losses


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_comes_to_the_centralised_solution(method: str, kind: str) -> None:
    p = regression(kind)
    parts = network.split(p, 5)
    exact = method not in ("a2cid2", "plain-sgd")
    chosen: Any = method
    if not exact:  # without noise, and with a small step, it ends near the solution
        chosen = A2CiD2(step=0.01, batch=0, communications=4.0, accelerated=method == "a2cid2")
    tol = 1e-10 if exact else 1e-3
    r = network.minimize("cycle:5", parts, chosen, seed=0, tol=tol)
    assert r.reached
    assert r.error == parts.error(r.x) <= tol
    best = cz.minimize(p, np.zeros(3), tol=1e-12, seed=0).x
    np.testing.assert_allclose(r.x, np.tile(best, (5, 1)), atol=3.0 * math.sqrt(tol) * 4.0)
    assert r.trace.error[-1] == r.error
    assert r.trace.messages[-1] == r.messages
    assert r.trace.gradients[-1] == r.gradients
    assert np.all(np.diff(r.trace.t) > 0.0)
    if exact:
        assert r.rate_measured > r.rate_theory  # the theorems promise no more than a lower bound
    else:
        assert math.isnan(r.rate_theory)


@pytest.mark.parametrize("spec", ["path:8", "complete:8", "star:8"])
@pytest.mark.parametrize("accelerated", [True, False])
def test_the_bound_holds(spec: str, accelerated: bool) -> None:
    """The mean over 30 runs; the bound is slack by more than the spread of the mean."""
    g, parts = Graph.of(spec), network.split(regression(l2=0.01), 8)
    method = Dual(accelerated)
    events = int(4.0 / method.rate(g, parts))
    scale = parts.x_star @ parts.x_star
    times = np.linspace(0.0, 0.8 * events, 9)
    runs = [
        network.minimize(g, parts, method, tol=0.0, events=events, seed=seed) for seed in range(30)
    ]
    errors = np.mean([np.interp(times, r.trace.t, r.trace.error) for r in runs], axis=0)
    assert np.all(scale * errors <= cz.theory.bound(method, (g, parts), 0.0, t=times))


def test_acceleration_of_the_dual_gains_about_as_the_theorem_says() -> None:
    """Rates, measured, against the ratio of the theorems' rates: within a factor of 2."""
    g, parts = Graph.of("path:12"), network.split(regression(n=240, l2=0.01), 12)
    fast, plain = (
        network.minimize(g, parts, name, tol=1e-12, seed=1) for name in ("dual", "plain-dual")
    )
    predicted = fast.rate_theory / plain.rate_theory
    assert predicted > 8.0
    assert 0.5 < fast.rate_measured / plain.rate_measured / predicted < 2.0


def test_accelerated_exchanges_bring_stochastic_nodes_nearer_to_each_other() -> None:
    """On a cycle, with gradients that differ much between nodes."""
    p = regression(n=160)
    order = np.argsort(p.y)
    parts = network.split(LeastSquares(p.X[order], p.y[order], l2=0.1), 40, seed=None)
    consensus = [
        network.minimize(
            "cycle:40", parts, A2CiD2(step=0.02, accelerated=accelerated), tol=0.0,
            events=60_000, seed=0,
        ).trace.consensus[-50:].mean()
        for accelerated in (True, False)
    ]  # fmt: skip
    assert consensus[0] < 0.5 * consensus[1]


# Runs


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_run_whatever_is_recorded(method: str) -> None:
    parts = network.split(regression(), 5)
    a, b = (
        network.minimize("cycle:5", parts, method, tol=0.0, events=900, seed=4, record=rows)
        for rows in (200, 3)
    )
    assert np.array_equal(a.x, b.x)
    assert len(b.trace.t) <= 7 < len(a.trace.t)
    other = network.minimize("cycle:5", parts, method, tol=0.0, events=900, seed=5)
    assert not np.array_equal(a.x, other.x)


@pytest.mark.parametrize("method", ["dual", "dadao", "a2cid2"])
def test_a_resumed_run_is_the_same_run(method: str, tmp_path: Path) -> None:
    parts, file = network.split(regression(), 5), tmp_path / "state"
    options: dict[str, Any] = {"tol": 0.0, "seed": 4, "record": 10}
    whole = network.minimize("cycle:5", parts, method, events=800, **options)
    network.minimize("cycle:5", parts, method, events=480, checkpoint=file, **options)
    r = network.minimize(
        "cycle:5", parts, method, events=800, checkpoint=file, resume=True, **options
    )
    assert np.array_equal(r.x, whole.x)
    for mine, its in zip(r.trace, whole.trace, strict=True):
        assert np.array_equal(mine, its)
    with pytest.raises(cz.CheckpointError):
        network.minimize(
            "cycle:5", network.split(regression(), 5, seed=9), method, events=800,
            checkpoint=file, resume=True, **options,
        )  # fmt: skip


def test_a_step_that_is_too_long_ends_the_run() -> None:
    parts = network.split(regression(), 5)
    r = network.minimize("cycle:5", parts, A2CiD2(step=50.0), seed=0)
    assert not r.reached
    assert not r.error < math.inf


PARTS_5 = network.split(regression(), 5)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: network.minimize("cycle:6", PARTS_5), "6 nodes, but 5 functions were given"),
        (lambda: network.minimize("cycle:5", PARTS_5, "dula"), "one of dual, plain-dual, dadao"),
        (lambda: network.minimize("cycle:5", PARTS_5, tol=1.0), r"tol must be a number in \[0, 1"),
        (lambda: network.minimize("cycle:5", PARTS_5, tol=math.nan), "tol must be a number"),
        (lambda: network.minimize("cycle:5", PARTS_5, events=-1), "events must be an integer >= 0"),
        (lambda: network.minimize("cycle:5", PARTS_5, record=0), "record must be an integer >= 1"),
        (lambda: network.minimize("cycle:5", PARTS_5, seed=-1), "seed must be an integer >= 0"),
        (lambda: A2CiD2(step=0.0), "step must be a finite number > 0, got 0.0"),
        (lambda: A2CiD2(batch=-1), "batch must be an integer >= 0, got -1"),
        (lambda: A2CiD2(communications=math.inf), "communications must be a finite number > 0"),
        (lambda: cz.theory.bound(Dual(), "cycle:5", 0.0, t=1.0), r"a pair \(graph, Objective\)"),
        (
            lambda: cz.theory.bound(Dual(), ("cycle:5", PARTS_5), 1.0, t=1.0),
            "rows that sum to 0; give 0",
        ),
        (
            lambda: cz.theory.bound(Dual(), ("cycle:5", PARTS_5), np.zeros(3), t=1.0),
            r"0, or finite and of shape \(5, 3\)",
        ),
        (
            lambda: cz.theory.bound(Dual(), ("cycle:5", PARTS_5), 0.0, t=1.0, sigma2=1.0),
            "no theorem covers noise for the dual method",
        ),
    ],
)
def test_bad_input(make: Any, complaint: str) -> None:
    with pytest.raises((ValueError, TypeError), match=complaint) as caught:
        make()
    assert "\n" not in str(caught.value)
