"""Ito's formula: the generator, the decomposition of a path, and functions phi of one's own."""

import math

import mpmath
import numpy as np
import pytest

import continuized as cz
from continuized.theory import (
    Observable,
    decompose,
    drift,
    generator,
    lyapunov_function,
)
from continuized.theory.ito import COARSE, NODES, WEIGHTS, integrate_gaps

P = cz.problems.Quadratic([1.0, 0.3, 0.05], [1.0, -2.0, 3.0])
METHODS = {
    "mu = 0": cz.Continuized(P.L, 0.0),
    "mu > 0": cz.Continuized(P.L, P.mu),
    "start = 0": cz.Continuized(P.L, P.mu, 0.0),
    "tau < 1": cz.Continuized(P.L, P.mu, tau=0.7),
    "start = 2": cz.Continuized(P.L, 0.0, 2.0),
}
WAVE = Observable(
    lambda t, x, z: float(np.sin(x).sum() * math.exp(-0.1 * t) + z @ z),
    lambda t, x, z: (
        -0.1 * np.sin(x).sum() * math.exp(-0.1 * t),
        np.cos(x) * math.exp(-0.1 * t),
        2.0 * z,
    ),
)


def run(method, problem=P, events=40, **options):
    x0 = np.zeros(problem.dim)
    return cz.minimize(
        problem, x0, method=method, maxiter=events, rng=3, record="path", tol=0.0, **options
    )


def test_the_rule_is_gauss_and_kronrod():
    for degree in range(23):
        exact = 2.0 / (degree + 1) if degree % 2 == 0 else 0.0
        assert math.isclose(WEIGHTS @ NODES**degree, exact, abs_tol=1e-15)
        if degree < 14:
            assert math.isclose(COARSE @ NODES**degree, exact, abs_tol=1e-14)
    assert abs(COARSE @ NODES**14 - 2.0 / 15.0) > 1e-6


@pytest.mark.parametrize("name", METHODS)
def test_the_generator_of_phi_is_the_drift(name):
    method, rng = METHODS[name], np.random.default_rng(0)
    t, (x, z) = rng.uniform(0.1, 20.0, 50), rng.standard_normal((2, 50, 3))
    found = generator(lyapunov_function(method, P), method, P, (t, x, z))
    np.testing.assert_allclose(found, drift(method, P, t, x, z), rtol=1e-9)
    one = generator(lyapunov_function(method, P), method, P, (t[3], x[3], z[3]))
    assert math.isclose(one, found[3], rel_tol=1e-12)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("phi", ["lyapunov", "wave"])
def test_the_parts_add_up(name, phi):
    method = METHODS[name]
    r = run(method)
    parts = decompose(lyapunov_function(method, P) if phi == "lyapunov" else WAVE, r, P)
    assert parts.closure < 1e-12
    assert parts.error[-1] < 1e-9 * np.abs(parts.phi).max()
    if phi == "lyapunov":
        np.testing.assert_allclose(parts.phi, cz.theory.lyapunov(r, P).phi, rtol=1e-12)
        assert np.all(np.diff(parts.drift) <= 0.0)


def test_the_integral_is_that_of_many_digits():
    """One gap, against mpmath: the flow and the compensator written out here."""
    method = METHODS["mu > 0"]
    q, gamma_prime = math.sqrt(P.mu / P.L), 1.0 / math.sqrt(P.mu * P.L)
    x0, z0 = np.array([0.3, -1.0, 2.0]), np.array([1.0, 0.5, -0.7])
    dt, t0 = 2.7, 1.3

    def state(s):
        a = (1 - mpmath.exp(-2 * q * s)) / 2
        return x0 + a * (z0 - x0), z0 + a * (x0 - z0)

    def value(t, x, z):
        return sum(map(mpmath.sin, x)) * mpmath.exp(-0.1 * t) + z @ z

    def compensator(s):
        x, z = state(s)
        g = P.eigenvalues * (x - P.x_star)
        return value(t0 + s, x - g, z - gamma_prime * g) - value(t0 + s, x, z)

    with mpmath.workdps(25):
        expected = float(mpmath.quad(compensator, [0, dt / 2, dt]))
        grown = float(value(t0 + dt, *state(dt)) - value(t0, x0, z0))
    given = np.array([t0]), np.array([dt]), x0[None], z0[None]
    flow, found, error = integrate_gaps(WAVE, method, P, *given)
    assert math.isclose(found[0], expected, rel_tol=1e-11)
    assert math.isclose(flow[0], grown, rel_tol=1e-11)
    assert error[0] < 1e-8


def test_a_function_with_a_kink_in_its_gradient_is_integrated_by_halving():
    def f(x):
        return float(np.where(np.abs(x) < 0.5, 0.5 * x**2, 0.5 * np.abs(x) - 0.125).sum())

    p = cz.Problem(f, lambda x: np.clip(x, -0.5, 0.5), L=1.0, mu=0.0, x_star=[0.0], f_star=0.0)
    method = cz.Continuized(1.0, 0.0, 1.0)
    r = cz.minimize(p, [5.0], method=method, maxiter=30, rng=0, record="path", tol=0.0)
    assert decompose(lyapunov_function(method, p), r, p).closure < 1e-9


def test_the_sharp_parameters():
    assert decompose(WAVE, run(cz.SharpContinuized(P.L, P.mu)), P).closure < 1e-12


def test_parameters_of_ones_own_and_vectorized_functions():
    method = cz.CustomContinuized(lambda t: 0.3, lambda t: 0.2, lambda t: 1.0, lambda t: 2.0)
    rows = Observable(
        lambda t, x, z: (x * z).sum(axis=1) + t,
        lambda t, x, z: (np.ones_like(t), z, x),
        vectorized=True,
    )
    assert decompose(rows, run(method, events=5), P).closure < 1e-11


REFUSED = {
    "a wrong gradient": (
        Observable(lambda t, x, z: z @ z, lambda t, x, z: (0.0, 0.0 * x, 1.1 * z)),
        r"contradicts finite differences at t = .*along z it gives .* off by",
    ),
    "a derivative in t forgotten": (
        Observable(lambda t, x, z: t * (z @ z), lambda t, x, z: (0.0, 0.0 * x, 2.0 * t * z)),
        "along t it gives 0, differences give",
    ),
    "two derivatives": (
        Observable(lambda t, x, z: z @ z, lambda t, x, z: (0.0 * x, 2.0 * z)),
        "three derivatives",
    ),
    "an array for a value": (
        Observable(lambda t, x, z: z, lambda t, x, z: (0.0, 0.0 * x, z)),
        "must give an array of shape",
    ),
    "a plain function": (lambda t, x, z: 0.0, "phi must be a cz.theory.Observable"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_phi_that_cannot_be_used_is_refused(mistake):
    phi, words = REFUSED[mistake]
    with pytest.raises((TypeError, ValueError), match=words):
        decompose(phi, run(METHODS["mu > 0"]), P)
    with pytest.raises((TypeError, ValueError), match=words):
        generator(phi, METHODS["mu > 0"], P, (1.0, np.ones(3), np.full(3, 2.0)))


def test_a_phi_that_overflows_on_the_path_is_said_to():
    p = cz.problems.Quadratic([1.0, 0.25], [1.0, 1.0])  # sqrt(mu/L) = 1/2: A_t overflows at 1,419
    method = cz.Continuized(p.L, p.mu)
    r = cz.minimize(p, [0.0, 0.0], method=method, maxiter=2_000, rng=0, record="path")
    with pytest.raises(ValueError, match=r"phi is not finite from t = 14\d\d.*a shorter path"):
        decompose(lyapunov_function(method, p), r, p)


def test_a_path_that_does_not_fit_is_refused():
    phi, method = lyapunov_function(METHODS["mu > 0"], P), METHODS["mu > 0"]
    noisy = run(method, noise=cz.noise.Gaussian(1e-4))
    with pytest.raises(ValueError, match="event 1 of the path is no gradient step"):
        decompose(phi, noisy, P)
    other = cz.problems.Quadratic([1.0, 0.3, 0.05], [1.0, -2.0, 2.0])
    with pytest.raises(ValueError, match="give the problem of the run"):
        decompose(phi, run(method), other)
    with pytest.raises(ValueError, match="the path was not recorded"):
        decompose(phi, cz.minimize(P, np.zeros(3), method=method, maxiter=3), P)
    with pytest.raises(ValueError, match="nesterov counts iterations: use Continuized"):
        decompose(phi, run(cz.Nesterov(1.0, 0.05)), P)
    with pytest.raises(ValueError, match="run without prox= and mirror="):
        decompose(phi, run(method, prox=cz.prox.L1(0.1)), P)
    with pytest.raises(ValueError, match="at which eta is finite"):
        generator(phi, METHODS["mu = 0"], P, (0.0, np.zeros(3), np.ones(3)))


@pytest.mark.parametrize(
    "ask",
    [
        lambda method: generator(
            lyapunov_function(METHODS["mu > 0"], P), method, P, (1.0, np.zeros(3), np.ones(3))
        ),
        lambda method: cz.theory.quadratic_rate(method, P.L, P.mu),
        lambda method: cz.theory.noise_floor(method, P, 0.01),
    ],
)
def test_a_method_that_counts_iterations_is_refused_with_one_to_use(ask):
    with pytest.raises(ValueError, match=r"^nesterov counts iterations: use Continuized, Sharp"):
        ask(cz.Nesterov(P.L, P.mu))
