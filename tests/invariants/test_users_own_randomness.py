"""Noise models and clocks of the user's own, right and wrong."""

from __future__ import annotations

import numpy as np
import pytest

import continuized as cz


class ColumnNoise:
    """A noise model of the user's own, wrong: one number for all coordinates."""

    def draw(self, rng, n, dim):
        return rng.standard_normal((n, 1))

    def sigma2(self, dim):
        return 1.0


def test_noise_of_a_wrong_shape_is_refused_not_read_past():
    p = cz.problems.Quadratic([1.0, 0.5, 0.2])
    with pytest.raises(ValueError, match=r"shape \(5, 3\).*got \(5, 1\)"):
        cz.minimize(p, np.zeros(3), noise=ColumnNoise(), maxiter=5, rng=0)
    with pytest.raises(ValueError, match=r"shape \(5, 3\).*got \(5, 1\)"):
        cz.ensemble(p, cz.Continuized(1.0), np.zeros(3), runs=2, steps=5, noise=ColumnNoise())


class FortranNoise(ColumnNoise):
    def draw(self, rng, n, dim):
        return np.asfortranarray(rng.standard_normal((n, dim)))


def test_noise_in_any_memory_order_is_the_same_noise():
    p = cz.problems.Quadratic([1.0, 0.5, 0.2])
    arguments = {"maxiter": 7, "rng": 0}
    found = cz.minimize(p, np.zeros(3), noise=FortranNoise(), **arguments)
    expected = cz.minimize(p, np.zeros(3), noise=cz.noise.Gaussian(1.0), **arguments)
    assert np.array_equal(found.x, expected.x)


class Backwards:
    """A clock of the user's own, wrong."""

    def stream(self):
        return cz.clock.Stream(lambda n: -np.ones(n))


def test_a_clock_that_runs_backwards_is_refused():
    with pytest.raises(ValueError, match="gaps >= 0, got -1"):
        cz.minimize(cz.problems.Quadratic([1.0]), [0.0], clock=Backwards(), maxiter=3)
