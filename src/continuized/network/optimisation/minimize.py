"""Nodes that minimise the mean of their functions together: `network.minimize`."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.analysis import warn_of_delay
from continuized.network.faults import Faults
from continuized.network.graphs.graph import Graph
from continuized.network.optimisation.a2cid2 import A2CiD2
from continuized.network.optimisation.dadao import DADAO
from continuized.network.optimisation.dual import Dual
from continuized.network.optimisation.functions import Functions, as_objective
from continuized.network.optimisation.objective import Objective, check_fits
from continuized.network.optimisation.stepper import OptimisationStepper
from continuized.network.result import Decentralized
from continuized.network.workers.ray_options import TRANSPORTS, Ray
from continuized.problems.base import Array
from continuized.process.random_streams import Root, Seed, seed_sequence
from continuized.process.stepper import Limits
from continuized.solver.loop import Loop
from continuized.support import validation as check
from continuized.support.checkpoints.checkpointer import (
    EVERY,
    CheckpointOptions,
    check_checkpoint,
    open_checkpointer,
)
from continuized.support.checkpoints.state import fingerprint_parts
from continuized.support.progress import announce_compilation, bar

DecentralizedMethod = Dual | DADAO | A2CiD2
METHODS: dict[str, DecentralizedMethod] = {
    method.name: method
    for method in (Dual(), Dual(False), DADAO(), A2CiD2(), A2CiD2(accelerated=False))
}
PLAIN = {"dual": '"plain-dual"', "dadao": "", "a2cid2": '"plain-sgd"'}  # what bears delays
TOL = 1e-8
ROWS = 200  # of the trace, about
EVENTS_FACTOR = 5.0  # times the events after which the theorem's rate would have reached tol
FAULTS_FACTOR = 20.0
GRADIENTS = 2000.0  # of each node, by default, where no theorem says how many are enough
SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class OptimisationTask:
    """What is to be minimised, and how, checked; see `minimize`."""

    graph: Graph
    objective: Objective | Functions
    method: DecentralizedMethod
    speeds: Array
    faults: Faults | None
    root: Root
    events: int | None
    record: int


def minimize(
    graph: Any,
    functions: Any,
    *,
    method: str | DecentralizedMethod = "dual",
    transport: str | Ray = "simulate",
    L: ArrayLike | None = None,
    mu: ArrayLike | None = None,
    dim: int | None = None,
    tol: float = TOL,
    events: int | None = None,
    speeds: ArrayLike | None = None,
    faults: Faults | None = None,
    rng: Seed = None,
    record: int = ROWS,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = EVERY,
    resume: bool = False,
    seconds: float | None = None,
    processes: int | None = None,
    speed: float | None = None,
    port: int | None = None,
    address: str | None = None,
    restarts: int | None = None,
    log: bool | None = None,
    log_file: str | os.PathLike[str] | None = None,
) -> Decentralized:
    """Minimise F(w) = mean_i f_i(w) over a graph whose node i knows f_i only.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
    functions : Objective, or a Problem or a pair (fun, jac) for each node
        See `network.split`, which deals the rows of one regression out.  The dual method takes
        `LeastSquares` or `LogisticRegression` at all nodes, without weights and intercept; the
        others, which need gradients only, any `Problem`.
    method : str or object
        "dual" (`Dual`: nodes solve their own problems), "dadao" (`DADAO`: gradients only),
        "a2cid2" (`A2CiD2`: stochastic gradients), and without acceleration "plain-dual" and
        "plain-sgd".
    transport : "simulate", "local", "ray" or network.Ray
        A simulation; or real nodes, in processes of this machine over 127.0.0.1 or in actors of
        Ray.  Regressions travel to them as arrays.  Other functions go to "local" processes by
        fork (not on Windows and macOS), and to actors as Ray hands them over.
    L, mu : float or array (nodes,), optional
        The smoothness and the strong convexity of functions that do not know their own.  The dual
        method and DADAO need mu > 0; A2CiD2 needs none, and no L if it is given its step.
    dim : int, optional
        The number of variables, where no function knows it.
    tol : float
        Stop when the error mean_i |x_i - x*|^2 / |x*|^2 has fallen to tol; see `Decentralized` for
        what takes the place of x* when nodes die.
    events : int, optional
        The largest number of events, exchanges (with faults: ticks) and gradients together.  By
        default 5 times as many as the theorem asks for, with faults 20 times, and where there is
        none 2000 gradients of every node.  Real nodes are looked at every 0.1 s, and may be a
        little late; by default they are not counted.
    speeds : array (nodes,), optional
        The rates at which nodes take gradients, for "dadao" and "a2cid2"; by default 1 each, which
        is what DADAO's theorem asks for.  The dual method takes none but at exchanges: give the
        graph other rates, or see `network.race`.
    faults : Faults
        Of the links, the clocks and the nodes.  With it, nodes exchange message by message and
        tick by their own clocks; without, edges tick and exchanges take no time, the same law as
        `Faults()` at less cost.  No theorem is claimed.  A node that comes back starts from
        nothing ("dual"), or from a neighbour's x.  To real nodes it happens on purpose: a death at
        t is a SIGKILL of the node's process when the run's clock has come to t.
    rng : int, SeedSequence or Generator
        The same seed gives the same simulation, bit by bit.  The order of real events is the
        machine's: such a run cannot be repeated by its seed, but by its log (`network.replay`).
    record : int
        Rows of the trace, at least 1: evenly spaced, at most twice as many.  The error of a
        simulation is tested once a row, so that a run with few of them may end later.
    progress : bool
        Show a progress bar on standard error, and before it, where the first run compiles, a line.
    checkpoint, every, resume
        As in `minimize`: a simulation that is resumed is the run never interrupted, bit by bit; of
        real nodes, as in `network.run`.
    seconds, processes, speed, port, address, restarts, log, log_file
        Of real nodes; as in `network.run`.  `speed` is in units of the method's t a second.

    Returns
    -------
    Decentralized
        Of real nodes, x are the estimates at each node's own last event.

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense, and naming what a method misses, before the first event.
    ArithmeticError
        Where a node cannot solve its own problem, or F has no minimiser that can be found.
    OSError, ImportError, RuntimeError
        As in `network.run`.

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

    Functions of one's own, in real processes:

    >>> wells = [(lambda w, c=c: 0.5 * (w - c) @ (w - c), lambda w, c=c: w - c) for c in range(4)]
    >>> r = minimize("cycle:4", wells, method="dadao", L=1.0, mu=1.0, dim=1, tol=1e-6, rng=0,
    ...              transport="local", processes=2)
    >>> r.reached, bool(np.allclose(r.x, 1.5, atol=1e-2))
    (True, True)
    """
    graph, chosen = Graph.of(graph), as_method(method)
    if not isinstance(transport, Ray):
        check.one_of(transport, "transport", ("simulate", *TRANSPORTS), other="network.Ray(...)")
    keep_sparse = chosen.takes_gradients and not getattr(chosen, "batch", 0)
    objective = as_objective(functions, sparse=keep_sparse, L=L, mu=mu, dim=dim)
    check_fits(graph, objective)
    chosen.check_objective(objective)
    check_limits(tol, events, record)
    rates = _check_speeds(speeds, chosen, graph.nodes)
    check.instance(faults, "faults", Faults | None, "network.Faults or None")
    if faults is not None:
        faults.wait(chosen.edge_rate(graph))  # refuses a timeout too short
        faults.speeds(graph.nodes)  # and a skew that makes no sense
        constants = chosen.find_gossip_constants(graph, objective)
        edge_rate = chosen.edge_rate(graph)
        warn_of_delay(graph, constants, faults.delay, f"method={PLAIN[chosen.kind]}", edge_rate)
    root = seed_sequence(rng)

    def describe() -> dict[str, str]:
        return fingerprint_parts(
            graph=graph, problems=objective.describe(), method=chosen, speeds=rates, faults=faults,
            rng=None if rng is None else root, record=record,
        )  # fmt: skip

    kept = check_checkpoint(checkpoint, every, resume, describe)
    task = OptimisationTask(
        graph=graph, objective=objective, method=chosen, speeds=rates, faults=faults, root=root,
        events=events, record=int(record),
    )  # fmt: skip
    real: dict[str, Any] = {
        "seconds": seconds, "processes": processes, "speed": speed, "port": port,
        "address": address, "restarts": restarts, "log": log, "log_file": log_file,
    }  # fmt: skip
    if transport == "simulate":
        _refuse_options_of_real_nodes(real)
        return _simulate(task, float(tol), progress, kept)
    from continuized.network.optimisation.real_nodes import run_nodes
    from continuized.network.runtime.real_run import check_options

    defaults = {"seconds": SECONDS, "restarts": 0, "log": True}
    real |= {name: value for name, value in defaults.items() if real[name] is None}
    options = check_options(
        transport=transport, tol=tol, progress=progress, checkpoint=kept, **real
    )
    return run_nodes(task, options)


def _simulate(
    task: OptimisationTask, tol: float, progress: bool, checkpoint: CheckpointOptions
) -> Decentralized:
    """Run the method in the simulator."""
    # Imported here, for they bring Numba with them.
    from continuized.network.optimisation.node_models import make_nodes
    from continuized.network.simulation.messages import make_engine

    graph, objective, method, faults = task.graph, task.objective, task.method, task.faults
    with announce_compilation(progress, "2 to 3" if faults is None else "5"):
        nodes = make_nodes(method, graph, objective, task.speeds)
        engine = make_engine(graph, nodes, task.root, faults)
    rate, events = method.rate(graph, objective), task.events
    if events is None:
        time = expected_time(method, graph, objective, tol)
        factor = EVENTS_FACTOR if faults is None else FAULTS_FACTOR
        factor = 1.0 if math.isnan(rate) else factor
        events = math.ceil(factor * (time * float(engine.rates.sum()) + graph.nodes))
    most = int(events)
    stepper = OptimisationStepper(method.name, engine, objective, tol, task.record)
    opened = open_checkpointer(*checkpoint)
    shown = bar(f"{method.name}, {graph.nodes} nodes", most, progress, "event")
    with opened as checkpointer, shown as show:
        limits, stream = Limits(tol, most), engine.make_stream(task.root)
        loop = Loop(stepper, stream, limits, bar=show, checkpointer=checkpointer)
        loop.run()
    holds = faults is None and np.all(task.speeds == 1.0)  # what the theorem assumes
    outcome = stepper.make_outcome(loop, rate if holds else math.nan)
    outcome.graph = graph
    return outcome


def _refuse_options_of_real_nodes(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value is not None:
            raise ValueError(f'{name}= is of real nodes: give transport="local" or "ray"')


def as_method(method: Any) -> DecentralizedMethod:
    """Return the method that a name stands for."""
    if isinstance(method, Dual | DADAO | A2CiD2):
        return method
    return METHODS[check.one_of(method, "method", METHODS, other="an object such as Dual()")]


def expected_time(
    method: DecentralizedMethod, graph: Graph, objective: Objective | Functions, tol: float
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
    if not method.takes_gradients:
        raise ValueError(
            "speeds= is for methods whose nodes take gradients on their own; for the dual method "
            "give the graph other rates"
        )
    rates = check.array(speeds, "speeds", dtype=np.float64, above=0.0)
    return np.asarray(check.shape(rates, "speeds", (nodes,), each="node"))
