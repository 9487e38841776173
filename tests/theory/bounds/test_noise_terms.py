"""The noise terms of the bounds, at times and at events, against mpmath."""

import math

import mpmath as mp
import numpy as np
import pytest

import continuized as cz
from continuized.theory.bounds import paper

L = 2.0


def integral_of_weight(method, a, b):
    """int_a^b weight by mpmath, from the formula of the weight."""
    w, s = mp.sqrt(mp.mpf(method.mu) / method.L) / 2, mp.mpf(method.start)
    if method.mu == 0.0:
        return ((b + s) ** 3 - (a + s) ** 3) / 3
    anti = lambda t: (mp.sinh(2 * w * (t + s)) - 2 * w * (t + s)) / (4 * w) / w**2  # noqa: E731
    return anti(b) - anti(a)


@pytest.mark.parametrize("mu", [0.0, 1e-28, 1e-9, 0.04, 1.9])
@pytest.mark.parametrize("start", [0.0, 1e-6, 0.7, 300.0])
def test_noise_term_at_a_time_against_mpmath(mu, start):
    method = cz.Continuized(L, mu, start)
    for t in (1e-9, 1e-3, 0.9, 40.0, 3000.0):
        with mp.workdps(120):
            w = mp.sqrt(mp.mpf(mu) / L) / 2
            end = mp.mpf(t) + mp.mpf(start)
            top = integral_of_weight(method, mp.mpf(0), mp.mpf(t))
            expected = top / (mp.sinh(w * end) ** 2 / w**2 if mu else end**2)
        got = math.exp(paper.log_mean_A(float(t), *method.parameters))
        assert got == pytest.approx(float(expected), rel=1e-12), t


@pytest.mark.parametrize(
    ("mu", "start"),
    [
        (0.0, 0.0), (0.0, 0.7), (0.0, 30.0), (1e-28, 0.7), (1e-9, 0.0), (1e-9, 30.0), (0.04, 0.0),
        (0.04, 0.7), (1.9, 30.0),
    ],
)  # fmt: skip
def test_noise_term_at_an_event_against_mpmath(mu, start):
    # E int_0^T weight, T ~ Gamma(k, 1): by the Gamma law's exponential moments, in 150 digits,
    # and the sum of (1-q)^-k type terms checked itself by quadrature at one k.
    method = cz.Continuized(L, mu, start)
    for k in (1, 2, 50, 4000):
        with mp.workdps(150):
            s = mp.mpf(start)
            if mu == 0.0:
                expected = mp.mpf(k) * (k + 1) * (k + 2) / 3 + s * k * (k + 1) + s**2 * k
            else:
                q = mp.sqrt(mp.mpf(mu) / L)
                up, down = (1 - q) ** -k, (1 + q) ** -k
                sine = (mp.exp(q * s) * up - mp.exp(-q * s) * down) / 2
                expected = ((sine - mp.sinh(q * s)) / q - k) * 2 / q**2
            log_expected = float(mp.log(expected))
        got = float(paper.log_mean_weight(method, np.asarray(k)))
        assert got == pytest.approx(log_expected, rel=1e-12, abs=1e-11), k
    with mp.workdps(30):
        integrand = lambda t: integral_of_weight(method, 0, t) * t * mp.exp(-t)  # noqa: E731
        if 0.0 < mu < 1.0 or mu == 0.0:
            with mp.workdps(90):
                expected = mp.quad(integrand, [0, 1, 4, 16, 64, 256, 1024])
            got = math.exp(paper.log_mean_weight(method, np.asarray(2)))
            assert got == pytest.approx(float(expected), rel=1e-10)
