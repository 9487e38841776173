"""Second moments at the k-th event, where the state depends on T_k.

Let mu_k(t) dt = E[moments after event k; T_k in dt].  Between events the moments flow and
thin out, nu_k' = (F_t - 1) nu_k + mu_k, and mu_{k+1} = J_t nu_k + n_t P(N_t = k), so that
E[moments at event k] = int mu_k(t) dt.  F does not depend on the coordinate: the ODE is solved
on panels of Chebyshev points, by one matrix to a panel that serves all coordinates and all k.

An event is applied as a linear map of (u, w), not as a sum of changes: where it takes all of u
away, nothing of rounding's size stays.
"""

from __future__ import annotations

import math

import numpy as np

from continuized.problems.base import Array
from continuized.process.clock import Unit
from continuized.process.methods import Continuized, Method, SharpContinuized, check_method
from continuized.support.progress import Bar
from continuized.theory.moments.integrate import PERCENT
from continuized.theory.moments.pair import PairMoments, Rates, flow_matrix, jump_noise, rates_of

Number = float | Array
Map = tuple[Number, Number, Number, Number]  # u <- p u + q w, w <- r u + s w, as (p, q, r, s)

DEGREE = 20  # of the polynomial on a panel
LONGEST_PANEL = 2.0  # e^{4t} on it is resolved to 1e-12
MOST_IN_TAIL = 1e-13  # what the last panel may hold of a moment
MOST_ATTEMPTS = 8  # to find where the last panel is
MOST_NUMBERS = 2**27  # in memory at once
MOST_PAIRS = 1e8  # of an event and a panel, of few coordinates: an hour or so
MANY_COORDINATES = 20  # with which a pair takes twice as long
SHOW_EVERY = 20  # events


def moments_at_events(
    method: Method, lam: Array, start: Array, last: int, variance: float, show: Bar
) -> Array:
    """The moments at events 0, ..., last; shape (last + 1, 3, dim).  show: told the percentage.

    start: the pair moments at time 0, of shape (3, dim).

    Raises ValueError where it would not end.
    """
    if isinstance(check_method(method).clock(), Unit):  # it counts iterations
        return _iterate(method, lam, start, last, variance, show)
    is_exponential = isinstance(method, Continuized) and method.start == math.inf
    if is_exponential or isinstance(method, SharpContinuized):
        return _resolvent_powers(rates_of(method), lam, start, last, variance, show)
    most = math.isqrt(int(MOST_PAIRS / (1.0 + len(lam) / MANY_COORDINATES)))
    if last > most:
        raise ValueError(
            f"the moments at event {last} would take hours, for their work grows as k^2; ask for k "
            f"up to {most}, or for times="
        )
    # Where the moments decay quickly, the rare large T_k may carry them: look further then.
    end = last + 12.0 * math.sqrt(last) + 60.0
    for _ in range(MOST_ATTEMPTS):
        grid = _Grid(rates_of(method), _edges(method, last, end))
        before = _flow_from_start(method, grid.t, start)
        width = max(1, MOST_NUMBERS // (9 * grid.t.size))
        pieces = [
            _follow_density(
                grid,
                lam[i : i + width],
                start[:, i : i + width],
                before[..., i : i + width],
                last,
                variance,
                show,
            )
            for i in range(0, len(lam), width)
        ]
        if max((tail for _, tail in pieces), default=0.0) <= MOST_IN_TAIL:
            return np.concatenate([np.zeros((last + 1, 3, 0)), *(m for m, _ in pieces)], axis=2)
        end *= 1.4
    raise ArithmeticError(f"the moments at event {last} are carried by times beyond {end:.6g}")


def apply(linear: Map, m: PairMoments) -> PairMoments:
    """The second moments after a linear map of (u, w)."""
    p, q, r, s = linear
    uu, uw, ww = m
    return np.stack(
        [
            p * p * uu + 2.0 * p * q * uw + q * q * ww,
            p * r * uu + (p * s + q * r) * uw + q * s * ww,
            r * r * uu + 2.0 * r * s * uw + s * s * ww,
        ]
    )


def jump_map(gamma: Number, gamma_prime: Number, lam: Array) -> Map:
    """A gradient step on 1/2 lambda u^2: u <- u - gamma lambda u, w <- w - gamma' lambda u."""
    return 1.0 - gamma * lam, 0.0, -gamma_prime * lam, 1.0


def _tell(show: Bar, k: int, last: int) -> None:
    if k % SHOW_EVERY == 0:
        show(int(PERCENT * k / last), f"event {k} of {last}")


def _iterate(method: Method, lam: Array, m: Array, last: int, variance: float, show: Bar) -> Array:
    """Discrete methods: mix and jump, k = 0, ..., last."""
    rows, carry = [m], method.init(0.0).carry
    for k in range(1, last + 1):
        a, b, step, step_prime, carry = method.coefficients(k, k - 1.0, float(k), 1.0, carry)
        _tell(show, k, last)
        m = apply((1.0 - a, a, b, 1.0 - b), m)
        m = apply(jump_map(step, step_prime, lam), m)
        m = m + (variance * jump_noise(step, step_prime))[:, None]
        rows.append(m)
    return np.stack(rows)


def _resolvent_powers(
    rate: Rates, lam: Array, m: Array, last: int, variance: float, show: Bar
) -> Array:
    """Constant parameters: over an Exp(1) gap the flow's mean is (1 - F)^{-1}."""
    step, step_prime = rate.gamma(0.0), rate.gamma_prime(0.0)
    resolvent = np.linalg.inv(np.eye(3) - flow_matrix(rate.eta(0.0), rate.eta_prime(0.0)))
    rows = [m]
    for k in range(1, last + 1):
        _tell(show, k, last)
        m = apply(jump_map(step, step_prime, lam), resolvent @ m)
        m = m + (variance * jump_noise(step, step_prime))[:, None]
        rows.append(m)
    return np.stack(rows)


def _edges(method: Method, last: int, end: float) -> Array:
    """Panels over [0, end]; graded near 0 if the flow has a small scale there."""
    # The density of T_k grows as e^{(k/t) t}: early times, which count where the moments decay
    # quickly, need panels half as long.
    quarter = 0.25 * last
    early = np.linspace(0.0, quarter, math.ceil(2.0 * quarter / LONGEST_PANEL) + 1)[:-1]
    late = np.linspace(quarter, end, math.ceil((end - quarter) / LONGEST_PANEL) + 1)
    edges = np.concatenate([early, late])
    start = method.start if isinstance(method, Continuized) else 0.0
    if start and start < LONGEST_PANEL:
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
        inner, carry = [], []
        for t, h in zip(self.t, half[:, 0], strict=True):
            # Unknowns: nu at points 1..n, each a 3-vector.
            system = np.kron(differentiate[1:, 1:] / h, np.eye(3))
            eta, eta_prime = ([scalar(s) for s in t[1:].tolist()] for scalar in rate[:2])
            for i, F in enumerate(flow_matrix(eta, eta_prime)):
                block = slice(3 * i, 3 * i + 3)
                system[block, block] -= F - np.eye(3)
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


def _follow_density(
    grid: _Grid, lam: Array, start: Array, before: Array, last: int, variance: float, show: Bar
) -> tuple[Array, float]:
    """The moments at events 0, ..., last, and the share that the last panel has in the last.

    before: the moments at the times of the grid where no event has come yet.
    """
    t = grid.t
    steps = np.array([grid.rate.gamma(s) for s in t.ravel().tolist()]).reshape(t.shape)
    steps_prime = np.array([grid.rate.gamma_prime(s) for s in t.ravel().tolist()]).reshape(t.shape)
    jump = jump_map(steps[..., None], steps_prime[..., None], lam)
    push = variance * np.moveaxis(jump_noise(steps, steps_prime), 0, -1)[..., None]
    rows, tail = [start], 0.0
    nu = np.exp(-t)[..., None, None] * before
    for k in range(last):
        _tell(show, k, last)
        mu = np.moveaxis(apply(jump, np.moveaxis(nu, 2, 0)), 0, 2)
        if variance > 0.0:
            mu += push * _poisson(k, t)[..., None, None]
        rows.append(np.einsum("pi,picd->cd", grid.weights, mu))
        if k + 1 < last:
            nu = grid.solve(mu)
        else:
            tail = _share(np.einsum("i,icd->cd", grid.weights[-1], mu[-1]), rows[-1])
    return np.stack(rows), tail


def _flow_from_start(method: Method, t: Array, start: Array) -> Array:
    """The moments at times t without an event, of shape (*t.shape, 3, dim)."""
    if np.array_equal(start[0], start[1]) and np.array_equal(start[1], start[2]):
        # x = z stands still, whatever eta(0).
        return np.broadcast_to(start, (*t.shape, *start.shape))
    weights = [method.flow(0.0, s, s) for s in t.ravel().tolist()]
    a, b = np.array(weights).T.reshape(2, *t.shape, 1)
    return np.moveaxis(apply((1.0 - a, a, b, 1.0 - b), start), 0, -2)


def _share(part: Array, whole: Array) -> float:
    """The largest part / whole of u^2 and w^2 (uw may cancel)."""
    part, whole = part[[0, 2]], whole[[0, 2]]
    return float(np.max(part[whole > 0.0] / whole[whole > 0.0], initial=0.0))


def _poisson(k: int, t: Array) -> Array:
    """Return P(N_t = k)."""
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
