"""Compiled: what one node does, and how far the nodes are from agreement.

A node is a row of `work`: its own time, its x, its z.  It mixes when it is touched, from the time
it was last touched.
"""

from __future__ import annotations

from continuized import flow
from continuized.flow import equal_weights, mix
from continuized.jit import compile_formulas, jit
from continuized.network import rules
from continuized.network.rules import paid
from continuized.problems.base import Array

compile_formulas(*flow.FORMULAS, *rules.FORMULAS)


@jit
def mix_to(work: Array, i: int, time: float, theta: float) -> None:
    """Bring node i to its own `time`: `rules.mixed`, the weights taken once for all columns."""
    d = (work.shape[1] - 1) // 2
    if theta > 0.0:
        a, b = equal_weights(theta, time - work[i, 0])
        for c in range(1, d + 1):
            work[i, c], work[i, c + d] = mix(work[i, c], work[i, c + d], a, b)
    work[i, 0] = time


@jit
def pay(work: Array, i: int, c: int, d: float, gamma: float, gamma_prime: float) -> None:
    """Node i gives the transfer of d in coordinate c."""
    x, z = c + 1, c + 1 + (work.shape[1] - 1) // 2
    work[i, x], work[i, z] = paid(work[i, x], work[i, z], d, gamma, gamma_prime)


@jit
def centre(work: Array, alive: Array, owed: Array, into: Array) -> None:
    """The mean over living nodes of (x + z) / 2, with what they are owed: mixing leaves it."""
    d, living = owed.size, 0
    into[:] = owed
    for i in range(work.shape[0]):
        if alive[i]:
            living += 1
            for c in range(1, d + 1):
                into[c - 1] += work[i, c] + work[i, c + d]
    into *= 0.5 / max(living, 1)


@jit
def squared_error(
    work: Array, alive: Array, speeds: Array, t: float, theta: float, middle: Array
) -> float:
    """The sum over living nodes of |x - middle|^2 at time t; no node is touched."""
    d, total = middle.size, 0.0
    for i in range(work.shape[0]):
        if alive[i]:
            a, b = equal_weights(theta, speeds[i] * t - work[i, 0])
            for c in range(1, d + 1):
                x, z = mix(work[i, c], work[i, c + d], a, b)
                total += (x - middle[c - 1]) ** 2
    return total


@jit
def states_at(work: Array, alive: Array, speeds: Array, t: float, theta: float) -> Array:
    """(x, z) of every node at time t, of a dead one at its death; no node is touched."""
    states = work.copy()
    for i in range(work.shape[0]):
        if alive[i]:
            mix_to(states, i, speeds[i] * t, theta)
    return states[:, 1:]
