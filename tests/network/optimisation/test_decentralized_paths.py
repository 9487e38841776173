"""Decentralised optimisation with faults, path by path: the log of messages, replayed in NumPy.

The log fixes who said, paid and was paid what and when; all that nodes compute is written here
again from the formulas, with matrix exponentials for the flow.  So is the ledger: what the living
have and are owed, summed up, against what the package says of the dead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.linalg import expm

from continuized import clock as clocks
from continuized.network import DADAO, A2CiD2, Dual, Faults, Graph, Objective
from continuized.network.logs.entries import LOG_ANSWER, LOG_APPLY, LOG_JOIN, LOG_PAY
from continuized.network.optimisation.node_models import make_nodes
from continuized.network.simulation.messages import MessageEngine
from continuized.problems import LeastSquares
from continuized.process.marks import Categorical
from continuized.process.random_streams import seed_sequence

pytestmark = pytest.mark.blas

GRAPH = Graph.of([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)], rates=[1, 2, 1, 3, 1, 2])
NODES, EVENTS = 5, 700
_RNG = np.random.default_rng(3)
REGRESSIONS = [
    LeastSquares(_RNG.standard_normal((4, 2)), _RNG.standard_normal(4), l2=0.2)
    for _ in range(NODES)
]
PARTS = Objective.of(REGRESSIONS)
HESSIANS = [p.X.T @ p.X / 4 + 0.2 * np.eye(2) for p in REGRESSIONS]
PULLS = [p.X.T @ p.y / 4 for p in REGRESSIONS]  # grad f_i(w) = H_i w - pull_i
L = max(np.linalg.eigvalsh(H)[-1] for H in HESSIANS)
MU = min(np.linalg.eigvalsh(H)[0] for H in HESSIANS)
SPEEDS = np.array([0.7, 1.2, 1.0, 0.9, 1.3])
DEATHS, JOINS = ((4.0, 1), (9.0, 1), (11.0, 4)), ((2.0, 3), (6.0, 1), (14.0, 4))  # 3 comes late


class Rules(NamedTuple):
    """A method of nodes whose state is (vectors, dim), from the formulas."""

    flow: np.ndarray
    said: Any  # (i, state) -> what node i says
    paid: np.ndarray  # what a transfer of 1 takes off each vector
    stepped: Any  # (i, state) -> the state after a gradient
    came: Any  # state of a neighbour -> that of a node that joins
    share: np.ndarray  # weights of the vectors in what exchanges only move
    slope: float  # sum of gradients where the living agree, for each 1 that they have of it
    estimate: Any  # (i, state) -> w


def dual() -> Rules:
    eta = math.sqrt(GRAPH.mu_g / (2.0 * GRAPH.R)) * math.sqrt(MU / L)

    def w(i: int, u: np.ndarray) -> np.ndarray:
        return np.linalg.solve(HESSIANS[i], u[0] + PULLS[i])

    paid = np.array([MU / 2.0, math.sqrt(L * MU / (2.0 * GRAPH.mu_g * GRAPH.R))])
    flow = np.array([[-eta, eta], [eta, -eta]])
    return Rules(flow, w, paid, None, np.zeros_like, np.ones(2), 0.5, w)


def dadao() -> Rules:
    nu = MU / 2.0
    s = math.sqrt(nu / L)
    alpha, alpha_t, theta = s / 4.0, s / 8.0, 1.0 / (2.0 * s)
    chi_1 = 1.0 / math.sqrt(GRAPH.mu_g * GRAPH.R)
    flow = np.array(
        [
            [-s / 8, s / 8, 0, 0, 0, 0],
            [s / 8, -s / 8, 0, 0, 0, 0],
            [0, 0, -alpha, alpha, 0, 0],
            [0, -theta * nu, -theta, 0, -theta, 0],
            [0, 0, 0, 0, -alpha, alpha],
            [0, 0, 0, 0, alpha_t, -alpha_t],
        ]
    )

    def stepped(i: int, u: np.ndarray) -> np.ndarray:
        g = HESSIANS[i] @ u[0] - PULLS[i] - nu * u[0] - u[3]
        by = np.array([-1 / (4 * L), -1 / (4 * math.sqrt(L * nu)), 0.0, s / 4 + 1.0, 0.0, 0.0])
        return u + np.outer(by, g)

    def came(u: np.ndarray) -> np.ndarray:
        return np.outer([1.0, 1.0, -nu, -nu, 0.0, 0.0], u[0])

    paid = np.array([0.0, 0.0, 0.0, 0.0, 0.5, 2.0 * chi_1 / s])
    share = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 2.0])
    return Rules(
        flow, lambda i, u: u[2] + u[4], paid, stepped, came, share, -1 / 3, lambda i, u: u[0]
    )


def a2cid2() -> Rules:
    rate = 1.5 * NODES
    chi_1, chi_2 = 1.0 / (rate * GRAPH.mu_g), GRAPH.R / rate / 2.0
    eta = 1.0 / (2.0 * math.sqrt(chi_1 * chi_2))

    def stepped(i: int, u: np.ndarray) -> np.ndarray:
        return u - 0.2 * (HESSIANS[i] @ u[0] - PULLS[i])

    def x(i: int, u: np.ndarray) -> np.ndarray:
        return u[0]

    flow = np.array([[-eta, eta], [eta, -eta]])
    paid = np.array([0.5, 0.5 * math.sqrt(chi_1 / chi_2)])
    return Rules(flow, x, paid, stepped, lambda u: np.stack([u[0], u[0]]), np.ones(2), 0.0, x)


METHODS: dict[str, tuple[Any, Any, float]] = {  # the method, its rules, the rate of its edges
    "dual": (Dual(), dual, 1.0),
    "dadao": (DADAO(), dadao, math.sqrt(GRAPH.R / GRAPH.mu_g)),
    "a2cid2": (A2CiD2(step=0.2, batch=0, communications=1.5), a2cid2, 1.5 * NODES),
}


@dataclass
class Replay:
    """Nodes that follow a log."""

    rules: Rules
    steps: list[list[float]]  # of each node, by its own clock, yet to be taken
    taken: int = 0
    states: list[np.ndarray] = field(default_factory=list)
    times: np.ndarray = field(default_factory=lambda: np.zeros(NODES))
    said: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    owed: dict[tuple[int, int], tuple[int, np.ndarray]] = field(default_factory=dict)

    def bring(self, i: int, time: float) -> None:
        """Node i to its own time, its steps on the way."""
        while self.steps[i] and self.steps[i][0] <= time:
            self._flow(i, self.steps[i].pop(0))
            self.states[i] = self.rules.stepped(i, self.states[i])
            self.taken += 1
        self._flow(i, time)

    def _flow(self, i: int, time: float) -> None:
        self.states[i] = expm((time - self.times[i]) * self.rules.flow) @ self.states[i]
        self.times[i] = time

    def follow(self, kind: int, node: int, peer: int, seq: int, time: float) -> None:
        """A line of the log; an exchange is known by its initiator and number."""
        if kind == LOG_JOIN:
            self.times[node] = time
            neighbour = self.states[peer] if peer >= 0 else np.zeros_like(self.states[node])
            self.states[node] = self.rules.came(neighbour)
            return
        self.bring(node, time)
        if kind == LOG_ANSWER:
            self.said[peer, seq] = self.rules.said(node, self.states[node])
        elif kind == LOG_PAY:
            d = self.rules.said(node, self.states[node]) - self.said.pop((node, seq))
            self.states[node] = self.states[node] - np.outer(self.rules.paid, d)
            self.owed[node, seq] = peer, d
        else:
            _, d = self.owed.pop((peer, seq))  # KeyError: paid twice
            self.states[node] = self.states[node] + np.outer(self.rules.paid, d)


def living(scale: float) -> list[list[tuple[float, float]]]:
    """When each node is there, in t."""
    spans: list[list[tuple[float, float]]] = []
    for i in range(NODES):
        joins = [scale * t for t, node in JOINS if node == i]
        deaths = [scale * t for t, node in DEATHS if node == i]
        starts = joins if i == 3 else [0.0, *joins]
        spans.append(list(zip(starts, [*deaths, math.inf], strict=False)))
    return spans


@pytest.mark.parametrize("name", METHODS)
def test_every_path_is_that_of_the_formulas(name: str) -> None:
    method, make, rate = METHODS[name]
    rules, scale = make(), 10.0 / rate
    faults = Faults(
        delay=0.3 / rate, loss=0.2, duplication=0.2, skew=SPEEDS - 1.0, timeout=5.0 / rate,
        deaths=tuple((scale * t, i) for t, i in DEATHS),
        joins=tuple((scale * t, i) for t, i in JOINS),
    )  # fmt: skip
    nodes = make_nodes(method, GRAPH, PARTS)
    engine = MessageEngine(GRAPH, nodes, seed_sequence(1), faults, log=True)
    ends = engine.network.rows.edge[:, :2]
    P = {frozenset(edge): p for edge, p in zip(GRAPH.edges.tolist(), GRAPH.P, strict=True)}
    asks = [rate * P[frozenset((i, j))] * SPEEDS[i] / 2.0 for i, j in ends.tolist()]
    own = SPEEDS if rules.stepped else []
    np.testing.assert_allclose(engine.rates, [*asks, *own], rtol=1e-12)

    total = float(engine.rates.sum())
    events = clocks.Poisson(3, total, Categorical(engine.rates / total)).stream().draw(EVENTS)
    engine.advance(events)
    assert events.marks is not None
    spans, end = living(scale), float(events.t[-1])
    assert end > 15.0 * scale
    replay = Replay(rules, [[] for _ in range(NODES)])
    replay.states = [np.zeros((len(rules.flow), 2)) for _ in range(NODES)]
    for t, mark in zip(events.t.tolist(), (events.marks - len(ends)).tolist(), strict=True):
        if mark >= 0 and any(come <= t < go for come, go in spans[mark]):
            replay.steps[mark].append(SPEEDS[mark] * t)

    # Deaths stand between the lines of the log; what was owed by or to the dead is lost.
    log = list(zip(*(column.tolist() for column in engine.make_log()), strict=True))
    deaths = sorted((scale * t, i) for t, i in DEATHS)
    alive = np.array([True, True, True, False, True])
    lost = 0
    for kind, node, peer, seq, time in log:
        while deaths and deaths[0][0] < time / SPEEDS[node]:
            lost += bury(replay, *deaths.pop(0), alive)
        alive[node] |= kind == LOG_JOIN
        replay.follow(kind, node, peer, seq, time)
    for i in np.flatnonzero(alive):
        replay.bring(i, SPEEDS[i] * end)
    assert not deaths
    assert lost > 0  # debts were under way at deaths
    assert np.array_equal(engine.alive, alive)
    found = np.array([rules.estimate(i, replay.states[i]) for i in range(NODES)])
    np.testing.assert_allclose(engine.estimate(end), found, rtol=0, atol=1e-10)

    # Counts
    kinds = [kind for kind, *_ in log]
    assert engine.messages == kinds.count(LOG_APPLY) > 80
    answers = kinds.count(LOG_ANSWER) + kinds.count(LOG_PAY) - kinds.count(LOG_JOIN)
    assert engine.gradients == (replay.taken if rules.stepped else answers)
    assert engine.list_past_changes() == faults.changes(NODES)

    # What the living have and are owed, times `slope`, is the sum of gradients where they agree.
    if rules.slope:
        held = sum(rules.share @ replay.states[i] for i in np.flatnonzero(alive))
        debts = sum((d for _, d in replay.owed.values()), np.zeros(2))
        tilt = rules.slope * (held + (rules.share @ rules.paid) * debts)
        assert np.abs(tilt).max() > 1e-2
        np.testing.assert_allclose(engine.find_tilt(), tilt, rtol=0, atol=1e-10)
    assert engine.ledger_error() < 1e-13


def bury(replay: Replay, t: float, dead: int, alive: np.ndarray) -> int:
    """A death; returns how many debts are lost with it."""
    replay.bring(dead, SPEEDS[dead] * t)
    alive[dead] = False
    gone = [key for key, (peer, _) in replay.owed.items() if dead in (key[0], peer)]
    for key in gone:
        del replay.owed[key]
    return len(gone)
