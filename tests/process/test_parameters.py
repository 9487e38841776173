"""The parameters: their differential equations, their relations, and no overflow."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from continuized import flow
from continuized import parameters as par

CASES = [
    (L, mu, start)
    for L, mu in ((1.0, 0.0), (3.0, 0.0), (1.0, 0.01), (2.5, 2.5), (1e4, 1e-3))
    for start in (0.0, 0.3, 5.0, math.inf)
    if mu > 0.0 or start < math.inf
]
TIMES = (0.5, 3.0, 40.0, 400.0)


def exact_A_B(t: mp.mpf, L: float, mu: float, start: float) -> tuple[mp.mpf, mp.mpf]:
    """The closed forms, to be differentiated at high precision."""
    L, mu = mp.mpf(L), mp.mpf(mu)
    if mu == 0:
        return (t + start) ** 2 / (2 * L), mp.mpf(1)
    omega = mp.sqrt(mu / L) / 2
    if start == math.inf:
        return mp.exp(2 * omega * t), mu / 2 * mp.exp(2 * omega * t)
    return 2 * mp.sinh(omega * (t + start)) ** 2 / mu, mp.cosh(omega * (t + start)) ** 2


@pytest.mark.parametrize(("L", "mu", "start"), CASES)
def test_A_and_B_solve_their_equations(L: float, mu: float, start: float) -> None:
    with mp.workdps(60):
        for t in map(mp.mpf, TIMES):
            root_A = mp.diff(lambda v: mp.sqrt(exact_A_B(v, L, mu, start)[0]), t)
            root_B = mp.diff(lambda v: mp.sqrt(exact_A_B(v, L, mu, start)[1]), t)
            A, B = exact_A_B(t, L, mu, start)
            assert mp.almosteq(root_A, mp.sqrt(B) / mp.sqrt(2 * mp.mpf(L)), 1e-25)
            wanted = mp.mpf(mu) * mp.sqrt(A) / mp.sqrt(8 * mp.mpf(L))
            assert mp.almosteq(root_B, wanted, 1e-25, 1e-25)


@pytest.mark.parametrize(("L", "mu", "start"), CASES)
def test_rates_and_steps_are_those_of_A_and_B(L: float, mu: float, start: float) -> None:
    with mp.workdps(60):
        for t in TIMES:
            A, B = exact_A_B(mp.mpf(t), L, mu, start)
            gamma_prime = mp.sqrt(A / (2 * L * B))
            near = {"rel": 2e-15, "abs": 0.0}
            assert par.eta(t, L, mu, start) == pytest.approx(
                float(mp.sqrt(2 * B / (L * A))), **near
            )
            assert par.eta_prime(t, L, mu, start) == pytest.approx(float(mu * gamma_prime), **near)
            assert par.gamma_prime(t, L, mu, start) == pytest.approx(float(gamma_prime), **near)
            assert par.gamma(L) == 1.0 / L
            near = {"rel": 1e-14, "abs": 1e-14}
            assert par.log_A(t, L, mu, start) == pytest.approx(float(mp.log(A)), **near)
            assert par.log_B(t, L, mu, start) == pytest.approx(float(mp.log(B)), **near)


def test_the_papers_own_values() -> None:
    # Theorem 3: convex, and strongly convex.  The appendix prints gamma' = t / sqrt(2L).
    assert par.eta(4.0, 2.0, 0.0, 0.0) == 0.5
    assert par.eta_prime(4.0, 2.0, 0.0, 0.0) == 0.0
    assert par.gamma_prime(4.0, 2.0, 0.0, 0.0) == 1.0
    assert par.eta(4.0, 4.0, 1.0, math.inf) == par.eta_prime(4.0, 4.0, 1.0, math.inf) == 0.5
    assert par.gamma_prime(4.0, 4.0, 1.0, math.inf) == 0.5
    assert par.default_start(0.0) == 0.0
    assert par.default_start(0.1) == math.inf


def test_at_time_zero() -> None:
    for mu in (0.0, 0.5):
        assert par.eta(0.0, 1.0, mu, 0.0) == math.inf
        assert par.eta_prime(0.0, 1.0, mu, 0.0) == 0.0
        assert par.gamma_prime(0.0, 1.0, mu, 0.0) == 0.0
        assert par.log_A(0.0, 1.0, mu, 0.0) == -math.inf
        assert par.log_B(0.0, 1.0, mu, 0.0) == 0.0
    assert par.log_A(0.0, 1.0, 0.5, math.inf) == 0.0


@pytest.mark.parametrize("start", [0.0, 0.3, math.inf])
def test_logs_do_not_overflow(start: float) -> None:
    for t in (1e4, 1e9, 1e15):
        A, B = par.log_A(t, 1.0, 1.0, start), par.log_B(t, 1.0, 1.0, start)
        shift = 0.0 if start == math.inf else start
        # Both are t up to a constant: log(1/2) at start = inf, log 1/4 and log 1/2 otherwise.
        assert pytest.approx(t + shift, abs=1.0, rel=1e-15) == A
        assert pytest.approx(t + shift, abs=2.0, rel=1e-15) == B


@pytest.mark.parametrize(("L", "mu"), [(1e200, 1e-200), (1e-200, 1e-210), (1.0, 5e-324), (1e16, 1)])
def test_extreme_constants(L: float, mu: float) -> None:
    with mp.workdps(40):
        omega = mp.sqrt(mp.mpf(mu) / mp.mpf(L)) / 2
        assert par.omega(L, mu) == pytest.approx(float(omega), rel=1e-15, abs=0.0)
        step = 1 / mp.sqrt(mp.mpf(mu) * mp.mpf(L))
        assert par.gamma_prime(1.0, L, mu, math.inf) == pytest.approx(float(step), rel=1e-15)


@pytest.mark.parametrize("start", [0.0, 0.3])
def test_small_mu_tends_to_the_convex_parameters(start: float) -> None:
    for function in (par.eta, par.eta_prime, par.gamma_prime, par.log_A, par.log_B):
        convex = function(2.0, 3.0, 0.0, start)
        assert function(2.0, 3.0, 1e-12, start) == pytest.approx(convex, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(("mu", "start"), [(0.0, 0.0), (0.0, 2.0), (0.3, 0.0), (0.3, 2.0)])
def test_a_pair_that_is_carried_through_changes_of_L(mu: float, start: float) -> None:
    """sqrt A and sqrt B from their differential equations, with L piecewise constant."""
    rng, L = np.random.default_rng(0), 2.0
    roots = np.exp([0.5 * par.log_A(0.0, L, mu, start), 0.5 * par.log_B(0.0, L, mu, start)])
    tau, left = par.unit_start(start, L)
    assert left == 0.0
    for _ in range(20):
        dt = float(rng.exponential())

        def slopes(t: float, y: np.ndarray, L: float = L) -> list[float]:
            return [y[1] / math.sqrt(2.0 * L), mu * y[0] / math.sqrt(8.0 * L)]

        before, decay = roots, solve_ivp(slopes, (0.0, dt), roots, rtol=1e-12, atol=1e-14)
        roots = decay.y[:, -1]
        dtau = par.unit_time(dt, L)
        a, b = flow.weights(tau, tau + dtau, dtau, 1.0, mu, left)
        tau += dtau
        # x - z shrinks by exp(-(integral of eta + eta')), eta = (log A)' and eta' = (log B)'.
        assert 1.0 - a - b == pytest.approx(np.prod(before / roots) ** 2, abs=1e-11)
        L = float(rng.uniform(1.0, 10.0))
        expected = roots[0] / roots[1] / math.sqrt(2.0 * L)
        assert par.carried_gamma_prime(tau, L, mu, left) == pytest.approx(expected, rel=1e-10)


def test_an_infinite_start_has_no_clock() -> None:
    assert par.unit_start(math.inf, 4.0) == (0.0, math.inf)
    expected = par.gamma_prime(0.0, 4.0, 0.5, math.inf)
    assert par.carried_gamma_prime(7.0, 4.0, 0.5, math.inf) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(("L", "mu"), [(1.0, 0.0), (3.0, 1e-12), (3.0, 0.2), (3.0, 2.9)])
def test_eta_is_1_at_the_least_start_for_a_penalty(L: float, mu: float) -> None:
    start = par.least_composite_start(L, mu)
    assert par.eta(0.0, L, mu, start) == pytest.approx(1.0, rel=1e-12)
    assert par.eta(0.0, L, mu, 0.99 * start) > 1.0
    assert par.least_composite_start(L, L) == math.inf
    assert par.least_composite_start(L, mu) >= 2.0
