"""What `network.run` and `network.minimize` do alike with real nodes: options, plan, run."""

from __future__ import annotations

import math
import os
import secrets
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from continuized.network.faults import DELAYS_TO_WAIT, Faults
from continuized.network.gossip import Gossip
from continuized.network.graphs.graph import Graph
from continuized.network.logs.event_log import EventLog
from continuized.network.protocol.node_model import NodeModelSpec
from continuized.network.runtime.monitor import RunMonitor
from continuized.network.runtime.supervisor import Supervisor
from continuized.network.runtime.termination import EXIT_CODE
from continuized.network.runtime.transport import RunPlan, Transport
from continuized.network.workers.frames import KEY_BYTES
from continuized.network.workers.ray_options import Ray, as_transport
from continuized.process.random_streams import Root, child
from continuized.support import validation as check
from continuized.support.checkpoints.checkpointer import CheckpointOptions, open_checkpointer
from continuized.support.progress import bar

BUSY = 0.25  # the part of its time that a node may spend in exchanges
SECONDS_PER_EXCHANGE = 0.001  # about
STRIDE_PER_DELAY = 0.1  # of the delay made on purpose: a shorter stride gains nothing
TURNS_PER_EXCHANGE = 4.0  # of one worker or the other
MOST_PER_CORE = 5000.0  # exchanges a second
TIMEOUT = 0.5  # seconds, at most, before a node gives up or sends again


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a user asks of real nodes, checked; see `network.run` for each."""

    transport: str | Ray  # "local", or Ray
    tol: float
    seconds: float
    processes: int | None
    speed: float | None
    port: int | None
    restarts: int
    log: bool
    log_file: str | os.PathLike[str] | None
    progress: bool
    checkpoint: CheckpointOptions


def check_options(*, transport: Any, address: Any, port: Any, **given: Any) -> RunOptions:
    """Return the options of real nodes; TypeError or ValueError where one makes no sense."""
    if port is not None:
        check.whole(port, "port", minimum=1, maximum=65535, other="None")
    where = as_transport(transport, address, port)
    if given["log_file"] is not None:
        what = "the path of a file or None"
        check.instance(given["log_file"], "log_file", (str, os.PathLike), what)
    checked = {
        "tol": float(given["tol"]),
        "seconds": check.real(given["seconds"], "seconds", above=0.0),
        "restarts": check.whole(given["restarts"], "restarts", minimum=0),
        "log": check.flag(given["log"], "log"),
    }
    return RunOptions(transport=where, port=port, **{**given, **checked})


def assign_nodes(nodes: int, processes: int | None, alone: set[int]) -> list[list[int]]:
    """Deal the nodes out to workers in turn, so that neighbours seldom share one."""
    count = (os.cpu_count() or 1) if processes is None else processes
    count = check.whole(count, "processes", minimum=1)
    others = [node for node in range(nodes) if node not in alone]
    shared = [others[k::count] for k in range(min(count, len(others)))]
    return shared + [[node] for node in sorted(alone)]


def choose_speed(graph: Graph, speed: float | None) -> tuple[float, float]:
    """Choose the speed, in units of t a second, and the stride (see `NodeScheduler`)."""
    busiest = np.bincount(graph.edges.ravel(), np.repeat(graph.P, 2), graph.nodes).max()
    busy = float(BUSY / busiest)  # units of t that an exchange may take
    if speed is None:
        speed = min(busy / SECONDS_PER_EXCHANGE, MOST_PER_CORE * (os.cpu_count() or 1))
    return check.real(speed, "speed", above=0.0), busy / TURNS_PER_EXCHANGE


def draw_seed(root: Root) -> list[int]:
    """Draw the numbers from which all workers of a run draw."""
    return [int(word) for word in child(root).generate_state(4)]


def make_plan(
    options: RunOptions, graph: Graph, models: Sequence[NodeModelSpec], dim: int,
    workers: Sequence[Sequence[int]], seed: Sequence[int], faults: Faults, *, speed: float,
    stride: float, wait: float = TIMEOUT, edge_rate: float = 1.0, step_rates: Sequence[float] = (),
) -> RunPlan:  # fmt: skip
    """Make the plan of a run; `wait`: seconds, at most, before a node gives up or sends again,
    where the faults do not say it."""
    timeout = speed * wait + DELAYS_TO_WAIT * faults.delay
    return RunPlan(
        graph=graph,
        models=models,
        dim=dim,
        workers=workers,
        key=secrets.token_bytes(KEY_BYTES),
        seed=seed,
        speed=speed,
        stride=max(stride, STRIDE_PER_DELAY * faults.delay),
        timeout=timeout if faults.timeout is None else faults.wait(edge_rate),
        faults=faults,
        log=options.log or options.log_file is not None,
        port=options.port,
        saving=options.checkpoint.path is not None,
        edge_rate=edge_rate,
        step_rates=step_rates,
    )


def run_plan(
    options: RunOptions, plan: RunPlan, monitor: RunMonitor,
    changes: list[tuple[float, int, bool]], name: str, make_result: Callable[[Supervisor], Any],
    *, watched: Gossip | None = None, by_t: bool = False, most_events: float = math.inf,
) -> Any:  # fmt: skip
    """Run a plan from its start to its end, and return the result that is made of it."""
    graph, where = plan.graph, options.transport
    if isinstance(where, Ray):
        where.check_count(len(plan.workers))
    with (
        open_checkpointer(*options.checkpoint) as checkpointer,
        closing(EventLog(options.log_file, graph)) as events,
        closing(make_transport(where)) as opened,
        bar("network", None, options.progress, "message") as show_progress,
    ):
        supervisor = Supervisor(
            transport=opened, plan=plan, monitor=monitor, changes=changes, tol=options.tol,
            seconds=options.seconds, watched=watched, show_progress=show_progress, events=events,
            keep_log=options.log, restarts=options.restarts, checkpointer=checkpointer, by_t=by_t,
            most_events=most_events,
        )  # fmt: skip
        events.add(
            "start", method=name, transport="ray" if isinstance(where, Ray) else where,
            graph=graph.name, nodes=graph.nodes, edges=len(graph.edges),
            processes=len(plan.workers), speed=plan.speed, tol=options.tol,
            resume=options.checkpoint.resume,
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


def make_transport(where: str | Ray) -> Transport:
    """Make the transport that `as_transport` found."""
    if isinstance(where, Ray):
        from continuized.network.runtime.transports.ray import RayTransport

        return RayTransport(where)
    from continuized.network.runtime.transports.local import LocalTransport

    return LocalTransport()
