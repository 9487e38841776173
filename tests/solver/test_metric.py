"""Metrics: their algebra, the curvature they are made from, and those that are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize_scalar

import continuized as cz
from continuized.process import clock
from continuized.process.random_streams import seed_sequence
from continuized.process.stepper import Limits, Progress
from continuized.solver import metric_factory
from continuized.solver.loop import Loop
from continuized.solver.metric import Dense, Diagonal, LowRank, Secant
from continuized.solver.metric_factory import blocks, gram, make_factory, nystrom
from continuized.solver.steppers.adaptive import AdaptiveOptions, AdaptiveStepper
from continuized.support.checkpoints.state import capture
from tests.helpers.metric_problems import RNG, definite, regression

pytestmark = pytest.mark.blas


def hessian(p: Any, w: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """By central differences of the gradient."""
    return np.array([(p.grad(w + h * e) - p.grad(w - h * e)) / (2 * h) for e in np.eye(w.size)])


# The algebra


@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 3), (5, 2, 2)])
@pytest.mark.parametrize("kind", ["diagonal", "dense", "low rank"])
def test_solve(kind: str, shape: tuple[int, ...]) -> None:
    U = np.linalg.qr(RNG(1).standard_normal((5, 2)))[0]
    entries = np.linspace(0.5, 3.0, 5)
    metric, P = {
        "diagonal": (Diagonal(entries), np.diag(entries)),
        "dense": (Dense(definite(5)), definite(5)),
        "low rank": (
            LowRank(U, np.array([7.0, 3.0]), 2.0),
            2.0 * np.eye(5) + U @ np.diag([5.0, 1.0]) @ U.T,
        ),
    }[kind]
    v = RNG(2).standard_normal(shape)
    Pv = np.tensordot(P, v, axes=1)
    np.testing.assert_allclose(metric.solve(Pv), v, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("form", ["dense", "csr", "unsorted"])
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_the_gram_matrix_of_all_rows_is_the_hessian(kind: str, form: str, l2: float) -> None:
    p = regression(kind, form, l2, n=70)  # fewer than ten rows a variable: all are taken
    w = RNG(3).standard_normal(8)
    P = gram(p, w, RNG(0))
    np.testing.assert_allclose(P, hessian(p, w), atol=2e-9)
    np.testing.assert_array_equal(P, P.T)


def test_large_sparse_data_are_added_up_in_parts() -> None:
    p = regression("logistic", "csr", n=2000, d=5)
    P = gram(p, np.ones(5), RNG(0))
    np.testing.assert_allclose(P, hessian(p, np.ones(5)), atol=2e-9)


def test_a_sampled_gram_matrix_is_close() -> None:
    p = regression("logistic", n=40_000, d=60)  # too much for all rows
    w = 0.1 * np.ones(60)
    ratio = np.linalg.eigvals(np.linalg.solve(hessian(p, w), gram(p, w, RNG(0)))).real
    # 600 rows for 60 variables: (1 +- sqrt(0.1))^2, and some more for entries that are sparse.
    assert 0.3 < ratio.min() < 0.95 < 1.05 < ratio.max() < 2.2


def test_the_sketch_has_the_large_directions() -> None:
    p = regression("squared", l2=0.1)  # 8 variables, 32 rows: the sketch has all directions
    w = np.zeros(8)
    P = np.linalg.inv(nystrom(p, w, RNG(0)).solve(np.eye(8)))
    vectors = np.linalg.eigh(hessian(p, w))
    for value, v in zip(vectors[0], vectors[1].T, strict=True):
        assert v @ P @ v == pytest.approx(value, rel=0.9)
    wide = regression("squared", l2=0.1, n=6, d=9)  # all rows, and fewer than variables
    H, metric = hessian(wide, np.zeros(9)), nystrom(wide, np.zeros(9), RNG(0))
    np.testing.assert_allclose(np.linalg.inv(metric.solve(np.eye(9))), H, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse", "float32"])
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_the_space_of_the_rows_has_the_same_metric(
    kind: str, form: str, weighted: bool, intercept: bool
) -> None:
    rng = RNG(3)
    X = rng.standard_normal((7, 12)).astype(np.float32).astype(np.float64)
    make: Any = cz.problems.LeastSquares if kind == "squared" else cz.problems.LogisticRegression
    given = {"dense": X, "sparse": sparse.csr_array(X), "float32": X.astype(np.float32)}[form]
    weights = rng.uniform(0.5, 2.0, 7) if weighted else None
    p = make(given, np.sign(X[:, 0]), 0.3, weights=weights, intercept=intercept)
    w = 0.2 * rng.standard_normal(p.dim)
    factory = make_factory("auto", p, seed_sequence(0))
    assert (factory.kind, factory.first_kind) == ("rows", "rows")
    metric = factory.build(w, 0, "rows")
    H = p.hessian_block(w)
    for g in rng.standard_normal((3, p.dim)):
        np.testing.assert_allclose(metric.solve(g), np.linalg.solve(H, g), rtol=1e-9, atol=1e-10)
    # A quadratic in the norm of its Hessian is solved by the first step.
    r = cz.minimize(p, np.zeros(p.dim), metric="auto", tol=1e-9, rng=0)
    assert r.success
    assert r.nit == 2 or kind == "logistic"
    chosen = cz.minimize(p, np.zeros(p.dim), method="auto", tol=1e-9, rng=0)
    assert (
        'metric="rows": the Hessian is cheap to factorise in the space of its 7' in chosen.message
    )
    # Where the penalty is too small to divide by, the other space is used.
    assert make_factory("auto", make(X, p.y, 1e-12), seed_sequence(0)).kind == "gram"


def test_a_secant_metric_maps_the_last_changes() -> None:
    rng = RNG(0)
    H = definite(6)
    steps = rng.standard_normal((4, 6))
    metric = Secant(Diagonal(np.arange(1.0, 7.0)), [(s, H @ s) for s in steps], 10)
    np.testing.assert_allclose(metric.solve(H @ steps[-1]), steps[-1], rtol=1e-12)
    inverse = np.array([metric.solve(e) for e in np.eye(6)])
    np.testing.assert_allclose(inverse, inverse.T, rtol=0.0, atol=1e-12)
    assert np.linalg.eigvalsh(inverse)[0] > 0.0
    # On a quadratic, with as many conjugate steps as variables, it is the Hessian.
    values, vectors = np.linalg.eigh(H)
    changes = [(v, value * v) for value, v in zip(values, vectors.T, strict=True)]
    whole = Secant(Diagonal(np.ones(6)), changes, 10)
    inverse = np.array([whole.solve(e) for e in np.eye(6)])
    np.testing.assert_allclose(inverse, np.linalg.inv(H), atol=1e-12)
    # A pair that shows no curvature is left out.
    pairs = [(steps[0], H @ steps[0]), (steps[1], -steps[1])]
    bent = Secant(Diagonal(np.ones(6)), pairs, 10)
    alone = Secant(Diagonal(np.ones(6)), pairs[:1], 10)
    direction = bent.solve(steps[2]) / alone.solve(steps[2])
    assert np.isfinite(direction).all()


def test_a_secant_metric_learns_one_change_after_the_other() -> None:
    """To the bits of one that is made of the last ones: a run that is resumed makes it so."""
    rng, base = RNG(3), Diagonal(np.arange(1.0, 7.0))
    H, steps, g = definite(6), rng.standard_normal((12, 6)), rng.standard_normal(6)
    pairs = [(s, H @ s) for s in steps]
    metric = Secant(base, pairs[:1], 3)
    for last in range(2, 13):
        metric.learn(*pairs[last - 1])
        again = Secant(base, pairs[max(last - 3, 0) : last], 3)
        assert metric.solve(g).tolist() == again.solve(g).tolist()
        assert metric.solve(g).tolist() == Secant(base, pairs[:last], 3).solve(g).tolist()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "poisson", "softmax"])
def test_the_first_step_goes_near_to_where_f_is_least_along_it(
    kind: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the diagonal's norm 1/L is far below 1: all columns of a wide X depend on each other."""
    rng = RNG(5)
    X, y = rng.standard_normal((60, 900)), rng.integers(0, 3, 60).astype(np.float64)
    options = {"weights": rng.random(60) if weighted else None, "intercept": True}
    if kind == "softmax":
        p: Any = cz.problems.SoftmaxRegression(X, y, 0.05, **options)
    elif kind == "poisson":
        p = cz.problems.PoissonRegression(X, y, 0.05, **options)
    else:
        p = cz.problems.LogisticRegression(X, np.sign(y - 0.5), 0.05, **options)
    factory = make_factory("auto", p, seed_sequence(0), learns=True)
    assert factory.first_kind == "diag"
    for w in (np.zeros(p.dim), 0.01 * rng.standard_normal(p.dim)):
        g = p.grad(w)
        q = factory.build(w, 0, "diag").solve(g)
        L = factory.find_first_L(w, g, q)
        best = minimize_scalar(lambda t, w=w, q=q: p.fun(w - t * q), bracket=(0.0, 1.0 / L))
        assert L > 2.0
        assert 0.4 * best.x < 1.0 / L < 1.1 * best.x
        with monkeypatch.context() as patch:  # with the curvature of the first point alone
            patch.setattr(metric_factory, "LENGTHS", 1)
            first = factory.find_first_L(w, g, q)
        along = (p.grad(w + 1e-5 * q) - p.grad(w - 1e-5 * q)) @ q / 2e-5
        assert first == pytest.approx(along / (g @ q), rel=1e-6)
        if kind != "poisson":  # of which the curvature is the same, about, all along
            assert p.fun(w - q / L) < p.fun(w - q / first)


@pytest.mark.parametrize("events", [5, 11])
@pytest.mark.parametrize("kind", ["logistic", "poisson", "softmax"])
def test_a_run_that_learns_its_metric(kind: str, events: int) -> None:
    """It finds the minimum, turns to Hessians where it is slow, and can be resumed."""
    rng = RNG(1)
    X = rng.standard_normal((300, 5)) @ np.diag([1.0, 3.0, 10.0, 0.1, 1.0])
    X[:, 4] = X[:, 0] + 1e-3 * X[:, 4]
    y = rng.integers(0, 3, 300).astype(np.float64)
    if kind == "softmax":
        p: Any = cz.problems.SoftmaxRegression(X, y, 1e-5, intercept=True)
    elif kind == "poisson":
        p = cz.problems.PoissonRegression(X / 20.0, y, 1e-5, intercept=True)
    else:
        p = cz.problems.LogisticRegression(X, np.sign(y - 0.5), 1e-5, intercept=True)

    def prepare(maxiter: int) -> tuple[AdaptiveStepper, Loop]:
        factory = make_factory("auto", p, seed_sequence(0), learns=True)
        stepper = AdaptiveStepper(p, np.zeros(p.dim), AdaptiveOptions(1e-9, factory=factory))
        return stepper, Loop(stepper, clock.Poisson(0).stream(), Limits(1e-9, maxiter))

    stepper, loop = prepare(200)
    assert (stepper.metric.kind, stepper.evaluator.correct) == ("diag", None)
    assert loop.run().success
    # Two columns are nearly the same: what is learnt beside the diagonal is not enough.
    assert stepper.metric.kind == ("blocks" if kind == "softmax" else "gram")
    assert stepper.metric.count in (2, 3)
    assert isinstance(stepper.evaluator.metric, Secant)
    assert stepper.k < 30
    best = cz.minimize(p, np.zeros(p.dim), metric="gram", tol=1e-10, rng=0)
    assert stepper.end.f == pytest.approx(best.fun, rel=1e-9)
    # From a state beside the diagonal, or the Hessian, the rest is the same to the last bit.
    _, begun = prepare(events)
    begun.run()
    second, rest = prepare(200)
    second.begin()
    rest.restore(*capture(begun))
    second.begin = lambda: Progress()  # type: ignore[method-assign]
    rest.run()
    np.testing.assert_array_equal(second.end.y, stepper.end.y)


def test_a_run_on_sparse_rows_begins_with_the_diagonal() -> None:
    """And goes to the whole Hessian where that is slow; as exact as a direct solution."""
    rng = RNG(0)
    alone = sparse.random_array((1800, 600), density=0.005, rng=rng, format="csr")
    chain = sparse.diags_array([1.0, -0.999], offsets=[0, 1], shape=(600, 600), format="csr")
    for X, made in ((alone, 1), (sparse.vstack([chain] * 3, format="csr"), 2)):
        p = cz.problems.LeastSquares(X, rng.standard_normal(1800), 1e-6)
        assert make_factory("auto", p, seed_sequence(0)).first_kind == "diag"
        for method in ({"method": "auto"}, {"metric": "gram"}):
            r = cz.minimize(p, np.zeros(600), tol=1e-14, rng=0, **method)
            assert r.success
            assert r.constants["metrics_made"] == made or method != {"method": "auto"}
            np.testing.assert_allclose(r.x, p.x_star, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_in_the_space_of_the_rows_are_the_same(weighted: bool) -> None:
    rng = RNG(2)
    X, y = rng.standard_normal((9, 14)), np.arange(9) % 3
    weights = rng.uniform(0.5, 2.0, 9) if weighted else None
    p = cz.problems.SoftmaxRegression(X, y, 0.2, weights=weights, intercept=True)
    w, g = 0.3 * rng.standard_normal(p.dim), rng.standard_normal(p.dim)
    by_columns = blocks(p, w, RNG(0)).solve(g)
    by_rows = make_factory("blocks", p, seed_sequence(0)).build(w, 0, "blocks").solve(g)
    np.testing.assert_allclose(by_rows, by_columns, rtol=1e-9, atol=1e-10)


# Bad input


class Own:
    def __init__(self, solve: Any) -> None:
        self.solve = solve


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"metric": np.ones(4)}, ValueError, r"4 variables, but x0 has shape \(3,\)"),
        ({"metric": np.ones(1)}, ValueError, "1 variables"),
        ({"metric": np.eye(2)}, ValueError, "2 variables"),
        ({"metric": Diagonal(np.ones(6))}, ValueError, "6 variables"),
        ({"metric": np.ones((2, 3))}, ValueError, r"square matrix, got shape \(2, 3\)"),
        ({"metric": np.ones((3, 3))}, ValueError, "positive definite"),
        (
            {"metric": np.triu(np.ones((3, 3)))},
            ValueError,
            r"symmetric, but metric\[0, 1\] is 1.0 and metric\[1, 0\] is 0.0; give",
        ),
        ({"metric": np.full((3, 3), math.nan)}, ValueError, "finite"),
        ({"metric": [1.0, math.nan, 1.0]}, ValueError, "finite and > 0"),
        ({"metric": [1.0, 0.0, 1.0]}, ValueError, "finite and > 0"),
        ({"metric": ["a", "b", "c"]}, TypeError, "real numbers"),
        ({"metric": 3.0}, TypeError, "metric must be None"),
        ({"metric": Diagonal}, TypeError, "metric must be None"),
        (
            {"metric": "newton"},
            ValueError,
            'metric must be "diag", "gram", "rows", "blocks", "nystrom", "auto", an array or',
        ),
        ({"metric": "gram"}, ValueError, "made from the data of a regression, got a Problem"),
        ({"metric": Own(lambda g: g[:2])}, ValueError, r"shape of g, \(3,\)"),
        ({"metric": Own(lambda g: -g)}, ValueError, "positive definite"),
        ({"metric": np.ones(3), "method": "nesterov"}, ValueError, 'method="continuized"'),
        ({"metric": np.ones(3), "mu": 0.1}, ValueError, "mu without L"),
        ({"mu": 0.1}, ValueError, "mu without L"),
    ],
)
def test_bad_metrics(options: dict[str, Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        cz.minimize(lambda x: (0.5 * float(x @ x), x), np.ones(3), jac=True, **options)


def test_the_space_of_the_rows_needs_a_penalty_and_one_output() -> None:
    X, y = np.eye(2, 3), [0.0, 1.0]
    for p in (cz.problems.LeastSquares(X, y), cz.problems.SoftmaxRegression(X, y, l2=1.0)):
        with pytest.raises(ValueError, match="of one output and l2 > 0, by which it divides; use"):
            cz.minimize(p, np.zeros(p.dim), metric="rows")


def test_constants_in_a_metric_that_changes() -> None:
    with pytest.raises(ValueError, match="not known in a metric that is made on the way"):
        cz.minimize(regression("squared"), np.ones(8), metric="gram", L=1.0)


def test_a_metric_of_the_users_own() -> None:
    own = Own(lambda g: np.divide(g, [1.0, 2.0, 4.0], out=g))  # writes into what it is given
    fun = lambda x: (0.5 * float(x @ (x * [1.0, 2.0, 4.0])), x * [1.0, 2.0, 4.0])  # noqa: E731
    r = cz.minimize(fun, np.ones(3), jac=True, metric=own, rng=0)
    same = cz.minimize(fun, np.ones(3), jac=True, metric=[1.0, 2.0, 4.0], rng=0)
    np.testing.assert_array_equal(r.x, same.x)
