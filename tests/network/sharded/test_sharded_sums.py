"""What a sharded problem says is what the problem with all rows says, to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.network import Sharded
from continuized.problems.regression.gap import bound_gap, sum_intercept_curvatures
from continuized.solver import metric_factory as metric
from tests.helpers.shards import cut, without_processes
from tests.helpers.weighted_regressions import EXTRAS, FORMS, KINDS, data, make

# Sums of 37 terms of size 1 or so, taken in another order: 37 eps of each, and some room.
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-13}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    without_processes(monkeypatch)


@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_all_rows(kind: str, form: str, weighted: bool, intercept: bool) -> None:
    whole = make(kind, form, weighted, intercept)
    p = Sharded(cut(whole, 10, 13))
    w = 0.3 * np.random.default_rng(0).standard_normal(whole.dim)
    f, g = whole.value_and_gradient(w)
    assert p.fun(w) == pytest.approx(f, rel=1e-13)
    assert p.value_and_gradient(w)[0] == pytest.approx(f, rel=1e-13)
    for found in (p.grad(w), p.value_and_gradient(w)[1]):
        np.testing.assert_allclose(found, g, **CLOSE)
    for name in ("column_scales", "column_means", "coordinate_L", "square_sums"):
        np.testing.assert_allclose(getattr(p, name), getattr(whole, name), **CLOSE)
    for name in ("mu", "least_loss", "typical_curvature", "density", "dim", "loss", "classes"):
        assert getattr(p, name) == pytest.approx(getattr(whole, name), rel=1e-11), name
    if kind == "poisson":
        assert p.L is None
    else:
        np.testing.assert_allclose(p.L, whole.L, rtol=1e-12)
    assert bound_gap(p, w, 0.01) == pytest.approx(bound_gap(whole, w, 0.01), rel=1e-9)
    if kind != "softmax":
        np.testing.assert_allclose(p.hessian_block(w), whole.hessian_block(w), **CLOSE)
        if intercept:
            along = p.sum_over_rows(sum_intercept_curvatures, w)[0, 0] / p.row_count
            assert along == pytest.approx(whole.hessian_block(w)[-1, -1], rel=1e-12)
        some = np.array([0, 2, whole.dim - 1])
        np.testing.assert_allclose(p.hessian_block(w, some), whole.hessian_block(w, some), **CLOSE)
    index = np.array([0, 9, 10, 12, 13, 20, 36])
    for mine, theirs in zip(
        p.sample_curvatures(w, index), whole.sample_curvatures(w, index), strict=True
    ):
        mine, theirs = (a.toarray() if sparse.issparse(a) else a for a in (mine, theirs))
        np.testing.assert_allclose(mine, theirs, **CLOSE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_metrics_of_samples_take_the_same_rows(
    kind: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So few rows a variable that a sample has some rows of each shard."""
    monkeypatch.setattr(metric, "SAMPLE", 2)
    monkeypatch.setattr(metric, "_sample_size", lambda p, size: 2 * int(p.variables))
    whole = make(kind, form, True, True)
    p = Sharded(cut(whole, 10, 13))
    w = 0.3 * np.random.default_rng(0).standard_normal(whole.dim)
    mine, theirs = (metric.gram(q, w, np.random.default_rng(1)) for q in (p, whole))
    np.testing.assert_allclose(mine, theirs, **CLOSE)
    g = np.random.default_rng(2).standard_normal(whole.dim)
    makers = [metric.nystrom] + [metric.blocks] * (kind == "softmax")
    for make_metric in makers:
        mine, theirs = (make_metric(q, w, np.random.default_rng(1)).solve(g) for q in (p, whole))
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)  # factors of condition 1e3 or so


def test_wide_rows_bound_the_spectrum() -> None:
    X, y, _ = data("squared", n=8, d=12)
    whole = cz.problems.LeastSquares(X, y, l2=0.1)
    p = Sharded(cut(whole, 3))
    exact = np.linalg.eigvalsh(X.T @ X / 8)[-1] + 0.1
    assert exact <= p.L <= 1.06 * exact
    assert p.mu == pytest.approx(0.1)


def test_norms_bound_the_spectrum_where_they_are_closer() -> None:
    """Of two blocks of equal rows, |X|_1 |X|_inf / n is the largest eigenvalue itself, and half of
    the trace."""
    X = np.kron(np.eye(2), np.ones((2, 6)))
    p = Sharded(cut(cz.problems.LeastSquares(X, np.zeros(4)), 1, 3))
    assert p.spectrum.how == "norms"
    assert 3.0 <= p.spectrum.largest <= 3.0 * (1.0 + 1e-12)


@pytest.mark.parametrize("name", ["auto", "diag", "gram", "nystrom", None])
def test_runs_end_at_the_minimum_of_all_rows(name: str | None) -> None:
    whole = make("logistic", "dense", True, False, l2=0.01, n=300)
    p = Sharded(cut(whole, 100, 150))
    r = cz.minimize(p, np.zeros(p.dim), metric=name, tol=1e-10, rng=0)
    assert r.success
    # With a metric the gap is at most tol, without one |g|, which is 0.01 |x - x*| at least.
    assert 0.0 <= r.fun - whole.f_star + 1e-15 <= 1e-10
    np.testing.assert_allclose(r.x, whole.x_star, atol=2e-4)


def test_auto_says_why_and_takes_the_same_steps() -> None:
    whole = make("logistic", "dense", False, True, n=300)
    p = Sharded(cut(whole, 100, 150))
    mine, theirs = (
        cz.minimize(q, np.zeros(q.dim), method="auto", tol=1e-8, rng=0) for q in (p, whole)
    )
    assert (mine.nit, mine.message) == (theirs.nit, theirs.message)
    np.testing.assert_allclose(mine.x, theirs.x, rtol=1e-9)


def test_l1_finds_the_same_zeros() -> None:
    whole = make("squared", "dense", False, False, n=300, l2=0.0)
    p = Sharded(cut(whole, 100, 150))
    how: Any = {"method": "auto", "prox": cz.prox.L1(0.2), "tol": 1e-10, "rng": 0}
    mine, theirs = (cz.minimize(q, np.zeros(q.dim), **how) for q in (p, whole))
    assert np.array_equal(mine.x == 0.0, theirs.x == 0.0)
    assert np.any(mine.x == 0.0)
    np.testing.assert_allclose(mine.x, theirs.x, atol=1e-9)


def test_wide_rows_take_neither_the_dual_nor_the_space_of_the_rows() -> None:
    X, y, _ = data("squared", n=20, d=400)
    whole = cz.problems.LeastSquares(X, y, l2=0.5)
    r = cz.minimize(Sharded(cut(whole, 7)), np.zeros(400), method="auto", tol=1e-10, rng=0)
    assert 'metric="gram"' in r.message
    assert r.fun - whole.f_star <= 1e-10


def test_data_that_can_be_separated_have_no_minimum() -> None:
    X = np.array([[1.0], [2.0], [3.0], [-1.0]])
    whole = cz.problems.LogisticRegression(X, np.sign(X[:, 0]), l2=0.0)
    p = Sharded(cut(whole, 2))
    assert p.is_separated_by([1.0])
    assert not p.is_separated_by([-1.0])
    r = cz.minimize(p, np.zeros(1), tol=1e-30, maxiter=3000, rng=0)
    assert "separates the data" in r.message


def test_float32_and_shapes_stay() -> None:
    whole = make("softmax", "dense", False, True)
    p = Sharded(cut(whole, 11))
    W = np.zeros((p.variables, p.classes), np.float32)
    f, g = p.value_and_gradient(W)
    assert (g.dtype, g.shape) == (np.float32, W.shape)
    assert f == pytest.approx(whole.fun(W))


def test_classes_that_one_part_lacks_are_joined() -> None:
    X, y, _ = data("softmax")
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    whole = cz.problems.SoftmaxRegression(X, y, l2=0.1)
    first = int(np.searchsorted(y, 2.0))
    kind = cz.problems.SoftmaxRegression
    p = Sharded([kind(X[:first], y[:first], l2=0.1), kind(X[first:], y[first:], l2=0.1)])
    assert p.classes == whole.classes
    W = np.random.default_rng(0).standard_normal(whole.dim)
    np.testing.assert_allclose(p.grad(W), whole.grad(W), **CLOSE)


def test_weights_of_some_parts_are_1_in_the_others() -> None:
    X, y, weights = data("squared")
    kind = cz.problems.LeastSquares
    p = Sharded([kind(X[:10], y[:10], weights=weights[:10]), kind(X[10:], y[10:])])
    whole = kind(X, y, weights=np.concatenate([weights[:10], np.ones(27)]))
    w = np.ones(p.dim)
    np.testing.assert_allclose(p.grad(w), whole.grad(w), **CLOSE)
