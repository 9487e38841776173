"""The proximal step on the entropy: many digits on both sides of what it finds."""

import mpmath
import numpy as np
import pytest

from continuized.marked.kernels import entropy

DIGITS = 50
TINY = mpmath.mpf(10) ** -45


def left(v, x, k, m):
    """k + m (v - x) + logit(v): increasing in v, and 0 at the root."""
    v = min(max(v, TINY), 1 - TINY)
    return k + m * (v - x) + mpmath.log(v / (1 - v))


def cases():
    rng = np.random.default_rng(0)
    inside = [1e-300, 1e-16, 1e-5, 0.2, 0.5, 0.7, 1.0 - 1e-5, 1.0 - 1e-16]
    outside = [-3.0, -1e-9, 0.0, 1.0, 1.0 + 1e-9, 2.5]
    for x in inside + outside:
        for m in (0.0, 1e-3, 1.0, 100.0, 1e6, 1e12):
            for k in (-800.0, -3.0, 0.0, 3.0, 800.0, *(rng.standard_normal(2) * m)):
                yield x, float(k), m
    for x in inside[2:-1]:  # near the root: k = -logit(x) leaves x where it is
        for m in (0.0, 1.0, 100.0, 1e6):
            for t in 10.0 ** np.arange(-8.0, 1.0) * rng.choice([-1.0, 1.0], 9):
                yield x, float(t * (1.0 + m * x * (1.0 - x)) - np.log(x / (1.0 - x))), m


def test_a_step_is_the_root_from_anywhere():
    count = 0
    with mpmath.workdps(DIGITS):
        for x, k, m in cases():
            v = entropy.entropy_step(x, entropy.logit(x), k, m)
            # k and m (v - x) are rounded: no method can know the root better than that.
            noise = (abs(k) + m * (abs(x) + 1.0)) / (1.0 / max(v * (1.0 - v), 1e-300) + m)
            within = 1e-15 * (1.0 + 4.0 * noise)
            v, *equation = map(mpmath.mpf, (v, x, k, m))
            assert left(v - within, *equation) <= 0 or v - within <= TINY, (x, k, m)
            assert left(v + within, *equation) >= 0 or v + within >= 1 - TINY, (x, k, m)
            count += 1
    assert count > 700


@pytest.mark.parametrize("reach", [0.1, entropy.REACH])
def test_the_series_is_as_near_to_the_root_as_it_says(reach):
    theta = np.linspace(-20.0, 20.0, 81)[:, None, None]
    m = np.concatenate([[0.0], np.geomspace(1e-3, 1e12, 31)])[:, None]
    distance = np.linspace(-3.0, 3.0, 301)
    v, slope = 1.0 / (1.0 + np.exp(-theta)), 1.0 / (2.0 + 2.0 * np.cosh(theta))
    # v - v* = sinh(-distance/2) / (2 cosh(theta/2) cosh(theta*/2)), without cancellation.
    cosh = np.cosh(0.5 * theta) * np.cosh(0.5 * (theta + distance))
    h = -m * np.sinh(0.5 * distance) / (2.0 * cosh) - distance
    t, change = entropy.to_root(h, m, v, slope)
    error, within = abs(change - distance), abs(t) <= reach
    assert within.sum() > 10_000
    if reach == 0.1:
        assert np.all(error[within] <= 0.22 * abs(t[within]) ** 5 + 1e-15)
    assert error[within].max() <= 0.14
