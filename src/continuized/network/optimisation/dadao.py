"""DADAO (Nabli & Oyallon 2023): gradients and exchanges, each at their own times, no conjugates.

With nu = mu/2 and s = sqrt(nu/L), a node has six vectors, that between its events follow

    x'  = (s/8)(x~ - x)      x~' = (s/8)(x - x~)
    z'  = alpha (z~ - z)     z~' = alpha~ (z - z~)          alpha = s/4, alpha~ = s/8
    y'  = alpha (y~ - y)     y~' = -theta (y + z + nu x~)   theta = 1/(2s)

At a gradient, which a node takes at rate 1, with g = grad f_i(x) - nu x - y~,

    x -= g / (4L)    x~ -= g / (4 sqrt(L nu))    y~ += (s/4 + 1) g

and when the edge ij ticks, with q = (y + z)_i - (y + z)_j,

    z_i -= q/2    z~_i -= (2 chi_1/s) q        z_j += q/2    z~_j += (2 chi_1/s) q

where the edges tick so often, together sqrt(R / mu_g), that 2 chi_1 chi_2 = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.functions import Functions
from continuized.network.optimisation.objective import ASKS_FOR_NONE, Objective, check_convexity

X, X_TILDE, Y, Y_TILDE, Z, Z_TILDE = range(6)
Six = tuple[float, float, float, float, float, float]


class Steps(NamedTuple):
    """The numbers that every node knows."""

    s: float
    nu: float
    L: float
    chi_1: float


class Decay(NamedTuple):
    """What the flow over a time dt multiplies with: exponentials, and the turn of (y, y~)."""

    slow: float  # e^{-s dt / 4}, of x - x~
    fast: float  # e^{-3 s dt / 8}, of z - z~
    turn_yy: float
    turn_yt: float
    turn_ty: float
    turn_tt: float


@dataclass(frozen=True)
class DADAO:
    """The method; E of the squared distance to the minimiser falls as e^{-t sqrt(mu/L)/(8 sqrt 2)}.

    t is such that every node takes gradients at rate 1.

    >>> import numpy as np
    >>> from continuized import network, problems
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> parts = network.split(problems.LeastSquares(X, X.sum(axis=1), l2=0.1), 5, rng=0)
    >>> network.minimize("cycle:5", parts, method=DADAO(), tol=1e-4, rng=0).reached
    True
    """

    name: ClassVar[str] = "dadao"
    kind: ClassVar[str] = "dadao"  # of its nodes
    takes_gradients: ClassVar[bool] = True  # nodes of their own accord, beside exchanges

    def numbers(self, graph: Graph, objective: Objective | Functions) -> dict[str, float]:
        """Return the constants by their names, for nodes that are made elsewhere."""
        return self.steps(graph, objective)._asdict()

    def check_objective(self, objective: Objective | Functions) -> None:
        """Raise ValueError, naming what is missing, where it cannot minimise this."""
        check_convexity(objective, ASKS_FOR_NONE)

    def steps(self, graph: Graph, objective: Objective | Functions) -> Steps:
        """Return its constants on a graph."""
        check_convexity(objective)
        nu, L, chi_1 = 0.5 * objective.mu, objective.L, 1.0 / math.sqrt(graph.R * graph.mu_g)
        return Steps(math.sqrt(nu) / math.sqrt(L), nu, L, chi_1)

    def find_gossip_constants(self, graph: Graph, objective: Objective | Functions) -> None:
        """Return None: its exchanges are no accelerated gossip."""

    def edge_rate(self, graph: Graph) -> float:
        """Return the rate of all edges together: sqrt(R / mu_g)."""
        return math.sqrt(graph.R / graph.mu_g)

    def rate(self, graph: Graph, objective: Objective | Functions) -> float:
        """Return r where the theorem says that the error falls as e^{-rt}."""
        return math.sqrt(objective.mu / objective.L) / (8.0 * math.sqrt(2.0))


def decay(dt: float, s: float) -> Decay:
    """Return the flow's exponentials.

    (y, y~)' = M (y, y~) with M = [[-alpha, alpha], [-theta, 0]] turns and decays, for
    omega^2 = alpha theta - alpha^2/4 = 1/8 - s^2/64 > 0:
    e^{Mt} = e^{-alpha t/2} (cos(omega t) + (M + alpha/2) sin(omega t)/omega).
    """
    alpha, theta = 0.25 * s, 0.5 / s
    omega = math.sqrt(0.125 - 0.25 * alpha * alpha)
    shrink = math.exp(-0.5 * alpha * dt)
    cosine, sine = shrink * math.cos(omega * dt), shrink * math.sin(omega * dt) / omega
    half = 0.5 * alpha * sine
    return Decay(
        math.exp(-0.25 * s * dt),
        math.exp(-0.375 * s * dt),
        cosine - half,
        alpha * sine,
        -theta * sine,
        cosine + half,
    )


def flow_node(
    x: float, xt: float, y: float, yt: float, z: float, zt: float, by: Decay, s: float, nu: float
) -> Six:
    """Return one coordinate after a time without an event; exact.

    z + nu x~ is a constant u and two decaying terms, u_1 e^{-3st/8} and u_2 e^{-st/4}.  (y, y~)
    follows them at (-u, -u), at u_1 (k, -k/2), k = theta / (-3s/16 - theta), and at u_2 (-1, 0);
    what it is off them turns and decays.
    """
    theta = 0.5 / s
    mean, gap = 0.5 * (x + xt), 0.5 * (x - xt)
    rest, off = (z + 2.0 * zt) / 3.0, (z - zt) / 3.0
    u, u1, u2 = rest + nu * mean, 2.0 * off, -nu * gap
    k = -theta / (0.1875 * s + theta)
    free, free_t = y + u - k * u1 + u2, yt + u + 0.5 * k * u1
    gap, off = gap * by.slow, off * by.fast
    u1, u2 = u1 * by.fast, u2 * by.slow
    return (
        mean + gap,
        mean - gap,
        by.turn_yy * free + by.turn_yt * free_t - u + k * u1 - u2,
        by.turn_ty * free + by.turn_tt * free_t - u - 0.5 * k * u1,
        rest + 2.0 * off,
        rest - off,
    )


def take_gradient(x: float, xt: float, yt: float, slope: float, steps: Steps) -> tuple[float, ...]:
    """Return (x, x~, y~) of one coordinate after a gradient, slope = grad f(x) there."""
    g = slope - steps.nu * x - yt
    return (
        x - g / (4.0 * steps.L),
        xt - g * steps.s / (4.0 * steps.nu),  # 1/sqrt(L nu) = s/nu
        yt + (0.25 * steps.s + 1.0) * g,
    )


def pull(steps: Steps) -> float:
    """Return the step of z~ at an exchange, 2 chi_1 / s."""
    return 2.0 * steps.chi_1 / steps.s


FORMULAS = (decay, flow_node, take_gradient, pull)
