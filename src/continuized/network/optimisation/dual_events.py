"""Compiled: the dual method's exchanges, each done at once, every node mixed when it is touched."""

from __future__ import annotations

from continuized import flow
from continuized.flow import equal_weights, mix
from continuized.jit import compile_formulas, jit
from continuized.network import rules
from continuized.network.optimisation.conjugates import Data, conjugate_gradient
from continuized.network.rules import Constants, paid
from continuized.problems.base import Array

compile_formulas(*flow.FORMULAS, *rules.FORMULAS)


@jit
def mix_node(y: Array, z: Array, dt: float, theta: float) -> None:
    """A node's pair after a time dt without an event, in place."""
    if theta > 0.0:
        a, b = equal_weights(theta, dt)
        for c in range(y.size):
            y[c], z[c] = mix(y[c], z[c], a, b)


@jit
def run_exchanges(
    edges: Array, times: Array, marks: Array, own: Array, free: Array, work: Array, y: Array,
    z: Array, w: Array, data: Data, constants: Constants, room: Array, counts: Array,
) -> bool:  # fmt: skip
    """The edges `marks` ring at `times`; exchanges are counted by edge.

    own: the time to which a node has mixed.  A node is busy for a time `work` after an exchange,
    until `free`: the exchange for which an edge rings is not held while an end of it is busy.
    Returns False where a node could not solve its own problem.
    """
    theta, gamma, gamma_prime = constants
    for k in range(times.size):
        i, j, t = edges[marks[k], 0], edges[marks[k], 1], times[k]
        if t < free[i] or t < free[j]:
            continue
        for v in (i, j):
            mix_node(y[v], z[v], t - own[v], theta)
            own[v], free[v] = t, t + work[v]
            if not conjugate_gradient(data, v, y[v], w[v], room):
                return False
        for c in range(y.shape[1]):
            G = w[i, c] - w[j, c]
            y[i, c], z[i, c] = paid(y[i, c], z[i, c], G, gamma, gamma_prime)
            y[j, c], z[j, c] = paid(y[j, c], z[j, c], -G, gamma, gamma_prime)
        counts[marks[k]] += 1
    return True


@jit
def guesses(
    t: float, own: Array, y: Array, z: Array, w: Array, data: Data, theta: float, room: Array
) -> bool:
    """w = grad f*(y) of every node at time t; the nodes themselves are left as they are."""
    for i in range(own.size):
        now, pair = y[i].copy(), z[i].copy()
        mix_node(now, pair, t - own[i], theta)
        if not conjugate_gradient(data, i, now, w[i], room):
            return False
    return True


@jit
def count_exchanges(
    edges: Array, times: Array, marks: Array, free: Array, work: Array, counts: Array
) -> None:
    """The exchanges of `run_exchanges`, only counted."""
    for k in range(times.size):
        i, j, t = edges[marks[k], 0], edges[marks[k], 1], times[k]
        if t >= free[i] and t >= free[j]:
            free[i], free[j] = t + work[i], t + work[j]
            counts[marks[k]] += 1
