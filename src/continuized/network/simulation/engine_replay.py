"""Compiled: the entries of an event log, one after the other."""

from __future__ import annotations

import math

from continuized.network.result import ANSWER, APPLY, FALL, JOIN, PAY
from continuized.network.rules import Constants
from continuized.network.simulation.engine_node import X, mix_to, pay
from continuized.network.simulation.node_models.interface import TIME, inlined
from continuized.problems.base import Array
from continuized.support.jit import jit


@inlined
def pass_to(work: Array, fell: Array, i: int, time: float, theta: float) -> None:
    """Bring node i to its own `time`; plain gossip keeps z = x, as by mixing for ever."""
    if not fell[i]:
        mix_to(work, i, time, theta)
    elif time > work[i, TIME]:
        mix_to(work, i, time, math.inf)


@jit
def mix_all(work: Array, fell: Array, times: Array, theta: float) -> None:
    """Bring every node to its own time."""
    for i in range(work.shape[0]):
        pass_to(work, fell, i, times[i], theta)


@jit
def repeat(
    work: Array, carried: Array, fell: Array, kind: Array, node: Array, time: Array, slots: Array,
    constants: Constants,
) -> int:  # fmt: skip
    """What is carried is the x of an answer, then the d of the transfer and its step in z.

    Returns the first entry at which a node's own time goes back, or -1.
    """
    theta, gamma, gamma_prime = constants
    d = carried.shape[1] - 1
    for k in range(kind.size):
        i, slot = node[k], slots[k]
        if kind[k] == JOIN:  # time and state begin anew
            work[i, TIME], fell[i] = time[k], False
            for c in range(d):
                if slot >= 0:
                    work[i, X + c] = carried[slot, c]
                work[i, X + d + c] = work[i, X + c]
            continue
        if time[k] < work[i, TIME]:
            return k
        pass_to(work, fell, i, time[k], theta)
        if kind[k] == FALL:
            fell[i] = True
            for c in range(d):
                middle = 0.5 * (work[i, X + c] + work[i, X + d + c])
                work[i, X + c], work[i, X + d + c] = middle, middle
        if kind[k] == PAY:
            carried[slot, d] = gamma if fell[i] else gamma_prime
        for c in range(d):
            if kind[k] == PAY:
                carried[slot, c] = work[i, X + c] - carried[slot, c]
                pay(work, i, c, carried[slot, c], gamma, carried[slot, d])
            elif kind[k] == APPLY:
                pay(work, i, c, -carried[slot, c], gamma, carried[slot, d])
            elif slot >= 0 and kind[k] == ANSWER:
                carried[slot, c] = work[i, X + c]
    return -1
