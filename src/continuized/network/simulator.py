"""The front door of the simulator: `simulate`."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized import checkpoints, identity, seeds
from continuized.checkpoints import AnyKeeper, State
from continuized.network.faults import Faults
from continuized.network.graph import Graph
from continuized.network.methods import Gossip
from continuized.network.outcome import Outcome, Trace
from continuized.network.rules import Constants
from continuized.problems.base import Array
from continuized.progress import Bar, bar
from continuized.words import brief, is_real

ROWS = 500
PATIENCE = 20.0  # times what the theorem promises, where no limit is given
BLOW_UP = 1e12  # a squared error so many times the start's is divergence


def simulate(
    graph: Any,
    values: ArrayLike,
    method: str | Gossip = "accelerated",
    *,
    tol: float = 1e-8,
    events: int | None = None,
    until: float | None = None,
    seed: seeds.Seed = None,
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
    seed : int, SeedSequence or Generator
        The same seed gives the same run, bit by bit.
    faults : Faults
        With it, nodes exchange message by message and ring by their own clocks; without, edges
        ring and exchanges take no time, the same law as `Faults()` at a fraction of its cost.
    record : int
        Rows of the trace, about: evenly spaced, at most twice as many; 0: the start and the end.
    snapshots : times at which to keep x
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
    >>> r = simulate("path:10", [1.0] + 9 * [0.0], seed=0)
    >>> r.reached, r.x.round(3).tolist()[:3], r.messages < 2000
    (True, [0.1, 0.1, 0.1], True)
    """
    graph = Graph.of(graph)
    start = checked_values(values, graph)
    gossip = as_gossip(method)
    constants = gossip.constants(graph)
    if faults is not None and not isinstance(faults, Faults):
        raise TypeError(f"faults must be network.Faults or None, got {brief(faults)}")
    times = _snapshot_times(snapshots)
    limits = _checked_limits(tol, events, until)
    if events is None and until is None:
        limits = limits[0], _enough(graph, gossip, constants, limits[0]), limits[2]
    if isinstance(record, bool) or not isinstance(record, int | np.integer) or record < 0:
        raise ValueError(f"record must be a number of rows >= 0, got {brief(record)}")
    path = checkpoints.checked_path(checkpoint, every, resume)
    root = seeds.seed_sequence(seed)
    keeper: AnyKeeper = checkpoints.nowhere
    if path is not None:
        who = {
            "graph": graph,
            "values": start,
            "method": constants,
            "faults": faults,
            "seed": None if seed is None else root,
            "record": [record, times, bool(log)],
        }
        named = {part: identity.words(value) for part, value in who.items()}
        keeper = checkpoints.Keeper(path, float(every), bool(resume), named)
    engine = _engine(graph, start.reshape(graph.nodes, -1), constants, root, bool(log), faults)
    with bar(f"{gossip.name} gossip", limits[1], progress, "exchange") as show:
        run = _Run(engine, limits, times, int(record), show)
        run.go(keeper)
    return run.outcome(gossip.name, start.shape, faults, bool(log))


def _engine(
    graph: Graph, x: Array, constants: Constants, root: seeds.Root, log: bool, faults: Any
) -> Any:
    """Atomic exchanges where there is nothing that could go wrong between nodes."""
    if faults is None:
        from continuized.network.engine import Atomic

        return Atomic(graph, x, constants, root, log)
    from continuized.network.engine_faulty import Messages

    return Messages(graph, x, constants, root, log, faults)


class _Run:
    """An engine under way, and what is kept of it."""

    def __init__(
        self, engine: Any, limits: tuple[float, int, float], times: list[float], record: int,
        show: Bar,
    ) -> None:  # fmt: skip
        self.engine, self.show = engine, show
        self.tol, self.most, self.until = limits
        self.snapshots: dict[float, Array] = {}
        self.wanted = times
        alive = engine.alive
        self.start_error = engine.error(0.0)
        self.deviation = math.sqrt(self.start_error / max(1, int(alive.sum())))
        self.centre, self.total, _ = engine.balance()
        x, z = engine.states(0.0)
        self.size = np.abs(x + z)[alive].sum(axis=0)
        self.rows = _Rows(record)
        self.reached, self.seconds, self.counted = False, 0.0, 0

    def go(self, keeper: AnyKeeper) -> None:
        """Until the error is small, or a limit is reached."""
        from continuized.network.engine import BLOCK, TIME

        scale = self.start_error
        bounds = np.array([self.tol * scale, BLOW_UP * scale])
        with keeper.over(self):
            why = BLOCK
            if self.start_error == 0.0:
                self.reached = True
                return
            begun, before = time.perf_counter(), self.engine.messages
            while why == BLOCK or (why == TIME and self.engine.t < self.until):
                stop = min([self.until, *self._missing()[:1]])
                why, tests = self.engine.advance(stop, self.most, bounds)
                self.rows.add(tests, scale)
                if why == TIME and self.engine.t in self.wanted:
                    self.snapshots[self.engine.t] = self.engine.states(self.engine.t)[0]
                if len(tests):
                    self.reached = bool(tests[-1, 2] <= bounds[0])
                    self.show(self.engine.messages, f"error {tests[-1, 2] / scale:.2g}")
                if why == BLOCK:
                    keeper.between(self)
            self.seconds = time.perf_counter() - begun
            self.counted = self.engine.messages - before

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
            reached=self.reached or error <= self.tol,
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
        )

    def state(self) -> State:
        """Between two blocks."""
        plain, arrays = self.engine.state()
        rows, count = self.rows.state()
        kept = {f"snapshot_{i}": x for i, x in enumerate(self.snapshots.values())}
        mine = {"tests": count, "snapshots": list(self.snapshots)}
        return State({"engine": plain, **mine}, {**arrays, **kept, "rows": rows})

    def restore(self, state: State) -> None:
        """Go on from there."""
        plain, arrays = state
        checkpoints.check_events(plain["engine"]["messages"], self.most)
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


def checked_values(values: ArrayLike, graph: Graph) -> Array:
    """A fresh float64 array, a row for each node."""
    try:
        given = np.asarray(values)
    except ValueError as error:  # ragged
        raise ValueError(
            f"values must be numbers, equally many for each node, got {brief(values)}"
        ) from error
    if given.dtype.kind not in "fiu":
        raise TypeError(f"values must be real numbers, got {brief(values)}")
    if given.ndim not in (1, 2) or given.shape[0] != graph.nodes or given.size == 0:
        raise ValueError(
            f"values must have shape ({graph.nodes},) or ({graph.nodes}, dim), a row for each "
            f"node, got {given.shape}"
        )
    start = given.astype(np.float64)
    if not np.all(np.isfinite(start)):
        node = int(np.argwhere(~np.isfinite(start))[0, 0])
        raise ValueError(f"values must be finite, but those of node {node} are not")
    return start


def as_gossip(method: Any) -> Gossip:
    """The method that a name stands for."""
    if isinstance(method, Gossip):
        return method
    if isinstance(method, str) and method in ("accelerated", "plain"):
        return Gossip(accelerated=method == "accelerated")
    raise ValueError(f'method must be "accelerated", "plain" or a Gossip, got {brief(method)}')


def _checked_limits(tol: Any, events: Any, until: Any) -> tuple[float, int, float]:
    if not (is_real(tol) and 0.0 <= tol < 1.0):
        raise ValueError(f"tol must be a number in [0, 1), got {brief(tol)}")
    if events is not None:
        whole = isinstance(events, int | np.integer) and not isinstance(events, bool)
        if not whole or events < 0:
            raise ValueError(f"events must be a number of exchanges >= 0, got {brief(events)}")
    if until is not None and not (is_real(until) and 0.0 <= until < math.inf):
        raise ValueError(f"until must be a finite time >= 0, got {brief(until)}")
    most = np.iinfo(np.int64).max if events is None else events
    return float(tol), int(most), math.inf if until is None else float(until)


def _enough(graph: Graph, gossip: Gossip, constants: Constants, tol: float) -> int:
    """PATIENCE times the events that bring the theorem's bound down to tol."""
    rate = constants.theta if gossip.accelerated else 0.5 * graph.mu_g
    return math.ceil(PATIENCE * (math.log(2.0 / max(tol, 1e-30)) / rate + graph.nodes))


def _snapshot_times(given: Any) -> list[float]:
    try:
        times = sorted({float(t) for t in given})
    except (TypeError, ValueError) as error:
        raise TypeError(f"snapshots must be a sequence of times, got {brief(given)}") from error
    if times and not (times[0] >= 0.0 and times[-1] < math.inf):
        raise ValueError(f"snapshots must be finite times >= 0, got {brief(given)}")
    return times
