"""The nodes of each method of decentralised optimisation, ready to run at once or by messages."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.a2cid2.method import A2CiD2
from continuized.network.optimisation.a2cid2.nodes import sgd_nodes
from continuized.network.optimisation.dadao.method import DADAO
from continuized.network.optimisation.dadao.nodes import dadao_nodes
from continuized.network.optimisation.dual.method import Dual
from continuized.network.optimisation.dual.nodes import dual_nodes
from continuized.network.optimisation.objective import Objective
from continuized.problems.base import Array


class Crew(NamedTuple):
    """Nodes of one kind, and what a run must know of them.

    Where the living agree on w, the sum of their gradients at w is `tilt` times what they have
    and are owed of what exchanges only move (`engine_kinds.share`): 0, but for deaths.
    """

    nodes: Any  # of one of the kinds of `engine_kinds`
    changing: tuple[str, ...]  # its arrays that are the nodes' state
    edge_rate: float  # of all edges together
    step_rates: Array  # of the nodes' own gradients; empty where they take none
    tilt: float

    @property
    def gradients_at_answers(self) -> bool:
        """Whether a gradient is what a node finds before it says something."""
        return len(self.step_rates) == 0

    def state(self) -> dict[str, Array]:
        """The arrays of the nodes' state, themselves."""
        return {name: getattr(self.nodes, name) for name in self.changing}

    def copied_nodes(self) -> Any:
        """The nodes, with a state of their own."""
        return self.nodes._replace(**{name: own.copy() for name, own in self.state().items()})


def dual_crew(objective: Objective, constants: Constants, edge_rate: float) -> Crew:
    """Of the dual method: where they agree, y = z = grad f(w)."""
    nodes = dual_nodes(objective, constants)
    return Crew(nodes, ("y", "z", "w"), edge_rate, np.empty(0), 0.5)


def crew_of(
    method: Dual | DADAO | A2CiD2, graph: Graph, objective: Objective, speeds: Array | None = None
) -> Crew:
    """Nodes at the start; `speeds` are the rates of their gradients, by default 1."""
    if isinstance(method, Dual):
        return dual_crew(objective, method.constants(graph, objective), method.edge_rate(graph))
    pace = np.ones(graph.nodes) if speeds is None else speeds
    if isinstance(method, DADAO):
        steps = method.steps(graph, objective)
        # Where they agree, z = z~ = -grad f(w).
        return Crew(
            dadao_nodes(objective, steps), ("state",), method.edge_rate(graph), pace, -1.0 / 3.0
        )
    nodes = sgd_nodes(objective, method.constants(graph), method.step_for(objective), method.batch)
    return Crew(nodes, ("x", "x_tilde", "moved"), method.edge_rate(graph), pace, 0.0)
