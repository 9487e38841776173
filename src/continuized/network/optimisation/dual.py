"""Decentralised optimisation on the dual: nodes that solve their own small problems, and gossip.

min over w of sum_i f_i(w) is, with a copy of w at each node, the dual of

    min D(y) = sum_i f_i*(y_i)    over y with sum_i y_i = 0

and w_i = grad f_i*(y_i) is node i's estimate.  When the edge ij ticks, with G = w_i - w_j,

    y_i -= gamma G    z_i -= gamma' G        y_j += gamma G    z_j += gamma' G

and between its events a node mixes y and z at the rate theta: the steps of gossip, which is the
case f_i(w) = |w - x_i|^2 / 2.  All start at 0, so that the sums over the nodes stay 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from continuized.network.gossip import Constants
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.functions import Functions
from continuized.network.optimisation.objective import (
    ASKS_FOR_NONE,
    REGRESSIONS,
    Objective,
    check_convexity,
    check_fits,
)
from continuized.network.protocol.node_model import NodeModelSpec
from continuized.process.methods import Continuized
from continuized.process.parameters import exponential_gamma_prime, omega


@dataclass(frozen=True)
class Dual:
    """Exchanges of grad f_i*(y_i); f_i mu-strongly convex and L-smooth.

    accelerated=True: it is `Continuized(2R/mu, mu_g/L)` with edges for marks, hence
    theta = sqrt(mu_g mu / (2 R L)), gamma = mu/2, gamma' = sqrt(L mu / (2 mu_g R)), and the error
    falls as e^{-theta t}, t such that all edges together tick at rate 1.  accelerated=False:
    theta = 0 and gamma' = gamma; the rate is mu_g mu / (2L).

    >>> from continuized.network import split
    >>> from continuized.problems import LeastSquares
    >>> parts = split(LeastSquares([[1.0], [1.0], [1.0]], [0.0, 1.0, 2.0]), 3)
    >>> Dual(accelerated=False).constants(Graph.of("path:3"), parts)
    Constants(theta=0.0, gamma=0.5, gamma_prime=0.5)
    """

    accelerated: bool = True

    kind: ClassVar[str] = "dual"  # of its nodes
    takes_gradients: ClassVar[bool] = False  # nodes of their own accord, beside exchanges

    @property
    def name(self) -> str:
        """The name in results: "dual" or "plain-dual"."""
        return "dual" if self.accelerated else "plain-dual"

    def check_objective(self, objective: Objective | Functions) -> None:
        """Raise ValueError, naming what is missing, where it cannot minimise this."""
        if isinstance(objective, Functions):
            odd = next((p for p in objective.problems if type(p) not in REGRESSIONS), None)
            kind = "these" if odd is None else f"a {type(odd).__name__}"
            raise ValueError(
                f'method="{self.name}" must minimise f_i(w) - <s, w> at each node, which is '
                "written here for LeastSquares or LogisticRegression at all nodes, without weights "
                f'and intercept, and not for {kind}; use method="dadao" or "a2cid2", which need '
                "gradients only"
            )
        check_convexity(objective, ASKS_FOR_NONE)

    def process(self, graph: Graph, objective: Objective | Functions) -> Continuized:
        """Return the continuized process whose flow and steps the nodes follow."""
        check_convexity(objective)
        L = 2.0 * graph.R / objective.mu
        return Continuized(L, min(graph.mu_g / objective.L, L))  # equal at most, but for rounding

    def constants(self, graph: Graph, objective: Objective | Functions) -> Constants:
        """Return what every node must know."""
        check_convexity(objective)
        gamma = 0.5 * objective.mu
        if not self.accelerated:
            return Constants(0.0, gamma, gamma)
        process = self.process(graph, objective)
        theta = 2.0 * omega(process.L, process.mu)
        return Constants(theta, gamma, exponential_gamma_prime(process.L, process.mu))

    def numbers(self, graph: Graph, objective: Objective | Functions) -> dict[str, float]:
        """Return the constants by their names, for nodes that are made elsewhere."""
        return self.constants(graph, objective)._asdict()

    def find_gossip_constants(self, graph: Graph, objective: Objective | Functions) -> Constants:
        """Return the constants of the gossip that it is where all f_i have the curvature mu."""
        theta, gamma, gamma_prime = self.constants(graph, objective)
        return Constants(theta, gamma / objective.mu, gamma_prime / objective.mu)

    def edge_rate(self, graph: Graph) -> float:
        """Return the rate of all edges together: 1."""
        return 1.0

    def rate(self, graph: Graph, objective: Objective | Functions) -> float:
        """Return r where the theorem says that the error falls as e^{-rt}."""
        if self.accelerated:
            return self.constants(graph, objective).theta
        return 0.5 * graph.mu_g * objective.mu / objective.L

    def node_models(self, graph: Any, objective: Objective) -> list[NodeModelSpec]:
        """Make a model for each node, for `network.run`: training on real processes.

        The x of its result are the nodes' w_i; where they agree, they are the minimiser, if no
        node died.  One that dies takes its y_i with it, and the others then agree where the sum
        of their functions, less <w, what they have left>, is least.
        """
        graph = Graph.of(graph)
        check_fits(graph, objective)
        return objective.specify_nodes(self.kind, self.numbers(graph, objective))
