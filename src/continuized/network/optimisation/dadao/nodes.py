"""Compiled: the nodes of DADAO (see `method`), as a node model (see `interface`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.network.optimisation import local_solver
from continuized.network.optimisation.dadao import method as dadao
from continuized.network.optimisation.dadao.method import X_TILDE, Y_TILDE, Z_TILDE, Steps, X, Y, Z
from continuized.network.optimisation.local_solver import LocalData, gradient
from continuized.network.optimisation.objective import Objective
from continuized.network.simulation.engine import NodeSet
from continuized.network.simulation.node_models.interface import TIME, for_model
from continuized.problems.base import Array
from continuized.support.jit import compile_formulas

compile_formulas(*dadao.FORMULAS)


class DadaoNodes(NamedTuple):
    """state (nodes, 6, dim); slope (dim,) is room for a gradient."""

    steps: Steps
    data: LocalData
    state: Array
    slope: Array


def make_nodes(objective: Objective, steps: Steps, edge_rate: float, rates: Array) -> NodeSet:
    """Make the nodes at the start, where all is 0; where they agree, z = z~ = -grad f(w)."""
    dim, tilt = objective.dim, -1.0 / 3.0
    data = local_solver.make_data(objective, conjugates=False)
    model = DadaoNodes(steps, data, np.zeros((objective.nodes, 6, dim)), np.empty(dim))
    return NodeSet(model, dim, ("state",), edge_rate=edge_rate, step_rates=rates, tilt=tilt)


@for_model(DadaoNodes)
def flow_to(nodes: DadaoNodes, work: Array, i: int, time: float) -> None:
    """Let all six vectors flow."""
    u, s, nu = nodes.state, nodes.steps.s, nodes.steps.nu
    by = dadao.decay(time - work[i, TIME], s)
    for c in range(u.shape[2]):
        (
            u[i, X, c], u[i, X_TILDE, c], u[i, Y, c], u[i, Y_TILDE, c], u[i, Z, c], u[i, Z_TILDE, c]
        ) = dadao.flow_node(
            u[i, X, c], u[i, X_TILDE, c], u[i, Y, c], u[i, Y_TILDE, c], u[i, Z, c],
            u[i, Z_TILDE, c], by, s, nu,
        )  # fmt: skip
    work[i, TIME] = time


@for_model(DadaoNodes)
def message(nodes: DadaoNodes, work: Array, i: int, c: int) -> float:
    """Return y + z."""
    return float(nodes.state[i, Y, c] + nodes.state[i, Z, c])


@for_model(DadaoNodes)
def pay(nodes: DadaoNodes, work: Array, i: int, c: int, d: float) -> None:
    """Take d/2 off z and (2 chi_1/s) d off z~."""
    nodes.state[i, Z, c] -= 0.5 * d
    nodes.state[i, Z_TILDE, c] -= dadao.pull(nodes.steps) * d


@for_model(DadaoNodes)
def step(nodes: DadaoNodes, work: Array, i: int, rng: Any) -> None:
    """Take a step with the gradient of f at x."""
    u, slope = nodes.state, nodes.slope
    gradient(nodes.data, i, u[i, X], slope)
    for c in range(slope.size):
        u[i, X, c], u[i, X_TILDE, c], u[i, Y_TILDE, c] = dadao.take_gradient(
            u[i, X, c], u[i, X_TILDE, c], u[i, Y_TILDE, c], slope[c], nodes.steps
        )


@for_model(DadaoNodes)
def conserved(nodes: DadaoNodes, work: Array, i: int, c: int) -> float:
    """Return z + 2 z~, which the flow leaves and gradients do not touch."""
    return float(nodes.state[i, Z, c] + 2.0 * nodes.state[i, Z_TILDE, c])


@for_model(DadaoNodes)
def conserved_per_transfer(nodes: DadaoNodes) -> float:
    """Return 1/2 + 2 (2 chi_1/s)."""
    return 0.5 + 2.0 * dadao.pull(nodes.steps)


@for_model(DadaoNodes)
def start_from(nodes: DadaoNodes, work: Array, i: int, other: int) -> None:
    """Start with a neighbour's x and no z of its own: x = x~ and y = y~ = -nu x stand still."""
    u = nodes.state
    for c in range(u.shape[2]):
        x = u[other, X, c] if other >= 0 else 0.0
        u[i, X, c], u[i, X_TILDE, c] = x, x
        u[i, Y, c], u[i, Y_TILDE, c] = -nodes.steps.nu * x, -nodes.steps.nu * x
        u[i, Z, c], u[i, Z_TILDE, c] = 0.0, 0.0


@for_model(DadaoNodes)
def estimate(nodes: DadaoNodes, work: Array, i: int, c: int) -> float:
    """Return x."""
    return float(nodes.state[i, X, c])
