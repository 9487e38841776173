"""Metrics: their algebra, the curvature they are made from, and those that are refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.solver.metric import Dense, Diagonal, LowRank, gram, nystrom
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
        (
            {"metric": "newton"},
            ValueError,
            'metric must be "diag", "gram", "blocks", "nystrom", "auto", an array or',
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


def test_constants_in_a_metric_that_changes() -> None:
    with pytest.raises(ValueError, match="not known in a metric that is made on the way"):
        cz.minimize(regression("squared"), np.ones(8), metric="gram", L=1.0)


def test_a_metric_of_the_users_own() -> None:
    own = Own(lambda g: np.divide(g, [1.0, 2.0, 4.0], out=g))  # writes into what it is given
    fun = lambda x: (0.5 * float(x @ (x * [1.0, 2.0, 4.0])), x * [1.0, 2.0, 4.0])  # noqa: E731
    r = cz.minimize(fun, np.ones(3), jac=True, metric=own, rng=0)
    same = cz.minimize(fun, np.ones(3), jac=True, metric=[1.0, 2.0, 4.0], rng=0)
    np.testing.assert_array_equal(r.x, same.x)
