"""The front door of the simulator: `simulate`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from continuized.network.analysis import warn_of_delay
from continuized.network.faults import Faults
from continuized.network.gossip import Gossip, as_gossip, check_values
from continuized.network.graphs.graph import Graph, count_parts
from continuized.network.result import Outcome
from continuized.problems.base import Array
from continuized.process.random_streams import Seed, seed_sequence
from continuized.process.stepper import NO_LIMIT, Limits
from continuized.solver.loop import Loop
from continuized.support import validation as check
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.state import fingerprint_parts
from continuized.support.progress import announce_compilation, bar

ROWS = 500
EVENTS_FACTOR = 20.0  # times what the theorem promises, where no limit is given


def simulate(
    graph: Any,
    values: ArrayLike,
    *,
    method: str | Gossip = "accelerated",
    tol: float = 1e-8,
    events: int | None = None,
    until: float | None = None,
    rng: Seed = None,
    faults: Faults | None = None,
    record: int = ROWS,
    snapshots: Sequence[float] = (),
    log: bool = False,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = checkpoints.EVERY,
    resume: bool = False,
) -> Outcome:
    """Average by gossip on a graph, in a compiled simulation.

    Parameters
    ----------
    graph : Graph, or what `Graph.of` takes
    values : array (nodes,) or (nodes, dim)
        Where the nodes start, x_0 = z_0.  Not modified.
    method : "accelerated", "plain" or Gossip
    tol : float
        Stop when the squared error (see `Outcome`), tested once every so many events as there
        are nodes, has fallen to tol times the start's.
    events : int
        The largest number of exchanges; where `until` is not given either, 20 times as many as
        the theorem asks for.
    until : float
        The time to stop at.
    rng : int, SeedSequence or Generator
        The same seed gives the same run, bit by bit.
    faults : Faults
        With it, nodes exchange message by message and tick by their own clocks; without, edges
        tick and exchanges take no time, the same law as `Faults()` at a fraction of its cost.
    record : int
        Rows of the trace, about: evenly spaced, at most twice as many; 0: the start and the end.
    snapshots : times at which to keep x, as far as the run gets
    log : bool
        Keep the event log, for `network.replay`: 40 bytes for each of three entries an exchange.
    progress : bool
        Show a progress bar on standard error, and before it, where the first run compiles, a line.
    checkpoint, every, resume
        As in `minimize`: a run that is resumed is the run never interrupted, bit by bit.  A
        larger `events` or `until` or a smaller tol lets a run go on that had ended.

    Returns
    -------
    Outcome

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense, before the first event, and for faults with which an
        exchange takes more than 1e5 messages and ticks on average, where no `until` is given.
    CheckpointError
        For a checkpoint that is damaged, or is of another run.

    Examples
    --------
    >>> r = simulate("path:10", [1.0] + 9 * [0.0], rng=0)
    >>> r.reached, r.x.round(3).tolist()[:3], r.messages < 2000
    (True, [0.1, 0.1, 0.1], True)
    """
    graph = Graph.of(graph)
    start = check_values(values, graph)
    gossip = as_gossip(method)
    constants = gossip.constants(graph)
    check.instance(faults, "faults", Faults | None, "network.Faults or None")
    if faults is not None:
        faults.wait()  # refuses a timeout too short, before a checkpoint is opened
        warn_of_delay(graph, constants, faults.delay, 'method="plain"')
        if until is None:
            faults.check_cost(graph.nodes)
    listed = check.sequence(snapshots, "snapshots", "a sequence of times")
    given = snapshots if hasattr(snapshots, "dtype") else listed
    kept = check.array(given, "snapshots", dtype=float, ndim=1, minimum=0.0, noun="times")
    times = sorted(set(kept.tolist()))
    limits = _check_limits(graph, gossip, tol, events, until)
    check.whole(record, "record", minimum=0, noun="a number of rows")
    log, progress = check.flag(log, "log"), check.flag(progress, "progress")
    path = checkpoints.check_path(checkpoint, every, resume)
    root = seed_sequence(rng)
    identify = partial(
        fingerprint_parts,
        graph=graph,
        values=start,
        method=constants,
        faults=faults,
        rng=None if rng is None else root,
        record=[record, times, log],
    )
    # Imported here, for it brings Numba with it.
    from continuized.network.simulation.messages import make_engine
    from continuized.network.simulation.node_models.gossip import make_nodes
    from continuized.network.simulation.stepper import GossipStepper

    nodes = make_nodes(start.reshape(graph.nodes, -1), constants)
    with announce_compilation(progress and faults is not None, "4"):
        engine = make_engine(graph, nodes, root, faults, log=log)
    stepper = GossipStepper(gossip.name, engine, limits, times, int(record))
    total = None if events is None else limits.exchanges  # the default is far more than are needed
    # Without faults, all edges together tick at rate 1: the sum of P is that, to rounding.
    stream = engine.make_stream(root, 1.0 if faults is None else float(engine.rates.sum()))
    opened = checkpoints.open_checkpointer(path, every, resume, identify)
    shown = bar(f"{gossip.name} gossip", total, progress, "exchange")
    most = Limits(limits.tol, limits.exchanges)
    with opened as checkpointer, shown as show:
        if progress:
            engine.show = lambda: show(engine.messages, stepper.describe())
        loop = Loop(stepper, stream, most, bar=show, checkpointer=checkpointer)
        loop.run()
    outcome = stepper.make_outcome(loop, start.shape)
    outcome.graph, outcome.x0 = graph, start
    if not outcome.reached:
        outcome.message += _explain_cut(graph, engine.alive)
    return outcome


def _explain_cut(graph: Graph, alive: Array) -> str:
    """Return a sentence where the living nodes are in several parts, which cannot agree."""
    parts = count_parts(graph, alive)
    if parts < 2:
        return ""
    return f" Deaths have cut the graph into {parts} parts, each with a mean of its own."


class GossipLimits(NamedTuple):
    """When a run ends: at an error, after so many exchanges, at a time."""

    tol: float
    exchanges: int
    until: float


def _check_limits(graph: Graph, gossip: Gossip, tol: Any, events: Any, until: Any) -> GossipLimits:
    """Return the limits, where none is given as good as infinite."""
    most, end = NO_LIMIT, math.inf
    if events is not None:
        most = min(check.whole(events, "events", minimum=0, other="None"), NO_LIMIT)
    if until is not None:
        end = check.real(until, "until", minimum=0.0, noun="a finite time", other="None")
    tol = check.real(tol, "tol", minimum=0.0, below=1.0)
    if events is None and until is None:
        promised = math.log(2.0 / max(tol, 1e-30)) / gossip.rate(graph)
        most = math.ceil(EVENTS_FACTOR * (promised + graph.nodes))
    return GossipLimits(tol, most, end)
