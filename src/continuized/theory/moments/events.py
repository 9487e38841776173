"""Second moments at the k-th event, where the state depends on T_k.

Let mu_k(t) dt = E[moments after event k; T_k in dt].  Between events the moments flow and
thin out, nu_k' = (F_t - 1) nu_k + mu_k, and mu_{k+1} = J_t nu_k + n_t P(N_t = k), so that
E[moments at event k] = int mu_k(t) dt.  F does not depend on the coordinate: the ODE is solved
on panels of Chebyshev points, by one matrix to a panel that serves all coordinates and all k.
"""

from __future__ import annotations

import math

import numpy as np

from continuized.problems.base import Array
from continuized.process.methods import Continuized, Method
from continuized.theory.moments.pair import Rates, apply, flow_matrix, jump_map, jump_noise, rates

DEGREE = 20  # of the polynomial on a panel
PANEL = 2.0  # its longest length: e^{4t} on it is resolved to 1e-12
TAIL = 1e-13  # what the last panel may hold of a moment
LONGEST = 8  # attempts to find where the last panel is
LARGEST = 2**27  # numbers in memory at once


def at_events(method: Method, lam: Array, u0: Array, last: int, variance: float) -> Array:
    """The moments at events 0, ..., last; shape (last + 1, 3, dim)."""
    if isinstance(method, Continuized) and method.start == math.inf:
        return _resolvent_powers(rates(method), lam, u0, last, variance)
    # Where the moments decay quickly, the rare large T_k may carry them: look further then.
    end = last + 12.0 * math.sqrt(last) + 60.0
    for _ in range(LONGEST):
        grid = _Grid(rates(method), _edges(method, last, end))
        width = max(1, LARGEST // (9 * grid.t.size))
        pieces = [
            _levels(grid, lam[i : i + width], u0[i : i + width], last, variance)
            for i in range(0, len(lam), width)
        ]
        if max((tail for _, tail in pieces), default=0.0) <= TAIL:
            return np.concatenate([np.zeros((last + 1, 3, 0)), *(m for m, _ in pieces)], axis=2)
        end *= 1.4
    raise ArithmeticError(f"the moments at event {last} are carried by times beyond {end:.6g}")


def _resolvent_powers(rate: Rates, lam: Array, u0: Array, last: int, variance: float) -> Array:
    """Constant parameters: over an Exp(1) gap the flow's mean is (1 - F)^{-1}."""
    step, step_prime = rate.gamma(0.0), rate.gamma_prime(0.0)
    resolvent = np.linalg.inv(np.eye(3) - flow_matrix(rate, 0.0))
    m = np.stack([u0, u0, u0])
    rows = [m]
    for _ in range(last):
        m = apply(jump_map(step, step_prime, lam), resolvent @ m)
        m = m + (variance * jump_noise(step, step_prime))[:, None]
        rows.append(m)
    return np.stack(rows)


def _edges(method: Method, last: int, end: float) -> Array:
    """Panels over [0, end]; graded near 0 if the flow has a small scale there."""
    # The density of T_k grows as e^{(k/t) t}: early times, which count where the moments decay
    # quickly, need panels half as long.
    quarter = 0.25 * last
    early = np.linspace(0.0, quarter, math.ceil(2.0 * quarter / PANEL) + 1)[:-1]
    late = np.linspace(quarter, end, math.ceil((end - quarter) / PANEL) + 1)
    edges = np.concatenate([early, late])
    start = method.start if isinstance(method, Continuized) else 0.0
    if start and start < PANEL:
        n = math.ceil(math.log2(edges[1] / start))
        edges = np.concatenate([[0.0], edges[1] * 2.0 ** np.arange(-n, 0.0), edges[1:]])
    return edges


class _Grid:
    """Chebyshev points on panels, with the solution operators of nu' = (F - 1) nu + mu.

    t: (panels, points), the left edge first.  `inner` maps mu at the other points to nu there,
    `carry` maps nu at the left edge to nu at the other points.
    """

    def __init__(self, rate: Rates, edges: Array) -> None:
        points, differentiate, weights = _chebyshev(DEGREE)
        half = 0.5 * np.diff(edges)[:, None]
        self.rate = rate
        self.t = edges[:-1, None] + half * (1.0 + points)
        self.t[:, -1] = edges[1:]
        self.weights = half * weights
        n = DEGREE
        inner, carry = [], []
        for t, h in zip(self.t, half[:, 0], strict=True):
            # Unknowns: nu at points 1..n, each a 3-vector.
            system = np.kron(differentiate[1:, 1:] / h, np.eye(3))
            for i in range(n):
                block = slice(3 * i, 3 * i + 3)
                system[block, block] -= flow_matrix(rate, float(t[i + 1])) - np.eye(3)
            inverse = np.linalg.inv(system)
            inner.append(inverse)
            carry.append(-inverse @ np.kron(differentiate[1:, :1] / h, np.eye(3)))
        self.inner, self.carry = np.stack(inner), np.stack(carry)

    def solve(self, mu: Array) -> Array:
        """nu for mu of shape (panels, points, 3, dim), from nu = 0 at t = 0."""
        panels, points, _, dim = mu.shape
        nu = np.zeros_like(mu)
        nu[:, 1:] = (self.inner @ mu[:, 1:].reshape(panels, -1, dim)).reshape(nu[:, 1:].shape)
        left = np.zeros((3, dim))
        for j in range(panels):
            nu[j, 0] = left
            nu[j, 1:] += (self.carry[j] @ left).reshape(points - 1, 3, dim)
            left = nu[j, -1]
        return nu


def _levels(grid: _Grid, lam: Array, u0: Array, last: int, variance: float) -> tuple[Array, float]:
    """The moments at events 0, ..., last, and the share that the last panel has in the last."""
    t = grid.t
    steps = np.array([grid.rate.gamma(s) for s in t.ravel().tolist()]).reshape(t.shape)
    steps_prime = np.array([grid.rate.gamma_prime(s) for s in t.ravel().tolist()]).reshape(t.shape)
    jump = jump_map(steps[..., None], steps_prime[..., None], lam)  # type: ignore[arg-type]
    push = variance * np.moveaxis(jump_noise(steps, steps_prime), 0, -1)[..., None]  # type: ignore[arg-type]
    start = np.stack([u0, u0, u0])
    rows, tail = [start], 0.0
    # Until the first event x = z stands still: nu_0 = e^{-t} m_0, whatever eta(0).
    nu = np.exp(-t)[..., None, None] * start
    for k in range(last):
        mu = np.moveaxis(apply(jump, np.moveaxis(nu, 2, 0)), 0, 2)
        if variance > 0.0:
            mu += push * _poisson(k, t)[..., None, None]
        rows.append(np.einsum("pi,picd->cd", grid.weights, mu))
        if k + 1 < last:
            nu = grid.solve(mu)
        else:
            tail = _share(np.einsum("i,icd->cd", grid.weights[-1], mu[-1]), rows[-1])
    return np.stack(rows), tail


def _share(part: Array, whole: Array) -> float:
    """The largest part / whole of u^2 and w^2 (uw may cancel)."""
    part, whole = part[[0, 2]], whole[[0, 2]]
    return float(np.max(part[whole > 0.0] / whole[whole > 0.0], initial=0.0))


def _poisson(k: int, t: Array) -> Array:
    """P(N_t = k)."""
    with np.errstate(divide="ignore"):
        power = k * np.log(t) if k else np.zeros_like(t)
    return np.exp(power - t - math.lgamma(k + 1.0))


def _chebyshev(n: int) -> tuple[Array, Array, Array]:
    """n + 1 Chebyshev points increasing over [-1, 1], their differentiation matrix, weights."""
    points = -np.cos(np.pi * np.arange(n + 1) / n)
    c = np.array([2.0, *[1.0] * (n - 1), 2.0]) * (-1.0) ** np.arange(n + 1)
    matrix = np.outer(c, 1.0 / c) / (points[:, None] - points + np.eye(n + 1))
    matrix -= np.diag(matrix.sum(axis=1))  # rows sum to zero: a constant has no slope
    # Clenshaw-Curtis: the weights integrate T_0, ..., T_n exactly.
    vandermonde = np.polynomial.chebyshev.chebvander(points, n).T
    integrals = np.array([0.0 if j % 2 else 2.0 / (1.0 - j * j) for j in range(n + 1)])
    return points, matrix, np.linalg.solve(vandermonde, integrals)
