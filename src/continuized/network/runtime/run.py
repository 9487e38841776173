"""`network.run`: nodes that run for real, in processes of their own."""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.analysis import delay_limit
from continuized.network.faults import DELAYS_TO_WAIT, Faults, choose_victims
from continuized.network.gossip import Gossip, as_gossip, check_values
from continuized.network.graphs.graph import Graph
from continuized.network.protocol.node_model import AVERAGING, NodeModelSpec
from continuized.network.result import Outcome
from continuized.network.runtime.event_log import EventLog
from continuized.network.runtime.monitor import RunMonitor
from continuized.network.runtime.ray_options import Ray
from continuized.network.runtime.saved_nodes import can_save
from continuized.network.runtime.supervisor import Supervisor
from continuized.network.runtime.termination import EXIT_CODE
from continuized.network.runtime.transport import RunPlan, Transport
from continuized.network.runtime.wire_format import KEY_BYTES
from continuized.process.random_streams import Seed, child, seed_sequence
from continuized.support import validation as check
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.state import fingerprint_parts
from continuized.support.progress import bar

TRANSPORTS = ("local", "ray")
BUSY = 0.25  # the part of its time that a node may spend in exchanges
SECONDS_PER_EXCHANGE = 0.001  # about
STRIDE_PER_DELAY = 0.1  # of the delay made on purpose: a shorter stride gains nothing
TURNS_PER_EXCHANGE = 4.0  # of one worker or the other
MOST_PER_CORE = 5000.0  # exchanges a second
TIMEOUT = 0.5  # seconds, at most, before a node gives up or sends again
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
    every: float = checkpoints.EVERY,
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
        the values, what was counted, and the log.  A larger `seconds` or a smaller tol lets a run
        go on that had ended.  Models must be `Checkpointed` (see `NodeModel`).

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
    if port is not None:
        check.whole(port, "port", minimum=1, maximum=65535, other="None")
    where = as_transport(transport, address, port)
    averaging = not _are_models(values)
    models, shape = _make_models(graph, values, method)
    faults = Faults(delay=delay, loss=loss, duplication=duplication, skew=skew)
    root = [int(word) for word in child(seed_sequence(rng)).generate_state(4)]
    changes = _plan_changes(kill, rejoin, graph, np.random.default_rng(root))
    chosen, stride = choose_speed(graph, speed)
    path = checkpoints.check_path(checkpoint, every, resume)
    check.flag(log, "log")
    if log_file is not None:
        check.instance(log_file, "log_file", (str, os.PathLike), "the path of a file or None")
    plan = RunPlan(
        graph=graph,
        models=models,
        dim=_find_dim(models, to_save=path is not None),
        workers=assign_nodes(graph.nodes, processes, {node for _, node, _ in changes}),
        key=secrets.token_bytes(KEY_BYTES),
        seed=root,
        speed=chosen,
        stride=max(stride, STRIDE_PER_DELAY * faults.delay),
        timeout=chosen * TIMEOUT + DELAYS_TO_WAIT * faults.delay,
        faults=faults,
        log=log or log_file is not None,
        port=port,
        saving=path is not None,
    )
    if isinstance(where, Ray):
        where.check_count(len(plan.workers))
    seconds = check.real(seconds, "seconds", above=0.0)
    tol = check.real(tol, "tol", above=0.0)
    restarts = check.whole(restarts, "restarts", minimum=0)
    monitor = RunMonitor(plan.workers, plan.dim, averaging)
    watched = as_gossip(method) if averaging and as_gossip(method).accelerated else None
    if watched is not None:
        delay_limit(graph, watched)  # takes seconds on some graphs: before the clocks start
    name = method if isinstance(method, str) else method.name
    who = partial(
        fingerprint_parts,
        graph=graph,
        values=np.asarray(values) if averaging else list(models),
        method=[name, models[0].options],
        kill=changes,
        log=log,
    )
    outcome: Outcome = conduct(
        where, plan, monitor, changes, name, lambda its: its.make_outcome(name, shape), tol=tol,
        seconds=seconds, watched=watched, progress=progress, log_file=log_file, keep_log=log,
        restarts=restarts, checkpoint=(path, every, resume, who),
    )  # fmt: skip
    if averaging:
        outcome.x0 = check_values(np.asarray(values), graph)
    return outcome


def conduct(
    where: str | Ray, plan: RunPlan, monitor: RunMonitor, changes: list[tuple[float, int, bool]],
    name: str, make_result: Callable[[Supervisor], Any], *, tol: float, seconds: float,
    watched: Gossip | None = None, progress: bool = False,
    log_file: str | os.PathLike[str] | None = None, checkpoint: tuple[Any, ...], **options: Any,
) -> Any:  # fmt: skip
    """Run a plan from its start to its end, and return the result that is made of it.

    checkpoint: what `open_checkpointer` takes.  options: more of the `Supervisor`'s.
    """
    graph, (_, _, resume, _) = plan.graph, checkpoint
    with (
        checkpoints.open_checkpointer(*checkpoint) as checkpointer,
        closing(EventLog(log_file, graph)) as events,
        closing(make_transport(where)) as opened,
        bar("network", None, progress, "message") as show_progress,
    ):
        supervisor = Supervisor(
            opened, plan, monitor, changes, tol, seconds, watched, show_progress, events,
            checkpointer=checkpointer, **options,
        )  # fmt: skip
        events.add(
            "start", method=name, transport="ray" if isinstance(where, Ray) else where,
            graph=graph.name, nodes=graph.nodes, edges=len(graph.edges),
            processes=len(plan.workers), speed=plan.speed, tol=tol, resume=bool(resume),
        )  # fmt: skip
        supervisor.run()
        outcome = make_result(supervisor)
        drift = {"mean_drift": outcome.mean_drift} if hasattr(outcome, "mean_drift") else {}
        events.add(
            "end", reached=outcome.reached,
            message="SIGTERM ended the run." if supervisor.terminated else outcome.message,
            ledger_error=outcome.ledger_error, **drift, **supervisor.summarise(),
        )  # fmt: skip
    if supervisor.terminated:
        sys.exit(EXIT_CODE)
    outcome.graph = graph
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


def assign_nodes(nodes: int, processes: int | None, alone: set[int]) -> list[list[int]]:
    """Deal the nodes out to workers in turn, so that neighbours seldom share one."""
    count = (os.cpu_count() or 1) if processes is None else processes
    count = check.whole(count, "processes", minimum=1)
    others = [node for node in range(nodes) if node not in alone]
    shared = [others[k::count] for k in range(min(count, len(others)))]
    return shared + [[node] for node in sorted(alone)]


def choose_speed(graph: Graph, speed: float | None) -> tuple[float, float]:
    """Choose the speed, in units of t a second, and the stride (see `NodeScheduler`)."""
    share = np.bincount(graph.edges.ravel(), np.repeat(graph.P, 2), graph.nodes).max()
    busy = float(BUSY / share)  # units of t that an exchange may take
    if speed is None:
        speed = min(busy / SECONDS_PER_EXCHANGE, MOST_PER_CORE * (os.cpu_count() or 1))
    return check.real(speed, "speed", above=0.0), busy / TURNS_PER_EXCHANGE


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
    faults = Faults(deaths=kill, joins=rejoin)  # checks them
    if faults.absent_at_start():
        raise ValueError(
            f"node {min(faults.absent_at_start())} is to rejoin, but was not killed before"
        )
    if len(faults.deaths) - len(faults.joins) >= nodes:
        raise ValueError(f"kill must leave one of the {nodes} nodes")
    return faults.changes(nodes)


def as_transport(transport: Any, address: str | None, port: int | None) -> str | Ray:
    """Return "local", or the options of Ray; refuse what is for the other."""
    if not isinstance(transport, Ray):
        check.one_of(transport, "transport", TRANSPORTS, other="network.Ray(...)")
        if transport == "local":
            if address is not None:
                raise ValueError('address= is for transport="ray"')
            return "local"
        options = Ray(address)
    else:
        options = transport
        if address is not None:
            raise ValueError("give the address to network.Ray(address=...), and not to address=")
    if port is not None:
        raise ValueError('port= is for transport="local"; Ray chooses its own')
    return options


def make_transport(where: str | Ray) -> Transport:
    """Make the transport that `as_transport` found."""
    if isinstance(where, Ray):
        from continuized.network.runtime.transports.ray import RayTransport

        return RayTransport(where)
    from continuized.network.runtime.transports.local import LocalTransport

    return LocalTransport()
