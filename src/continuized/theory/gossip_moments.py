"""Exact second moments of gossip: E |x_t - mean|^2 with no sampling.

With u = x - mean, w = z - mean and b_e = e_i - e_j, the moments A = E uu^T, B = E uw^T and
C = E ww^T, summed over the columns of x, obey the linear system

    A' = -gamma (Lambda A + A Lambda)          + gamma^2 S      + theta (B + B^T - 2A)
    B' = -gamma Lambda B - gamma' A Lambda     + gamma gamma' S + theta (A + C - 2B)
    C' = -gamma' (Lambda B + B^T Lambda)       + gamma'^2 S     + theta (B + B^T - 2C)

where gamma = 1/2 and S = sum_e P_e (b_e^T A b_e) b_e b_e^T, of 3 n^2 unknowns.  For plain gossip
w = u, and the first line, with theta = 0, is all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graph import Graph
from continuized.network.methods import Gossip
from continuized.network.rules import Constants
from continuized.network.spectrum import laplacian
from continuized.problems.base import Array
from continuized.theory.checks import checked_times
from continuized.theory.gossip_bounds import centred, checked_graph
from continuized.theory.moment_maps import Moments

RTOL, ATOL = 1e-11, 1e-14  # the latter in units of the largest moment
LARGEST = 400  # nodes
MAX_STEPS = 1_000_000
CHUNK = 4.0  # times 1/theta: moments are rescaled this often, lest they decay below ATOL


def gossip_moments(
    graph: Any, method: Gossip, x0: ArrayLike, times: ArrayLike | None, sigma2: float = 0.0
) -> Moments:
    """E |x_t - mean|^2 in `fun`, E |z_t - mean|^2 in `z2`, and a column to a node in xx, xz, zz.

    Relative accuracy about 1e-9.  For at most 400 nodes; the time grows with times[-1].
    """
    g = checked_graph(graph)
    if times is None:
        raise ValueError("the moments of gossip are for fixed times: give times, not k=")
    if sigma2 > 0.0:
        raise ValueError("gossip draws no gradients: sigma2 must be 0")
    if g.nodes > LARGEST:
        raise ValueError(f"exact moments are for at most {LARGEST} nodes, the graph has {g.nodes}")
    t = np.atleast_1d(checked_times(times, "times", ordered=True))
    u = centred(g, x0)
    constants = method.constants(g)
    first = u @ u.T
    m = np.stack([first] * 3) if method.accelerated else first[None]
    slope = accelerated_slope(g, constants) if method.accelerated else plain_slope(g, constants)
    chunk = CHUNK / (constants.theta if method.accelerated else 0.5 * g.mu_g)
    rows = np.empty((len(t), 3, g.nodes))
    for k, value in enumerate(_integrated(slope, m, t, chunk)):
        rows[k] = np.diagonal(value, axis1=1, axis2=2)
    xx, xz, zz = rows[:, 0], rows[:, 1], rows[:, 2]
    return Moments(t, None, xx.sum(axis=1), zz.sum(axis=1), xx, xz, zz)


def _integrated(slope: Callable[[Array], Array], m: Array, times: Array, chunk: float) -> Any:
    """The moments at increasing times, one after the other."""
    from scipy.integrate import ode

    now, unit = 0.0, float(np.abs(m).max()) or 1.0
    shape = m.shape

    def flat(t: float, y: Array) -> Array:
        return slope(y.reshape(shape)).reshape(-1)

    for stop in times.tolist():
        while now < stop:
            end = min(now + chunk, stop)
            solver = ode(flat).set_integrator("dop853", rtol=RTOL, atol=ATOL, nsteps=MAX_STEPS)
            solver.set_initial_value((m / unit).ravel(), now)
            m = solver.integrate(end).reshape(shape) * unit
            if not solver.successful():
                raise ArithmeticError(f"the moments could not be integrated up to t = {end:.6g}")
            m = _beside_constants(m)  # where rounding errors would stay for ever
            now, unit = end, float(np.abs(m).max()) or 1.0
        yield m


def _beside_constants(m: Array) -> Array:
    """Rows and columns of every matrix made to sum to 0; A and C stay symmetric to the last bit.

    The slopes take that for granted: an antisymmetric part would not decay.
    """
    m = m - m.mean(axis=1, keepdims=True)
    m = m - m.mean(axis=2, keepdims=True)
    m[::2] = 0.5 * (m[::2] + m[::2].transpose(0, 2, 1))
    return np.asarray(m)


def _jumps(graph: Graph) -> Callable[[Array], Array]:
    """A -> S, which is the Laplacian of the rates P_e (b_e^T A b_e)."""
    i, j = graph.edges.T
    ends = graph.edges.ravel()

    def spread(A: Array) -> Array:
        rates = graph.P * (A[i, i] + A[j, j] - 2.0 * A[i, j])
        S = np.zeros_like(A)
        S[i, j] = S[j, i] = -rates
        np.fill_diagonal(S, np.bincount(ends, np.repeat(rates, 2)))
        return S

    return spread


def plain_slope(graph: Graph, constants: Constants) -> Callable[[Array], Array]:
    """The first line alone."""
    gamma = constants.gamma
    Lambda, spread = laplacian(graph.nodes, graph.edges, graph.P), _jumps(graph)

    def slope(m: Array) -> Array:
        pull = gamma * (Lambda @ m[0])
        return np.asarray(gamma * gamma * spread(m[0]) - pull - pull.T)[None]

    return slope


def accelerated_slope(graph: Graph, constants: Constants) -> Callable[[Array], Array]:
    """All three lines."""
    Lambda, spread = laplacian(graph.nodes, graph.edges, graph.P), _jumps(graph)
    theta, gamma, gamma_prime = constants

    def slope(m: Array) -> Array:
        A, B, C = m
        S = spread(A)
        LA, LB = Lambda @ A, Lambda @ B
        both = theta * (B + B.T)
        out = np.empty_like(m)
        out[0] = gamma * gamma * S - gamma * (LA + LA.T) + both - 2.0 * theta * A
        out[1] = gamma * gamma_prime * S - gamma * LB - gamma_prime * LA.T
        out[1] += theta * (A + C - 2.0 * B)
        out[2] = gamma_prime**2 * S - gamma_prime * (LB + LB.T) + both - 2.0 * theta * C
        return out

    return slope
