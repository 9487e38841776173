"""Witnesses: wrong constants are warned of, once; right ones never."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized import ConstantsWarning
from continuized.solver import constant_checks as checks
from tests.invariants.registry import (
    PAIRS,
    PYTHON_PROBLEMS,
    SOME_PAIRS,
    method,
    problem,
    x0_of,
)


def warnings_of(*args: Any, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cz.minimize(*args, **{"rng": 1, "maxiter": 2000} | options)
    assert all(w.category is ConstantsWarning for w in caught)
    return [str(w.message) for w in caught]


def as_python(p: Any) -> Any:
    """The same problem with its gradient called from Python."""
    return cz.Problem(p.fun, p.grad, L=p.L, mu=p.mu)


def quadratic() -> Any:
    return cz.problems.Quadratic([0.01, 0.3, 1.0], [1.0, -1.0, 2.0])


@pytest.mark.parametrize("wrap", [lambda p: p, as_python])
@pytest.mark.parametrize("name", ["continuized", "nesterov", "gradient-descent"])
@pytest.mark.parametrize("L", [0.7, 0.1, 1e-4])
def test_an_L_too_small(L: float, name: str, wrap: Any) -> None:
    (message,) = warnings_of(wrap(quadratic()), np.zeros(3), method=name, L=L, mu=0.0)
    found = re.fullmatch(
        r"L = (\S+) is too small: two gradients show that L is at least (\S+)", message
    )
    assert found
    assert float(found[1]) == pytest.approx(L)
    assert L < float(found[2]) <= 1.0 + 1e-5


@pytest.mark.parametrize("wrap", [lambda p: p, as_python])
@pytest.mark.parametrize("name", ["continuized", "nesterov"])
@pytest.mark.parametrize("mu", [0.03, 0.1, 0.9])
def test_a_mu_too_large(mu: float, name: str, wrap: Any) -> None:
    (message,) = warnings_of(wrap(quadratic()), np.zeros(3), method=name, mu=mu)
    found = re.fullmatch(
        r"mu = (\S+) is too large: two gradients show that mu is at most (\S+)", message
    )
    assert found
    assert float(found[1]) == pytest.approx(mu)
    assert 0.01 - 1e-7 <= float(found[2]) < mu


def test_a_function_that_is_not_convex() -> None:
    def fun(x: np.ndarray) -> float:
        return float(np.sum(np.cos(x)))

    (message,) = warnings_of(fun, [0.1, 0.2], lambda x: -np.sin(x), L=1.0)
    assert "not convex" in message
    assert "L = 1 " in message


def test_a_gradient_of_the_wrong_sign() -> None:
    messages = warnings_of(lambda x: 0.5 * float(x @ x), [1.0, 2.0], lambda x: -x, L=1.0)
    assert len(messages) == 1
    assert "its gradient is wrong" in messages[0]


def test_the_warning_points_at_the_call() -> None:
    with pytest.warns(ConstantsWarning) as caught:
        cz.minimize(quadratic(), np.zeros(3), L=0.5, maxiter=50, rng=0)
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("options", [{"L": 0.5, "mu": 0.0}, {"mu": 0.5}])
def test_noise_gives_no_witness(options: dict[str, float]) -> None:
    noise = cz.noise.Gaussian(1e-4)
    assert warnings_of(quadratic(), np.zeros(3), noise=noise, maxiter=100, **options) == []


def test_custom_parameters_are_watched_only_where_L_is_given() -> None:
    rates = (lambda t: 0.1, lambda t: 0.1, lambda t: 0.5, lambda t: 0.5)
    p = quadratic()
    blind, wrong = cz.CustomContinuized(*rates), cz.CustomContinuized(*rates, L=0.5)
    assert warnings_of(p, np.zeros(3), method=blind, maxiter=50) == []
    assert len(warnings_of(p, np.zeros(3), method=wrong, maxiter=50)) == 1


# Right constants: a warning would be an error in all that follows.


@pytest.mark.parametrize(
    ("name", "on", "dtype"),
    [
        pytest.param(*pair, dtype, marks=pytest.mark.slow if ", d = " in pair[1] else ())
        for dtype, pairs in ((np.float64, PAIRS), (np.float32, SOME_PAIRS))
        for pair in pairs
    ],
)
def test_right_constants_down_to_rounding(name: str, on: str, dtype: Any) -> None:
    p = problem(on)
    slow = name == "custom" or on in PYTHON_PROBLEMS
    steps = 300 if slow else 5000
    cz.minimize(p, x0_of(p, dtype), method=method(name, p), rng=1, maxiter=steps, record=False)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("kappa", [1e4, 1e10])
def test_right_constants_on_ill_conditioned_quadratics(
    kappa: float, scale: float, dtype: Any
) -> None:
    rng = np.random.default_rng(0)
    lam = np.geomspace(1.0 / kappa, 1.0, 30) * scale
    p = cz.problems.Quadratic(lam, rng.standard_normal(30))
    for m in (cz.Nesterov(p.L, p.mu), cz.Continuized(p.L, p.mu), cz.Continuized(p.L, p.mu, 0.0)):
        x0 = 100.0 * rng.standard_normal(30).astype(dtype)
        cz.minimize(p, x0, method=m, rng=1, maxiter=20_000, record=False)


def rotated(kappa: float, d: int = 12) -> Any:
    """A quadratic whose Hessian is a full matrix: its gradient is a sum that cancels."""
    Q, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((d, d)))
    H = (Q * np.geomspace(1.0 / kappa, 1.0, d)) @ Q.T
    H = 0.5 * (H + H.T)
    # L and mu moved outwards by the rounding of H itself.
    return cz.Problem(
        lambda x: 0.5 * float(x @ (H @ x)), lambda x: H @ x, L=1.0 + 1e-14, mu=1.0 / kappa - 1e-14
    )


@pytest.mark.parametrize("kappa", [1e2, 1e6, 1e10])
def test_right_constants_on_full_matrices(kappa: float) -> None:
    p = rotated(kappa)
    for m in (cz.GradientDescent(p.L), cz.Nesterov(p.L, p.mu), cz.Continuized(p.L, p.mu)):
        cz.minimize(p, np.full(12, 1e3), method=m, rng=1, maxiter=5000, record=False)


@pytest.mark.parametrize("residual", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_right_constants_at_a_warm_start(residual: float, form: Any) -> None:
    # The terms of the gradient are large and cancel: at the minimum only rounding is left.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    Q, _ = np.linalg.qr(X)
    y = residual * rng.standard_normal(200)
    y -= Q @ (Q.T @ y)
    p = cz.problems.LeastSquares(form(X), y)
    for x0 in (np.zeros(5), np.full(5, 1e-10), p.x_star):
        for m in (cz.GradientDescent(p.L), cz.Nesterov(p.L, p.mu), cz.Continuized(p.L, p.mu)):
            cz.minimize(p, x0, method=m, rng=1, maxiter=500, record=False)


def test_right_constants_at_a_warm_start_of_a_logistic_regression() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6))
    X = np.vstack([X, X])
    y = np.repeat([1.0, -1.0], 300)  # every row with both labels: w = 0 is the minimum
    for dtype in (np.float64, np.float32):
        p = cz.problems.LogisticRegression(X, y, l2=1e-3)
        for size in (0.0, 1e-9, 1e-5):
            for m in (cz.GradientDescent(p.L), cz.Nesterov(p.L, p.mu), cz.Continuized(p.L, p.mu)):
                x0 = np.full(6, size, dtype)
                cz.minimize(p, x0, method=m, rng=1, maxiter=500, record=False)


def test_right_constants_on_a_function_that_is_flat_far_out() -> None:
    # log cosh: curvature 1 at the minimum, exponentially little away from it.
    p = cz.Problem(
        lambda x: float(np.sum(np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - math.log(2))),
        np.tanh,
        L=1.0,
    )
    for m in (cz.GradientDescent(1.0), cz.Nesterov(1.0), cz.Continuized(1.0)):
        cz.minimize(p, np.array([30.0, -8.0, 1.0]), method=m, rng=1, maxiter=2000, record=False)


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_right_constants_with_a_gradient_in_single_precision(shape: tuple[int, ...]) -> None:
    # x is float64, but the answers have float32's rounding errors, and that is what counts.
    X = np.random.default_rng(0).standard_normal((60, 5))
    y = np.random.default_rng(1).standard_normal(60)
    p = cz.problems.LeastSquares(X, y)
    X4, y4 = X.astype(np.float32), y.astype(np.float32)

    def grad(x: np.ndarray) -> np.ndarray:
        w = x.ravel().astype(np.float32)
        return (X4.T @ (X4 @ w - y4) / np.float32(60)).reshape(x.shape)

    for m in (cz.GradientDescent(p.L), cz.Nesterov(p.L, p.mu), cz.Continuized(p.L, p.mu)):
        cz.minimize(p.fun, np.zeros(shape), grad, method=m, rng=1, maxiter=500)
    with pytest.warns(cz.ConstantsWarning, match="too small"):
        cz.minimize(p.fun, np.zeros(shape), grad, L=0.5 * p.L, rng=1, maxiter=50)


# The entries of `watch`, by hand


def watch(tol: float | None = None) -> Any:
    return checks.make_watch(cz.Continuized(1.0), tol, True, 2.2e-16)


def test_the_first_ten_gradients_say_how_large_is_too_large() -> None:
    seen = watch()
    for step in range(12):
        size = 10.0**step
        checks.judge(seen, size * size, 0.0, 0.0, 0.0, 0.0)
        largest = 10.0 ** min(step, 9)
        assert seen[checks.LIMIT2] == pytest.approx((1e10 * largest) ** 2)


@pytest.mark.parametrize("steps", [(1e-3, 1e150), (1e150, 1e-3)])
def test_no_step_is_so_long_that_x_or_z_could_overflow(steps: tuple[float, float]) -> None:
    assert checks.choose_signal(watch(), 1.0, math.inf, *steps) == checks.GO_ON
    assert checks.choose_signal(watch(), 1e8, math.inf, *steps) == checks.NOT_FINITE


def test_a_scale_of_gradients_that_overflows_is_none() -> None:
    seen = watch()
    checks.set_gradient_scale(seen, 4.0, -8.0)
    assert seen[checks.G_MAX2] == 64.0
    checks.set_gradient_scale(seen, 1e10, 1e300)  # or no pair of gradients would be a witness
    assert seen[checks.G_MAX2] == 64.0


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("witnessing", [False, True])
@pytest.mark.parametrize("tol", [None, 0.5])
def test_quiet_events_change_nothing_but_the_count(tol: float | None, witnessing: bool) -> None:
    """Every event of a product of sizes, around the limits: of what is called quiet `judge` and
    `choose_signal` say that it goes on, and keep nothing but its number.  What is quiet, but not
    called so, is huge, or a witness within rounding, for which they look closer."""
    start = checks.make_watch(cz.Continuized(1.0, 0.1), tol, witnessing, 2.2e-16)
    later = start.copy()
    for _ in range(checks.WARM_UP):
        checks.judge(later, 4.0, 9.0, 1.0, 1.0, 1.0)
    # After a gradient that was skipped, for its step was too long: it counts as the largest.
    skipped, huge = later.copy(), start.copy()
    checks.judge(skipped, 1e305, 9.0, 1.0, 1.0, 1.0)
    for square in (1.5e308, 1.0) * checks.WARM_UP:
        checks.judge(huge, square, 1.5e308 / square, 1.0, 1.0, 1.0)
    start[[checks.G_MAX2, checks.Y_MAX2]] = 4.0, 9.0  # of f at the start: nothing is too large yet
    sizes = (0.0, 0.2, 1.0, 4.0, 4.1, 1e21, 1e300, 1.5e308, math.inf, math.nan)
    products = (-1.0, 0.0, 0.05, 0.3, 1.0, math.inf, math.nan)
    counts = {True: 0, False: 0}
    for before in (start, later, skipped, huge):
        for g2, y2, dg2 in itertools.product(sizes, sizes, products[1:]):
            for dgdy, longest in itertools.product(products, (1e-160, 1.0, 1e155)):
                squares, after = (g2, y2, dg2, dgdy, 1.0), before.copy()
                size2 = checks.judge(after, *squares)
                signal = checks.choose_signal(after, size2, size2, 1e-170, longest)
                after[[checks.STEPS, checks.QUIET2]] = before[[checks.STEPS, checks.QUIET2]]
                goes_on = signal == checks.GO_ON and np.array_equal(after, before, equal_nan=True)
                is_quiet = checks.is_quiet(before, *squares, longest)
                counts[is_quiet] += 1
                if is_quiet:
                    assert goes_on, (squares, longest)
                elif goes_on and before is not start and g2 <= checks.NEVER_OVERFLOWS:
                    fits_constants = math.isfinite(dg2 + dgdy) and dg2 <= dgdy and dgdy >= 0.1
                    assert witnessing, squares
                    assert not fits_constants, squares
    assert min(counts.values()) > 100


def test_no_event_is_quiet_before_it_is_known_what_is_too_large() -> None:
    seen = watch()
    for size2 in [1.0] * 12 + [1e15]:
        squares = (size2, 1.0, 0.0, 0.0, 0.0)
        if not checks.is_quiet(seen, *squares, 1.0):
            checks.judge(seen, *squares)
    assert seen[checks.LIMIT2] == pytest.approx(1e20)  # by the first ten, not by the last
