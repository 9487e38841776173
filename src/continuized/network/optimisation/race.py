"""Nodes of unequal speed: exchanges at any time against rounds that wait for the slowest.

What takes time is that nodes solve their own problems, or take gradients; messages take none.  In
a synchronous round everybody waits for the slowest.  Without rounds an edge's two ends exchange
when both are free, and then are busy, each for its own time, with the next estimate.  (For the
squared loss grad f_i* is affine: a node that has solved for G after an exchange knows its estimate
at all later times by mixing alone, so that is all its work.  For the logistic loss it must know
the time of its next exchange, too.)

Ticks come often, and those for which an end is busy are lost.  How often the edges then have
exchanges is counted in a run of the clocks alone; mu_g and R are those of the rates counted.
The exchanges are then no Poisson process, and the theorem gives the constants, no promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.graphs import spectrum
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.dual import Dual
from continuized.network.optimisation.minimize import EVENTS_FACTOR, check_limits
from continuized.network.optimisation.objective import REGRESSION_OF_LOSS, Objective, check_fits
from continuized.network.optimisation.stepper import OptimisationStepper
from continuized.problems.base import Array, Problem
from continuized.problems.losses import SQUARED
from continuized.process import clock as clocks
from continuized.process.marks import Categorical
from continuized.process.random_streams import COUNTED, Root, Seed, child, seed_sequence
from continuized.process.stepper import Limits
from continuized.solver.loop import Loop
from continuized.solver.minimize import minimize
from continuized.support import blas
from continuized.support import validation as check
from continuized.support.display import shown
from continuized.support.progress import Bar, bar

INTENSITY = 4.0  # ticks for each node, in the time that the usual node, the median, is busy
PILOT = 2000.0  # times the work of the slowest: how long exchanges are counted
MOST_COUNTED = 4_000_000  # ticks
MOST_TICKS = 5_000_000  # of a run, by default
MOST_ROUNDS = 20_000


def run_dual_rounds(
    graph: Graph, objective: Objective, tol: float, most: int, progress: bool = False
) -> Array:
    """Run the synchronous dual method until the error is tol, or for `most` rounds.

    Returns the error, as in `network.minimize`, after every round, first that of the start.
    """
    from continuized.network.optimisation.local_solver import DualFunction

    check_fits(graph, objective)
    D, shape = DualFunction(objective), (objective.nodes, objective.dim)
    W = spectrum.dense_laplacian(graph.nodes, graph.edges, np.ones(len(graph.edges)))
    values, vectors = blas.compute(10.0 * float(len(W)) ** 3, np.linalg.eigh, W)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T

    def both(u: Array) -> tuple[float, Array]:
        y = root @ u.reshape(shape)
        w = D.slopes(y)
        return D.value(y, w), (root @ w).ravel()

    def error(u: Array) -> float:
        return objective.error(D.slopes(root @ u.reshape(shape)))

    L, mu = values[-1] / objective.mu, values[1] / objective.L
    problem = Problem(both, L=L, mu=mu, value_and_grad=True)
    with bar("race, synchronous-dual", most, progress, unit="round") as show:
        return _run_rounds(problem, error, np.zeros(math.prod(shape)), tol, most, show)


def run_all_reduce_rounds(
    objective: Objective, tol: float, most: int, progress: bool = False
) -> Array:
    """Run Nesterov's method on F until the error is tol, or for `most` rounds, likewise."""
    o = objective
    rows = o.X * np.sqrt(o.row_scale / o.nodes)[:, np.newaxis]
    least, largest = np.linalg.eigvalsh(rows.T @ rows)[[0, -1]].tolist()
    l2 = float(o.l2.mean())
    mu = l2 + (max(least, 0.0) if o.loss == SQUARED else 0.0)
    problem = Problem(o.fun, o.grad, L=REGRESSION_OF_LOSS[o.loss].curvature * largest + l2, mu=mu)
    with bar("race, all-reduce", most, progress, unit="round") as show:
        start = np.zeros(o.dim)
        return _run_rounds(problem, lambda w: o.error(w[np.newaxis]), start, tol, most, show)


def _run_rounds(
    problem: Problem,
    error: Callable[[Array], float],
    start: Array,
    tol: float,
    most: int,
    show: Bar,
) -> Array:
    errors = [error(start)]

    def watch(x: Array) -> None:
        errors.append(error(x))
        show(len(errors) - 1, f"error {errors[-1]:.1e}")
        if errors[-1] <= tol:
            raise StopIteration

    if errors[0] > tol:
        minimize(problem, start, method="nesterov", maxiter=most, callback=watch, record=False)
    return np.array(errors)


@shown
class Racer(NamedTuple):
    """A method in a race: how long it took, and the error along its way.

    method: its name.  time: until it arrived, or gave up (reached is then False), in the unit of
    the work.  steps: its rounds, or its exchanges.  t, error: rows along its way.

    >>> from continuized import network, problems
    >>> parts = network.split(problems.LeastSquares(np.eye(3), [1.0, 2.0, 3.0], l2=0.1), 3)
    >>> dual = network.race("path:3", parts, [4.0, 1.0, 1.0], rng=0)[0]
    >>> dual.method, dual.reached, bool(dual.error[-1] <= 1e-4), bool(dual.time == dual.t[-1])
    ('dual', True, True, True)
    """

    method: str
    time: float
    steps: int
    reached: bool
    t: Array
    error: Array


def race(
    graph: Any,
    problems: Any,
    work: ArrayLike,
    *,
    tol: float = 1e-4,
    events: int = MOST_TICKS,
    rng: Seed = None,
    progress: bool = False,
) -> list[Racer]:
    """Race the dual method without rounds, accelerated and plain, with two methods in rounds.

    Parameters
    ----------
    graph, problems
        As for `network.minimize`.
    work : array (nodes,)
        How long each node takes to solve its own problem, or to take a gradient, in any unit of
        time.
    tol : float
        The error at which a method has arrived; see `network.Decentralized`.
    events : int
        The most ticks of a run without rounds, those to busy nodes among them.  Methods in rounds
        have five times as much time as the slower of the others, and at most 20,000 rounds.
    rng : int, SeedSequence or Generator
    progress : bool
        Show on standard error how far each method is.

    Returns
    -------
    list of Racer
        "dual" and "plain-dual", without rounds; "synchronous-dual"; and "all-reduce", which is
        told the mean of all gradients for nothing.

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense, and where the work of nodes differs too much.

    >>> from continuized.network import split
    >>> from continuized.problems import LeastSquares
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> parts = split(LeastSquares(X, X @ [1.0, 2.0, 3.0], l2=0.1), 6)
    >>> [r.method for r in race("cycle:6", parts, [10, 1, 1, 1, 1, 1], rng=0) if r.reached]
    ['dual', 'plain-dual', 'synchronous-dual', 'all-reduce']
    """
    graph, objective = Graph.of(graph), Objective.of(problems)
    check_fits(graph, objective)
    check_limits(tol, events, 1)
    busy = check.array(work, "work", dtype=np.float64, above=0.0)
    check.shape(busy, "work", (graph.nodes,), each="node")
    unit = float(np.median(busy))
    root = seed_sequence(rng)
    rates = count_rates(graph, busy / unit, root)
    racers = [
        _run_without_rounds(
            Dual(accelerated), graph, objective, busy / unit, rates, tol, events, root, progress
        )
        for accelerated in (True, False)
    ]
    slowest = float(busy.max()) / unit
    most = math.ceil(EVENTS_FACTOR * max(racer.time for racer in racers) / slowest) + 1000
    most = min(most, MOST_ROUNDS)
    in_rounds = {
        "synchronous-dual": run_dual_rounds(graph, objective, tol, most, progress),
        "all-reduce": run_all_reduce_rounds(objective, tol, most, progress),
    }
    for name, error in in_rounds.items():
        t = slowest * np.arange(len(error))
        racers.append(Racer(name, float(t[-1]), len(t) - 1, bool(error[-1] <= tol), t, error))
    return [racer._replace(time=unit * racer.time, t=unit * racer.t) for racer in racers]


class Silent(NamedTuple):
    """A node model that says nothing: the exchanges of its nodes are only counted."""

    nothing: int = 0


def count_rates(graph: Graph, work: Array, root: Root) -> Array:
    """Count how often each edge has an exchange, busy nodes having none; the usual work is 1."""
    from continuized.network.simulation.engine import NodeSet
    from continuized.network.simulation.instant import InstantEngine

    ticks = int(min(INTENSITY * graph.nodes * PILOT * work.max(), MOST_COUNTED))
    rate = INTENSITY * graph.nodes
    events = clocks.Poisson(child(root, COUNTED), rate, Categorical(graph.P)).stream()
    drawn, engine = events.draw(ticks), InstantEngine(graph, NodeSet(Silent(), 0), root, busy=work)
    engine.advance(drawn)
    assert engine.activity is not None
    counts = engine.activity.counts
    if not counts.all():
        raise ValueError(
            f"edge {int(np.argmin(counts))} had no exchange while they were counted: nodes' work "
            "differs too much"
        )
    return np.asarray(counts / float(drawn.t[-1]))


def _run_without_rounds(
    method: Dual, graph: Graph, objective: Objective, work: Array, rates: Array, tol: float,
    events: int, root: Root, progress: bool,
) -> Racer:  # fmt: skip
    from continuized.network.optimisation.node_models import make_nodes
    from continuized.network.simulation.instant import InstantEngine

    held, per_unit = Graph.of(graph, rates=rates), float(rates.sum())
    nodes, ticks = make_nodes(method, held, objective), INTENSITY * graph.nodes
    constants = nodes.model.constants
    model = nodes.model._replace(constants=constants._replace(theta=constants.theta * per_unit))
    nodes = nodes._replace(model=model, edge_rate=ticks)
    engine = InstantEngine(graph, nodes, root, busy=work)
    stepper = OptimisationStepper(method.name, engine, objective, tol, 200)
    time = math.log(1.0 / max(tol, 1e-30)) / (method.rate(held, objective) * per_unit)
    most = min(math.ceil(EVENTS_FACTOR * (time + 100.0) * ticks), events)
    with bar(f"race, {method.name}", most, progress, unit="tick") as show:
        loop = Loop(stepper, engine.make_stream(root), Limits(None, most), bar=show)
        loop.run()
    r = stepper.make_outcome(loop, math.nan)
    return Racer(r.method, r.t, r.messages, r.reached, r.trace.t, r.trace.error)
