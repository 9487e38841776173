"""Scaling limits against Bessel functions, and the process against its limit."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import jv

import continuized as cz
from continuized.theory import expected_scaling_distance, scaling_distance, scaling_limit

KINDS = pytest.mark.parametrize("hide", [False, True], ids=["known", "integrated"])


def hide_kind(p: cz.problems.Quadratic) -> cz.Problem:
    """The same function, of which no solution is known: its equation is integrated."""
    return cz.Problem(p.fun, p.grad, L=p.L, mu=p.mu)


@KINDS
def test_convex_limit_on_a_quadratic_is_a_bessel_function(hide):
    # x'' + 3/s x' + lam x = 0, x(0) = 1, x'(0) = 0:  x = 2 J_1(sqrt(lam) s) / (sqrt(lam) s)
    lam = np.array([0.01, 1.0, 7.0])
    p = cz.problems.Quadratic(lam, [1.0, -1.0, 2.0], mu=0.0)
    x0 = np.array([3.0, 1.0, 0.0])
    s = np.array([0.0, 1e-9, 1e-5, 1e-3, 0.4, 3.0, 25.0])
    v = np.sqrt(lam) * np.maximum(s, 1e-12)[:, None]
    expected = p.x_star + (x0 - p.x_star) * 2 * jv(1, v) / v
    found = scaling_limit(hide_kind(p) if hide else p, x0, s)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_near_the_start_the_limit_is_its_series():
    """Where it is not integrated yet: x = x_0 - s^2/8 grad f(x_0)."""
    p, x0, s = cz.problems.Quadratic([1.0, 7.0], [1e3, -1e3], mu=0.0), np.ones(2), 2e-5
    moved = x0 - scaling_limit(hide_kind(p), x0, [s])[0]
    np.testing.assert_allclose(moved, s * s / 8.0 * p.grad(x0), rtol=1e-6)


@KINDS
def test_strongly_convex_limit_on_a_quadratic_is_a_damped_oscillation(hide):
    # x'' + 2 sqrt(mu) x' + lam x = 0, x' (0) = 0
    lam, mu = np.array([0.3, 1.0, 7.0]), 0.3
    p = cz.problems.Quadratic(lam, mu=mu)
    s = np.array([0.0, 1e-3, 0.4, 3.0, 25.0])[:, None]
    a, w = math.sqrt(mu), np.sqrt(lam[1:] - mu)
    oscillating = np.exp(-a * s) * (np.cos(w * s) + a / w * np.sin(w * s))
    critical = np.exp(-a * s) * (1 + a * s)
    x = scaling_limit(hide_kind(p) if hide else p, np.ones(3), s.ravel())
    np.testing.assert_allclose(x, np.concatenate([critical, oscillating], axis=1), atol=1e-9)


def test_limit_of_a_function_that_is_not_quadratic_satisfies_its_equation():
    p = cz.Problem(
        lambda x: float(np.sum(np.logaddexp(x, -x))), np.tanh, L=1.0, x_star=np.zeros((2, 1))
    )
    h, x0 = 1e-3, np.array([[2.0], [-0.5]])
    for s in (0.5, 4.0):
        before, now, after = scaling_limit(p, x0, [s - h, s, s + h])
        residual = (after - 2 * now + before) / h**2 + 3 / s * (after - before) / (2 * h)
        np.testing.assert_allclose(residual + np.tanh(now), 0.0, atol=1e-5)
    assert scaling_limit(p, x0, [0.0, 1.0]).shape == (2, 2, 1)


@pytest.mark.parametrize(
    "p",
    [
        cz.problems.Quadratic([0.2, 1.0], mu=0.0),
        cz.problems.Quadratic([0.2, 1.0]),
    ],
    ids=["convex", "strongly convex"],
)
def test_the_process_approaches_its_limit_at_the_clocks_rate(p):
    # Exactly, with no sampling: the rate is that of the clock's fluctuation, L^(-1/4).
    L = np.geomspace(1e3, 1e6, 3)
    exact = expected_scaling_distance(p, np.ones(2), 3.0, L)
    assert exact.rate == pytest.approx(-0.25, abs=0.01)
    # With the other case's ODE the distance does not vanish: a planted mistake.
    other = cz.problems.Quadratic([0.2, 1.0], mu=0.2 if p.mu == 0.0 else 0.0)
    assert (
        np.abs(scaling_limit(p, np.ones(2), [2.0]) - scaling_limit(other, np.ones(2), [2.0])).max()
        > 0.05
    )


def test_sampled_distance_agrees_with_the_exact_one():
    # Budget: 5.5 standard errors each way at three values of L, alpha about 1e-7 (the squares
    # are skewed, but 300 runs of a smooth functional of the clock are near normal).
    p, x0 = cz.problems.Quadratic([0.2, 1.0]), np.ones(2)
    L = [10.0, 100.0, 1000.0]
    sampled = scaling_distance(p, x0, 3.0, L, runs=300, rng=3)
    exact = expected_scaling_distance(p, x0, 3.0, L)
    assert np.all(np.abs(sampled.distance - exact.distance) <= 5.5 * sampled.error)
    assert np.all(sampled.error < 0.1 * sampled.distance)
    assert -0.45 < sampled.rate < -0.15
    again = scaling_distance(p, x0, 3.0, L[:2], runs=5, rng=3)
    assert again.distance.tolist() == scaling_distance(p, x0, 3.0, L[:2], 5, 3).distance.tolist()


def test_the_error_is_that_of_the_root_of_a_mean(monkeypatch):
    """Squares 1 and 3 at the worst time: the mean is 2 +- 1, and its root errs by 1/(2 sqrt 2)."""
    squares = iter([np.array([0.5, 1.0]), np.array([0.5, 3.0])] * 2)
    monkeypatch.setattr("continuized.theory.scaling._squares", lambda *given: next(squares))
    p = cz.problems.Quadratic([1.0], [0.0], mu=0.0)
    found = scaling_distance(p, [1.0], 3.0, [10.0, 100.0], runs=2, points=2)
    np.testing.assert_allclose(found.distance, math.sqrt(2.0), rtol=1e-12)
    np.testing.assert_allclose(found.error, 0.5 / math.sqrt(2.0), rtol=1e-12)


def test_bad_input_is_refused():
    p = cz.problems.Quadratic([0.2, 1.0])
    unknown = cz.Problem(lambda x: 0.0, lambda x: x)
    cases = [
        ("increasing", lambda: scaling_limit(p, [1.0, 1.0], [2.0, 1.0])),
        (">= 0", lambda: scaling_limit(p, [1.0, 1.0], [-1.0])),
        ("give L=", lambda: scaling_limit(unknown, [1.0], [1.0])),
        ("horizon", lambda: scaling_distance(p, [1.0, 1.0], 0.0, [1.0, 2.0])),
        ("two different", lambda: scaling_distance(p, [1.0, 1.0], 1.0, [4.0])),
        ("at least the function's L", lambda: scaling_distance(p, [1.0, 1.0], 1.0, [0.5, 2.0])),
        ("runs", lambda: scaling_distance(p, [1.0, 1.0], 1.0, [1.0, 2.0], runs=0)),
    ]
    for words, call in cases:
        with pytest.raises(ValueError, match=words):
            call()


def test_equal_times_give_equal_rows():
    p = cz.problems.paper_strongly_convex()
    x = scaling_limit(p, np.zeros(3), [1.0, 1.0, 2.0, 2.0])
    alone = scaling_limit(p, np.zeros(3), [1.0, 2.0])
    assert np.array_equal(x, alone[[0, 0, 1, 1]])


def test_an_integration_that_would_not_end_is_refused_with_how_long_it_would_take():
    p = hide_kind(cz.problems.paper_convex())
    with pytest.raises(ValueError, match=r"^times up to 1e\+07 would take .* hours; ask for times"):
        scaling_limit(p, np.zeros(100), [1e7])


def test_late_times_of_a_quadratic_are_known_at_once():
    # 2 J_1(v) / v at v = 1e7 and 1e12, by mpmath with 40 digits: of an angle of v, a float knows
    # v times its rounding; and what overflows or underflows on the way gives no warning.
    p = cz.problems.Quadratic([1.0, 0.0, 1e300], mu=0.0)
    x = scaling_limit(p, np.ones(3), [1e7, 1e12, 1e300])
    with mpmath.workdps(40):
        for row, s in zip(x, (1e7, 1e12), strict=False):
            expected = float(2 * mpmath.besselj(1, mpmath.mpf(s)) / mpmath.mpf(s))
            assert abs(row[0] - expected) <= 4.0 * 2.0**-53 * s * s**-1.5
    assert np.all(np.isfinite(x))
    assert x[:, 1].tolist() == [1.0, 1.0, 1.0]
    assert np.all(scaling_limit(cz.problems.Quadratic([0.5, 1e300]), np.ones(2), [1e300]) == 0.0)


def test_what_no_run_could_hold_is_refused_and_no_distance_has_no_rate():
    p = cz.problems.Quadratic([1.0], mu=0.0)
    with pytest.raises(MemoryError, match=r"^the path of a run would .* a smaller L or"):
        scaling_distance(p, [1.0], 3.0, [1e29, 1e30], runs=2)
    for find in (expected_scaling_distance, scaling_distance):
        found = find(p, [0.0], 3.0, [10.0, 20.0])  # at the minimum nothing moves
        assert found.distance.tolist() == [0.0, 0.0]
        assert math.isnan(found.rate)
        with pytest.raises(TypeError, match=r"a Problem, got 3|a Quadratic only, got int"):
            find(3, [0.0], 3.0, [10.0, 20.0])
