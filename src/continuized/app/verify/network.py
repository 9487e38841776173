"""Checks of networks: gossip, and the optimisation by the dual method, DADAO and A²CiD².

By Monte Carlo through the simulator's engines, and without chance.
"""

from __future__ import annotations

import math

import numpy as np

from continuized import network, theory
from continuized.app.verify.claims import LARGEST_RATIO, Effort, Found, Subject, at_most
from continuized.app.verify.marked import cut_into_runs
from continuized.network import Dual, Faults, Gossip, Graph, Objective, simulate
from continuized.network.optimisation.node_models import make_nodes
from continuized.network.simulation.engine import NO_TESTS
from continuized.network.simulation.instant import InstantEngine
from continuized.network.simulation.node_models import gossip as gossip_nodes
from continuized.problems import LeastSquares
from continuized.problems.base import Array
from continuized.process import clock as clocks
from continuized.process import random_streams
from continuized.process.stepper import NO_LIMIT
from continuized.support.statistics import Measurement, SampleMoments, mean_test
from continuized.theory.moments.dadao import generator, system_of

BOTH = (True, False)  # accelerated, plain
# One of so many of the runs of other checks:
GOSSIP_RUNS = 10  # each is a call of the simulator
DUAL_RUNS = 3
DADAO_RUNS = 400  # each goes to an error of 1e-6
TICKS = 10_000  # of all nodes: far more than there are up to t = 500
NODES, DIM = 16, 4  # enough for the sum over them to be nearly normal, at an early time


def slow_start() -> tuple[Graph, Array]:
    """Return a grid and its slow mode, of which the mean square is nearly normal up to 1/theta."""
    return Graph.of("grid:8x9"), np.tile(np.cos(np.pi * (np.arange(9) + 0.5) / 9.0), 8)


def gossip_equality(subject: Subject, effort: Effort) -> Found:
    """Compare E |x_t - mean|^2 in the simulator against the exact second moments."""
    g, x0 = slow_start()
    root, T = random_streams.seed_sequence(effort.seed), 1.0 / g.theta
    for accelerated in BOTH:
        method, squares = subject.gossip(accelerated), []
        for run in range(effort.runs // GOSSIP_RUNS):
            r = simulate(
                g, x0, method=method, until=T, tol=0.0, record=0,
                rng=random_streams.child(root, int(accelerated), run),
            )  # fmt: skip
            squares.append([np.sum(r.x**2)])
        exact = theory.moments(g, Gossip(accelerated), x0, [T]).fun
        yield mean_test(SampleMoments.of(np.array(squares)), exact, effort.alpha / 2)


def gossip_bound(subject: Subject, effort: Effort) -> Found:
    """Measure the exact E |x_t - mean|^2 over its bound, from every node and the slow mode."""
    for spec in ("path:12", "grid:3x4", "star:8"):
        g = Graph.of(spec)
        times = np.linspace(0.0, 12.0, 7) / g.theta
        slow = np.cos(np.pi * (np.arange(g.nodes) + 0.5) / g.nodes)
        for accelerated in BOTH:
            method = subject.gossip(accelerated)
            for x0 in (np.eye(g.nodes)[0], slow):
                exact = theory.moments(g, method, x0, times).fun
                limits = theory.bound(Gossip(accelerated), g, x0, t=times)
                yield at_most(LARGEST_RATIO, exact / limits)


def gossip_rate(subject: Subject, effort: Effort) -> Found:
    """Measure the rate that the theorem promises over the exact one, of the slowest mode."""
    for spec in ("path:12", "grid:3x4", "star:8", "cycle:9"):
        g = Graph.of(spec)
        plain = theory.gossip_rate(g, subject.gossip(accelerated=False))
        yield at_most(LARGEST_RATIO, 0.5 * g.mu_g / plain)
        for damping in (Gossip().damping, 1.0):
            exact = theory.gossip_rate(g, subject.gossip(damping=damping))
            yield at_most(LARGEST_RATIO, damping * g.theta / exact)


def gossip_conserves(subject: Subject, effort: Effort) -> Found:
    """Measure how far sum (x + z) and what is on its way are from the start's, messages being
    lost."""
    g, x0 = slow_start()
    x0 = x0 + 1.0
    root, total = random_streams.seed_sequence(effort.seed), 2.0 * np.sum(x0)
    faults = Faults(delay=1.0, loss=0.1, duplication=0.05, skew=np.linspace(-0.5, 0.5, g.nodes))
    for accelerated in BOTH:
        method = subject.gossip(accelerated)
        r = simulate(g, x0, method=method, until=500.0, rng=effort.seed)
        yield at_most(1e-12, [abs(np.sum(r.x + r.z - 2.0 * x0)) / total, r.ledger_error])
        nodes = gossip_nodes.make_nodes(x0[:, None], method.constants(g))
        engine = subject.messages(g, nodes, root, faults)
        before, events, done = engine.find_balance(), engine.make_stream(root).draw(TICKS), 0
        for stop in np.linspace(0.0, 500.0, 101)[1:].tolist():
            done, _ = engine.run(events, done, stop, NO_LIMIT, NO_TESTS)
        yield at_most(1e-12, np.abs(engine.find_balance() - before) / total)


def ridge(nodes: int, dim: int, kappa: float = 4.0) -> Objective:
    """Return parts whose Hessians have eigenvalues from 1 to the node's own largest, at most kappa,
    turned at random."""
    rng = np.random.default_rng([nodes, dim])
    parts = []
    for c in rng.permutation(np.geomspace(1.0, kappa, nodes)).tolist():
        turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        lengths = np.sqrt(dim * np.geomspace(c, 1.0, dim))
        parts.append(LeastSquares(lengths[:, None] * turn, rng.standard_normal(dim)))
    return Objective.of(parts)


def dual_equality(subject: Subject, effort: Effort) -> Found:
    """Compare E mean_i |w_i - x*|^2 of the nodes' estimates against the exact second moments."""
    graph, parts = Graph.of(f"cycle:{NODES}"), ridge(NODES, DIM)
    root, t = random_streams.seed_sequence(effort.seed), 0.2 / Dual().rate(graph, parts)
    for accelerated in BOTH:
        nodes, squares = make_nodes(subject.dual(accelerated), graph, parts), []
        engine = InstantEngine(graph, nodes, root)
        stream = engine.make_stream(random_streams.child(root, int(accelerated)), 1.0)
        for events in cut_into_runs(stream, t, effort.runs // DUAL_RUNS):
            engine.reset()
            engine.advance(events)
            gaps = engine.estimate(t) - parts.x_star
            squares.append([np.vdot(gaps, gaps) / parts.nodes])
        exact = theory.moments((graph, parts), Dual(accelerated), 0.0, [t]).fun
        yield mean_test(SampleMoments.of(np.array(squares)), exact, effort.alpha / 2)


def dual_bound(subject: Subject, effort: Effort) -> Found:
    """Measure the exact E mean_i |w_i - x*|^2 over its bound."""
    for spec, kappa in (("path:5", 4.0), ("star:5", 20.0), ("complete:5", 1.0)):
        graph, parts = Graph.of(spec), ridge(5, 2, kappa)
        for accelerated in BOTH:
            times = np.linspace(0.0, 9.0, 4) / Dual(accelerated).rate(graph, parts)
            exact = theory.moments((graph, parts), subject.dual(accelerated), 0.0, times).fun
            limits = theory.bound(Dual(accelerated), (graph, parts), 0.0, t=times)
            yield at_most(LARGEST_RATIO, exact / limits)


def dadao_exact_rate(subject: Subject, effort: Effort) -> Found:
    """Measure the rate that the theorem promises over r, where in the end the mean square of the
    distance to the limit is as e^{-rt}, from almost every start where the sums of z and z~ are 0.

    Those sums stay.  For few nodes: the generator has (6 nodes dim)^4 / 4 entries.
    """
    for spec, kappa in (("path:2", 10.0), ("path:3", 100.0), ("complete:3", 1000.0)):
        graph = Graph.of(spec)
        parts = ridge(graph.nodes, 1, kappa)
        method = subject.dadao()
        G, _ = generator(system_of(graph, parts, method))
        r = -float(np.linalg.eigvals(G).real.max())
        yield at_most(LARGEST_RATIO, method.rate(graph, parts) / r if r > 0.0 else math.inf)


def dadao_bound(subject: Subject, effort: Effort) -> Found:
    """Measure the exact E mean_i |x_i - x*|^2 over its bound."""
    cases = (("path:2", 1, 1.0), ("path:3", 1, 100.0), ("star:4", 1, 10.0), ("complete:3", 2, 20.0))
    for spec, dim, kappa in cases:
        graph = Graph.of(spec)
        parts, method = ridge(graph.nodes, dim, kappa), network.DADAO()
        times = np.linspace(0.0, 6.0, 7) / method.rate(graph, parts)
        exact = theory.moments((graph, parts), subject.dadao(), 0.0, times).fun
        yield at_most(LARGEST_RATIO, exact / theory.bound(method, (graph, parts), 0.0, t=times))


def dadao_runs(subject: Subject, effort: Effort) -> Found:
    """Measure the share of runs that fall slower than promised, of which there are at most one
    half.

    By Hoeffding's inequality the share among n runs is above 1/2 by sqrt(log(1/alpha) / (2n)) with
    probability alpha at most.
    """
    graph, parts = Graph.of("cycle:6"), ridge(6, 2, 20.0)
    root, runs = random_streams.seed_sequence(effort.seed), effort.runs // DADAO_RUNS
    slow = 0
    for run in range(runs):
        r = network.minimize(
            graph, parts, method=subject.dadao(), tol=1e-6, rng=random_streams.child(root, run)
        )
        slow += not r.rate_measured >= r.rate_theory
    margin = math.sqrt(math.log(1.0 / effort.alpha) / (2.0 * runs))
    yield Measurement(slow / runs, 0.5 + margin)


def a2cid2_is_gossip(subject: Subject, effort: Effort) -> Found:
    """Compare A²CiD² with a gradient step of 0 against gossip on the same exchanges, by
    `replay`."""
    graph, parts = Graph.of("grid:3x4"), ridge(12, 2)
    start = np.random.default_rng(effort.seed).standard_normal((12, 2))
    root = random_streams.seed_sequence(effort.seed)
    for accelerated in BOTH:
        method = subject.a2cid2(communications=1.5, accelerated=accelerated)
        nodes = make_nodes(method, graph, parts)
        nodes = nodes._replace(model=nodes.model._replace(length=0.0))
        nodes.model.x[...] = nodes.model.x_tilde[...] = start
        engine = InstantEngine(graph, nodes, root, log=True)
        engine.advance(engine.make_stream(root).draw(400))
        log, rate = engine.make_log(), method.edge_rate(graph)
        log = log._replace(time=rate * log.time)  # of gossip, where all edges tick at rate 1
        x, _ = network.replay(graph, start, Gossip(accelerated, damping=1.0), log, rate * engine.t)
        yield at_most(1e-12, np.abs(engine.estimate(engine.t) - x))


def a2cid2_is_sgd(subject: Subject, effort: Effort) -> Found:
    """Compare A²CiD² without exchanges against each node's own stochastic gradient descent."""
    graph, parts, step = Graph.of("path:3"), ridge(3, 2), 0.05
    root = random_streams.seed_sequence(effort.seed)
    engine = InstantEngine(graph, make_nodes(subject.a2cid2(step=step), graph, parts), root)
    events = engine.make_stream(root).draw(300)
    assert events.marks is not None
    alone = events.marks >= len(graph.edges)
    times, nodes = events.t[alone], events.marks[alone] - len(graph.edges)
    engine.advance(clocks.Events(0, 0.0, times, events.dt[alone], events.marks[alone]))
    rows = random_streams.generator(root, random_streams.ROWS)
    x = np.zeros((3, parts.dim))
    for i, u in zip(nodes.tolist(), rows.random((len(nodes), 1))[:, 0].tolist(), strict=True):
        own = parts.rows(i)
        count = own.stop - own.start
        r = own.start + int(u * count)
        residual = parts.X[r] @ x[i] - parts.y[r]
        x[i] -= step * (count * parts.scale[i] * residual * parts.X[r] + parts.l2[i] * x[i])
    yield at_most(1e-12, np.abs(engine.estimate(engine.t) - x))
