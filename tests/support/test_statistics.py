"""Streaming moments and the tests built on them."""

import math

import numpy as np
import pytest
from scipy import stats

from continuized.support.statistics import SampleMoments, dkw_radius, mean_test, normal_quantile


def moments_of(rows, chunk):
    moments = SampleMoments.empty(rows.shape[1])
    for first in range(0, len(rows), chunk):
        moments = moments.with_rows(rows[first : first + chunk])
    return moments


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_streaming_moments_equal_two_pass_moments(chunk):
    rows = np.random.default_rng(1).gamma(2.0, size=(500, 3)) + [0.0, 10.0, 1e6]
    moments = moments_of(rows, chunk)
    assert moments.count == 500
    np.testing.assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(moments.variance(), rows.var(axis=0, ddof=1), rtol=1e-8)
    np.testing.assert_allclose(moments.skewness(), stats.skew(rows, axis=0), rtol=1e-6)


def test_no_spread_has_no_skewness_and_no_error():
    moments = moments_of(np.ones((10, 2)), 3)
    assert moments.skewness().tolist() == [0.0, 0.0]
    assert moments.standard_error().tolist() == [0.0, 0.0]


def test_one_row_shows_no_error():
    assert np.isnan(moments_of(np.ones((1, 2)), 1).standard_error()).all()


def test_normal_quantile_and_dkw_radius():
    assert normal_quantile(0.975) == pytest.approx(1.959963984540054, rel=1e-12)
    # alpha = 2 exp(-2 n r^2)
    assert 2.0 * math.exp(-2.0 * 1000 * dkw_radius(1000, 0.01) ** 2) == pytest.approx(0.01)


def test_mean_test_accepts_the_truth_and_rejects_a_shift():
    rows = np.random.default_rng(2).exponential(size=(200_000, 2))
    moments = moments_of(rows, 1000)
    assert mean_test(moments, 1.0, alpha=1e-7).passed
    assert not mean_test(moments, 1.02, alpha=1e-7).passed
    assert not mean_test(moments, 0.98, alpha=1e-7, side="upper").passed
    assert mean_test(moments, 1.02, alpha=1e-7, side="upper").passed


def test_a_sample_too_skewed_to_judge_does_not_pass():
    rows = np.zeros((1000, 1))
    rows[0] = 1.0
    test = mean_test(moments_of(rows, 100), 0.001, alpha=1e-6)
    assert test.measured < test.allowed
    assert not test.usable
    assert not test.passed


def test_columns_without_spread_are_compared_to_rounding():
    moments = moments_of(np.full((100, 1), 0.1), 10)
    assert mean_test(moments, 0.1, alpha=1e-6).passed
    assert not mean_test(moments, 0.1 + 1e-9, alpha=1e-6).passed


@pytest.mark.parametrize(
    ("columns", "side", "limit"), [(1, "two", 2.2414), (1, "upper", 1.9600), (10, "two", 3.0233)]
)
def test_half_of_alpha_is_shared_among_the_columns_and_their_tails(columns, side, limit):
    moments = SampleMoments.of(np.random.default_rng(0).standard_normal((100, columns)))
    assert mean_test(moments, 0.0, alpha=0.05, side=side).allowed == pytest.approx(limit, abs=1e-4)


def test_only_the_tail_that_is_asked_for_may_not_be_heavy():
    """Where a sample skews to the left, the studentised mean is too often far above."""
    sample = np.random.default_rng(0).standard_exponential((40, 1)) ** 2
    right, left = SampleMoments.of(sample), SampleMoments.of(-sample)
    usable = [mean_test(m, m.mean, 1e-6, side).usable for m in (right, left)
              for side in ("two", "upper")]  # fmt: skip
    assert usable == [False, True, False, False]
