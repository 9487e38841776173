"""The exponential that carries the moments of plain exchanges over long times."""

import numpy as np
import pytest

from continuized.theory.moments.integrate import exponential

pytestmark = pytest.mark.blas


def symmetric(eigenvalues):
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((len(eigenvalues),) * 2))[0]
    return Q @ np.diag(eigenvalues) @ Q.T, Q


@pytest.mark.parametrize("span", [1e-6, 0.3, 5.0, 400.0, 2e4])
@pytest.mark.parametrize("slow", [-1e-4, 0.0, 1e-4], ids=["falls", "stays", "grows"])
def test_the_polynomial_is_the_exponential(span, slow):
    """With a radius of 1: the eigenvalues are in [-2, 0], but for the one that grows."""
    eigenvalues = np.array([slow, -0.01, -0.5, -1.0, -2.0])
    G, Q = symmetric(eigenvalues)
    m = np.arange(1.0, 6.0)
    expected = Q @ (np.exp(span * eigenvalues) * (Q.T @ m))
    found = exponential(lambda v: G @ v, m, span, 1.0)
    rounding = 1e-13 + np.finfo(float).eps * span  # G itself is rounded, by about eps
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=rounding * np.abs(expected).max())


def test_a_mode_for_which_every_other_polynomial_is_zero():
    found = exponential(lambda v: -v, np.ones(1), 3.0, 1.0)  # T_k(0) = 0 for odd k
    np.testing.assert_allclose(found, np.exp(-3.0), rtol=1e-14)
