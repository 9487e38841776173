"""`network.run`: nodes that run for real, in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.analysis import delay_limit
from continuized.network.faults import Faults, check_pairs, choose_victims
from continuized.network.gossip import Gossip, as_gossip, check_values
from continuized.network.graphs.graph import Graph
from continuized.network.protocol.node_model import AVERAGING, NodeModelSpec
from continuized.network.result import SENTENCES, Outcome
from continuized.network.runtime.monitor import RunMonitor
from continuized.network.runtime.real_run import (
    assign_nodes,
    check_options,
    choose_speed,
    draw_seed,
    make_plan,
    run_plan,
)
from continuized.network.runtime.saved_nodes import can_save
from continuized.network.runtime.supervisor import Supervisor
from continuized.network.workers.ray_options import Ray
from continuized.process.random_streams import Seed, seed_sequence
from continuized.process.stepper import Status
from continuized.support import validation as check
from continuized.support.checkpoints.checkpointer import EVERY, check_checkpoint
from continuized.support.checkpoints.state import fingerprint_parts

KILL_EVERY = 0.3  # seconds


def run(
    graph: Any,
    values: ArrayLike | Sequence[NodeModelSpec],
    *,
    transport: str | Ray = "local",
    method: str | Gossip = "accelerated",
    processes: int | None = None,
    speed: float | None = None,
    tol: float = 1e-8,
    seconds: float = 30.0,
    rng: Seed = None,
    loss: float = 0.0,
    duplication: float = 0.0,
    delay: float = 0.0,
    skew: float | ArrayLike = 0.0,
    kill: int | Sequence[tuple[float, int]] = 0,
    rejoin: Sequence[tuple[float, int]] = (),
    restarts: int = 0,
    port: int | None = None,
    log: bool = True,
    log_file: str | os.PathLike[str] | None = None,
    progress: bool = False,
    address: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = EVERY,
    resume: bool = False,
) -> Outcome:
    """Run the nodes of a graph as processes that know nothing but their own clocks.

    Parameters
    ----------
    graph : Graph, str or pairs
        As for `Graph.of`.
    values : array (nodes,) or (nodes, dim), or a NodeModelSpec for each node
        What is averaged; or the models of the nodes.  With models, the error is that of
        their answers about the mean of these, and x in the result are the answers.
    transport : "local", "ray" or network.Ray
        Processes of this machine over 127.0.0.1, or actors of Ray; see `Ray` for its options.
    method : "accelerated", "plain" or Gossip
        With models, only a name for the result.
    processes : int, optional
        How many processes share the nodes; each node to be killed has one of its own.  By
        default one for each core.
    speed : float, optional
        Units of t a second: all edges together tick so often, at most.  By default what keeps
        nodes free most of the time.  Processes that cannot keep up slow their clocks, so that
        messages do not age.
    tol, seconds : float
        The run ends when the error, relative to the start, is at most tol, or after this time.
        Of nodes with more than 1024 numbers, the error is estimated on the way (to 4 %, one
        standard deviation), so that no whole state need pass; at the end it is exact.
    rng : int, optional
        Of all draws.  The order of real events is the machine's: a run cannot be repeated by
        its seed, but by its log (`replay`).
    loss, duplication, delay, skew
        Faults made on purpose; see `Faults` (delay in units of t).
    kill, rejoin : pairs (seconds, node)
        Processes ended by SIGKILL, and nodes that come back, with a neighbour's value.
        kill=3 draws three nodes, and ends one every 0.3 s.
    restarts : int
        How often a process that ends unasked is started again; its nodes come back with a
        neighbour's value.
    port : int, optional
        The first of the ports to listen on, one for each process; by default free ones.
    log : bool
        Whether to keep every event; 25 bytes each, three for an exchange.
    log_file : path, optional
        A file to which lines of JSON are added as the run goes on: every exchange, death and
        warning, and each second a summary; see `docs/deployment.md`.
    progress : bool
        Show the error on standard error.
    address : str, optional
        Of a running Ray cluster: transport="ray", address=A is transport=Ray(address=A).
    checkpoint, every, resume
        The path of a file in which the run is kept every so many seconds and at its end, and
        whether to go on from it, on another transport or machine if need be.  For a checkpoint
        all nodes stop for a moment.  The order of real events is not repeated: what is kept is
        the values, what was counted, the log, and which kills and returns were not done yet.  A
        larger `seconds` or a smaller tol lets a run go on that had ended.  Models must be
        `Checkpointed` (see `NodeModel`).

    Returns
    -------
    Outcome
        x and z are each node's at its own last event, as a replay of the log gives them; of a
        dead node, those it last reported (with more than 1024 numbers: at the start, or for a
        checkpoint).  t is the mean of the processes' clocks.

    Raises
    ------
    ValueError, TypeError
        On arguments that make no sense.
    OSError
        If a given port is in use; ConnectionError if the Ray cluster cannot be joined.
    ImportError, RuntimeError
        If Ray is asked for and not installed, or does not start.
    CheckpointError
        For a checkpoint that is damaged, or is of another run.
    SystemExit
        With code 143, after SIGTERM: exchanges under way are finished, the checkpoint is written
        and all processes are ended before.  A handler of your own for SIGTERM stays instead.

    Connections to the nodes' ports over which no frame of this run comes within 2 seconds are
    ended, counted in `dropped`, and warned of.

    >>> import numpy as np
    >>> r = run("cycle:4", np.arange(4.0), tol=1e-6, processes=1, rng=0)
    >>> r.reached, bool(r.ledger_error < 1e-12), bool(np.allclose(r.x, 1.5, atol=1e-2))
    (True, True, True)
    """
    graph = Graph.of(graph)
    averaging = not _are_models(values)
    models, shape = _make_models(graph, values, method)
    faults = Faults(delay=delay, loss=loss, duplication=duplication, skew=skew)
    seed = draw_seed(seed_sequence(rng))
    changes = _plan_changes(kill, rejoin, graph, np.random.default_rng(seed))
    chosen, stride = choose_speed(graph, speed)
    name = method if isinstance(method, str) else method.name
    identify = partial(
        fingerprint_parts,
        graph=graph,
        values=np.asarray(values) if averaging else list(models),
        method=[name, models[0].options],
        kill=changes,
        log=log,
    )
    options = check_options(
        transport=transport, address=address, port=port, seconds=seconds, processes=processes,
        speed=speed, tol=check.real(tol, "tol", above=0.0), restarts=restarts, log=log,
        log_file=log_file, progress=progress,
        checkpoint=check_checkpoint(checkpoint, every, resume, identify),
    )  # fmt: skip
    plan = make_plan(
        options, graph, models, _find_dim(models, to_save=options.checkpoint.path is not None),
        assign_nodes(graph.nodes, processes, {node for _, node, _ in changes}), seed, faults,
        speed=chosen, stride=stride,
    )  # fmt: skip
    monitor = RunMonitor(plan.workers, plan.dim, averaging)
    watched = as_gossip(method) if averaging and as_gossip(method).accelerated else None
    if watched is not None:
        delay_limit(graph, watched)  # takes seconds on some graphs: before the clocks start
    outcome: Outcome = run_plan(
        options, plan, monitor, changes, name,
        lambda supervisor: _make_outcome(supervisor, monitor, name, shape), watched=watched,
    )  # fmt: skip
    if averaging:
        outcome.x0 = check_values(np.asarray(values), graph)
    return outcome


def _make_models(
    graph: Graph, values: Any, method: Any
) -> tuple[list[NodeModelSpec], tuple[int, ...]]:
    """Make a model for each node; return them with the shape of the result."""
    if _are_models(values):
        if len(values) != graph.nodes:
            raise ValueError(f"{len(values)} node models were given for {graph.nodes} nodes")
        return list(values), (graph.nodes, -1)
    x = check_values(values, graph)
    constants = as_gossip(method).constants(graph)._asdict()
    rows = x.reshape(len(x), -1)
    return [NodeModelSpec(AVERAGING, {"x": row}, constants) for row in rows], x.shape


def _are_models(values: Any) -> bool:
    return (
        isinstance(values, Sequence)
        and len(values) > 0
        and all(isinstance(value, NodeModelSpec) for value in values)
    )


def _find_dim(models: Sequence[NodeModelSpec], to_save: bool) -> int:
    """Find how many numbers an answer has; a node whose model fails will say so itself."""
    failure: Exception | None = None
    for model in models:
        try:
            made = model.make()
            dim = int(np.size(made.answer()))
        except Exception as error:  # the user's code
            failure = error
            continue
        if to_save and not can_save(made):
            raise TypeError(
                f"checkpoint= needs models that are Checkpointed, and {type(made).__name__} is "
                "not: see network.NodeModel"
            )
        return dim
    raise ValueError(f"no node's model can be made: {failure}") from failure


def _plan_changes(
    kill: Any, rejoin: Any, graph: Graph, random: np.random.Generator
) -> list[tuple[float, int, bool]]:
    """List (seconds, node, whether it comes back), in order; choose those to kill if asked."""
    nodes = graph.nodes
    if check.is_whole(kill):
        advice = "one node must be left"
        count = check.whole(kill, "kill", minimum=0, maximum=nodes - 1, advice=advice)
        victims = choose_victims(graph, count, random)
        kill = [(KILL_EVERY * (k + 1), node) for k, node in enumerate(victims)]
    kill, rejoin = check_pairs(kill, "kill", "a whole number, or "), check_pairs(rejoin, "rejoin")
    faults = Faults(deaths=kill, joins=rejoin)
    if faults.absent_at_start():
        raise ValueError(
            f"node {min(faults.absent_at_start())} is to rejoin, but was not killed before"
        )
    if len(faults.deaths) - len(faults.joins) >= nodes:
        raise ValueError(f"kill must leave one of the {nodes} nodes")
    return faults.changes(nodes)


def _make_outcome(
    supervisor: Supervisor, monitor: RunMonitor, method: str, shape: tuple[int, ...]
) -> Outcome:
    ended = Status.COMPLETED if monitor.living.any() else Status.CLOCK_ENDED
    return Outcome(
        x=(monitor.x if monitor.averaging else monitor.answer).reshape(shape),
        z=monitor.z.reshape(shape),
        t=monitor.t,
        method=method,
        messages=monitor.messages,
        tol=supervisor.tol,
        reached=supervisor.reached,
        message=SENTENCES[Status.CONVERGED if supervisor.reached else ended],
        error=monitor.error,
        trace=monitor.trace,
        deaths=monitor.deaths,
        joins=monitor.joins,
        ledger_error=monitor.worst_ledger_error,
        mean_drift=monitor.drift(),
        events_per_s=monitor.messages / max(supervisor.elapsed, 1e-9),
        staleness=monitor.staleness(),
        dropped=monitor.all_dropped,
        fell_back=supervisor.plain,
        rounding=monitor.rounding(),
        log=supervisor.merge_log(),
    )
