"""The nodes of each method of decentralised optimisation, for an engine of the simulator."""

from __future__ import annotations

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.a2cid2 import nodes as a2cid2
from continuized.network.optimisation.a2cid2.method import A2CiD2
from continuized.network.optimisation.dadao import nodes as dadao
from continuized.network.optimisation.dadao.method import DADAO
from continuized.network.optimisation.dual import nodes as dual
from continuized.network.optimisation.dual.method import Dual
from continuized.network.optimisation.objective import Objective
from continuized.network.simulation.engine import NodeSet
from continuized.problems.base import Array


def make_nodes(
    method: Dual | DADAO | A2CiD2, graph: Graph, objective: Objective, speeds: Array | None = None
) -> NodeSet:
    """Make the nodes at the start; `speeds` are the rates of their gradients, by default 1."""
    edge_rate = method.edge_rate(graph)
    rates = np.ones(graph.nodes) if speeds is None else speeds
    if isinstance(method, Dual):
        return dual.make_nodes(objective, method.constants(graph, objective), edge_rate)
    if isinstance(method, DADAO):
        return dadao.make_nodes(objective, method.steps(graph, objective), edge_rate, rates)
    constants, step = method.constants(graph), method.step_for(objective)
    return a2cid2.make_nodes(objective, constants, step, method.batch, edge_rate, rates)
