"""Runs that cannot succeed end early, and say what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import continuized as cz
from continuized.solver import stopping
from continuized.solver.metric import Identity
from continuized.solver.steppers.adaptive import AdaptiveStepper
from continuized.solver.steppers.evaluations import Evaluator
from tests.invariants.registry import same_bits

D = 20
EIGENVALUES, SLOPE, START = np.geomspace(0.01, 1.0, D), np.linspace(1.0, 2.0, D), np.full(D, 3.0)


def fun(x: Any) -> float:
    return 0.5 * float(EIGENVALUES @ x**2)


def jac(x: Any) -> Any:
    return EIGENVALUES * x


def with_one_sign_wrong(x: Any) -> Any:
    return jac(x) * np.where(np.arange(D) == 3, -1.0, 1.0)


WRONG = {
    "the sign": lambda x: -jac(x),
    "one sign": with_one_sign_wrong,
    "a constant": lambda x: SLOPE.copy(),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_gradient_is_found_by_differences_of_f(what: str, seed: int) -> None:
    r = cz.minimize(fun, START, WRONG[what], rng=seed)
    assert r.status is cz.Status.WRONG_GRADIENT
    assert not r.success
    assert r.nit < 500
    assert r.fun <= fun(START)
    assert r.fun == fun(r.x)


@pytest.mark.parametrize("factor", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_a_gradient_that_is_nearly_right_is_not_accused(factor: float, scale: float) -> None:
    """Half or twice the gradient is that of another function, with the same minimum."""
    r = cz.minimize(
        lambda x: scale * fun(x), START, lambda x: factor * scale * jac(x), tol=1e-7 * scale, rng=0
    )
    assert r.status is cz.Status.CONVERGED


@pytest.mark.parametrize("seed", range(3))
def test_a_kink_is_not_taken_for_a_wrong_gradient(seed: int) -> None:
    r = cz.minimize(lambda x: float(abs(x).sum()), START, np.sign, rng=seed, maxiter=3000)
    assert r.status is not cz.Status.WRONG_GRADIENT


def test_noise_in_f_is_not_taken_for_a_wrong_gradient() -> None:
    """One difference of such an f may be anything: it accused the gradient 90 times in 500."""
    rng = np.random.default_rng(0)

    def rough(x: Any) -> float:
        return fun(x) + float(rng.standard_normal())

    evaluator = Evaluator(cz.Problem(rough, jac), START, Identity())
    accused = [evaluator.contradicts_gradient(evaluator.evaluate(1e-3 * START)) for _ in range(500)]
    assert sum(accused) <= 5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
def test_with_a_prox_a_wrong_sign_is_found_too(seed: int, dtype: Any) -> None:
    """Where steps were lost in rounding, x did not move, and that passed for success."""
    r = cz.minimize(
        lambda x: fun(x.astype(float)), START.astype(dtype), lambda x: -jac(x),
        prox=cz.prox.L1(0.1), rng=seed,
    )  # fmt: skip
    assert r.status is cz.Status.WRONG_GRADIENT
    assert r.nit == 1024


@pytest.mark.parametrize("box", [cz.prox.Box(-1e9, 1e9), cz.prox.Box(3.0, 4.0)])
def test_a_mapping_is_measured_by_a_step_that_rounding_leaves(box: Any) -> None:
    """With this L, x + step is x to the last bit: at the bound it stays there, inside it moves."""
    r = cz.minimize(fun, START, jac, prox=box, L=1e18, rng=0, tol=1e-3, maxiter=50)
    assert r.status is (cz.Status.CONVERGED if box.low == 3.0 else cz.Status.MAXITER)


@pytest.mark.parametrize("L", [1.0, 1e3, 1e20])
def test_a_small_gradient_beside_a_prox_is_no_sign_of_a_minimum(L: float) -> None:
    """f is nearly flat, and h moves x.  A step that shows f would take x to the minimum of h, and
    be so long that the move divided by it is small."""
    r = cz.minimize(
        lambda x: 1e-25 * float(x[0]), [1.0], lambda x: np.array([1e-25]),
        prox=cz.prox.L1(1.0), L=L, rng=0, tol=1e-6, maxiter=5_000,
    )  # fmt: skip
    assert r.success == (L < 1e6)
    assert (abs(r.x[0]) < 1e-6) == r.success


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_linear_function_has_no_minimum(dtype: Any) -> None:
    r = cz.minimize(lambda x: float(SLOPE @ x), START.astype(dtype), lambda x: SLOPE.copy(), rng=0)
    assert r.status is cz.Status.NO_MINIMUM
    assert r.nit < 10_000


@numba.njit
def slope(x: Any, out: Any) -> None:
    out[:] = 1.0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("jac", [slope, np.ones_like])
@pytest.mark.parametrize("record", [True, False])
def test_with_constants_a_linear_function_has_no_minimum(jac: Any, dtype: Any, record: Any) -> None:
    p = cz.Problem(lambda x: float(x.sum()), jac)
    r = cz.minimize(p, START.astype(dtype), L=1.0, rng=0, record=record)
    assert r.status is cz.Status.NO_MINIMUM
    assert r.nit == 1024
    assert r.fun < -1e6


@pytest.mark.needs("array_api_strict")
def test_with_constants_a_linear_function_of_other_arrays_has_no_minimum() -> None:
    import array_api_strict as xp

    r = cz.minimize(lambda x: float(xp.sum(x)), xp.ones(3), xp.ones_like, L=1.0, rng=0)
    assert r.status is cz.Status.NO_MINIMUM


def raises_far_away(x: Any) -> Any:
    assert abs(x).max() < 1e9
    return np.tanh(x - 1e6)


@pytest.mark.parametrize("jac", [lambda x: np.tanh(x - 1e6), raises_far_away])
def test_a_slope_that_ends_far_away_is_no_proof(jac: Any) -> None:
    """The gradient is -1 to its last bit up to 1e6, after some 2,000 events."""

    def value(x: Any) -> float:
        return float(np.logaddexp(x - 1e6, 1e6 - x).sum())

    r = cz.minimize(value, np.zeros(2), jac, L=1.0, rng=0, tol=1e-6, maxiter=4000)
    assert r.status is cz.Status.MAXITER
    assert r.njev > r.nit + 2  # it was in doubt
    assert abs(r.x - 1e6).max() < 1e6


def test_a_minimum_far_away_is_reached() -> None:
    """x grows a million times while the gradient hardly falls: that is no proof."""
    far = cz.problems.Quadratic(np.full(3, 1e-6), np.full(3, 1e6))
    own = cz.Problem(far.fun, far.grad)
    r = cz.minimize(own, np.zeros(3), tol=1e-9, rng=0)
    assert r.status is cz.Status.CONVERGED


def separable() -> Any:
    X = np.random.default_rng(0).standard_normal((400, 5))
    return cz.problems.LogisticRegression(X, np.sign(X[:, 0]), l2=0.0)


@pytest.mark.parametrize("metric", [None, "gram", "diag"])
def test_data_that_can_be_separated_end_the_run(metric: Any) -> None:
    r = cz.minimize(separable(), np.zeros(5), metric=metric, tol=0.0, rng=0)
    assert r.status is cz.Status.NO_MINIMUM
    assert "x separates the data" in r.message
    assert r.nit < 10_000


@pytest.mark.parametrize("accelerated", [True, False])
def test_data_that_can_be_separated_end_a_run_by_coordinates(accelerated: bool) -> None:
    method = cz.CoordinateDescent(accelerated=accelerated)
    r = cz.minimize(separable(), np.zeros(5), method=method, tol=0.0, rng=0)
    assert r.status is cz.Status.NO_MINIMUM
    assert "x separates the data" in r.message
    assert 100 <= r.passes < 1000


@pytest.mark.parametrize("metric", [None, "diag"])
def test_classes_that_can_be_separated_end_the_run(metric: Any) -> None:
    X = np.repeat(np.eye(3), 4, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((12, 3))
    p = cz.problems.SoftmaxRegression(X, np.repeat([0, 1, 2], 4), l2=0.0)
    r = cz.minimize(p, np.zeros(9), metric=metric, tol=0.0, rng=0)
    assert r.status is cz.Status.NO_MINIMUM
    assert "x separates the data" in r.message
    early = cz.minimize(p, np.zeros(9), metric=metric, tol=0.1, rng=0)
    assert early.status is cz.Status.CONVERGED  # an answer, too
    assert p.is_separated_by(early.x)
    mixed = cz.problems.SoftmaxRegression(X, np.tile([0, 1, 2], 4), l2=0.0)
    assert not mixed.is_separated_by(r.x)


@pytest.mark.parametrize("L", [None, 0.3])
@pytest.mark.parametrize("prox", [cz.prox.L1(1e-4), cz.prox.Box(-30.0, 30.0)])
def test_data_that_can_be_separated_have_a_minimum_with_a_prox(
    prox: Any, L: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "FIRST_LOOK", 16)
    r = cz.minimize(separable(), np.zeros(5), prox=prox, L=L, tol=1e-5, rng=0)
    assert r.status is cz.Status.CONVERGED
    assert separable().is_separated_by(r.x)
    assert "separates" not in r.message


@pytest.mark.parametrize("metric", [None, "diag"])
def test_a_run_that_was_interrupted_ends_where_it_would_have(metric: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"metric": metric, "tol": 0.0, "rng": 0}
    whole = cz.minimize(separable(), np.zeros(5), **options)
    path = tmp_path / "run"
    part = cz.minimize(separable(), np.zeros(5), maxiter=10, checkpoint=path, **options)
    assert part.status is cz.Status.MAXITER
    resumed = cz.minimize(separable(), np.zeros(5), checkpoint=path, resume=True, **options)
    assert resumed.nit == whole.nit
    assert same_bits(resumed.x, whole.x)


@pytest.mark.parametrize("seed", range(3))
def test_poisson_regression_from_far_away_is_not_hopeless(seed: int) -> None:
    """L at the start is e^40 times that at the end."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((200, 5)) / np.sqrt(5.0)
    y = rng.poisson(np.exp(X @ rng.standard_normal(5)))

    def value(w: Any) -> float:
        return float(np.mean(np.exp(X @ w) - y * (X @ w)))

    def gradient(w: Any) -> Any:
        return X.T @ (np.exp(X @ w) - y) / len(y)

    far = cz.minimize(value, np.full(5, 20.0), gradient, tol=1e-8, rng=seed)
    near = cz.minimize(value, np.zeros(5), gradient, tol=1e-8, rng=seed)
    assert far.status is near.status is cz.Status.CONVERGED
    assert far.nit < 2000
    assert np.allclose(far.x, near.x, rtol=0.0, atol=1e-6)


def rotated(kappa: float, dtype: Any) -> Any:
    """A quadratic whose gradients are rounded: fun, x0 and jac."""
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((D, D)))
    H = ((Q * np.geomspace(1.0 / kappa, 1.0, D)) @ Q.T).astype(dtype)
    b = H @ rng.standard_normal(D).astype(dtype)
    return lambda x: float(0.5 * x @ (H @ x) - b @ x), np.zeros(D, dtype), lambda x: H @ x - b


def logistic() -> cz.problems.LogisticRegression:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    return cz.problems.LogisticRegression(X, rng.choice([-1.0, 1.0], 60), l2=0.1)


BELOW_ROUNDING: dict[str, Any] = {
    "float64": lambda **o: cz.minimize(*rotated(10.0, np.float64), **o),
    "float32": lambda **o: cz.minimize(*rotated(10.0, np.float32), **o),
    "prox": lambda **o: cz.minimize(*rotated(10.0, np.float64), prox=cz.prox.Box(-1, 1), **o),
    "metric": lambda **o: cz.minimize(logistic(), np.zeros(5), metric="gram", **o),
}


@pytest.mark.parametrize("what", BELOW_ROUNDING)
def test_a_tol_below_rounding_ends_and_says_so(what: str) -> None:
    r = BELOW_ROUNDING[what](tol=5e-324, rng=0, record=False)
    if r.status is not cz.Status.CONVERGED:  # by luck, a gradient may be rounded to 0
        assert r.status is cz.Status.PRECISION
        assert "cannot fall to tol at this precision" in r.message
        assert not r.success
        assert r.nit < 50_000
    eps = 2.0**-24 if what == "float32" else 2.0**-53
    if what != "prox":  # the least value of f is at a point like any other, by rounding
        assert np.linalg.norm(r.jac) <= 100.0 * eps * (1.0 + np.linalg.norm(r.x))


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_at_a_kink_no_step_is_short_enough(seed: int) -> None:
    """L grows until steps are lost in rounding: another tol would not help."""
    x0 = np.random.default_rng(seed).integers(-2, 3, 5).astype(float)
    path: list[float] = []

    def value(x: Any) -> float:
        path.append(float(abs(x).sum()))
        return path[-1]

    r = cz.minimize(value, x0, np.sign, rng=seed)
    assert r.status is cz.Status.NO_DESCENT
    assert r.nit < 10_000
    assert r.fun == float(abs(r.x).sum()) <= min(path[: r.nit])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kappa", [1e8, 1e12])
def test_slow_runs_are_not_taken_for_rounding(kappa: float, dtype: Any) -> None:
    for fun, x0, jac in (rotated(kappa, dtype), separate(kappa, dtype)):
        r = cz.minimize(fun, x0, jac, tol=5e-324, maxiter=4000, rng=0, record=False)
        assert r.status is not cz.Status.PRECISION


def separate(kappa: float, dtype: Any) -> Any:
    """Two coordinates: the quick one arrives at once, and then the gradient falls very slowly."""
    eigenvalues, star = np.array([1.0 / kappa, 1.0], dtype), np.array([0.1, -0.1], dtype)

    def value(x: Any) -> float:
        return 0.5 * float((eigenvalues * (x - star) ** 2).sum())

    return value, np.zeros(2, dtype), lambda x: eigenvalues * (x - star)


def test_an_interrupted_run_below_rounding_ends_where_it_would_have(tmp_path: Path) -> None:
    whole = BELOW_ROUNDING["float64"](tol=5e-324, rng=0)
    options = {"tol": 5e-324, "rng": 0, "checkpoint": tmp_path / "run"}
    BELOW_ROUNDING["float64"](maxiter=700, **options)
    resumed = BELOW_ROUNDING["float64"](resume=True, **options)
    assert (resumed.nit, resumed.status) == (whole.nit, whole.status)
    assert same_bits(resumed.x, whole.x)


@pytest.mark.parametrize(("star", "dtype"), [(1e16, np.float64), (1e100, np.float64),
                                             (1e7, np.float32)])  # fmt: skip
@pytest.mark.parametrize("prox", [None, cz.prox.L1(0.0)])
def test_a_minimum_far_away_is_found_though_the_first_steps_are_lost_in_rounding(
    star: float, dtype: Any, prox: Any
) -> None:
    """From 0, L is first guessed from a step of 1e-4, which changes neither f nor its gradient."""
    far = dtype(star)
    r = cz.minimize(
        lambda x: 0.5 * float(((x - far).astype(np.float64) ** 2).sum()),
        np.zeros(3, dtype), lambda x: x - far, prox=prox, rng=0,
    )  # fmt: skip
    assert r.nit < 5000
    assert np.allclose(r.x, far, rtol=4 * np.finfo(dtype).eps)


def test_a_run_below_rounding_gives_back_its_last_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its message says: of the values of f, the lowest is so by rounding."""
    end, found = AdaptiveStepper._end, []

    def ended(self: AdaptiveStepper, status: cz.Status | None) -> Any:
        found.append((status, end(self, status) is self.last, self.best is self.last))
        return end(self, status)

    monkeypatch.setattr(AdaptiveStepper, "_end", ended)
    for seed in range(4):
        BELOW_ROUNDING["float64"](tol=5e-324, rng=seed, record=False)
    assert (cz.Status.PRECISION, True, False) in found
    assert all(is_last for status, is_last, _ in found if status is cz.Status.PRECISION)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("mu", [0.0, 2.0])
def test_with_constants_a_wrong_gradient_that_vanishes_is_no_success(
    mu: float, record: bool, dtype: Any
) -> None:
    """f falls towards 3, the gradient given leads to 0, where f is larger than at the start."""

    def f(x: Any) -> float:
        return float(((x - 3.0) ** 2).sum())

    given = {"L": 2.0, "mu": mu, "tol": 1e-3, "rng": 0, "record": record}
    r = cz.minimize(f, np.ones(3, dtype), lambda x: 2.0 * x, **given)
    assert r.status is cz.Status.WRONG_GRADIENT
    assert "larger than it was at the start" in r.message
    right = cz.minimize(f, np.ones(3, dtype), lambda x: 2.0 * (x - 3.0), **given)
    assert right.status is cz.Status.CONVERGED


def test_f_at_the_start_may_be_its_least_up_to_rounding() -> None:
    p = cz.problems.Quadratic([1.0, 1e-3], [1e8, 1.0])
    r = cz.minimize(lambda x: p.fun(x) + 1e3, [1e8, 1.0], p.grad, L=1.0, tol=1e-6, rng=0)
    assert r.status is cz.Status.CONVERGED


def test_of_a_rough_f_nothing_is_told() -> None:
    rng = np.random.default_rng(0)
    rough = cz.Problem(lambda x: fun(x) + float(rng.standard_normal()), jac)
    runs = [cz.minimize(rough, 1e-3 * START, L=4.0, tol=1e-2, rng=0) for _ in range(200)]
    accused = sum(r.status is cz.Status.WRONG_GRADIENT for r in runs)
    assert sum(r.fun > r.trace.fun[0] for r in runs) > 50
    assert accused == 0  # by chance: 3e-5 each


def test_of_an_f_that_is_mostly_rounding_nothing_is_told() -> None:
    """Of |x - b|^2, expanded beside 1e16, one digit is right; a start of 3.7 is off by its last."""
    b = np.array([1e8, 0.3])
    expanded = cz.Problem(
        lambda x: 0.5 * float(x @ x - 2.0 * (b @ x) + b @ b), lambda x: x - b, L=1.0
    )
    for seed in range(20):
        start = b + 1e-3 * np.random.default_rng(seed).standard_normal(2)
        r = cz.minimize(expanded, start, tol=1e-6, rng=seed)
        assert r.status is cz.Status.CONVERGED
    X = np.random.default_rng(0).standard_normal((200, 5))
    flat = cz.problems.LeastSquares(X, np.full(200, 3.7), l2=0.005, intercept=True)
    start = np.append(np.zeros(5), 3.7)
    for method in ("nesterov", "continuized", "gradient-descent"):
        r = cz.minimize(flat, start, method=method, L=flat.L, mu=flat.mu, tol=6e-14, rng=0)
        assert r.status is cz.Status.CONVERGED


def test_of_f_with_psi_and_of_quasar_convex_f_nothing_is_told_so() -> None:
    """The gradient of f alone tells nothing of f + psi; a quasar-convex f may bend either way."""
    away = cz.Problem(lambda x: -float(x.sum()), lambda x: -np.ones_like(x))
    box = {"prox": cz.prox.Box(-1.0, 1.0), "L": 1.0, "tol": 1e-6, "rng": 0}
    assert cz.minimize(away, np.zeros(2), **box).status is cz.Status.CONVERGED
    hump = cz.Problem(lambda x: -float((x**2).sum()), lambda x: -2.0 * x)
    method = cz.Continuized(2.0, tau=0.5)
    r = cz.minimize(hump, np.zeros(2), method=method, tol=1e-6, rng=0)
    assert r.status is cz.Status.CONVERGED
