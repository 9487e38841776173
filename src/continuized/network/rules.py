"""What a node does: mix alone, exchange with a neighbour.  Plain functions of floats or arrays.

The simulator compiles these very functions; the real nodes call them.

Between its events a node mixes x and z at the same rate theta (`flow.equal_weights`): it needs
only the time since it last did.  At an event of the edge ij, with d = x_i - x_j,

    x_i -= gamma d    z_i -= gamma' d        x_j += gamma d    z_j += gamma' d

so that x_i + x_j and z_i + z_j stay as they were, and with mixing sum_i (x_i + z_i) does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from continuized.process.flow import equal_weights, mix


class Constants(NamedTuple):
    """The three numbers that every node knows.

    theta: the rate at which x and z mix.  gamma, gamma_prime: the steps of x and z at an exchange.

    >>> from continuized.network import Gossip, Graph
    >>> theta, gamma, gamma_prime = Gossip(damping=1.0).constants(Graph.of("path:3"))
    >>> round(theta, 6), gamma, round(gamma_prime, 6)
    (0.353553, 0.5, 0.707107)
    """

    theta: float
    gamma: float
    gamma_prime: float


def mixed(x: Any, z: Any, dt: float, theta: float) -> tuple[Any, Any]:
    """A node's pair after a time dt without an event."""
    a, b = equal_weights(theta, dt)
    return mix(x, z, a, b)


def paid(x: Any, z: Any, d: Any, gamma: float, gamma_prime: float) -> tuple[Any, Any]:
    """The initiator's pair after it gave the transfer of d; with -d, the receiver's."""
    return x - gamma * d, z - gamma_prime * d


FORMULAS = (mixed, paid)
