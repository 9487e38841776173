"""The search for certificates: what it finds is proved, and agrees with PEPit and the theorems."""

import math
import sys

import numpy as np
import pytest

import continuized as cz
from continuized.theory import NoCertificateError, certify

pytestmark = pytest.mark.needs("cvxpy")


def sharper(kappa):
    """The parameters of Theorem B, at L = 1."""
    p = math.sqrt(2.0 / kappa)
    return p, p / 2.0, 1.0, 1.0 / p + 2.0 / 3.0


# The best rates over sqrt(mu/L), between these.
RATES = {
    ("paper", 10): (1.355, 1.365),
    ("paper", 100): (1.39, 1.40),
    ("paper", 10**4): (1.355, 1.36),
    ("sharper", 10): (1.44, 1.45),
    ("sharper", 10**4): (1.4142, 1.42),
}


@pytest.mark.parametrize(("which", "kappa"), RATES)
def test_the_best_rates_are_found_and_proved(which, kappa):
    method = cz.Continuized(1.0, 1.0 / kappa) if which == "paper" else sharper(kappa)
    found = certify(method, 1.0, 1.0 / kappa)
    low, high = RATES[which, kappa]
    assert found.proved
    assert low <= float(found.rate) * math.sqrt(kappa) <= high
    # No certificate is above the exact rate of the second moments at the ends of the spectrum.
    assert all(float(found.rate) < quadratic_rate(found, s) for s in (1.0 / kappa, 1.0))


def quadratic_rate(found, curvature):
    """The rate at which E x^2, E xz, E z^2 fall on a quadratic, written out here."""
    eta, eta_prime, gamma, gamma_prime = map(float, found.parameters)
    F = np.array([[-eta, eta], [eta_prime, -eta_prime]])
    J = np.eye(2) - curvature * np.array([[gamma, 0.0], [gamma_prime, 0.0]])
    eye = np.eye(2)
    G = np.kron(F, eye) + np.kron(eye, F) + np.kron(J, J) - np.eye(4)
    return -np.linalg.eigvals(G).real.max()


def test_theorem_3_has_nearly_its_own_constant():
    found = certify(cz.Continuized(1.0, 0.01), rate=0.1)
    assert found.proved
    by_hand = cz.CustomContinuized(0.1, 0.1, 1.0, 10.0)
    assert certify(by_hand, 1.0, 0.01, rate=0.1).P == found.P
    assert float(found.constant) > 0.9


def test_the_sharp_method_has_the_rate_of_theorem_B():
    found = certify(cz.SharpContinuized(1.0, 0.005))  # sqrt(2 mu/L) = 0.1
    assert found.proved
    assert float(found.rate) > 0.1


def test_other_units_give_the_same_rate():
    one = certify(cz.Continuized(1.0, 0.01))
    other = certify(cz.Continuized(1e6, 1e4))
    assert math.isclose(float(one.rate), float(other.rate), rel_tol=3e-4)


def test_a_function_smoother_than_the_method_thinks():
    """L and mu are of the functions; the parameters may be those of another L."""
    assert certify(cz.Continuized(2.0, 0.01), L=1.0).proved


@pytest.mark.parametrize("kappa", [10, 100, 10**6])
def test_twice_the_papers_step_is_refused(kappa):
    q = kappa**-0.5
    with pytest.raises(NoCertificateError, match=r"no certificate of this form.*no proof of div"):
        certify((q, q, 1.0, 2.0 / q), 1.0, 1.0 / kappa)


def test_a_rate_that_is_too_high_is_refused():
    with pytest.raises(NoCertificateError, match=r"falls at a rate of 0\.15 for every f"):
        certify(cz.Continuized(1.0, 0.01), rate=0.15)


def test_the_certified_bound_is_above_the_exact_mean():
    found = certify(cz.Continuized(1.0, 0.01))
    p = cz.problems.Quadratic(np.geomspace(0.01, 1.0, 5), np.ones(5))
    t = np.array([1.0, 10.0, 100.0, 300.0])
    exact = cz.theory.moments(p, cz.Continuized(1.0, 0.01), np.zeros(5), t).fun
    assert np.all(exact < found.bound(p, np.zeros(5), t))
    assert found.bound(p, np.zeros(5), 300.0) < cz.theory.bound(
        cz.Continuized(1.0, 0.01), p, np.zeros(5), t=300.0
    )


@pytest.mark.parametrize("arguments", [
    {"method": (0.1, 0.1, 1, 10)},
    {"method": (0.1, 0.1, 1, 0), "L": 1, "mu": 0.01},
    {"method": cz.Continuized(1.0)},
    {"method": cz.GradientDescent(1.0)},
    {"method": cz.CustomContinuized(0.1, 0.1, 1.0, 10.0)},
    {"method": cz.CustomContinuized(lambda t: 0.1, 0.1, 1.0, 10.0), "L": 1, "mu": 0.01},
    {"method": cz.Continuized(1.0, 0.01), "rate": -1},
    {"method": cz.Continuized(1.0, 0.01), "mu": 2.0},
])  # fmt: skip
def test_bad_input_is_refused(arguments):
    with pytest.raises(ValueError, match=r"give L= and mu=|> 0|change with|four numbers|below L"):
        certify(**arguments)


def test_without_cvxpy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(ImportError, match=r"continuized\[certify\]"):
        certify(cz.Continuized(1.0, 0.01))


def worst_by_pepit(found, factor):
    """The largest (generator of V) + factor rate V over the class, by PEPit, for V of size 1."""
    from PEPit import PEP
    from PEPit.functions import SmoothStronglyConvexFunction

    eta, eta_prime, gamma, gamma_prime = map(float, found.parameters)
    P_xx, P_xz, P_zz = map(float, found.P)
    problem = PEP()
    f = problem.declare_function(SmoothStronglyConvexFunction, mu=float(found.mu), L=float(found.L))
    star = f.stationary_point()
    x, z = problem.set_initial_point(), problem.set_initial_point()
    g = f.gradient(x)

    def V(x, z):
        u, w = x - star, z - star
        return f(x) - f(star) + P_xx * u**2 + 2 * P_xz * u * w + P_zz * w**2

    u, w = x - star, z - star
    drift = eta * (z - x) * (g + 2 * P_xx * u + 2 * P_xz * w)
    drift += eta_prime * (x - z) * (2 * P_xz * u + 2 * P_zz * w)
    drift += V(x - gamma * g, z - gamma_prime * g) - V(x, z)
    size = f(x) - f(star) + float(found.mu) * (u**2 + w**2)
    problem.set_initial_condition(size <= 1)
    problem.set_performance_metric(drift + factor * float(found.rate) * V(x, z))
    return problem.solve(verbose=0, wrapper="cvxpy", solver="CLARABEL")


@pytest.mark.needs("PEPit")
@pytest.mark.filterwarnings("ignore")  # of PEPit and cvxpy, to each other
@pytest.mark.parametrize("which", ["paper", "sharper"])
def test_pepit_finds_the_same_inequality(which):
    found = certify(cz.Continuized(1.0, 0.01) if which == "paper" else sharper(100), 1.0, 0.01)
    assert worst_by_pepit(found, 1.0) < 1e-6
    assert worst_by_pepit(found, 1.06) > 1e-4
