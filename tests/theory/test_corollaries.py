"""The noise-adapted L minimises the bound and reaches what it promises; counts have limits."""

import math

import numpy as np
import pytest

import continuized as cz
from continuized.theory import (
    bound,
    event_count_quantile,
    event_time_quantile,
    events_to,
    moments,
    noise_tuned_L,
    time_to,
)

CONVEX = cz.problems.Quadratic([0.01, 0.3, 1.0], [1.0, -2.0, 3.0], mu=0.0)
STRONG = cz.problems.Quadratic([0.01, 0.3, 1.0], [1.0, -2.0, 3.0])
X0 = np.zeros(3)
R = math.sqrt(14.0)


@pytest.mark.parametrize("p", [CONVEX, STRONG], ids=["convex", "strongly convex"])
@pytest.mark.parametrize("horizon", [30.0, 300.0, 3000.0])
@pytest.mark.parametrize("sigma2", [1e-3, 0.1])
def test_no_other_L_has_a_smaller_bound(p, horizon, sigma2):
    L = noise_tuned_L(p, X0, sigma2, horizon)
    best = bound(cz.Continuized(L, p.mu), p, X0, t=horizon, sigma2=sigma2)
    for other in np.concatenate([np.geomspace(p.L, 1e7, 400), L * np.array([0.999, 1.001])]):
        if other >= p.L:
            value = bound(cz.Continuized(other, p.mu), p, X0, t=horizon, sigma2=sigma2)
            assert best <= value * (1 + 1e-12), other


def test_convex_closed_form():
    t, sigma2 = 300.0, 0.1
    tuned = noise_tuned_L(CONVEX, X0, sigma2, t)
    assert tuned == pytest.approx(math.sqrt(sigma2) * math.sqrt(t**3 / 6) / R, rel=1e-14)
    value = bound(cz.Continuized(tuned), CONVEX, X0, t=t, sigma2=sigma2)
    assert value == pytest.approx(2 * math.sqrt(sigma2) * R * math.sqrt(2 / (3 * t)), rel=1e-12)


def test_tuning_pays_in_the_exact_expectation():
    t, sigma2 = 500.0, 1.0
    for p in (CONVEX, STRONG):
        tuned = cz.Continuized(noise_tuned_L(p, X0, sigma2, t), p.mu)
        plain = cz.Continuized(p.L, p.mu)
        assert tuned.L > p.L
        a, b = (moments(p, m, X0, [t], sigma2=sigma2).fun[0] for m in (tuned, plain))
        assert a < 0.6 * b
        assert a <= bound(tuned, p, X0, t=t, sigma2=sigma2)


def test_without_noise_and_with_little_noise_L_is_the_functions():
    assert noise_tuned_L(CONVEX, X0, 0.0, 10.0) == CONVEX.L
    assert noise_tuned_L(CONVEX, X0, 1e-9, 10.0) == CONVEX.L
    assert noise_tuned_L(STRONG, X0, 1e-9, 10.0) == STRONG.L
    assert noise_tuned_L(CONVEX, CONVEX.x_star, 0.0, 10.0) == CONVEX.L


def test_bad_input_is_refused():
    unknown = cz.Problem(lambda x: 0.0, lambda x: x, L=1.0)
    cases = [
        ("x_star", lambda: noise_tuned_L(unknown, X0, 0.1, 1.0)),
        ("give L=", lambda: noise_tuned_L(cz.Problem(lambda x: 0.0, lambda x: x), X0, 0.1, 1.0)),
        ("sigma2", lambda: noise_tuned_L(CONVEX, X0, -0.1, 1.0)),
        ("horizon", lambda: noise_tuned_L(CONVEX, X0, 0.1, 0.0)),
        ("only adds noise", lambda: noise_tuned_L(CONVEX, CONVEX.x_star, 0.1, 1.0)),
        ("outweighs", lambda: noise_tuned_L(STRONG, X0, 1e6, 1.0)),
    ]
    for words, call in cases:
        with pytest.raises(ValueError, match=words):
            call()


def test_counts_that_leave_the_integers_are_floats():
    """Where SciPy gives NaN, and where 64 bits end; the expansion is right where both are known."""
    assert event_count_quantile(1e19, 0.5) == 1e19
    assert event_count_quantile(1e300, 0.5) == 1e300
    assert event_count_quantile([1e12, 1e15], 0.5).dtype == np.int64
    near = event_count_quantile([1e10 * (1 - 1e-15), 1e10 * (1 + 1e-15)], 0.025)
    assert abs(int(near[1]) - int(near[0])) <= 1
    assert event_count_quantile(100.0, 0.5).dtype == np.int64


@pytest.mark.parametrize("k", [2**63, 10**19, [1, 2**63], [10**400]])
def test_counts_that_leave_the_integers_are_refused(k):
    assert event_time_quantile(2**63 - 1, 0.5) == 2.0**63
    with pytest.raises(ValueError, match="the largest is"):
        event_time_quantile(k, 0.5)


def test_too_many_gradients_are_refused_in_terms_of_eps():
    p = cz.problems.paper_convex()
    with pytest.raises(
        ValueError, match=r"^eps = 1e-300 takes about 1.1e\+151 gradients.*larger eps"
    ):
        events_to(cz.Continuized(p.L), p, np.zeros(100), eps=1e-300)


@pytest.mark.parametrize("wrong", [None, "a", 3, object()])
def test_wrong_types_are_refused_in_a_sentence(wrong):
    p, x0 = cz.problems.paper_strongly_convex(), np.zeros(3)
    method = cz.Continuized(p.L, p.mu)
    calls = [
        lambda: cz.theory.weight(wrong, 1.0),
        lambda: time_to(wrong, p, x0, 1e-3),
        lambda: time_to(method, wrong, x0, 1e-3),
        lambda: events_to(wrong, p, x0, 1e-3),
        lambda: events_to(method, wrong, x0, 1e-3),
        lambda: noise_tuned_L(wrong, x0, 0.1, 10.0),
        lambda: cz.theory.drift(wrong, p, 1.0, x0, x0),
        lambda: cz.theory.drift(method, wrong, 1.0, x0, x0),
        lambda: cz.theory.supermartingale_gap(method, wrong, 1.0, x0, x0),
        lambda: cz.theory.lyapunov(wrong, p),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"^(method|problem|r) must be a ") as refused:
            call()
        assert "\n" not in str(refused.value)
