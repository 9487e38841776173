"""How much delay accelerated gossip bears: predicted, to be held against simulation.

With a one-way delay `delay`, an exchange keeps its initiator for 4 delays (2 where it is refused)
and the other end for 2.  Two things follow.

1. Nodes are often busy.  With f_i the share of time that node i is free,

       f_i = 1 / (1 + sum_j P_ij (delay + 2 delay f_j)),

   taken as independent, the edge ij exchanges at the rate P_ij f_i f_j, and all together at the
   share c = sum P_ij f_i f_j of what the constants were made for.
2. The x that was sent is old: d = x_i - x_j with x_i a delay later than x_j.  Neither end does
   anything but mix meanwhile.

Per exchange of the directed edge e, the state y of all nodes changes by u_e d_e, d_e = v_e^T y.
With the rates r_e of 1 as those of a Poisson process, E y follows A = flow + sum_e r_e u_e v_e^T,
and the second moments q_e = E d_e^2 the renewal equation

    q_e = (decaying) + sum_f r_f  integral_0^t q_f(t - s) (v_e^T exp(A s) u_f)^2 ds.

Its matrix G_ef = r_f int (v_e^T exp(A s) u_f)^2 ds has entries >= 0: E |x - mean|^2 grows if and
only if its spectral radius, the gain, is 1 or more (or A is not stable).  When delays are long
against 1/theta, x = z at every exchange and the gain tends to (gamma + gamma') / 2.

That is a limit in mean square.  A typical run stays stable somewhat longer: the mean is carried
by rare ones.  `delay_study` and `simulated_limit` measure that.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from continuized.network.graph import Graph
from continuized.network.inputs import as_gossip
from continuized.network.methods import Gossip
from continuized.network.rules import Constants
from continuized.problems.base import Array
from continuized.words import brief, is_real

MOST_NODES = 64  # for the gain, whose cost grows as the cube
LONG = 5.0  # delays of so many 1/theta are as good as infinite
NEAR = 0.5  # of the limit
DIGITS = 1e-3  # relative, of the limit
MOST_STEPS = 1000


def free_shares(graph: Graph, delay: float) -> Array:
    """The share of time that each node is free."""
    i, j = graph.edges.T
    f = np.ones(graph.nodes)
    for _ in range(MOST_STEPS):
        to_j, to_i = graph.P * delay * (1.0 + 2.0 * f[j]), graph.P * delay * (1.0 + 2.0 * f[i])
        load = np.bincount(i, to_j, graph.nodes) + np.bincount(j, to_i, graph.nodes)
        following = 0.5 * (f + 1.0 / (1.0 + load))  # the map itself is decreasing: it would swing
        if np.abs(following - f).max() < 1e-13:
            break
        f = following
    return f


def exchange_share(graph: Graph, delay: float) -> float:
    """c: exchanges per unit of t, which would be 1 without delays.

    >>> round(exchange_share(Graph.of("path:10"), 1.0), 2)
    0.45
    """
    f = free_shares(graph, delay)
    return float(graph.P @ (f[graph.edges[:, 0]] * f[graph.edges[:, 1]]))


class _Linear(NamedTuple):
    """The linear model of exchanges, in an eigenbasis of A: G_ef needs nothing else."""

    exponents: Array
    U: Array  # (2n - 1, edges)
    V: Array  # (edges, 2n - 1)
    rates: Array


def gain(graph: Graph, constants: Constants, delay: float) -> float:
    """The spectral radius of G, or infinity where A is not stable; below 1 is stable.

    Once it is known on which side of 1 it is, it need not be known better: the value has the
    right side of 1, and a few digits.
    """
    model = _model(graph, constants, delay)
    if not model.exponents.real.max() < 0.0:
        return math.inf
    decay = -1.0 / (model.exponents[:, None] + model.exponents[None, :].conj())
    q = np.ones(model.rates.size)
    radius = math.nan
    for _ in range(MOST_STEPS):
        second_moments = ((model.U * (model.rates * q)) @ model.U.conj().T) * decay
        following = ((model.V @ second_moments) * model.V.conj()).sum(axis=1).real
        # By Collatz and Wielandt, the radius of a matrix >= 0 lies between these.
        low, high = float((following / q).min()), float((following / q).max())
        radius = float(following.max())
        if high - low < DIGITS * high or (low > 1.0 or high < 1.0):
            break
        q = following / radius
    return radius


def _model(graph: Graph, constants: Constants, delay: float) -> _Linear:
    """In the coordinates s = (x + z) / 2 and w = (x - z) / 2 of every node: s stands still
    between events and w decays at the rate 2 theta."""
    n, (theta, gamma, gamma_prime) = graph.nodes, constants
    i, j = graph.edges.T
    head, tail = np.concatenate([i, j]), np.concatenate([j, i])
    f = free_shares(graph, delay)
    rates = 0.5 * np.tile(graph.P, 2) * f[head] * f[tail]
    e = np.arange(head.size)
    V, U = np.zeros((head.size, 2 * n)), np.zeros((2 * n, head.size))
    V[e, head], V[e, n + head] = 1.0, math.exp(-2.0 * theta * delay)  # x_i, a delay later
    V[e, tail], V[e, n + tail] = -1.0, -1.0
    in_s, in_w = 0.5 * (gamma + gamma_prime), 0.5 * (gamma - gamma_prime)
    U[head, e], U[n + head, e], U[tail, e], U[n + tail, e] = -in_s, -in_w, in_s, in_w
    A = (U * rates) @ V
    A[n:, n:] -= 2.0 * theta * np.eye(n)
    # Without the conserved direction, all s equal: there nothing decays and nothing is seen.
    others = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    basis = np.zeros((2 * n, 2 * n - 1))
    basis[:n, : n - 1], basis[n:, n - 1 :] = others, np.eye(n)
    exponents, W = np.linalg.eig(basis.T @ A @ basis)
    return _Linear(exponents, np.linalg.solve(W, basis.T @ U + 0j), V @ basis @ W, rates)


def delay_limit(graph: Any, method: str | Gossip = "accelerated") -> float:
    """The one-way delay, in units of t, from which on E |x - mean|^2 grows; infinity if none.

    Up to 64 nodes the delay at which the `gain` is 1.  On larger graphs, the delay at which the
    share of exchanges falls to 1 - 1.28 gamma'^(-2/3): a fit to computed limits (paths to 100
    nodes, cycles to 60, grids to 10 x 10: within 10 % of 1 - share), not a theorem.

    >>> delay_limit("path:10", "plain")
    inf
    >>> round(delay_limit("path:10"), 1)
    2.4
    """
    graph = Graph.of(graph)
    return _limit(graph, as_gossip(method).constants(graph))


@lru_cache(maxsize=16)  # a run asks again and again; a Graph is told by its identity
def _limit(graph: Graph, constants: Constants) -> float:
    if constants.theta == 0.0:
        return math.inf  # nothing mixes, so that nothing gets old: an exchange averages, late
    if graph.nodes > MOST_NODES:
        least = 1.0 - 1.28 * constants.gamma_prime ** (-2.0 / 3.0)
        return _crossing(lambda delay: exchange_share(graph, delay) > least, constants.theta)
    return _crossing(lambda delay: gain(graph, constants, delay) < 1.0, constants.theta)


def _crossing(stable: Any, theta: float) -> float:
    """The delay at which what is stable for short ones ceases to be, by bisection."""
    low, high = 0.0, 1.0
    while stable(high):
        low, high = high, 2.0 * high
        if theta * low > LONG:
            return math.inf
    while high - low > DIGITS * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if stable(middle) else (low, middle)
    return low


def too_stale(
    graph: Any, method: str | Gossip, staleness: float, share: float | None = None
) -> str:
    """Whether a run with this measured staleness is "fine", "near" the limit, or "past" it.

    Parameters
    ----------
    staleness : float
        The mean age of an answer when its transfer is applied (`Outcome.staleness.mean`), in
        units of t: two one-way delays.
    share : float
        If measured, exchanges per unit of t: locks that last longer, losses and slow nodes show
        here.  As few as the limit has by `exchange_share` is past it too.

    >>> too_stale("path:10", "accelerated", 0.1), too_stale("path:10", "accelerated", 20.0)
    ('fine', 'past')
    """
    for name, given in (("staleness", staleness), ("share", 1.0 if share is None else share)):
        if not (is_real(given) and given >= 0.0):
            raise ValueError(f"{name} must be a number >= 0, got {brief(given)}")
    graph = Graph.of(graph)
    limit = delay_limit(graph, method)
    if math.isinf(limit):
        return "fine"

    def at_least(delay: float) -> bool:
        few = share is not None and share <= exchange_share(graph, delay)
        return bool(0.5 * staleness >= delay or few)

    if at_least(limit):
        return "past"
    return "near" if at_least(NEAR * limit) else "fine"
