"""The bound of DADAO: the inequality of its proof, and its constant; that of A²CiD²'s exchanges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.linalg import inv, norm
from scipy.linalg import eigh, null_space
from scipy.special import expit

from continuized import theory
from continuized.network import DADAO, A2CiD2, Gossip, Graph, Objective
from continuized.network.optimisation.node_models import make_nodes
from continuized.network.simulation.instant import InstantEngine
from continuized.problems import LeastSquares
from continuized.process.clock import Events
from continuized.process.random_streams import seed_sequence
from tests.helpers.dadao_reference import (
    XT,
    ZT,
    Constants,
    G,
    Linear,
    W,
    X,
    Y,
    Z,
    form_of_V,
    logistic,
    pseudo_inverse,
    ridge,
)

pytestmark = pytest.mark.blas

EPS = float(np.finfo(float).eps)
UNEVEN = Graph.of([(0, 1), (1, 2), (0, 2)], rates=[1.0, 2.0, 0.5])


# The inequality, for all f


def worst_drift(
    graph: Graph, kappa: float, faster: float = 1.0, wrong: float = 1.0, weight_of_w: float = 1.0
) -> tuple[float, float]:
    """The largest (drift + r V) / |.|^2 / r over all states and all G, and its rounding error.

    G is an entry of its own.  What has D(x) cancels, and of the D'(x) that is left no more is used
    than that it is at least nu/4 |x|^2 + |G|^2 / (4L).  The form is the same in every coordinate:
    one is enough.
    """
    c, n = Constants.of(graph, 3.0, 3.0 / kappa), graph.nodes
    system = Linear.of(graph, c, [np.eye(7)[G]] * n, wrong)
    V = form_of_V(graph, c, 7, weight_of_w)
    r = faster * c.s / 8.0
    total = V @ system.flow + system.flow.T @ V + r * V
    for J, rate in zip(system.jumps, system.rates, strict=True):
        total += rate * (J.T @ V @ J - V)
    unit = np.eye(7 * n).reshape(n, 7, -1)
    for i, g in enumerate(system.gradients):
        e = unit[i]
        # 8L times: the flow of D, its change at a gradient, and r D = r (<G, x> - D').
        flow = c.s / 8.0 * np.outer(e[G], e[XT] - e[X])
        jump = -np.outer(e[G], g) / (4.0 * c.L) + np.outer(g, g) / (32.0 * c.L)
        least = 0.25 * c.nu * np.outer(e[X], e[X]) + np.outer(e[G], e[G]) / (4.0 * c.L)
        part = 8.0 * c.L * (flow + jump + r * (np.outer(e[G], e[X]) - least))
        total += 0.5 * (part + part.T)
    # The entries are of many sizes: in units of their own weight in V the problem is well posed.
    lengths = V + np.kron(np.eye(n), np.diag([c.L * c.nu, 0, 0, 0, 0, 0, 1.0]))
    units = 1.0 / np.sqrt(np.diag(lengths))
    total, lengths = (units[:, None] * form * units for form in (total, lengths))
    Q = null_space(np.kron(np.ones(n), [np.eye(7)[W] - np.eye(7)[Y], np.eye(7)[ZT]]) * units)
    total, lengths = Q.T @ total @ Q, Q.T @ lengths @ Q
    values = eigh(total, lengths, eigvals_only=True) / r
    # The backward error of the solver: size * eps * |total| * |lengths^-1|.
    return float(values[-1]), len(values) * EPS * float(norm(total, 2) * norm(inv(lengths), 2)) / r


@pytest.mark.parametrize("spec", ["path:2", "path:7", "star:6", "complete:5", "cycle:8"])
@pytest.mark.parametrize("kappa", [1.0, 1.5, 10.0, 1e4])
def test_the_drift_of_V_is_at_most_minus_r_V(spec: str, kappa: float) -> None:
    """Whatever the functions: there are states where it is no less, and with mistakes more."""
    graph = Graph.of(spec)
    worst, rounding = worst_drift(graph, kappa)
    assert abs(worst) < rounding < 1e-10
    assert worst_drift(graph, kappa, faster=1.01)[0] > 1e-4
    assert worst_drift(graph, kappa, wrong=1.5)[0] > 1e-4  # z~ at an exchange
    assert worst_drift(graph, kappa, weight_of_w=0.5)[0] > 1e-4


# The package's own events, on logistic losses


class Process:
    """DADAO on a graph: V, and its drift under the compiled events."""

    def __init__(self, graph: Graph, kappa: float) -> None:
        self.graph = graph
        self.parts = logistic(graph.nodes, kappa)
        self.c = Constants.of(graph, self.parts.L, self.parts.mu)
        nodes = make_nodes(DADAO(), graph, self.parts)
        self.engine = InstantEngine(graph, nodes, seed_sequence(0))
        self.form = form_of_V(graph, self.c).reshape(graph.nodes, 6, graph.nodes, 6)
        x = np.tile(self.parts.x_star, (graph.nodes, 1))
        self.slopes = self.slope(x)
        y = self.slopes - self.c.nu * x
        self.limit = np.stack([x, x, y, y, -self.slopes, -self.slopes], axis=1)
        alone = Linear.of(graph, self.c, [np.zeros(6)] * graph.nodes, 1.0)
        self.flow = alone.flow[:6, :6]

    def predictions(self, w: np.ndarray) -> np.ndarray:
        return np.einsum("ird,id->ir", self.parts.X.reshape(len(w), 3, -1), w)

    def slope(self, w: np.ndarray) -> np.ndarray:
        """grad f_i(w_i), by rows."""
        p = self.parts
        y = p.y.reshape(len(w), 3)
        pushes = -p.scale[:, None] * y * expit(-y * self.predictions(w))
        rows = p.X.reshape(len(w), 3, -1)
        return np.asarray(np.einsum("ir,ird->id", pushes, rows) + p.l2[:, None] * w)

    def bregman(self, w: np.ndarray) -> float:
        """The sum of D(w_i)."""
        p, x = self.parts, np.tile(self.parts.x_star, (len(w), 1))
        y = p.y.reshape(len(w), 3)
        first, last = (np.logaddexp(0.0, -y * self.predictions(v)) for v in (x, w))
        shares = (y * expit(-y * self.predictions(x))) * self.predictions(w - x)
        penalty = 0.5 * (p.l2 - self.c.nu) @ ((w - x) ** 2).sum(axis=1)
        return float(p.scale @ (last - first + shares).sum(axis=1) + penalty)

    def inner(self, u: np.ndarray, v: np.ndarray) -> float:
        return float(np.einsum("iac,iajb,jbc->", u, self.form, v))

    def distance(self, state: np.ndarray) -> np.ndarray:
        """From the limit, with y + z in place of z."""
        u = state - self.limit
        u[:, W] += u[:, Y]
        return np.asarray(u)

    def V(self, state: np.ndarray) -> float:
        u = self.distance(state)
        return 8.0 * self.c.L * self.bregman(state[:, X]) + self.inner(u, u)

    def after(self, mark: int, state: np.ndarray) -> np.ndarray:
        self.engine.reset()
        self.engine.nodes.model.state[...] = state
        self.engine.advance(Events(0, 0.0, np.zeros(1), np.zeros(1), np.array([mark])))
        return np.asarray(self.engine.nodes.model.state)

    def drift(self, state: np.ndarray, rates: np.ndarray) -> float:
        u = self.distance(state)
        moved = np.einsum("ab,ibc->iac", self.flow, u)
        slopes = self.slope(state[:, X]) - self.slopes - self.c.nu * u[:, X]
        total = 8.0 * self.c.L * float(np.vdot(slopes, moved[:, X])) + 2.0 * self.inner(u, moved)
        V = self.V(state)
        changes = [self.V(self.after(mark, state)) - V for mark in range(len(rates))]
        return total + float(rates @ changes)

    def random_state(self, rng: np.random.Generator) -> np.ndarray:
        """Of any size; its vectors, y + z in place of z, are such as weigh about the same in V."""
        c = self.c
        sizes = np.array([1.0, 1.0, c.s * c.L, c.s * c.L, c.nu, c.s * c.L])
        u = rng.standard_normal(self.limit.shape)
        u *= (sizes * np.exp(rng.standard_normal(6)))[:, None]
        u[:, ZT] -= u[:, ZT].mean(axis=0)
        u[:, Z] -= u[:, Y]
        u[:, Y] += u[:, Z].mean(axis=0)  # y + z stays as drawn
        u[:, Z] -= u[:, Z].mean(axis=0)
        return np.asarray(self.limit + 10.0 ** rng.uniform(-2.0, 1.0) * u)


@pytest.mark.parametrize(("spec", "kappa"), [("path:2", 1.5), ("star:4", 30.0), ("cycle:5", 1e4)])
def test_the_compiled_events_have_that_drift(spec: str, kappa: float) -> None:
    """In random states; with a twentieth of the gradients and exchanges it can be positive."""
    graph = Graph.of(spec)
    process, rng = Process(graph, kappa), np.random.default_rng(1)
    assert process.parts.L / process.parts.mu == pytest.approx(kappa)
    rates = process.engine.rates
    states = [process.random_state(rng) for _ in range(60)]
    values = np.array([process.V(u) for u in states])
    drifts = np.array([process.drift(u, rates) for u in states])
    assert np.all(drifts < -DADAO().rate(graph, process.parts) * values)
    assert max(process.drift(u, 0.05 * rates) for u in states) > 0.0


def test_no_event_moves_the_limit() -> None:
    process = Process(Graph.of("star:4"), 30.0)
    assert abs(process.V(process.limit)) < 1e-12
    np.testing.assert_allclose(process.limit[:, Z].sum(axis=0), 0.0, atol=1e-12)
    for mark in range(len(process.engine.rates)):
        np.testing.assert_allclose(process.after(mark, process.limit), process.limit, atol=1e-12)


# The constant


@pytest.mark.parametrize(("spec", "kappa"), [("path:2", 1.5), ("star:4", 30.0), ("cycle:5", 1e4)])
def test_the_constant_is_that_of_V_at_the_start(spec: str, kappa: float) -> None:
    """With |z~|^2 for |z~|_+^2 / chi_1, which is at most that."""
    process = Process(Graph.of(spec), kappa)
    c, z = process.c, process.limit[:, ZT]
    V = process.V(np.zeros_like(process.limit))
    longer = float(
        np.sum(z * z) - np.einsum("ic,ij,jc->", z, pseudo_inverse(process.graph, c), z) / c.chi_1
    )
    assert longer > -1e-12  # on path:2 they are equal
    pair = (process.graph, process.parts)
    C = (V + 0.25 * longer) / (4.0 * c.L * c.nu * process.graph.nodes)
    found = theory.bound(DADAO(), pair, 0.0, t=[0.0, 7.0])
    np.testing.assert_allclose(found, C * np.exp([0.0, -7.0 * c.s / 8.0]), rtol=1e-9)
    np.testing.assert_allclose(theory.bound(DADAO(), pair, 0.0, k=[0, 9]), C, rtol=1e-9)
    # f_i(w) = (w - v_i)^2 / 2: F(0) - F* = 1/2, the slopes are -1 and 1, x* is 1.
    parts = Objective.of([LeastSquares([[1.0]], [v]) for v in (2.0, 0.0)])
    assert float(theory.bound(DADAO(), ("path:2", parts), 0.0, t=0.0)) == pytest.approx(
        4.0 * 0.5 + 7.0 / 8.0 + 3.0 / 16.0
    )


# A²CiD², whose exchanges alone have a bound


@pytest.mark.parametrize("accelerated", [True, False])
def test_exchanges_of_a2cid2_have_the_bound_of_gossip(accelerated: bool) -> None:
    x0, t = np.array([3.0, -1.0, 2.0]), np.array([0.0, 2.0])
    method, gossip = A2CiD2(communications=1.5, accelerated=accelerated), Gossip(accelerated, 1.0)
    found = theory.bound(method, UNEVEN, x0, t=t)
    np.testing.assert_allclose(found, theory.bound(gossip, UNEVEN, x0, t=4.5 * t), rtol=1e-14)
    if accelerated:  # in A²CiD²'s time the rate is eta
        eta = method.constants(UNEVEN).theta
        np.testing.assert_allclose(found[1] / found[0], math.exp(-2.0 * eta), rtol=1e-12)
    at_events = theory.bound(method, UNEVEN, x0, k=4)
    assert at_events == theory.bound(gossip, UNEVEN, x0, k=4)


PAIR = UNEVEN, ridge(3, 2.0)[0]


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: theory.bound(DADAO(), UNEVEN, 0.0, t=1.0), r"DADAO runs on a pair \(graph"),
        (lambda: theory.bound(DADAO(), PAIR, [[1.0]], t=1.0), "x0 must be 0"),
        (lambda: theory.bound(DADAO(), PAIR, np.nan, t=1.0), "x0 must be 0"),
        (lambda: theory.bound(DADAO(), PAIR, 0.0, t=-1.0), "t must be finite and >= 0"),
        (
            lambda: theory.bound(DADAO(), PAIR, 0.0, t=1.0, sigma2=1.0),
            "no theorem covers noise for DADAO",
        ),
        (lambda: theory.bound(DADAO(), ("path:2", PAIR[1]), 0.0, t=1.0), "the graph has 2 nodes"),
        (lambda: theory.bound(A2CiD2(), PAIR, 0.0, t=1.0), "the gradients of A²CiD²"),
    ],
)
def test_bad_input(call: Any, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        call()
