"""The nodes of each method of decentralised optimisation, for an engine of the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.a2cid2.method import A2CiD2
from continuized.network.optimisation.a2cid2.nodes import make_sgd_model
from continuized.network.optimisation.dadao.method import DADAO
from continuized.network.optimisation.dadao.nodes import make_dadao_model
from continuized.network.optimisation.dual.method import Dual
from continuized.network.optimisation.dual.nodes import make_dual_model
from continuized.network.optimisation.objective import Objective
from continuized.network.simulation.engine import NodeSet
from continuized.problems.base import Array


def make_dual_nodes(objective: Objective, constants: Constants, edge_rate: float) -> NodeSet:
    """Make the nodes of the dual method: where they agree, y = z = grad f(w)."""
    model = make_dual_model(objective, constants)
    return NodeSet(model, objective.dim, ("y", "z", "w"), edge_rate=edge_rate, tilt=0.5)


def make_nodes(
    method: Dual | DADAO | A2CiD2, graph: Graph, objective: Objective, speeds: Array | None = None
) -> NodeSet:
    """Make the nodes of a method at the start; `speeds` are the rates of their gradients, by
    default 1."""
    edge_rate = method.edge_rate(graph)
    if isinstance(method, Dual):
        return make_dual_nodes(objective, method.constants(graph, objective), edge_rate)
    rates = np.ones(graph.nodes) if speeds is None else speeds
    if isinstance(method, DADAO):
        model: Any = make_dadao_model(objective, method.steps(graph, objective))
        changing: tuple[str, ...] = ("state",)
        tilt = -1.0 / 3.0  # where they agree, z = z~ = -grad f(w)
    else:
        step = method.step_for(objective)
        model = make_sgd_model(objective, method.constants(graph), step, method.batch)
        changing, tilt = ("x", "x_tilde", "moved"), 0.0
    return NodeSet(model, objective.dim, changing, edge_rate=edge_rate, step_rates=rates, tilt=tilt)
