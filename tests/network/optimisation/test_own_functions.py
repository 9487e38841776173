"""Functions of the user's own: what nodes make of them, and what is said where something misses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized import network
from continuized.network import DADAO, A2CiD2, Faults
from continuized.network.optimisation import functions
from continuized.network.optimisation.functions import Functions, as_objective
from continuized.problems import HuberRegression, LeastSquares, LogisticRegression, Quadratic

RNG = np.random.default_rng(3)
X = RNG.standard_normal((40, 3))
Y = X @ [1.0, 2.0, -1.0] + 0.2 * RNG.standard_normal(40)
PARTS = [LeastSquares(X[i::4], Y[i::4], l2=0.1 * (1 + i)) for i in range(4)]
PAIRS = [(p.fun, p.grad) for p in PARTS]
CONSTANTS: dict[str, Any] = {"L": [p.L for p in PARTS], "mu": [p.mu for p in PARTS], "dim": 3}


FAULTY = Faults(loss=0.1, skew=0.3, deaths=((30.0, 1),))
SGD = A2CiD2(step=0.05, batch=0)


@pytest.mark.parametrize(
    ("method", "faults"),
    [
        (DADAO(), None),
        pytest.param(SGD, FAULTY, marks=pytest.mark.slow),
        pytest.param(DADAO(), FAULTY, marks=pytest.mark.slow),
        pytest.param(SGD, None, marks=pytest.mark.slow),
    ],
)
def test_a_python_gradient_and_a_compiled_one_make_the_same_run(method: Any, faults: Any) -> None:
    options: dict[str, Any] = {"method": method, "faults": faults, "tol": 0.0, "events": 600}
    compiled = network.minimize("cycle:4", PARTS, rng=2, **options)
    own = network.minimize("cycle:4", PAIRS, rng=2, **options, **CONSTANTS)
    assert (own.messages, own.gradients) == (compiled.messages, compiled.gradients)
    np.testing.assert_allclose(own.x, compiled.x, rtol=0, atol=1e-9)
    np.testing.assert_allclose(own.x_star, compiled.x_star, rtol=0, atol=1e-9)
    np.testing.assert_allclose(own.agreed, compiled.agreed, rtol=0, atol=1e-7)
    np.testing.assert_allclose(own.trace.error, compiled.trace.error, rtol=1e-6)
    assert own.rounding == pytest.approx(compiled.rounding, rel=1e-6)


def test_a_run_with_python_gradients_is_resumed_bit_by_bit(tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "dadao", "tol": 0.0, "rng": 4, "record": 10, **CONSTANTS}
    whole = network.minimize("cycle:4", PAIRS, events=700, **options)
    for events, resume in ((300, False), (700, True)):
        r = network.minimize(
            "cycle:4", PAIRS, events=events, checkpoint=tmp_path / "run", resume=resume, **options
        )
    np.testing.assert_array_equal(r.x, whole.x)
    with pytest.raises(cz.CheckpointError):
        network.minimize(
            "cycle:4", PAIRS[::-1], events=700, checkpoint=tmp_path / "run", resume=True, **options
        )


def test_functions_whose_gradients_at_zero_cancel_have_their_minimiser_there() -> None:
    wells = [
        (lambda w, c=c: 0.5 * (w - c) @ (w - c), lambda w, c=c: w - c) for c in (0.1, 0.2, -0.3)
    ]
    assert 0.1 + 0.2 - 0.3 != 0.0
    r = network.minimize("path:3", wells, method="dadao", dim=2, rng=0, tol=1e-8, L=1.0, mu=1.0)
    assert r.reached
    assert r.x_star.tolist() == [0.0, 0.0]


def test_any_problem_and_a_mixture_of_them() -> None:
    mixed = [
        Quadratic([1.0, 2.0, 3.0], np.array([1.0, 0.0, -1.0])),
        LeastSquares(X, Y, l2=0.2, weights=np.linspace(1.0, 2.0, 40)),
        HuberRegression(X, Y, l2=0.3),
        (lambda w: 0.5 * float(w @ w), lambda w: w),
    ]
    r = network.minimize("complete:4", mixed, method="dadao", L=1.0, mu=1.0, tol=1e-10, rng=0)
    assert r.reached
    slope = sum(f.grad(r.x_star) if isinstance(f, cz.Problem) else f[1](r.x_star) for f in mixed)
    assert np.linalg.norm(slope) < 1e-10


def test_large_sparse_regressions_stay_sparse_for_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(functions, "DENSE_UP_TO", 100)
    rows = sparse.random_array((40, 12), density=0.05, rng=np.random.default_rng(0), format="csr")
    parts = [LeastSquares(rows[10 * i : 10 * i + 10], Y[:10], l2=0.5) for i in range(4)]
    assert isinstance(as_objective(parts, sparse=True), Functions)
    dense = network.minimize("cycle:4", as_objective(parts), method="dadao", rng=0, events=400)
    kept = network.minimize("cycle:4", parts, method="dadao", rng=0, events=400)
    np.testing.assert_allclose(kept.x, dense.x, rtol=0, atol=1e-9)


def test_without_l2_where_no_theory_asks_for_it() -> None:
    bare = network.split(LeastSquares(X, Y), 20)  # two rows for three columns: f_i is flat
    r = network.minimize("cycle:20", bare, method=A2CiD2(step=0.05, batch=0), events=8000, rng=0)
    assert r.error < 0.1
    np.testing.assert_allclose(r.x_star, np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-12)
    for method in ("dual", "plain-dual", "dadao"):
        with pytest.raises(ValueError, match="node 0 is not strongly convex; give regressions"):
            network.minimize("cycle:20", bare, method=method)
    one_class = LogisticRegression(X, np.sign(X[:, 0]), l2=0.0)
    with pytest.raises(ArithmeticError, match="give l2 > 0"):
        network.minimize("cycle:4", network.split(one_class, 4), method="a2cid2")


FLAT = [(lambda w: float(w.sum()), lambda w: np.ones(3))] * 4
WRONG = [(lambda w: 0.5 * float(w @ w), lambda w: w[:2])] * 4
MISSING: dict[str, tuple[Any, dict[str, Any], str]] = {
    "conjugates": (PAIRS, {**CONSTANTS}, 'must minimise .* not for a Problem; use method="dadao"'),
    "weights": (
        [LeastSquares(X, Y, l2=0.1, intercept=True)] * 4, {}, "without weights and intercept"
    ),
    "L": (PAIRS, {"method": "dadao", "mu": 1.0, "dim": 3}, "node 0 is not known; give L="),
    "L of a2cid2": (PAIRS, {"method": "a2cid2", "dim": 3}, r"content with A2CiD2\(step="),
    "mu": (PAIRS, {"method": "dadao", "L": 1.0, "dim": 3}, "not strongly convex; give mu= > 0, or"),
    "dim": (PAIRS, {"method": "dadao", "L": 1.0, "mu": 1.0}, "variables is not known: give dim="),
    "other dim": (
        [*PARTS[:3], (PAIRS[0])], {"method": "dadao", "L": 1.0, "mu": 1.0, "dim": 2},
        r"one number of variables, got \[2, 3\]",
    ),
    "constants": (PARTS, {"L": 1.0}, "L= is for functions that do not know it"),
    "no function": ([1, 2, 3, 4], {"method": "dadao"}, "function of node 0 must be a Problem or"),
    "no list": (PARTS[0], {}, "functions must be an Objective .*, or a Problem or a pair"),
    "sizes": (PAIRS, {"method": "dadao", "L": [1.0], "mu": 1.0, "dim": 3}, "one for each node"),
    "shape": (WRONG, {"method": "dadao", "L": 1.0, "mu": 1.0, "dim": 3}, "gradient must have .*3"),
    "real": (PARTS, {"speed": 3.0}, 'speed= is of real nodes: give transport="local" or "ray"'),
    "transport": (PARTS, {"transport": "tcp"}, 'must be "simulate", "local", "ray" or network.Ray'),
    "absent": (
        PARTS, {"transport": "local", "faults": Faults(joins=((1.0, 2),))}, "all there at the start"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MISSING)
def test_what_misses_is_named_in_one_sentence(what: str) -> None:
    given, options, words = MISSING[what]
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        network.minimize("cycle:4", given, **options)
    assert "\n" not in str(caught.value)


def test_a_mean_without_a_minimiser_is_told() -> None:
    with pytest.raises(ArithmeticError, match="minimiser of the nodes' mean was not found"):
        network.minimize("cycle:4", FLAT, method=A2CiD2(step=0.1), dim=3)


def test_an_error_of_the_users_function_comes_through() -> None:
    calls = 0

    def jac(w: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls > 200:
            raise KeyError("broken")
        return w - 1.0

    pairs = [(lambda w: 0.5 * float((w - 1.0) @ (w - 1.0)), jac)] * 4
    with pytest.raises(KeyError, match="broken"):
        network.minimize("cycle:4", pairs, method="dadao", L=1.0, mu=1.0, dim=3, tol=0.0, rng=0)


def test_names_of_methods_and_transports_are_keywords() -> None:
    for call in (network.simulate, network.run, network.minimize):
        with pytest.raises(TypeError, match="positional argument"):
            call("cycle:4", PARTS, "dual")


def test_a_delay_past_the_limit_is_warned_of() -> None:
    graph, values = network.Graph.of("path:10"), np.arange(10.0)
    limit = network.delay_limit(graph)
    with pytest.warns(network.StalenessWarning, match=r'past the limit 3\.\d+ .*method="plain"'):
        network.simulate(graph, values, faults=Faults(delay=1.1 * limit), events=5, rng=0)
    network.simulate(graph, values, faults=Faults(delay=0.9 * limit), events=5, rng=0)
    parts = network.split(LeastSquares(X, Y, l2=0.1), 10)
    late = Faults(delay=30.0)
    for method, words in (("dual", "plain-dual"), ("a2cid2", "plain-sgd")):
        with pytest.warns(network.StalenessWarning, match=f'use method="{words}"'):
            network.minimize(graph, parts, method=method, faults=late, events=5, rng=0)
    network.minimize(graph, parts, method="plain-dual", faults=late, events=5, rng=0)


def test_the_dual_method_on_equal_squares_bears_what_gossip_bears() -> None:
    """f_i = |w - x_i|^2 / 2, where it is gossip without damping."""
    graph = network.Graph.of("path:10")
    squares = network.Objective.of([LeastSquares([[1.0]], [float(i)]) for i in range(10)])
    gossip = network.Gossip(damping=1.0).constants(graph)
    mine = network.Dual().find_gossip_constants(graph, squares)
    np.testing.assert_allclose(mine, gossip, rtol=1e-12)
    a2 = A2CiD2(communications=0.1)  # all edges together tick once in a unit of t
    assert math.isclose(a2.edge_rate(graph), 1.0)
