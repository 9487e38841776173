"""Blocks and batches: moments and bounds against sums over all marks, and what steppers measure.

The statistical tests share ALPHA = 1e-6 equally, at a fixed seed.
"""

import itertools

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import continuized as cz
from continuized import parameters
from continuized.app.verify import marked as marked_checks
from continuized.process import reference
from continuized.theory import bound, moments
from tests.helpers.marked_matrices import (
    CLEAN,
    FLAT,
    PLAIN,
    QUADRATIC,
    RIDGE,
    X0,
    assert_equals_exponential,
    assert_moments,
    bounded_form,
    bounded_moment,
    compare_means,
    flow_generator,
    generator,
    jump_matrix,
    start_moments,
)
from tests.mutants.process import ForgottenP, LargestLOfBlock, NoMean

ALPHA = 1e-6
BLOCKS = [[2, 0], [1]]
BATCH = 2
CASES = {
    "blocks of a quadratic": (QUADRATIC, lambda **o: cz.CoordinateDescent(blocks=BLOCKS, **o)),
    "blocks of least squares": (
        RIDGE,
        lambda **o: cz.CoordinateDescent([0.3, 0.7], blocks=BLOCKS, **o),
    ),
    "batches": (CLEAN, lambda **o: cz.StochasticLeastSquares(batch=BATCH, **o)),
    "batches of kaczmarz": (CLEAN, lambda **o: cz.Kaczmarz(batch=BATCH, **o)),
}


def marks_and_jumps(p, stepper):
    """Every mark with its probability, all batches among them, and the eager oracle."""
    if hasattr(stepper, "form"):
        blocks = [np.array(block) for block in BLOCKS]
        jumps = reference.CoordinateJumps(p, stepper.form.L_i, stepper.p, blocks)
        return list(enumerate(stepper.p)), jumps
    batches = itertools.product(range(stepper.p.size), repeat=BATCH)
    jumps = reference.RowJumps(p, stepper.R2, stepper.factors)
    return [(list(marks), np.prod(stepper.p[list(marks)])) for marks in batches], jumps


def mean_jump(p, stepper, gamma_prime):
    """E of J (x) J over all marks, J the matrix of (u, w) read off the eager oracle."""
    chances, jumps = marks_and_jumps(p, stepper)
    matrices = [(q, jump_matrix(p, stepper, jumps, mark, gamma_prime)) for mark, q in chances]
    return sum(q * np.kron(J, J) for q, J in matrices)


@pytest.mark.blas
@pytest.mark.parametrize("options", [{}, PLAIN], ids=["accelerated", "plain"])
@pytest.mark.parametrize("name", CASES)
def test_constant_parameters_equal_a_matrix_exponential(name, options):
    p, make = CASES[name]
    assert_equals_exponential(p, make(**options), mean_jump)


@pytest.mark.blas
@pytest.mark.parametrize("name", ["blocks of least squares", "batches", "batches of kaczmarz"])
def test_late_moments_have_the_same_relative_accuracy(name):
    """What rounding adds that is not symmetric must not outlive the moments."""
    p, make = CASES[name]
    t, d = 700.0, p.dim
    G = generator(p, make().prepare(p, X0), 0.0, mean_jump)
    M = np.diag((expm(t * G) @ start_moments(p)).reshape(2 * d, 2 * d))
    m = moments(p, make(), X0, [t])
    assert M.sum() < 1e-5 * start_moments(p).max()
    np.testing.assert_allclose(np.concatenate([m.xx[0], m.zz[0]]), M, rtol=1e-8)


@pytest.mark.blas
def test_late_moments_of_fewer_rows_than_columns_decay_evenly():
    """At last one mode is left of them, and beside what rows see there is nothing."""
    X = np.random.default_rng(0).standard_normal((3, 6))
    p = cz.problems.LeastSquares(X, X @ np.arange(6.0))
    m = moments(p, cz.Kaczmarz(**PLAIN), np.zeros(6), [400.0, 600.0, 800.0])
    assert m.xx.min() > 0.0
    assert m.z2[2] < 1e-20
    np.testing.assert_allclose(m.xx[2] / m.xx[1], m.xx[1] / m.xx[0], rtol=1e-6)
    np.testing.assert_allclose(m.fun[2] / m.fun[1], (m.z2[1] / m.z2[0]), rtol=1e-6)


@pytest.mark.blas
@pytest.mark.parametrize("name", ["blocks of least squares", "batches"])
def test_a_finite_start_equals_another_solver_on_the_full_matrix(name):
    p, make = CASES[name]
    method, t = make(start=0.3), 4.0
    stepper = method.prepare(p, X0)
    # The generator is a polynomial of degree 2 in gamma', so that three jumps give all of them.
    G = [mean_jump(p, stepper, step) for step in (0.0, 1.0, 2.0)]
    square, slope = 0.5 * (G[2] - 2 * G[1] + G[0]), 0.5 * (4 * G[1] - G[2] - 3 * G[0])
    one = np.eye(2 * p.dim)

    def derivative(s, M):
        step = parameters.gamma_prime(s, *stepper.process.constants)
        K = flow_generator(stepper, s, p.dim)
        flow = np.kron(K, one) + np.kron(one, K)
        return (flow + G[0] + step * slope + step * step * square) @ M - M

    solution = solve_ivp(derivative, (0.0, t), start_moments(p), rtol=1e-10, atol=1e-13)
    assert_moments(moments(p, method, X0, [t]), 0, solution.y[:, -1], p, 1e-7)


TIMES = np.geomspace(0.05, 120.0, 25)
BOUNDED = [
    *((p, make(**o)) for p, make in CASES.values() for o in ({}, {"start": 0.0}, PLAIN)),
    (FLAT, cz.CoordinateDescent(blocks=BLOCKS)),
    (FLAT, cz.CoordinateDescent([0.9, 0.1], blocks=BLOCKS, **PLAIN)),
    (CLEAN, cz.StochasticLeastSquares(batch=50, mu=0.0)),
    (CLEAN, cz.StochasticLeastSquares(batch=3, mu=0.0, **PLAIN)),
]


@pytest.mark.parametrize(("p", "method"), BOUNDED)
def test_exact_moments_are_below_the_bounds(p, method):
    ratio = bounded_moment(p, method, TIMES) / bound(method, p, X0, t=TIMES)
    assert ratio.max() <= 1.0 + 1e-9
    assert ratio.max() > 0.02, "a bound this slack would test nothing"


@pytest.mark.blas
@pytest.mark.parametrize("name", CASES)
def test_plain_bounds_at_events_hold_for_the_exact_recursion(name):
    p, make = CASES[name]
    method, d = make(**PLAIN), p.dim
    stepper = method.prepare(p, X0)
    J, H, M = mean_jump(p, stepper, 0.0), bounded_form(p, stepper), start_moments(p)
    for k in range(1, 60):
        M = J @ M
        value = 0.5 * np.sum(H * M.reshape(2 * d, 2 * d)[:d, :d])
        assert value <= bound(method, p, X0, k=k) * (1 + 1e-9)


@pytest.mark.blas
def test_bounds_by_hand():
    """D of the plain convex bound: 1/2 sum_B L_B/p_B |u_B|^2; and L of the accelerated ones."""
    method = cz.CoordinateDescent([0.9, 0.1], blocks=BLOCKS, **PLAIN)
    v = X0 - FLAT.x_star
    top = 10 * FLAT.fun(X0) + 0.5 * ((v[0] ** 2 + v[2] ** 2) / 0.9 + 0.3 * v[1] ** 2 / 0.1)
    np.testing.assert_allclose(bound(method, FLAT, X0, t=9.0), top / 19)
    S = (1.0 + np.sqrt(0.3)) ** 2
    by_hand = bound(cz.Continuized(S, QUADRATIC.mu), QUADRATIC, X0, t=3.0)
    found = bound(cz.CoordinateDescent(blocks=BLOCKS), QUADRATIC, X0, t=3.0)
    np.testing.assert_allclose(found, by_hand, rtol=1e-12)


WIDE, MANY = marked_checks.thirty_columns(), marked_checks.quadratic()
ROWS = marked_checks.wide_least_squares()
STEPPERS = {
    "blocks": (WIDE, cz.CoordinateDescent(blocks=3), [4.5, 6.0]),
    "blocks, start 0": (MANY, cz.CoordinateDescent(blocks=3, start=0.0), [6.0, 8.0]),
    "blocks, plain": (WIDE, cz.CoordinateDescent("uniform", blocks=3, **PLAIN), [4.5, 6.0]),
    "batches": (ROWS, cz.StochasticLeastSquares(batch=2), [3.0, 5.0]),
    "batches, convex": (ROWS, cz.StochasticLeastSquares(batch=2, mu=0.0), [5.0, 7.0]),
    "batches of kaczmarz, plain": (ROWS, cz.Kaczmarz(batch=2, **PLAIN), [3.0, 5.0]),
}


@pytest.mark.parametrize("name", STEPPERS)
def test_measured_means_equal_exact_moments(name):
    p, method, times = STEPPERS[name]
    x0 = np.zeros(p.dim)
    test = compare_means(
        p, method.prepare(p, x0), moments(p, method, x0, times), times, ALPHA / len(STEPPERS)
    )
    assert test.usable, test
    assert test.passed, test


def test_a_forgotten_p_is_caught():
    p, method, times = STEPPERS["blocks, start 0"]
    x0 = np.zeros(p.dim)
    mutant = ForgottenP(blocks=3, start=0.0).prepare(p, x0)
    test = compare_means(p, mutant, moments(p, method, x0, times), times, ALPHA / len(STEPPERS))
    assert test.usable, test
    assert test.measured > 3.0 * test.allowed


def test_the_largest_L_i_in_place_of_L_B_is_caught():
    p, options = marked_checks.make_correlated(), {"blocks": marked_checks.BLOCKS}
    x0 = np.zeros(p.dim)
    excess = moments(p, LargestLOfBlock(**options), x0, [10.0]).fun - p.f_star
    assert excess > 10.0 * bound(cz.CoordinateDescent(**options), p, x0, t=10.0)


def test_R2_of_batches_without_the_term_of_L_H_is_caught():
    p = marked_checks.make_correlated(noise=0.0, l2=0.0)
    x0 = np.zeros(p.dim)
    far = 0.5 * moments(p, NoMean(batch=8), x0, [10.0]).xx.sum()
    assert far > 10.0 * bound(cz.StochasticLeastSquares(batch=8), p, x0, t=10.0)


@pytest.mark.blas
def test_batches_of_one_and_blocks_of_one_have_the_moments_of_the_single_ones():
    for p, one, single in (
        (CLEAN, cz.StochasticLeastSquares(batch=1), cz.StochasticLeastSquares()),
        (RIDGE, cz.CoordinateDescent(blocks=1), cz.CoordinateDescent()),
    ):
        found, expected = (moments(p, method, X0, [1.0, 9.0]) for method in (one, single))
        np.testing.assert_array_equal(found.fun, expected.fun)
        np.testing.assert_array_equal(bound(one, p, X0, t=3.0), bound(single, p, X0, t=3.0))
