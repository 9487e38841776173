"""Theorems on regressions: their minimisers, their rounded constants, and data in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize, root

import continuized as cz
from continuized.theory import bound, moments
from tests.helpers.refused_input import one_sentence

pytestmark = pytest.mark.blas

X = np.random.default_rng(0).standard_normal((30, 4))
NOISY = np.where(X.sum(axis=1) + np.random.default_rng(1).standard_normal(30) > 0.0, 1.0, -1.0)
ZERO = np.zeros(4)
T = np.array([1.0, 30.0, 300.0])
FORMS = {
    "dense": X,
    "float32": X.astype(np.float32),
    "sparse": sparse.csr_array(X),
    "large": 100.0 * X,
}
EXTRAS: dict[str, dict[str, Any]] = {
    "plain": {},
    "weak": {"l2": 1e-9},
    "strong": {"l2": 10.0},
    "weights": {"weights": np.arange(30.0)},
    "intercept": {"intercept": True, "l2": 1e-2},
    "both": {"intercept": True, "weights": np.arange(30.0) + 1.0},
}


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("form", FORMS)
def test_the_logistic_minimiser(form: str, extra: str) -> None:
    p = cz.problems.LogisticRegression(FORMS[form], NOISY, **EXTRAS[extra])
    assert p.x_star is not None
    assert p.f_star == p.fun(p.x_star)
    found = minimize(p.fun, np.zeros(p.dim), jac=p.grad, method="trust-exact", hess=hessian(p))
    best = root(p.grad, found.x, jac=hessian(p), tol=1e-15).x
    np.testing.assert_allclose(p.x_star, best, rtol=1e-8, atol=1e-10)
    size = math.sqrt(np.mean(p.row_norms2))
    assert np.linalg.norm(p.grad(p.x_star)) < 1e-15 * (size + p.l2 * np.linalg.norm(p.x_star))


def hessian(p: Any) -> Any:
    """By hand: the weighted mean of s (1 - s) a a^T, s the probabilities, and l2."""
    dense = p.X.toarray() if sparse.issparse(p.X) else p.X
    a = np.hstack([dense, np.ones((30, 1))[:, : p.intercept]]).astype(np.float64)
    weights = np.ones(30) if p.weights is None else p.weights

    def at(w: Any) -> Any:
        s = 0.5 * (1.0 + np.tanh(0.5 * (a @ w)))
        return (a.T * (weights / weights.sum() * s * (1.0 - s))) @ a + p.l2 * np.diag(
            np.arange(p.dim) < 4
        )

    return at


def test_no_logistic_minimiser_is_claimed_where_there_may_be_none() -> None:
    make = cz.problems.LogisticRegression
    assert make(X, NOISY, l2=0.0).x_star is None
    assert make(X, np.ones(30), intercept=True).x_star is None
    apart = np.where(NOISY > 0.0, 1.0, 0.0)  # no row of the other class counts
    assert make(X, NOISY, intercept=True, weights=apart).x_star is None
    assert make(1e170 * X, NOISY).x_star is None  # the Hessian overflows
    assert make(sparse.csr_array((30, 2001)), NOISY).x_star is None  # too large
    assert make(np.zeros((30, 0)), NOISY).x_star.tolist() == []
    assert make(np.zeros((30, 2)), NOISY).x_star.tolist() == [0.0, 0.0]
    # With next to no penalty the minimiser of separated rows is far away, and yet found.
    apart = cz.problems.LogisticRegression(X, np.sign(X.sum(axis=1)), l2=1e-12)
    gap = float(np.linalg.norm(apart.grad(apart.x_star)))
    assert gap / apart.l2 < 1e-6 * np.linalg.norm(apart.x_star)


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("sampling", ["sqrt", "uniform"])
def test_a_bound_for_coordinates_on_logistic_regression(sampling: str, accelerated: bool) -> None:
    p = cz.problems.LogisticRegression(X, NOISY, l2=0.05)
    method = cz.CoordinateDescent(sampling, accelerated=accelerated)
    limit = bound(method, p, ZERO, t=T)
    excess, u = p.fun(ZERO) - p.f_star, p.x_star
    stepper = method.prepare(p, ZERO)
    if accelerated:
        rate = math.sqrt(0.05 / stepper.S)
        by_hand = (excess + 0.5 * 0.05 * (u @ u)) * np.exp(-rate * T)
    else:
        by_hand = excess * np.exp(-0.05 * float((stepper.p / p.coordinate_L).min()) * T)
    np.testing.assert_allclose(limit, by_hand, rtol=1e-12)
    bound(cz.Continuized(p.L, p.mu), p, ZERO, t=T)  # and all gradients


def test_a_minimiser_that_is_not_known_can_be_set() -> None:
    p = cz.problems.LogisticRegression(X, NOISY, l2=0.0)
    assert p.f_star is None
    with pytest.raises(ValueError, match=r"minimiser of this Logistic.* set its x_star") as no:
        bound(cz.CoordinateDescent(), p, ZERO, t=T)
    one_sentence(no)
    p.x_star = minimize(p.fun, ZERO, jac=p.grad, method="trust-exact", hess=hessian(p)).x
    p.f_star = p.fun(p.x_star)
    S = float(np.sqrt(p.coordinate_L).sum() ** 2)
    by_hand = 2.0 * S * (p.x_star @ p.x_star) / T**2
    np.testing.assert_allclose(bound(cz.CoordinateDescent(), p, ZERO, t=T), by_hand, rtol=1e-12)
    own = cz.Problem(p.fun, p.grad, L=p.L)
    with pytest.raises(ValueError, match="the minimiser of this Problem is not known, and the th"):
        bound(cz.Continuized(p.L), own, ZERO, t=T)
    own.x_star, own.f_star = p.x_star, p.f_star
    np.testing.assert_allclose(
        bound(cz.Continuized(p.L), own, ZERO, t=T), bound(cz.Continuized(p.L), p, ZERO, t=T)
    )
    assert np.all(bound(cz.CoordinateDescent(accelerated=False), p, ZERO, t=T) > 0.0)  # by f*, too


def test_a_minimiser_that_is_not_known_can_be_found() -> None:
    p = cz.problems.LogisticRegression(X, NOISY, l2=1e-3)
    own = cz.Problem(p.fun, p.grad, L=p.L, mu=p.mu)
    known = cz.theory.with_minimiser(own, ZERO)
    assert own.x_star is None
    assert cz.theory.with_minimiser(known, ZERO) is known
    np.testing.assert_allclose(known.x_star, p.x_star, rtol=0.0, atol=1e-7)
    method = cz.Continuized(p.L, p.mu)
    np.testing.assert_allclose(bound(method, known, ZERO, t=T), bound(method, p, ZERO, t=T))
    with pytest.raises(ValueError, match=r"was not found: .* no minimum.* Set x_star of"):
        cz.theory.with_minimiser(cz.Problem(lambda x: float(x.sum()), np.ones_like), ZERO)


@pytest.mark.parametrize("n", [300, 10_000])
def test_constants_are_compared_with_room_for_their_rounding(n: int) -> None:
    column = np.random.default_rng(n).standard_normal((n, 1))
    p = cz.problems.LeastSquares(column, column[:, 0])
    L = math.fsum((column[:, 0] ** 2).tolist()) / n  # the true one, which is mu too
    assert p.mu < L < p.L
    for method in (cz.CoordinateDescent(), cz.Continuized(L), cz.Continuized(L, L)):
        assert bound(method, p, [0.0], t=1.0) > 0.0
    with pytest.raises(ValueError, match="needs L of the method to be at least"):
        bound(cz.Continuized(L * (1.0 - 1e-10)), p, [0.0], t=1.0)
    with pytest.raises(ValueError, match="needs mu of the method to be at most"):
        bound(cz.Continuized(2.0 * L, L * (1.0 + 1e-10)), p, [0.0], t=1.0)


def test_the_room_for_rounding_is_that_of_the_bounds() -> None:
    rng = np.random.default_rng(5)
    wide = sparse.random_array((4000, 3000), density=0.01, rng=rng, format="csr")
    for data, how in (
        (X, "exact"),
        (sparse.eye_array(3000, format="csr"), "norms"),
        (wide, "lanczos"),
    ):
        found = cz.problems.LeastSquares(data, np.ones(data.shape[0])).spectrum
        assert found.how == how
        assert 0.0 < found.rounding < 1e-6 * found.largest
    assert cz.problems.LeastSquares(np.zeros((3, 2)), np.ones(3)).rounding == 0.0


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
@pytest.mark.parametrize("kind", [cz.CoordinateDescent, cz.StochasticLeastSquares, cz.Kaczmarz])
def test_moments_of_float32_data_are_as_exact_as_of_float64(kind: Any, form: Any) -> None:
    single = X.astype(np.float32)
    same = single.astype(np.float64)  # the same numbers
    y = same @ np.ones(4)
    found, expected = (
        moments(cz.problems.LeastSquares(form(data), y), kind(), ZERO, [0.5, 3.0])
        for data in (single, same)
    )
    np.testing.assert_allclose(found.fun, expected.fun, rtol=1e-9)
    np.testing.assert_allclose(found.xx, expected.xx, rtol=1e-9)
