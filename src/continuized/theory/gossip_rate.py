"""The exact rate of gossip in mean square: the slowest mode of the second moments.

In the basis of Lambda's eigenvectors v_a, a mode e^{st} of the second moments satisfies
(s - D) (A, B, C) = (1/4, gamma'/2, gamma'^2) S(q), where D acts on each pair (a, b) alone, and all
pairs meet in S(q) = sum_e P_e q_e b_e b_e^T, q_e = b_e^T A b_e.  It is a fixed point q = M(s) q of

    M(s): q -> S(q) -> A_ab = r_ab(s) (v_a^T S v_b) -> b_e^T A b_e,

a map of as many numbers as there are edges.  Where s is above all of D's eigenvalues, M(s) maps
positive q to positive (S(q) is a covariance, and so is the response A to it), and it decreases in
s.  So the rate is where its largest eigenvalue rho(s) is 1, and for every q > 0

    min_e (M(s) q)_e / q_e  <=  rho(s)  <=  max_e (M(s) q)_e / q_e     (Collatz, Wielandt),

which tells on which side of 1 it is.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from continuized.network.gossip import Constants, Gossip, as_gossip
from continuized.network.graphs.graph import Graph
from continuized.network.graphs.spectrum import dense_laplacian, laplacian
from continuized.problems.base import Array
from continuized.support import blas
from continuized.support import validation as check
from continuized.support.files import check_memory
from continuized.support.progress import Bar, bar
from continuized.theory.bounds.network import check_graph

Response = Callable[[float], Array]

TOL = 1e-5
LEAST_TOL = 1e-10  # rounding lets nothing less be certified
MOST_ROUNDS = 20
MOST_NODES = 3000


def gossip_rate(
    graph: Graph | str, method: Gossip | None = None, *, tol: float = TOL, progress: bool = False
) -> float:
    """Find the exact rate r at which E |x_t - mean|^2 decays, as e^{-rt}, from almost every start.

    It is at least what the theorem promises, theta or mu_g / 2, and is certified to a relative
    tol (mostly it is right to tol^2).  method: accelerated gossip by default.  It takes 30 to 60
    pairs of products of n x n matrices, 10 s for 900 nodes, and is for at most 3000.  graph: a
    Graph, or what `Graph.of` takes.  progress: show on standard error how many pairs are done.

    Raises ValueError for larger graphs and where tol is not in [1e-10, 1), and ArithmeticError
    where the certificate fails.

    >>> round(gossip_rate("path:2", Gossip(accelerated=False)), 9)
    1.0
    """
    g, method = check_graph(graph), Gossip() if method is None else as_gossip(method)
    tol = check.real(tol, "tol", minimum=LEAST_TOL, below=1.0)
    if g.nodes > MOST_NODES:
        raise ValueError(f"the exact rate is for at most {MOST_NODES} nodes, not {g.nodes}")
    check_memory(80.0 * g.nodes**2, "the second moments", "a smaller graph")
    constants = method.constants(g)
    with bar("gossip rate", None, progress, unit="product") as show:
        work = float(g.nodes) ** 3  # of each of many products
        return -blas.compute(work, _find_rate, g, method.accelerated, constants, tol, show)


def _find_rate(g: Graph, accelerated: bool, constants: Constants, tol: float, show: Bar) -> float:
    values, V = np.linalg.eigh(dense_laplacian(g.nodes, g.edges, g.P))
    respond = accelerated_response if accelerated else plain_response
    return _find_crossing(_Spread(g, V[:, 1:], *respond(values[1:], constants), show), tol)


class _Spread:
    """M(s) in the symmetric form P^{1/2} K(s) P^{1/2}, acting on y = P^{1/2} q.

    response: r(s), what A_ab / S_ab is in a mode e^{st}.  top: the largest real part of D's
    eigenvalues.
    """

    def __init__(self, graph: Graph, V: Array, response: Response, top: float, show: Bar) -> None:
        self.graph, self.V, self.response, self.top = graph, V, response, top
        self.show, self.applied = show, 0
        self.root_P = np.sqrt(graph.P)
        self.i, self.j = graph.edges.T
        self.across = V[self.i] - V[self.j]

    def source(self, y: Array) -> Array:
        """Return S(q) in the basis of the eigenvectors."""
        g = self.graph
        S = laplacian(g.nodes, g.edges, self.root_P * y.ravel())
        return np.asarray(self.V.T @ (S @ self.V))

    def apply(self, at: Array, y: Array) -> Array:
        """Return M(s) y, where `at` is r(s)."""
        image = self.V @ (at * self.source(y))
        q = np.einsum("ea,ea->e", self.across, image[self.i] - image[self.j])
        self.applied += 1
        self.show(self.applied)
        return np.asarray(self.root_P * q)

    def perron(self, s: float, y: Array) -> Array:
        """Return a vector nearer to the positive eigenvector of M(s) than the one given."""
        from scipy.sparse.linalg import LinearOperator, eigsh

        m, at = len(y), self.response(s)
        if m == 1:
            return y
        operator = LinearOperator((m, m), matvec=lambda v: self.apply(at, v), dtype=np.float64)
        # Roughly: s is better than y, and the next y is sought at a better s.
        vector = eigsh(operator, k=1, which="LA", v0=y, ncv=min(m, 6), tol=1e-3)[1][:, 0]
        return np.asarray(np.abs(vector))

    def rayleigh(self, y: Array) -> float:
        """Find the s at which y^T M(s) y = 1, y scaled to unit length.

        That is sum_ab r_ab(s) S_ab^2 = 1: S is asked for once.  For y near the eigenvector, s is
        twice as near as y in digits, and it is never above the s sought.
        """
        from scipy.optimize import brentq

        square, top = self.source(y / np.linalg.norm(y)) ** 2, self.top

        def above(s: float) -> float:
            return 1.0 / float(np.vdot(self.response(s), square)) - 1.0 if s > top else -1.0

        width = 0.5 * abs(top)  # by the theorem, the rate is half of -top or more
        while above(top + width) < 0.0:
            width *= 2.0
        return float(brentq(above, top, top + width, rtol=1e-14, xtol=1e-15 * width))


def _find_crossing(spread: _Spread, tol: float) -> float:
    """Find the s above D's eigenvalues where rho(s) = 1."""
    y = spread.root_P
    found = spread.rayleigh(y)
    for _ in range(MOST_ROUNDS):
        y = spread.perron(found, y)
        found = spread.rayleigh(y)
        if _is_certified(spread, y, found, tol):
            return found
    raise ArithmeticError(
        f"the rate of gossip, {-found:.6g}, could not be certified to {tol:g}: do the rates P_e "
        "differ by many orders of magnitude?"
    )


def _is_certified(spread: _Spread, y: Array, found: float, tol: float) -> bool:
    """Whether rho is above 1 a little below `found`, and below 1 a little above it."""
    margin = 0.5 * tol * abs(spread.top)  # by the theorem, the rate is half of -top or more
    for s, sign in ((found - margin, 1.0), (found + margin, -1.0)):
        if s > spread.top:  # below it there is nothing to find
            ratios = spread.apply(spread.response(s), y) / y
            if not np.all(sign * (ratios - 1.0) > 0.0):
                return False
    return True


def plain_response(values: Array, constants: Constants) -> tuple[Response, float]:
    """(s + gamma (a + b)) A = gamma^2 S, for eigenvalues a and b."""
    a, b, gamma = values[:, None], values[None, :], constants.gamma
    return lambda s: gamma**2 / (s + gamma * (a + b)), -2.0 * gamma * float(values[0])


def accelerated_response(values: Array, constants: Constants) -> tuple[Response, float]:
    """The 4 x 4 system of A_ab, B_ab, B_ba and C_ab, with B eliminated.

    With e = s + 2 theta, B_ab = p (f_b A + theta C + gamma gamma' S), p = 1 / (e + gamma a) and
    f_b = theta - gamma' b, and B_ba the same with a and b exchanged; what is left is

        (e + gamma (a + b)) A = gamma^2 S  + theta (B_ab + B_ba)
                          e C = gamma'^2 S + f_a B_ab + f_b B_ba
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
    return at, 2.0 * float((root - 0.5 * trace).real.max())
