"""The noise-adapted L minimises the bound, and reaches the error it promises."""

import math

import numpy as np
import pytest

import continuized as cz
from continuized.theory import bound, moments, noise_tuned_L

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
