"""Gossip: the method, its constants on a graph, and what a node of it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs.graph import Graph
from continuized.problems.base import Array
from continuized.process.flow import equal_weights, mix
from continuized.process.methods import Continuized
from continuized.process.parameters import exponential_gamma_prime
from continuized.support import validation as check
from continuized.support.progress import warn_caller


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


def mix_over(x: Any, z: Any, dt: float, theta: float) -> tuple[Any, Any]:
    """Return a node's pair after a time dt without an event."""
    a, b = equal_weights(theta, dt)
    return mix(x, z, a, b)


EQUAL_RATES = 1e-9  # relative: on the complete graph the two rates are equal


class NoGainWarning(UserWarning):
    """Acceleration is not faster than plain gossip on this graph.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", NoGainWarning)
    ...     try:
    ...         _ = Gossip().constants(Graph.of("complete:4"))
    ...     except NoGainWarning as warning:
    ...         print(str(warning).partition(":")[0])
    acceleration gains nothing on complete
    """


@dataclass(frozen=True)
class Gossip:
    """Averaging by exchanges over the edges, which tick at the graph's rates P_ij, in all 1.

    accelerated=True: theta = damping sqrt(mu_g / (2R)), gamma = 1/2, gamma' = 1 / sqrt(2 mu_g R),
    0 < damping <= 1, and E |x_t - mean|^2 <= (1 + damping) |x_0 - mean|^2 e^{-theta t}; the proof
    is in `docs/proofs/gossip.md`.  With damping = 1 it is `Continuized(L=2R, mu=mu_g)` with edges
    for marks, and the slowest mode is damped critically, which costs a factor of t^2 beside the
    exponential.  At 0.9 that is gone: a run to 1e-9 on path:100 or grid:30x30 needs about a tenth
    fewer exchanges, while the exact rate (`theory.gossip_rate`) is between 5 per cent less and 6
    per cent more than at 1 on 32 graphs of up to 800 nodes.  And a tenth of the exchanges may fail
    before theta is too large for those that are left.

    accelerated=False: theta = 0 and gamma' = gamma = 1/2, so that z = x, and
    E |x_t - mean|^2 <= |x_0 - mean|^2 e^{-mu_g t / 2}.

    Raises ValueError where damping is not in (0, 1].

    >>> from continuized.network import Graph
    >>> Gossip(accelerated=False).constants(Graph.of("path:3"))
    Constants(theta=0.0, gamma=0.5, gamma_prime=0.5)
    """

    accelerated: bool = True
    damping: float = 0.9

    def __post_init__(self) -> None:
        check.real(self.damping, "damping", above=0.0, maximum=1.0)

    @property
    def name(self) -> str:
        """The name in results: "accelerated" or "plain"."""
        return "accelerated" if self.accelerated else "plain"

    def process(self, graph: Graph) -> Continuized:
        """Return the continuized process whose flow and steps the nodes follow."""
        L = 2.0 * graph.R
        return Continuized(L, min(graph.mu_g, L))  # equal on two nodes, but for rounding

    def constants(self, graph: Graph) -> Constants:
        """Return what every node must know.

        Warns with NoGainWarning where theta <= mu_g / 2, so that acceleration gains nothing.
        """
        if not self.accelerated:
            return Constants(0.0, 0.5, 0.5)
        theta = graph.theta
        if theta <= (1.0 + EQUAL_RATES) * 0.5 * graph.mu_g:
            warn_caller(
                f"acceleration gains nothing on {graph.name or 'this graph'}: its rate is "
                f"{theta:.3g}, that of plain gossip {0.5 * graph.mu_g:.3g}; use "
                "Gossip(accelerated=False)",
                NoGainWarning,
            )
        process = self.process(graph)
        gamma_prime = exponential_gamma_prime(process.L, process.mu)
        return Constants(self.damping * theta, 0.5, gamma_prime)

    def rate(self, graph: Graph) -> float:
        """Return r where the theorem says that E |x_t - mean|^2 falls as e^{-rt}."""
        return self.damping * graph.theta if self.accelerated else 0.5 * graph.mu_g


def as_gossip(method: Any) -> Gossip:
    """Return the method that a name stands for."""
    if isinstance(method, Gossip):
        return method
    name = check.one_of(method, "method", ("accelerated", "plain"), other="a Gossip")
    return Gossip(accelerated=name == "accelerated")


def check_values(values: ArrayLike, graph: Graph) -> Array:
    """Return a fresh float64 array, a row for each node."""
    given = check.array(values, "values", dtype=np.float64, finite=True)
    if given.ndim not in (1, 2) or given.shape[0] != graph.nodes or given.size == 0:
        raise ValueError(
            f"values must have shape ({graph.nodes},) or ({graph.nodes}, dim), a row for each "
            f"node, got {given.shape}"
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(np.sum(4.0 * given * given)):  # a difference is twice as large at most
            raise ValueError("values are too large, their squares overflow: divide them")
    return given
