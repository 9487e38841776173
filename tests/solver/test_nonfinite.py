"""Gradients that are not finite: a run ends, raises, or takes the event without its jump."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch

import continuized as cz
from tests.invariants.registry import events_of, same_bits

WEIGHTS = np.array([0.05, 0.5, 2.0])
L, STEPS, SEED = 2.0, 60, 4
METHODS = {
    "mu = 0": cz.Continuized(L),
    "mu > 0": cz.Continuized(L, 0.05),
    "start = 2": cz.Continuized(L, 0.05, 2.0),
    "nesterov": cz.Nesterov(L, 0.05),
}


def fun(x: Any) -> float:
    return 0.5 * float(WEIGHTS @ (x - 1.0) ** 2)


def jac(x: Any) -> Any:
    """Bad in a slab that the runs go through."""
    return np.full(3, np.nan) if 0.2 < x[0] < 0.3 else WEIGHTS * (x - 1.0)


@numba.njit
def compiled_jac(x, out):  # type: ignore[no-untyped-def]
    bad = 0.2 < x[0] < 0.3
    out[0], out[1], out[2] = 0.05 * (x[0] - 1.0), 0.5 * (x[1] - 1.0), 2.0 * (x[2] - 1.0)
    if bad:
        out[0] = math.nan


def by_hand(method: Any) -> tuple[np.ndarray, int]:
    """The points of a run in which bad gradients are zero, and how many they were."""
    skipped = 0

    def oracle(x: Any, mark: Any) -> Any:
        nonlocal skipped
        g = jac(x)
        skipped += int(np.isnan(g).any())
        return np.nan_to_num(g)

    state = method.init(np.zeros(3))
    points = [state.x]
    for event in events_of(method, SEED, STEPS).each():
        state, _ = method.step(state, event, oracle)
        points.append(state.x)
    return np.array(points), skipped


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("gradient", [jac, compiled_jac], ids=["python", "compiled"])
@pytest.mark.parametrize("record", ["path", True, False])
def test_a_skipped_event_makes_no_jump(name: str, gradient: Any, record: Any) -> None:
    points, skipped = by_hand(METHODS[name])
    assert skipped > 0
    options = {"method": METHODS[name], "rng": SEED, "maxiter": STEPS, "record": record}
    r = cz.minimize(fun, np.zeros(3), gradient, nonfinite="skip", **options)
    assert r.skipped == skipped
    assert r.status is cz.Status.COMPLETED
    assert r.message.endswith(f" {skipped} gradients that were not finite were skipped.")
    assert np.allclose(r.x, points[-1], rtol=0.0, atol=1e-13)
    if record == "path":
        assert np.allclose(r.path.x, points, rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("gradient", [jac, compiled_jac], ids=["python", "compiled"])
def test_by_default_a_run_ends_at_the_last_good_point(gradient: Any) -> None:
    options = {"method": METHODS["mu > 0"], "rng": SEED, "maxiter": STEPS, "record": "path"}
    ended = cz.minimize(fun, np.zeros(3), gradient, **options)
    skipped = cz.minimize(fun, np.zeros(3), gradient, nonfinite="skip", **options)
    assert ended.status is cz.Status.NOT_FINITE
    assert ended.skipped == 0
    assert same_bits(ended.x, skipped.path.x[ended.nit])
    with pytest.raises(FloatingPointError, match=f"after {ended.nit} events"):
        cz.minimize(fun, np.zeros(3), gradient, nonfinite="raise", **options)


@pytest.mark.parametrize("nonfinite", ["stop", "raise", "skip"])
@pytest.mark.parametrize("gradient", [jac, compiled_jac], ids=["python", "compiled"])
def test_where_all_is_finite_nothing_changes(nonfinite: str, gradient: Any) -> None:
    options = {"method": METHODS["mu > 0"], "rng": SEED, "tol": 1e-6}
    expected = cz.minimize(fun, np.ones(3) * 2.0, gradient, **options)
    r = cz.minimize(fun, np.ones(3) * 2.0, gradient, nonfinite=nonfinite, **options)
    assert same_bits(r.x, expected.x)
    assert (r.nit, r.message, r.skipped) == (expected.nit, expected.message, 0)


def test_with_a_proximal_step() -> None:
    """A box that bounds nothing: the steps of the run without it."""
    options = {"L": L, "mu": 0.05, "rng": SEED, "maxiter": STEPS, "nonfinite": "skip"}
    plain = cz.minimize(fun, np.zeros(3), jac, **options)
    r = cz.minimize(fun, np.zeros(3), jac, prox=cz.prox.Box(-1e9, 1e9), **options)
    assert r.skipped == plain.skipped > 0
    assert np.allclose(r.x, plain.x, rtol=0.0, atol=1e-12)
    assert "not finite were skipped" in r.message
    options["nonfinite"] = "raise"
    with pytest.raises(FloatingPointError, match="not finite"):
        cz.minimize(fun, np.zeros(3), jac, prox=cz.prox.Box(-1e9, 1e9), **options)


@pytest.mark.parametrize("nonfinite", ["stop", "raise", "skip"])
def test_where_L_is_unknown_it_grows(nonfinite: str) -> None:
    """Long first steps of x - log x from far out leave its domain."""

    def barrier(x: Any) -> tuple[float, Any]:
        if np.any(x <= 0.0):
            return math.nan, np.full(3, np.nan)
        return float(np.sum(x - np.log(x))), 1.0 - 1.0 / x

    r = cz.minimize(barrier, np.full(3, 50.0), True, rng=SEED, tol=1e-6, nonfinite=nonfinite)
    assert r.success
    assert np.allclose(r.x, 1.0, rtol=0.0, atol=1e-5)
    assert r.constants["rejected"] > 0


def test_a_start_that_is_not_finite() -> None:
    for options in ({}, {"L": L}):
        with pytest.raises(FloatingPointError, match="after 0 events"):
            cz.minimize(lambda x: math.nan, np.zeros(3), jac, nonfinite="raise", **options)
        r = cz.minimize(lambda x: math.nan, np.zeros(3), jac, nonfinite="skip", **options)
        assert r.status is cz.Status.NOT_FINITE


@pytest.mark.parametrize("given", ["ignore", None, True, ["skip"]])
def test_other_words_are_refused(given: Any) -> None:
    error = ValueError if isinstance(given, str) else TypeError
    with pytest.raises(error, match='nonfinite must be "stop", "raise" or "skip", got'):
        cz.minimize(fun, np.zeros(3), jac, L=L, nonfinite=given)


def test_what_does_not_go_with_skipping(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keeps no checkpoints"):
        cz.minimize(fun, np.zeros(3), jac, L=L, nonfinite="skip", checkpoint=tmp_path / "run.npz")
    p = cz.problems.Quadratic(WEIGHTS, np.ones(3))
    with pytest.raises(ValueError, match="has no gradients to skip"):
        cz.minimize(p, np.zeros(3), method=cz.CoordinateDescent(), nonfinite="skip")


TWO = cz.problems.Quadratic([1.0, 2.0], [1.0, 1.0])


def fails_after(good: int) -> Any:
    """A prox of h = 0 that gives NaN after so many good answers."""
    calls = 0

    def prox(v: Any, step: float) -> Any:
        nonlocal calls
        calls += 1
        return v if calls <= good else np.full_like(v, np.nan)

    return prox


@pytest.mark.parametrize("good", [0, 12])
@pytest.mark.parametrize("options", [{}, {"maxiter": 50}, {"L": 2.0}, {"L": 2.0, "maxiter": 50}])
def test_a_prox_that_is_not_finite_ends_the_run_at_the_last_good_point(
    good: int, options: dict[str, Any]
) -> None:
    r = cz.minimize(TWO, [3.0, 4.0], prox=fails_after(good), rng=0, **options)
    assert r.status is cz.Status.NOT_FINITE
    assert not r.success
    assert r.fun == TWO.fun(r.x)
    assert r.x.tolist() == [3.0, 4.0] if good == 0 else r.fun < 1e-2


@pytest.mark.parametrize("L", [None, 2.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("prox", [cz.prox.Simplex(1e300), cz.prox.Box(1e200, 1e300)])
def test_a_prox_so_far_away_that_f_overflows_is_no_success(
    prox: Any, dtype: Any, L: float | None
) -> None:
    x0 = np.array([3.0, 4.0], dtype)
    if L is not None and dtype is np.float64:  # the start must be in the domain, where f overflows
        x0 = np.full(2, 5e299)
    elif L is not None:
        with pytest.raises(
            ValueError, match=r"^x0 is outside the domain of .* by inf; give a point"
        ):
            cz.minimize(TWO, x0, prox=prox, L=L)
        return
    r = cz.minimize(TWO, x0, prox=prox, L=L, rng=0, maxiter=200)
    assert r.status is cz.Status.NOT_FINITE
    assert r.x.tolist() == x0.tolist()


def test_a_metric_that_is_not_finite_ends_the_run_at_the_last_good_point() -> None:
    class Failing:
        calls = 0

        def solve(self, g: Any) -> Any:
            self.calls += 1
            return g if self.calls < 9 else np.full_like(g, np.nan)

    r = cz.minimize(TWO, [3.0, 4.0], metric=Failing(), rng=0)
    assert r.status is cz.Status.NOT_FINITE
    assert math.isfinite(r.fun)
    assert r.fun == TWO.fun(r.x)
    assert r.nit < 1000


@pytest.mark.parametrize("good", [2, 9])
@pytest.mark.parametrize("what", ["fun", "jac", "metric"])
def test_a_run_that_ends_among_rejected_events_is_no_success(what: str, good: int) -> None:
    calls = 0

    def spoil(which: str, right: Any) -> Any:
        nonlocal calls
        calls += which == what
        return right if calls <= good else np.nan * right

    class Own:
        def solve(self, g: Any) -> Any:
            return spoil("metric", g)

    p = cz.Problem(lambda x: spoil("fun", TWO.fun(x)), lambda x: spoil("jac", TWO.grad(x)))
    r = cz.minimize(p, [3.0, 4.0], metric=Own(), rng=0, maxiter=30)
    assert r.status is cz.Status.NOT_FINITE
    assert r.fun == TWO.fun(r.x)


def test_nor_is_it_when_resumed(tmp_path: Path) -> None:
    def gradient(x: Any) -> Any:
        return TWO.grad(x) if abs(x - [3.0, 4.0]).max() < 1e-2 else np.full(2, np.nan)

    options: dict[str, Any] = {"rng": 0, "maxiter": 4, "checkpoint": tmp_path / "run"}
    for resume in (False, True):
        r = cz.minimize(TWO.fun, [3.0, 4.0], gradient, resume=resume, **options)
        assert r.status is cz.Status.NOT_FINITE
        assert r.nit == 4


class OwnNoise:
    """Draws what it was told to."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def sigma2(self, dim: int) -> float:
        return float(dim)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n, dim: None,
        lambda rng, n, dim: "a",
        lambda rng, n, dim: np.ones(dim),
        lambda rng, n, dim: np.ones((n, dim)) * 1j,
        lambda rng, n, dim: np.ones((n, dim), bool),
        lambda rng, n, dim: np.ones((n, dim), "m8[s]"),
        lambda rng, n, dim: [[1.0, 2.0], [3.0]],
    ],
)
def test_a_noise_of_wrong_type_or_shape_is_refused_in_a_sentence(draw: Any) -> None:
    p = cz.problems.paper_strongly_convex()
    with pytest.raises((TypeError, ValueError), match=r"noise\.draw"):
        cz.minimize(p, np.zeros(3), noise=OwnNoise(draw), maxiter=9)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 10**400])
def test_a_noise_that_is_not_finite_ends_the_run_at_the_last_good_point(wrong: Any) -> None:
    def draw(rng: Any, n: int, dim: int) -> Any:
        rows = [[0.01] * dim for _ in range(n)]
        rows[5] = [wrong] * dim
        return rows

    fixed: dict[str, Any] = {"noise": OwnNoise(draw), "maxiter": 20, "rng": 0}
    for r in (
        cz.minimize(cz.problems.paper_strongly_convex(), np.zeros(3), **fixed),
        cz.minimize(lambda x: 0.5 * float(x @ x), np.ones(3), lambda x: x, L=1.0, **fixed),
    ):
        assert r.status is cz.Status.NOT_FINITE
        assert r.nit == 5
        assert np.all(np.isfinite(r.x))


@pytest.mark.parametrize("L", [1.0, None])
def test_a_value_that_is_a_huge_integer_is_infinite(L: float | None) -> None:
    def fun(x: Any) -> Any:
        return 0.5 * float(x @ x) if abs(x[0]) < 2.0 else 10**400

    r = cz.minimize(fun, [1.0, 1.0], lambda x: x, L=L, rng=0)
    assert r.success
    r = cz.minimize(lambda x: 10**400, [1.0, 1.0], lambda x: x, L=L, rng=0)
    assert r.status is cz.Status.NOT_FINITE
    assert r.x.tolist() == [1.0, 1.0]


@numba.njit
def _scaled(x: Any, out: Any) -> None:
    out[0], out[1] = x[0], 0.5 * x[1]


@pytest.mark.parametrize("grad", [_scaled, lambda x: x * np.array([1.0, 0.5])])
@pytest.mark.parametrize("constants", [{"L": 1.0, "mu": 0.5}, {"L": 1.0}, {}])
def test_a_start_whose_norm_is_nearly_too_large_converges(grad: Any, constants: Any) -> None:
    p = cz.Problem(lambda x: 0.5 * float(x[0] * x[0] + 0.5 * x[1] * x[1]), grad)
    r = cz.minimize(p, [1e150, -1e150], rng=0, **constants)
    assert r.success
    assert np.abs(r.x).max() < 1e-5


def bounded_slope(delta: float) -> Any:
    """Huber's function: |x_i|^2 / (2 delta) up to delta, then a line."""

    def fun(x: Any) -> tuple[float, Any]:
        a = np.abs(x) / delta
        values = np.where(a <= 1.0, 0.5 * np.minimum(a, 1.0) ** 2, a - 0.5)
        return delta * float(values.sum()), np.clip(x / delta, -1.0, 1.0)

    return fun


@pytest.mark.parametrize("scale", [1e160, 1e290])
def test_points_whose_squares_overflow(scale: float) -> None:
    """Without L, as from 1; with L, the message says what is too large."""
    x0, options = np.array([1.0, -1.0 / 3.0, 0.0]), {"jac": True, "rng": 0, "tol": 1e-8}
    near = cz.minimize(bounded_slope(0.1), x0, **options)
    far = cz.minimize(bounded_slope(0.1 * scale), scale * x0, **options)
    assert far.status is cz.Status.CONVERGED
    assert abs(far.nit - near.nit) <= 2
    known = cz.minimize(bounded_slope(0.1 * scale), scale * x0, L=10.0 / scale, **options)
    assert known.status is cz.Status.NOT_FINITE
    assert same_bits(known.x, scale * x0)
    assert "The square of |x| is too large for a float" in known.message


@pytest.mark.parametrize("L", [None, 1e170])
def test_f_is_told_where_the_square_of_its_gradient_overflows(L: float | None) -> None:
    r = cz.minimize(lambda x: 1e160 * float(x.sum()), [1.0, 1.0], lambda x: np.full(2, 1e160), L=L)
    assert r.status is cz.Status.NOT_FINITE
    assert r.fun == 2e160
    assert r.x.tolist() == [1.0, 1.0]


def test_a_gradient_that_was_skipped_does_not_hide_that_later_ones_diverge() -> None:
    """It counts among the largest so far, though its square is above the limit; with noise no pair
    of gradients is looked at, which would tell."""
    calls = [0]

    def grad(x: Any) -> Any:
        calls[0] += 1
        sizes = {20: 4e153, 30: 1e100}  # too long a step, but a finite square; and divergence
        return np.full(x.size, sizes[calls[0]]) if calls[0] in sizes else x.copy()

    p = cz.Problem(lambda x: 0.5 * float(x @ x), grad, L=1.0)
    noise = cz.noise.Gaussian(1e-12)
    r = cz.minimize(p, np.ones(3), maxiter=60, rng=0, nonfinite="skip", noise=noise)
    assert (r.status, r.nit, r.skipped) == (cz.Status.DIVERGED, 29, 1)
    assert r.fun < 1e-3


@pytest.mark.parametrize(
    "given", [{"prox": cz.prox.NonNegative()}, {"mirror": cz.mirror.PNorm(1.5)}, {"is_torch": True}]
)
def test_a_gradient_whose_square_overflows_ends_the_run(given: dict[str, Any]) -> None:
    """Neither in the tests of events nor in what is said at the end is its square an error."""
    options, x0 = dict(given), np.array([1e60])
    start = torch.from_numpy(x0) if options.pop("is_torch", False) else x0
    r = cz.minimize(
        lambda x: 0.5e100 * (x * x).sum(), start, lambda x: 1e100 * x, L=1e100,
        tol=1e157, maxiter=100, rng=0, **options,
    )  # fmt: skip
    assert r.status is cz.Status.NOT_FINITE
    assert float(r.x[0]) == 1e60
