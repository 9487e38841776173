"""Marked methods: what the steppers measure is what the moments say.

The statistical tests share ALPHA = 1e-6 equally, at a fixed seed.
"""

import numpy as np
import pytest

import continuized as cz
from continuized.app.verify import marked as marked_checks
from continuized.theory import moments
from tests.helpers.marked_matrices import PLAIN, compare_means
from tests.mutants.process import ForgottenP

ALPHA = 1e-6
MANY = marked_checks.quadratic()
WIDE = marked_checks.wide_least_squares()
SPARSE = cz.problems.LeastSquares(
    np.random.default_rng(3).standard_normal((25, 12)) * (np.arange(12) % 3 > 0), np.ones(25), 0.1
)
STEPPERS = {
    "coordinates": (MANY, cz.CoordinateDescent(), [10.0, 25.0]),
    "coordinates, convex": (marked_checks.quadratic(mu=0.0), cz.CoordinateDescent(), [10.0, 25.0]),
    "coordinates, start 0": (MANY, cz.CoordinateDescent(start=0.0), [10.0, 25.0]),
    "coordinates, plain": (MANY, cz.CoordinateDescent("uniform", **PLAIN), [10.0, 25.0]),
    "coordinates of least squares": (SPARSE, cz.CoordinateDescent(), [4.0, 8.0]),
    "rows": (WIDE, cz.StochasticLeastSquares(), [8.0, 12.0]),
    "rows, convex": (WIDE, cz.StochasticLeastSquares(mu=0.0), [8.0, 12.0]),
    "kaczmarz": (WIDE, cz.Kaczmarz(), [8.0, 12.0]),
    "kaczmarz, plain": (WIDE, cz.Kaczmarz(**PLAIN), [8.0, 12.0]),
}


@pytest.mark.parametrize("name", STEPPERS)
def test_measured_means_equal_exact_moments(name):
    p, method, times = STEPPERS[name]
    x0 = np.zeros(p.dim)
    exact = moments(p, method, x0, times)
    test = compare_means(p, method.prepare(p, x0), exact, times, ALPHA / len(STEPPERS))
    assert test.usable, test
    assert test.passed, test


def test_a_forgotten_p_is_caught():
    p, x0, times = MANY, np.zeros(MANY.dim), [10.0, 25.0]
    exact = moments(p, cz.CoordinateDescent(start=0.0), x0, times)
    test = compare_means(
        p, ForgottenP(start=0.0).prepare(p, x0), exact, times, ALPHA / len(STEPPERS)
    )
    assert test.usable, test
    assert test.measured > 3.0 * test.allowed


def test_a_row_step_of_z_that_is_wrong_is_caught(monkeypatch):
    p, x0, times = WIDE, np.zeros(WIDE.dim), [8.0, 12.0]
    method = cz.StochasticLeastSquares()
    exact, stepper = moments(p, method, x0, times), method.prepare(p, x0)
    take = type(stepper).take
    longer = [1.0, 1.0, 1.0, 3.0, 1.0]
    monkeypatch.setattr(
        type(stepper), "take", lambda self, marks, coefs: take(self, marks, coefs * longer)
    )
    test = compare_means(p, stepper, exact, times, ALPHA / len(STEPPERS))
    assert test.usable, test
    assert test.measured > 1.5 * test.allowed
