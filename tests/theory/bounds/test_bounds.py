"""Bounds against formulas by hand, quadrature, and exact expectations."""

import math

import numpy as np
import pytest

import continuized as cz
from continuized.theory import (
    bound,
    event_count_quantile,
    event_time_quantile,
    events_to,
    expected_gradients,
    log_bound,
    log_weight,
    moments,
    time_to,
    weight,
)

P = cz.problems.Quadratic([0.04, 1.0, 2.0], [1.0, -2.0, 3.0])
X0 = np.array([0.5, 0.0, 1.0])
L, MU, Q = 2.0, 0.04, math.sqrt(0.02)
R2 = 0.25 + 4.0 + 4.0
F0 = 0.5 * (0.04 * 0.25 + 4.0 + 2.0 * 4.0)
ALL = [
    cz.Continuized(L),
    cz.Continuized(L, 0.0, 0.7),
    cz.Continuized(L, MU),
    cz.Continuized(L, MU, 0.0),
    cz.Continuized(L, MU, 0.7),
    cz.Continuized(L, MU, 40.0),
]


def test_theorem_1_gradient_descent():
    k = np.array([0, 3, 50])
    convex = cz.problems.Quadratic([0.04, 1.0, 2.0], [1.0, -2.0, 3.0], mu=0.0)
    gd = cz.GradientDescent(L)
    np.testing.assert_allclose(bound(gd, convex, X0, k=k), 2 * L * R2 / (k + 4))
    np.testing.assert_allclose(bound(gd, P, X0, k=k), L / 2 * (1 - MU / L) ** k * R2)


def test_theorem_2_nesterov():
    k = np.array([1, 3, 50])
    np.testing.assert_allclose(bound(cz.Nesterov(L), P, X0, k=k), 2 * L * R2 / k**2)
    expected = (F0 + MU / 2 * R2) * (1 - Q) ** k
    np.testing.assert_allclose(bound(cz.Nesterov(L, MU), P, X0, k=k), expected)
    assert bound(cz.Nesterov(L), P, X0, k=0) == math.inf


def test_theorems_3_and_6():
    t, s2 = np.array([0.5, 3.0, 50.0]), 0.3
    convex = 2 * L * R2 / t**2
    strong = (F0 + MU / 2 * R2) * np.exp(-Q * t)
    np.testing.assert_allclose(bound(ALL[0], P, X0, t=t), convex)
    np.testing.assert_allclose(bound(ALL[2], P, X0, t=t), strong)
    noisy = bound(ALL[0], P, X0, t=t, sigma2=s2)
    np.testing.assert_allclose(noisy, convex + s2 * t / (3 * L))
    noisy = bound(ALL[2], P, X0, t=t, sigma2=s2)
    np.testing.assert_allclose(noisy, strong + s2 / math.sqrt(MU * L))


def test_theorem_5_and_its_weight():
    k, s2 = np.array([0, 1, 9]), 0.3
    np.testing.assert_allclose(bound(ALL[0], P, X0, k=k), np.full(3, 2 * L * R2))
    np.testing.assert_allclose(bound(ALL[2], P, X0, k=k), np.full(3, F0 + MU / 2 * R2))
    T = np.array([0.1, 2.0, 30.0])
    np.testing.assert_allclose(weight(ALL[0], T), T**2)
    np.testing.assert_allclose(weight(ALL[1], T), (T + 0.7) ** 2)
    np.testing.assert_allclose(weight(ALL[2], T), np.exp(Q * T))
    np.testing.assert_allclose(weight(ALL[3], T), np.sinh(Q * T / 2) ** 2 * 4 / Q**2)
    assert weight(cz.Nesterov(L), T).tolist() == [1.0, 1.0, 1.0]
    noise = bound(ALL[0], P, X0, k=k, sigma2=s2) - 2 * L * R2
    np.testing.assert_allclose(noise, s2 * k * (k + 1) * (k + 2) / (3 * L), atol=1e-12)
    noise = bound(ALL[2], P, X0, k=k, sigma2=s2) - (F0 + MU / 2 * R2)
    np.testing.assert_allclose(noise, s2 / (L * Q) * ((1 - Q) ** -k.astype(float) - 1), atol=1e-12)


@pytest.mark.parametrize("method", ALL, ids=repr)
def test_the_weight_divides_the_bound_at_events_into_the_bound_at_times(method):
    t = np.array([0.3, 7.0, 90.0])
    at_events = bound(method, P, X0, k=5)
    np.testing.assert_allclose(at_events / weight(method, t), bound(method, P, X0, t=t))


@pytest.mark.parametrize("method", ALL, ids=repr)
def test_every_bound_holds_for_the_exact_expectation(method):
    for sigma2 in (0.0, 0.5):
        t = np.array([0.5, 2.0, 10.0, 60.0])
        exact = moments(P, method, X0, t, sigma2=sigma2).fun
        assert np.all(exact <= bound(method, P, X0, t=t, sigma2=sigma2))


@pytest.mark.parametrize("method", ALL, ids=repr)
def test_theorem_5_holds_for_the_exact_weighted_expectation(method):
    # E[weight(T_2) (f(x_2) - f*)] by a product rule over the two gaps
    nodes, shares = np.polynomial.laguerre.laggauss(30)
    total = 0.0
    for d1, w1 in zip(nodes.tolist(), shares, strict=True):
        for d2, w2 in zip(nodes.tolist(), shares, strict=True):
            r = method.init(X0)
            for event in (cz.clock.Event(1, d1, d1), cz.clock.Event(2, d1 + d2, d2)):
                r, _ = method.step(r, event, lambda x, mark: P.grad(x))
            total += w1 * w2 * weight(method, d1 + d2) * P.fun(r.x)
    limit = bound(method, P, X0, k=2)
    assert 0.01 * limit < total <= limit


def test_mu_equal_to_L_has_no_noisy_bound_at_events():
    p = cz.problems.Quadratic([2.0, 2.0])
    for start in (None, 0.0):
        method = cz.Continuized(2.0, 2.0, start)
        assert bound(method, p, [1.0, 1.0], k=3, sigma2=0.1) == math.inf
        assert math.isfinite(bound(method, p, [1.0, 1.0], k=3))


@pytest.mark.parametrize("method", ALL, ids=repr)
def test_logs_where_the_values_overflow(method):
    t = 1e6
    assert np.isfinite(log_bound(method, P, X0, t=t))
    assert np.isfinite(log_weight(method, t))
    assert log_bound(method, P, X0, k=10**6, sigma2=1.0) > log_bound(method, P, X0, k=1)
    difference = log_bound(method, P, X0, k=1) - log_weight(method, t)
    assert log_bound(method, P, X0, t=t) == pytest.approx(difference, rel=1e-12)


def test_small_mu_tends_to_the_convex_bound():
    t = np.array([0.1, 4.0, 100.0])
    for start in (0.0, 0.7):
        near = cz.Continuized(L, 1e-24, start)
        convex = cz.Continuized(L, 0.0, start)
        for arguments in ({"t": t}, {"k": np.array([1, 7])}):
            a = bound(near, P, X0, sigma2=0.3, **arguments)
            np.testing.assert_allclose(a, bound(convex, P, X0, sigma2=0.3, **arguments), rtol=1e-9)


def test_noise_is_not_lost_to_underflow_at_a_minute_mu():
    t = np.array([0.1, 10.0, 1e3])
    for start in (0.0, 0.7):
        near, convex = cz.Continuized(L, 1e-300, start), cz.Continuized(L, 0.0, start)
        a = bound(near, P, P.x_star, t=t, sigma2=0.3)
        np.testing.assert_allclose(a, bound(convex, P, P.x_star, t=t, sigma2=0.3), rtol=1e-12)


@pytest.mark.parametrize(
    "call",
    [
        lambda: bound(cz.Continuized(L), P, X0, t=np.arange(1000.0) - 5.0),
        lambda: bound(cz.Continuized(L), P, X0, t=[[1], [1, 2]]),
        lambda: bound(cz.Continuized(L), P, X0, k=np.arange(1000) - 5),
        lambda: bound(cz.Continuized(L), P, X0, t=1.0, sigma2=np.ones((30, 30))),
        lambda: bound(cz.Continuized(L), print, X0, t=1.0),
        lambda: bound(cz.Continuized(L), P, X0, t=1.0, sigma2=10**400),
        lambda: cz.theory.moments(P, "nesterov", X0, [1.0]),
        lambda: cz.theory.moments(P, np.ones((30, 30)), X0, [1.0]),
        lambda: bound(np.ones((30, 30)), P, X0, t=1.0),
        lambda: cz.theory.moments(P, cz.Continuized(L), X0, k=10**12),
        lambda: cz.theory.drift(cz.Continuized(L), P, 1.0, np.zeros(9), np.zeros(9)),
        lambda: cz.theory.expected_scaling_distance(P, X0, 1.0, [L / 2, L]),
        lambda: cz.theory.expected_scaling_distance(P, X0, 1.0, [L, 2 * L], points=0),
        lambda: cz.theory.expected_scaling_distance(P, X0, 10**400, [L, 2 * L]),
        lambda: cz.theory.scaling_distance(P, X0, 1.0, [L, 2 * L], runs=np.ones((30, 30))),
    ],
)
def test_errors_are_one_short_sentence_of_ours(call):
    with pytest.raises((TypeError, ValueError, MemoryError)) as caught:
        call()
    sentence = str(caught.value)
    assert len(sentence) < 200
    assert "\n" not in sentence
    assert any(word in sentence for word in ("must be", "has dimension", "GB"))


def test_a_large_start_keeps_the_digits_of_t():
    t = np.array([0.0, 1e-6, 3.0, 200.0])
    expected = bound(cz.Continuized(L, MU), P, X0, t=t)
    for start in (1e4, 1e8, 1e17):
        a = bound(cz.Continuized(L, MU, start), P, X0, t=t)
        np.testing.assert_allclose(a, expected, rtol=1e-12)


def test_at_the_minimiser_only_noise_is_left():
    x = P.x_star
    for method in ALL:
        assert bound(method, P, x, t=0.0) == 0.0
        assert bound(method, P, x, t=3.0, sigma2=0.0) == 0.0
        assert bound(method, P, x, t=3.0, sigma2=0.1) > 0.0
    assert bound(cz.Nesterov(L), P, x, k=[0, 4]).tolist() == [0.0, 0.0]
    assert bound(cz.Nesterov(L, MU), P, x, k=4) == 0.0


def test_scalars_give_scalars_and_arrays_arrays():
    assert np.shape(bound(ALL[0], P, X0, t=2.0)) == ()
    assert np.shape(bound(ALL[0], P, X0, t=[[2.0, 3.0]], sigma2=0.1)) == (1, 2)
    assert np.shape(bound(ALL[4], P, X0, k=[2], sigma2=0.1)) == (1,)


def test_bad_input_is_refused():
    unknown = cz.Problem(lambda x: float(x @ x), lambda x: 2 * x, L=2.0)
    no_minimum = cz.Problem(lambda x: float(x @ x), lambda x: 2 * x, L=2.0, f_star=0.0)
    custom = cz.CustomContinuized(*[lambda t: 1.0] * 4)
    cases = [
        ("x_star", lambda: bound(ALL[0], unknown, X0, t=1.0)),
        ("x_star", lambda: bound(cz.Nesterov(L), no_minimum, X0, k=1)),
        ("exactly one", lambda: bound(ALL[0], P, X0)),
        ("exactly one", lambda: bound(ALL[0], P, X0, t=1.0, k=1)),
        ("give k=, not t=", lambda: bound(cz.Nesterov(L), P, X0, t=1.0)),
        ("covers noise", lambda: bound(cz.GradientDescent(L), P, X0, k=1, sigma2=0.1)),
        ("sigma2", lambda: bound(ALL[0], P, X0, t=1.0, sigma2=-0.1)),
        ("sigma2", lambda: bound(ALL[0], P, X0, t=1.0, sigma2=math.nan)),
        (">= 0", lambda: bound(ALL[0], P, X0, t=-1.0)),
        (">= 0", lambda: bound(ALL[0], P, X0, t=math.nan)),
        (">= 0", lambda: bound(ALL[0], P, X0, k=-1)),
        ("dimension", lambda: bound(ALL[0], P, [1.0], t=1.0)),
        ("no theorem", lambda: bound(custom, P, X0, t=1.0)),
        ("no theorem", lambda: weight(custom, 1.0)),
        ("L of the method", lambda: bound(cz.Continuized(1.0), P, X0, t=1.0)),
        ("mu of the method", lambda: bound(cz.Continuized(2.0, 0.5), P, X0, t=1.0)),
    ]
    for words, call in cases:
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(TypeError, match="integers"):
        bound(ALL[0], P, X0, k=1.5)


def test_a_missing_minimum_is_needed_only_where_f_0_is():
    p = cz.Problem(lambda x: float(x @ x), lambda x: 2 * x, L=2.0, mu=2.0, x_star=np.zeros(3))
    p.f_star = None
    assert bound(cz.Continuized(2.0), p, X0, t=1.0) > 0.0
    with pytest.raises(ValueError, match="f_star"):
        bound(cz.Continuized(2.0, 2.0), p, X0, t=1.0)


# Corollaries


def test_quantiles_of_event_times_and_counts():
    # T_1 ~ Exp(1); T_2: P(T_2 <= x) = 1 - e^-x (1 + x); N_t = 0 with probability e^-t.
    assert event_time_quantile(1, 0.5) == pytest.approx(math.log(2.0))
    x = float(event_time_quantile(2, 0.3))
    assert 1 - math.exp(-x) * (1 + x) == pytest.approx(0.3)
    assert event_time_quantile([0, 1], 0.5).tolist() == [0.0, pytest.approx(math.log(2.0))]
    assert event_count_quantile(1.0, [0.36, 0.37, 0.99]).tolist() == [0, 1, 4]
    assert expected_gradients(7.5) == 7.5
    with pytest.raises(ValueError, match="probabilities"):
        event_time_quantile(1, 1.5)


@pytest.mark.parametrize("method", ALL, ids=repr)
def test_time_to_accuracy_inverts_the_bound(method):
    t = time_to(method, P, X0, eps=1e-3, delta=0.1)
    assert bound(method, P, X0, t=t) == pytest.approx(1e-4, rel=1e-9)
    assert time_to(method, P, P.x_star, eps=1.0) == 0.0
    k = events_to(method, P, X0, eps=1e-3, delta=0.1)
    half = time_to(method, P, X0, eps=1e-3, delta=0.05)
    assert event_time_quantile(k, 0.05) >= half > event_time_quantile(k - 1, 0.05)


def test_time_to_accuracy_by_hand_and_bad_input():
    t = time_to(ALL[0], P, X0, eps=1e-3, delta=0.1)
    assert t == pytest.approx(math.sqrt(2 * L * R2 / 1e-4), rel=1e-10)
    with pytest.raises(ValueError, match="delta"):
        time_to(ALL[0], P, X0, eps=1e-3, delta=1.0)
    with pytest.raises(ValueError, match="eps"):
        time_to(ALL[0], P, X0, eps=0.0)
    with pytest.raises(ValueError, match="time_to is known for Continuized only"):
        time_to(cz.Nesterov(L), P, X0, eps=1.0)
    with pytest.raises(ValueError, match="events_to is known for Continuized only"):
        events_to(cz.Nesterov(L), P, X0, eps=1.0)
