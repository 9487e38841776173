"""The flow's weights against high-precision arithmetic, and against each other."""

from __future__ import annotations

import math

import mpmath as mp
import numba
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from continuized import flow
from continuized.solver import kernels
from continuized.support.jit import FASTMATH

assert kernels.__doc__  # importing it lets the compiled functions below call the formulas

UNITS = 8  # of 2^-52, relative: 1.8e-15


def log_grid(low: float, high: float, n: int) -> list[float]:
    return np.geomspace(low, high, n).tolist()


def error(value: float, exact: mp.mpf) -> float:
    """The relative error in units of 2^-52."""
    return float(abs(mp.mpf(value) - exact) / exact * 2**52)


def exact_hyperbolic(u: mp.mpf, d: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    """The integrals of 2 coth v and of 2 tanh v, times (S C)^2 / (sinh v cosh v)^2, in v.

    The antiderivatives cancel like exp(-4u); the caller sets the digits.
    """

    def F(v: mp.mpf) -> mp.mpf:
        return -1 / (2 * mp.sinh(v) ** 2) - mp.log(mp.tanh(v))

    def G(v: mp.mpf) -> mp.mpf:
        return 1 / (2 * mp.cosh(v) ** 2) + mp.log(mp.tanh(v))

    scale = 2 * (mp.sinh(u) * mp.cosh(u)) ** 2
    return scale * (F(u + d) - F(u)), scale * (G(u + d) - G(u))


def digits(u: float) -> int:
    return 60 + int(4 * u)


@numba.njit(fastmath=FASTMATH)
def compiled_weights(t0, t1, dt, L, mu, start):  # type: ignore[no-untyped-def]
    return flow.weights(t0, t1, dt, L, mu, start)


def implementations(u: float, d: float) -> list[tuple[float, float]]:
    # omega = 1 for L = 1, mu = 4: compiled code allows itself to reorder sums, so check it too.
    return [
        flow.hyperbolic_weights(u, d),
        compiled_weights(u, u + d, d, 1.0, 4.0, 0.0),
    ]


def check_hyperbolic(u: float, d: float) -> None:
    with mp.workdps(digits(u)):
        exact = exact_hyperbolic(mp.mpf(u), mp.mpf(d))
        for a, b in implementations(u, d):
            assert error(a, exact[0]) <= UNITS, (u, d, a)
            assert error(b, exact[1]) <= UNITS, (u, d, b)


def test_the_reference_is_the_integral() -> None:
    with mp.workdps(40):
        u, d = mp.mpf("0.7"), mp.mpf("1.3")
        scale = (mp.sinh(u) * mp.cosh(u)) ** 2
        for rate, weight in zip((mp.coth, mp.tanh), exact_hyperbolic(u, d), strict=True):
            decay = lambda v, r=rate: 2 * r(v) / (mp.sinh(v) * mp.cosh(v)) ** 2  # noqa: E731
            integral = mp.quad(decay, [u, u + d])
            assert abs(scale * integral - weight) < mp.mpf(10) ** -35


@pytest.mark.parametrize("u", [*log_grid(1e-8, 30.0, 40), 0.5, 0.65, 0.6999, 0.7, 0.71, 1.0])
def test_hyperbolic_weights_on_a_grid(u: float) -> None:
    for d in log_grid(1e-9, 100.0, 23):
        check_hyperbolic(u, d)


@pytest.mark.parametrize("u", [100.0, 345.6, 700.0])
def test_hyperbolic_weights_far_out(u: float) -> None:
    for d in (1e-9, 1e-3, 1.0, 100.0):
        check_hyperbolic(u, d)


def test_hyperbolic_weights_where_the_two_forms_meet() -> None:
    rng = np.random.default_rng(0)
    for u in rng.uniform(0.3, 1.5, 2000).tolist():
        check_hyperbolic(u, float(10.0 ** rng.uniform(-9.0, 2.0)))


@settings(max_examples=150, deadline=None)
@given(
    st.floats(math.log(1e-8), math.log(40.0)).map(math.exp),
    st.floats(math.log(1e-9), math.log(100.0)).map(math.exp),
)
@example(math.nextafter(0.7, 0.0), 1e-9)
def test_hyperbolic_weights_anywhere(u: float, d: float) -> None:
    check_hyperbolic(u, d)


@pytest.mark.parametrize("start", [0.0, 0.3, 5.0, math.inf])
@pytest.mark.parametrize("ratio", [1.0, 1e2, 1e8, 1e16, 1e32])
@pytest.mark.parametrize("L", [1.0, 1e-3, 7e5])
def test_weights_from_L_and_mu(L: float, ratio: float, start: float) -> None:
    mu = L / ratio
    for t0 in (0.01, 1.0, 37.0, 1e4, 1e8, 1e12, 1e15):
        for dt in (1e-6, 0.1, 1.0, 30.0):
            t1 = t0 + dt
            u = 0.0 if start == math.inf else math.sqrt(mu / L) / 2 * (t0 + start)
            with mp.workdps(60 + int(4 * min(u, 200.0))):
                omega = mp.sqrt(mp.mpf(mu) / mp.mpf(L)) / 2
                if start == math.inf or u > 200.0:  # then they agree to exp(-400)
                    a = b = -mp.expm1(-4 * omega * dt) / 2
                else:
                    a, b = exact_hyperbolic(omega * (mp.mpf(t0) + start), omega * dt)
                for weights in (flow.weights, compiled_weights):
                    got = weights(t0, t1, dt, L, mu, start)
                    # omega and omega t are rounded first, by 3 units; the weights' relative
                    # sensitivity to them is at most 2.
                    assert error(got[0], a) <= UNITS + 6
                    assert error(got[1], b) <= UNITS + 6


@pytest.mark.parametrize("start", [0.0, 0.3, 5.0])
def test_convex_weights_up_to_large_times(start: float) -> None:
    for t1 in log_grid(1e-6, 1e15, 43):
        for dt in (1e-9 * t1, 1e-3 * t1, 0.3 * t1, t1, min(t1, 1.0)):
            with mp.workdps(60):
                T = mp.mpf(t1) + start
                exact = 1 - ((T - dt) / T) ** 2
                for weights in (flow.weights, compiled_weights):
                    a, b = weights(t1 - dt, t1, dt, 2.0, 0.0, start)
                    assert error(a, exact) <= UNITS
                    assert b == 0.0


def test_no_time_no_mixing() -> None:
    for mu, start in ((0.0, 0.0), (0.0, 5.0), (0.1, 0.0), (0.1, 5.0), (0.1, math.inf)):
        assert flow.weights(3.0, 3.0, 0.0, 1.0, mu, start) == (0.0, 0.0)


def test_at_start_zero_x_joins_z_at_once() -> None:
    for mu in (0.0, 0.1):
        a, b = flow.weights(0.0, 0.7, 0.7, 1.0, mu, 0.0)
        assert (a, b) == (1.0, 0.0)


CASES = [(0.0, 0.0), (0.0, 0.3), (0.2, 0.0), (0.2, 0.3), (0.2, 5.0), (0.2, math.inf)]


@pytest.mark.parametrize(("mu", "start"), CASES)
def test_two_intervals_make_one(mu: float, start: float) -> None:
    rng = np.random.default_rng(1)
    for t0 in (0.0, 0.1, 2.0, 50.0):
        for d1, d2 in rng.exponential(size=(20, 2)):
            x, z = rng.standard_normal(2)
            first = flow.weights(t0, t0 + d1, d1, 1.5, mu, start)
            second = flow.weights(t0 + d1, t0 + d1 + d2, d2, 1.5, mu, start)
            whole = flow.weights(t0, t0 + d1 + d2, d1 + d2, 1.5, mu, start)
            assert flow.mix(*flow.mix(x, z, *first), *second) == pytest.approx(
                flow.mix(x, z, *whole), abs=1e-14
            )


@pytest.mark.parametrize(("mu", "start"), [c for c in CASES if c[1] > 0.0])
def test_integrated_weights_are_the_closed_forms(mu: float, start: float) -> None:
    from continuized import parameters

    L = 1.5
    for t0, dt in ((0.0, 1e-3), (0.0, 2.0), (1.0, 0.5), (30.0, 4.0)):
        integrated = flow.integrate_weights(
            lambda t: parameters.eta(t, L, mu, start),
            lambda t: parameters.eta_prime(t, L, mu, start),
            t0,
            dt,
        )
        assert integrated == pytest.approx(
            flow.weights(t0, t0 + dt, dt, L, mu, start), rel=1e-11, abs=1e-13
        )


@pytest.mark.parametrize("eta", [lambda t: 2.0 / t, lambda t: math.inf if t == 0 else 2.0 / t])
def test_an_infinite_rate_at_zero_joins_x_and_z(eta) -> None:  # type: ignore[no-untyped-def]
    assert flow.integrate_weights(eta, lambda t: 0.0, 0.0, 0.5) == (1.0, 0.0)
    a, b = flow.integrate_weights(eta, lambda t: 0.0, 1.0, 1.0)
    assert (a, b) == (pytest.approx(0.75, rel=1e-12), 0.0)


def test_small_mu_tends_to_the_convex_weights() -> None:
    for start in (0.0, 0.3, 5.0):
        for t0, dt in ((0.5, 0.1), (2.0, 1.0), (40.0, 3.0)):
            convex = flow.weights(t0, t0 + dt, dt, 1.0, 0.0, start)
            for mu in (1e-8, 1e-12, 1e-16):
                near = flow.weights(t0, t0 + dt, dt, 1.0, mu, start)
                assert near == pytest.approx(convex, rel=mu * 1e5, abs=mu * 1e5)


def test_large_start_tends_to_the_exponential() -> None:
    limit = flow.weights(1.0, 1.8, 0.8, 1.0, 0.25, math.inf)
    for start in (10.0, 20.0, 40.0, 1e3, 1e300):
        near = flow.weights(1.0, 1.8, 0.8, 1.0, 0.25, start)
        assert near == pytest.approx(limit, rel=4.0 * math.exp(-0.5 * start) + 1e-15)
