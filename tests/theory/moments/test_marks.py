"""Moments of marked methods, against matrix exponentials, other solvers and sums over events."""

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import continuized as cz
from continuized import flow, parameters
from continuized.theory import moments
from tests.helpers.marked_matrices import (
    CASES,
    CLEAN,
    PLAIN,
    QUADRATIC,
    X0,
    assert_equals_exponential,
    assert_moments,
    generator,
    jump_matrices,
    start_moments,
)


@pytest.mark.blas
@pytest.mark.parametrize("options", [{}, PLAIN], ids=["accelerated", "plain"])
@pytest.mark.parametrize("name", CASES)
def test_constant_parameters_equal_a_matrix_exponential(name, options):
    p, make = CASES[name]
    assert_equals_exponential(p, make(**options))


@pytest.mark.parametrize(
    "name",
    ["quadratic", "rows"]
    + [pytest.param(name, marks=pytest.mark.slow) for name in ("given p", "ridge", "kaczmarz")],
)
def test_a_finite_start_equals_another_solver_on_the_full_matrix(name):
    p, make = CASES[name]
    method, t = make(start=0.3), 6.0
    stepper = method.prepare(p, X0)
    solution = solve_ivp(
        lambda s, M: generator(p, stepper, s) @ M,
        (0.0, t),
        start_moments(p),
        method="RK45",
        rtol=1e-10,
        atol=1e-13,
    )
    assert_moments(moments(p, method, X0, [t]), 0, solution.y[:, -1], p, rtol=1e-7)


def brute_force(p, stepper, t, most=3, points=8):
    """E over at most three events: all their marks, and Gauss-Legendre over their times.

    Of more events, only the probability is counted, as if they did nothing.
    """
    d, c = p.dim, stepper.process.constants
    nodes, node_weights = np.polynomial.legendre.leggauss(points)

    def mixing(t0, t1):
        a, b = flow.weights(t0, t1, t1 - t0, *c)
        return np.kron([[1 - a, a], [b, 1 - b]], np.eye(d))

    def mean_step(M, t0, t1):  # mixed up to an event at t1, then over the marks
        M = mixing(t0, t1) @ M @ mixing(t0, t1).T
        Js = jump_matrices(p, stepper, parameters.gamma_prime(t1, *c))
        return sum(q * J @ M @ J.T for q, J in zip(stepper.p, Js, strict=True))

    def rest(M, t0, left):  # exp(-t) times the integral over the remaining events
        K = mixing(t0, t) if t > t0 else np.eye(2 * d)
        total = K @ M @ K.T
        if left:
            half = 0.5 * (t - t0)
            for x, v in zip(nodes, node_weights, strict=True):
                t1 = t0 + half * (1 + x)
                total = total + half * v * rest(mean_step(M, t0, t1), t1, left - 1)
        return total

    M = start_moments(p).reshape(2 * d, 2 * d)
    more = 1.0 - math.exp(-t) * sum(t**k / math.factorial(k) for k in range(most + 1))
    return math.exp(-t) * rest(M, 0.0, most) + more * M


@pytest.mark.parametrize("options", [{"start": 0.0}, {"start": 0.0, "mu": 0.0}])
@pytest.mark.parametrize("name", ["quadratic", "rows"])
def test_start_0_equals_the_sum_over_few_events(name, options):
    p, make = CASES[name]
    options = dict(options)
    if name == "quadratic":
        p = cz.problems.Quadratic(p.eigenvalues, p.x_star, mu=options.pop("mu", None))
    t, method = 0.05, make(**options)
    exact = brute_force(p, method.prepare(p, X0), t)
    # What is left out has probability t^4/4! = 3e-7, against 0.05 for an event.
    m, d = moments(p, method, X0, [t]), p.dim
    start = (X0 - p.x_star) ** 2
    for found, block in ((m.xx, exact[:d, :d]), (m.xz, exact[:d, d:]), (m.zz, exact[d:, d:])):
        change = np.diag(block) - start
        np.testing.assert_allclose(found[0] - start, change, atol=1e-4 * np.abs(change).max())


@pytest.mark.blas
@pytest.mark.parametrize("name", ["quadratic", "rows"])
def test_the_first_moments_after_a_singular_start(name):
    """t = 2e-7: the change, of order t, is the integrator's series; zz changes by t^2 only.

    At t = 0, to which the series does not apply, there is none.
    """
    p, make = CASES[name]
    t, method, start = 2e-7, make(start=0.0), (X0 - p.x_star) ** 2
    exact = brute_force(p, method.prepare(p, X0), t, most=1)
    change = np.diag(exact[: p.dim, : p.dim]) - start
    at_0, at_t = moments(p, method, X0, [0.0, t]).xx
    # Rows are solved in a basis of their own: four products, into it and back.
    rounding = 4.0 * p.dim * np.finfo(float).eps * start.sum()
    np.testing.assert_allclose(at_0, start, rtol=0.0, atol=rounding)
    np.testing.assert_allclose(at_t - start, change, atol=1e-3 * np.abs(change).max())


@pytest.mark.blas
def test_the_singular_start_is_the_limit_of_small_ones():
    for name in ("quadratic", "rows"):
        p, make = CASES[name]
        near = moments(p, make(start=1e-6), X0, [1e-3, 3.0, 20.0])
        at_0 = moments(p, make(start=0.0), X0, [1e-3, 3.0, 20.0])
        np.testing.assert_allclose(at_0.fun, near.fun, rtol=1e-5)
        np.testing.assert_allclose(at_0.z2, near.z2, rtol=1e-5)


@pytest.mark.blas
def test_coordinates_together_equal_coordinates_alone():
    """A Quadratic as least squares: diagonals of the matrices are the vectors."""
    lam = QUADRATIC.eigenvalues
    p = cz.problems.LeastSquares(np.diag(np.sqrt(3 * lam)), np.sqrt(3 * lam) * QUADRATIC.x_star)
    for options in ({}, {"start": 0.0}, PLAIN):
        method = cz.CoordinateDescent(**options)
        alone, joint = (moments(q, method, X0, [1.0, 30.0, 90.0]) for q in (QUADRATIC, p))
        # Together, the accuracy is relative to the largest coordinate.
        np.testing.assert_allclose(joint.xx, alone.xx, rtol=1e-8, atol=1e-9 * alone.xx.max())
        np.testing.assert_allclose(joint.zz, alone.zz, rtol=1e-8, atol=1e-9 * alone.zz.max())


@pytest.mark.blas
def test_one_coordinate_is_the_continuized_method():
    p = cz.problems.Quadratic([0.7], [2.0])
    for start in (None, 0.0, 0.4):
        one = moments(p, cz.CoordinateDescent(start=start), [0.0], [0.1, 4.0, 20.0])
        full = moments(p, cz.Continuized(p.L, p.mu, start), [0.0], [0.1, 4.0, 20.0])
        np.testing.assert_allclose(one.fun, full.fun, rtol=1e-9)
        np.testing.assert_allclose(one.z2, full.z2, rtol=1e-9)


def test_no_times_are_fine_and_marks_are_enumerated():
    assert moments(CLEAN, cz.Kaczmarz(), X0, []).fun.shape == (0,)
    # Two events of plain coordinate descent, all mark sequences by hand.
    stepper = cz.CoordinateDescent(**PLAIN).prepare(QUADRATIC, X0)
    lam, p = QUADRATIC.eigenvalues, stepper.p
    total = 0.0
    for i, j in itertools.product(range(3), repeat=2):
        alive = np.ones(3)
        alive[[i, j]] = 0.0  # a step of 1/L_i on a quadratic ends the coordinate
        total += p[i] * p[j] * 0.5 * np.sum(lam * alive * (X0 - QUADRATIC.x_star) ** 2)
    k2 = 0.5 * np.sum(lam * (1 - p) ** 2 * (X0 - QUADRATIC.x_star) ** 2)
    assert total == pytest.approx(k2)
    m = moments(QUADRATIC, cz.CoordinateDescent(**PLAIN), X0, [3.0])
    by_hand = 0.5 * np.sum(lam * np.exp(-3.0 * p) * (X0 - QUADRATIC.x_star) ** 2)
    assert m.fun[0] == pytest.approx(by_hand, rel=1e-10)
