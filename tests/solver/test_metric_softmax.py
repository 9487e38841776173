"""Metrics of softmax regressions: the Hessian and its blocks, and runs in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.process.random_streams import seed_sequence
from continuized.solver.metric_factory import (
    FEW_CLASSES,
    _outer,
    blocks,
    gram,
    make_factory,
    nystrom,
)
from tests.helpers.metric_problems import RNG
from tests.helpers.weighted_regressions import CLASSES, EXTRAS, FORMS, make

pytestmark = pytest.mark.blas

NAMED = ("auto", "gram", "blocks", "nystrom", "diag")


def hessian(p: Any, w: np.ndarray) -> np.ndarray:
    """Row by row from its definition, mean of (a a^T) x (diag(p) - p p^T), and l2."""
    X = p.X.toarray() if p.is_sparse else p.X
    A = np.column_stack([X, np.ones(len(X))]) if p.intercept else X
    weights = np.ones(len(X)) if p.weights is None else p.weights
    scores = A @ w.reshape(-1, p.classes)
    total = np.zeros((p.dim, p.dim))
    for a, s, weight in zip(A, scores, weights / weights.sum(), strict=True):
        q = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
        total += weight * np.kron(np.outer(a, a), np.diag(q) - np.outer(q, q))
    return total + p.l2 * np.diag(np.repeat(np.arange(A.shape[1]) < X.shape[1], p.classes))


def shift(p: Any) -> np.ndarray:
    """The projection onto steps that are the same in all classes, of what has no penalty."""
    free = np.array([p.l2 == 0.0] * p.X.shape[1] + [True] * p.intercept, dtype=float)
    return np.kron(np.diag(free), np.full((p.classes, p.classes), 1.0 / p.classes))


@pytest.mark.parametrize("l2", [0.0, 0.2])
@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
def test_the_gram_matrix_is_the_hessian(
    form: str, weighted: bool, intercept: bool, l2: float
) -> None:
    """Along common shifts, which the Hessian does not see, it is that of a single loss."""
    p = make("softmax", form, weighted, intercept, l2)
    w = RNG(3).standard_normal(p.dim)
    H, P = hessian(p, w), gram(p, w, RNG(0))
    steps = 1e-5 * np.eye(p.dim)
    slopes = [(p.grad(w + s) - p.grad(w - s)) / 2e-5 for s in steps]
    np.testing.assert_allclose(slopes, H, atol=1e-9)
    unseen = np.diag(np.repeat(p.coordinate_L, CLASSES)) @ shift(p)
    np.testing.assert_allclose(P, H + unseen, atol=1e-13)
    np.testing.assert_allclose(P, P.T, atol=1e-16)


@pytest.mark.parametrize("classes", [1, FEW_CLASSES, FEW_CLASSES + 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_times_factors_are_those_of_kronecker(classes: int, dtype: Any) -> None:
    rows, factors = RNG(5).standard_normal((9, 4)).astype(dtype), RNG(6).random((9, classes))
    products = [np.kron(row, each) for row, each in zip(rows, factors, strict=True)]
    np.testing.assert_array_equal(_outer(rows, factors), products)
    assert _outer(rows, factors).dtype == np.float64


@pytest.mark.parametrize("form", FORMS)
def test_blocks_are_the_hessian_where_all_rows_are_alike(form: str) -> None:
    p = make("softmax", form, True, True)
    w = np.zeros((p.variables, CLASSES))
    w[-1] = [0.3, -1.0, 2.0, 0.0]  # intercepts alone: the same probabilities in every row
    P = gram(p, w.ravel(), RNG(0))
    v = RNG(4).standard_normal(p.dim)
    np.testing.assert_allclose(blocks(p, w.ravel(), RNG(0)).solve(P @ v), v, rtol=1e-9, atol=1e-9)


def test_blocks_are_those_of_the_hessian_along_their_directions() -> None:
    p = make("softmax", "dense", True, True)
    w = RNG(3).standard_normal(p.dim)
    metric: Any = blocks(p, w, RNG(0))
    H = gram(p, w, RNG(0)).reshape(p.variables, CLASSES, p.variables, CLASSES)
    for u in metric._directions.T:
        block = np.einsum("ikjl,k,l->ij", H, u, u)
        v = RNG(4).standard_normal(p.variables)
        step = metric.solve(np.outer(block @ v, u))
        np.testing.assert_allclose(step, np.outer(v, u), rtol=1e-8, atol=1e-9)


def test_a_sketch_by_drawn_labels_is_close_to_the_hessian() -> None:
    p = make("softmax", "dense", False, False, 0.05, n=2000, d=3)
    w = 0.5 * RNG(3).standard_normal(p.dim)
    P = np.linalg.inv(nystrom(p, w, RNG(0)).solve(np.eye(p.dim).reshape(p.dim, -1)))
    H = hessian(p, w)
    across = np.linalg.eigh(H)[1][:, 3:]  # the first three are common shifts: l2 alone
    ratios = np.linalg.eigvals(np.linalg.solve(across.T @ H @ across, across.T @ P @ across)).real
    # 120 rows for 9 directions: (1 +- sqrt(9 / 120))^2; the rest is the least value of the sketch.
    assert ratios.min() > 0.4
    assert ratios.max() < 2.2


def newton(p: Any) -> tuple[np.ndarray, float]:
    w = np.zeros(p.dim)
    for _ in range(40):
        step = np.linalg.lstsq(hessian(p, w), p.grad(w), rcond=1e-12)[0]
        while p.fun(w - step) > p.fun(w) + 1e-14:
            step *= 0.5
        w = w - step
    assert np.linalg.norm(p.grad(w)) < 1e-12
    return w, p.fun(w)


@pytest.mark.parametrize("metric", NAMED)
@pytest.mark.parametrize("form", FORMS)
def test_runs_find_the_minimum(form: str, metric: str) -> None:
    """From a start that is not centred: the penalty takes out its common part, but no intercept's,
    along which nothing moves."""
    p = make("softmax", form, True, True, 0.01)
    star, best = newton(p)
    start = np.ones((p.variables, CLASSES)) + RNG(5).standard_normal((p.variables, CLASSES))
    r = cz.minimize(p, start, metric=metric, tol=1e-9, rng=0)
    assert r.success
    assert -1e-14 <= r.fun - best <= 1e-12
    centred = r.x[-1] - r.x[-1].mean()
    np.testing.assert_allclose(r.x[:-1], star.reshape(-1, CLASSES)[:-1], atol=1e-5)
    np.testing.assert_allclose(centred, star[-CLASSES:] - star[-CLASSES:].mean(), atol=1e-5)
    assert r.x[-1].mean() == pytest.approx(start[-1].mean(), rel=1e-12)


@pytest.mark.parametrize("metric", NAMED)
def test_flat_places_empty_columns_and_a_single_class(metric: str) -> None:
    p = make("softmax", "dense", False, True, 1e-3)
    best = newton(p)[1]
    # Far away every loss is a straight line.
    far = cz.minimize(p, 1e3 * RNG(0).standard_normal(p.dim), metric=metric, tol=1e-8, rng=0)
    assert far.fun == pytest.approx(best, rel=1e-7)
    X = p.X.copy()
    X[:, 2] = 0.0
    for data in (X, sparse.csr_array(X), 0.0 * X):
        empty = cz.problems.SoftmaxRegression(data, p.y, l2=0.0, classes=CLASSES)
        r = cz.minimize(empty, np.ones((5, CLASSES)), metric=metric, rng=0)
        assert r.success
        np.testing.assert_array_equal(r.x[2], 1.0)
    one = cz.problems.SoftmaxRegression(X, np.zeros(len(X)), l2=0.1)
    assert cz.minimize(one, np.ones(5), metric=metric, tol=1e-9, rng=0).fun <= 1e-8


def softmax(n: int, d: int, classes: int) -> Any:
    return cz.problems.SoftmaxRegression(RNG(0).standard_normal((n, d)), np.arange(n) % classes)


def test_which_kind_of_metric_is_made() -> None:
    small, large = softmax(40, 3, 3), softmax(10_000, 100, 20)
    for p in (small, large):
        factory = make_factory("auto", p, seed_sequence(0))
        due = factory.steps["gram"]
        assert (factory.kind, factory.first_kind) == ("gram", "blocks")
        assert factory.next_kind("blocks", int(due) + 1, 0.5) == "gram"
        assert factory.next_kind("blocks", int(due) + 1, 0.01) == "blocks"  # f falls quickly
        assert factory.next_kind("blocks", int(due) - 1, 0.5) == "blocks"  # it costs too much
        assert factory.next_kind("gram", int(due) - 1, 0.01) == "gram"
    assert make_factory("auto", small, seed_sequence(0)).steps["gram"] < 10.0 < due
    for shape, kind in (((50, 400, 10), "blocks"), ((30, 2000, 3), "nystrom")):
        factory = make_factory("auto", softmax(*shape), seed_sequence(0))
        assert factory.kind == factory.first_kind == factory.next_kind(kind, 1000, 1.0) == kind
    asked = make_factory("gram", softmax(50, 400, 10), seed_sequence(0))
    assert asked.next_kind("blocks", 10**9, 1.0) == "blocks"  # of 4000^2 entries and more


def test_a_run_takes_the_hessian_where_blocks_are_slow() -> None:
    """Three classes that are nearly apart: the mean of the C_i is that of no row."""
    X = np.vstack([RNG(k).standard_normal((50, 4)) + 2.5 * np.eye(4)[k] for k in range(3)])
    p = cz.problems.SoftmaxRegression(X * [1.0, 10.0, 0.1, 3.0], np.arange(150) // 50, 1e-7)
    steps = {}
    for metric in ("gram", "blocks"):
        r = cz.minimize(p, np.zeros(p.dim), metric=metric, tol=1e-12, maxiter=3000, rng=0)
        steps[metric] = r.nit
        assert r.success
    assert steps["gram"] < 60 < steps["blocks"]
