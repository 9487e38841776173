"""Compiled: edges that ring, one after the other, each exchange done at once."""

from __future__ import annotations

from continuized.network.gossip import Constants
from continuized.network.simulation.node_models.gossip import (
    X,
    centre,
    mix_to,
    pay_transfer,
    squared_error,
)
from continuized.network.simulation.node_models.interface import inlined
from continuized.problems.base import Array
from continuized.support.jit import fetch, jit

AHEAD = 8  # events: their nodes are asked for while the memory is slow


@inlined
def exchange(
    work: Array, i: int, j: int, t: float, theta: float, gamma: float, gamma_prime: float
) -> None:
    """The event of the edge ij at time t."""
    mix_to(work, i, t, theta)
    mix_to(work, j, t, theta)
    for c in range((work.shape[1] - X) // 2):
        d = work[i, X + c] - work[j, X + c]
        pay_transfer(work, i, c, d, gamma, gamma_prime)
        pay_transfer(work, j, c, -d, gamma, gamma_prime)


@jit
def run_edges(
    edges: Array, k0: int, times: Array, marks: Array, begin: int, end: int, work: Array,
    alive: Array, constants: Constants, period: int, bounds: Array, rows: Array, owed: Array,
) -> tuple[int, int]:  # fmt: skip
    """Events begin, ..., end - 1 of a block before which there were k0; after every `period` of
    the block's, (t, events so far, squared error) is a row of `rows`.

    Returns how many of the block's are done and how many tests were made: up to the first error
    outside of `bounds`, if there is one.
    """
    theta, gamma, gamma_prime = constants
    tests, width = 0, work.shape[1]
    for k in range(begin, end):
        if k + AHEAD < end:
            for side in range(2):
                fetch(work, edges[marks[k + AHEAD], side] * width)
        i, j = edges[marks[k], 0], edges[marks[k], 1]
        exchange(work, i, j, times[k], theta, gamma, gamma_prime)
        if (k + 1) % period == 0:
            middle = centre(work, alive, owed)
            error = squared_error(work, alive, times[k], theta, middle)
            rows[tests, 0], rows[tests, 1], rows[tests, 2] = times[k], k0 + k + 1, error
            tests += 1
            if not bounds[0] < error < bounds[1]:  # NaN too
                return k + 1, tests
    return end, tests
