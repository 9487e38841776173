"""Asynchronous workers: the exact rates, against the full second moments and against samples."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from continuized import Continuized, GradientDescent
from continuized.support.statistics import SampleMoments, mean_test
from examples.stale_gradients import (
    main,
    mean_square_rate,
    predict_multiplier,
    slowest_rate,
    study_workers,
)

pytestmark = pytest.mark.blas

ALPHA = 1e-6  # the false-alarm probability of each statistical test
Method = Continuized | GradientDescent


def constants(method: Method) -> tuple[float, float, float]:
    """eta, gamma, gamma'."""
    if isinstance(method, GradientDescent):
        return 0.0, 1.0 / method.L, 1.0 / method.L
    return math.sqrt(method.mu / method.L), 1.0 / method.L, 1.0 / math.sqrt(method.mu * method.L)


def full_map(method: Method, eigenvalue: float, workers: int, stale: bool) -> np.ndarray:
    """E[M x M] (Kronecker) over dt by quadrature and over the workers one by one."""
    eta, gamma, gamma_prime = constants(method)
    n = 2 + workers if stale else 2
    nodes, weights = np.polynomial.laguerre.laggauss(40)
    total = np.zeros((n * n, n * n))
    for j in range(workers if stale else 1):
        J, at = np.eye(n), 2 + j if stale else 0
        J[0, at] -= gamma * eigenvalue
        J[1, at] -= gamma_prime * eigenvalue
        if stale:
            J[2 + j] = J[0]
        for dt, weight in zip(nodes, weights, strict=True):
            F, a = np.eye(n), 0.5 * (1.0 - math.exp(-2.0 * eta * dt))
            F[:2, :2] = [[1.0 - a, a], [a, 1.0 - a]]
            total += weight * np.kron(J @ F, J @ F) / (workers if stale else 1)
    return total


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("stale", [True, False])
@pytest.mark.parametrize("method", [Continuized(2.0, 0.01), Continuized(40.0, 0.01)])
def test_seven_moments_have_the_radius_of_all(method: Method, workers: int, stale: bool) -> None:
    for eigenvalue in (0.01, 0.3, 1.0):
        radius = np.abs(np.linalg.eigvals(full_map(method, eigenvalue, workers, stale))).max()
        found = mean_square_rate(method, eigenvalue, workers, stale)
        assert found == pytest.approx(-math.log(radius), rel=1e-6, abs=1e-9)


def sampled(method: Method, workers: int, steps: int, runs: int) -> np.ndarray:
    """x^2 after some stale gradients with eigenvalue 1, x_0 = z_0 = 1, by the definition."""
    rng = np.random.default_rng(11)
    eta, gamma, gamma_prime = constants(method)
    x, z, points = np.ones(runs), np.ones(runs), np.ones((runs, workers))
    for _ in range(steps):
        a = 0.5 * (1.0 - np.exp(-2.0 * eta * rng.exponential(size=runs)))
        x, z = x + a * (z - x), z + a * (x - z)
        who = rng.integers(workers, size=runs)
        g = points[np.arange(runs), who]
        x, z = x - gamma * g, z - gamma_prime * g
        points[np.arange(runs), who] = x
    return np.asarray(x * x)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_second_moment_is_that_of_samples(workers: int) -> None:
    """At level ALPHA; one worker more, on the exact side, is caught."""
    method, steps = Continuized(4.0, 0.1), 5
    found = SampleMoments.of(sampled(method, workers, steps, 40_000)[:, np.newaxis])

    def exact(m: int) -> np.ndarray:
        start = np.ones((2 + m) ** 2)
        return np.linalg.matrix_power(full_map(method, 1.0, m, True), steps)[:1] @ start

    assert mean_test(found, exact(workers), ALPHA).passed
    mistaken = mean_test(found, exact(workers + 1), ALPHA)
    assert mistaken.usable
    assert not mistaken.passed


def test_the_verdicts() -> None:
    """The known facts: fresh gradients are accelerated; with two workers whose gradients are one
    event old, no L up to 32 times the true one is stable, while gradient descent is."""
    study = study_workers(1000.0, workers=[1, 2, 8])
    fresh, one, two, eight = study.verdicts
    assert fresh.survives
    assert fresh.accelerated > math.sqrt(1.0 / 1000.0)
    assert not any(verdict.survives for verdict in (one, two, eight))
    few = np.array(study.multipliers) <= 32.0
    assert np.all(study.accelerated[2, few] < 0.0)
    assert np.all(study.plain[2, few] > 0.0)
    assert study.accelerated[1, 0] < 0.0  # a point before mixing is stale enough
    assert two.plain == pytest.approx(0.002, rel=0.01)
    assert eight.accelerated < 0.0 < eight.plain
    assert "no multiple of L tried" in eight.sentence


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_limit_of_stability_is_predicted(workers: int) -> None:
    kappa = 2000.0
    predicted = predict_multiplier(kappa, workers)
    for factor, stable in ((0.94, False), (1.0, True)):
        method = Continuized(factor * predicted, 1.0 / kappa)
        assert (slowest_rate(method, 1.0 / kappa, 1.0, workers, True) > 0.0) == stable


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"kappa": 0.5}, "kappa must be a finite number >= 1, got 0.5"),
        ({"workers": [0]}, "workers must be integers >= 1"),
        ({"multipliers": []}, "multipliers must be finite numbers > 0"),
        ({"multipliers": [-1.0]}, "multipliers must be finite numbers > 0"),
    ],
)
def test_bad_input(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        study_workers(**arguments)


def test_the_script_prints_the_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    main(100.0)
    assert "stale gradients of 2 workers: acceleration gains nothing" in capsys.readouterr().out
