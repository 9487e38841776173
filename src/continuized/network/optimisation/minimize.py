"""Nodes that minimise the mean of their functions together: `network.minimize`."""

from __future__ import annotations

import math
import os
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.faults import Faults
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.a2cid2 import A2CiD2
from continuized.network.optimisation.dadao import DADAO
from continuized.network.optimisation.dual import Dual, check_fits
from continuized.network.optimisation.objective import Objective
from continuized.network.optimisation.stepper import OptimisationStepper
from continuized.network.result import Decentralized
from continuized.problems.base import Array
from continuized.process.random_streams import Seed, seed_sequence
from continuized.process.stepper import Limits
from continuized.solver.loop import Loop
from continuized.support import validation as check
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.state import fingerprint_parts
from continuized.support.progress import announce_compilation, bar

DecentralizedMethod = Dual | DADAO | A2CiD2
METHODS: dict[str, DecentralizedMethod] = {
    "dual": Dual(),
    "plain-dual": Dual(accelerated=False),
    "dadao": DADAO(),
    "a2cid2": A2CiD2(),
    "plain-sgd": A2CiD2(accelerated=False),
}
TOL = 1e-8
ROWS = 200  # of the trace, about
EVENTS_FACTOR = 5.0  # times the events after which the theorem's rate would have reached tol
FAULTS_FACTOR = 20.0
COMPILATION = 5  # seconds, about
GRADIENTS = 2000.0  # of each node, by default, where no theorem says how many are enough


def minimize(
    graph: Any,
    problems: Any,
    method: str | DecentralizedMethod = "dual",
    *,
    tol: float = TOL,
    events: int | None = None,
    speeds: ArrayLike | None = None,
    faults: Faults | None = None,
    rng: Seed = None,
    record: int = ROWS,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = checkpoints.EVERY,
    resume: bool = False,
) -> Decentralized:
    """Minimise F(w) = mean_i f_i(w) over a graph whose node i knows f_i only, simulated.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
    problems : Objective, or a regression for each node
        See `network.split`, which deals the rows of one regression out.
    method : str or object
        "dual" (`Dual`: nodes solve their own problems), "dadao" (`DADAO`: gradients only),
        "a2cid2" (`A2CiD2`: stochastic gradients), and without acceleration "plain-dual" and
        "plain-sgd".
    tol : float
        Stop when the error mean_i |x_i - x*|^2 / |x*|^2 has fallen to tol; see `Decentralized` for
        what takes the place of x* when nodes die.
    events : int, optional
        The largest number of events, exchanges (with faults: ticks) and gradients together.  By
        default 5 times as many as the theorem asks for, with faults 20 times, and where there is
        none 2000 gradients of every node.
    speeds : array (nodes,), optional
        The rates at which nodes take gradients, for "dadao" and "a2cid2"; by default 1 each, which
        is what DADAO's theorem asks for.  The dual method takes none but at exchanges: give the
        graph other rates, or see `network.race`.
    faults : Faults
        Of the links, the clocks and the nodes.  With it, nodes exchange message by message and
        tick by their own clocks; without, edges tick and exchanges take no time, the same law as
        `Faults()` at less cost.  No theorem is claimed.  A node that comes back starts from
        nothing ("dual"), or from a neighbour's x.
    rng : int, SeedSequence or Generator
        The same seed gives the same run, bit by bit.
    record : int
        Rows of the trace, at least 1: evenly spaced, at most twice as many.  The error is tested
        once a row, so that a run with few of them may end later.
    progress : bool
        Show a progress bar on standard error, and before it, where the first run compiles, a line.
    checkpoint, every, resume
        As in `minimize`: a run that is resumed is the run never interrupted, bit by bit.

    Returns
    -------
    Decentralized

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense, before the first event.
    ArithmeticError
        Where a node cannot solve its own problem.

    Examples
    --------
    >>> from continuized import problems
    >>> from continuized.network import split
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((60, 3))
    >>> p = problems.LeastSquares(X, X @ [1.0, 2.0, 3.0], l2=0.1)
    >>> r = minimize("cycle:6", split(p, 6), rng=0)
    >>> r.reached, bool(np.allclose(r.x, p.x_star, atol=1e-3))
    (True, True)
    """
    graph, objective = Graph.of(graph), Objective.of(problems)
    check_fits(graph, objective)
    chosen = as_method(method)
    check_limits(tol, events, record)
    rates = _check_speeds(speeds, chosen, graph.nodes)
    check.instance(faults, "faults", Faults | None, "network.Faults or None")
    if faults is not None:
        faults.wait(chosen.edge_rate(graph))  # refuses a timeout too short
    root = seed_sequence(rng)
    path = checkpoints.check_path(checkpoint, every, resume)
    who = partial(
        fingerprint_parts,
        graph=graph,
        problems=objective,
        method=chosen,
        speeds=rates,
        faults=faults,
        rng=None if rng is None else root,
        record=record,
    )
    # Imported here, for they bring Numba with them.
    from continuized.network.optimisation.node_models import make_nodes
    from continuized.network.simulation.messages import make_engine

    with announce_compilation(COMPILATION, progress):
        engine = make_engine(graph, make_nodes(chosen, graph, objective, rates), root, faults)
    rate = chosen.rate(graph, objective)
    if events is None:
        time = expected_time(chosen, graph, objective, float(tol))
        factor = EVENTS_FACTOR if faults is None else FAULTS_FACTOR
        factor = 1.0 if math.isnan(rate) else factor
        events = math.ceil(factor * (time * float(engine.rates.sum()) + graph.nodes))
    most = int(events)
    stepper = OptimisationStepper(chosen.name, engine, objective, float(tol), int(record))
    opened = checkpoints.open_checkpointer(path, every, resume, who)
    shown = bar(f"{chosen.name}, {graph.nodes} nodes", most, progress, "event")
    with opened as checkpointer, shown as show:
        limits, stream = Limits(float(tol), most), engine.make_stream(root)
        loop = Loop(stepper, stream, limits, bar=show, checkpointer=checkpointer)
        loop.run()
    holds = faults is None and np.all(rates == 1.0)  # what the theorem assumes
    outcome = stepper.make_outcome(loop, rate if holds else math.nan)
    outcome.graph = graph
    return outcome


def as_method(method: Any) -> DecentralizedMethod:
    """Return the method that a name stands for."""
    if isinstance(method, Dual | DADAO | A2CiD2):
        return method
    return METHODS[check.one_of(method, "method", METHODS, other="an object such as Dual()")]


def expected_time(
    method: DecentralizedMethod, graph: Graph, objective: Objective, tol: float
) -> float:
    """Return when the theorem's rate has reached tol; without one, a number of gradients."""
    rate = method.rate(graph, objective)
    return GRADIENTS if math.isnan(rate) else math.log(1.0 / max(tol, 1e-30)) / rate


def check_limits(tol: Any, events: Any, record: Any) -> None:
    """Raise TypeError or ValueError where these make no sense."""
    check.real(tol, "tol", minimum=0.0, below=1.0)
    if events is not None:
        check.whole(events, "events", minimum=0, other="None")
    check.whole(record, "record", minimum=1)


def _check_speeds(speeds: ArrayLike | None, method: DecentralizedMethod, nodes: int) -> Array:
    if speeds is None:
        return np.ones(nodes)
    if isinstance(method, Dual):
        raise ValueError(
            "speeds= is for methods whose nodes take gradients on their own; for the dual method "
            "give the graph other rates"
        )
    rates = check.array(speeds, "speeds", dtype=np.float64, above=0.0)
    return np.asarray(check.shape(rates, "speeds", (nodes,), each="node"))
