"""Exact expectations at the k-th event, against product rules over the gaps, runs, and by hand."""

import itertools
import math

import numpy as np
import pytest

import continuized as cz
from continuized import flow, parameters
from continuized.theory import moments
from continuized.theory.moments import events as event_moments
from tests.helpers.one_coordinate_quadratic import LAM, L, V, got, one

pytestmark = pytest.mark.blas


def laguerre(n):
    return np.polynomial.laguerre.laggauss(n)


def by_gaps(method, p, k, nodes):
    """E[u^2, uw, w^2] after event k, by a product rule over the k gaps."""
    lam = p.eigenvalues[0]
    total = np.zeros(3)
    points, weights = laguerre(nodes)
    for choice in itertools.product(range(nodes), repeat=k):
        u, w, t, share = 1.0, 1.0, 0.0, 1.0
        for c in choice:
            dt = float(points[c])
            u, w = flow.mix(u, w, *method.flow(t, t + dt, dt))
            t, share = t + dt, share * weights[c]
            gp = parameters.gamma_prime(t, *method.constants)
            u, w = u - lam * u / method.L, w - gp * lam * u
        total += share * np.array([u * u, u * w, w * w])
    return total


@pytest.mark.parametrize(
    ("mu", "start", "rtol"), [(0.2, math.inf, 1e-9), (0.2, 5.0, 1e-9), (0.0, 4.0, 1e-7)]
)
def test_event_moments_equal_a_product_rule_over_the_gaps(mu, start, rtol):
    method, p = cz.Continuized(L, mu, start), one()
    m = moments(p, method, [1.0], k=[1, 2, 3])
    for k, nodes in ((1, 60), (2, 40), (3, 24)):
        expected = by_gaps(method, p, k, nodes)
        np.testing.assert_allclose(got(m, k - 1), expected, rtol=rtol, err_msg=f"k = {k}")


def test_second_event_of_the_convex_case_by_hand():
    # x_1 = p, z_1 = 1 - c T_1 (u = w = 1 before), c = lam/(2L), p = 1 - lam/L; then
    # y = z_1 + r^2 (x_1 - z_1), r = T_1/T_2 uniform and T_2 ~ Gamma(2, 1) independent of it,
    # and x_2 = p y.  y = 1 - c s + r^2 (p - 1 + c s), s = r T_2; p - 1 = -2c.
    p, c = 1 - LAM / L, LAM / (2 * L)

    def E(i, j):  # E r^i T_2^j
        return 1 / (i + 1) * math.factorial(j + 1)

    # y = 1 - c r T - 2c r^2 + c r^3 T, squared term by term
    terms = [(1.0, 0, 0), (-c, 1, 1), (-2 * c, 2, 0), (c, 3, 1)]
    y2 = sum(a * b * E(i + k, j + l) for a, i, j in terms for b, k, l in terms)
    m = moments(one(), cz.Continuized(L), [1.0], k=2)
    assert m.xx[0, 0] == pytest.approx(p * p * y2, rel=1e-12)
    # The paper's slip (gamma' at T_k, that is z_1 = z_0) would give another number:
    slip = (
        p
        * p
        * sum(
            a * b * E(i + k, j + l)
            for a, i, j in [(1.0, 0, 0), (-2 * c, 2, 0)]
            for b, k, l in [(1.0, 0, 0), (-2 * c, 2, 0)]
        )
    )
    assert abs(slip - p * p * y2) > 0.02 * p * p * y2


def test_event_grid_equals_the_closed_form_for_constant_parameters():
    mu = 0.05
    q = math.sqrt(mu / L)
    custom = cz.CustomContinuized(
        lambda t: q, lambda t: q, lambda t: 1 / L, lambda t: 1 / math.sqrt(mu * L)
    )
    p = cz.problems.Quadratic([0.05, 0.6, 1.7], mu=0.0)
    counts = np.array([0, 1, 2, 10, 60, 150])
    for sigma2 in (0.0, 0.1):
        grid = moments(p, custom, np.ones(3), k=counts, sigma2=sigma2)
        closed = moments(p, cz.Continuized(L, mu), np.ones(3), k=counts, sigma2=sigma2)
        for name in ("xx", "xz", "zz"):
            a, b = getattr(grid, name), getattr(closed, name)
            np.testing.assert_allclose(a, b, rtol=1e-9, err_msg=name)


def test_event_grid_is_converged(monkeypatch):
    p, counts = cz.problems.Quadratic([0.01, 0.6, 1.7], mu=0.0), [1, 5, 30]
    cases = [cz.Continuized(L), cz.Continuized(L, 0.01, 0.0), cz.Continuized(L, 0.0, 1e-3)]
    coarse = [moments(p, m, np.ones(3), k=counts, sigma2=V) for m in cases]
    monkeypatch.setattr(event_moments, "LONGEST_PANEL", 0.9)
    monkeypatch.setattr(event_moments, "DEGREE", 26)
    for m, before in zip(cases, coarse, strict=True):
        after = moments(p, m, np.ones(3), k=counts, sigma2=V)
        np.testing.assert_allclose(before.xx, after.xx, rtol=1e-10)
        np.testing.assert_allclose(before.zz, after.zz, rtol=1e-10)


def test_before_the_first_event_is_the_start():
    m = moments(one(), cz.Continuized(L), [2.0], k=0)
    assert (m.xx[0, 0], m.xz[0, 0], m.zz[0, 0], m.fun[0]) == (4.0, 4.0, 4.0, 0.5 * LAM * 4.0)


@pytest.mark.parametrize("method", [cz.GradientDescent(L), cz.Nesterov(L), cz.Nesterov(L, 0.05)])
def test_discrete_methods_without_noise_equal_their_run(method):
    p = cz.problems.Quadratic([0.05, 0.6, 1.7], [1.0, -2.0, 0.5])
    r = cz.minimize(p, np.zeros(3), method=method, maxiter=40, tol=0.0, record="path")
    m = moments(p, method, np.zeros(3), k=np.arange(41))
    np.testing.assert_allclose(m.fun, r.trace.fun, rtol=1e-11, atol=1e-28)
    if not isinstance(method, cz.GradientDescent):
        z2 = ((r.path.z - p.x_star) ** 2).sum(axis=1)
        np.testing.assert_allclose(m.z2, z2, rtol=1e-11, atol=1e-28)


def test_gradient_descent_with_noise_is_a_geometric_sum():
    k = np.arange(30)
    rate = (1 - LAM / L) ** 2
    m = moments(one(), cz.GradientDescent(L), [1.0], k=k, sigma2=V)
    expected = rate**k + V / L**2 * (1 - rate**k) / (1 - rate)
    np.testing.assert_allclose(m.xx[:, 0], expected, rtol=1e-12)


def test_noise_on_a_flat_coordinate_by_hand():
    # lam = 0, started at x*: z_k is a sum of gamma'_{T_j} = T_j/(2L) times noise, and
    # E T_j^2 = j(j+1); at a time t, E z^2 = V int_0^t (s/2L)^2 ds.
    p, k, t = cz.problems.Quadratic([0.0]), np.arange(8), np.array([0.5, 20.0])
    at_events = moments(p, cz.Continuized(L), [0.0], k=k, sigma2=V)
    expected = V / (4 * L**2) * k * (k + 1) * (k + 2) / 3
    np.testing.assert_allclose(at_events.zz[:, 0], expected, rtol=1e-11)
    at_times = moments(p, cz.Continuized(L), [0.0], t, sigma2=V)
    np.testing.assert_allclose(at_times.zz[:, 0], V * t**3 / (12 * L**2), rtol=1e-10)


def test_discrete_methods_of_ones_own_have_moments_at_events() -> None:
    class Own(cz.Method):
        name = "own"
        L, mu = 4.0, 0.0

        def coefficients(self, *event: float) -> tuple[float, float, float, float, float]:
            return 0.0, 0.0, 0.5 / self.L, 0.5 / self.L, 0.0

    p = cz.problems.Quadratic([1.0, 4.0])
    m = cz.theory.moments(p, Own(), [1.0, 1.0], k=[0, 3])
    after = np.array([(1.0 - 0.5 / 4.0) ** 3, (1.0 - 0.5) ** 3])
    np.testing.assert_allclose(m.fun, [2.5, 0.5 * np.array([1.0, 4.0]) @ after**2], rtol=1e-13)
