"""Least squares and logistic regression: passes over the data, certified constants, bad data."""

from __future__ import annotations

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import continuized as cz
from continuized.problems import linear, losses, spectrum, threads
from registry import same_bits

KINDS = (cz.problems.LeastSquares, cz.problems.LogisticRegression)
FORMS = {"dense": np.array, "sparse": sparse.csr_array}


def data(n: int, d: int, seed: int = 0, density: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < density)
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


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
    c = p.compiled()
    out = np.full(5, np.nan)
    c.grad(w, out, c.data)
    np.testing.assert_allclose(out, g, rtol=1e-13, atol=1e-14)
    assert c.fun(w, c.data) == pytest.approx(f, rel=1e-14)


@pytest.mark.parametrize("form", FORMS)
def test_logistic_losses_keep_their_digits_far_out(form: str) -> None:
    # Four rows at a time share one logarithm: small losses must not drown in it.
    for scores in ([40.0, 45.0, 50.0, 60.0, 39.0], [-800.0, 750.0, -30.0, 30.0, 0.0]):
        p = cz.problems.LogisticRegression(FORMS[form](np.array([scores]).T), np.ones(5), l2=0.0)
        with mp.workdps(400):
            f = float(sum(mp.log1p(mp.exp(-mp.mpf(s))) for s in scores) / 5)
        assert p.fun([1.0]) == pytest.approx(f, rel=1e-15, abs=0.0)
        assert p.value_and_gradient([1.0])[0] == pytest.approx(f, rel=1e-15, abs=0.0)


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


@pytest.mark.parametrize("form", FORMS)
def test_large_data_runs_on_threads_and_gives_the_same(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    p = large(form)
    monkeypatch.setattr(threads, "count", lambda: 3)
    assert p.threaded
    assert p.compiled() is not None  # for ensembles, on one thread each
    w = np.random.default_rng(3).standard_normal(400)
    c, out = p.compiled(), np.empty(400)
    c.grad(w, out, c.data)
    np.testing.assert_allclose(p.grad(w), out, rtol=1e-10, atol=1e-14)
    assert p.fun(w) == pytest.approx(c.fun(w, c.data), rel=1e-13)
    asked: list[int] = []
    in_parts = threads.in_parts

    def counted(work: Any, parts: int) -> Any:
        asked.append(parts)
        return in_parts(work, parts)

    _ = p.L
    monkeypatch.setattr(threads, "in_parts", counted)
    r = cz.minimize(p, np.zeros(400), seed=0, maxiter=20)
    assert asked == [3] * (r.nfev + r.njev)
    monkeypatch.setattr(threads, "count", lambda: 1)
    assert not p.threaded
    s = cz.minimize(p, np.zeros(400), seed=0, maxiter=20)
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


# Constants


def with_spectrum(eigenvalues: np.ndarray, n: int, seed: int) -> np.ndarray:
    """A matrix X of n rows for which X^T X / n has these eigenvalues."""
    rng = np.random.default_rng(seed)
    d = len(eigenvalues)
    left, _ = np.linalg.qr(rng.standard_normal((n, min(n, d))))
    right, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return math.sqrt(n) * (left * np.sqrt(eigenvalues[: left.shape[1]])) @ right[: left.shape[1]]


SPECTRA = {
    "one large": lambda d: np.r_[1.0, np.full(d - 1, 1e-3)],
    "clustered at the top": lambda d: 1.0 - 1e-6 * np.arange(d) / d,
    "no gap": lambda d: np.linspace(1.0, 0.0, d),
    "power law": lambda d: 1.0 / np.arange(1.0, d + 1.0) ** 2,
    "rank one": lambda d: np.r_[1.0, np.zeros(d - 1)],
    "rank three": lambda d: np.r_[1.0, 1.0, 0.5, np.zeros(d - 3)],
    "all equal": lambda d: np.ones(d),
    "slow, Chebyshev": lambda d: 0.5 + 0.5 * np.cos(np.pi * np.arange(d) / d),
}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("n", [300, 90])
@pytest.mark.parametrize("shape", SPECTRA)
def test_lanczos_is_an_upper_bound(
    shape: str, n: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may fail with probability 1e-10: 48 of them, 5e-9 together.  d > the 62 steps."""
    monkeypatch.setattr(spectrum, "EXACT_UP_TO", 0)
    d = 200
    assert spectrum.lanczos_steps(d, spectrum.SLACK, spectrum.FAILURE) < 90
    for seed in range(3):
        X = math.sqrt(scale) * with_spectrum(SPECTRA[shape](d), n, seed)
        largest = np.linalg.eigvalsh(X.T @ X / n)[-1]
        for form in FORMS.values():
            found = cz.problems.LeastSquares(form(X), np.zeros(n)).spectrum
            assert found.smallest == 0.0
            assert found.largest >= largest * (1.0 - 1e-13)
            assert found.largest <= largest / (1.0 - spectrum.SLACK) * (1.0 + 1e-9)
            assert found.failure == (spectrum.FAILURE if found.how == "lanczos" else 0.0)


def test_the_theorem_behind_the_bound() -> None:
    """How often k steps are too few, against Kuczynski and Wozniakowski's bound on it.

    With so few steps that failures do occur.  400 starts; the count is under the theorem's
    mean plus 5 standard deviations, which a count of that mean exceeds with probability < 1e-5.
    """
    d, slack, starts = 100, 0.2, 400
    eigenvalues = SPECTRA["slow, Chebyshev"](d)
    for k in (6, 9):
        claimed = 1.648 * math.sqrt(d) * math.exp(-math.sqrt(slack) * (2 * k - 1))
        assert spectrum.lanczos_steps(d, slack, claimed) == k
        bounds = [
            spectrum.lanczos_bound(lambda v: eigenvalues * v, d, slack, claimed, seed)
            for seed in range(starts)
        ]
        failures = sum(bound < eigenvalues.max() for bound in bounds)
        mean = starts * min(claimed, 1.0)
        assert failures <= mean + 5.0 * math.sqrt(mean)


def test_lanczos_against_theta(monkeypatch: pytest.MonkeyPatch) -> None:
    # With as many steps as variables the Ritz value is the eigenvalue: the bound has no slack left.
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((30, 20))
        A = X.T @ X
        bound = spectrum.lanczos_bound(lambda v, A=A: A @ v, 20, 0.05, 1e-10)
        assert bound * 0.95 == pytest.approx(np.linalg.eigvalsh(A)[-1], rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32 - 1), st.integers(-8, 8))
def test_exact_constants(n: int, d: int, seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(0, min(n, d) + 1))
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) * 10.0**power
    singular = np.linalg.svd(X, compute_uv=False) ** 2 / n  # never squared: more exact
    p = cz.problems.LeastSquares(X, rng.standard_normal(n), l2=0.0)
    assert singular[0] * (1.0 - 1e-14) <= p.L
    assert pytest.approx(singular[0], rel=1e-11) == p.L
    smallest = singular[-1] if d <= n else 0.0
    assert 0.0 <= p.mu <= smallest
    assert p.mu >= smallest - 1e-12 * singular.sum()


def test_a_certified_L_where_X_is_large() -> None:
    rng = np.random.default_rng(5)
    X = sparse.random_array((4000, 3000), density=0.01, rng=rng, format="csr")
    p = cz.problems.LogisticRegression(X, np.sign(rng.standard_normal(4000)), l2=0.125)
    largest = sparse.linalg.svds(X, 1, return_singular_vectors=False, rng=rng)[0] ** 2 / 4000
    assert p.spectrum.how == "lanczos"
    assert largest / 4 + 0.125 <= p.L <= (largest / 4) / 0.95 * (1.0 + 1e-9) + 0.125
    assert p.mu == 0.125
    q = cz.problems.LeastSquares(sparse.eye_array(3000, format="csr"), np.ones(3000))
    assert q.spectrum.how == "norms"
    assert pytest.approx(1.0 / 3000, rel=1e-10) == q.L
    assert q.mu == 0.0
    assert q.x_star is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_coordinate_and_row_constants(kind: Any, form: str) -> None:
    X, y = data(40, 6)
    X[3] = 0.0
    X[:, 2] = 0.0
    p = kind(FORMS[form](X), y, l2=0.01)
    curvature = 1.0 if kind is KINDS[0] else 0.25
    hessian = curvature * X.T @ X / 40 + 0.01 * np.eye(6)
    np.testing.assert_allclose(p.coordinate_L, np.diag(hessian), rtol=1e-14)
    assert p.coordinate_L[2] == 0.01
    np.testing.assert_allclose(p.row_norms2, np.diag(X @ X.T), rtol=1e-14)
    assert p.row_norms2[3] == 0.0
    w = np.random.default_rng(6).standard_normal(6)
    for j in range(6):  # smooth along each coordinate, and for least squares just so
        step = np.eye(6)[j] * 0.3
        slope = (p.grad(w + step) - p.grad(w))[j] / 0.3
        assert slope <= p.coordinate_L[j] * (1.0 + 1e-12)
        if kind is KINDS[0]:
            assert slope == pytest.approx(p.coordinate_L[j], rel=1e-12)


def test_columns() -> None:
    X, y = data(20, 5)
    dense, csc = cz.problems.LeastSquares(X, y).columns, None
    assert dense.flags.f_contiguous
    assert np.array_equal(dense, X)
    p = cz.problems.LeastSquares(sparse.csr_array(X), y)
    csc = p.columns
    assert csc.format == "csc"
    assert csc.indices.dtype == np.int32
    assert np.array_equal(csc.toarray(), X)
    assert p.columns is csc


# Conjugates


@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_logistic_conjugate(y: float) -> None:
    for b in (1e-300, 1e-12, 0.1, 0.5, 0.75, 1.0 - 1e-12):
        with mp.workdps(700):
            exact = mp.mpf(b) * mp.log(mp.mpf(b)) + (1 - mp.mpf(b)) * mp.log(1 - mp.mpf(b))
        value = losses.conjugate(losses.LOGISTIC, -y * b, y)
        assert value == pytest.approx(float(exact), rel=1e-14, abs=0.0)
        p = losses.conjugate_slope(losses.LOGISTIC, -y * b, y)
        assert losses.loss_slope(losses.LOGISTIC, p, y) == pytest.approx(-y * b, rel=1e-12, abs=0.0)
    assert [losses.conjugate(losses.LOGISTIC, -y * b, y) for b in (0.0, 1.0)] == [0.0, 0.0]
    assert [losses.conjugate(losses.LOGISTIC, -y * b, y) for b in (-1e-9, 1.1)] == [math.inf] * 2
    assert [losses.conjugate_slope(losses.LOGISTIC, -y * b, y) for b in (0.0, 1.0)] == [
        y * math.inf,
        -y * math.inf,
    ]
    assert math.isnan(losses.conjugate_slope(losses.LOGISTIC, 2.0 * y, y))
    assert math.isnan(losses.conjugate(losses.LOGISTIC, math.nan, y))


@settings(max_examples=100, deadline=None)
@given(st.floats(-15.0, 15.0), st.floats(-15.0, 15.0), st.sampled_from([-1.0, 1.0]))
def test_fenchel_young(p: float, q: float, y: float) -> None:
    for kind in (losses.SQUARED, losses.LOGISTIC):
        a, b = losses.loss_slope(kind, p, y), losses.loss_slope(kind, q, y)
        f, f_star = losses.loss(kind, p, y), losses.conjugate(kind, a, y)
        assert f + f_star == pytest.approx(a * p, rel=1e-9, abs=1e-9)  # equality at the slope
        assert f + losses.conjugate(kind, b, y) >= b * p - 1e-9  # and inequality elsewhere


# Data as users give it


def test_X_is_neither_copied_nor_changed() -> None:
    X, y = data(30, 4)
    for given_ in (X, X.astype(np.float32)):
        assert cz.problems.LeastSquares(given_, y).X is given_
    csr = sparse.csr_matrix(X)
    assert np.shares_memory(cz.problems.LeastSquares(csr, y).X.data, csr.data)
    frozen = X.copy()
    frozen.setflags(write=False)
    p = cz.problems.LeastSquares(frozen, y)
    assert p.X is frozen
    w = np.ones(4)
    w.setflags(write=False)
    assert same_bits(p.grad(w), cz.problems.LeastSquares(X, y).grad(w))
    np.testing.assert_allclose(p.value_and_gradient(w)[1], p.grad(w), rtol=1e-12)
    cz.minimize(p, np.zeros(4), maxiter=5, seed=0)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_indices_in_any_order(index: Any) -> None:
    # Row 0 has its columns the wrong way round, row 1 has column 1 twice, row 2 is empty.
    indices = np.array([2, 0, 1, 1], dtype=index)
    indptr = np.array([0, 2, 4, 4], dtype=index)
    entries = np.array([1.0, 2.0, 3.0, 4.0])
    X = sparse.csr_array((entries, indices, indptr), shape=(3, 3))
    p = cz.problems.LeastSquares(X, [1.0, 2.0, 3.0])
    assert X.indices.tolist() == [2, 0, 1, 1]
    assert X.data.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert p.X.indices.dtype == p.X.indptr.dtype == np.int32
    assert p.X.indices.tolist() == [0, 2, 1]
    assert p.X.toarray().tolist() == [[2.0, 0.0, 1.0], [0.0, 7.0, 0.0], [0.0, 0.0, 0.0]]
    dense = cz.problems.LeastSquares(p.X.toarray(), [1.0, 2.0, 3.0])
    w = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(p.grad(w), dense.grad(w), rtol=1e-14)
    np.testing.assert_allclose(p.coordinate_L, dense.coordinate_L, rtol=1e-14)


# SciPy has no sparse matrices of half precision or of foreign byte order.
OTHER = [(form, dtype) for form in FORMS for dtype in (np.int8, np.uint16, np.int64, np.longdouble)]


@pytest.mark.parametrize(("form", "dtype"), [*OTHER, ("dense", np.float16), ("dense", ">f8")])
def test_other_numbers_become_float64(form: str, dtype: Any) -> None:
    X = np.array([[1, 0], [3, 4], [0, 0]])
    p = cz.problems.LogisticRegression(FORMS[form](X.astype(dtype)), np.array([1, -1, 1], np.int8))
    assert p.X.dtype == np.float64
    assert p.X.dtype.isnative
    assert p.y.dtype == np.float64
    plain = cz.problems.LogisticRegression(FORMS[form](X.astype(float)), [1.0, -1.0, 1.0])
    assert same_bits(p.grad([1, 2]), plain.grad([1.0, 2.0]))


@pytest.mark.parametrize("order", ["C", "F", "strided", "unaligned", "matrix"])
def test_arrays_of_every_layout(order: str) -> None:
    X, y = data(9, 4)
    if order == "F":
        given_: Any = np.asfortranarray(X)
    elif order == "strided":
        given_ = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    elif order == "unaligned":
        given_ = (
            np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(9, 4)
        )
        assert not given_.flags.aligned
    elif order == "matrix":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            given_ = np.matrix(X)
    else:
        given_ = X
    p, q = cz.problems.LeastSquares(given_, y), cz.problems.LeastSquares(X, y)
    assert same_bits(p.grad(np.ones(4)), q.grad(np.ones(4)))
    assert same_bits(p.value_and_gradient(np.ones(4))[1], q.value_and_gradient(np.ones(4))[1])


def corrupt() -> Any:
    X = sparse.csr_array(np.eye(2))
    X.indices = np.array([0, 9], dtype=np.int32)
    return X


def with_entry(form: str, entry: float) -> Any:
    X = np.eye(3)
    X[2, 1] = entry
    return FORMS[form](X)


Y = np.array([1.0, -1.0])
BAD = [
    (np.ones((2, 1)), Y[:, None], ValueError, r"y must be a vector, got shape \(2, 1\): .*ravel"),
    (np.ones((2, 1)), Y[None], ValueError, r"y must be a vector, got shape \(1, 2\)"),
    (np.ones((2, 1)), [1.0], ValueError, r"a row for each entry of y, got shapes \(2, 1\)"),
    (np.ones((2, 1)), 1.0, ValueError, "a row for each entry of y"),
    (np.ones((2, 1, 1)), Y, ValueError, r"X must be a matrix .* \(2, 1, 1\)"),
    (np.ones(2), Y, ValueError, r"X must be a matrix .* \(2,\)"),
    (3.0, Y, ValueError, r"X must be a matrix .* \(\)"),
    (sparse.coo_array(np.ones(2)), Y, ValueError, r"X must be a matrix .* \(2,\)"),
    (np.ones((0, 3)), [], ValueError, "X has no rows"),
    (sparse.csr_array((0, 3)), [], ValueError, "X has no rows"),
    (np.ones((2, 1), bool), Y, TypeError, "X must be an array of real numbers, got dtype bool"),
    (np.ones((2, 1), complex), Y, TypeError, "real numbers, got dtype complex128"),
    (np.ones((2, 1), object), Y, TypeError, "real numbers, got dtype object"),
    ([["1"], ["2"]], Y, TypeError, "real numbers, got dtype <U1"),
    (sparse.csr_array(np.ones((2, 1), bool)), Y, TypeError, "real numbers, got dtype bool"),
    (sparse.csr_array(np.ones((2, 1), complex)), Y, TypeError, "got dtype complex128"),
    (np.ones((2, 1)), [True, False], TypeError, "y must be an array of real numbers, got dtype"),
    (np.ones((2, 1)), ["a", "b"], TypeError, "y must be an array of real numbers, got dtype"),
    (np.ma.masked_equal(np.eye(2), 0.0), Y, TypeError, "X is a masked array"),
    (np.eye(2), np.ma.masked_equal(Y, 1.0), TypeError, "y is a masked array"),
    (with_entry("dense", np.nan), [1, 1, 1], ValueError, r"X\[2, 1\] is nan \(1 such entry in all"),
    (with_entry("sparse", np.inf), [1, 1, 1], ValueError, r"X\[2, 1\] is inf \(1 such entry"),
    (np.full((2, 2), -np.inf), Y, ValueError, r"X\[0, 0\] is -inf \(4 such entries in all"),
    (np.eye(2), [1.0, np.nan], ValueError, r"y must hold finite numbers only, but y\[1\] is nan"),
    (corrupt(), Y, ValueError, "X is not a valid sparse matrix"),
    (None, Y, TypeError, "X must be an array of real numbers, got dtype object"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("X", "y", "error", "message"), BAD)
def test_bad_data(kind: Any, X: Any, y: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        kind(X, y)
    assert "\n" not in str(caught.value)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 1, 0], r"2 of its 4 entries differ: 0.0; give 2 \* y - 1 instead$"),
        ([2, 1, 3, 2], r"3 of its 4 entries differ: 2.0, 3.0$"),
        ([1, -1, 1, 1.0000001], r"1 of its 4 entries differ: 1.0000001$"),
    ],
)
def test_labels(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"only the labels -1 and \+1, but " + message):
        cz.problems.LogisticRegression(np.ones((4, 1)), y)


@pytest.mark.parametrize("l2", [-1e-300, math.nan, math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_l2_out_of_range(kind: Any, l2: float) -> None:
    with pytest.raises(ValueError, match="l2 must be a finite number >= 0, got "):
        kind(np.ones((2, 1)), Y, l2=l2)


@pytest.mark.parametrize("form", FORMS)
def test_large_entries(form: str) -> None:
    p = cz.problems.LeastSquares(FORMS[form](np.full((2, 2), 1.7e308)), Y)  # the sum overflows
    with pytest.raises(ValueError, match="squares of X's entries overflow: rescale X"):
        _ = p.L


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_zeros(kind: Any, form: str) -> None:
    p = kind(FORMS[form](np.zeros((3, 2))), [1.0, 1.0, -1.0], l2=0.5)
    assert (p.L, p.mu) == (0.5, 0.5)
    assert p.coordinate_L.tolist() == [0.5, 0.5]
    assert p.row_norms2.tolist() == [0.0, 0.0, 0.0]
    assert p.grad([1.0, 2.0]).tolist() == [0.5, 1.0]
    assert p.columns.shape == (3, 2)
