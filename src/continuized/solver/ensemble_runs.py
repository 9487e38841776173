"""The runs of an ensemble: in chunks of compiled code on several threads, or one by one.

Every run draws from its own streams just what `minimize` would draw, in blocks whose size
bounds the memory and changes nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array, Compiled, Problem
from continuized.process import clock as clocks
from continuized.process import random_streams as seeds
from continuized.process.methods import Method
from continuized.process.noise import Noise, drawn

CHUNK = 128  # runs at once on a thread: a call of the compiled loop takes 0.5 ms to start
CHUNK_NUMBERS = 2**23  # but no more numbers at once than this (64 MB)
BLOCK_SECONDS = 0.1  # a block takes about as long at most: then a run that is over may be left


class Task(NamedTuple):
    """What every run of an ensemble shares."""

    problem: Problem
    method: Method
    x0: Array
    steps: int  # events of each run; 0 where `times` are given
    times: Array
    noise: Noise | None
    root: seeds.Root

    @property
    def columns(self) -> int:
        """How many values of f a run gives."""
        return int(self.times.size) or self.steps + 1

    @property
    def seconds(self) -> float:
        """About how long an event of a run takes, if its gradient is compiled and reads all data.

        Users' own gradients may take longer, those in Python about 5 microseconds at least.
        """
        compiled = self.problem.compiled(self.x0.dtype)
        if compiled is None:
            return 5e-6
        return 5e-8 + 5e-10 * (self.x0.size + sum(part.size for part in compiled.data))

    @property
    def numbers(self) -> int:
        """How many numbers an event of a run takes: its time, gap, coefficients and mark."""
        return 7 + (self.x0.size if self.noise is not None else 0)


class Rows(NamedTuple):
    """Where the outcome of consecutive runs goes; t has no columns where times are fixed."""

    first: int
    t: Array
    fun: Array


def run_chunks(task: Task, rows: Iterator[Rows], threads: int) -> Iterator[Rows]:
    """Fill the rows, and give them back in their order."""
    engine = _engine(task)
    if engine is None:
        for part in rows:
            for j in range(len(part.fun)):
                _python_run(task, part.first + j, part.t[j], part.fun[j])
                yield Rows(part.first + j, part.t[j : j + 1], part.fun[j : j + 1])
        return
    waiting: list[Future[Rows]] = []
    over: list[bool] = []  # not empty when the runs under way are to be left
    with ThreadPoolExecutor(threads) as pool:
        try:
            for part in rows:
                waiting.append(pool.submit(_compiled_runs, task, engine, part, over))
                if len(waiting) > 2 * threads:  # bounds the memory of what waits for its turn
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            over.append(True)
            pool.shutdown(cancel_futures=True)


class Engine(NamedTuple):
    """The compiled parts of an ensemble, made before the threads start: each is compiled once."""

    problem: Compiled
    loop: Any
    flow: Any  # None where the values are wanted at events


def _engine(task: Task) -> Engine | None:
    """The compiled parts; None where one of them is only Python."""
    from continuized.process import compiled as schedule
    from continuized.solver.kernels import ensemble as many

    if not schedule.runs_compiled(task.method):
        return None
    problem = task.problem.compiled(task.x0.dtype)
    if problem is None or problem.fun is None:
        return None
    if task.steps:
        loop, flow = many.compiled_steps(task.x0.dtype), None
    else:
        loop = many.compiled_times(task.x0.dtype)
        flow = many.compiled_flow(task.method.flow_rule)
    schedule.compiled_fill(task.method.rule)
    return Engine(problem, loop, flow)


def _compiled_runs(task: Task, engine: Engine, rows: Rows, over: list[bool]) -> Rows:
    from continuized.process.compiled import rows_of_coefficients
    from continuized.solver.kernels import ensemble as many

    runs, dtype = len(rows.fun), task.x0.dtype
    states = np.tile(task.x0.ravel(), (2, runs, 1))
    dim = states.shape[2]
    scratch = np.empty((2, dim), dtype)
    grad, fun, data = engine.problem
    t0, carry, passed = np.zeros(runs), np.zeros(runs), np.zeros(runs, np.int64)
    keys = [seeds.TIMES] if task.noise is None else [seeds.TIMES, seeds.MARKS]
    roots = seeds.branches(task.root, range(rows.first, rows.first + runs), keys)
    streams = [_Streams(task, root) for root in roots]
    if task.steps:
        rows.t[:, 0], rows.fun[:, 0] = 0.0, fun(states[0, 0], data)
    k, most = 0, max(1, int(BLOCK_SECONDS / (runs * task.seconds)))
    while not over and (k < task.steps or np.any(passed < task.times.size)):
        n, started = min(most, _block(task, k, runs)), time.perf_counter()
        dt = np.stack([stream.gaps(n) for stream in streams])
        t = dt.copy()
        t[:, 0] += t0
        np.cumsum(t, axis=1, out=t)  # from left to right, as Stream.draw adds
        coefs = rows_of_coefficients(task.method, k, t0, carry, t, dt)
        marks = np.empty((0, 0, 0), dtype)
        if task.noise is not None:
            marks = np.stack([stream.marks(n, dim) for stream in streams])
        block = (grad, fun, data, states, scratch, coefs, marks)
        if task.steps:
            rows.t[:, k + 1 : k + 1 + n] = t
            engine.loop(*block, k, rows.fun)
        else:
            asked = many.Asked(task.method.constants, t0, t, task.times, passed)
            engine.loop(*block, engine.flow, asked, rows.fun)
        k, t0, carry = k + n, t[:, -1].copy(), coefs[:, -1, -1].copy()
        if time.perf_counter() - started > BLOCK_SECONDS:
            most = max(1, n // 2)
    return rows


def _block(task: Task, k: int, runs: int) -> int:
    """How many events to draw at once for each of so many runs."""
    most = max(1, CHUNK_NUMBERS // (runs * task.numbers))
    if task.steps:
        return min(most, task.steps - k)
    # About as many as happen before the last time, and some more.
    horizon = float(task.times[-1]) if k == 0 else 0.0
    return min(most, int(horizon + 4.0 * math.sqrt(horizon)) + 16)


class _Streams:
    """The random streams of one run, as `minimize` draws them."""

    def __init__(self, task: Task, root: seeds.Root) -> None:
        self._stream = task.method.clock(root).stream()
        self._noise, self._dtype = task.noise, task.x0.dtype
        self._rng = None if task.noise is None else seeds.generator(root, seeds.MARKS)

    def gaps(self, n: int) -> Array:
        return self._stream.gaps(n)

    def marks(self, n: int, d: int) -> Array:
        assert self._noise is not None
        assert self._rng is not None
        return drawn(self._noise, self._rng, n, d, self._dtype)


def _python_run(task: Task, i: int, t: Array, fun: Array) -> None:
    """Run i by `minimize`.  A run that fails has no values (NaN) after its end."""
    from continuized.solver.minimize import minimize

    root = seeds.child(task.root, i)
    common: dict[str, Any] = {"method": task.method, "noise": task.noise, "rng": root}
    fun[:] = np.nan
    if task.steps:
        t[:] = np.nan
        r = minimize(task.problem, task.x0, maxiter=task.steps, **common)
        t[: len(r.trace)], fun[: len(r.trace)] = r.trace.t, r.trace.fun
        return
    stream, blocks = task.method.clock(root).stream(), []
    while stream.t <= task.times[-1]:
        blocks.append(stream.draw(_block(task, stream.k, 1)))
    events_t, gaps = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("t", "dt"))
    passed = int(np.searchsorted(events_t, task.times[-1], side="right")) + 1
    clock = clocks.Recorded(events_t[:passed], gaps[:passed])
    r = minimize(task.problem, task.x0, clock=clock, record="path", **common)
    last = r.trace.t[-1]
    for j, s in enumerate(task.times.tolist()):
        if s <= last:
            fun[j] = task.problem.fun(r.at(s)[0])
