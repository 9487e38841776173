"""The exact rate of gossip in mean square: the slowest mode of the second moments.

In the basis of Lambda's eigenvectors v_a, the system of `gossip_moments` is (s - D) M = S(q) c, where
D acts on each pair (a, b) alone, c = (1/4, gamma'/2, gamma'^2), and all pairs meet in the one term
S(q) = sum_e P_e q_e b_e b_e^T, q_e = b_e^T A b_e.  A mode e^{st} thus is a fixed point q = M(s) q of

    M(s): q -> S(q) -> A_ab = r_ab(s) (v_a^T S v_b) -> b_e^T A b_e,

a map of as many numbers as there are edges.  Where s is above all of D's eigenvalues, M(s) maps
positive q to positive (S(q) is a covariance, and so is the response A to it), and it decreases in s.
So the rate is where its largest eigenvalue rho(s) is 1, and for every q > 0

    min_e (M(s) q)_e / q_e  <=  rho(s)  <=  max_e (M(s) q)_e / q_e     (Collatz, Wielandt),

which tells on which side of 1 it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from continuized.memory import check_memory
from continuized.network.graph import Graph
from continuized.network.methods import Gossip
from continuized.network.rules import Constants
from continuized.network.spectrum import laplacian
from continuized.problems.base import Array
from continuized.theory.gossip_bounds import checked_graph

TOL = 1e-6  # relative accuracy of the rate, certified
LARGEST = 3000  # nodes


def gossip_rate(graph: Graph | str, method: Gossip | None = None) -> float:
    """The exact rate r at which E |x_t - mean|^2 decays, as e^{-rt}, from almost every start.

    It is at least what the theorem promises, theta or mu_g / 2, and is certified to a relative
    1e-6.  method: accelerated gossip by default.  It takes about a hundred pairs of products of
    n x n matrices, some 10 s for 900 nodes, and is for at most 3000.

    Raises ValueError for larger graphs, and ArithmeticError where the certificate fails.

    >>> round(gossip_rate("path:2", Gossip(accelerated=False)), 9)
    1.0
    """
    g, method = checked_graph(graph), Gossip() if method is None else method
    if g.nodes > LARGEST:
        raise ValueError(f"the exact rate is for at most {LARGEST} nodes, not {g.nodes}")
    check_memory(80.0 * g.nodes**2, "the second moments", "a smaller graph")
    values, V = np.linalg.eigh(laplacian(g.nodes, g.edges, g.P).toarray())
    constants = method.constants(g)
    respond = accelerated_response if method.accelerated else plain_response
    response = respond(values[1:], constants)
    promised = constants.theta if method.accelerated else 0.5 * g.mu_g
    return -_crossing(_Spread(g, V[:, 1:], response), -promised)


class _Spread:
    """M(s) in the symmetric form P^{1/2} K(s) P^{1/2}, and its largest eigenvalue."""

    def __init__(self, graph: Graph, V: Array, response: Response) -> None:
        self.graph, self.V, self.response = graph, V, response
        i, j = graph.edges.T
        self.across = V[i] - V[j]
        self.root_P = np.sqrt(graph.P)
        self.y = self.root_P / np.linalg.norm(self.root_P)  # the eigenvector, as of last time

    def apply(self, s: float, y: Array, at: Array | None = None) -> Array:
        """y = P^{1/2} q; `at` is r(s), where it is known."""
        g = self.graph
        S = laplacian(g.nodes, g.edges, self.root_P * y.ravel())
        A = (self.response.at(s) if at is None else at) * (self.V.T @ (S @ self.V))
        i, j = g.edges.T
        image = self.V @ A
        q = np.einsum("ea,ea->e", self.across, image[i] - image[j])
        return np.asarray(self.root_P * q)

    def largest(self, s: float) -> float:
        """rho(s)."""
        from scipy.sparse.linalg import LinearOperator, eigsh

        m, at = len(self.y), self.response.at(s)
        if m == 1:
            return float(self.apply(s, np.ones(1), at)[0])
        operator = LinearOperator((m, m), matvec=lambda y: self.apply(s, y, at), dtype=np.float64)
        value, vector = eigsh(operator, k=1, which="LA", v0=self.y, ncv=min(m, 12), tol=1e-12)
        self.y = np.abs(vector[:, 0])
        return float(value[0])


def _crossing(spread: _Spread, high: float) -> float:
    """The s in (top, high] where rho(s) = 1."""
    from scipy.optimize import brentq

    top = spread.response.top

    def above(s: float) -> float:
        return 1.0 / spread.largest(s) - 1.0 if s > top else -1.0  # rho has a pole there

    found = high if above(high) <= 0.0 else float(brentq(above, top, high, rtol=1e-9, xtol=1e-300))
    above(found)
    for s, sign in ((found * (1.0 + TOL), 1.0), (found * (1.0 - TOL), -1.0)):
        ratios = spread.apply(s, spread.y) / spread.y if s > top else np.array([np.inf])
        if not np.all(sign * (ratios - 1.0) > 0.0):
            raise ArithmeticError(
                f"the rate of gossip, {-found:.6g}, could not be certified to {TOL:g}; are there "
                "rates P_e that differ by many orders of magnitude?"
            )
    return found


class Response(NamedTuple):
    """r(s): what A_ab / S_ab is in a mode e^{st}, and the largest real part of D's eigenvalues."""

    at: Callable[[float], Array]
    top: float


def plain_response(values: Array, constants: Constants) -> Response:
    """(s + (a + b)/2) A = 1/4 S, for eigenvalues a and b."""
    a, b = values[:, None], values[None, :]
    return Response(lambda s: 0.25 / (s + 0.5 * (a + b)), -float(values[0]))


def accelerated_response(values: Array, constants: Constants) -> Response:
    """The 4 x 4 system of A_ab, B_ab, B_ba and C_ab, with B eliminated.

    With e = s + 2 theta, B_ab = p (f_b A + theta C + gamma'/2 S), where p = 1 / (e + a/2) and
    f_b = theta - gamma' b, and B_ba the same with a and b exchanged; what is left is

        (e + (a + b)/2) A = 1/4 S      + theta (B_ab + B_ba)
                     e C  = gamma'^2 S + f_a B_ab + f_b B_ba
    """
    a, b = values[:, None], values[None, :]
    theta, gamma, step = constants
    f_a, f_b = theta - step * a, theta - step * b

    def at(s: float) -> Array:
        e = s + 2.0 * theta
        p, q = 1.0 / (e + gamma * a), 1.0 / (e + gamma * b)
        both, cross = p + q, p * f_a + q * f_b
        in_A = e + gamma * (a + b) - theta * (p * f_b + q * f_a)
        in_C = e - theta * cross
        from_S = gamma**2 + gamma * step * theta * both, step**2 + gamma * step * cross
        determinant = in_A * in_C - theta**2 * both * (f_a * f_b * both)
        return np.asarray((in_C * from_S[0] + theta**2 * both * from_S[1]) / determinant)

    # The mean of (u, w) along an eigenvector decays with the eigenvalues of a 2 x 2 matrix.
    trace = gamma * values + 2.0 * theta
    root = np.sqrt(0.25 * trace**2 - theta * values * (gamma + step) + 0j)
    return Response(at, 2.0 * float((root - 0.5 * trace).real.max()))
