"""Functions that are quasar-convex, not convex: the parameters, phi, the bounds, the problems."""

import math
import warnings

import mpmath
import numpy as np
import pytest
from scipy.optimize import check_grad

import continuized as cz
from continuized.process import parameters
from continuized.theory import bound, drift, moments, supermartingale_gap, weight

TAU = 0.4
RNG = np.random.default_rng(5)
X = RNG.standard_normal((25, 3))
STAR = np.array([2.0, -1.0, 3.0])
PROBLEMS = {
    "well": cz.problems.Charbonnier(TAU, 1.0),
    "well, d = 4": cz.problems.Charbonnier(TAU, [1.0, -2.0, 0.0, 3.0]),
    "well, mu > 0": cz.problems.Charbonnier(TAU, 1.0, l2=0.02),
    "sigmoid": cz.problems.SigmoidRegression(X, STAR),
    "sigmoid, mu > 0": cz.problems.SigmoidRegression(X, STAR, tau=0.3),
}
SLOW = ("well, d = 4", "sigmoid, mu > 0")  # each compiles functions of its own
every_problem = pytest.mark.parametrize(
    "p",
    [
        pytest.param(p, id=name, marks=pytest.mark.slow if name in SLOW else ())
        for name, p in PROBLEMS.items()
    ],
)


def points(p, n, seed=0):
    rng = np.random.default_rng(seed)
    sizes = 10.0 ** rng.uniform(-3.0, 3.0, (n, 1))
    return p.x_star + sizes * rng.standard_normal((n, p.dim))


def methods(p):
    if p.mu > 0.0:
        return [cz.Continuized(p.L, p.mu, tau=p.tau)]
    return [cz.Continuized(p.L, 0.0, start, p.tau) for start in (0.0, 0.7, 20.0)]


@every_problem
def test_the_problems_are_what_they_say(p):
    x = points(p, 20_000)
    f, g, u = p.values(x), p.grads(x), x - p.x_star
    slack = (g * u).sum(axis=1) - p.tau * (f + 0.5 * p.mu * (u * u).sum(axis=1))
    assert np.all(slack >= -1e-12 * p.tau * f)
    h = 1e-5 * np.random.default_rng(1).standard_normal(x.shape)
    h *= 1.0 + np.abs(x).max(axis=1, keepdims=True)
    change = p.grads(x + h) - g
    assert np.all(np.linalg.norm(change, axis=1) <= p.L * np.linalg.norm(h, axis=1) * (1 + 1e-6))
    near = np.abs(u).max(axis=1) < 30.0
    curvatures = ((change * h).sum(axis=1) / (h * h).sum(axis=1))[near]
    assert p is PROBLEMS["well, mu > 0"] or curvatures.min() < -1e-4  # it is not convex
    assert check_grad(p.fun, p.grad, x[np.argmin(np.abs(f - 1.0))]) < 1e-6
    assert p.fun(p.x_star) == p.f_star == 0.0
    assert 0.0 <= p.mu <= p.L


def test_the_largest_tau_of_the_well_is_its_tau():
    far = np.array([[1e80]])
    p = cz.problems.Charbonnier(TAU)
    assert float(p.grads(far)[0, 0] * far[0, 0] / p.values(far)[0]) == pytest.approx(TAU)


@every_problem
def test_compiled_functions_are_the_same(p):
    compiled, out = p.compile(), np.empty(p.dim)
    for x in points(p, 20):
        compiled.write_gradient(x, out)
        np.testing.assert_allclose(out, p.grad(x), rtol=1e-12, atol=1e-15)
        assert compiled.value(x) == pytest.approx(p.fun(x), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("tau", [1.0, 0.7, 0.05])
@pytest.mark.parametrize(("mu", "start"), [(0.0, 0.0), (0.0, 2.0), (0.3, math.inf), (0.3, 2.0)])
def test_the_parameters_solve_their_equations(tau, mu, start):
    L, t, h = 1.7, 3.0, 1e-4
    c = (L, mu, start, tau)

    def roots(s):
        return [math.exp(0.5 * f(s, *c)) for f in (parameters.log_A, parameters.log_B)]

    A, B = roots(t)
    slopes = (np.array(roots(t + h)) - roots(t - h)) / (2 * h)
    expected = tau * B / math.sqrt(2 * L), tau * mu * A / math.sqrt(8 * L)
    np.testing.assert_allclose(slopes, expected, rtol=1e-6, atol=1e-11)
    assert parameters.eta(t, *c) == pytest.approx(math.sqrt(2 / L) * B / A)
    assert parameters.eta_prime(t, *c) == pytest.approx(tau * mu * A / (math.sqrt(2 * L) * B))
    assert parameters.gamma_prime(t, *c) == pytest.approx(A / (math.sqrt(2 * L) * B))


@pytest.mark.parametrize("tau", [0.9, 0.5, 0.01])
def test_the_weights_against_sixty_digits(tau):
    L, mu = 1.7, 0.02
    for t0, dt, start in ((0.0, 0.7, 2.0), (3.0, 1e-9, 0.0), (1e8, 1.3, 0.0), (50.0, 20.0, 0.0)):
        convex = cz.Continuized(L, 0.0, start, tau).flow(t0, t0 + dt, dt)
        strong = cz.Continuized(L, mu, tau=tau).flow(t0, t0 + dt, dt)
        sharp = cz.SharpContinuized(L, mu).flow(t0, t0 + dt, dt)
        with mpmath.workdps(60):
            end, gap = mpmath.mpf(t0 + dt) + start, mpmath.mpf(dt)
            a = 1 - (1 - gap / end) ** (2 / mpmath.mpf(tau))
            q = mpmath.sqrt(mpmath.mpf(mu) / mpmath.mpf(L))
            b = (1 - mpmath.exp(-(1 + mpmath.mpf(tau)) * q * gap)) / (1 + mpmath.mpf(tau))
            c = (1 - mpmath.exp(-3 * mpmath.sqrt(2) * q * gap / 2)) / 3
            rows = [(convex, (a, 0)), (strong, (b, tau * b)), (sharp, (2 * c, c))]
            for found, exact in rows:
                for weight, expected in zip(found, exact, strict=True):
                    assert abs(weight - expected) <= 16 * math.ulp(1.0) * abs(expected)
    assert cz.Continuized(L, tau=tau).flow(0.0, 1.0, 1.0) == (1.0, 0.0)
    assert cz.Continuized(L, tau=tau).flow(1.0, 1.0, 0.0) == (0.0, 0.0)


def test_tau_1_changes_no_bit():
    p = cz.problems.paper_strongly_convex()
    for mu, start in ((0.0, None), (p.mu, None), (p.mu, 0.3)):
        runs = [
            cz.minimize(p, np.zeros(3), method=method, maxiter=30, rng=0)
            for method in (cz.Continuized(p.L, mu, start), cz.Continuized(p.L, mu, start, 1.0))
        ]
        assert runs[0].x.tobytes() == runs[1].x.tobytes()
        assert cz.Continuized(p.L, mu, start).constants[:2] == (p.L, mu)


@every_problem
def test_the_drift_is_not_positive(p):
    for method in methods(p):
        x, z = points(p, 10_000, 1), points(p, 10_000, 2)
        t = np.exp(np.random.default_rng(3).uniform(-3.0, 4.0, len(x)))
        A, B = (
            np.exp([f(s, *method.parameters) for s in t.tolist()])
            for f in (parameters.log_A, parameters.log_B)
        )
        phi = A * p.values(x) + B * ((z - p.x_star) ** 2).sum(axis=1)
        assert np.all(drift(method, p, t, x, z) <= 1e-10 * phi)


@every_problem
def test_the_drift_is_the_generator_of_phi(p):
    from continuized.theory import generator, lyapunov_function

    x, z, t = points(p, 200, 1), points(p, 200, 2), np.full(200, 3.0)
    for method in methods(p):
        found = generator(lyapunov_function(method, p), method, p, (t, x, z))
        expected = drift(method, p, t, x, z)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())


@every_problem
def test_phi_is_a_supermartingale(p):
    x, z = points(p, 60, 1), points(p, 60, 2)
    for method in methods(p):
        for t in (0.0, 5.0):
            gap = supermartingale_gap(method, p, np.full(60, t), x, z)
            assert np.all(gap.value <= gap.error + 1e-9 * gap.phi)


class Doubled(cz.Continuized):
    """gamma' twice too large."""

    def coefficients(self, k, t0, t, dt, carry):
        a, b, gamma, step, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b, gamma, 2.0 * step, carry


@pytest.mark.parametrize("p", [PROBLEMS["well"], PROBLEMS["well, mu > 0"]], ids=["0", "mu"])
def test_a_doubled_step_is_caught(p):
    method = Doubled(p.L, p.mu, None, p.tau)
    x, z = points(p, 200, 1), points(p, 200, 2)
    gap = supermartingale_gap(method, p, np.full(200, 3.0), x, z)
    assert np.mean(gap.value > gap.error + 1e-9 * gap.phi) > 0.02


def test_a_tau_that_is_too_large_is_caught_by_the_drift():
    p = cz.problems.Charbonnier(0.1, 0.0)
    method = cz.Continuized(p.L, 0.0, 1.0)
    x = np.full((9, 1), 50.0)
    z = np.linspace(30.0, 70.0, 9)[:, None]
    assert drift(method, p, np.full(9, 5.0), x, z).max() > 0.0


@every_problem
def test_the_bounds_are_the_formulas_and_hold(p):
    """Means of 4,000 runs; none is near its bound, so that chance plays no part."""
    x0, t = p.x_star + 2.0, np.array([1.0, 5.0, 30.0])
    R2, f0 = 4.0 * p.dim, p.fun(p.x_star + 2.0)
    for method in methods(p):
        found = bound(method, p, x0, t=t)
        if p.mu == 0.0:
            s, tau = method.start, method.tau
            expected = (s * s * tau * tau / (2 * p.L) * f0 + R2) * 2 * p.L / (tau * (t + s)) ** 2
        else:
            q = math.sqrt(p.mu / p.L)
            expected = (f0 + p.mu / 2 * R2) * np.exp(-method.tau * q * t)
        np.testing.assert_allclose(found, expected)
        np.testing.assert_allclose(found * weight(method, t), bound(method, p, x0, k=[3] * 3))
    e = cz.ensemble(p, method, x0, runs=4000, times=t, rng=0, keep="mean")
    assert np.all(e.mean() < 0.9 * found)


@pytest.mark.parametrize(("mu", "start"), [(0.0, 0.0), (0.0, 2.0), (0.01, None)])
def test_the_bounds_hold_for_exact_means_with_noise(mu, start):
    p, t = cz.problems.paper_strongly_convex(), np.geomspace(0.2, 100.0, 12)
    method = cz.Continuized(p.L, mu, start, 0.5)
    for sigma2 in (0.0, 0.2):
        exact = moments(p, method, np.zeros(3), t, sigma2=sigma2).fun
        assert np.all(exact <= bound(method, p, np.zeros(3), t=t, sigma2=sigma2))
    k = np.array([1, 5])
    noise = bound(method, p, p.x_star, k=k, sigma2=0.3)
    if mu == 0.0 and start == 0.0:
        np.testing.assert_allclose(noise, 0.25 * 0.3 * k * (k + 1) * (k + 2) / 3)
    if mu > 0.0:
        q = 0.5 * math.sqrt(mu)
        np.testing.assert_allclose(noise, 0.3 / q * ((1 - q) ** -k.astype(float) - 1))


@every_problem
def test_runs_come_to_the_minimiser_without_a_warning(p):
    """Two gradients show that these functions are not convex: that is no news here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        r = cz.minimize(p, p.x_star + 4.0, tol=1e-7, rng=0, maxiter=20_000)
    assert r.success
    assert r.method.tau == p.tau
    np.testing.assert_allclose(r.x, p.x_star, atol=2e-3)


def test_with_tau_1_the_witness_speaks():
    p = cz.problems.Charbonnier(0.2, 0.0)
    with pytest.warns(cz.ConstantsWarning, match="not convex"):
        cz.minimize(p, [8.0], method=cz.Continuized(p.L), maxiter=50, rng=0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cz.Continuized(1.0, tau=0.0), "tau must be "),
        (lambda: cz.Continuized(1.0, tau=1.5), "tau must be "),
        (lambda: cz.Continuized(1.0, 0.1, 2.0, 0.5), "needs start = inf, got 2"),
        (lambda: cz.problems.Charbonnier(0.0), "tau must be "),
        (lambda: cz.problems.SigmoidRegression(X, STAR, tau=0.9), "tau must be .* is proved"),
        (lambda: cz.problems.SigmoidRegression(X, STAR[:2]), "column of X"),
        (lambda: cz.problems.SigmoidRegression(X, STAR, leak=0.0), "leak must be "),
        (lambda: bound(cz.Continuized(1.0), PROBLEMS["well"], [0.0], t=1.0), "not known to be con"),
        (
            lambda: bound(cz.Continuized(1.0, tau=0.9), PROBLEMS["well"], [0.0], t=1.0),
            "needs tau of the method to be at most",
        ),
        (
            lambda: cz.minimize(
                PROBLEMS["well"], [0.0], method=cz.Continuized(1.0, tau=0.4), prox=cz.prox.L1(0.1)
            ),
            "goes without prox= and mirror=",
        ),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_function_of_ones_own_says_its_tau():
    """It is then the ready-made problem: the same run, the same bound."""
    p = PROBLEMS["well, mu > 0"]
    own = cz.Problem(p.fun, p.grad, L=p.L, mu=p.mu, x_star=p.x_star, tau=p.tau)
    x0 = np.array([4.0])
    runs = [cz.minimize(q, x0, maxiter=50, rng=0) for q in (p, own)]
    assert runs[1].method == cz.Continuized(p.L, p.mu, tau=p.tau)
    np.testing.assert_allclose(runs[1].x, runs[0].x, rtol=1e-12)
    method = runs[1].method
    assert bound(method, own, x0, t=5.0) == pytest.approx(bound(method, p, x0, t=5.0))
    assert "tau" in repr(own)
    with pytest.raises(ValueError, match=r"tau must be a number in \(0, 1\], got 2"):
        cz.Problem(p.fun, p.grad, tau=2)
