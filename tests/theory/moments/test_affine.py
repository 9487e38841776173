"""Exact means of f + psi where the proximal step is an affine map of z."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.process import parameters
from continuized.theory import moments

pytestmark = pytest.mark.blas
P = cz.problems.Quadratic([1.0, 0.5, 0.05], [1.0, -2.0, 3.0])
NORMAL = np.array([1.0, 2.0, -1.0])
CASES: dict[str, tuple[Any, np.ndarray]] = {
    "one l2": (cz.prox.ElasticNet(0.0, 0.3), np.array([0.5, 0.2, -0.4])),
    "an l2 to each": (cz.prox.Separable(l2=[0.0, 0.3, 2.0]), np.array([0.5, 0.2, -0.4])),
    "a plane": (cz.prox.Hyperplane(NORMAL, 0.5), np.array([0.5, 0.5, 1.0])),
}
METHODS = {
    "mu = 0": cz.Continuized(1.0),
    "mu > 0": cz.Continuized(1.0, 0.05),
    "mu > 0, start": cz.Continuized(1.0, 0.05, 4.0),
}
every_case = pytest.mark.parametrize("case", CASES)
every_method = pytest.mark.parametrize("name", METHODS)


@every_case
@every_method
def test_the_slope_at_the_start_is_what_an_event_does(case: str, name: str) -> None:
    """No sampling.  Where x = z nothing flows, and events come at the rate 1; differences of error
    h^2."""
    (prox, x0), method = CASES[case], METHODS[name].for_composite()
    h = 1e-3
    m = moments(P, method, x0, [0.0, h, 2.0 * h], prox=prox)
    eta, gamma_prime = (
        scalar(0.0, *method.constants) for scalar in (parameters.eta, parameters.gamma_prime)
    )
    z = prox(x0 - gamma_prime * P.grad(x0), gamma_prime)
    x = x0 + eta * (z - x0)
    star = cz.minimize(P, x0, L=1.0, mu=0.05, prox=prox, tol=1e-12, rng=0).x
    for found, expected in (
        (m.fun, P.fun(x) + prox.value(x) - P.fun(x0) - prox.value(x0)),
        (m.z2, float(((z - star) ** 2).sum() - ((x0 - star) ** 2).sum())),
    ):
        slope = (-3.0 * found[0] + 4.0 * found[1] - found[2]) / (2.0 * h)
        assert slope == pytest.approx(expected, rel=1e-4)


@every_case
@every_method
def test_the_minimum_and_the_end(case: str, name: str) -> None:
    (prox, x0), method = CASES[case], METHODS[name]
    m = moments(P, method, x0, [0.0, 3.0, 30.0], prox=prox)
    assert m.fun[0] == pytest.approx(P.fun(x0) + prox.value(x0), rel=1e-12)
    bound = cz.theory.bound(method, P, x0, t=[0.0, 3.0, 30.0], prox=prox)
    r = cz.minimize(P, x0, L=1.0, mu=0.05, prox=prox, tol=1e-12, rng=0)
    left = m.fun - (P.fun(r.x) + prox.value(r.x))
    assert np.all(left >= -1e-12)
    assert np.all(left <= bound * (1.0 + 1e-9))
    assert m.z2[0] == pytest.approx(float(((x0 - r.x) ** 2).sum()), rel=1e-9)


@pytest.mark.parametrize(
    ("case", "runs"),
    [("an l2 to each", 20_000), pytest.param("a plane", 800, marks=pytest.mark.slow)],
)
def test_the_mean_of_runs(case: str, runs: int) -> None:
    """Within 5 standard errors at each of 3 times, twice: a false alarm in 3e5."""
    prox, x0 = CASES[case]
    for name in ("mu = 0", "mu > 0"):
        times = [1.0, 4.0, 12.0]
        e = cz.ensemble(P, METHODS[name], x0, runs=runs, times=times, rng=1, prox=prox)
        m = moments(P, METHODS[name], x0, times, prox=prox)
        assert np.all(np.abs(e.mean() - m.fun) < 5.0 * e.standard_error())


def test_without_psi_they_are_those_of_full_gradients() -> None:
    x0, times = np.array([0.5, 0.2, -0.4]), [0.0, 2.0, 50.0, 900.0]
    method = cz.Continuized(1.0, 0.05, math.inf)
    none = moments(P, method, x0, times)
    zero = moments(P, method, x0, times, prox=cz.prox.Separable())
    np.testing.assert_allclose(zero.xx, none.xx, rtol=1e-8)
    np.testing.assert_allclose(zero.zz, none.zz, rtol=1e-8)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"prox": cz.prox.L1(0.1)}, TypeError, "affine map, .* and that of L1"),
        ({"prox": cz.prox.Box(0.0, 1.0)}, TypeError, "and that of Box.* is not; use an ensemble"),
        ({"prox": cz.prox.Halfspace(NORMAL, 9.0)}, TypeError, "and that of Halfspace"),
        ({"prox": CASES["one l2"][0], "sigma2": 0.1}, ValueError, "sigma2=0, got .*sigma2=0.1"),
        ({"prox": CASES["one l2"][0], "k": [3]}, ValueError, "fixed times .* got continuized, k="),
        ({"prox": CASES["one l2"][0], "z0": np.zeros(3)}, ValueError, "z0= goes without prox="),
        ({"prox": CASES["a plane"][0]}, ValueError, "x0 is outside the domain of Hyperplane"),
        ({"prox": cz.prox.L1(0.1), "method": cz.CoordinateDescent()}, ValueError, "Continuized"),
        ({"prox": cz.prox.L1(0.1), "method": cz.GradientDescent(1.0)}, ValueError, "Continuized"),
    ],
)
def test_refused(given: dict[str, Any], error: Any, words: str) -> None:
    how = {"method": cz.Continuized(1.0), "times": None if "k" in given else [1.0], **given}
    with pytest.raises(error, match=words):
        moments(P, x0=np.ones(3) * 0.7, **how)
