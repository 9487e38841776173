"""Statistics of samples: streaming moments, and tests with a stated false-alarm probability."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from continuized.support.display import show_line

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SampleMoments:
    """The number of rows seen, their mean, and the central sums of powers 2 and 3."""

    count: int
    mean: Floats
    sum2: Floats
    sum3: Floats

    __repr__ = show_line

    @classmethod
    def empty(cls, columns: int) -> SampleMoments:
        """Make the moments of no rows at all."""
        return cls(0, np.zeros(columns), np.zeros(columns), np.zeros(columns))

    @classmethod
    def of(cls, rows: Floats) -> SampleMoments:
        """Make the moments of all these rows."""
        return cls.empty(rows.shape[1]).with_rows(rows)

    def with_rows(self, rows: Floats) -> SampleMoments:
        """Count further rows in (the pairwise update of Pébay 2008)."""
        with np.errstate(invalid="ignore", over="ignore"):
            n, m = self.count, len(rows)
            mean = rows.mean(axis=0)
            centred = rows - mean
            squares = centred * centred
            sum2, sum3 = squares.sum(axis=0), (squares * centred).sum(axis=0)
            delta, total = mean - self.mean, n + m
            return SampleMoments(
                total,
                self.mean + delta * (m / total),
                self.sum2 + sum2 + delta**2 * (n * m / total),
                self.sum3
                + sum3
                + delta**3 * (n * m * (n - m) / total**2)
                + 3.0 * delta * (n * sum2 - m * self.sum2) / total,
            )

    def variance(self) -> Floats:
        """Return the unbiased sample variance; NaN of fewer than two rows, which show none."""
        if self.count < 2:
            return np.full_like(self.sum2, np.nan)
        return self.sum2 / (self.count - 1)

    def standard_error(self) -> Floats:
        """Return the standard error of the mean."""
        return np.sqrt(self.variance() / max(self.count, 1))

    def skewness(self) -> Floats:
        """Return the sample skewness; 0 where there is no spread."""
        spread = np.sqrt(self.sum2 / max(self.count, 1)) ** 3
        third = self.sum3 / max(self.count, 1)
        return np.where(spread > 0.0, third / np.where(spread > 0.0, spread, 1.0), 0.0)


def normal_quantile(p: float) -> float:
    """Return the p-quantile of the standard normal law."""
    from scipy.special import ndtri

    return float(ndtri(p))


def dkw_radius(n: int, alpha: float) -> float:
    """Return the Dvoretzky-Kiefer-Wolfowitz bound with Massart's constant: with probability at
    least 1 - alpha the empirical distribution of n samples is within this of the true one."""
    return math.sqrt(math.log(2.0 / alpha) / (2.0 * n))


class Measurement(NamedTuple):
    """What a test measured: it passed when measured <= allowed.

    `usable` says whether it can be judged at all, such as whether a sample is large enough, for its
    skewness.
    """

    measured: float
    allowed: float
    usable: bool = True

    @property
    def passed(self) -> bool:
        """Whether the test passed; what cannot be judged does not, nor does a NaN."""
        return self.usable and self.measured <= self.allowed


def mean_test(
    moments: SampleMoments, expected: Floats | float, alpha: float, side: str = "two"
) -> Measurement:
    """Test the means of all columns against their expectations, at joint level alpha, by z.

    side="two" asks for equality, side="upper" only that the mean is not above `expected`.
    The limit is normal, at half of alpha shared among the columns.  The tails of a studentised
    mean of n samples of skewness s differ from the normal ones by factors of about
    exp(s z^3 / (3 sqrt n)) below and its inverse above; the other half of alpha pays for a
    factor of 2, and a sample that needs more is not usable.
    """
    columns = moments.mean.size
    tails = 2.0 if side == "two" else 1.0
    limit = normal_quantile(1.0 - 0.5 * alpha / (tails * columns))
    error = moments.standard_error()
    difference = moments.mean - expected
    if side == "two":
        difference = np.abs(difference)
    # Columns without spread (such as f at t = 0) are compared to rounding.
    floor = 64.0 * math.ulp(1.0) * np.abs(moments.mean)
    z = float(np.max(difference / np.maximum(error, floor + np.finfo(np.float64).tiny)))
    excess = -moments.skewness() if side == "upper" else np.abs(moments.skewness())
    factor = excess * limit**3 / (3.0 * math.sqrt(moments.count))
    return Measurement(z, limit, bool(np.all(factor <= math.log(2.0))))
