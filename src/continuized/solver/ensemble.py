"""Many independent runs of one method: `ensemble`, and honest statistics of what it gives.

Run i has a random stream of its own, `e.seed(i)`, so that the result depends neither on the
number of threads nor on how the runs are cut into chunks, and
`minimize(p, x0, method=method, rng=e.seed(i))` repeats run i: every run draws from its own streams
just what `minimize` would draw, in blocks whose size bounds the memory and changes nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import (
    Array,
    Compiled,
    Problem,
    check_problem,
    check_second_start,
    check_start,
)
from continuized.process.clock import Poisson
from continuized.process.composite import Composite
from continuized.process.methods import Method, check_method
from continuized.process.mirror import make_composite
from continuized.process.noise import Noise, Oracle, check_noise, draw_noise
from continuized.process.random_streams import (
    MARKS,
    TIMES,
    Root,
    Seed,
    child,
    generators,
    seed_sequence,
    seed_words,
)
from continuized.support import validation as check
from continuized.support.alignment import LINE, aligned_zeros
from continuized.support.display import show_html, show_line
from continuized.support.files import check_memory
from continuized.support.progress import bar
from continuized.support.statistics import SampleMoments, normal_quantile
from continuized.support.threads import count as count_threads

MOST = 2**63 - 1  # what a count in compiled code holds
MOST_HOURS = 12.0  # of an ensemble, by a rough estimate
CHUNK = 128  # runs at once on a thread: a chunk takes 0.2 ms, whatever its runs
CHUNK_NUMBERS = 2**23  # but no more numbers at once than this (64 MB)
BLOCK_SECONDS = 0.1  # a block takes about as long at most: then a run that is over may be left


@dataclass(frozen=True)
class Ensemble:
    """The outcome of many runs.

    t, fun: arrays with a row for each run, T_k and f(x_k) for k = 0, ..., steps; or, at
    fixed times, t is the vector of times and fun[i, j] = f(x_t) of run i at t = times[j].
    With keep="mean" both are None, and quantiles cannot be asked for.  runs: how many there were.
    root: the seed of them all.  method, x0, times: what was asked for (times: None, with steps).
    given: z0, the noise, the prox and the mirror, where there were any.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> method = cz.Continuized(p.L, p.mu)
    >>> e = cz.ensemble(p, method, [0, 0, 0], runs=200, times=[10.0], rng=0)
    >>> low, high = e.interval(alpha=0.001)
    >>> exact = cz.theory.moments(p, method, [0, 0, 0], [10.0]).fun
    >>> bool(low[0] < exact[0] < high[0])
    True
    """

    runs: int
    t: Array | None
    fun: Array | None
    root: Root
    _moments: SampleMoments | None = None
    method: Method | None = None
    x0: Array | None = None
    times: Array | None = None
    given: dict[str, Any] = field(default_factory=dict)

    def _facts(self) -> dict[str, Any]:
        """Tell what is shown of it: at the end, without a pass over the rest."""
        last = self.moments if self.fun is None else SampleMoments.empty(1)
        if self.fun is not None:
            last = last.with_rows(self.fun[:, -1:])
        columns = last.mean.size if self.fun is None else self.fun.shape[1]
        facts = {"runs": self.runs, "values": columns}
        if columns == 0:
            return facts
        end = {"mean_at_the_end": last.mean[-1], "standard_error": last.standard_error()[-1]}
        return facts | end

    __repr__ = show_line
    _repr_html_ = show_html

    @cached_property
    def moments(self) -> SampleMoments:
        """The number of runs, the mean of f, and its central sums."""
        if self.fun is None:
            assert self._moments is not None
            return self._moments
        moments = SampleMoments.empty(self.fun.shape[1])
        for first in range(0, self.runs, CHUNK):  # added up as keep="mean" does
            moments = moments.with_rows(self.fun[first : first + CHUNK])
        return moments

    def seed(self, i: int) -> np.random.SeedSequence:
        """The seed of run i, for `minimize`.  Raises ValueError unless 0 <= i < runs."""
        i = check.whole(i, "i", minimum=0, maximum=self.runs - 1)
        return child(self.root, i)

    def mean(self) -> Array:
        """The mean of f over the runs, at each event or time."""
        return self.moments.mean

    def standard_error(self) -> Array:
        """The standard error of the mean."""
        return self.moments.standard_error()

    def interval(self, alpha: float = 0.05) -> tuple[Array, Array]:
        """A confidence interval for E f of level 1 - alpha, at each event or time apart.

        By the central limit theorem: it needs many runs, and more of them the more skewed f
        is.  At large t the mean is carried by rare runs and no sample shows it; look at
        `skewness()` before you trust it.  Returns its two ends.
        """
        alpha = check.real(alpha, "alpha", above=0.0, below=1.0)
        half = normal_quantile(1.0 - alpha / 2.0) * self.standard_error()
        return self.mean() - half, self.mean() + half

    def skewness(self) -> Array:
        """The sample skewness of f; the normal interval wants |skewness| << sqrt(runs)."""
        return self.moments.skewness()

    def quantile(self, q: float | Sequence[float]) -> Array:
        """The q-quantile of f over the runs, at each event or time; a row to each of several q.

        Raises ValueError with keep="mean".
        """
        if self.fun is None:
            raise ValueError('quantiles need every run; call ensemble with keep="all"')
        return np.asarray(np.quantile(self.fun, q, axis=0))


class Task(NamedTuple):
    """What every run of an ensemble shares."""

    problem: Problem
    method: Method
    x0: Array
    z0: Array
    steps: int  # events of each run; 0 where `times` are given
    times: Array
    noise: Noise | None
    root: Root
    compiled: Compiled | None  # the problem
    composite: Composite | None  # psi, where there is one

    @property
    def psi(self) -> Array | None:
        """The constants of psi for compiled loops, where it is a sum over entries."""
        return None if self.composite is None else self.composite.entry_constants(self.x0)

    @property
    def is_compiled(self) -> bool:
        """Whether compiled loops can take its events."""
        from continuized.process.compiled import runs_compiled

        has_both = self.compiled is not None and self.compiled.compile_fun is not None
        knows_psi = self.composite is None or self.psi is not None
        in_python = isinstance(self.noise, Oracle)  # asked at each event, where it is
        return has_both and knows_psi and not in_python and runs_compiled(self.method)

    @property
    def columns(self) -> int:
        """How many values of f a run gives."""
        return int(self.times.size) or self.steps + 1

    @property
    def seconds(self) -> float:
        """About how long an event of a run takes, if its gradient is compiled and reads all data.

        Users' own gradients may take longer, those in Python about 5 microseconds at least.
        """
        if self.compiled is None or not self.is_compiled:
            return 5e-6
        return 5e-8 + 5e-10 * (self.x0.size + sum(part.size for part in self.compiled.data))

    @property
    def numbers(self) -> int:
        """How many numbers an event of a run takes: its time, gap and mark."""
        return 2 + (self.x0.size if self.noise is not None else 0)


class Chunk(NamedTuple):
    """Where the outcome of consecutive runs goes; t has no columns where times are fixed."""

    first: int
    t: Array
    fun: Array


def ensemble(
    problem: Problem,
    method: Method,
    x0: ArrayLike,
    *,
    z0: ArrayLike | None = None,
    runs: int,
    steps: int | None = None,
    times: ArrayLike | None = None,
    rng: Seed = None,
    noise: Noise | None = None,
    prox: Any = None,
    mirror: Any = None,
    keep: str = "all",
    threads: int | None = None,
    progress: bool = False,
) -> Ensemble:
    """Many independent runs from x0, `steps` events each, or up to the last of `times`.

    Compiled and parallel where the problem has a compiled gradient and value, and prox, if any, is
    a `cz.prox.Separable`; otherwise the runs are made one by one in Python.

    Parameters
    ----------
    problem : Problem
    method : Method
        Such as `cz.Continuized(L, mu)`.
    x0 : array of real numbers
        Where every run starts.  Not modified.
    z0 : array like x0
        Where z starts, by default x0; as for `minimize`.
    runs : int
        How many.
    steps, times
        Exactly one of them: the events of a run, or times >= 0 in increasing order.
    rng : int, SeedSequence or Generator
        Of all runs: run i has a stream of its own, whatever the threads; see `Ensemble.seed`.
    noise : noise model, such as `cz.noise.Gaussian(1e-4)`, or a `cz.noise.Oracle`
    prox : an object such as `cz.prox.L1(0.1)`
        Minimise problem + psi, as `minimize` does with known constants; `fun` is then its value.
    mirror : an object such as `cz.mirror.Entropy()`
        The geometry, as for `minimize`.  These runs are in Python.
    keep : "all" or "mean"
        "mean" keeps only the moments of f over the runs, in memory that does not grow with them.
    threads : int
        By default as many as there are cores.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Ensemble

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense, before the first run.
    MemoryError
        Where what is to be kept does not fit.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> e = cz.ensemble(p, cz.Continuized(p.L, p.mu), [0, 0, 0], runs=100, steps=50, rng=0)
    >>> e.fun.shape, bool(e.mean()[50] < e.mean()[0] / 100)
    ((100, 51), True)
    """
    runs = check.whole(runs, "runs", minimum=1, maximum=MOST)
    start = check_start(x0, check_problem(problem))
    composite = None
    if prox is not None or mirror is not None:
        composite = make_composite(prox, mirror, start.shape, noise)
        method = composite.begin(method, start)
    second = start
    if z0 is not None:
        from continuized.solver.dispatch import check_second_start_fits

        check_second_start_fits(method, composite, adapts=False)
        second = check_second_start(z0, start)
    task = _make_task(problem, method, (start, second), steps, times, rng, noise, composite)
    check.one_of(keep, "keep", ("all", "mean"))
    check.flag(progress, "progress")
    workers = count_threads()
    if threads is not None:
        workers = check.whole(threads, "threads", minimum=1, maximum=MOST)
    _check_memory(task, runs, keep, workers)
    _check_hours(task, runs, workers)
    t, fun = _storage(task, runs if keep == "all" else 0)
    moments = SampleMoments.empty(task.columns)
    with bar("runs", runs, progress, unit="run") as show:
        for rows in run_chunks(task, _rows(task, runs, t, fun), workers):
            if keep == "mean":
                moments = moments.with_rows(rows.fun)
            show(rows.first + len(rows.fun))
    options = {"noise": noise, "prox": prox, "mirror": mirror}
    options["z0"] = None if z0 is None else second
    asked: dict[str, Any] = {
        "method": task.method,
        "x0": task.x0,
        "times": None if task.steps else task.times,
        "given": {name: value for name, value in options.items() if value is not None},
    }
    if keep == "mean":
        return Ensemble(runs, None, None, task.root, moments, **asked)
    return Ensemble(runs, t if task.steps else task.times, fun, task.root, **asked)


def _storage(task: Task, runs: int) -> tuple[Array, Array]:
    return np.empty((runs, task.columns if task.steps else 0)), np.empty((runs, task.columns))


def _rows(task: Task, runs: int, t: Array, fun: Array) -> Iterator[Chunk]:
    """The rows of t and fun, a chunk at a time; fresh ones where nothing is kept."""
    for first in range(0, runs, CHUNK):
        if len(fun):
            yield Chunk(first, t[first : first + CHUNK], fun[first : first + CHUNK])
        else:
            yield Chunk(first, *_storage(task, min(CHUNK, runs - first)))


def _make_task(
    problem: Problem, method: Any, starts: tuple[Array, Array], steps: Any, times: Any, rng: Any,
    noise: Any, composite: Composite | None,
) -> Task:  # fmt: skip
    check_method(method)
    check_noise(noise)
    if isinstance(noise, Oracle) and noise.check:
        noise.test(problem, starts[0])
        noise = noise.without_check()
    if steps is not None:
        check.whole(steps, "steps", minimum=1, maximum=MOST)
    if (steps is None) == (times is None):
        raise ValueError("give either steps= (events of each run) or times= (fixed times)")
    root = seed_sequence(rng)
    asked = np.zeros(0) if times is None else np.atleast_1d(check.times(times, ordered=True))
    if times is not None and not asked.size:
        raise ValueError("times must be one or more, got none")
    compiled = problem.compile(starts[0].dtype)
    steps = int(steps or 0)
    return Task(problem, method, *starts, steps, asked, noise, root, compiled, composite)


def _check_hours(task: Task, runs: int, workers: int) -> None:
    """Refuse what would not end."""
    events = float(runs) * (task.steps or float(task.times[-1]))
    hours = events * task.seconds / min(workers, -(-runs // CHUNK)) / 3600.0
    if hours > MOST_HOURS:
        each = f"steps = {task.steps}" if task.steps else f"t = {task.times[-1]:.6g}"
        raise ValueError(
            f"{runs} runs up to {each} are about {events:.2g} events, which take {hours:.2g} hours "
            f"or more; ask for fewer runs, or for a part that takes {MOST_HOURS:.0f} hours at most"
        )


def _check_memory(task: Task, runs: int, keep: str, workers: int) -> None:
    instead = "fewer steps" if task.steps else "fewer times"
    if keep == "mean":  # what is under way, or waits for its turn, and a few sums
        runs = min(runs, CHUNK * (2 * workers + 2))
    else:
        instead = f'keep="mean", fewer runs or {instead}'
    columns = task.columns * (2 if task.steps else 1)
    check_memory(8 * runs * columns, f"{runs} runs of {task.columns} values", instead)


# The runs: in chunks of compiled code on several threads, or one by one.


def run_chunks(task: Task, rows: Iterator[Chunk], threads: int) -> Iterator[Chunk]:
    """Fill the rows, and give them back in their order."""
    loop = _compile_loop(task)
    if loop is None:
        for part in rows:
            for j in range(len(part.fun)):
                _python_run(task, part.first + j, part.t[j], part.fun[j])
                yield Chunk(part.first + j, part.t[j : j + 1], part.fun[j : j + 1])
        return
    waiting: list[Future[Chunk]] = []
    over: list[bool] = []  # not empty when the runs under way are to be left
    with ThreadPoolExecutor(threads) as pool:
        try:
            for part in rows:
                waiting.append(pool.submit(_run_compiled, task, loop, part, over))
                if len(waiting) > 2 * threads:  # bounds the memory of what waits for its turn
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            over.append(True)
            pool.shutdown(cancel_futures=True)


def _compile_loop(task: Task) -> Any:
    """Compile the loop over a block of events; None where a part of it is only Python.

    All is compiled here, before the threads start: there it would be once for each of them.
    """
    from continuized.problems.kernels import find_addresses
    from continuized.process.compiled import compile_fill
    from continuized.process.exponential import compile_draw_times
    from continuized.solver.kernels.ensemble import compile_flow, compile_steps, compile_times

    if task.compiled is None or not task.is_compiled:
        return None
    compile_draw_times()
    compile_fill(task.method.rule)
    find_addresses(task.compiled, value=True)
    extras = task.noise is not None, task.composite is not None
    kind = task.x0.dtype, task.compiled.kind, *extras
    if task.steps:
        _ = task.compiled.fun  # for f at the start
        return compile_steps(*kind)
    compile_flow(task.method.flow_rule)
    return compile_times(*kind)


def _run_compiled(task: Task, loop: Any, rows: Chunk, over: list[bool]) -> Chunk:
    """Take the runs of a chunk, block by block, until they are done or `over` is not empty."""
    from continuized.problems.kernels import find_addresses
    from continuized.process.compiled import make_blocks
    from continuized.solver.kernels.ensemble import Asked, compile_flow
    from continuized.support.jit import find_address

    runs, dim, dtype = len(rows.fun), task.x0.size, task.x0.dtype
    per_line = LINE // dtype.itemsize
    width = -(-dim // per_line) * per_line  # so that every vector begins at a cache line
    states = aligned_zeros((runs, 2, width), dtype)
    states[:, 0, :dim], states[:, 1, :dim] = task.x0.ravel(), task.z0.ravel()
    g = aligned_zeros((dim,), dtype)
    assert task.compiled is not None
    functions = find_addresses(task.compiled, value=True)
    t0, carry, passed = np.zeros(runs), np.zeros(runs), np.zeros(runs, np.int64)
    asked: tuple[Asked, ...] = ()
    if not task.steps:
        asked = (Asked(find_address(compile_flow(task.method.flow_rule)), task.times, passed),)
    numbers = range(rows.first, rows.first + runs)
    draw, psi = _make_draw(task, numbers), task.psi
    rngs = [] if task.noise is None else generators(task.root, numbers, MARKS)
    if task.steps:
        rows.t[:, 0], rows.fun[:, 0] = 0.0, task.compiled.value(states[0, 0, :dim])
        if task.composite is not None:
            rows.fun[:, 0] += task.composite.value(task.x0)
    k, most = 0, max(1, int(BLOCK_SECONDS / (runs * task.seconds)))
    while not over and (k < task.steps or np.any(passed < task.times.size)):
        n, started = min(most, _block(task, k, runs)), time.perf_counter()
        dt, t = draw(t0, n)
        noise = None
        if task.noise is not None:
            noise = np.stack([draw_noise(task.noise, rng, n, dim, dtype) for rng in rngs])
        if task.steps:
            rows.t[:, k + 1 : k + 1 + n] = t
        # The loop leaves in `carry` what the next block begins with.
        block = make_blocks(task.method, k, t0, carry, t, dt)
        loop(*functions, psi, states, g, block, noise, *asked, rows.fun)
        k, t0 = k + n, t[:, -1].copy()
        if time.perf_counter() - started > BLOCK_SECONDS:
            most = max(1, n // 2)
    return rows


def _make_draw(task: Task, numbers: range) -> Callable[[Array, int], tuple[Array, Array]]:
    """Make what draws the next n gaps of these runs, and the times of their events after t0."""
    clock = task.method.clock(task.root)
    # Its times come from the given root alone: the streams of all runs are drawn at once.
    if type(clock) is Poisson and clock.root is task.root:
        from continuized.process.exponential import draw_rows, seed_states

        states = seed_states(seed_words(task.root, numbers, TIMES))
        return partial(draw_rows, states, clock.rate)
    streams = [task.method.clock(child(task.root, i)).stream() for i in numbers]

    def draw(_: Array, n: int) -> tuple[Array, Array]:
        events = [stream.draw(n) for stream in streams]
        for number, some in zip(numbers, events, strict=True):
            if some.size < n:
                raise ValueError(
                    f"the clock of run {number} has {some.k0 + some.size} events, but a compiled "
                    f"ensemble draws {n} at once; give the method a clock that does not end"
                )
        return (
            np.stack([some.dt for some in events], dtype=np.float64),
            np.stack([some.t for some in events], dtype=np.float64),
        )

    return draw


def _block(task: Task, k: int, runs: int) -> int:
    """How many events to draw at once for each of so many runs."""
    most = max(1, CHUNK_NUMBERS // (runs * task.numbers))
    if task.steps:
        return min(most, task.steps - k)
    # About as many as happen before the last time, and some more.
    horizon = float(task.times[-1]) if k == 0 else 0.0
    return min(most, int(horizon + 4.0 * math.sqrt(horizon)) + 16)


def _python_run(task: Task, i: int, t: Array, fun: Array) -> None:
    """Run i by `minimize`.  A run that fails has no values (NaN) after its end."""
    from continuized.solver.minimize import minimize

    root, steps = child(task.root, i), task.steps
    if not steps:  # up to the first event after the last of the times
        stream = task.method.clock(root).stream()
        while stream.t <= task.times[-1]:
            events = stream.draw(_block(task, stream.k, 1))
            steps += int(np.searchsorted(events.t, task.times[-1], side="right"))
        steps += 1
    how: dict[str, Any] = {"maxiter": steps, "record": True if task.steps else "path"}
    if task.composite is not None:
        how.update(task.composite.given)
    if task.z0 is not task.x0:
        how["z0"] = task.z0
    r = minimize(task.problem, task.x0, method=task.method, noise=task.noise, rng=root, **how)
    t[:], fun[:] = np.nan, np.nan
    if task.steps:
        t[: len(r.trace)], fun[: len(r.trace)] = r.trace.t, r.trace.fun
    last = r.trace.t[-1]
    for j, s in enumerate(task.times.tolist()):
        if s <= last:
            x = r.at(s)[0]
            fun[j] = task.problem.fun(x)
            if task.composite is not None:
                fun[j] += task.composite.value(task.composite.bring_back(x))
