"""Full gradients of a quadratic: E f(x_t) and E |z_t - x*|^2 with no sampling.

On f = 1/2 sum lambda_i (x_i - x*_i)^2 every coordinate lives alone, and G is the diagonal of the
lambda_i.  The sampling-free value is the sharp test of an implementation; the theorems' bounds are
slack.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.problems.quadratic import Quadratic
from continuized.process.methods import Method
from continuized.support import validation as check
from continuized.support.files import check_memory
from continuized.theory.checks import checked_counts, start_of
from continuized.theory.moments.events import moments_at_events
from continuized.theory.moments.integrate import integrate
from continuized.theory.moments.pair import Moments, rates_of


class FullGradient(NamedTuple):
    """Every event has the whole gradient, with noise of this variance in every coordinate."""

    eigenvalues: Array
    squares: Array
    noise: float
    steps: Array
    weights: Array

    @classmethod
    def of(cls, eigenvalues: Array, noise: float) -> FullGradient:
        """Make the marks of a quadratic."""
        one = np.ones_like(eigenvalues)
        return cls(eigenvalues, eigenvalues * eigenvalues, noise, one, one)

    def pull(self, A: Array) -> Array:
        """lambda A."""
        return self.eigenvalues * A

    def spread(self, A: Array) -> Array:
        """lambda^2 A."""
        return self.squares * A


def full_gradient_moments(
    p: Problem,
    method: Method,
    x0: ArrayLike,
    times: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Moments:
    """The moments of the methods of the paper, at fixed times or at events (see `moments`)."""
    if not isinstance(p, Quadratic):
        raise TypeError(
            f"moments are exact on a Quadratic only, got {type(p).__name__}; use an ensemble"
        )
    variance = sigma2 / max(p.dim, 1)
    u0 = (start_of(p, x0).ravel() - p.x_star) ** 2
    if times is not None:
        t = np.atleast_1d(check.times(times, "times", ordered=True))
        marks, rows = FullGradient.of(p.eigenvalues, variance), np.empty((len(t), 3, p.dim))
        for i, m in enumerate(integrate(rates_of(method), marks, np.stack([u0, u0, u0]), t)):
            rows[i] = m
        return pack(p, t, None, rows)
    assert k is not None
    counts = np.atleast_1d(checked_counts(k))
    last = int(counts.max(initial=0))
    check_memory(24.0 * (last + 1) * p.dim, "so many events", "a smaller k")
    return pack(
        p, None, counts, moments_at_events(method, p.eigenvalues, u0, last, variance)[counts]
    )


def pack(p: Quadratic, t: Array | None, k: Array | None, rows: Array) -> Moments:
    """Put together the pair moments of a quadratic, (number of times, 3, dim), as `Moments`."""
    xx, xz, zz = rows[:, 0], rows[:, 1], rows[:, 2]
    fun = p.f_star + 0.5 * (xx * p.eigenvalues).sum(axis=1)
    return Moments(t, k, fun, zz.sum(axis=1), xx, xz, zz)
