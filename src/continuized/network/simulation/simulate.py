"""The front door of the simulator: `simulate`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.arguments import (
    as_gossip,
    checked_limits,
    checked_times,
    checked_values,
    enough_events,
)
from continuized.network.faults import Faults
from continuized.network.gossip import Constants, Gossip
from continuized.network.graphs.graph import Graph
from continuized.network.result import Outcome, Trace, rounding_of_mean
from continuized.problems.base import Array
from continuized.process import random_streams as seeds
from continuized.support import validation as check
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.checkpointer import AnyCheckpointer, open_checkpointer
from continuized.support.checkpoints.fingerprint import fingerprint_parts
from continuized.support.checkpoints.state import Checkpointed, State
from continuized.support.progress import Bar, bar

ROWS = 500
BLOW_UP = 1e12  # a squared error so many times the start's is divergence


def simulate(
    graph: Any,
    values: ArrayLike,
    method: str | Gossip = "accelerated",
    *,
    tol: float = 1e-8,
    events: int | None = None,
    until: float | None = None,
    rng: seeds.Seed = None,
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
        With it, nodes exchange message by message and ring by their own clocks; without, edges
        ring and exchanges take no time, the same law as `Faults()` at a fraction of its cost.
    record : int
        Rows of the trace, about: evenly spaced, at most twice as many; 0: the start and the end.
    snapshots : times at which to keep x, as far as the run gets
    log : bool
        Keep the event log, for `network.replay`: 40 bytes for each of three entries an exchange.
    progress : bool
        Show a progress bar on standard error.
    checkpoint, every, resume
        As in `minimize`: a run that is resumed is the run never interrupted, bit by bit.  A
        larger `events` or `until` or a smaller tol lets a run go on that had ended.

    Returns
    -------
    Outcome

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense, before the first event.
    CheckpointError
        For a checkpoint that is damaged, or is of another run.

    Examples
    --------
    >>> r = simulate("path:10", [1.0] + 9 * [0.0], rng=0)
    >>> r.reached, r.x.round(3).tolist()[:3], r.messages < 2000
    (True, [0.1, 0.1, 0.1], True)
    """
    graph = Graph.of(graph)
    start = checked_values(values, graph)
    gossip = as_gossip(method)
    constants = gossip.constants(graph)
    check.instance(faults, "faults", Faults | None, "network.Faults or None")
    times = checked_times(snapshots)
    limits = checked_limits(tol, events, until)
    if events is None and until is None:
        limits = limits[0], enough_events(graph, gossip, limits[0]), limits[2]
    check.whole(record, "record", minimum=0, noun="a number of rows")
    path = checkpoints.checked_path(checkpoint, every, resume)
    root = seeds.seed_sequence(rng)
    who = partial(
        fingerprint_parts,
        graph=graph,
        values=start,
        method=constants,
        faults=faults,
        rng=None if rng is None else root,
        record=[record, times, bool(log)],
    )
    checkpointer = open_checkpointer(path, every, resume, who)
    engine = _engine(graph, start.reshape(graph.nodes, -1), constants, root, bool(log), faults)
    total = None if events is None else limits[1]  # the default is far more than are needed
    with bar(f"{gossip.name} gossip", total, progress, "exchange") as show:
        run = _Run(engine, limits, times, int(record), show)
        run.run(checkpointer)
    return run.outcome(gossip.name, start.shape, faults, bool(log))


def _engine(
    graph: Graph, x: Array, constants: Constants, root: seeds.Root, log: bool, faults: Any
) -> Any:
    """Atomic exchanges where there is nothing that could go wrong between nodes."""
    if faults is None:
        from continuized.network.simulation.instant import Atomic

        return Atomic(graph, x, constants, root, log)
    from continuized.network.simulation.messages import Messages

    return Messages(graph, x, constants, root, log, faults)


class _Run(Checkpointed):
    """An engine under way, and what is kept of it."""

    def __init__(
        self, engine: Any, limits: tuple[float, int, float], times: list[float], record: int,
        show: Bar,
    ) -> None:  # fmt: skip
        self.engine, self.show = engine, show
        self.tol, self.most, self.until = limits
        self.snapshots: dict[float, Array] = {}
        self.wanted = times
        alive = self.seen = engine.alive.copy()
        self.start_error = engine.error(0.0)
        self.deviation = math.sqrt(self.start_error / max(1, int(alive.sum())))
        self.centre, self.total, _ = engine.balance()
        x, z = engine.states(0.0)
        self.size = np.abs(x + z)[alive].sum(axis=0)
        self.rows = _Rows(record)
        self.reached, self.seconds, self.counted = False, 0.0, 0

    def run(self, checkpointer: AnyCheckpointer) -> None:
        """Until the error is small, or a limit is reached."""
        from continuized.network.simulation.instant import BLOCK, TIME

        scale = self.start_error
        bounds = np.array([self.tol * scale, BLOW_UP * scale])
        with checkpointer.around(self):
            why = BLOCK
            if self.start_error == 0.0:
                self.reached = True
                return
            begun, before = time.perf_counter(), self.engine.messages
            while why == BLOCK or (why == TIME and self.engine.t < self.until):
                if self.engine.over():
                    break
                stop = min([self.until, *self._missing()[:1]])
                why, tests = self.engine.advance(stop, self.most, bounds)
                self.rows.add(tests, scale)
                if why == TIME and self.engine.t in self.wanted:
                    self.snapshots[self.engine.t] = self.engine.states(self.engine.t)[0]
                if len(tests):
                    self.reached = bool(tests[-1, 2] <= bounds[0])
                    self.show(self.engine.messages, self._words(tests[-1, 2] / scale))
                if why == BLOCK:
                    checkpointer.save_if_due(self)
            self.seconds = time.perf_counter() - begun
            self.counted = self.engine.messages - before

    def _words(self, error: float) -> str:
        """For the progress bar: the error, and how many have died."""
        alive = self.engine.alive
        self.seen = self.seen | alive  # a node that is to join has not died
        dead = int((self.seen & ~alive).sum())
        return f"error {error:.2g}" + (f", {dead} dead" if dead else "")

    def _missing(self) -> list[float]:
        return [t for t in self.wanted if t not in self.snapshots]

    def outcome(
        self, name: str, shape: tuple[int, ...], faults: Faults | None, log: bool
    ) -> Outcome:
        """What is reported."""
        engine, t = self.engine, self.engine.t
        error = engine.error(t) / self.start_error if self.start_error else 0.0
        x, z = engine.states(t)
        now, there, joined = engine.balance()
        size = self.size + np.abs(joined)
        ledger = np.abs(there - self.total - joined) / np.where(size > 0.0, size, 1.0)
        drift = float(np.linalg.norm(now - self.centre))
        changes = [] if faults is None else faults.changes(shape[0])
        return Outcome(
            x=x.reshape(shape),
            z=z.reshape(shape),
            t=t,
            method=name,
            messages=engine.messages,
            tol=self.tol,
            reached=bool(engine.alive.any()) and (self.reached or error <= self.tol),
            error=error,
            trace=self.rows.trace(t, engine.messages, error),
            snapshots={s: kept.reshape(shape) for s, kept in self.snapshots.items()},
            deaths=[(s, i, "killed") for s, i, joins in changes if s <= t and not joins],
            ledger_error=float(ledger.max()),
            mean_drift=drift / self.deviation if self.deviation else drift,
            events_per_s=self.counted / self.seconds if self.seconds else 0.0,
            staleness=engine.staleness(),
            log=engine.log() if log else None,
            joins=[(s, i) for s, i, joins in changes if s <= t and joins],
            rounding=rounding_of_mean(x[engine.alive], self.start_error),
        )

    def save(self, prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
        """Between two blocks."""
        state = self.state()
        arrays.update(state.arrays)
        return state.plain

    def state(self) -> State:
        """Between two blocks."""
        plain, arrays = self.engine.state()
        rows, count = self.rows.state()
        kept = {f"snapshot_{i}": x for i, x in enumerate(self.snapshots.values())}
        mine = {"tests": count, "snapshots": list(self.snapshots)}
        return State({"engine": plain, **mine}, {**arrays, **kept, "rows": rows})

    def restore(self, plain: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Go on from there."""
        done, t = plain["engine"]["messages"], plain["engine"]["t"]
        if done > self.most or t > self.until:
            raise checkpoints.CheckpointError(
                f"the checkpoint has {done} exchanges already and is at t = {t:.6g}, but events = "
                f"{self.most} and until = {self.until:.6g}; give larger ones, or resume=False"
            )
        self.engine.restore(State(plain["engine"], arrays))
        self.rows.restore(arrays["rows"], plain["tests"])
        kept = enumerate(plain["snapshots"])
        self.snapshots = {t: arrays[f"snapshot_{i}"] for i, t in kept}


class _Rows:
    """Rows (t, messages, error) of the trace: every test's, and when they are too many, half."""

    def __init__(self, record: int) -> None:
        self.record, self.count = record, 0
        self.kept = [(0.0, 0.0, 1.0)]

    def add(self, tests: Array, scale: float) -> None:
        for t, messages, error in tests.tolist():
            self.count += 1
            if self.record and self.count % self._stride() == 0:
                self.kept.append((t, messages, error / scale))
                if len(self.kept) > 2 * self.record:
                    self.kept = self.kept[::2]

    def _stride(self) -> int:
        """A power of 2: as many tests for a row as keep the rows few."""
        stride = 1
        while self.count > 2 * self.record * stride:
            stride *= 2
        return stride

    def trace(self, t: float, messages: int, error: float) -> Trace:
        rows = self.kept if self.kept[-1][1] == messages else [*self.kept, (t, messages, error)]
        columns = np.array(rows).T
        return Trace(columns[0].copy(), columns[1].astype(np.int64), columns[2].copy())

    def state(self) -> tuple[Array, int]:
        return np.array(self.kept), self.count

    def restore(self, rows: Array, count: int) -> None:
        self.kept, self.count = [tuple(row) for row in rows.tolist()], count
