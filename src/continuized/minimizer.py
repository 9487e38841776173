"""The front door: `minimize`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from continuized import adaptive, arrays, checkpoints, driver, foreign, identity, marked, seeds
from continuized import clock as clocks
from continuized.arguments import (
    as_callback,
    as_method,
    as_problem,
    check_foreign,
    check_marked,
    check_nonfinite,
    checked_record,
    limits_of,
)
from continuized.choice import adaptive_setting, check_metric_and_prox, chosen_for, is_adaptive
from continuized.marked import Marked
from continuized.marked_clock import clock_with_marks
from continuized.marks import events_of
from continuized.methods import Method
from continuized.noise import Noise, checked_noise
from continuized.problems.base import Array, Problem, checked_start
from continuized.progress import bar
from continuized.result import Result, Status, reported_gap
from continuized.words import brief


def minimize(
    fun: Problem | Callable[[Array], Any],
    x0: Any,
    jac: Callable[[Array], Any] | bool | None = None,
    *,
    L: float | None = None,
    mu: float | None = None,
    method: str | Method | Marked = "continuized",
    metric: Any = None,
    prox: Any = None,
    noise: Noise | None = None,
    clock: clocks.Clock | None = None,
    seed: seeds.Seed = None,
    tol: float | None = None,
    maxiter: int | None = None,
    callback: Callable[..., Any] | None = None,
    record: bool | str = True,
    progress: bool = False,
    nonfinite: str = "stop",
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = checkpoints.EVERY,
    resume: bool = False,
) -> Result:
    """Minimise a smooth convex function.

    Parameters
    ----------
    fun : Problem or callable
        The function; a callable comes with `jac`.
    x0 : array of real numbers, any shape
        Where to start (x_0 = z_0).  Not modified.  float32 stays float32.  An array of another
        library that follows the Python array API standard (PyTorch, JAX, CuPy) stays one, on its
        device: fun and jac are given such arrays, jac returns them, and r.x and r.jac are.
    jac : callable or True
        The gradient, or True when fun returns (value, gradient), as in SciPy.
    L, mu : float
        Smoothness and strong convexity; by default the problem's own (mu: 0 if it has none).
        Where L is not known, or not given beside `metric` or `prox`, "continuized" finds it on
        the way, and restarts in place of mu; what it found is in `r.constants`.
    method : "auto", "continuized", "nesterov", "gradient-descent", or a method object
        Marked methods (CoordinateDescent, DualCoordinate, StochasticLeastSquares, Kaczmarz)
        find their own constants, and say them in `r.constants`.  "auto" chooses by shape,
        sparsity and conditioning, and says why in `r.message`.
    metric : None, "auto", "gram", "nystrom", "diag", an array, or an object
        Take the whole process in the norm of a positive definite P: for a regression, made
        from its curvature (the Hessian, a sample of its rows, a sketch of low rank, its
        diagonal); an array P (a vector is a diagonal); or an object with solve(g) = P^-1 g.
        L and mu, if given, are those in the norm of P.
    prox : None, such as `cz.prox.L1(0.1)`, or a function prox(v, step)
        Minimise fun + h by proximal steps.  The paper's theorems do not cover this.
    noise : noise model, such as `cz.noise.Gaussian(1e-4)`
    clock : clock, such as `cz.clock.Recorded(times)`; by default the method's own
    seed : int, SeedSequence or Generator
        Of the event times and of the noise.  The same seed gives the same run, bit by bit.
    tol : float
        Stop when the gradient norm (in a metric: its dual norm) is at most tol; with prox, the
        norm of the gradient mapping; for DualCoordinate, and for a regression with l2 > 0 and a
        metric, the duality gap, a bound on f - f*.
        Without tol and maxiter, 1e-6; with maxiter alone, all maxiter steps are taken.
    maxiter : int
        The largest number of events (gradient steps); 100,000 by default, and for a marked
        method a thousand times its coordinates or rows, if that is more.
    callback : callable
        Called after every event (marked methods: every pass), in SciPy's convention: with
        `intermediate_result=` (x, fun, nit, t) if that is its parameter's name, otherwise
        with x.  StopIteration stops.
    record : True, False or "path"
        Keep f(x_k) at every event; nothing but start and end; or the whole path, for `r.at`.
    progress : bool
        Show a progress bar on standard error.
    nonfinite : "stop", "raise" or "skip"
        Where f or a gradient is not finite: end with Status.NOT_FINITE and the last good x; raise
        FloatingPointError; or, of gradients only, take the event without its jump, as if the
        gradient were zero (`r.skipped` counts them).  While L is unknown, it grows instead, and
        the run goes back to the best point.
    checkpoint : path
        A file to keep the state in, trace included, at the start, every so many seconds, at the
        end, and on Ctrl-C or an error; the one before it is kept too, as PATH.previous.  To tell
        one problem from another, f and its gradient are asked for once more, at x0.
    every : float
        Seconds between checkpoints.  0: as often as the state can be kept, which is after every
        block of events (0.1 s of work or so); where L is found on the way, or with `metric` or
        `prox`, after every event; for a marked method after every pass (without record, after
        4,096 events, if that is more).
    resume : bool
        Go on from the checkpoint, if there is one: the same run, bit by bit, as one that was
        never interrupted.  All but tol, maxiter and callback must be as they were; with a larger
        maxiter or a smaller tol, a run that had ended goes on.

    Returns
    -------
    Result
        A SciPy OptimizeResult with `trace` and, for record="path", `at(t)`.

    Raises
    ------
    TypeError, ValueError
        For arguments that make no sense, before the first step.
    FloatingPointError
        Where f or a gradient is not finite, with nonfinite="raise".
    CheckpointError
        A ValueError: for a checkpoint that is damaged, or is of another run.
    OSError
        If the first checkpoint cannot be written; later, there is a CheckpointWarning instead.

    Examples
    --------
    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> r = cz.minimize(p, [0.0, 0.0, 0.0], tol=1e-9, seed=0)
    >>> r.success, r.x.round(6).tolist()
    (True, [1.0, 1.0, 1.0])
    """
    problem = as_problem(fun, jac)
    if arrays.namespace(x0) is None:
        start = checked_start(x0, problem)
    else:
        check_foreign(method, metric, prox, noise, checkpoint)
        problem = arrays.ForeignProblem(problem, x0)
        start = problem.start
    why = ""
    if isinstance(method, str) and method == "auto":
        given = any(option is not None for option in (L, mu, prox, noise))
        method, metric, why = chosen_for(problem, metric, given or record == "path")
    is_marked = hasattr(method, "prepare") and not isinstance(method, type)
    with_marks: Any = method if is_marked else None
    check_metric_and_prox(method, metric, prox, noise)
    adaptive_run = is_adaptive(method, problem, L, metric, prox, noise)
    chosen = None if is_marked or adaptive_run else as_method(method, problem, L, mu)
    limits = limits_of(tol, maxiter, clock)
    record = checked_record(record)
    check_nonfinite(nonfinite, checkpoint)
    skipping = nonfinite == "skip"
    checked_noise(noise)
    if clock is not None and (isinstance(clock, type) or not hasattr(clock, "stream")):
        raise TypeError(f"clock must be a clock such as cz.clock.Poisson(seed), got {brief(clock)}")
    path = checkpoints.checked_path(checkpoint, every, resume)
    root = seeds.seed_sequence(seed)
    called = None if callback is None else as_callback(callback)

    def keeper(constants: Any = None) -> checkpoints.AnyKeeper:
        if path is None:
            return checkpoints.nowhere
        its_seed = None if seed is None else root
        rest = (noise, clock, its_seed, record, limits.tol)
        parts = identity.of_run(problem, start, chosen or method, constants, *rest)
        return checkpoints.Keeper(path, float(every), bool(resume), parts)

    if adaptive_run:
        rest = (limits, record, root, start.shape, skipping)
        setting = adaptive_setting(problem, L, mu, metric, prox, *rest)
        stream = (clocks.Poisson(root) if clock is None else clock).stream()
        with bar("continuized", limits.maxiter, progress) as show:
            kept = keeper() if path is None else keeper(setting.identity(identity.probe(start)))
            r = adaptive.Run(problem, start, stream, setting, called, show, kept).go()
        return _finished(r, why, nonfinite)
    if chosen is None:
        check_marked(with_marks, L, mu, noise, record, nonfinite)
        engine = with_marks.prepare(problem, start)
        limits = limits_of(tol, maxiter, clock, events_of(engine.law, engine.law.size))
        stream = clock_with_marks(clock, engine, root).stream()
        with bar(engine.name, limits.maxiter, progress) as show:
            kept = keeper(engine.constants)
            r = marked.Run(engine, start, stream, limits, bool(record), called, show, kept).go()
        r.gap = reported_gap(r.gap, r.fun, problem)
        return _finished(r, why, nonfinite)
    stream = (chosen.clock(root) if clock is None else clock).stream()
    with bar(chosen.name, limits.maxiter, progress) as show:
        options: Any = {"record": record, "callback": called, "bar": show, "skipping": skipping}
        if isinstance(problem, arrays.ForeignProblem):
            r = foreign.Run(chosen, problem, stream, limits, **options).go()
        else:
            rng = None if noise is None else seeds.generator(root, seeds.MARKS)
            options |= {"noise": noise, "rng": rng, "keeper": keeper()}
            r = driver.Run(chosen, problem, start, stream, limits, **options).go()
    return _finished(r, why, nonfinite)


def _finished(r: Result, why: str, nonfinite: str) -> Result:
    if nonfinite == "raise" and r.status is Status.NOT_FINITE:
        raise FloatingPointError(
            f"after {r.nit} events a value of f, a gradient or an iterate was not finite; a larger "
            "L, or a fun and jac without overflow, may help"
        )
    if why:
        r.message = f"{r.message} {why}"
    return r
