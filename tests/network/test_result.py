"""The rate that a trace shows, or that it is too short to show one."""

from __future__ import annotations

import math

import numpy as np
import pytest

from continuized.network.result import NetworkResult, Trace


def rate(t: np.ndarray, error: np.ndarray, tol: float = 1e-6) -> float:
    end = {"x": np.zeros(2), "method": "plain", "messages": 0, "reached": True}
    trace = Trace(t, np.zeros(len(t)), error)
    result = NetworkResult(**end, t=t[-1], tol=tol, error=error[-1], trace=trace, rounding=1e-30)
    return result.rate_measured


# Of real nodes on cycle:6, whose rate is 0.15: the first two gave 1.7e-15 and -1.3e-3, for the
# nodes are silent after tol, and the third 0.10 from rows on both sides of it.
REAL = {
    "silent": (
        [0.0, 0.0, 16.7, 58.0, 113.9, 142.4, 142.4],
        [1.0, 1.0, 0.48, 6.9e-7, 1.3e-7, 1.3e-7, 1.3e-7],
    ),
    "rising": (
        [0.0, 0.0, 62.7, 124.7, 188.4, 188.4, 188.4],
        [1.0, 1.0, 1.9e-5, 2.98e-11, 3.24e-11, 3.24e-11, 3.24e-11],
    ),
    "few": (
        [0.0, 0.0, 24.1, 67.4, 110.8, 195.8, 199.2, 199.2],
        [1.0, 1.0, 0.48, 1.6e-5, 8.3e-9, 1.2e-12, 1.2e-12, 1.2e-12],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REAL)
def test_a_short_real_run_has_no_rate(name: str) -> None:
    t, error = REAL[name]
    assert math.isnan(rate(np.array(t), np.array(error)))


def test_an_error_that_hardly_moves_has_no_rate() -> None:
    t = np.arange(100.0)
    assert math.isnan(rate(t, np.exp(-0.02 * t)))  # in the second half, a factor of e
    assert rate(t, np.exp(-0.1 * t)) == pytest.approx(0.1)
    assert rate(t, np.exp(0.1 * t)) == pytest.approx(-0.1)  # divergence is measured


def test_the_silence_after_tol_is_no_part_of_the_rate() -> None:
    t = np.arange(100.0)
    assert rate(t, np.maximum(np.exp(-0.5 * t), 1e-6), tol=1e-6) == pytest.approx(0.5, rel=0.02)
