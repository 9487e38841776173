"""Compiled: the entries of an event log, one after the other."""

from __future__ import annotations

from continuized.jit import jit
from continuized.network.engine_node import TIME, X, mix_to, pay
from continuized.network.outcome import ANSWER, APPLY, JOIN, PAY
from continuized.network.rules import Constants
from continuized.problems.base import Array


@jit
def repeat(
    work: Array, carried: Array, kind: Array, node: Array, time: Array, slots: Array,
    constants: Constants,
) -> int:  # fmt: skip
    """What is carried is the x of an answer, then the d of the transfer.

    Returns the first entry at which a node's own time goes back, or -1.
    """
    theta, gamma, gamma_prime = constants
    d = carried.shape[1]
    for k in range(kind.size):
        i, slot = node[k], slots[k]
        if kind[k] == JOIN:  # time and state begin anew
            work[i, TIME] = time[k]
            for c in range(d):
                if slot >= 0:
                    work[i, X + c] = carried[slot, c]
                work[i, X + d + c] = work[i, X + c]
            continue
        if time[k] < work[i, TIME]:
            return k
        mix_to(work, i, time[k], theta)
        for c in range(d):
            if kind[k] == PAY:
                carried[slot, c] = work[i, X + c] - carried[slot, c]
                pay(work, i, c, carried[slot, c], gamma, gamma_prime)
            elif kind[k] == APPLY:
                pay(work, i, c, -carried[slot, c], gamma, gamma_prime)
            elif slot >= 0 and kind[k] == ANSWER:
                carried[slot, c] = work[i, X + c]
    return -1
