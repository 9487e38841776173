"""Proximal steps: against solvers written here, and SciPy's."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, lsq_linear, nnls

import continuized as cz
from continuized import Status
from continuized.process.prox import L1, Box, NonNegative, Simplex, proximal_step, value_after_step

pytestmark = pytest.mark.blas


def data(
    n: int = 80, d: int = 30, seed: int = 0, least: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ np.diag(np.geomspace(1.0, least, d))
    return X, X[:, :5] @ np.array([3.0, -2.0, 4.0, 1.0, -5.0]) + 0.1 * rng.standard_normal(n)


def soft(v: np.ndarray, least: float) -> np.ndarray:
    return np.sign(v) * np.maximum(np.abs(v) - least, 0.0)


def lasso(X: np.ndarray, y: np.ndarray, weight: float) -> np.ndarray:
    """By cyclic coordinate descent, to a subgradient of 1e-13 times the gradient at 0."""
    n, d = X.shape
    w, residual = np.zeros(d), -y.copy()
    squares = (X**2).sum(axis=0) / n
    for _ in range(20_000):
        for j in range(d):
            new = soft(w[j] - X[:, j] @ residual / n / squares[j], weight / squares[j])
            residual += X[:, j] * (new - w[j])
            w[j] = new
        g = X.T @ residual / n
        off = np.where(w == 0.0, np.maximum(np.abs(g) - weight, 0.0), g + weight * np.sign(w))
        if np.abs(off).max() < 1e-13 * np.abs(X.T @ y).max() / n:
            return w
    raise AssertionError("coordinate descent did not converge")


def fista(p: Any, weight: float, x0: np.ndarray, target: float) -> int:
    """The textbook's, told L: how many gradients until f + h is at most target."""
    x = y = x0
    t = 1.0
    for k in range(1, 100_000):
        new = soft(y - p.grad(y) / p.L, weight / p.L)
        if p.fun(new) + weight * np.abs(new).sum() <= target:
            return k
        t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        x, y, t = new, new + (t - 1.0) / t_new * (new - x), t_new
    raise AssertionError("FISTA did not converge")


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("weight", [0.01, 0.3])
def test_lasso(weight: float, given: bool) -> None:
    X, y = data()
    p = cz.problems.LeastSquares(X, y)
    star = lasso(X, y, weight)
    best = p.fun(star) + weight * np.abs(star).sum()
    L = p.L if given else None
    r = cz.minimize(p, np.ones(30), prox=L1(weight), L=L, tol=1e-10, rng=0)
    assert r.status is Status.CONVERGED
    assert r.message == "The norm of the gradient mapping is at most tol."
    assert r.fun == pytest.approx(best, rel=1e-12)
    assert r.fun == pytest.approx(p.fun(r.x) + weight * np.abs(r.x).sum(), rel=1e-14)
    np.testing.assert_allclose(r.x, star, atol=1e-7)
    np.testing.assert_array_equal(r.x == 0.0, star == 0.0)
    np.testing.assert_allclose(r.jac, p.grad(r.x), rtol=1e-12, atol=1e-14)


def gradients_to(p: Any, weight: float, x0: np.ndarray, target: float, seed: int) -> int:
    """How many evaluations until f + h of the point shown is at most target."""
    evaluations: list[int] = []

    def stop(intermediate_result: Any) -> None:
        x = intermediate_result.x
        evaluations.append(intermediate_result.nit + 1)  # and one for the first estimate of L
        if p.fun(x) + weight * np.abs(x).sum() <= target:
            raise StopIteration

    r = cz.minimize(p, x0, prox=L1(weight), tol=0.0, callback=stop, rng=seed)
    assert r.status is Status.CALLBACK
    return evaluations[-1]


def test_no_more_steps_than_fista() -> None:
    """Not told L, fewer gradients than FISTA that is, in the median over seeds and data."""
    ratios = []
    for seed in range(4):
        X, y = (30.0 * part for part in data(seed=seed, least=0.01))  # L far from 1
        p = cz.problems.LeastSquares(X, y)
        for weight in (0.1, 1.0):
            star = lasso(X, y, weight)
            best = p.fun(star) + weight * np.abs(star).sum()
            target = best + 1e-9 * (p.fun(np.zeros(30)) - best)
            steps = gradients_to(p, weight, np.zeros(30), target, seed)
            ratios.append(steps / fista(p, weight, np.zeros(30), target))
    assert np.median(ratios) < 1.0
    assert max(ratios) < 2.0


def test_non_negative_least_squares() -> None:
    X, y = data(seed=1)
    star = nnls(X, y)[0]
    p = cz.problems.LeastSquares(X, y)
    r = cz.minimize(p, -np.ones(30), prox=NonNegative(), tol=1e-11, rng=0)
    assert r.success
    assert np.all(r.x >= 0.0)
    np.testing.assert_allclose(r.x, star, atol=1e-8)
    assert r.fun == pytest.approx(p.fun(star), rel=1e-12)
    assert math.isinf(r.trace.fun[0])  # the start is outside
    assert np.all(np.isfinite(r.trace.fun[1:]))


def test_a_box() -> None:
    X, y = data(seed=2)
    low, high = np.linspace(-1.0, 0.0, 30), np.linspace(0.1, 1.0, 30)
    star = lsq_linear(X, y, bounds=(low, high), tol=1e-14).x
    bounds = low.copy(), high.copy()
    prox = Box(*bounds)
    bounds[0][:] = 5.0  # the box has its own
    p = cz.problems.LeastSquares(X, y)
    r = cz.minimize(p, np.zeros(30), prox=prox, tol=1e-11, rng=0)
    np.testing.assert_allclose(r.x, star, atol=1e-6)
    assert r.fun <= p.fun(np.clip(star, low, high)) * (1 + 1e-12)


@pytest.mark.parametrize("total", [1.0, 7.5])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_the_projection_onto_a_simplex(size: float, total: float) -> None:
    rng = np.random.default_rng(0)
    for d in (1, 2, 17):
        v = size * rng.standard_normal(d)

        def excess(c: float, v: np.ndarray = v) -> float:
            return float(np.maximum(v - c, 0.0).sum()) - total

        c = brentq(excess, v.min() - total - 1.0, v.max(), xtol=1e-15, rtol=1e-15)
        projected = Simplex(total)(v, 0.3)
        np.testing.assert_allclose(projected, np.maximum(v - c, 0.0), atol=1e-12 * (1 + size))
        assert Simplex(total).value(projected) == 0.0


def test_a_simplex_far_away() -> None:
    np.testing.assert_array_equal(Simplex()(np.array([1e17, 1.0, 1e17]), 1.0), [0.5, 0.0, 0.5])
    assert Simplex()(np.ones(3, np.float32), 1.0).dtype == np.float32
    assert math.isinf(Simplex().value(np.array([0.5, 0.6])))


def test_minimising_over_a_simplex() -> None:
    """The optimality condition: the gradient is the same on the support, larger elsewhere."""
    X, y = data(seed=3)
    p = cz.problems.LeastSquares(X, y)
    r = cz.minimize(p, np.zeros(30), prox=Simplex(2.0), tol=1e-11, rng=0)
    g, support = p.grad(r.x), r.x > 0.0
    assert r.x.sum() == pytest.approx(2.0, rel=1e-12)
    assert np.ptp(g[support]) < 1e-9
    assert g[~support].min() > g[support].max() - 1e-9


def test_a_prox_of_the_users_own() -> None:
    X, y = data()
    p = cz.problems.LeastSquares(X, y)

    def ridge(v: np.ndarray, step: float) -> np.ndarray:
        v /= 1.0 + 0.2 * step  # writes into what it is given
        return v

    r = cz.minimize(p, np.zeros(30), prox=ridge, tol=1e-11, rng=0)
    star = cz.problems.LeastSquares(X, y, l2=0.2).x_star
    np.testing.assert_allclose(r.x, star, atol=1e-9)
    assert r.fun == pytest.approx(p.fun(r.x))  # h is not known


def test_the_end_of_a_short_run_is_not_the_best_of_f_alone() -> None:
    """f alone is least far from where f + h is."""
    p = cz.problems.Quadratic([1.0, 2.0], [3.0, -3.0])
    prox = L1(100.0)
    r = cz.minimize(p, [3.0, -3.0], prox=prox, maxiter=20, rng=0)
    assert r.x.tolist() == [0.0, 0.0]
    assert r.fun == p.fun(np.zeros(2))
    none = cz.minimize(p, [3.0, -3.0], prox=prox, maxiter=0)
    assert (none.fun, none.x.tolist()) == (600.0, [3.0, -3.0])


def test_points_shown_are_feasible_and_counts_exact() -> None:
    X, y = data()
    p = cz.problems.LeastSquares(X, y)
    calls = []

    def both(x: np.ndarray) -> tuple[float, np.ndarray]:
        calls.append(x.dtype)
        return p.fun(x), p.grad(x)

    shown: list[np.ndarray] = []
    x0 = np.zeros(30, np.float32)
    for prox in (Simplex(), NonNegative(), Box(0.0, np.ones(30)), L1(0.1)):
        calls.clear()
        shown.clear()
        r = cz.minimize(both, x0, jac=True, prox=prox, maxiter=30, callback=shown.append, rng=0)
        assert r.nfev == len(calls)
        assert (r.x.dtype, set(calls)) == (np.float32, {np.dtype(np.float32)})
        if not isinstance(prox, Simplex):  # its sum is rounded in float32
            assert all(math.isfinite(prox.value(x)) for x in shown)
        assert all(np.all(x >= 0.0) for x in shown) or isinstance(prox, L1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: L1(-1.0), ValueError, "weight must be a finite number >= 0, got -1.0"),
        (lambda: L1("a"), TypeError, "weight must be a finite number >= 0, got 'a'"),
        (lambda: L1(math.nan), ValueError, "weight must be"),
        (lambda: Simplex(0.0), ValueError, "total must be a finite number > 0, got 0.0"),
        (lambda: Box(1.0, 0.0), ValueError, "low <= high"),
        (lambda: Box(math.nan, 0.0), ValueError, "low <= high"),
        (lambda: Box("a", 0.0), TypeError, "low must be a real number"),
        (lambda: Box(math.inf, math.inf), ValueError, "^no number lies in a box with low = inf or"),
        (lambda: Box(-math.inf, [1.0, -math.inf]), ValueError, "^no number lies in a box with"),
    ],
)
def test_bad_proxes(make: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"prox": 3.0}, TypeError, "prox must be None, an object such as"),
        ({"prox": L1}, TypeError, "prox must be None, an object such as"),
        ({"prox": L1(1.0), "metric": np.ones(3)}, ValueError, "do not go together"),
        ({"prox": L1(1.0), "method": "nesterov"}, ValueError, 'method="continuized"'),
        ({"prox": L1(1.0), "noise": cz.noise.Gaussian(1.0)}, ValueError, "without noise="),
        ({"prox": L1(1.0), "record": "path"}, ValueError, "record=True"),
        ({"prox": L1(1.0), "mu": 0.1}, ValueError, "mu without L"),
        ({"prox": lambda v, step: v[:2]}, ValueError, r"shape of x, \(3,\)"),
        ({"prox": lambda v, step: "no"}, ValueError, r"shape of x, \(3,\)"),
        ({"prox": Box(np.zeros((2, 1)), 1.0)}, ValueError, r"have shape \(2, 1\), but x has"),
    ],
)
def test_bad_options(options: dict[str, Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        cz.minimize(lambda x: (0.5 * float(x @ x), x), np.ones(3), jac=True, **options)


def test_a_box_of_the_wrong_shape_is_refused_before_the_first_step():
    asked = []

    def fun(x):
        asked.append(x)
        return 0.5 * float(x @ x)

    sentence = r"^the bounds of cz.prox.Box have shape \(2,\), but x has shape \(3,\); give numbers"
    for L in (1.0, None):
        with pytest.raises(ValueError, match=sentence):
            cz.minimize(fun, np.ones(3), lambda x: x, L=L, prox=Box([0.0, 0.0], 1.0))
    assert not asked
    with pytest.raises(ValueError, match=sentence):
        Box([0.0, 0.0], 1.0)(np.ones(3), 1.0)
    with pytest.raises(ValueError, match=r"must have one shape, got \(2,\) and \(3,\)"):
        Box([0.0, 0.0], [1.0, 1.0, 1.0])


def test_huge_integers_and_fractions_are_numbers():
    assert Box(-(10**400), 10**400)(np.ones(2), 1.0).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"^weight must be a finite number >= 0, got 1000"):
        L1(10**400)
    with pytest.raises(ValueError, match=r"^total must be a finite number > 0, got 1000"):
        Simplex(10**400)
    assert type(Simplex(Fraction(1, 2)).total) is float


def test_the_value_after_a_step_is_the_model_of_that_step() -> None:
    """It is an upper bound of f + psi where 1/step is L, and exact where all curvatures are L."""
    p, x, step = cz.problems.Quadratic([4.0, 4.0], [1.0, -2.0]), np.array([3.0, 0.5]), 0.25
    prox, g = cz.prox.L1(0.5), p.grad(x)
    after = proximal_step(prox, x - step * g, step)
    found = value_after_step(prox, p.fun(x), g, after - x, after, step)
    assert found == pytest.approx(p.fun(after) + prox.value(after), rel=1e-12)
