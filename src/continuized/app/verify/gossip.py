"""Checks of gossip: by Monte Carlo through the simulator, and without chance."""

from __future__ import annotations

import numpy as np

from continuized import theory
from continuized.app.verify.claims import Effort, Measurement, Subject, worst_of
from continuized.app.verify.exact import ROUNDING
from continuized.network import Faults, Gossip, Graph, simulate
from continuized.network.simulation.engine import NO_LIMIT, Tests
from continuized.network.simulation.node_models.gossip import make_nodes
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process import random_streams as seeds
from continuized.process.marks import Categorical
from continuized.support.statistics import Moments, mean_test

RUNS = 16  # one of so many of the runs of other checks: each is a call of the simulator
TICKS = 10_000  # of all nodes: far more than there are up to t = 500
BOTH = (True, False)  # accelerated, plain


def slow_start() -> tuple[Graph, Array]:
    """A grid and its slow mode, of which the mean square is nearly normal up to 1/theta."""
    return Graph.of("grid:8x9"), np.tile(np.cos(np.pi * (np.arange(9) + 0.5) / 9.0), 8)


def equality(subject: Subject, effort: Effort) -> Measurement:
    """E |x_t - mean|^2 in the simulator against the exact second moments."""
    g, x0 = slow_start()
    root, found = seeds.seed_sequence(effort.seed), []
    T = 1.0 / g.theta
    for accelerated in BOTH:
        method, squares = subject.gossip(accelerated), []
        for run in range(effort.runs // RUNS):
            r = simulate(
                g, x0, method, until=T, tol=0.0, record=0,
                rng=seeds.child(root, int(accelerated), run),
            )  # fmt: skip
            squares.append([np.sum(r.x**2)])
        exact = theory.moments(g, Gossip(accelerated), x0, [T]).fun
        test = mean_test(Moments.of(np.array(squares)), exact, effort.alpha / 2)
        found.append(Measurement(test.z, test.limit, test.usable))
    return worst_of(found)


def bound(subject: Subject, effort: Effort) -> Measurement:
    """The largest exact E |x_t - mean|^2 over its bound, from every node and the slow mode."""
    worst = []
    for spec in ("path:12", "grid:3x4", "star:8"):
        g = Graph.of(spec)
        times = np.linspace(0.0, 12.0, 7) / g.theta
        slow = np.cos(np.pi * (np.arange(g.nodes) + 0.5) / g.nodes)
        for accelerated in BOTH:
            method = subject.gossip(accelerated)
            for x0 in (np.eye(g.nodes)[0], slow):
                exact = theory.moments(g, method, x0, times).fun
                worst.append(exact / theory.bound(Gossip(accelerated), g, x0, t=times))
    return Measurement(float(np.max(worst)), ROUNDING)


def rate(subject: Subject, effort: Effort) -> Measurement:
    """The rate that the theorem promises over the exact one, of the slowest mode."""
    ratios = []
    for spec in ("path:12", "grid:3x4", "star:8", "cycle:9"):
        g = Graph.of(spec)
        ratios.append(0.5 * g.mu_g / theory.gossip_rate(g, subject.gossip(accelerated=False)))
        for damping in (Gossip().damping, 1.0):
            exact = theory.gossip_rate(g, subject.gossip(damping=damping))
            ratios.append(damping * g.theta / exact)
    return Measurement(float(np.max(ratios)), ROUNDING)


def conserved(subject: Subject, effort: Effort) -> Measurement:
    """How far sum (x + z) and what is on its way are from the start's, messages being lost."""
    g, x0 = slow_start()
    x0 = x0 + 1.0
    errors: list[float] = []
    for accelerated in BOTH:
        method = subject.gossip(accelerated)
        r = simulate(g, x0, method, until=500.0, rng=effort.seed)
        errors.append(abs(float(np.sum(r.x + r.z - 2.0 * x0))) / (2.0 * np.sum(x0)))
        errors += [r.ledger_error, _unbalanced(subject, g, x0, method, effort.seed)]
    return Measurement(float(np.max(errors)), 1e-12)


def _unbalanced(subject: Subject, g: Graph, x0: Array, method: Gossip, seed: int) -> float:
    """What the ledger misses, relative to all there is, of nodes that exchange messages."""
    faults = Faults(delay=1.0, loss=0.1, duplication=0.05, skew=np.linspace(-0.5, 0.5, g.nodes))
    nodes, root = make_nodes(x0[:, None], method.constants(g)), seeds.seed_sequence(seed)
    engine = subject.messages(g, nodes, root, faults)
    total, before = float(engine.rates.sum()), engine.balance()
    events = clocks.Poisson(root, total, Categorical(engine.rates / total)).stream().draw(TICKS)
    done = 0
    for stop in np.linspace(0.0, 500.0, 101)[1:].tolist():
        done, _ = engine.run(events, done, stop, NO_LIMIT, Tests.none())
    return float(np.abs(engine.balance() - before).max()) / (2.0 * float(np.sum(np.abs(x0))))
