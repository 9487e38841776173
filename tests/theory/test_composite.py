"""The theorems for f + psi: the drift, the supermartingale, the bounds, and mistakes that they see.

All but the last are exact: no sampling.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized import theory
from continuized.process import parameters
from continuized.process.prox import nearest_in_domain
from tests.helpers.composite_problems import CASES, Case

pytestmark = pytest.mark.blas
STATES = 20_000
ROUNDING = 1e-12  # relative to the terms of which the drift is a sum


def method_of(case: Case, kind: str, subject: Any = cz.Continuized) -> Any:
    L, mu = case.f.L, case.f.mu
    if kind == "mu = 0":
        return subject(L, 0.0, 2.0)
    return subject(L, mu, math.inf if kind == "exponential" else 5.0)


KINDS = ("mu = 0", "exponential", "hyperbolic")


def random_states(case: Case, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """States in the domain, near the minimiser and far from it, on its faces and inside."""
    rng = np.random.default_rng(seed)
    d = case.x0.size

    def draw() -> np.ndarray:
        raw = case.x_star + rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-4, 1, (n, 1))
        raw *= rng.random((n, d)) < 0.8
        return np.array([nearest_in_domain(case.prox, row) for row in raw])

    return draw(), draw()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=pytest.mark.slow if name == "simplex" and i else ())
        for name in CASES
        for i, kind in enumerate(KINDS)
    ],
)
def test_the_drift_is_not_positive_in_20000_random_states(name: str, kind: str) -> None:
    case = CASES[name](seed=1)
    method = method_of(case, kind)
    x, z = random_states(case, STATES)
    t = np.random.default_rng(1).choice([0.0, 0.1, 1.0, 5.0, 25.0], STATES)
    found = theory.drift(method, case.f, t, x, z, prox=case.prox, x_star=case.x_star)
    # The terms, of which it is a sum: A eta (f - F*), B |z - x*|^2, A (f(x+) - f(x)), ...
    log_A = np.array([parameters.log_A(s, *method.constants) for s in t.tolist()])
    log_B = np.array([parameters.log_B(s, *method.constants) for s in t.tolist()])
    near = ((z - case.x_star) ** 2).sum(axis=1) + ((x - z) ** 2).sum(axis=1)
    size = np.exp(log_A) * (np.abs(case.f.values(x)) + 1.0) + np.exp(log_B) * near
    assert np.max(found / size) <= ROUNDING
    assert np.mean(found < -1e-6 * size) > 0.5  # and it says something


@pytest.mark.parametrize("name", CASES)
def test_the_drift_is_the_derivative_of_the_mean_of_phi(name: str) -> None:
    """By the definition: the flow over a short time h by the method's own weights, and the step."""
    case = CASES[name](seed=1)
    x, z = random_states(case, 5, seed=4)
    for kind in KINDS:
        method, t, h = method_of(case, kind), 1.5, 1e-6

        def phi(t: float, x: Any, z: Any, psi: Any, method: Any = method) -> Any:
            A, B = (
                math.exp(log(t, *method.constants)) for log in (parameters.log_A, parameters.log_B)
            )
            excess = case.f.values(x) + psi - case.F(case.x_star)
            return A * excess + B * ((z - case.x_star) ** 2).sum(axis=1)

        psi, zeta = (np.array([case.prox.value(row) for row in v]) for v in (x, z))
        a, b = method.flow(t, t + h, h)
        flowed = phi(t + h, x + a * (z - x), z + b * (x - z), psi + a * (zeta - psi))
        gamma_prime, eta = (
            f(t, *method.constants) for f in (parameters.gamma_prime, parameters.eta)
        )
        z1 = np.array([
            case.prox(w - gamma_prime * case.f.grad(v), gamma_prime)
            for v, w in zip(x, z, strict=True)
        ])  # fmt: skip
        psi1 = psi + eta * (np.array([case.prox.value(row) for row in z1]) - zeta)
        jumped = phi(t, x + eta * (z1 - z), z1, psi1) - phi(t, x, z, psi)
        expected = (flowed - phi(t, x, z, psi)) / h + jumped
        found = theory.drift(
            method, case.f, np.full(5, t), x, z, prox=case.prox, x_star=case.x_star
        )
        # The difference quotient loses eps phi / h, and its own error is h phi''.
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


class EarlierEta(cz.Continuized):
    """eta of the step of x taken at T_k, not at T_{k+1}."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Any:
        a, b, _, gamma_prime, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma_prime * parameters.eta(t0, *self.constants), gamma_prime, carry


class EarlierStep(cz.Continuized):
    """gamma' taken at T_k, and eta with it."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Any:
        a, b, gamma, _, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, parameters.gamma_prime(t0, *self.constants), carry


def worst_gap(case: Case, method: Any, n: int = 200) -> float:
    x, z = random_states(case, n, seed=3)
    t = np.repeat([0.0, 1.0], [n // 2, n - n // 2])
    gap = theory.supermartingale_gap(method, case.f, t, x, z, prox=case.prox, x_star=case.x_star)
    return float(np.max((gap.value - gap.error) / gap.phi))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["lasso", "box"])
def test_phi_is_a_supermartingale(name: str, kind: str) -> None:
    case = CASES[name](seed=1)
    assert worst_gap(case, method_of(case, kind)) <= 1e-9


@pytest.mark.parametrize("mistake", [EarlierEta, EarlierStep])
def test_steps_taken_at_another_time_are_caught(mistake: Any) -> None:
    case = CASES["lasso"](seed=1)
    assert worst_gap(case, method_of(case, "mu = 0", mistake)) > 1e-3


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_is_phi_0_over_A(name: str, kind: str) -> None:
    case = CASES[name](seed=2)
    method = method_of(case, kind)
    excess = case.F(case.x0) - case.F(case.x_star)
    distance = float(((case.x0 - case.x_star) ** 2).sum())
    A, B = (
        np.exp([log(t, *method.constants) for t in (0.0, 3.0, 20.0)])
        for log in (parameters.log_A, parameters.log_B)
    )
    expected = (A[0] * excess + B[0] * distance) / A
    given = {"t": [0.0, 3.0, 20.0], "prox": case.prox}
    found = theory.bound(method, case.f, case.x0, **given, x_star=case.x_star)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    computed = theory.bound(method, case.f, case.x0, **given)
    np.testing.assert_allclose(computed, expected, rtol=1e-8)
    weighted = theory.bound(method, case.f, case.x0, k=[5], prox=case.prox, x_star=case.x_star)
    scale = theory.weight(method, 0.0) / A[0]
    np.testing.assert_allclose(weighted, scale * A[0] * expected[0], rtol=1e-10)


@pytest.mark.parametrize("name", ["lasso", "box"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_runs_is_below_the_bound(name: str, kind: str) -> None:
    """2,000 runs; the bound is 2 times the mean or more, 20 standard errors away."""
    case = CASES[name](seed=1)
    rng = np.random.default_rng(0)
    p = cz.problems.Quadratic(np.geomspace(0.01, 1.0, 8), rng.standard_normal(8))
    case = case._replace(f=p)
    method, times = method_of(case, kind), [1.0, 5.0, 20.0]
    bound = theory.bound(method, p, case.x0, t=times, prox=case.prox)
    e = cz.ensemble(p, method, case.x0, runs=2000, times=times, prox=case.prox, rng=0)
    # The coordinates live alone: the minimiser in closed form.
    star = case.prox(p.x_star, 1.0 / p.eigenvalues)
    best = p.fun(star) + case.prox.value(star)
    assert np.all(e.mean() - best + 5.0 * e.standard_error() < bound)


def test_lyapunov_of_a_run_is_its_definition() -> None:
    case = CASES["lasso"](seed=2)
    method = method_of(case, "hyperbolic")
    r = cz.minimize(
        case.f, case.x0, method=method, prox=case.prox, maxiter=30, rng=0, record="path"
    )
    phi = theory.lyapunov(r, case.f, x_star=case.x_star)
    psi = zeta = case.prox.value(case.x0)
    for k in range(1, 31):
        t0, t, dt = r.path.t[k - 1], r.path.t[k], r.path.dt[k]
        a, b = method.flow(t0, t, dt)
        psi, zeta = psi + a * (zeta - psi), zeta + b * (psi - zeta)
        now = case.prox.value(r.path.z[k])
        psi, zeta = psi + parameters.eta(t, *method.constants) * (now - zeta), now
        A, B = (math.exp(f(t, *method.constants)) for f in (parameters.log_A, parameters.log_B))
        distance = ((r.path.z[k] - case.x_star) ** 2).sum()
        expected = A * (case.f.fun(r.path.x[k]) + psi - case.F(case.x_star)) + B * distance
        assert phi.phi[k] == pytest.approx(expected, rel=1e-9)
        assert phi.psi_hat[k] == pytest.approx(psi, rel=1e-12)
        assert float(phi.at(t)) == pytest.approx(expected, rel=1e-9)
    assert phi.at(r.path.t[7], side="left") != phi.phi[7]


class Leaving:
    """A prox whose own value is infinite where it leads."""

    def __call__(self, v: np.ndarray, step: float) -> np.ndarray:
        return v + 1.0

    def value(self, x: np.ndarray) -> float:
        return 0.0 if np.all(np.abs(x) <= 0.5) else math.inf


class Short:
    """A geometry whose step returns another shape."""

    def step(self, z: Any, g: Any, gamma_prime: float, prox: Any) -> Any:
        return z[:2]

    def divergence(self, u: Any, z: Any) -> float:
        return 0.0


MIDDLE, ENTROPY = np.full(3, 1.0 / 3.0), cz.mirror.Entropy()
OUTSIDE = "give a point inside, the nearest point is array"
BAD: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "x0 outside a box": ([2.0, -1.0, 0.5], {}, {"prox": cz.prox.Box(0.0, 1.0)}, f"1.41; {OUTSIDE}"),
    "x0 outside the simplex": ([0.0] * 3, {}, {"mirror": ENTROPY}, f"0.577; {OUTSIDE}"),
    "x0 on its edge": ([1.0, 0.0, 0.0], {}, {"mirror": ENTROPY}, "start from np.full"),
    "a prox of another shape": (MIDDLE, {}, {"prox": lambda v, s: v[:2]}, "in the shape of x"),
    "a prox that leaves": (MIDDLE, {}, {"prox": Leaving()}, "points where its own value is finite"),
    "a mirror of another shape": (MIDDLE, {}, {"mirror": Short()}, "the shape of x|give x_star="),
    "start = 1.5": (MIDDLE, {"start": 1.5}, {"prox": cz.prox.L1(0.1)}, "use start >= 2$"),
    "start with mirror": (MIDDLE, {"start": 1.5}, {"mirror": ENTROPY}, "use start >= 2$"),
    "start with mu": (MIDDLE, {"mu": 0.25, "start": 2.0}, {"prox": cz.prox.L1(0.1)}, "2.19722"),
    "mirror with mu": (MIDDLE, {"mu": 0.1}, {"mirror": ENTROPY}, "for mu = 0, got mu = 0.1"),
    "mirror and prox": (MIDDLE, {}, {"mirror": ENTROPY, "prox": cz.prox.L1(0.1)}, "drop prox="),
}  # fmt: skip
DOORS: dict[str, Any] = {
    "minimize": lambda q, m, x0, psi: cz.minimize(q, x0, method=m, maxiter=5, rng=0, **psi),
    "ensemble": lambda q, m, x0, psi: cz.ensemble(q, m, x0, runs=1, steps=5, rng=0, **psi),
    "bound": lambda q, m, x0, psi: theory.bound(m, q, x0, t=1.0, **psi),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_refused_at_every_door(bad: str, door: str) -> None:
    x0, constants, psi, words = BAD[bad]
    q = cz.problems.Quadratic([1.0, 0.5, 0.25], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=words) as error:
        DOORS[door](q, cz.Continuized(1.0, **constants), x0, psi)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("psi", [{"prox": cz.prox.L1(0.1)}, {"mirror": ENTROPY}], ids=["L1", "H"])
def test_an_L_that_is_too_small_is_witnessed_and_bounds_nothing(psi: dict[str, Any]) -> None:
    """f itself does not know L here."""
    q = cz.problems.Quadratic([1.0, 0.5, 0.25], [1.0, 2.0, 3.0])
    f, method = cz.Problem(q.fun, q.grad), cz.Continuized(0.05)
    with pytest.warns(cz.ConstantsWarning, match="L = 0.05 is too small: two gradients"):
        cz.minimize(f, MIDDLE, method=method, maxiter=20, rng=0, **psi)
    with pytest.raises(ValueError, match=r"got 0\.05, but two gradients show"):
        theory.bound(method, f, MIDDLE, t=1.0, **psi)
    assert theory.bound(cz.Continuized(1.0), f, MIDDLE, t=1.0, **psi) > 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c, m: theory.bound(m, c.f, c.x0, t=1.0, x_star=c.x_star), "x_star= goes with prox"),
        (
            lambda c, m: theory.bound(m, c.f, c.x0 + 9.0, t=1.0, prox=cz.prox.Box(0.0, 1.0)),
            "x0 is outside the domain",
        ),
        (
            lambda c, m: theory.bound(
                m, c.f, c.x0, t=1.0, prox=cz.prox.Box(0.0, 1.0), x_star=c.x0 + 9.0
            ),
            "x_star is outside the domain",
        ),
        (
            lambda c, m: theory.bound(cz.Nesterov(c.f.L), c.f, c.x0, k=1, prox=c.prox),
            "is known for Continuized only",
        ),
        (
            lambda c, m: theory.bound(
                cz.Continuized(c.f.L, start=1.0), c.f, c.x0, t=1.0, prox=c.prox
            ),
            "use start >= 2",
        ),
        (
            lambda c, m: theory.bound(cz.Continuized(0.1), c.f, c.x0, t=1.0, prox=c.prox),
            "L of the method to be at least",
        ),
        (
            lambda c, m: theory.drift(m, c.f, 1.0, c.x0, c.x0, 0.1, prox=c.prox),
            "the drift with prox= or mirror= is known without noise",
        ),
    ],
)
def test_refused(call: Any, words: str) -> None:
    case = CASES["lasso"]()
    with pytest.raises(ValueError, match=words):
        call(case, method_of(case, "exponential"))
