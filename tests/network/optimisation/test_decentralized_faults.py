"""Decentralised optimisation with faults: gossip as a special case, ledgers, deaths."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized import network
from continuized.network import A2CiD2, Dual, Faults, Graph, Objective
from continuized.network.optimisation.node_models import make_nodes
from continuized.network.optimisation.stepper import OptimisationStepper
from continuized.network.protocol.transitions import APPLIED
from continuized.network.simulation.messages import MessageEngine
from continuized.problems import LeastSquares, LogisticRegression
from continuized.process.random_streams import seed_sequence
from continuized.process.stepper import Limits
from continuized.solver.loop import Loop

GRID = Graph.of("grid:3x4")
# Numba takes 20 s to compile the loop of messages for a node model: one is enough by default.
STOCHASTIC = [pytest.param(name, marks=pytest.mark.slow) for name in ("a2cid2", "plain-sgd")]
METHODS = ["dual", "plain-dual", "dadao", *STOCHASTIC]


def regression(kind: str) -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((96, 3))
    y = X @ np.arange(1.0, 4.0) + rng.standard_normal(96)
    return LeastSquares(X, y, 0.1) if kind == "ridge" else LogisticRegression(X, np.sign(y), 0.1)


PARTS = {kind: network.split(regression(kind), 12) for kind in ("ridge", "logistic")}

# Times in units of t of DADAO and A²CiD², in which a node takes a gradient, and 1/10 of it.
SETTINGS = {
    "none": Faults(),
    "loss and duplication": Faults(loss=0.1, duplication=0.05),
    "delay": Faults(delay=0.004),
    "all links": Faults(delay=0.004, loss=0.1, duplication=0.05, timeout=0.05),
    "skew": Faults(skew=0.3),
    "deaths and joins": Faults(
        delay=0.004,
        loss=0.1,
        skew=np.linspace(-0.2, 0.2, 12),
        deaths=((10.0, 3), (12.0, 7), (30.0, 3)),
        joins=((20.0, 3),),
    ),
}


def run(faults: Faults | None, method: Any = "dual", kind: str = "ridge", **how: Any) -> Any:
    options = {"rng": 5, "tol": 1e-8, **how}
    return network.minimize(GRID, PARTS[kind], method=method, faults=faults, **options)


# Against gossip: the dual method with f_i(w) = |w - x_i|^2 / 2 is gossip from the x_i.


@pytest.mark.parametrize("accelerated", [True, False])
def test_gossip_with_faults_is_a_special_case(accelerated: bool) -> None:
    values = np.random.default_rng(5).standard_normal(12)
    parts = Objective.of([LeastSquares([[1.0]], [v]) for v in values])
    faults = Faults(
        delay=0.1, loss=0.1, duplication=0.1, skew=0.3, deaths=((5.0, 2), (40.0, 9)), timeout=3.0
    )
    ours = network.minimize(
        GRID, parts, method=Dual(accelerated), tol=0.0, events=400, rng=3, faults=faults
    )
    gossip = network.Gossip(accelerated, damping=1.0)
    theirs = network.simulate(
        GRID, values, method=gossip, until=ours.t, tol=0.0, rng=3, faults=faults
    )
    assert ours.messages == theirs.messages
    assert ours.staleness == theirs.staleness
    np.testing.assert_allclose(ours.x[:, 0], theirs.x, rtol=0, atol=1e-13)
    assert not np.allclose(ours.x[:, 0], theirs.x[::-1], rtol=0, atol=1e-3)


# Ledgers, and solutions


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("method", ["dual", "plain-dual", "dadao"])
def test_the_ledger_closes_and_the_living_agree(method: str, name: str, kind: str) -> None:
    r = run(SETTINGS[name], method, kind)
    assert r.reached
    assert r.ledger_error < 1e-12
    if "deaths" in name:
        assert r.deaths == [(10.0, 3), (12.0, 7), (30.0, 3)]
        assert r.joins == [(20.0, 3)]
        assert np.abs(r.agreed - r.x_star).max() > 1e-3
    else:
        assert np.array_equal(r.agreed, r.x_star)
        np.testing.assert_allclose(r.x, np.tile(r.x_star, (12, 1)), rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("method", STOCHASTIC)
def test_stochastic_gradients_with_faults(method: str, name: str) -> None:
    """No worse than twice as far from the solution, in the mean over the end, as without."""
    how = {"tol": 0.0, "events": 60_000, "record": 100}
    without = run(None, method, **how).trace.error[-50:].mean()
    r = run(SETTINGS[name], method, **how)
    assert r.ledger_error < 1e-12
    assert r.trace.error[-50:].mean() < 2.0 * without


@pytest.mark.parametrize("method", METHODS)
def test_transfers_applied_twice_are_seen_in_the_ledger(method: str) -> None:
    """A planted mistake: nodes forget which transfers they have applied."""
    root = seed_sequence(0)
    chosen = network.optimisation.minimize.METHODS[method]
    errors = []
    for forget in (False, True):
        nodes = make_nodes(chosen, GRID, PARTS["ridge"])
        faults = Faults(delay=0.2 / nodes.edge_rate, loss=0.1, duplication=0.2)
        engine = MessageEngine(GRID, nodes, root, faults)
        stream = engine.make_stream(root)
        while stream.k < 1990:
            engine.advance(stream.draw(10))
            if forget:
                engine.network.rows.edge[:, APPLIED] = 0
        errors.append(engine.ledger_error())
    assert errors[0] < 1e-12
    assert errors[1] > 1e-6


# Deaths


@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_the_dead_take_what_they_had(kind: str) -> None:
    """Where the living agree, the sum of their gradients is what the dead took, with its sign."""
    faults, root, parts = Faults(deaths=((60.0, 0), (75.0, 6))), seed_sequence(2), PARTS[kind]
    for method, taken in (("dual", 1.0), ("dadao", -1.0)):
        chosen = network.optimisation.minimize.METHODS[method]
        engine = MessageEngine(GRID, make_nodes(chosen, GRID, parts), root, faults)
        stepper = OptimisationStepper(method, engine, parts, 1e-20, 10)
        Loop(stepper, engine.make_stream(root), Limits(None, 60_000)).run()
        model = engine.nodes.model
        had = 0.5 * (model.y + model.z) if method == "dual" else model.state[:, [4, 5, 5]].mean(1)
        w = stepper.find_agreement()
        assert np.abs(engine.estimate(stepper.t)[engine.alive] - w).max() < 1e-8
        slopes = np.sum([_slope(parts, i, w) for i in np.flatnonzero(engine.alive)], axis=0)
        lost = had[[0, 6]].sum(axis=0)
        assert np.abs(lost).max() > 1e-2
        np.testing.assert_allclose(slopes, -taken * lost, rtol=0, atol=1e-8)


def _slope(parts: Objective, i: int, w: np.ndarray) -> np.ndarray:
    X, y = parts.X[parts.rows(i)], parts.y[parts.rows(i)]
    u = X @ w
    slopes = u - y if parts.loss == LeastSquares.loss else -y / (1.0 + np.exp(y * u))
    return parts.scale[i] * (X.T @ slopes) + parts.l2[i] * w


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_stochastic_nodes_go_on_with_the_functions_of_the_living(kind: str) -> None:
    r = run(Faults(deaths=((50.0, 1), (60.0, 5))), A2CiD2(batch=0), kind, events=100, tol=0.0)
    parts = PARTS[kind]
    assert np.array_equal(r.agreed, r.x_star)  # nobody has died yet
    r = run(Faults(deaths=((50.0, 1), (60.0, 5))), A2CiD2(batch=0), kind, events=90_000, tol=0.0)
    living = np.setdiff1d(np.arange(12), (1, 5))

    def slope(w: np.ndarray) -> np.ndarray:
        return np.sum([_slope(parts, i, w) for i in living], axis=0)

    assert np.abs(slope(r.agreed)).max() < 1e-9
    assert np.abs(slope(r.x_star)).max() > 1e-2
    assert r.error < 1e-2  # what is left are the differences between the f_i


def test_all_die() -> None:
    r = run(Faults(deaths=tuple((5.0, i) for i in range(12))))
    assert not r.reached
    assert math.isnan(r.error)
    assert len(r.deaths) == 12


@pytest.mark.parametrize("method", ["dual", "dadao"])
def test_nodes_that_come_when_nobody_is_there(method: str) -> None:
    """All are absent at the start; or all die, and come back with nothing of their past."""
    come = tuple((50.0 + i, i) for i in range(12))
    for deaths in ((), tuple((5.0, i) for i in range(12))):
        r = run(Faults(deaths=deaths, joins=come), method)
        assert r.reached
        assert r.joins == list(come)
        assert len(r.deaths) == len(deaths)
        np.testing.assert_allclose(r.agreed, r.x_star, rtol=0, atol=1e-12)
        np.testing.assert_allclose(r.x, np.tile(r.x_star, (12, 1)), rtol=0, atol=1e-3)
        assert np.isnan(r.trace.error).any()


@pytest.mark.parametrize(
    "method", ["dual", "dadao", pytest.param(A2CiD2(batch=0), marks=pytest.mark.slow)]
)
def test_the_last_one_left_goes_on_alone(method: Any) -> None:
    r = run(Faults(deaths=tuple((5.0, i) for i in range(1, 12))), method)
    assert r.reached
    assert np.abs(r.agreed - r.x_star).max() > 0.1


def test_a_network_cut_in_two_does_not_agree() -> None:
    """Each part comes to a point of its own."""
    r = network.minimize(
        "path:12", PARTS["ridge"], faults=Faults(deaths=((5.0, 6),)), events=20_000, rng=0
    )
    assert not r.reached
    assert r.error > 1e-4
    for part in (r.x[:6], r.x[7:]):
        assert np.ptp(part, axis=0).max() < 1e-8 < np.abs(part[0] - r.agreed).max()


def test_deaths_are_those_that_took_place() -> None:
    faults = Faults(deaths=((0.0, 1), (8.0, 2)), joins=((0.0, 3),))
    r = run(faults, events=0)
    assert (r.deaths, r.joins) == ([], [])
    r = run(faults, events=1)
    assert (r.deaths, r.joins) == ([(0.0, 1)], [(0.0, 3)])


@pytest.mark.slow
def test_the_ledger_of_stochastic_nodes_that_never_exchange() -> None:
    """What they have by exchanges is nothing, but for the rounding of what gradients added."""
    r = run(Faults(delay=1e6), "a2cid2", events=2000, tol=0.0)
    assert r.messages == 0
    assert r.ledger_error < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ridge", "logistic"])
def test_deaths_in_a_run_that_diverges(kind: str) -> None:
    """Where what the dead took is not finite, there is no point to agree on, and no warning."""
    r = run(Faults(deaths=tuple((1.0, i) for i in range(1, 11))), A2CiD2(step=1e80), kind)
    assert not r.reached
    assert math.isnan(r.error)
    assert np.isnan(r.agreed).all()


def test_exchanges_that_take_too_long_are_no_solution() -> None:
    """With long delays exchanges are fewer than DADAO's constants are for: it diverges."""
    r = run(Faults(delay=0.2), "dadao", events=100_000)
    assert not r.reached
    assert not r.error < 1.0
    assert r.staleness.mean > 0.3


# Runs


@pytest.mark.parametrize("method", METHODS)
def test_same_seed_same_run_and_resumed(method: str, tmp_path: Path) -> None:
    faults, file = SETTINGS["deaths and joins"], tmp_path / "state"
    options: dict[str, Any] = {"tol": 0.0, "rng": 4, "record": 10}
    whole = run(faults, method, events=1600, **options)
    run(faults, method, events=770, checkpoint=file, **options)
    r = run(faults, method, events=1600, checkpoint=file, resume=True, **options)
    assert np.array_equal(r.x, whole.x)
    assert r.ledger_error == whole.ledger_error
    assert r.staleness == whole.staleness
    traces = (each.trace.columns.values() for each in (r, whole))
    for mine, its in zip(*traces, strict=True):
        assert np.array_equal(mine, its)
    with pytest.raises(ValueError, match="has 1536 events already, more than events = 9"):
        run(faults, method, events=9, checkpoint=file, resume=True, **options)
    with pytest.raises(ValueError, match="faults"):
        run(Faults(), method, events=1600, checkpoint=file, resume=True, **options)


@pytest.mark.parametrize(
    ("faults", "complaint"),
    [
        (0.1, "faults must be network.Faults or None, got 0.1"),
        (Faults(deaths=((1.0, 12),)), "node 12 is to die, of only 12"),
        (Faults(joins=((1.0, 12),)), "node 12 is to join, of only 12"),
        (Faults(skew=[0.1, 0.2]), "skew must have shape \\(12,\\), one for each node"),
    ],
)
def test_bad_faults(faults: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        run(faults)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"deaths": ((1.0, math.inf),)}, "deaths must be pairs of a finite time >= 0 and a node"),
        ({"joins": ((10**400, 1),)}, "joins must be pairs of a finite time >= 0 and a node"),
        ({"deaths": iter([(1.0, 1.5)])}, "deaths must be pairs of a finite time >= 0 and a node"),
        ({"law": np.array(["constant", "constant"])}, 'law must be "exponential" or "constant"'),
    ],
)
def test_faults_that_make_no_sense(given: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint) as caught:
        Faults(**given)
    assert "\n" not in str(caught.value)
