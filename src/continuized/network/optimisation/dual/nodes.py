"""Compiled: the nodes of the dual method (see `method`), as a node model (see `interface`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.optimisation import local_solver
from continuized.network.optimisation.local_solver import LocalData, gradient_of_conjugate
from continuized.network.optimisation.objective import Objective
from continuized.network.simulation.engine import NodeSet
from continuized.network.simulation.node_models.interface import TIME, for_model
from continuized.problems.base import Array
from continuized.process.flow import equal_weights, mix
from continuized.process.methods import jump
from continuized.support.jit import uncounted


class DualNodes(NamedTuple):
    """y, z and w (nodes, dim); w is grad f*(y) of the last time that it was asked for."""

    constants: Constants
    data: LocalData
    y: Array
    z: Array
    w: Array
    room: Array


def make_nodes(objective: Objective, constants: Constants, edge_rate: float) -> NodeSet:
    """Make the nodes at the start, where all is 0; where they agree, y = z = grad f(w)."""
    y, z, w = (np.zeros((objective.nodes, objective.dim)) for _ in range(3))
    data = local_solver.make_data(objective, conjugates=True)
    model = DualNodes(constants, data, y, z, w, local_solver.make_room(objective.dim))
    return NodeSet(model, objective.dim, ("y", "z", "w"), edge_rate=edge_rate, tilt=0.5)


@uncounted
def mix_pair(x: Array, z: Array, i: int, dt: float, theta: float) -> None:
    """Mix the pair of node i over a time dt without an event, in place."""
    if theta > 0.0:
        a, b = equal_weights(theta, dt)
        for c in range(x.shape[1]):
            x[i, c], z[i, c] = mix(x[i, c], z[i, c], a, b)


@for_model(DualNodes)
def flow_to(nodes: DualNodes, work: Array, i: int, time: float) -> None:
    """Mix y and z."""
    mix_pair(nodes.y, nodes.z, i, time - work[i, TIME], nodes.constants.theta)
    work[i, TIME] = time


@for_model(DualNodes)
def find_answer(nodes: DualNodes, work: Array, i: int) -> bool:
    """Find w = grad f*(y)."""
    return bool(gradient_of_conjugate(nodes.data, i, nodes.y[i], nodes.w[i], nodes.room))


@for_model(DualNodes)
def message(nodes: DualNodes, work: Array, i: int, c: int) -> float:
    """Return w."""
    return float(nodes.w[i, c])


@for_model(DualNodes)
def estimate(nodes: DualNodes, work: Array, i: int, c: int) -> float:
    """Return w."""
    return float(nodes.w[i, c])


@for_model(DualNodes)
def pay(nodes: DualNodes, work: Array, i: int, c: int, d: float) -> None:
    """Take gamma d off y and gamma' d off z."""
    y, z, (_, gamma, gamma_prime) = nodes.y, nodes.z, nodes.constants
    y[i, c], z[i, c] = jump(y[i, c], z[i, c], d, gamma, gamma_prime)


@for_model(DualNodes)
def conserved(nodes: DualNodes, work: Array, i: int, c: int) -> float:
    """Return y + z."""
    return float(nodes.y[i, c] + nodes.z[i, c])


@for_model(DualNodes)
def conserved_per_transfer(nodes: DualNodes) -> float:
    """Return gamma + gamma'."""
    return nodes.constants.gamma + nodes.constants.gamma_prime


@for_model(DualNodes)
def start_from(nodes: DualNodes, work: Array, i: int, other: int) -> None:
    """Start from nothing, as at the start: what a neighbour has says nothing of this node's y."""
    for c in range(nodes.y.shape[1]):
        nodes.y[i, c], nodes.z[i, c], nodes.w[i, c] = 0.0, 0.0, 0.0
