"""The Lyapunov function is a supermartingale, by quadrature; planted mistakes are not."""

import itertools
import math

import numpy as np
import pytest

import continuized as cz
from continuized import flow, parameters
from continuized.theory import drift, lyapunov, supermartingale_gap

L = 1.3


class Separable(cz.Problem):
    """A convex function of one variable, f and f' vectorised over rows."""

    def __init__(self, f, slope, mu=0.0):
        super().__init__(lambda x: float(f(x)[0]), slope, L=L, mu=mu, x_star=[0.0], f_star=0.0)
        self.f, self.slope = f, slope

    def values(self, points):
        return self.f(points)[:, 0]

    def grads(self, points):
        return self.slope(points)


def huber(mu=0.0):
    c = L - mu  # curvature L in [-1, 1], mu outside
    return Separable(
        lambda x: mu / 2 * x**2 + c * np.where(np.abs(x) < 1, x**2 / 2, np.abs(x) - 0.5),
        lambda x: mu * x + c * np.clip(x, -1, 1),
        mu,
    )


def lopsided(mu=0.0):
    # The slope is a shifted sigmoid: steep on the left, nearly flat on the right.
    scale, shift = 4 * (L - mu), 2.0

    def sigmoid(x):
        return 0.5 * (1 + np.tanh(x / 2))

    def f(x):
        rise = np.logaddexp(0.0, x + shift) - np.logaddexp(0.0, shift) - sigmoid(shift) * x
        return mu / 2 * x**2 + scale * rise

    return Separable(f, lambda x: mu * x + scale * (sigmoid(x + shift) - sigmoid(shift)), mu)


def log_cosh(mu=0.0):
    c = L - mu
    return Separable(
        lambda x: mu / 2 * x**2 + c * (np.logaddexp(x, -x) - math.log(2.0)),
        lambda x: mu * x + c * np.tanh(x),
        mu,
    )


def quadratic(lam, mu=0.0):
    return cz.problems.Quadratic([lam], [0.0], mu=mu)


FUNCTIONS = [
    huber,
    lopsided,
    log_cosh,
    lambda mu: quadratic(L, mu),
    lambda mu: quadratic(mu + 0.1, mu),
]
METHODS = [
    cz.Continuized(L),
    cz.Continuized(L, 0.0, 0.5),
    cz.Continuized(L, 0.05),
    cz.Continuized(L, 0.05, 0.0),
    cz.Continuized(L, 0.05, 3.0),
]


class Slip(cz.Continuized):
    """The paper's Theorem 4 as printed: gamma' at T_k instead of T_{k+1}."""

    def coefficients(self, k, t0, t, dt, carry):
        a, b, gamma, _, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, parameters.gamma_prime(t0, *self.constants), carry


class TooLong(cz.Continuized):
    """gamma' = t / sqrt(2L), as the paper's appendix prints it."""

    def coefficients(self, k, t0, t, dt, carry):
        a, b, gamma, _, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, t / math.sqrt(2 * self.L), carry


def random_states(rng, times, each):
    """States at `times` times, `each` to a time: t over five decades, x and z heavy-tailed."""
    t = np.repeat(10.0 ** rng.uniform(-2, 3, times), each)
    x, z = rng.standard_normal((2, len(t), 1)) * 10.0 ** rng.uniform(-1.5, 1.5, (2, len(t), 1))
    return t, x, z


def violations(gap):
    return np.count_nonzero(gap.value > gap.error + 1e-9 * gap.phi)


def test_no_violation_in_random_states():
    """In 5,000, of which the mistakes below spoil one in twenty and more."""
    rng = np.random.default_rng(1)
    for method in METHODS:
        for function in FUNCTIONS:
            t, x, z = random_states(rng, 4, 50)
            gap = supermartingale_gap(method, function(method.mu), t, x, z)
            # Huber's kink in y - f'(y)/L slows the quadrature down to this; others are far below.
            assert np.all(gap.error <= 2e-4 * gap.phi)
            assert violations(gap) == 0, (method, function)


@pytest.mark.parametrize("mutant", [Slip(L), TooLong(L)], ids=["T_k slip", "sqrt(2L)"])
def test_planted_mistakes_are_caught(mutant):
    rng = np.random.default_rng(2)
    caught = total = 0
    for function in FUNCTIONS:
        t, x, z = random_states(rng, 8, 100)
        caught += violations(supermartingale_gap(mutant, function(0.0), t, x, z))
        total += len(t)
    assert caught > 0.05 * total


def test_too_large_mu_and_too_small_L_are_caught():
    rng = np.random.default_rng(3)
    t, x, z = random_states(rng, 10, 100)
    assert violations(supermartingale_gap(cz.Continuized(L, 0.5), quadratic(0.01), t, x, z)) > 50
    assert violations(supermartingale_gap(cz.Continuized(0.3 * L), quadratic(L), t, x, z)) > 50


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_gap_equals_the_drift_integrated_along_the_flow(method):
    # E phi(T_1) - phi = int e^{-d} I_{t+d}(flow to t + d) dd: the two share no formula for the
    # derivative, which `drift` has and the gap has not.
    t0, x, z = 0.8, np.array([1.5, -0.3]), np.array([-0.7, 2.0])
    p = cz.problems.Quadratic([0.3, L], [0.2, 0.1], mu=method.mu)
    gap = supermartingale_gap(method, p, t0, x, z)
    points, weights = np.polynomial.legendre.leggauss(40)
    total = 0.0
    edges = [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    for a, b in itertools.pairwise(edges):
        for d, w in zip(a + (b - a) * (1 + points) / 2, (b - a) / 2 * weights, strict=True):
            mixed = flow.mix(x, z, *method.flow(t0, t0 + d, d))
            total += w * math.exp(-d) * drift(method, p, t0 + d, *mixed)
    assert gap.value == pytest.approx(total, rel=1e-9)
    assert gap.value < 0.0


def test_gap_by_hand_for_one_convex_state():
    # t = 1, start = 0, f = L/2 u^2: x -> 0 at the event, z -> w - (1 + d)/2 y, with
    # y = w + (u - w) / (1 + d)^2; A plays no part, B = 1.
    u, w = 0.7, -0.4
    p = quadratic(L)
    gap = supermartingale_gap(cz.Continuized(L), p, 1.0, [u], [w])
    d, weights = np.polynomial.legendre.leggauss(200)
    total = 0.0
    for a, b in ((0.0, 2.0), (2.0, 10.0), (10.0, 60.0)):
        e = a + (b - a) * (1 + d) / 2
        y = w + (u - w) / (1 + e) ** 2
        total += np.sum((b - a) / 2 * weights * np.exp(-e) * (w - (1 + e) / 2 * y) ** 2)
    phi = 1.0 / (2 * L) * L / 2 * u**2 + w**2
    assert gap.phi == pytest.approx(phi, rel=1e-13)
    assert gap.value == pytest.approx(total - phi, rel=1e-11)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_drift_is_never_positive_and_is_the_derivative_of_phi(method):
    rng = np.random.default_rng(4)
    for function in FUNCTIONS:
        t, x, z = random_states(rng, 500, 2)
        p = function(method.mu)
        scale = supermartingale_scale(method, p, t, x, z)
        assert np.all(drift(method, p, t, x, z) <= 1e-12 * scale)
    # By finite differences: d/dh of phi along the flow, plus the jump
    p, t, x, z = log_cosh(method.mu), 2.0, np.array([0.8]), np.array([-1.7])
    h = 1e-5

    def phi(s, x, z):
        A, B = (math.exp(f(s, *method.constants)) for f in (parameters.log_A, parameters.log_B))
        return A * p.fun(x) + B * float(z @ z)

    forth, back = ([], [])
    for sign, out in ((1, forth), (-1, back)):
        e = parameters.eta(t, *method.constants), parameters.eta_prime(t, *method.constants)
        out.append(phi(t + sign * h, x + sign * h * e[0] * (z - x), z + sign * h * e[1] * (x - z)))
    g = p.grad(x)
    after = phi(t, x - g / L, z - parameters.gamma_prime(t, *method.constants) * g)
    expected = (forth[0] - back[0]) / (2 * h) + after - phi(t, x, z)
    assert drift(method, p, t, x, z) == pytest.approx(expected, rel=1e-7)


def supermartingale_scale(method, p, t, x, z):
    A, B = (
        np.exp([f(s, *method.constants) for s in t]) for f in (parameters.log_A, parameters.log_B)
    )
    rate = np.array([parameters.eta(s, *method.constants) for s in t])
    size = (np.abs(x) + np.abs(z))[:, 0] ** 2
    return (A * L + B) * (1 + rate) * size


def test_drift_with_noise_is_within_the_theorems_allowance():
    p = cz.problems.Quadratic([0.3, L], [0.2, 0.1])
    x, z = np.array([1.5, -0.3]), np.array([-0.7, 2.0])
    for method in METHODS:
        A, B = (math.exp(f(2.0, *method.constants)) for f in (parameters.log_A, parameters.log_B))
        gp = parameters.gamma_prime(2.0, *method.constants)
        more = drift(method, p, 2.0, x, z, sigma2=0.6) - drift(method, p, 2.0, x, z)
        assert more == pytest.approx(0.6 * (A * (0.3 + L) / 4 / L**2 + B * gp**2))
        assert more <= 0.6 * A / L
    # Elsewhere an upper bound: exact where f has the curvature L around x - gamma grad f.
    p, method = huber(), METHODS[-1]
    A, B = (math.exp(f(1.0, *method.constants)) for f in (parameters.log_A, parameters.log_B))
    gp = parameters.gamma_prime(1.0, *method.constants)
    more = drift(method, p, 1.0, [1.0], [1.0], sigma2=0.1) - drift(method, p, 1.0, [1.0], [1.0])
    assert more == pytest.approx(0.1 * (A * 0.5 * p.L / method.L**2 + B * gp**2))
    with pytest.raises(ValueError, match="without noise"):
        drift(cz.Continuized(L, 0.1), cz.problems.Quadratic([0.3, L]), 1.0, [1.0, 1.0], [1.0, 1.0],
              sigma2=0.1, prox=cz.prox.L1(0.1), x_star=[0.0, 0.0])  # fmt: skip


@pytest.mark.parametrize("start", [None, 0.0, 0.5])
def test_phi_along_a_path(start):
    p = cz.problems.paper_strongly_convex()
    method = cz.Continuized(p.L, p.mu, start)
    r = cz.minimize(p, np.zeros(3), method=method, maxiter=60, rng=5, record="path")
    phi = lyapunov(r, p)
    for i in (0, 1, 17, 60):
        A, B = (
            math.exp(f(float(r.trace.t[i]), *method.constants))
            for f in (parameters.log_A, parameters.log_B)
        )
        d = r.path.z[i] - p.x_star
        expected = A * r.trace.fun[i] + B * (d @ d)
        assert phi.phi[i] == pytest.approx(expected, rel=1e-12)
        assert phi.at(r.trace.t[i]) == pytest.approx(expected, rel=1e-12)
    middle = 0.5 * (r.trace.t[3] + r.trace.t[4])
    x, z = r.at(middle)
    A, B = (math.exp(f(middle, *method.constants)) for f in (parameters.log_A, parameters.log_B))
    assert phi.at(middle) == pytest.approx(
        A * p.fun(x) + B * ((z - p.x_star) @ (z - p.x_star)), rel=1e-12
    )
    assert phi.at(r.trace.t[4], side="left") != phi.at(r.trace.t[4])
    assert phi.at([0.0, middle]).shape == (2,)


def test_phi_where_it_overflows():
    p = cz.problems.Quadratic([1.0, 1.0])
    clock = cz.clock.Recorded([1000.0, 2000.0])
    method = cz.Continuized(1.0, 1.0)
    r = cz.minimize(p, [1.0, 2.0], method=method, clock=clock, tol=0.0, record="path")
    assert np.all(np.isfinite(lyapunov(r, p).log_phi[:1]))
    assert not np.any(np.isnan(lyapunov(r, p).log_phi))


def test_bad_input_is_refused():
    p = cz.problems.paper_strongly_convex()
    r = cz.minimize(p, np.zeros(3), maxiter=5, rng=0)
    with pytest.raises(ValueError, match='record="path"'):
        lyapunov(r, p)
    r = cz.minimize(p, np.zeros(3), method="nesterov", maxiter=5, record="path")
    with pytest.raises(ValueError, match="Continuized only"):
        lyapunov(r, p)
    with pytest.raises(ValueError, match="infinite at 0"):
        drift(cz.Continuized(L), quadratic(L), 0.0, [1.0], [1.0])
    with pytest.raises(ValueError, match=r"at most 1e\+150, or squares overflow: got 1e\+200"):
        drift(cz.Continuized(L), quadratic(L), 1.0, [1.0], [1e200])
    with pytest.raises(ValueError, match="one shape"):
        drift(cz.Continuized(L), quadratic(L), 1.0, [1.0], [1.0, 2.0])
    unknown = cz.Problem(lambda x: 0.0, lambda x: x, L=1.0)
    with pytest.raises(ValueError, match="x_star"):
        drift(cz.Continuized(L), unknown, 1.0, [1.0], [1.0])
