"""Metrics: their algebra, the curvature they are made from, and the runs in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized import Status
from continuized.curvature import gram, nystrom
from continuized.metric import Dense, Diagonal, LowRank

RNG = np.random.default_rng
NAMED = ("auto", "gram", "nystrom", "diag")


def definite(d: int) -> np.ndarray:
    A = RNG(0).standard_normal((d, d))
    return A @ A.T + 0.1 * np.eye(d)


def regression(
    kind: str, form: str = "dense", l2: float = 1e-2, n: int = 120, d: int = 8, seed: int = 0
) -> Any:
    rng = RNG(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7) * np.geomspace(3.0, 0.1, d)
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    given = X if form == "dense" else sparse.csr_array(X)
    if form == "unsorted":
        for i in range(n):
            row = slice(given.indptr[i], given.indptr[i + 1])
            given.indices[row], given.data[row] = given.indices[row][::-1], given.data[row][::-1]
        given.has_sorted_indices = False
    if kind == "squared":
        return cz.problems.LeastSquares(given, y, l2=l2)
    return cz.problems.LogisticRegression(given, np.where(y > 0.0, 1.0, -1.0), l2=l2)


def hessian(p: Any, w: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """By central differences of the gradient."""
    return np.array([(p.grad(w + h * e) - p.grad(w - h * e)) / (2 * h) for e in np.eye(w.size)])


def newton(p: Any) -> tuple[np.ndarray, float]:
    """The minimiser and the minimum, by Newton's method with an exact Hessian written here."""
    X = p.X.toarray() if p.is_sparse else p.X
    w = np.zeros(p.dim)
    for _ in range(60):
        m = X @ w
        q = 1.0 / (2.0 + 2.0 * np.cosh(m)) if p.curvature == 0.25 else np.ones_like(m)
        H = (X.T * q) @ X / len(m) + p.l2 * np.eye(p.dim)
        step = np.linalg.solve(H, p.grad(w))
        while p.fun(w - step) > p.fun(w) + 1e-13:
            step *= 0.5
        w = w - step
    assert np.linalg.norm(p.grad(w)) < 1e-12
    return w, p.fun(w)


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
    p = regression("logistic", n=4000, d=10)
    w = 0.1 * np.ones(10)
    ratio = np.linalg.eigvals(np.linalg.solve(hessian(p, w), gram(p, w, RNG(0)))).real
    # 100 rows for 10 variables: (1 +- sqrt(0.1))^2, and some more for entries that are sparse.
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


# Runs


@pytest.mark.parametrize("metric", NAMED)
@pytest.mark.parametrize("form", ["dense", "csr"])
@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_regressions(kind: str, form: str, metric: str) -> None:
    p = regression(kind, form, 1e-3)
    star, best = newton(p)
    r = cz.minimize(p, np.ones(8), metric=metric, tol=1e-10, seed=0)
    assert r.status is Status.CONVERGED
    assert r.message.startswith("The duality gap is at most tol.")
    assert -1e-14 <= r.fun - best <= r.gap + 1e-14
    assert r.gap <= 1e-10
    assert r.constants["metrics_made"] >= 1
    np.testing.assert_allclose(r.x, star, atol=1e-3)
    flat = regression(kind, form, 0.0)
    r = cz.minimize(flat, np.ones(8), metric=metric, tol=1e-9, seed=0)
    assert (r.gap, r.message) == (None, "The gradient norm is at most tol.")
    assert abs(r.fun - newton(flat)[1]) <= 1e-8


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_the_gap_is_that_of_the_dual(kind: str) -> None:
    """f(w) minus the dual at a = -(slopes at w): mean -loss*(-a) - l2/2 |X^T a / (n l2)|^2."""
    p = regression(kind, l2=0.05)
    best = newton(p)[1]
    for maxiter in (1, 3, 8):
        r = cz.minimize(p, 2.0 * np.ones(8), metric="diag", maxiter=maxiter, seed=0)
        m = p.X @ r.x
        if kind == "squared":
            slope = m - p.y
            conjugate = 0.5 * slope**2 + slope * p.y
        else:
            b = 1.0 / (1.0 + np.exp(p.y * m))  # slope = -y b, and loss*(-y b) is the entropy
            slope = -p.y * b
            conjugate = b * np.log(b) + (1.0 - b) * np.log1p(-b)
        u = p.X.T @ slope / len(m)
        dual = -conjugate.mean() - u @ u / (2.0 * p.l2)
        assert r.gap == pytest.approx(r.fun - dual, rel=1e-9)
        assert dual <= best <= r.fun


@pytest.mark.parametrize("metric", NAMED)
def test_flat_places_and_empty_columns(metric: str) -> None:
    """Far away the losses are straight lines; an empty column has no curvature at all."""
    p = regression("logistic", l2=1e-3)
    far = cz.minimize(p, np.full(8, 1e4), metric=metric, tol=1e-8, seed=0)
    assert far.fun == pytest.approx(newton(p)[1], rel=1e-7)
    X = p.X.copy()
    X[:, 3] = 0.0
    for data in (X, 0.0 * X):
        empty = cz.problems.LogisticRegression(data, p.y, l2=0.0)
        r = cz.minimize(empty, np.ones(8), metric=metric, seed=0)
        assert (r.success, r.x[3]) == (True, 1.0)


@pytest.mark.parametrize("metric", ["gram", "nystrom", "diag"])
def test_the_user_is_told_of_data_that_can_be_separated(metric: str) -> None:
    X = RNG(0).standard_normal((60, 4))
    p = cz.problems.LogisticRegression(X, np.sign(X[:, 0]), l2=0.0)
    for tol, maxiter in ((1e-6, 5000), (0.0, 300)):
        r = cz.minimize(p, np.zeros(4), metric=metric, tol=tol, maxiter=maxiter, seed=0)
        assert "x separates the data" in r.message
    mixed = cz.minimize(regression("logistic", l2=0.0), np.zeros(8), metric=metric)
    assert "separates" not in mixed.message


@pytest.mark.parametrize("metric", NAMED)
def test_shapes_seeds_and_float32(metric: str) -> None:
    p = regression("logistic")
    flat = cz.minimize(p, np.ones(8), metric=metric, tol=1e-9, seed=3)
    for shape in ((2, 4), (8, 1)):
        r = cz.minimize(p, np.ones(shape), metric=metric, tol=1e-9, seed=3)
        np.testing.assert_array_equal(r.x, flat.x.reshape(shape))
    small = cz.minimize(p, np.ones(8, np.float32), metric=metric, tol=1e-6, seed=3)
    assert (small.x.dtype, small.success) == (np.float32, True)


def test_a_metric_for_the_rows_of_a_matrix() -> None:
    """P for each column is the block-diagonal metric of all entries."""
    H, P = np.diag([1.0, 5.0, 30.0]), definite(3)
    x0 = RNG(4).standard_normal((3, 2))
    options: dict[str, Any] = {"jac": lambda x: H @ x, "L": 500.0, "maxiter": 25, "seed": 0}
    r = cz.minimize(lambda x: 0.5 * float(np.sum(x * (H @ x))), x0, metric=P, **options)
    for c in range(2):
        one = cz.minimize(lambda x: 0.5 * float(x @ H @ x), x0[:, c], metric=P, **options)
        np.testing.assert_allclose(r.x[:, c], one.x, atol=1e-12)


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
        ({"metric": np.triu(np.ones((3, 3)))}, ValueError, "symmetric"),
        ({"metric": np.full((3, 3), math.nan)}, ValueError, "finite"),
        ({"metric": [1.0, math.nan, 1.0]}, ValueError, "finite and > 0"),
        ({"metric": [1.0, 0.0, 1.0]}, ValueError, "finite and > 0"),
        ({"metric": ["a", "b", "c"]}, TypeError, "real numbers"),
        ({"metric": 3.0}, TypeError, "metric must be None"),
        ({"metric": Diagonal}, TypeError, "metric must be None"),
        ({"metric": "newton"}, ValueError, 'one of "diag", "gram"'),
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


def test_constants_in_a_metric_that_changes() -> None:
    with pytest.raises(ValueError, match="not known in a metric that is made on the way"):
        cz.minimize(regression("squared"), np.ones(8), metric="gram", L=1.0)


def test_a_metric_of_the_users_own() -> None:
    own = Own(lambda g: np.divide(g, [1.0, 2.0, 4.0], out=g))  # writes into what it is given
    fun = lambda x: (0.5 * float(x @ (x * [1.0, 2.0, 4.0])), x * [1.0, 2.0, 4.0])  # noqa: E731
    r = cz.minimize(fun, np.ones(3), jac=True, metric=own, seed=0)
    same = cz.minimize(fun, np.ones(3), jac=True, metric=[1.0, 2.0, 4.0], seed=0)
    np.testing.assert_array_equal(r.x, same.x)


# Scales, sizes and threads


@pytest.mark.parametrize("scale", [1e6, 1e9])
@pytest.mark.parametrize("metric", ["gram", "nystrom"])
def test_large_columns_beside_an_intercept(scale: float, metric: str) -> None:
    """A floor relative to the largest column would hide the intercept: "converged" far away."""
    Z = RNG(0).standard_normal((200, 2))
    y = np.where(RNG(1).random(200) < 0.9, 1.0, -1.0)
    plain = cz.problems.LogisticRegression(Z, y, l2=0.0, intercept=True)
    best = cz.minimize(plain, np.zeros(3), metric="gram", tol=1e-10, seed=0).fun
    p = cz.problems.LogisticRegression(scale * Z, y, l2=0.0, intercept=True)
    r = cz.minimize(p, np.zeros(3), metric=metric, tol=1e-6, seed=0, maxiter=300)
    assert not r.success or r.fun - best <= 1e-6
    if metric == "gram":
        assert r.success
        assert r.nit < 40


def test_data_that_no_metric_can_be_made_of() -> None:
    A = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0], [1.0, 1.0]])
    signs = [1.0, -1.0, 1.0, -1.0]
    for metric in NAMED:
        p = cz.problems.LogisticRegression(1e155 * A, signs, l2=0.0)
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="squares overflow"):
            cz.minimize(p, np.zeros(2), metric=metric)
        with pytest.raises(ValueError, match="no variables"):
            cz.minimize(cz.problems.LeastSquares(np.zeros((3, 0)), np.ones(3)), [], metric=metric)
        empty = cz.problems.LogisticRegression(
            sparse.csr_array((4, 2)), signs, l2=0.0, intercept=True
        )
        assert cz.minimize(empty, np.zeros(3), metric=metric, seed=0).success


def test_blas_has_its_threads_again_after_overlapping_blocks() -> None:
    from threadpoolctl import threadpool_info

    from continuized.problems.threads import blas_on_one_thread

    def counts() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = counts()
    first, second = blas_on_one_thread(), blas_on_one_thread()
    first.__enter__()
    second.__enter__()
    assert set(counts()) == {1}
    first.__exit__(None, None, None)
    assert set(counts()) == {1}
    second.__exit__(None, None, None)
    assert counts() == before
