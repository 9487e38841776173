"""Exact expectations at times: power series, matrix exponentials, sums over all events."""

import itertools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import continuized as cz
from continuized import flow, parameters
from continuized.support.progress import silent
from continuized.theory import moments
from continuized.theory.moments import integrate
from tests.helpers.interrupts import assert_interrupted
from tests.helpers.one_coordinate_quadratic import LAM, L, V, got, one


def convex_series(t, lam, variance, terms=220):
    """mu = 0, start = 0: the moments' power series in t, from u = w = 1 at 0.

    t m' = R m + t (J0 + J1 t + J2 t^2 - 1) m + t noise, with R the flow's residue.
    """
    with mp.workdps(60):
        t, lam, variance, p = mp.mpf(t), mp.mpf(lam), mp.mpf(variance), 1 - mp.mpf(lam) / L
        c, h = lam / (2 * L), 1 / (2 * mp.mpf(L))
        R = mp.matrix([[-4, 4, 0], [0, -2, 2], [0, 0, 0]])
        J = [
            mp.matrix([[p * p - 1, 0, 0], [0, p - 1, 0], [0, 0, 0]]),
            mp.matrix([[0, 0, 0], [-p * c, 0, 0], [0, -2 * c, 0]]),
            mp.matrix([[0, 0, 0], [0, 0, 0], [c * c, 0, 0]]),
        ]
        noise = [mp.matrix([4 * h * h, 0, 0]), mp.matrix([0, 2 * h * h, 0])]
        noise.append(mp.matrix([0, 0, h * h]))
        m = [mp.matrix([1, 1, 1])]
        for n in range(1, terms):
            right = mp.matrix(3, 1)
            for j in range(min(3, n)):
                right += J[j] * m[n - 1 - j]
            if n <= 3:
                right += variance * noise[n - 1]
            m.append(mp.lu_solve(n * mp.eye(3) - R, right))
        total = sum((m[n] * t**n for n in range(terms)), mp.zeros(3, 1))
        return np.array([float(v) for v in total])


@pytest.mark.parametrize(("lam", "variance"), [(1e-3, V), (0.6, 0.0), (0.6, V), (1.7, V)])
def test_convex_moments_equal_their_power_series(lam, variance):
    times = [1e-8, 1e-3, 0.5, 4.0, 30.0]
    m = moments(one(lam), cz.Continuized(L), [1.0], times, sigma2=variance)
    for i, t in enumerate(times):
        np.testing.assert_allclose(got(m, i), convex_series(t, lam, variance), rtol=1e-10)


@pytest.mark.parametrize("variance", [0.0, V])
def test_constant_parameters_equal_a_matrix_exponential(variance):
    mu = 0.01
    method, times = cz.Continuized(L, mu), [0.3, 8.0, 100.0]
    m = moments(one(), method, [1.0], times, sigma2=variance)
    q, g, gp = math.sqrt(mu / L), 1 / L, 1 / math.sqrt(mu * L)
    p, c = 1 - g * LAM, gp * LAM
    M = mp.matrix(
        [
            [-2 * q + p * p - 1, 2 * q, 0, g * g * variance],
            [q - p * c, -2 * q + p - 1, q, g * gp * variance],
            [c * c, 2 * q - 2 * c, -2 * q, gp * gp * variance],
            [0, 0, 0, 0],
        ]
    )
    for i, t in enumerate(times):
        with mp.workdps(40):
            expected = mp.expm(M * t) * mp.matrix([1, 1, 1, 1])
        np.testing.assert_allclose(got(m, i), [float(v) for v in expected[:3]], rtol=1e-10)


def by_events(method, p, t, most, nodes=7):
    """E[u^2, uw, w^2; N_t <= most] from u = w = 1: over all ordered event times in [0, t].

    Given n events, T_n / t, T_{n-1} / T_n, ... are independent, T_i / T_{i+1} with density
    i r^{i-1}.
    """
    lam = p.eigenvalues[0]
    points, weights = np.polynomial.legendre.leggauss(nodes)
    points, weights = 0.5 * (1 + points), 0.5 * weights
    total = np.zeros(3)
    for n in range(most + 1):
        for choice in itertools.product(range(nodes), repeat=n):
            share, times, end = 1.0, [], t
            for i, c in zip(range(n, 0, -1), choice, strict=True):
                share *= i * points[c] ** (i - 1) * weights[c]
                end *= points[c]
                times.append(end)
            u, w, last = 1.0, 1.0, 0.0
            for T in reversed(times):
                u, w = flow.mix(u, w, *method.flow(last, T, T - last))
                u, w = (
                    u - lam * u / method.L,
                    w - parameters.gamma_prime(T, *method.constants) * lam * u,
                )
                last = T
            u, w = flow.mix(u, w, *method.flow(last, t, t - last))
            poisson = math.exp(-t) * t**n / math.factorial(n)
            total += share * poisson * np.array([u * u, u * w, w * w])
    return total


@pytest.mark.parametrize(("mu", "start"), [(0.2, 0.0), (0.2, 0.3), (0.2, 5.0), (0.0, 0.3)])
def test_every_start_equals_the_sum_over_event_configurations(mu, start):
    method, p, t, most = cz.Continuized(L, mu, start), one(), 0.25, 4
    m = got(moments(p, method, [1.0], [t]))
    left_out = t ** (most + 1) / math.factorial(most + 1)  # P(more events), moments <= 1
    assert np.all(np.abs(m - by_events(method, p, t, most)) <= left_out)
    assert left_out < 1e-5


@pytest.mark.parametrize("start", [0.0, 0.3])
def test_strongly_convex_moments_equal_a_taylor_integration(start):
    mu, t0, t1 = 0.2, 1.0, 6.0
    method = cz.Continuized(L, mu, start)
    m = moments(one(), method, [1.0], [t0, t1])

    def right_hand_side(t, y):
        w = mp.sqrt(mp.mpf(mu) / L) / 2
        e, f = 2 * w * mp.coth(w * (t + start)), 2 * w * mp.tanh(w * (t + start))
        gp = mp.tanh(w * (t + start)) / mp.sqrt(mp.mpf(mu) * L)
        uu, uw, ww = y
        p, c = 1 - mp.mpf(LAM) / L, gp * LAM
        return [
            2 * e * (uw - uu) + (p * p - 1) * uu,
            e * (ww - uw) + f * (uu - uw) + p * (uw - c * uu) - uw,
            2 * f * (uw - ww) + c * (c * uu - 2 * uw),
        ]

    with mp.workdps(20):
        solution = mp.odefun(
            right_hand_side, t0, [mp.mpf(v) for v in got(m, 0)], tol=mp.mpf("1e-16")
        )
        expected = [float(v) for v in solution(t1)]
    np.testing.assert_allclose(got(m, 1), expected, rtol=1e-10)


def test_small_mu_tends_to_the_convex_case():
    times = [0.5, 20.0]
    near = moments(one(), cz.Continuized(L, 1e-13, 0.0), [1.0], times)
    exact = moments(one(), cz.Continuized(L), [1.0], times)
    np.testing.assert_allclose(near.fun, exact.fun, rtol=1e-9)


def test_a_custom_method_with_the_papers_parameters_has_the_same_moments():
    custom = cz.CustomContinuized(
        lambda t: 2 / t if t else math.inf, lambda t: 0.0, lambda t: 1 / L, lambda t: t / (2 * L)
    )
    for arguments in ({"times": [0.5, 9.0]}, {"k": [0, 1, 7]}):
        a = moments(one(), custom, [1.0], sigma2=V, **arguments)
        b = moments(one(), cz.Continuized(L), [1.0], sigma2=V, **arguments)
        np.testing.assert_allclose(a.fun, b.fun, rtol=1e-10)


def test_noise_is_shared_among_coordinates_and_coordinates_live_alone():
    lam = [0.1, 0.6, 1.7]
    together = moments(
        cz.problems.Quadratic(lam, mu=0.0), cz.Continuized(L), [1.0, 2.0, 3.0], [7.0], sigma2=3 * V
    )
    alone = [
        moments(one(l), cz.Continuized(L), [x], [7.0], sigma2=V)
        for l, x in zip(lam, [1.0, 2.0, 3.0], strict=True)
    ]
    assert together.fun[0] == pytest.approx(sum(m.fun[0] for m in alone), rel=1e-10)
    assert together.z2[0] == pytest.approx(sum(m.z2[0] for m in alone), rel=1e-10)


def test_relative_accuracy_survives_deep_decay():
    # At lam = L the moments fall by e^-40 and more; a matrix exponential knows how far.
    mu, t = 0.3, 80.0
    m = moments(one(L), cz.Continuized(L, mu), [1.0], [t])
    q, c = math.sqrt(mu / L), L / math.sqrt(mu * L)
    M = mp.matrix([[-2 * q - 1, 2 * q, 0], [q, -2 * q - 1, q], [c * c, 2 * q - 2 * c, -2 * q]])
    with mp.workdps(40):
        expected = [float(v) for v in mp.expm(M * t) * mp.matrix([1, 1, 1])]
    assert expected[0] < 1e-10
    np.testing.assert_allclose(got(m), expected, rtol=1e-10)


def test_thousands_of_coordinates_are_integrated_together():
    def evaluations(n):
        calls = []

        def gamma(t):
            calls.append(t)
            return 1.0

        method = cz.CustomContinuized(
            lambda t: 2.0 / (t + 1.0), lambda t: 0.0, gamma, lambda t: 0.5
        )
        p = cz.problems.Quadratic(np.linspace(1e-4, 1.0, n), mu=0.0)
        assert moments(p, method, np.ones(n), [1.0, 10.0, 50.0]).xx.shape == (3, n)
        return len(calls)

    assert evaluations(3000) < 2 * evaluations(30)


def test_bad_input_is_refused():
    p, method = one(), cz.Continuized(L)
    other = cz.Problem(lambda x: 0.0, lambda x: x, L=1.0)
    cases = [
        (TypeError, "Quadratic only", lambda: moments(other, method, [1.0], [1.0])),
        (ValueError, "exactly one", lambda: moments(p, method, [1.0])),
        (ValueError, "exactly one", lambda: moments(p, method, [1.0], [1.0], k=1)),
        (ValueError, "increasing", lambda: moments(p, method, [1.0], [2.0, 1.0])),
        (ValueError, ">= 0", lambda: moments(p, method, [1.0], [-1.0])),
        (ValueError, "sigma2", lambda: moments(p, method, [1.0], [1.0], sigma2=-1.0)),
        (ValueError, "k must be >= 0", lambda: moments(p, method, [1.0], k=-1)),
        (TypeError, "integers", lambda: moments(p, method, [1.0], k=1.5)),
        (ValueError, "dimension", lambda: moments(p, method, [1.0, 2.0], [1.0])),
        (ValueError, "finite", lambda: moments(p, method, [math.nan], [1.0])),
        (ValueError, "give k=", lambda: moments(p, cz.Nesterov(L), [1.0], [1.0])),
    ]
    for kind, words, call in cases:
        with pytest.raises(kind, match=words):
            call()


def test_no_times_and_no_coordinates_are_fine():
    assert moments(one(), cz.Continuized(L), [1.0], []).fun.shape == (0,)
    empty = cz.problems.Quadratic(np.zeros(0))
    assert moments(empty, cz.Continuized(L), np.zeros(0), [0.0, 2.0]).fun.tolist() == [0.0, 0.0]
    assert moments(empty, cz.Continuized(L), np.zeros(0), k=[0, 2]).fun.tolist() == [0.0, 0.0]


def test_moments_that_would_not_end_are_refused_and_those_that_die_out_are_zero():
    p, x0 = cz.problems.paper_strongly_convex(), np.zeros(3)
    method = cz.Continuized(p.L, p.mu)
    sentence = r"^times up to 1e\+09 would take .* evaluations .* hours; ask for times up to"
    with pytest.raises(ValueError, match=sentence):
        moments(p, method, x0, 1e9, sigma2=0.1)
    settled = moments(p, method, x0, [1e3, 1e4], sigma2=0.1).fun
    assert settled[1] == pytest.approx(settled[0], rel=1e-9)
    assert moments(p, method, x0, 1e9).fun == 0.0  # below the smallest number from t = 7,000 on


def test_ctrl_c_ends_an_integration():
    p = cz.problems.paper_convex()
    moments(p, cz.Continuized(p.L), np.zeros(100), 1.0)  # compiles
    assert_interrupted(lambda: moments(p, cz.Continuized(p.L), np.zeros(100), 1e6))


def test_long_integrations_show_how_far_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    p = cz.problems.Quadratic([1.0, 1e-4], [1.0, 1.0])
    method = cz.Continuized(p.L, p.mu)
    quiet = cz.theory.moments(p, method, [0.0, 0.0], 1e3)
    assert capsys.readouterr().err == ""
    shown = cz.theory.moments(p, method, [0.0, 0.0], 1e3, progress=True)
    line = capsys.readouterr().err
    assert line.startswith("moments ")
    assert "/100" in line
    assert "of 1000" in line
    assert shown.fun == quiet.fun
    unknown = cz.Problem(p.fun, p.grad, L=p.L, mu=p.mu)
    cz.theory.scaling_limit(unknown, [0.0, 0.0], [1e3], progress=True)
    assert capsys.readouterr().err.startswith("scaling limit ")


def test_moments_that_would_not_end_are_refused_at_the_first_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budgets: list[integrate.EvaluationBudget] = []

    class Kept(integrate.EvaluationBudget):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            budgets.append(self)

    monkeypatch.setattr(integrate, "EvaluationBudget", Kept)
    p = cz.problems.paper_convex()
    # They fall as a power of t: quickly at first, but never to nothing.
    with pytest.raises(ValueError, match=r"^times up to 1e\+09 would take .* hours"):
        moments(p, cz.Continuized(p.L), np.zeros(100), 1e9)
    assert budgets[0].look_at == integrate.FIRST_LOOK
    with pytest.raises(
        ValueError, match=r"^the moments at event 1000000 would take hours.* k up to"
    ):
        moments(p, cz.Continuized(p.L), np.zeros(100), k=10**6)


@pytest.mark.parametrize(("decay", "numbers", "ends"), [(1e-3, 6, True), (0.0, 6, False),
                                                        (1e-3, 10**6, False)])  # fmt: skip
def test_an_integration_is_refused_by_what_is_followed(
    decay: float, numbers: int, ends: bool
) -> None:
    # It does not fall yet; by the theorem it will, and be nothing from 645 / decay on.
    budget = integrate.EvaluationBudget(1e12, silent, numbers, 0.0, decay)

    def follow() -> None:
        for i in range(2 * integrate.FIRST_LOOK):
            budget.add(0.1 * i)

    if ends:
        follow()
    else:
        with pytest.raises(ValueError, match="hours"):
            follow()
