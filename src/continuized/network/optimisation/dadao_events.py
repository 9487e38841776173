"""Compiled: DADAO's gradients and exchanges."""

from __future__ import annotations

import numpy as np

from continuized.jit import compile_formulas, jit
from continuized.network.optimisation import dadao
from continuized.network.optimisation.conjugates import Data, gradient
from continuized.network.optimisation.dadao import (
    X_TILDE,
    Y_TILDE,
    Z_TILDE,
    Steps,
    X,
    Y,
    Z,
    decay,
    flowed,
    stepped,
)
from continuized.problems.base import Array

compile_formulas(*dadao.FORMULAS)


@jit
def flow_node(node: Array, dt: float, steps: Steps) -> None:
    """A node's six vectors after a time dt without an event, in place."""
    by = decay(dt, steps.s)
    for c in range(node.shape[1]):
        (
            node[X, c], node[X_TILDE, c], node[Y, c], node[Y_TILDE, c], node[Z, c], node[Z_TILDE, c]
        ) = flowed(
            node[X, c], node[X_TILDE, c], node[Y, c], node[Y_TILDE, c], node[Z, c],
            node[Z_TILDE, c], by, steps.s, steps.nu,
        )  # fmt: skip


@jit
def run_events(
    edges: Array, times: Array, marks: Array, own: Array, state: Array, data: Data, steps: Steps,
    counts: Array,
) -> None:  # fmt: skip
    """Marks below the number of edges are exchanges, the others gradients of nodes."""
    m = edges.shape[0]
    slope = np.empty(state.shape[2])
    pull = 2.0 * steps.chi_1 / steps.s
    for k in range(times.size):
        mark, t = marks[k], times[k]
        counts[mark] += 1
        if mark >= m:
            node = state[mark - m]
            flow_node(node, t - own[mark - m], steps)
            own[mark - m] = t
            gradient(data, mark - m, node[X], slope)
            for c in range(slope.size):
                node[X, c], node[X_TILDE, c], node[Y_TILDE, c] = stepped(
                    node[X, c], node[X_TILDE, c], node[Y_TILDE, c], slope[c], steps
                )
            continue
        i, j = edges[mark, 0], edges[mark, 1]
        for v in (i, j):
            flow_node(state[v], t - own[v], steps)
            own[v] = t
        for c in range(slope.size):
            q = state[i, Y, c] + state[i, Z, c] - state[j, Y, c] - state[j, Z, c]
            state[i, Z, c] -= 0.5 * q
            state[j, Z, c] += 0.5 * q
            state[i, Z_TILDE, c] -= pull * q
            state[j, Z_TILDE, c] += pull * q


@jit
def states_at(t: float, own: Array, state: Array, steps: Steps) -> Array:
    """Every node at time t; the nodes themselves are left as they are."""
    there = state.copy()
    for i in range(own.size):
        flow_node(there[i], t - own[i], steps)
    return there
