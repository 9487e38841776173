"""Compiled: gossip as a kind of nodes; see `engine_kinds`."""

from __future__ import annotations

from continuized.network.rules import Constants
from continuized.network.simulation import engine_node
from continuized.network.simulation.engine_node import X, centre, mix_to, squared_error
from continuized.network.simulation.node_models.interface import for_kind
from continuized.problems.base import Array

give = engine_node.pay


@for_kind(Constants)
def flow_to(nodes: Constants, work: Array, i: int, time: float) -> None:
    """x and z mix."""
    mix_to(work, i, time, nodes.theta)


@for_kind(Constants)
def said(nodes: Constants, work: Array, i: int, c: int) -> float:
    """x."""
    return float(work[i, X + c])


@for_kind(Constants)
def pay(nodes: Constants, work: Array, i: int, c: int, d: float) -> None:
    """x -= gamma d and z -= gamma' d."""
    give(work, i, c, d, nodes.gamma, nodes.gamma_prime)


@for_kind(Constants)
def share(nodes: Constants, work: Array, i: int, c: int) -> float:
    """x + z."""
    return float(work[i, X + c] + work[i, (work.shape[1] + X) // 2 + c])


@for_kind(Constants)
def worth(nodes: Constants) -> float:
    """Of d: gamma + gamma'."""
    return nodes.gamma + nodes.gamma_prime


@for_kind(Constants)
def start_from(nodes: Constants, work: Array, i: int, other: int) -> None:
    """With the neighbour's x and z = x; without a neighbour, with what it has."""
    z = (work.shape[1] + X) // 2
    for c in range(z - X):
        if other >= 0:
            work[i, X + c] = work[other, X + c]
        work[i, z + c] = work[i, X + c]


@for_kind(Constants)
def disagreement(nodes: Constants, work: Array, alive: Array, t: float, owed: Array) -> float:
    """The sum of |x - middle|^2 over the living."""
    return float(squared_error(work, alive, t, nodes.theta, centre(work, alive, owed)))
