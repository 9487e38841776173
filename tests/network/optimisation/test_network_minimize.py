"""Decentralised optimisation: rates and bounds, gossip as a special case, runs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized import network
from continuized.network import A2CiD2, Dual, Graph, Objective
from continuized.network.optimisation import METHODS
from continuized.network.optimisation import minimize as decentralized
from continuized.problems import LeastSquares, LogisticRegression


def test_the_names_that_the_command_lists_are_those_of_the_methods() -> None:
    assert {name: method.name for name, method in decentralized.METHODS.items()} == {
        name: name for name in METHODS
    }


def regression(kind: str = "ridge", n: int = 60, d: int = 3, l2: float = 0.1) -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X @ np.arange(1.0, d + 1.0) + rng.standard_normal(n)
    return LeastSquares(X, y, l2) if kind == "ridge" else LogisticRegression(X, np.sign(y), l2)


# Gossip is the dual method with f_i(w) = |w - x_i|^2 / 2.


def averaging(values: np.ndarray) -> Objective:
    return Objective.of([LeastSquares([[1.0]], [v]) for v in values])


@pytest.mark.blas
@pytest.mark.parametrize("accelerated", [True, False])
def test_gossip_is_a_special_case(accelerated: bool) -> None:
    values = np.random.default_rng(5).standard_normal(12)
    g, parts = Graph.of("grid:3x4"), averaging(values)
    theirs = network.simulate(
        g, values, method=network.Gossip(accelerated, damping=1.0), tol=0.0, events=300, rng=3
    )
    ours = network.minimize(g, parts, method=Dual(accelerated), tol=0.0, events=300, rng=3)
    np.testing.assert_allclose(ours.x[:, 0], theirs.x, rtol=0, atol=1e-14)
    t, k = np.array([0.0, 10.0, 100.0]), np.array([0, 10, 100])
    for at in ({"t": t}, {"k": k}):
        bound = cz.theory.bound(network.Gossip(accelerated, damping=1.0), g, values, **at)
        mine = 12.0 * cz.theory.bound(Dual(accelerated), (g, parts), 0.0, **at)
        np.testing.assert_allclose(mine, bound, rtol=1e-9)


# All methods on all losses


@pytest.mark.parametrize("method", ["dual", "dadao"])
@pytest.mark.parametrize("seed", range(4))
def test_nodes_come_to_a_minimiser_at_zero(method: str, seed: int) -> None:
    p = regression()
    # Sums cancel, in another order than they were made in; no f_i is least at 0.
    opposite = LeastSquares(np.vstack([p.X, p.X[::-1]]), np.concatenate([p.y, -p.y[::-1]]), p.l2)
    parts = network.split(opposite, 4, rng=seed)
    assert np.abs(parts.slopes_at_minimiser()).min() > 1e-3
    r = network.minimize("path:4", parts, method=method, tol=1e-8, rng=0)
    assert r.reached
    assert r.x_star.tolist() == [0.0, 0.0, 0.0]
    assert np.abs(r.x).max() < 1e-3


@pytest.mark.blas
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
    r = network.minimize("cycle:5", parts, method=chosen, rng=0, tol=tol)
    assert r.reached
    assert r.error == parts.error(r.x) <= tol
    best = cz.minimize(p, np.zeros(3), tol=1e-12, rng=0).x
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
        network.minimize(g, parts, method=method, tol=0.0, events=events, rng=seed)
        for seed in range(30)
    ]
    errors = np.mean([np.interp(times, r.trace.t, r.trace.error) for r in runs], axis=0)
    assert np.all(scale * errors <= cz.theory.bound(method, (g, parts), 0.0, t=times))


def test_acceleration_of_the_dual_gains_about_as_the_theorem_says() -> None:
    """Rates, measured, against the ratio of the theorems' rates: within a factor of 2."""
    g, parts = Graph.of("path:12"), network.split(regression(n=240, l2=0.01), 12)
    fast, plain = (
        network.minimize(g, parts, method=name, tol=1e-12, rng=1) for name in ("dual", "plain-dual")
    )
    predicted = fast.rate_theory / plain.rate_theory
    assert predicted > 8.0
    assert 0.5 < fast.rate_measured / plain.rate_measured / predicted < 2.0


@pytest.mark.blas
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_no_rate_is_fitted_to_rounding(kind: str) -> None:
    """A run that goes on where only rounding is left has the rate of the run that stops there."""
    parts = network.split(regression(kind), 5)
    on = network.minimize("cycle:5", parts, tol=0.0, rng=0, events=4_000)
    assert on.message.startswith("The limit of events")
    stopped = network.minimize("cycle:5", parts, tol=on.rounding, rng=0)
    assert on.error < on.rounding < 1e-25
    assert on.t > 2.0 * stopped.t
    assert on.rate_measured == pytest.approx(stopped.rate_measured, rel=0.1)


def test_accelerated_exchanges_bring_stochastic_nodes_nearer_to_each_other() -> None:
    """On a cycle, with gradients that differ much between nodes."""
    p = regression(n=160)
    order = np.argsort(p.y)
    parts = network.split(LeastSquares(p.X[order], p.y[order], l2=0.1), 40, rng=None)
    consensus = [
        network.minimize(
            "cycle:40", parts, method=A2CiD2(step=0.02, accelerated=accelerated), tol=0.0,
            events=60_000, rng=0,
        ).trace.consensus[-50:].mean()
        for accelerated in (True, False)
    ]  # fmt: skip
    assert consensus[0] < 0.5 * consensus[1]


@pytest.mark.parametrize("method", ["dadao", A2CiD2(step=0.01, batch=0, communications=4.0)])
def test_nodes_of_unequal_speed(method: Any) -> None:
    """DADAO still ends at the solution, though no theorem says so; stochastic gradients do not:
    the quick nodes' functions count for more."""
    parts, speeds = network.split(regression(), 5), [0.1, 1.0, 1.0, 1.0, 1.0]
    r = network.minimize(
        "cycle:5", parts, method=method, speeds=speeds, tol=1e-8, events=40_000, rng=0
    )
    even = network.minimize("cycle:5", parts, method=method, tol=1e-8, events=40_000, rng=0)
    assert math.isnan(r.rate_theory)
    assert r.reached == (method == "dadao")
    if not r.reached:
        assert r.trace.error[-20:].mean() > 2.0 * even.trace.error[-20:].mean()


# Runs


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_run_whatever_is_recorded(method: str) -> None:
    parts = network.split(regression(), 5)
    a, b = (
        network.minimize("cycle:5", parts, method=method, tol=0.0, events=900, rng=4, record=rows)
        for rows in (200, 3)
    )
    assert np.array_equal(a.x, b.x)
    assert len(b.trace.t) <= 7 < len(a.trace.t)
    other = network.minimize("cycle:5", parts, method=method, tol=0.0, events=900, rng=5)
    assert not np.array_equal(a.x, other.x)


@pytest.mark.parametrize("method", ["dual", "dadao", "a2cid2"])
def test_a_resumed_run_is_the_same_run(method: str, tmp_path: Path) -> None:
    parts, file = network.split(regression(), 5), tmp_path / "state"
    options: dict[str, Any] = {"tol": 0.0, "rng": 4, "record": 10}
    whole = network.minimize("cycle:5", parts, method=method, events=800, **options)
    network.minimize("cycle:5", parts, method=method, events=470, checkpoint=file, **options)
    r = network.minimize(
        "cycle:5", parts, method=method, events=800, checkpoint=file, resume=True, **options
    )
    assert np.array_equal(r.x, whole.x)
    traces = (each.trace.columns.values() for each in (r, whole))
    for mine, its in zip(*traces, strict=True):
        assert np.array_equal(mine, its)
    with pytest.raises(cz.CheckpointError):
        network.minimize(
            "cycle:5", network.split(regression(), 5, rng=9), method=method, events=800,
            checkpoint=file, resume=True, **options,
        )  # fmt: skip


def test_a_step_that_is_too_long_ends_the_run() -> None:
    parts = network.split(regression(), 5)
    r = network.minimize("cycle:5", parts, method=A2CiD2(step=50.0), rng=0)
    assert not r.reached
    assert not r.error < math.inf


PARTS_5 = network.split(regression(), 5)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: network.minimize("cycle:6", PARTS_5), "6 nodes, but 5 functions were given"),
        (
            lambda: network.minimize("cycle:5", PARTS_5, method="dula"),
            'method must be "dual", "plain-dual", "dadao", .* did you mean "dual"',
        ),
        (lambda: network.minimize("cycle:5", PARTS_5, tol=1.0), r"tol must be a number in \[0, 1"),
        (lambda: network.minimize("cycle:5", PARTS_5, tol=math.nan), "tol must be a number"),
        (lambda: network.minimize("cycle:5", PARTS_5, events=-1), "events must be an integer >= 0"),
        (lambda: network.minimize("cycle:5", PARTS_5, record=0), "record must be an integer >= 1"),
        (lambda: network.minimize("cycle:5", PARTS_5, record=None), "record must be an integer"),
        (lambda: network.minimize("cycle:5", PARTS_5, rng=-1), "rng must be an integer >= 0"),
        (
            lambda: network.minimize("cycle:5", PARTS_5, speeds=np.ones(5)),
            "for the dual method give the graph other rates",
        ),
        (
            lambda: network.minimize("cycle:5", PARTS_5, method="dadao", speeds=[1.0, 0.0]),
            r"speeds must be finite and > 0, but speeds\[1\] is 0.0",
        ),
        (lambda: A2CiD2(step=0.0), "step must be a finite number > 0, got 0.0"),
        (lambda: A2CiD2(batch=-1), "batch must be an integer from 0 to 2147483647, got -1"),
        (lambda: A2CiD2(communications=math.inf), "communications must be a finite number > 0"),
        (lambda: cz.theory.bound(Dual(), "cycle:5", 0.0, t=1.0), r"a pair \(graph, Objective\)"),
        (
            lambda: cz.theory.bound(Dual(), ("cycle:5", PARTS_5), 1.0, t=1.0),
            "rows that sum to 0; give 0",
        ),
        (
            lambda: cz.theory.bound(Dual(), ("cycle:5", PARTS_5), np.zeros(3), t=1.0),
            r"shape of the dual variables, \(5, 3\)",
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
