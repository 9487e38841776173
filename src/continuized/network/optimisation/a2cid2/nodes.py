"""Compiled: the nodes of A²CiD² (see `method`), as a node model (see `interface`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.optimisation import local_solver
from continuized.network.optimisation.dual.nodes import mix_pair
from continuized.network.optimisation.local_solver import LocalData, gradient, slope
from continuized.network.optimisation.objective import Objective
from continuized.network.simulation.engine import NodeSet
from continuized.network.simulation.node_models.interface import TIME, for_model
from continuized.problems.base import Array
from continuized.process.methods import jump
from continuized.support.jit import uncounted


class SgdNodes(NamedTuple):
    """x and x~ (nodes, dim); g and part (dim,), and weight (1,), are room for gradients.

    moved (nodes, dim): what gradients have added to x + x~, which exchanges only move.
    """

    constants: Constants
    data: LocalData
    length: float  # of a gradient step
    batch: int
    x: Array
    x_tilde: Array
    moved: Array
    g: Array
    part: Array
    weight: Array


def make_nodes(
    objective: Objective, constants: Constants, length: float, batch: int, edge_rate: float,
    rates: Array,
) -> NodeSet:  # fmt: skip
    """Make the nodes at the start, where all is 0."""
    x, x_tilde, moved = (np.zeros((objective.nodes, objective.dim)) for _ in range(3))
    g, part, weight = np.empty(objective.dim), np.empty(objective.dim), np.empty(1)
    data = local_solver.make_data(objective, conjugates=False)
    model = SgdNodes(constants, data, length, batch, x, x_tilde, moved, g, part, weight)
    changing = ("x", "x_tilde", "moved")
    return NodeSet(model, objective.dim, changing, edge_rate=edge_rate, step_rates=rates)


@uncounted
def batch_slope(nodes: SgdNodes, i: int, rng: Any) -> None:
    """Write the mean over drawn rows of (number of rows) times the gradient of one: unbiased."""
    data, batch, w, out = nodes.data, nodes.batch, nodes.x[i], nodes.g
    part, weight = nodes.part, nodes.weight
    start, count = data.starts[i], data.starts[i + 1] - data.starts[i]
    for c in range(w.size):
        out[c] = 0.0
    for _ in range(batch):
        r = start + min(int(rng.random() * count), count - 1)
        one = slice(r, r + 1)
        weight[0] = data.weights[r] * count
        slope(data.kind, data.X[one], data.y[one], weight, data.l2[i], w, part)
        for c in range(w.size):
            out[c] += part[c] / batch


@for_model(SgdNodes)
def flow_to(nodes: SgdNodes, work: Array, i: int, time: float) -> None:
    """Mix x and x~."""
    mix_pair(nodes.x, nodes.x_tilde, i, time - work[i, TIME], nodes.constants.theta)
    work[i, TIME] = time


@for_model(SgdNodes)
def message(nodes: SgdNodes, work: Array, i: int, c: int) -> float:
    """Return x."""
    return float(nodes.x[i, c])


@for_model(SgdNodes)
def pay(nodes: SgdNodes, work: Array, i: int, c: int, d: float) -> None:
    """Take d/2 off x and alpha~ d off x~."""
    x, x_tilde, (_, alpha, alpha_tilde) = nodes.x, nodes.x_tilde, nodes.constants
    x[i, c], x_tilde[i, c] = jump(x[i, c], x_tilde[i, c], d, alpha, alpha_tilde)


@for_model(SgdNodes)
def step(nodes: SgdNodes, work: Array, i: int, rng: Any) -> None:
    """Take the same step of x and x~, along a stochastic gradient."""
    x, x_tilde, g, length = nodes.x, nodes.x_tilde, nodes.g, nodes.length
    if nodes.batch == 0:
        gradient(nodes.data, i, x[i], g)
    else:
        batch_slope(nodes, i, rng)
    for c in range(g.size):
        x[i, c], x_tilde[i, c] = jump(x[i, c], x_tilde[i, c], g[c], length, length)
        nodes.moved[i, c] -= 2.0 * length * g[c]


@for_model(SgdNodes)
def conserved(nodes: SgdNodes, work: Array, i: int, c: int) -> float:
    """Return x + x~ but for what its gradients have added."""
    return float(nodes.x[i, c] + nodes.x_tilde[i, c] - nodes.moved[i, c])


@for_model(SgdNodes)
def size(nodes: SgdNodes, work: Array, i: int, c: int) -> float:
    """Add up all parts: before exchanges, their difference is nothing but rounding."""
    return float(abs(nodes.x[i, c]) + abs(nodes.x_tilde[i, c]) + abs(nodes.moved[i, c]))


@for_model(SgdNodes)
def conserved_per_transfer(nodes: SgdNodes) -> float:
    """Return 1/2 + alpha~."""
    return nodes.constants.gamma + nodes.constants.gamma_prime


@for_model(SgdNodes)
def start_from(nodes: SgdNodes, work: Array, i: int, other: int) -> None:
    """Start with a neighbour's x, and x~ = x."""
    for c in range(nodes.x.shape[1]):
        if other >= 0:
            nodes.x[i, c] = nodes.x[other, c]
        nodes.x_tilde[i, c], nodes.moved[i, c] = nodes.x[i, c], 0.0


@for_model(SgdNodes)
def estimate(nodes: SgdNodes, work: Array, i: int, c: int) -> float:
    """Return x."""
    return float(nodes.x[i, c])
