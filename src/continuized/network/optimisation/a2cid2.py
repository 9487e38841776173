"""A²CiD² (Nabli et al. 2023): stochastic gradients and exchanges, with a momentum of the exchanges.

Between its events a node mixes x and x~ at the rate eta.  At a stochastic gradient g of f_i at x,

    x -= step g    x~ -= step g

and when the edge ij ticks, with d = x_i - x_j,

    x_i -= d/2    x~_i -= alpha~ d        x_j += d/2    x~_j += alpha~ d

where, with the rates of the edges per gradient, eta = 1/(2 sqrt(chi_1 chi_2)) and
alpha~ = sqrt(chi_1/chi_2)/2.  Only the exchanges are accelerated: sum_i (x_i + x~_i) is moved by
gradients alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.functions import Functions
from continuized.network.optimisation.objective import REGRESSION_OF_LOSS, Objective
from continuized.support import validation as check

CAUTION = 4.0  # the default step is 1 / (CAUTION times the smoothness of a single row's function)


@dataclass(frozen=True)
class A2CiD2:
    """Stochastic gradient descent with accelerated exchanges; no theorem here gives a rate.

    With a step that stays, the nodes come near the minimiser, not to it: the noise of the
    gradients and the differences between the f_i keep them away.

    Parameters
    ----------
    step : float, optional
        By default 1/(4 L_row), L_row the smoothness of the roughest row's function; of functions of
        your own, 1/(4 L).
    batch : int
        Rows of a stochastic gradient, drawn with replacement; 0: all the node's rows, no noise.
        Functions of your own have no rows to draw: they are asked for their gradients.
    communications : float
        Exchanges for each gradient, over the whole network.
    accelerated : bool
        False: eta = 0 and alpha~ = 1/2, stochastic gradients with plain gossip.

    Raises
    ------
    TypeError, ValueError
        For a step, a batch or communications that make no sense.

    >>> import numpy as np
    >>> from continuized import network, problems
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> parts = network.split(problems.LeastSquares(X, X.sum(axis=1), l2=0.1), 5, rng=0)
    >>> r = network.minimize("cycle:5", parts, method=A2CiD2(), events=20_000, rng=0)
    >>> bool(r.error < 0.1)
    True
    """

    step: float | None = None
    batch: int = 1
    communications: float = 1.0
    accelerated: bool = True

    kind: ClassVar[str] = "a2cid2"  # of its nodes
    takes_gradients: ClassVar[bool] = True  # nodes of their own accord, beside exchanges

    def __post_init__(self) -> None:
        for name in ("step", "communications"):
            if getattr(self, name) is not None:
                check.real(getattr(self, name), name, above=0.0)
        batch = check.whole(self.batch, "batch", minimum=0, maximum=2**31 - 1)
        object.__setattr__(self, "batch", batch)  # one type, for one compiled loop

    @property
    def name(self) -> str:
        """The name in results: "a2cid2" or "plain-sgd"."""
        return "a2cid2" if self.accelerated else "plain-sgd"

    def check_objective(self, objective: Objective | Functions) -> None:
        """Raise ValueError, naming what is missing, where it cannot minimise this."""
        self.step_for(objective)

    def edge_rate(self, graph: Graph) -> float:
        """Return the rate of all edges together, where every node takes gradients at rate 1."""
        return self.communications * graph.nodes

    def constants(self, graph: Graph) -> Constants:
        """Return eta, alpha and alpha~."""
        if not self.accelerated:
            return Constants(0.0, 0.5, 0.5)
        rate = self.edge_rate(graph)
        chi_1, chi_2 = graph.chi_1 / rate, graph.chi_2 / rate
        return Constants(0.5 / math.sqrt(chi_1 * chi_2), 0.5, 0.5 * math.sqrt(chi_1 / chi_2))

    def find_gossip_constants(self, graph: Graph, objective: Objective | Functions) -> Constants:
        """Return the constants of the gossip that its exchanges are, in the time of their ticks."""
        constants = self.constants(graph)
        return constants._replace(theta=constants.theta / self.edge_rate(graph))

    def numbers(self, graph: Graph, objective: Objective | Functions) -> dict[str, float]:
        """Return the constants by their names, for nodes that are made elsewhere."""
        own = {"length": self.step_for(objective), "batch": self.batch}
        return {**own, **self.constants(graph)._asdict()}

    def step_for(self, objective: Objective | Functions) -> float:
        """Return the step, given or by default."""
        if self.step is not None:
            return float(self.step)
        if isinstance(objective, Functions):
            return 1.0 / (CAUTION * objective.L)
        o, curvature = objective, REGRESSION_OF_LOSS[objective.loss].curvature
        largest = np.maximum.reduceat((o.X * o.X).sum(axis=1), o.starts[:-1])
        roughest = (curvature * o.scale * np.diff(o.starts) * largest + o.l2).max()
        return float(1.0 / (CAUTION * roughest))

    def rate(self, graph: Graph, objective: Objective | Functions) -> float:
        """Return NaN: no theorem here gives a rate."""
        return math.nan
