"""Exact second moments of exchanges over edges: the system that gossip and the dual share.

u and w are x and z about their limit, b_e = e_i - e_j for the edge ij, and when it rings,
u -= gamma b_e b_e^T K u and w -= gamma' b_e b_e^T K u: for gossip K is the identity, for the dual
method it takes y to the guesses.  The moments A = E uu^T, B = E uw^T and C = E ww^T obey

    A' = -gamma (Lambda K A + A K Lambda)      + gamma^2 S      + theta (B + B^T - 2A)
    B' = -gamma Lambda K B - gamma' A K Lambda + gamma gamma' S + theta (A + C - 2B)
    C' = -gamma' (Lambda K B + B^T K Lambda)   + gamma'^2 S     + theta (B + B^T - 2C)

where S = sum_e P_e b_e (b_e^T K A K b_e) b_e^T.  With theta = 0 and gamma' = gamma, w = u, and the
first line is all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from continuized.network.rules import Constants
from continuized.problems.base import Array

RTOL, ATOL = 1e-11, 1e-14  # the latter in units of the largest moment
MAX_STEPS = 1_000_000
CHUNK = 4.0  # times 1/rate: moments are rescaled this often, lest they decay below ATOL
LEAST_FALL = 1e-3  # of the largest moment in a chunk; where it falls further, chunks are shorter


class Exchanges(NamedTuple):
    """How the edges act on moments, A -> Lambda K A and A -> S; the entries of u for a node."""

    pull: Callable[[Array], Array]
    spread: Callable[[Array], Array]
    dim: int = 1


def exchange_moments(
    by: Exchanges, constants: Constants, accelerated: bool, first: Array, times: Array, rate: float
) -> Iterator[Array]:
    """(A, B, C) at increasing times, or (A,) for a plain method; first: A at time 0, where w = u.

    The sums of u and w over the nodes are 0; rate: about that at which A decays.
    """
    slope = accelerated_slope(by, constants) if accelerated else plain_slope(by, constants)
    m = np.stack([first] * (3 if accelerated else 1))
    return _integrated(slope, m, times, CHUNK / rate, by.dim)


def _integrated(
    slope: Callable[[Array], Array], m: Array, times: Array, chunk: float, dim: int
) -> Iterator[Array]:
    """The moments at increasing times, one after the other."""
    now = 0.0
    for stop in times.tolist():
        while now < stop and m.any():
            end = stop if stop - now < 1.01 * chunk else now + chunk  # no crumbs
            found = _solved(slope, m, now, end)
            if np.abs(found).max() < LEAST_FALL * np.abs(m).max():
                chunk = 0.5 * (end - now)  # they fall faster than was thought
                continue
            now, m = end, _beside_constants(found, dim)  # where rounding errors would stay
        yield m


def _solved(slope: Callable[[Array], Array], m: Array, begin: float, end: float) -> Array:
    from scipy.integrate import ode

    shape, unit = m.shape, float(np.abs(m).max())

    def flat(t: float, y: Array) -> Array:
        return slope(y.reshape(shape)).reshape(-1)

    solver = ode(flat).set_integrator("dop853", rtol=RTOL, atol=ATOL, nsteps=MAX_STEPS)
    solver.set_initial_value((m / unit).ravel(), begin)
    found = solver.integrate(end).reshape(shape) * unit
    if not solver.successful():
        raise ArithmeticError(f"the moments could not be integrated up to t = {end:.6g}")
    return np.asarray(found)


def _beside_constants(m: Array, dim: int) -> Array:
    """Rows and columns of every matrix made to sum to 0 over the nodes, A and C made symmetric.

    What rounding leaves of the rest does not decay.
    """
    shape = m.shape
    m = m.reshape(len(m), -1, dim, shape[1])
    m = (m - m.mean(axis=1, keepdims=True)).reshape(*shape[:2], -1, dim)
    m = (m - m.mean(axis=2, keepdims=True)).reshape(shape)
    m[::2] = _symmetric(m[::2])
    return np.asarray(m)


def _symmetric(m: Array) -> Array:
    """Of A and C the slopes see no more: with K, a part that is not symmetric would grow."""
    return np.asarray(0.5 * (m + np.swapaxes(m, -1, -2)))


def plain_slope(by: Exchanges, constants: Constants) -> Callable[[Array], Array]:
    """The first line alone."""
    gamma = constants.gamma

    def slope(m: Array) -> Array:
        A = _symmetric(m[0])
        pull = gamma * by.pull(A)
        return np.asarray(gamma * gamma * by.spread(A) - pull - pull.T)[None]

    return slope


def accelerated_slope(by: Exchanges, constants: Constants) -> Callable[[Array], Array]:
    """All three lines."""
    theta, gamma, gamma_prime = constants

    def slope(m: Array) -> Array:
        (A, C), B = _symmetric(m[::2]), m[1]
        S = by.spread(A)
        LA, LB = by.pull(A), by.pull(B)
        both = theta * (B + B.T)
        out = np.empty_like(m)
        out[0] = gamma * gamma * S - gamma * (LA + LA.T) + both - 2.0 * theta * A
        out[1] = gamma * gamma_prime * S - gamma * LB - gamma_prime * LA.T
        out[1] += theta * (A + C - 2.0 * B)
        out[2] = gamma_prime**2 * S - gamma_prime * (LB + LB.T) + both - 2.0 * theta * C
        return out

    return slope
