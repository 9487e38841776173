"""The exact rate on quadratics: against exact moments, another derivation, and known values."""

import math

import numpy as np
import pytest

import continuized as cz
from continuized.theory import moments, quadratic_rate
from continuized.theory.quadratic_rate import moment_matrices

KNOWN = {  # L / mu: the rate over sqrt(mu/L), of the paper's parameters and of Theorem B's
    10.0: (1.36, 1.46),
    100.0: (1.50, 1.46),
    1e3: (1.63, 1.43),
    1e4: (1.74, 1.42),
}


@pytest.mark.parametrize("ratio", KNOWN)
def test_known_values_and_the_theorems_are_below(ratio):
    mu, q = 1.0 / ratio, ratio**-0.5
    paper = quadratic_rate(cz.Continuized(1.0, mu), 1.0, mu) / q
    sharp = quadratic_rate(cz.SharpContinuized(1.0, mu), 1.0, mu) / q
    assert (round(paper, 2), round(sharp, 2)) == KNOWN[ratio]
    assert paper > 4 / 3
    assert sharp > math.sqrt(2)


def test_the_matrix_is_that_of_products_of_the_linear_maps():
    """E (u, w)(u, w)^T obeys m' = (F x 1 + 1 x F + J x J - 1) m, on symmetric matrices."""
    parameters, lam = (0.3, 0.2, 0.9, 2.0), 0.6
    eta, eta_prime, gamma, gamma_prime = parameters
    F = np.array([[-eta, eta], [eta_prime, -eta_prime]])
    J = np.array([[1 - gamma * lam, 0.0], [-gamma_prime * lam, 1.0]])
    one = np.eye(2)
    whole = np.kron(F, one) + np.kron(one, F) + np.kron(J, J) - np.eye(4)
    expand = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    expected = (whole @ expand)[[0, 1, 3]]
    np.testing.assert_allclose(moment_matrices(parameters, np.array(lam)), expected, atol=1e-15)


@pytest.mark.parametrize("method", [cz.Continuized(3.0, 0.1), cz.SharpContinuized(3.0, 0.1)])
def test_it_is_the_decay_of_the_worst_moments(method):
    p = cz.problems.Quadratic(np.geomspace(0.1, 3.0, 30), np.ones(30))
    t = np.array([120.0, 140.0])
    size = moments(p, method, np.zeros(30), t).zz
    decay = np.log(size[0] / size[1]) / 20.0
    assert quadratic_rate(method, 3.0, 0.1) == pytest.approx(decay.min(), rel=1e-6)


def test_other_parameters():
    own = cz.CustomContinuized(*(lambda t, c=c: c for c in (0.1, 0.1, 1.0, 10.0)))
    paper = cz.Continuized(1.0, 0.01)
    assert quadratic_rate(own, 1.0, 0.01) == pytest.approx(quadratic_rate(paper, 1.0, 0.01))
    late = quadratic_rate(cz.Continuized(1.0, 0.01, 0.0), 1.0, 0.01)
    assert late == pytest.approx(quadratic_rate(paper, 1.0, 0.01))
    assert quadratic_rate(paper, 3.0, 0.01) < 0.0  # curvatures beyond L: the moments grow
    slower = quadratic_rate(cz.Continuized(1.0, 0.01, tau=0.5), 1.0, 0.01)
    assert 0.5 * 0.1 < slower < quadratic_rate(paper, 1.0, 0.01)
    assert quadratic_rate(cz.Continuized(2.0, 2.0), 2.0, 2.0) > 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: quadratic_rate(cz.Continuized(1.0, 0.1), 1.0, 0.0), "mu must be > 0"),
        (lambda: quadratic_rate(cz.Continuized(1.0, 0.1), 1.0, 2.0), "mu must not exceed L"),
        (lambda: quadratic_rate(cz.Continuized(1.0), 1.0, 0.1), "has no rate"),
        (lambda: quadratic_rate(cz.Nesterov(1.0, 0.1), 1.0, 0.1), "counts iterations"),
        (
            lambda: quadratic_rate(
                cz.CustomContinuized(lambda t: t, lambda t: t, lambda t: t, lambda t: t), 1.0, 0.1
            ),
            "do not depend on t",
        ),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()
