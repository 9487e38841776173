"""The iterates are the process: an independent integration of the paper's equations.

The rates are written here once more, from the paper and from sinh and cosh themselves, and
integrated by SciPy; nothing of the library's formulas is used.  In 3 dimensions, and in 40 and 200,
where the compiled loops run in SIMD lanes and end in the middle of one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import solve_ivp

import continuized as cz

L, MU = 2.0, 0.1
DIMENSIONS = (3, 40, 200)
EVENTS = 30
TOLERANCE = 1e-10

CASES = [(0.0, 0.0), (0.0, 0.3), (0.0, 5.0), (MU, 0.0), (MU, 0.3), (MU, 5.0), (MU, math.inf)]


@cache
def data(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues from mu to L, x_star, and x0."""
    if d == 3:
        return np.array([0.1, 0.7, 2.0]), np.array([1.0, -1.0, 0.5]), np.array([0.2, 0.4, -3.0])
    rng = np.random.default_rng(d)
    return np.geomspace(MU, L, d), rng.uniform(-1.0, 1.0, d), rng.uniform(-3.0, 3.0, d)


@cache
def rotation(d: int) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]


def rates(mu: float, start: float) -> Any:
    """t -> (eta, eta', gamma, gamma'), from A and B (the paper's appendix B)."""

    def at(t: float) -> tuple[float, float, float, float]:
        if mu == 0.0:
            root_A, root_B = (t + start) / math.sqrt(2.0 * L), 1.0
        elif start == math.inf:
            root_A, root_B = 1.0, math.sqrt(mu / 2.0)  # only their ratio matters
        else:
            u = math.sqrt(mu / L) * (t + start) / 2.0
            root_A, root_B = math.sqrt(2.0 / mu) * math.sinh(u), math.cosh(u)
        ratio = root_A / root_B
        return (
            math.sqrt(2.0 / L) / ratio,
            mu * ratio / math.sqrt(2.0 * L),
            1.0 / L,
            ratio / math.sqrt(2.0 * L),
        )

    return at


@cache
def integrated_path(
    mu: float, start: float, times: tuple[float, ...], d: int
) -> tuple[np.ndarray, np.ndarray]:
    """The states (x_k, z_k) after every event, by a Runge-Kutta method with tight tolerances."""
    at, (eigenvalues, x_star, x0) = rates(mu, start), data(d)

    def mixing(t: float, state: np.ndarray) -> np.ndarray:
        eta, eta_prime, _, _ = at(t)
        x, z = state[:d], state[d:]
        return np.concatenate([eta * (z - x), eta_prime * (x - z)])

    state = np.concatenate([x0, x0])
    xs, zs, t0 = [x0], [x0], 0.0
    for t in times:
        if t0 + start > 0.0:  # at start = 0, x joins z at once, and stays there
            settings = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
            state = solve_ivp(mixing, (t0, t), state, **settings).y[:, -1]
        _, _, gamma, gamma_prime = at(t)
        g = eigenvalues * (state[:d] - x_star)
        state = state - np.concatenate([gamma * g, gamma_prime * g])
        xs.append(state[:d])
        zs.append(state[d:])
        t0 = t
    return np.array(xs), np.array(zs)


def distance(method: Any, mu: float, start: float, problem: Any, d: int) -> float:
    x0 = data(d)[2]
    r = cz.minimize(problem, x0, method=method, rng=11, maxiter=EVENTS, record="path")
    xs, zs = integrated_path(mu, start, tuple(r.trace.t[1:]), d)
    return float(max(np.max(np.abs(r.path.x - xs)), np.max(np.abs(r.path.z - zs))))


def compiled(d: int) -> Any:
    return cz.problems.Quadratic(*data(d)[:2])


def python(d: int) -> Any:
    eigenvalues, x_star, _ = data(d)
    return cz.Problem(
        lambda x: 0.5 * np.sum(eigenvalues * (x - x_star) ** 2),
        lambda x: eigenvalues * (x - x_star),
    )


every_dimension = pytest.mark.parametrize("d", DIMENSIONS)


@every_dimension
@pytest.mark.parametrize("problem", [compiled, python])
@pytest.mark.parametrize(("mu", "start"), CASES)
def test_iterates_equal_an_integration_with_jumps(
    mu: float, start: float, problem: Callable[[int], Any], d: int
) -> None:
    assert distance(cz.Continuized(L, mu, start), mu, start, problem(d), d) < TOLERANCE


@every_dimension
@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(("mu", "start"), CASES)
def test_iterates_on_a_regression_do_so_in_its_eigenvectors(
    mu: float, start: float, is_sparse: bool, d: int
) -> None:
    """X'X/n has the eigenvalues of the quadratic and the eigenvectors V: the process is that of the
    quadratic, rotated.  Rounding in sums of 200 products, at a condition number of 20, is far below
    the tolerance."""
    eigenvalues, x_star, x0 = data(d)
    V = rotation(d)
    X = math.sqrt(d) * np.sqrt(eigenvalues)[:, None] * V.T
    y = X @ (V @ x_star)
    p = cz.problems.LeastSquares(sparse.csr_array(X) if is_sparse else X, y)
    method = cz.Continuized(L, mu, start)
    r = cz.minimize(p, V @ x0, method=method, rng=11, maxiter=EVENTS, record="path")
    xs, zs = integrated_path(mu, start, tuple(r.trace.t[1:]), d)
    for found, expected in ((r.path.x, xs), (r.path.z, zs)):
        assert np.max(np.abs(found @ V - expected)) < TOLERANCE


class Slip(cz.Continuized):
    """Theorem 4 as it is printed: gamma' at T_k, the event before, instead of T_{k+1}."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Any:
        a, b, gamma, _, carry = super().coefficients(k, t0, t, dt, carry)
        before = super().coefficients(k, t0, t0, 0.0, carry)
        return a, b, gamma, before[3], carry


class NotSimultaneous(cz.Continuized):
    """z mixed with the x that is mixed already."""

    def coefficients(self, k: int, t0: float, t: float, dt: float, carry: float) -> Any:
        a, b, gamma, gamma_prime, carry = super().coefficients(k, t0, t, dt, carry)
        return a, b * (1.0 - a), gamma, gamma_prime, carry


@every_dimension
@pytest.mark.parametrize("problem", [compiled, python])
@pytest.mark.parametrize(("mu", "start"), [c for c in CASES if c[1] < math.inf])
def test_the_papers_slip_fails_the_comparison(
    mu: float, start: float, problem: Callable[[int], Any], d: int
) -> None:
    assert distance(Slip(L, mu, start), mu, start, problem(d), d) > 1e-6


@every_dimension
@pytest.mark.parametrize(("mu", "start"), [c for c in CASES if c[0] > 0.0])
def test_a_mixing_that_is_not_simultaneous_fails_it(mu: float, start: float, d: int) -> None:
    assert distance(NotSimultaneous(L, mu, start), mu, start, compiled(d), d) > 1e-6


@every_dimension
def test_custom_parameters_give_the_same_process(d: int) -> None:
    for mu, start in ((0.0, 0.3), (MU, 0.3), (MU, math.inf)):
        at = rates(mu, start)
        own = cz.CustomContinuized(*(lambda t, i=i, at=at: at(t)[i] for i in range(4)))
        assert distance(own, mu, start, compiled(d), d) < TOLERANCE


def test_between_events_too() -> None:
    method = cz.Continuized(L, MU, 0.3)
    r = cz.minimize(compiled(3), data(3)[2], method=method, rng=11, maxiter=10, record="path")
    at = rates(MU, 0.3)
    for k in range(10):
        t0, t1 = r.trace.t[k], r.trace.t[k + 1]
        t = t0 + 0.37 * (t1 - t0)
        solution = solve_ivp(
            lambda s, y: [at(s)[0] * (y[1] - y[0]), at(s)[1] * (y[0] - y[1])],
            (t0, t),
            [r.path.x[k][2], r.path.z[k][2]],
            method="DOP853",
            rtol=1e-13,
            atol=1e-14,
        )
        x, z = r.at(t)
        assert (x[2], z[2]) == pytest.approx(tuple(solution.y[:, -1]), abs=TOLERANCE)
