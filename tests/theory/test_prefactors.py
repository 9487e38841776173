"""The prefactors of appendix B: they vanish for the paper's choice, and bound the drift for any."""

import math

import mpmath
import numpy as np
import pytest

import continuized as cz
from continuized.process import parameters
from continuized.theory import prefactors

P = cz.problems.Quadratic([1.0, 0.3, 0.05], [1.0, -2.0, 3.0])


@pytest.mark.parametrize("mu", [0.0, 0.05])
@pytest.mark.parametrize("start", [0.0, 2.0, math.inf])
def test_the_prefactors_vanish_for_the_papers_choice(mu, start):
    if mu == 0.0 and start == math.inf:
        return
    L, t = 2.0, 3.0
    constants = (t, L, mu, start)
    A, B = (math.exp(log(*constants)) for log in (parameters.log_A, parameters.log_B))

    def weights(s):
        """A and B in many digits, from the differential equations' solutions."""
        w = mpmath.sqrt(mpmath.mpf(mu) / L) / 2
        if mu == 0.0:
            return (s + start) ** 2 / (2 * L), mpmath.mpf(1)
        if start == math.inf:
            return mpmath.exp(2 * w * s), mu / 2 * mpmath.exp(2 * w * s)
        return 2 / mpmath.mpf(mu) * mpmath.sinh(w * (s + start)) ** 2, mpmath.cosh(
            w * (s + start)
        ) ** 2

    with mpmath.workdps(30):
        dA, dB = (float(mpmath.diff(lambda s, i=i: weights(s)[i], t)) for i in (0, 1))
    four = {
        "eta": parameters.eta(*constants), "eta_prime": parameters.eta_prime(*constants),
        "gamma": 1.0 / L, "gamma_prime": parameters.gamma_prime(*constants),
    }  # fmt: skip
    found = prefactors(L, mu, A=A, B=B, dA=dA, dB=dB, **four)
    np.testing.assert_allclose(found, 0.0, atol=1e-14 * max(A, B, 1.0))
    doubled = four | {"gamma_prime": 2.0 * four["gamma_prime"]}
    assert prefactors(L, mu, A=A, B=B, dA=dA, dB=dB, **doubled).gradient_squared > 0.1 * A / L


def test_the_prefactors_bound_the_drift_for_any_parameters():
    """I_t <= their sum, at random parameters and states of a quadratic: the proof's inequality."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        eta, eta_prime, gamma, gamma_prime, A, B, dA, dB = rng.uniform(0.1, 2.0, 8)
        x, z = rng.standard_normal((2, 3)) * 3.0
        u, w, g = x - P.x_star, z - P.x_star, P.grad(x)

        def phi(x, z, A=A, B=B):
            return A * (P.fun(x) - P.f_star) + B * ((z - P.x_star) ** 2).sum()

        I = dA * (P.fun(x) - P.f_star) + dB * (w @ w) + A * eta * (g @ (z - x))
        I += (
            2.0 * B * eta_prime * (w @ (x - z))
            + phi(x - gamma * g, z - gamma_prime * g)
            - phi(x, z)
        )
        five = prefactors(P.L, P.mu, A=A, B=B, dA=dA, dB=dB, eta=eta, eta_prime=eta_prime,
                          gamma=gamma, gamma_prime=gamma_prime)  # fmt: skip
        bound = np.dot(five, [g @ u, w @ w, g @ w, u @ u, g @ g])
        assert bound - I >= -1e-9 * (abs(I) + abs(bound))
