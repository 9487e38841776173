"""Exact second moments of exchanges over edges: the system that gossip and the dual share.

u and w are x and z about their limit, b_e = e_i - e_j for the edge ij, and when it rings,
u -= gamma b_e b_e^T K u and w -= gamma' b_e b_e^T K u: for gossip K is the identity, for the dual
method it takes y to the guesses.  The moments A = E uu^T, B = E uw^T and C = E ww^T obey

    A' = -gamma (Lambda K A + A K Lambda)      + gamma^2 S      + theta (B + B^T - 2A)
    B' = -gamma Lambda K B - gamma' A K Lambda + gamma gamma' S + theta (A + C - 2B)
    C' = -gamma' (Lambda K B + B^T K Lambda)   + gamma'^2 S     + theta (B + B^T - 2C)

where S = sum_e P_e b_e (b_e^T K A K b_e) b_e^T.  With theta = 0 and gamma' = gamma, w = u, and the
first line is all: A' = G A.  Multiplied by K^{1/2} from both sides, G is symmetric; S, which is
not negative, only shortens its steps, so that its eigenvalues are in [-2 gamma rho, 0], rho the
largest of Lambda K.  Then e^{tG} is a polynomial of a degree that grows as sqrt(t), not as t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from continuized.network.gossip import Constants
from continuized.problems.base import Array
from continuized.support.jit import jit

RTOL, ATOL = 1e-11, 1e-14  # the latter in units of the largest moment
MAX_STEPS = 1_000_000
FIRST_SPAN = 8.0  # times 1/rho: of the first polynomial, the later ones may be for longer
TERM = 1e-17  # of the largest moment: the last term of a polynomial
LEAST = 1e-3  # of the largest moment: from there on in new units, lest all decay below ATOL


class Exchanges(NamedTuple):
    """How the edges act on moments, A -> Lambda K A and A -> S; the entries of u for a node."""

    pull: Callable[[Array], Array]
    spread: Callable[[Array], Array]
    dim: int = 1


def exchange_moments(
    by: Exchanges, constants: Constants, accelerated: bool, first: Array, times: Array
) -> Iterator[Array]:
    """(A, B, C) at increasing times, or (A,) for a plain method; first: A at time 0, where w = u.

    The sums of u and w over the nodes are 0.
    """
    if accelerated:
        return _integrated(by, constants, np.stack([first] * 3), times)
    return _exponentials(by, constants, first[None], times)


def _exponentials(by: Exchanges, constants: Constants, m: Array, times: Array) -> Iterator[Array]:
    slope = plain_slope(by, constants)
    # A norm of Lambda K, which no eigenvalue exceeds; a pull is Lambda K A.
    radius = constants.gamma * float(np.linalg.norm(by.pull(np.eye(m.shape[1])), np.inf))
    now, span = 0.0, FIRST_SPAN / radius if radius > 0.0 else math.inf
    for stop in times.tolist():
        while now < stop and m.any():
            end = min(now + span, stop)
            found = exponential(slope, m, end - now, radius)
            fall = _largest(found) / _largest(m)
            if not math.isfinite(fall):
                raise ArithmeticError(f"the moments grow beyond all numbers up to t = {end:.6g}")
            if fall < LEAST:
                span = 0.5 * (end - now)
                continue
            if fall > math.sqrt(LEAST) and end < stop:
                span *= 2.0
            now, m = end, _beside_constants(found, by.dim)
        yield m


def exponential(slope: Callable[[Array], Array], m: Array, span: float, radius: float) -> Array:
    """e^{span G} m, where slope(m) = G m and the eigenvalues of G are in [-2 radius, 0].

    With h = span radius and x = 1 + G/radius, Chebyshev's e^{h(x-1)} = sum_k c_k T_k(x), where
    c_k = 2 e^{-h} I_k(h), half of it for k = 0.  For eigenvalues outside, more terms are taken.
    """
    from scipy.special import ive

    h, k = span * radius, 1
    before, now = m, m + slope(m) / radius
    total = ive(0, h) * before + 2.0 * ive(1, h) * now
    # Of two neighbours, for one T_k may be 0; the c_k shrink as e^{-k^2/(2h)}.
    while ive(k, h) * max(_largest(before), _largest(now)) > TERM * _largest(total):
        k, before, now = k + 1, now, 2.0 * (now + slope(now) / radius) - before
        total += 2.0 * ive(k, h) * now
    return np.asarray(total)


def _largest(m: Array) -> float:
    return float(np.abs(m).max())


def _integrated(by: Exchanges, constants: Constants, m: Array, times: Array) -> Iterator[Array]:
    slope, now = accelerated_slope(by, constants), 0.0
    for stop in times.tolist():
        while now < stop and m.any():
            now, m = _solved(slope, m, now, stop)
            m = _beside_constants(m, by.dim)
        yield m


def _solved(
    slope: Callable[[Array], Array], m: Array, begin: float, end: float
) -> tuple[float, Array]:
    """The time and the moments where all have fallen to LEAST of the largest, or at the end."""
    from scipy.integrate import ode

    shape, unit, fell = m.shape, _largest(m), False

    def flat(t: float, y: Array) -> Array:
        return slope(y.reshape(shape)).reshape(-1)

    def after_step(t: float, y: Array) -> int:
        nonlocal fell
        fell = _largest(y) < LEAST
        return -1 if fell else 0  # -1: no further

    solver = ode(flat).set_integrator("dop853", rtol=RTOL, atol=ATOL, nsteps=MAX_STEPS)
    solver.set_solout(after_step)
    solver.set_initial_value((m / unit).ravel(), begin)
    found = solver.integrate(end).reshape(shape) * unit
    if not solver.successful():
        raise ArithmeticError(f"the moments could not be integrated up to t = {end:.6g}")
    return (float(solver.t) if fell else end), np.asarray(found)


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

    def slope(m: Array) -> Array:
        A, B, C = _symmetric(m[0]), m[1], m[2]
        out = np.empty_like(m)
        _three_lines(*constants, A, B, C, by.spread(A), by.pull(A), by.pull(B), out)
        return out

    return slope


@jit
def _three_lines(
    theta: float, gamma: float, gamma_prime: float, A: Array, B: Array, C: Array, S: Array,
    LA: Array, LB: Array, out: Array,
) -> None:  # fmt: skip
    """In one sweep, which makes no arrays on the way."""
    for i in range(A.shape[0]):
        for j in range(A.shape[0]):
            a, s, b, b_T = A[i, j], S[i, j], B[i, j], B[j, i]
            c = 0.5 * (C[i, j] + C[j, i])
            out[0, i, j] = gamma * (gamma * s - LA[i, j] - LA[j, i]) + theta * (b + b_T - 2.0 * a)
            out[1, i, j] = (
                gamma_prime * (gamma * s - LA[j, i]) - gamma * LB[i, j] + theta * (a + c - 2.0 * b)
            )
            out[2, i, j] = gamma_prime * (gamma_prime * s - LB[i, j] - LB[j, i]) + theta * (
                b + b_T - 2.0 * c
            )
