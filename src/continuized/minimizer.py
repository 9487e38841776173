"""The front door: `minimize`."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized import adaptive, checkpoints, driver, identity, marked, seeds
from continuized import clock as clocks
from continuized.choice import adaptive_setting, check_metric_and_prox, chosen_for, is_adaptive
from continuized.marked import Marked
from continuized.methods import (
    METHODS,
    GradientDescent,
    Method,
    as_float,
    check_constants,
)
from continuized.noise import Noise, checked_noise
from continuized.problems.base import Array, Problem, checked_start
from continuized.progress import bar
from continuized.result import Result
from continuized.stopping import Callback, Limits
from continuized.words import brief, is_real

DEFAULT_TOL = 1e-6
DEFAULT_MAXITER = 100_000
DEFAULT_PASSES = 1_000  # of a marked method, over its coordinates or rows


def minimize(
    fun: Problem | Callable[[Array], Any],
    x0: ArrayLike,
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
        Where to start (x_0 = z_0).  Not modified.  float32 stays float32.
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
    problem = _as_problem(fun, jac)
    start = checked_start(x0, problem)
    why = ""
    if isinstance(method, str) and method == "auto":
        given = any(option is not None for option in (L, mu, prox, noise))
        method, metric, why = chosen_for(problem, metric, given or record == "path")
    is_marked = hasattr(method, "prepare") and not isinstance(method, type)
    with_marks: Any = method if is_marked else None
    check_metric_and_prox(method, metric, prox, noise)
    adaptive_run = is_adaptive(method, problem, L, metric, prox, noise)
    chosen = None if is_marked or adaptive_run else _as_method(method, problem, L, mu)
    limits = _limits(tol, maxiter, clock)
    if not (isinstance(record, bool | np.bool_) or (isinstance(record, str) and record == "path")):
        raise ValueError(f'record must be True, False or "path", got {brief(record)}')
    checked_noise(noise)
    if clock is not None and (isinstance(clock, type) or not hasattr(clock, "stream")):
        raise TypeError(f"clock must be a clock such as cz.clock.Poisson(seed), got {brief(clock)}")
    path = checkpoints.checked_path(checkpoint, every, resume)
    root = seeds.seed_sequence(seed)
    called = None if callback is None else _as_callback(callback)

    def keeper(constants: Any = None) -> checkpoints.AnyKeeper:
        if path is None:
            return checkpoints.nowhere
        its_seed = None if seed is None else root
        rest = (noise, clock, its_seed, record, limits.tol)
        parts = identity.of_run(problem, start, chosen or method, constants, *rest)
        return checkpoints.Keeper(path, float(every), bool(resume), parts)

    if adaptive_run:
        setting = adaptive_setting(problem, L, mu, metric, prox, limits, record, root, start.shape)
        stream = (clocks.Poisson(root) if clock is None else clock).stream()
        with bar("continuized", limits.maxiter, progress) as show:
            kept = keeper(setting.identity(identity.probe(start)))
            r = adaptive.Run(problem, start, stream, setting, called, show, kept).go()
        return _with_reason(r, why)
    if chosen is None:
        _check_marked(with_marks, L, mu, noise, record)
        engine = with_marks.prepare(problem, start)
        limits = _limits(tol, maxiter, clock, engine.law.threshold.size)
        stream = marked.clock_with_marks(clock, engine.law, root).stream()
        with bar(engine.name, limits.maxiter, progress) as show:
            rest = (bool(record), called, show, keeper(engine.constants))
            r = marked.Run(engine, start, stream, limits, *rest).go()
        return _with_reason(r, why)
    with bar(chosen.name, limits.maxiter, progress) as show:
        r = driver.Run(
            chosen,
            problem,
            start,
            (chosen.clock(root) if clock is None else clock).stream(),
            limits,
            noise=noise,
            rng=None if noise is None else seeds.generator(root, seeds.MARKS),
            record=record if isinstance(record, str) else bool(record),
            callback=called,
            bar=show,
            keeper=keeper(),
        ).go()
    return _with_reason(r, why)


def _with_reason(r: Result, why: str) -> Result:
    if why:
        r.message = f"{r.message} {why}"
    return r


def _as_problem(fun: Any, jac: Any) -> Problem:
    if isinstance(fun, Problem):
        if jac is not None:
            raise ValueError("jac is given, but the problem has a gradient of its own; drop jac=")
        return fun
    if not callable(fun):
        raise TypeError(f"fun must be a Problem or a function of x, got {brief(fun)}")
    if jac is True:
        return Problem(fun, value_and_grad=True)
    if jac is None or jac is False:
        raise ValueError(
            "the gradient is missing: give jac=, a function of x, or jac=True if fun returns "
            "(value, gradient)"
        )
    if not callable(jac):
        raise TypeError(f"jac must be a function of x or True, got {brief(jac)}")
    return Problem(fun, jac)


def _as_method(method: Any, problem: Problem, L: Any, mu: Any) -> Method:
    if isinstance(method, Method):
        if L is not None or mu is not None:
            raise ValueError("L and mu belong to the method object that is given; drop L= and mu=")
        return method
    if not isinstance(method, str):
        raise TypeError(f"method must be a name or a method object, got {brief(method)}")
    if method not in METHODS:
        names = ("auto", *METHODS)
        near = difflib.get_close_matches(method.lower(), names, n=1, cutoff=0.3)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise ValueError(f"no method is called {brief(method)}, only {', '.join(names)}{hint}")
    L = problem.L if L is None else L
    if L is None:
        raise ValueError("the smoothness constant is not known: give L=, or a Problem with L")
    if mu is not None:
        check_constants(L, mu)  # also where the method has no use for mu
    kind = METHODS[method]
    if kind is GradientDescent:
        return GradientDescent(L)
    mu = problem.mu if mu is None else mu
    return kind(L, 0.0 if mu is None else mu)  # type: ignore[call-arg]


def _check_marked(method: Any, L: Any, mu: Any, noise: Any, record: Any) -> None:
    if L is not None or mu is not None:
        raise ValueError(f"{method.name} finds its own constants; drop L= and mu=")
    if noise is not None:
        raise ValueError(f"{method.name} draws its own gradients; drop noise=")
    if record == "path":
        raise ValueError(f"{method.name} records one row a pass, no path; use record=True")


def _limits(tol: Any, maxiter: Any, clock: Any, events_of_a_pass: int | None = None) -> Limits:
    if tol is not None:
        if not is_real(tol):
            raise TypeError(f"tol must be a number >= 0 or None, got {brief(tol)}")
        if not as_float(tol) >= 0.0:
            raise ValueError(f"tol must be a number >= 0 or None, got {brief(tol)}")
        tol = as_float(tol)
    if maxiter is not None:
        if isinstance(maxiter, bool) or not isinstance(maxiter, int | np.integer):
            raise TypeError(f"maxiter must be an integer, got {brief(maxiter)}")
        if maxiter < 0:
            raise ValueError(f"maxiter must be >= 0, got {maxiter}")
        return Limits(tol, int(maxiter))
    if isinstance(clock, clocks.Recorded):
        # With tol, one more than it has: if the run gets to the end, it is the clock that ended.
        return Limits(tol, len(clock) + (tol is not None))
    default = DEFAULT_MAXITER
    if events_of_a_pass is not None:
        default = max(default, DEFAULT_PASSES * events_of_a_pass)
    return Limits(DEFAULT_TOL if tol is None else tol, default)


def _as_callback(callback: Any) -> Callback:
    if not callable(callback):
        raise TypeError(f"callback must be callable, got {brief(callback)}")
    try:
        parameters = list(inspect.signature(callback).parameters)
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    if parameters == ["intermediate_result"]:
        return lambda result: callback(intermediate_result=result)
    return lambda result: callback(result.x)
