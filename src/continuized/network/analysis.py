"""How much delay accelerated gossip bears: predicted, to be compared with simulation.

Two things follow from delays.

1. Nodes have no time for all exchanges.  Where only the share s of them takes place, theta is too
   large by 1/s for those that do.
2. The x that was sent is old: d = x_i - x_j with x_i a delay later than x_j.  Neither end does
   anything but mix meanwhile.

Traffic
-------
With a one-way delay `delay`, an exchange keeps each of its two ends for 2 delays: the initiator
from its request to the answer, the other from its answer to the transfer.  A request that is
refused keeps its sender as long, and is made up for after a while (`network.protocol.timeouts`).

With f_i the share of time that node i is free, a_i the rate at which it asks, p_ij the probability
that it asks j, and all taken as independent,

    1 - f_i = 2 delay (a_i + f_i sum_j a_j p_ji),

and the directed edge ij exchanges at the rate a_i p_ij f_j.  As long as it can, node i makes up for
every tick: a_i sum_j p_ij f_j = sum_j P_ij / 2.  It cannot ask more often than it finds itself free
after the pauses that refusals cost, f_i = a_i (1 - sum_j p_ij f_j) pause.

Stability
---------
Per exchange of the directed edge e, the state y of all nodes changes by u_e d_e, d_e = v_e^T y.
With the rates r_e of 1 as those of a Poisson process, E y follows A = flow + sum_e r_e u_e v_e^T,
and the second moments q_e = E d_e^2 the renewal equation

    q_e = (decaying) + sum_f r_f  integral_0^t q_f(t - s) (v_e^T exp(A s) u_f)^2 ds.

Its matrix G_ef = r_f int (v_e^T exp(A s) u_f)^2 ds has entries >= 0: E |x - mean|^2 grows if and
only if its spectral radius, the gain, is 1 or more (or A is not stable).  When delays are long
against 1/theta, x = z at every exchange and the gain tends to (gamma + gamma') / 2.

That is a limit in mean square.  A typical run stays stable somewhat longer: the mean is carried
by rare ones.  `examples/delay_study.py` measures that.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from continuized.network.gossip import Constants, Gossip, as_gossip
from continuized.network.graphs.graph import Graph, list_directed
from continuized.network.protocol.timeouts import BACK_OFF, SPREAD
from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.progress import warn_caller

# Delays that a node pauses for, on average: its timeout is the mean of round trips, 2 delays, and
# some of their mean deviations, which is 8 / e^2 for the sum of two exponential delays.
PAUSE = BACK_OFF * (2.0 + SPREAD * 8.0 * np.exp(-2.0))
MOST_STEPS = 2000
MAP_STEP = 0.2  # the map itself is decreasing: it would swing
GAIN_UP_TO = 32  # for the gain, whose cost grows as the cube
LONG_DELAY = 5.0  # delays of so many 1/theta are as good as infinite
NEAR_LIMIT = 0.5  # of the limit
LIMIT_TOL = 1e-3  # relative, of the limit
DENSE_UP_TO = 32
SHARE_FIT = 1.29  # see `share_limit`


def exchange_rates(graph: Graph, delay: float) -> Array:
    """Predict the rate of exchanges of every directed edge, which is P_ij / 2 without delay."""
    source, target = list_directed(graph)
    n, P = graph.nodes, np.tile(graph.P, 2)
    node_rates = np.bincount(source, P, n)
    p, ticks = P / node_rates[source], 0.5 * node_rates
    f = np.ones(n)
    for _ in range(MOST_STEPS):
        answered = np.bincount(source, p * f[target], n)  # the probability, of a request
        pauses = np.maximum((1.0 - answered) * PAUSE * delay, np.finfo(float).tiny)
        asks = np.minimum(ticks / answered, f / pauses)
        asked = np.bincount(target, asks[source] * p, n)
        free = np.maximum(1.0 - 2.0 * delay * asks, 0.0) / (1.0 + 2.0 * delay * asked)
        if np.abs(free - f).max() < 1e-9:
            break
        f = f + MAP_STEP * (free - f)
    rates: Array = asks[source] * p * f[target]
    return rates


def exchange_share(graph: Graph | str, delay: float) -> float:
    """Predict the exchanges per unit of t, which are 1 without delays.

    Nodes make up for ticks, so that they stay 1 until some node has no time left; from there on
    they fall as 1 / delay.  The independence assumed makes this up to 15 % too small there.

    graph: a Graph, or what `Graph.of` takes.  delay: the mean one-way delay, in units of t.
    Raises TypeError or ValueError where delay is not a finite number >= 0.

    >>> [round(exchange_share("path:10", delay), 2) for delay in (0.3, 2.0, 4.0)]
    [1.0, 0.41, 0.21]
    """
    late = check.real(delay, "delay", minimum=0.0)
    return float(exchange_rates(Graph.of(graph), late).sum())


def gain(graph: Graph, constants: Constants, delay: float, rates: Array) -> float:
    """Compute the spectral radius of G, or infinity where A is not stable; below 1 is stable.

    `rates` are those of exchanges of all directed edges, as in `exchange_rates`.
    """
    from scipy.sparse.linalg import LinearOperator, eigs

    exponents, U, V = _make_model(graph, constants, delay, rates)
    if not exponents.real.max() < 0.0:
        return math.inf
    decay = -1.0 / (exponents[:, None] + exponents[None, :].conj())

    def G(q: Array) -> Array:
        second_moments = ((U * (rates * q.ravel())) @ U.conj().T) * decay
        moments: Array = ((V @ second_moments) * V.conj()).sum(axis=1).real
        return moments

    size = rates.size
    if size <= DENSE_UP_TO:  # too small for Arnoldi's iteration
        dense = np.column_stack([G(column) for column in np.eye(size)])
        return float(np.abs(np.linalg.eigvals(dense)).max())
    operator = LinearOperator((size, size), matvec=G, dtype=np.float64)
    largest = eigs(operator, k=1, v0=np.ones(size), tol=1e-6, return_eigenvectors=False)
    return float(abs(largest[0]))


def _make_model(
    graph: Graph, constants: Constants, delay: float, rates: Array
) -> tuple[Array, ...]:
    """Build the linear model of exchanges, in an eigenbasis of A: its exponents, U and V.

    It is made in the coordinates s = (x + z) / 2 and w = (x - z) / 2 of every node.  Between
    events s stands still, and w decays at the rate 2 theta.
    """
    n, (theta, gamma, gamma_prime) = graph.nodes, constants
    source, target = list_directed(graph)
    e = np.arange(source.size)
    V, U = np.zeros((source.size, 2 * n)), np.zeros((2 * n, source.size))
    V[e, source], V[e, n + source] = 1.0, math.exp(-2.0 * theta * delay)  # x_i, a delay later
    V[e, target], V[e, n + target] = -1.0, -1.0
    in_s, in_w = 0.5 * (gamma + gamma_prime), 0.5 * (gamma - gamma_prime)
    U[source, e], U[n + source, e], U[target, e], U[n + target, e] = -in_s, -in_w, in_s, in_w
    A = (U * rates) @ V
    A[n:, n:] -= 2.0 * theta * np.eye(n)
    # Without the conserved direction, all s equal: there nothing decays and nothing is seen.
    others = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    basis = np.zeros((2 * n, 2 * n - 1))
    basis[:n, : n - 1], basis[n:, n - 1 :] = others, np.eye(n)
    exponents, W = np.linalg.eig(basis.T @ A @ basis)
    return exponents, np.linalg.solve(W, basis.T @ U + 0j), V @ basis @ W


def share_limit(graph: Any, method: str | Gossip = "accelerated") -> float:
    """Find the share of exchanges below which E |x - mean|^2 grows, without delay; 0 if none.

    Only theta / share counts, so that it is proportional to damping = theta / (mu_g gamma').  Up
    to 32 nodes it is the share at which the `gain` is 1.  On larger graphs it is
    damping (1 - 1.29 gamma'^(-2/3)): a fit to computed ones (paths and cycles to 60 nodes, grids
    to 8 x 8: within 3 % of 1 - share), not a theorem.

    graph: a Graph, or what `Graph.of` takes.  method: "accelerated", "plain" or Gossip.

    >>> round(share_limit("path:10"), 2), share_limit("path:5"), share_limit("path:10", "plain")
    (0.23, 0.0, 0.0)
    """
    graph = Graph.of(graph)
    return _share_limit(graph, as_gossip(method).constants(graph))


def delay_limit(graph: Any, method: str | Gossip = "accelerated") -> float:
    """Find the one-way delay, in units of t, from which on E |x - mean|^2 grows; infinity if none.

    Up to 32 nodes it is the delay at which the `gain` is 1, with those of `exchange_rates`.  On
    larger graphs, where theta times such a delay is small, it is that at which `exchange_share`
    falls to `share_limit`.

    graph: a Graph, or what `Graph.of` takes.  method: "accelerated", "plain" or Gossip.

    >>> delay_limit("path:10", "plain")
    inf
    >>> round(delay_limit("path:10"), 1)
    3.5
    """
    graph = Graph.of(graph)
    return _delay_limit(graph, as_gossip(method).constants(graph))


@lru_cache(maxsize=16)  # a run asks again and again; a Graph is told by its identity
def _share_limit(graph: Graph, constants: Constants) -> float:
    theta, gamma, gamma_prime = constants
    if theta == 0.0 or gamma + gamma_prime < 2.0:
        return 0.0
    if graph.nodes > GAIN_UP_TO:
        damping = theta / (graph.mu_g * gamma_prime)
        return float(max(0.0, damping * (1.0 - SHARE_FIT * gamma_prime ** (-2.0 / 3.0))))
    rates = 0.5 * np.tile(graph.P, 2)
    low, high = 0.0, 1.0
    while high - low > LIMIT_TOL:
        share = 0.5 * (low + high)
        stable = gain(graph, constants, 0.0, share * rates) < 1.0
        low, high = (low, share) if stable else (share, high)
    return high


@lru_cache(maxsize=16)
def _delay_limit(graph: Graph, constants: Constants) -> float:
    if constants.theta == 0.0:
        return math.inf  # nothing mixes, so that nothing gets old: an exchange averages, late

    low, high = 0.0, 1.0
    while _is_stable(graph, constants, high):
        low, high = high, 2.0 * high
        if constants.theta * low > LONG_DELAY:
            return math.inf
    while high - low > LIMIT_TOL * high:
        middle = 0.5 * (low + high)
        stable = _is_stable(graph, constants, middle)
        low, high = (middle, high) if stable else (low, middle)
    return low


def _is_stable(graph: Graph, constants: Constants, delay: float) -> bool:
    if graph.nodes > GAIN_UP_TO:
        return exchange_share(graph, delay) > _share_limit(graph, constants)
    return gain(graph, constants, delay, exchange_rates(graph, delay)) < 1.0


class StalenessWarning(UserWarning):
    """Messages are slow against the rate at which nodes mix.

    A simulation warns of it before it starts.  Real nodes of gossip are watched: past what
    acceleration bears they go on as plain gossip (`Outcome.fell_back`), and the warning says so.
    Where that is welcome:

    >>> import warnings
    >>> from continuized import network
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", StalenessWarning)
    ...     r = network.run("path:3", [0.0, 1.0, 2.0], tol=1e-4, processes=1, rng=0)
    >>> r.reached
    True
    """


def warn_of_delay(
    graph: Graph, constants: Constants | None, delay: float, instead: str, edge_rate: float = 1.0
) -> None:
    """Warn where a delay is past what exchanges with these constants bear.

    It is in units of t, in which all edges together tick at `edge_rate`; the constants are those of
    gossip, in the time of ticks, and None where nothing is known.  instead: what bears any delay.
    """
    if constants is None or constants.theta == 0.0 or delay == 0.0:
        return
    late = float(delay) * edge_rate
    if _is_stable(graph, constants, late) or late < (limit := _delay_limit(graph, constants)):
        return
    warn_caller(
        f"a delay of {delay:g} is past the limit {limit / edge_rate:.3g} of accelerated exchanges "
        f"on this graph, where nodes need not come to agree; use {instead}, or a shorter delay",
        StalenessWarning,
    )


def too_stale(
    graph: Any, method: str | Gossip, staleness: float, share: float | None = None
) -> str:
    """Tell whether a run with this measured staleness is "fine", "near" the limit, or "past" it.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
    method : "accelerated", "plain" or Gossip
    staleness : float
        The mean age of an answer when its transfer is applied (`Outcome.staleness.mean`), in
        units of t: two one-way delays.
    share : float
        If measured, exchanges per unit of t: locks that last longer, losses and slow nodes show
        here.

    Raises ValueError for numbers that are negative.

    >>> too_stale("path:10", "accelerated", 0.1), too_stale("path:10", "accelerated", 20.0)
    ('fine', 'past')
    """
    staleness = check.real(staleness, "staleness", minimum=0.0, finite=False)
    if share is not None:
        share = check.real(share, "share", minimum=0.0, finite=False)
    graph = Graph.of(graph)
    constants = as_gossip(method).constants(graph)
    longest, least = _delay_limit(graph, constants), _share_limit(graph, constants)

    def is_beyond(part: float) -> bool:
        """Tell whether one of the two is beyond this part of the way to its limit."""
        few = share is not None and 1.0 - share >= part * (1.0 - least) and least > 0.0
        return bool(0.5 * staleness >= part * longest or few)

    if is_beyond(1.0):
        return "past"
    return "near" if is_beyond(NEAR_LIMIT) else "fine"
