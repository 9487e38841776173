"""Compiled: gossip as a node model; see `interface`."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.network.gossip import Constants
from continuized.network.simulation.engine import NodeSet
from continuized.network.simulation.node_models.interface import SPEED, TIME, node_model
from continuized.problems.base import Array
from continuized.process.flow import equal_weights, mix
from continuized.process.methods import jump
from continuized.support.jit import uncounted

X = 2  # the column of `work` where x begins, after TIME and SPEED; z stands after x


def make_nodes(values: Array, constants: Constants) -> NodeSet:
    """Make the nodes of gossip, which start with x = z = values."""
    both = np.column_stack([values, values])
    return NodeSet(GossipNodes(*constants), values.shape[1], values=both)


@uncounted
def add_centre(work: Array, alive: Array, owed: Array) -> None:
    """Turn what the living are owed into the mean over them of (x + z) / 2: mixing leaves it."""
    living = 0
    for i in range(work.shape[0]):
        if alive[i]:
            living += 1
            for c in range(owed.size):
                owed[c] += work[i, X + c] + work[i, X + owed.size + c]
    for c in range(owed.size):
        owed[c] *= 0.5 / max(living, 1)


@node_model
class GossipNodes(Constants):
    """Nodes that average: x and z stand in `work`."""

    def flow_to(nodes, work: Array, i: int, time: float) -> None:
        """Mix x and z: `gossip.mix_over`, the weights taken once for all columns."""
        if nodes.theta > 0.0:
            a, b = equal_weights(nodes.theta, time - work[i, TIME])
            z = (work.shape[1] + X) // 2
            for c in range(z - X):
                work[i, X + c], work[i, z + c] = mix(work[i, X + c], work[i, z + c], a, b)
        work[i, TIME] = time

    def message(nodes, work: Array, i: int, c: int) -> float:
        """Return x."""
        return float(work[i, X + c])

    def pay(nodes, work: Array, i: int, c: int, d: float) -> None:
        """Take gamma d off x and gamma' d off z: the jump of the process, with d for g."""
        x, z = X + c, (work.shape[1] + X) // 2 + c
        work[i, x], work[i, z] = jump(work[i, x], work[i, z], d, nodes.gamma, nodes.gamma_prime)

    def conserved_parts(nodes, work: Array, i: Any, c: Any) -> tuple[Any, Any]:
        """Return x and z."""
        return work[i, X + c], work[i, (work.shape[1] + X) // 2 + c]

    def conserved_per_transfer(nodes) -> float:
        """Return gamma + gamma'."""
        return nodes.gamma + nodes.gamma_prime

    def start_from(nodes, work: Array, i: int, answer: Array, answered: bool) -> None:
        """Start with the neighbour's x and z = x; without a neighbour, with what it has."""
        z = (work.shape[1] + X) // 2
        for c in range(z - X):
            if answered:
                work[i, X + c] = answer[c]
            work[i, z + c] = work[i, X + c]

    def disagreement(nodes, work: Array, alive: Array, t: float, owed: Array) -> float:
        """Return the sum of |x - centre|^2 over the living, and turn `owed` into the centre."""
        add_centre(work, alive, owed)
        middle, total, d = owed, 0.0, owed.size
        for i in range(work.shape[0]):
            if alive[i]:
                a, b = equal_weights(nodes.theta, work[i, SPEED] * t - work[i, TIME])
                for c in range(d):
                    x, _ = mix(work[i, X + c], work[i, X + d + c], a, b)
                    gap = x - middle[c]
                    total += gap * gap
        return float(total)
