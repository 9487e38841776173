"""`network.minimize` in real processes: exactness by replay, faults, functions of one's own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from continuized import network
from continuized.network import DADAO, A2CiD2, Dual, Faults, Graph
from continuized.network.logs.entries import LOG_PAY, LOG_STEP
from continuized.problems import LeastSquares, LogisticRegression
from tests.helpers.processes import assert_none_outlives

CYCLE = Graph.of("cycle:4")
RNG = np.random.default_rng(1)
X = RNG.standard_normal((32, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.standard_normal(32)
RIDGE = network.split(LeastSquares(X, Y, l2=0.1), 4)
LOGISTIC = network.split(LogisticRegression(X, np.sign(Y), l2=0.1), 4)
BEST = np.linalg.solve(X.T @ X / 32 + 0.1 * np.eye(3), X.T @ Y / 32)
REAL: dict[str, Any] = {"transport": "local", "processes": 2, "seconds": 120.0, "rng": 0}
needs_fork = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="no safe fork")


def own_functions() -> list[tuple[Any, Any]]:
    """Smooth, convex, no regressions: log-sum-exp about a point, and a square; L = 2 and mu = 1."""

    def make(centre: np.ndarray) -> tuple[Any, Any]:
        def fun(w: np.ndarray) -> float:
            return float(np.logaddexp.reduce(w - centre) + 0.5 * (w - centre) @ (w - centre))

        def jac(w: np.ndarray) -> np.ndarray:
            e = np.exp(w - centre - np.max(w - centre))
            return e / e.sum() + w - centre

        return fun, jac

    return [make(centre) for centre in np.random.default_rng(2).standard_normal((4, 3))]


OWN: dict[str, Any] = {"L": 2.0, "mu": 1.0, "dim": 3}


def best_of(pairs: list[tuple[Any, Any]]) -> np.ndarray:
    """The minimiser of their mean, by another solver."""
    found = optimize.root(lambda w: sum(jac(w) for _, jac in pairs), np.zeros(3), tol=1e-14)
    return np.asarray(found.x)


def rounding_of(r: Any) -> float:
    """What rounding may leave of a ledger: each entry of the log changes numbers of size 1 to 10,
    and a run on a slow machine has more of them."""
    return 1e-15 * max(len(r.log.kind), 1000)


def check_replay(r: network.Decentralized, functions: Any, method: Any, **constants: Any) -> Any:
    """The simulator's nodes come by the log to where the real ones were; returns what they hold."""
    x, held = network.replay(r.graph, functions, method, r.log, **constants)
    back = {node for _, node in r.joins}
    alive = np.ones(len(x), bool)
    alive[[node for _, node in r.deaths if node not in back]] = False
    np.testing.assert_allclose(x[alive], r.x[alive], rtol=0, atol=1e-11)
    return held[alive]


RUNS = [
    pytest.param(Dual(), RIDGE, id="dual"),
    pytest.param(DADAO(), RIDGE, id="dadao", marks=pytest.mark.slow),
    pytest.param(A2CiD2(step=0.02, batch=2), RIDGE, id="a2cid2", marks=pytest.mark.slow),
    pytest.param(Dual(), LOGISTIC, id="dual, logistic", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("method", "parts"), RUNS)
def test_a_real_run_is_repeated_by_the_simulator(method: Any, parts: Any) -> None:
    exact = method.name != "a2cid2"
    tol = 1e-10 if exact else 0.05
    r = network.minimize(CYCLE, parts, method=method, tol=tol, **REAL)
    assert r.reached, r
    assert r.message == "The error is at most tol."
    assert r.ledger_error < rounding_of(r)
    assert r.messages == np.count_nonzero(r.log.kind == LOG_PAY)
    steps = np.count_nonzero(r.log.kind == LOG_STEP)
    assert r.gradients == (steps if method.takes_gradients else r.gradients) > 0
    assert np.all(np.diff(r.trace.t) >= 0.0)
    assert (r.trace.messages[-1], r.trace.gradients[-1]) == (r.messages, r.gradients)
    assert r.trace.error[-1] == r.error == pytest.approx(parts.error(r.x), rel=1e-9)
    held = check_replay(r, parts, method)
    assert np.abs(held.sum(axis=0)).max() < 1e-9 * max(1.0, np.abs(held).max())
    if exact and parts is RIDGE:
        np.testing.assert_allclose(r.x, np.tile(BEST, (4, 1)), atol=1e-4)


@needs_fork
@pytest.mark.slow
def test_functions_of_ones_own_in_processes_with_lost_messages() -> None:
    pairs = own_functions()
    faults = Faults(loss=0.1, duplication=0.1, skew=0.2)
    r = network.minimize(CYCLE, pairs, method="dadao", tol=1e-10, faults=faults, **OWN, **REAL)
    assert r.reached, r
    assert r.ledger_error < rounding_of(r)
    np.testing.assert_allclose(r.x, np.tile(best_of(pairs), (4, 1)), atol=1e-4)
    check_replay(r, pairs, "dadao", **OWN)


@needs_fork
def test_killed_nodes_leave_a_ledger_that_is_accounted_for() -> None:
    """The gradients of the living sum, where they agree, to what the dead have left with them."""
    pairs, graph = own_functions(), Graph.of("complete:4")
    faults = Faults(deaths=((40.0, 2),))
    r = network.minimize(
        graph, pairs, method="dadao", tol=1e-10, speed=40.0, faults=faults, **OWN, **REAL
    )
    assert [node for _, node in r.deaths] == [2]
    assert r.deaths[0][0] >= 40.0
    assert r.reached, r
    assert r.ledger_error < rounding_of(r)
    alive = [0, 1, 3]
    np.testing.assert_allclose(r.x[alive], np.tile(r.agreed, (3, 1)), atol=1e-4)
    # Far more than what is compared below: how much it is depends on when the kill came through.
    assert np.abs(r.agreed - r.x_star).max() > 1e-5
    held = check_replay(r, pairs, "dadao", **OWN).sum(axis=0)
    slopes = sum(pairs[i][1](r.agreed) for i in alive)
    np.testing.assert_allclose(slopes, -held / 3.0, atol=1e-9)


@needs_fork
@pytest.mark.slow
def test_a_node_that_comes_back_and_a_function_that_raises() -> None:
    pairs, graph = own_functions(), Graph.of("complete:4")
    count = 0

    def fails(w: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        if count > 30:
            raise ValueError("no more data")
        return pairs[3][1](w)

    faults = Faults(deaths=((30.0, 1),), joins=((50.0, 1),))
    broken = [*pairs[:3], (pairs[3][0], fails)]
    with pytest.warns(RuntimeWarning, match=r"node 3 died \(ValueError: no more data\)"):
        r = network.minimize(
            graph, broken, method=A2CiD2(step=0.05, communications=4.0), tol=1e-300,
            speed=40.0, faults=faults, events=1500, **OWN, **REAL,
        )  # fmt: skip
    assert r.message.startswith("The limit of events")
    assert sorted(node for _, node in r.deaths) == [1, 3]
    assert [node for _, node in r.joins] == [1]
    assert r.ledger_error < rounding_of(r)
    living = [pair for i, pair in enumerate(pairs) if i != 3]
    np.testing.assert_allclose(r.agreed, best_of(living), atol=1e-6)
    # With a step that stays they end near each other, not at `agreed`: quick clocks count for more.
    assert np.ptp(r.x[:3], axis=0).max() < 0.5 * np.ptp([best_of([pair]) for pair in living])


def lose_numbers(jac: Any, after: int) -> Any:
    """A gradient that is no number any more after so many in a process of nodes; before they
    start, the run finds the minimiser with it."""
    own, count = os.getpid(), 0

    def fails(w: np.ndarray) -> np.ndarray:
        nonlocal count
        count += os.getpid() != own
        return jac(w) * (np.nan if count > after else 1.0)

    return fails


@needs_fork
@pytest.mark.parametrize("processes", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_a_node_that_is_not_finite_ends_alone(processes: int) -> None:
    pairs = own_functions()
    broken = [(fun, lose_numbers(jac, 30) if i == 1 else jac) for i, (fun, jac) in enumerate(pairs)]
    options = {**REAL, "processes": processes, "events": 800, "tol": 1e-300}
    with pytest.warns(RuntimeWarning, match=r"node 1 died \(.* is no longer finite.* others went"):
        r = network.minimize(CYCLE, broken, method=A2CiD2(step=0.05), **OWN, **options)
    assert [node for _, node in r.deaths] == [1]
    assert r.message.startswith("The limit of events")
    assert np.isfinite(r.error)
    assert np.isfinite(r.x).all()
    assert r.ledger_error < rounding_of(r)
    check_replay(r, pairs, A2CiD2(step=0.05), **OWN)


@needs_fork
def test_a_run_whose_nodes_are_all_not_finite_ends() -> None:
    broken = [(fun, lose_numbers(jac, 10)) for fun, jac in own_functions()]
    with pytest.warns(RuntimeWarning, match="and 3 more: no node is left"):
        r = network.minimize(CYCLE, broken, method=A2CiD2(step=0.05), **OWN, **REAL)
    assert sorted(node for _, node in r.deaths) == [0, 1, 2, 3]
    assert r.error == np.inf
    assert r.message == "The error is not finite: no node is left, or steps are too long."


@pytest.mark.slow
def test_a_real_run_ends_at_its_limit_of_events() -> None:
    r = network.minimize(CYCLE, RIDGE, method=Dual(), tol=0.0, events=50, **REAL)
    assert r.message.startswith("The limit of events")
    assert r.messages >= 50


@needs_fork
@pytest.mark.slow
def test_no_fork_outlives_a_run_that_is_killed() -> None:
    assert_none_outlives(
        "wells = [(lambda w: float(w @ w), lambda w: 2.0 * w)] * 4\n"
        "network.minimize('cycle:4', wells, method='dadao', L=2.0, mu=2.0, dim=1, tol=0.0,\n"
        "                 transport='local', processes=2, seconds=60.0)\n"
    )


@pytest.mark.slow
def test_a_real_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    options = {**REAL, "method": "dadao", "checkpoint": tmp_path / "run", "tol": 1e-8}
    short = network.minimize(CYCLE, RIDGE, **{**options, "seconds": 0.3})
    assert not short.reached
    r = network.minimize(CYCLE, RIDGE, resume=True, **options)
    assert r.reached
    assert (r.t, r.messages, r.gradients) > (short.t, short.messages, short.gradients)
    rows = len(short.trace.t)
    np.testing.assert_array_equal(r.trace.error[:rows], short.trace.error)
    assert r.ledger_error < rounding_of(r)
    np.testing.assert_allclose(r.x, np.tile(BEST, (4, 1)), atol=1e-3)
    check_replay(r, RIDGE, "dadao")


@pytest.mark.slow
@pytest.mark.needs("ray")
def test_functions_of_ones_own_in_actors_of_ray() -> None:
    pairs = own_functions()
    options = {**REAL, "transport": "ray", "method": "dadao", "tol": 1e-8}
    r = network.minimize(CYCLE, pairs, **OWN, **options)
    assert r.reached, r
    assert r.ledger_error < rounding_of(r)
    np.testing.assert_allclose(r.x, np.tile(best_of(pairs), (4, 1)), atol=1e-3)
    check_replay(r, pairs, "dadao", **OWN)
