"""Weights and intercepts of the regressions: values, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.problems.kernels import BLOCK, MOST_ROWS, pass_over_rows
from continuized.problems.losses import LOGISTIC
from continuized.problems.regression import linear, models
from continuized.problems.sparse_rows import arrange
from continuized.support import threads
from tests.helpers.weighted_regressions import (
    CLASSES,
    EXTRAS,
    FORMS,
    KINDS,
    OPTIONS,
    by_definition,
    data,
    make,
)

COMPILED = [kind for kind in KINDS if kind != "softmax"]


@pytest.fixture(params=[1, 3])
def parts(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """A pass cut into so many parts, however small the data."""
    monkeypatch.setattr(linear, "LARGE", 0)
    if request.param > 1:
        monkeypatch.setattr(models, "BLOCK", 1)
        monkeypatch.setattr(models, "LEAST_ROWS", 4)
    monkeypatch.setattr(threads, "count", lambda: request.param)
    return int(request.param)


@pytest.mark.blas
@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_against_the_definition(
    kind: str, form: str, weighted: bool, intercept: bool, parts: int
) -> None:
    for n in (1, 7, 8, 37):
        p = make(kind, form, weighted, intercept, n=n)
        w = np.random.default_rng(1).standard_normal(p.dim)
        f = by_definition(p, kind, w)
        value, gradient = p.value_and_gradient(w)
        assert value == pytest.approx(f, rel=1e-13)
        assert p.fun(w) == pytest.approx(f, rel=1e-13)
        steps = 1e-5 * np.eye(p.dim)
        slopes = [
            (by_definition(p, kind, w + s) - by_definition(p, kind, w - s)) / 2e-5 for s in steps
        ]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(p.grad(w), gradient, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", COMPILED)
@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
def test_compiled_for_loops(
    kind: str, form: str, weighted: bool, intercept: bool, dtype: Any
) -> None:
    p = make(kind, form, weighted, intercept)
    w = np.random.default_rng(2).standard_normal(p.dim).astype(dtype)
    c, out = p.compile(dtype), np.full(p.dim, np.nan, dtype)
    c.write_gradient(w, out)
    value, gradient = p.value_and_gradient(w.astype(np.float64))
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(out, gradient, rtol=rtol, atol=rtol)
    assert c.value(w) == pytest.approx(value, rel=rtol)


# With both extras only: a mixture of precisions is compiled apart for each of them.
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", COMPILED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_precision_of_w_is_kept(kind: str, form: str, dtype: Any) -> None:
    p = make(kind, form, True, True)
    w = np.random.default_rng(2).standard_normal(p.dim).astype(dtype)
    exact = p.grad(w.astype(np.float64))
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    for gradient in (p.value_and_gradient(w)[1], p.grad(w)):
        assert gradient.dtype == dtype
        np.testing.assert_allclose(gradient, exact, rtol=rtol, atol=rtol)


@pytest.mark.blas
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_repeated_rows(kind: str, form: str) -> None:
    X, y, _ = data(kind)
    counts = np.random.default_rng(3).integers(0, 4, len(y))
    options = OPTIONS.get(kind, {})
    p = KINDS[kind](FORMS[form](X), y, l2=0.1, weights=counts, intercept=True, **options)
    repeated = FORMS[form](X.repeat(counts, axis=0))
    q = KINDS[kind](repeated, y.repeat(counts), l2=0.1, intercept=True, **options)
    w = np.random.default_rng(4).standard_normal(p.dim)
    assert p.fun(w) == pytest.approx(q.fun(w), rel=1e-13)
    np.testing.assert_allclose(p.grad(w), q.grad(w), rtol=1e-12, atol=1e-14)
    if kind != "poisson":  # which has none
        assert pytest.approx(q.L, rel=1e-12) == p.L
    assert p.mu == pytest.approx(q.mu, rel=1e-9, abs=1e-15)
    # Neither the size of the weights nor their type counts.
    other = KINDS[kind](
        FORMS[form](X), y, l2=0.1, weights=1e-250 * counts, intercept=True, **options
    )
    assert other.fun(w) == pytest.approx(p.fun(w), rel=1e-13)


@pytest.mark.blas
@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
def test_minimiser_of_least_squares(form: str, weighted: bool, intercept: bool) -> None:
    p = make("squared", form, weighted, intercept)
    assert np.linalg.norm(p.grad(p.x_star)) < 1e-13
    assert p.f_star == pytest.approx(by_definition(p, "squared", p.x_star), rel=1e-13)


@pytest.mark.blas
@pytest.mark.parametrize("kind", KINDS)
def test_minimize(kind: str) -> None:
    p = make(kind, "sparse", True, True, l2=0.3)
    shape = (p.dim // CLASSES, CLASSES) if kind == "softmax" else (p.dim,)
    r = cz.minimize(p, np.zeros(shape), tol=1e-9, rng=0)
    assert r.success
    assert r.x.shape == shape
    assert np.linalg.norm(p.grad(r.x)) < 2e-9
    if kind == "squared":
        np.testing.assert_allclose(r.x, p.x_star, atol=1e-7)


def test_threads_and_pass_over_rows() -> None:
    X, y, weights = data("logistic", n=100)
    w = np.random.default_rng(7).standard_normal(X.shape[1] + 1)
    vector = np.concatenate([[LOGISTIC, 0.1, 1.0], y, weights])
    A = FORMS["sparse"](X)
    for rows in (X, arrange(A)[1]):
        once = pass_over_rows(rows, vector, w, 1, value=True, gradient=True)
        cut = pass_over_rows(rows, vector, w, 4, value=True, gradient=True)
        assert cut[0] == pytest.approx(once[0], rel=1e-13)
        np.testing.assert_allclose(cut[1], once[1], rtol=1e-12)


@pytest.mark.parametrize("kind", COMPILED)
def test_more_rows_than_a_block(kind: str) -> None:
    """Rows are taken in blocks, of so many rows or entries, the last of which is shorter."""
    for n, d in ((MOST_ROWS + 5, 2), (2 * BLOCK // 1500 + 3, 1500), (11, BLOCK + 3)):
        dense, csr = (make(kind, form, True, True, n=n, d=d) for form in FORMS)
        w = np.random.default_rng(5).standard_normal(d + 1) / np.sqrt(d)
        f = by_definition(dense, kind, w)
        along = np.random.default_rng(6).standard_normal(d + 1) / np.sqrt(d)
        ends = (by_definition(dense, kind, w + step * along) for step in (1e-5, -1e-5))
        slope = np.subtract(*ends) / 2e-5
        for p in (dense, csr):
            value, gradient = p.value_and_gradient(w)
            assert value == pytest.approx(f, rel=1e-12)
            assert gradient @ along == pytest.approx(slope, rel=1e-7)
        np.testing.assert_allclose(csr.grad(w), dense.grad(w), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("extra", [{"weights": np.arange(12.0)}, {"intercept": True}])
@pytest.mark.parametrize(
    ("method", "l2"),
    [
        (cz.CoordinateDescent(), 0.1),
        (cz.DualCoordinate(), 0.1),
        (cz.StochasticLeastSquares(), 0.0),
        (cz.Kaczmarz(), 0.0),
    ],
)
def test_methods_that_know_no_extras_refuse_them(method: Any, l2: float, extra: Any) -> None:
    X, y, _ = data("squared", n=12)
    p = cz.problems.LeastSquares(X, y, l2=l2, **extra)
    with pytest.raises(ValueError, match="is for regressions without weights and intercept"):
        cz.minimize(p, np.zeros(p.dim), method=method, maxiter=1)


BAD_WEIGHTS = [
    ([1.0, 2.0], r"weights must have shape \(3,\), one for each row, got \(2,\)"),
    ([[1.0], [2.0], [3.0]], r"weights must have shape \(3,\), one for each row, got \(3, 1\)"),
    ([1.0, -2.0, 1.0], r"finite and >= 0, but weights\[1\] is -2.0"),
    ([1.0, 1.0, np.nan], r"finite and >= 0, but weights\[2\] is nan"),
    ([np.inf, 1.0, 1.0], r"finite and >= 0, but weights\[0\] is inf"),
    ([0.0, 0.0, 0.0], "every weight is zero"),
    ([1e308, 1e308, 1e308], "sum of the weights overflows"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("weights", "message"), BAD_WEIGHTS)
def test_bad_weights(kind: str, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KINDS[kind](np.eye(3), [1, 1, 1], weights=weights)


def test_other_bad_arguments() -> None:
    with pytest.raises(TypeError, match="intercept must be True or False, got 1"):
        cz.problems.LeastSquares(np.eye(2), [1, 2], intercept=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="weights must be an array of real numbers"):
        cz.problems.LeastSquares(np.eye(2), [1, 2], weights=["a", "b"])
    for y, classes in (([0.5, 1.0], None), ([-1, 1], None), ([0, 3], 3), ([0, 1e300], None)):
        with pytest.raises(ValueError, match=r"y must hold labels 0, 1, \.\.\., classes - 1"):
            cz.problems.SoftmaxRegression(np.eye(2), y, classes=classes)
    for many in (0, 10**400, -(10**400)):
        with pytest.raises(ValueError, match=r"classes must be an integer from 1 to 2147483647 or"):
            cz.problems.SoftmaxRegression(np.eye(2), [0, 1], classes=many)
    with pytest.raises(TypeError, match=r"classes must be an integer from 1 .* got 2\.5"):
        cz.problems.SoftmaxRegression(np.eye(2), [0, 1], classes=2.5)  # type: ignore[arg-type]


def test_weights_are_copied() -> None:
    weights = np.ones(3)
    p = cz.problems.LeastSquares(np.eye(3), [1, 2, 3], weights=weights)
    weights[:] = 7.0
    assert p.weights is not None
    assert p.weights.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_trace_is_the_sum_of_the_scales(
    kind: str, form: str, weighted: bool, intercept: bool
) -> None:
    p = make(kind, form, weighted, intercept, 0.2)
    assert p.trace == pytest.approx(float(p.column_scales.sum()), rel=1e-6)
