"""The exact rate of DADAO in mean square, on ridge: the slowest mode of its second moments."""

from __future__ import annotations

import numpy as np

from continuized.network import DADAO, Graph, Objective
from continuized.theory.moments.dadao import generator, system_of


def dadao_rate(graph: Graph, objective: Objective, method: DADAO) -> float:
    """r where the mean square of the distance to the limit is as e^{-rt} in the end.

    From almost every start where the sums of z and z~ are 0, as they stay.  For few nodes: the
    generator has (6 nodes dim)^4 / 4 entries.
    """
    G, _ = generator(system_of(graph, objective, method))
    return -float(np.linalg.eigvals(G).real.max())
