"""Least squares and logistic regression: values and gradients, on one thread and on all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import continuized as cz
from continuized.problems.regression import linear
from continuized.support import threads
from tests.helpers.regressions import FORMS, KINDS, data
from tests.invariants.registry import same_bits


@pytest.fixture(params=[1, 2, 3, 7])
def parts(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """A pass cut into so many parts, however small the data."""
    monkeypatch.setattr(linear, "LARGE", 0)
    monkeypatch.setattr(threads, "count", lambda: request.param)
    return int(request.param)


# The function and its gradient


def by_mpmath(p: Any, X: np.ndarray, w: np.ndarray) -> tuple[float, list[float]]:
    """f and its gradient from the definition, with 40 digits."""
    n, d = X.shape
    with mp.workdps(40):
        value, gradient = mp.mpf(0), [mp.mpf(0)] * d
        for i in range(n):
            score = sum((mp.mpf(X[i, j]) * mp.mpf(w[j]) for j in range(d)), mp.mpf(0))
            y = mp.mpf(p.y[i])
            if isinstance(p, cz.problems.LeastSquares):
                value, slope = value + (score - y) ** 2 / 2, score - y
            else:
                value, slope = value + mp.log1p(mp.exp(-y * score)), -y / (1 + mp.exp(y * score))
            gradient = [g + slope * mp.mpf(X[i, j]) for j, g in enumerate(gradient)]
        l2 = mp.mpf(p.l2)
        value = value / n + l2 / 2 * sum((mp.mpf(v) ** 2 for v in w), mp.mpf(0))
        return float(value), [
            float(g / n + l2 * mp.mpf(v)) for g, v in zip(gradient, w, strict=True)
        ]


@pytest.mark.blas
@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 23])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_against_mpmath(kind: Any, form: str, n: int, parts: int) -> None:
    X, y = data(n, 5, seed=n)
    p = kind(FORMS[form](X), y, l2=0.3)
    w = np.random.default_rng(1).standard_normal(5) * 3.0
    f, g = by_mpmath(p, X, w)
    assert p.threaded == (parts > 1 and n > 1)
    value, gradient = p.value_and_gradient(w)
    assert value == pytest.approx(f, rel=1e-14)
    assert p.fun(w) == pytest.approx(f, rel=1e-14)
    np.testing.assert_allclose(gradient, g, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(p.grad(w), g, rtol=1e-13, atol=1e-14)
    c = p.compile()
    out = np.full(5, np.nan)
    c.write_gradient(w, out)
    np.testing.assert_allclose(out, g, rtol=1e-13, atol=1e-14)
    assert c.value(w) == pytest.approx(f, rel=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_logistic_losses_keep_their_digits_far_out(form: str) -> None:
    # Four rows at a time share one logarithm: small losses must not drown in it.
    for scores in ([40.0, 45.0, 50.0, 60.0, 39.0], [-800.0, 750.0, -30.0, 30.0, 0.0]):
        p = cz.problems.LogisticRegression(FORMS[form](np.array([scores]).T), np.ones(5), l2=0.0)
        with mp.workdps(400):
            f = float(sum(mp.log1p(mp.exp(-mp.mpf(s))) for s in scores) / 5)
        assert p.fun([1.0]) == pytest.approx(f, rel=1e-15, abs=0.0)
        assert p.value_and_gradient([1.0])[0] == pytest.approx(f, rel=1e-15, abs=0.0)


@pytest.mark.blas
@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(0, 12), st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_sparse_is_dense(n: int, d: int, density: float, seed: int) -> None:
    X, y = data(n, d, seed, density)  # with empty rows, columns of zeros, no columns at all
    w = np.random.default_rng(seed).standard_normal(d)
    for kind in KINDS:
        p, q = kind(X, y, l2=0.1), kind(sparse.csr_array(X), y, l2=0.1)
        assert q.fun(w) == pytest.approx(p.fun(w), rel=1e-13)
        np.testing.assert_allclose(q.grad(w), p.grad(w), rtol=1e-12, atol=1e-14)
        for name in ("L", "mu", "coordinate_L", "row_norms2"):
            np.testing.assert_allclose(getattr(q, name), getattr(p, name), rtol=1e-12, atol=1e-15)


@pytest.mark.blas
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("X_type", [np.float32, np.float64])
@pytest.mark.parametrize("w_type", [np.float32, np.float64])
def test_single_precision(kind: Any, form: str, X_type: Any, w_type: Any, parts: int) -> None:
    X, y = data(61, 9)
    p, exact = kind(FORMS[form](X.astype(X_type)), y), kind(X.astype(X_type).astype(float), y)
    w = np.random.default_rng(2).standard_normal(9).astype(w_type)
    assert p.X.dtype == X_type
    rtol = 1e-12 if X_type == w_type == np.float64 else 2e-6
    value, gradient = p.value_and_gradient(w)
    assert gradient.dtype == p.grad(w).dtype == w_type
    assert value == pytest.approx(exact.fun(w.astype(float)), rel=rtol)
    for g in (gradient, p.grad(w)):
        np.testing.assert_allclose(g, exact.grad(w.astype(float)), rtol=rtol, atol=rtol)
    assert pytest.approx(exact.L, rel=1e-12) == p.L
    np.testing.assert_allclose(p.coordinate_L, exact.coordinate_L, rtol=1e-13)
    np.testing.assert_allclose(p.row_norms2, exact.row_norms2, rtol=1e-13)


def large(form: str) -> Any:
    X, y = data(3000, 400, density=0.5)
    return cz.problems.LogisticRegression(FORMS[form](X), y, l2=1e-3)


@pytest.mark.blas
@pytest.mark.parametrize("form", FORMS)
def test_large_data_runs_on_threads_and_gives_the_same(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = large(form)
    monkeypatch.setattr(threads, "count", lambda: 3)
    assert p.threaded
    assert p.compile() is not None  # for ensembles, on one thread each
    w = np.random.default_rng(3).standard_normal(400)
    c, out = p.compile(), np.empty(400)
    c.write_gradient(w, out)
    np.testing.assert_allclose(p.grad(w), out, rtol=1e-10, atol=1e-14)
    assert p.fun(w) == pytest.approx(c.value(w), rel=1e-13)
    asked: list[int] = []
    in_parts = threads.in_parts

    def counted(work: Any, parts: int) -> Any:
        asked.append(parts)
        return in_parts(work, parts)

    _ = p.L
    monkeypatch.setattr(threads, "in_parts", counted)
    r = cz.minimize(p, np.zeros(400), rng=0, maxiter=20)
    assert asked == [3] * (r.nfev + r.njev)
    monkeypatch.setattr(threads, "count", lambda: 1)
    assert not p.threaded
    s = cz.minimize(p, np.zeros(400), rng=0, maxiter=20)
    np.testing.assert_allclose(r.trace.fun, s.trace.fun, rtol=1e-12)
    assert r.njev == s.njev


def test_many_threads_may_ask_at_once(parts: int) -> None:
    X, y = data(400, 30)
    p = cz.problems.LogisticRegression(X, y)
    w = np.random.default_rng(4).standard_normal(30)
    once = p.grad(w)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: p.grad(w), range(200)))
    assert all(same_bits(answer, once) for answer in answers)  # and in the same bits, always


def test_small_data_stays_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "in_parts", None)
    p = cz.problems.LogisticRegression(*data(50, 3))
    assert not p.threaded
    p.fun(np.zeros(3)), p.grad(np.zeros(3))


# The minimiser of least squares


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1e9, 1e11, 1e17, 1e-20, 1e120])
def test_the_minimiser_beside_a_column_of_another_scale(form: str, scale: float) -> None:
    """The intercept is not taken for rounding: with it f is 0, and without it 0.2."""
    x = np.linspace(1.0, 2.0, 10)
    p = cz.problems.LeastSquares(FORMS[form](scale * x[:, None]), 3.0 + x, intercept=True)
    np.testing.assert_allclose(p.x_star, [1.0 / scale, 3.0], rtol=1e-13)
    assert p.f_star < 1e-28


def find_shortest(Z: np.ndarray, C: np.ndarray, exponents: np.ndarray, y: np.ndarray) -> Any:
    """The shortest minimiser of |Z C 2^exponents w - y|, Z and C of full rank, to 400 digits."""
    with mp.workdps(400):
        left, right = mp.matrix(Z.tolist()), mp.matrix(C.tolist())
        right *= mp.diag([mp.mpf(2) ** int(exponent) for exponent in exponents])
        along = mp.lu_solve(left.T * left, left.T * mp.matrix(y.tolist()))
        return np.array((right.T * mp.lu_solve(right * right.T, along)).tolist(), float).ravel()


@pytest.mark.parametrize("spread", [0, 20, 60])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_minimiser_of_dependent_columns_of_any_scales_is_the_shortest(
    rank: int, spread: int
) -> None:
    """The columns are combinations of fewer, multiplied by powers of 2: the norm is in their own
    units."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Z, C = rng.integers(-3, 4, (12, rank)), rng.integers(1, 4, (rank, 5))
        C[:, :rank] = np.eye(rank)  # so that there are no fewer
        exponents, y = rng.integers(-spread, spread + 1, 5), rng.integers(-9, 10, 12)
        if np.linalg.matrix_rank(Z) < rank:
            continue
        p = cz.problems.LeastSquares(np.ldexp(Z @ C, exponents), y)
        expected = find_shortest(Z, C, exponents, y)
        error = np.linalg.norm((p.x_star - expected) * 2.0**exponents)  # of the predictions
        assert error <= 1e-11 * np.linalg.norm(y)
        assert np.linalg.norm(p.x_star) == pytest.approx(np.linalg.norm(expected), rel=1e-11)


def test_a_minimiser_is_found_where_rounding_hides_which_columns_depend_on_each_other() -> None:
    """Powers of x up to the 29th, of any scales: of their shortest combination nothing is sure."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        powers, y = np.vander(rng.uniform(0.0, 1.0, 40), 30), rng.standard_normal(40)
        p = cz.problems.LeastSquares(np.ldexp(powers, rng.integers(-40, 41, 30)), y)
        assert p.f_star <= p.fun(np.zeros(30))


def test_a_minimiser_too_large_for_floats_is_not_told() -> None:
    p = cz.problems.LeastSquares([[1.0, 0.0], [0.0, 1e-310]], [1.0, 1.0])
    assert (p.x_star, p.f_star) == (None, None)
