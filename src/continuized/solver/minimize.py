"""The front door: `minimize`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem, check_second_start, check_start
from continuized.process import clock as clocks
from continuized.process.marks import events_of
from continuized.process.methods import Method, is_marked
from continuized.process.noise import Noise, Oracle, check_noise, fingerprint_noise
from continuized.process.random_streams import MARKS, Seed, generator, seed_sequence
from continuized.process.stepper import Status, Stepper
from continuized.solver import array_api as arrays
from continuized.solver import dispatch
from continuized.solver.loop import Loop
from continuized.solver.result import Result
from continuized.solver.steppers.adaptive import AdaptiveStepper
from continuized.support import validation as check
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.state import fingerprint_parts
from continuized.support.progress import announce_compilation, bar

if TYPE_CHECKING:
    from continuized.marked.stepper import Marked, MarkedStepper


def minimize(
    fun: Problem | Callable[[Array], Any],
    x0: Any,
    jac: Callable[[Array], Any] | bool | None = None,
    *,
    z0: ArrayLike | None = None,
    L: float | None = None,
    mu: float | None = None,
    method: str | Method | Marked = "continuized",
    metric: Any = None,
    prox: Any = None,
    mirror: Any = None,
    noise: Noise | None = None,
    clock: clocks.Clock | None = None,
    rng: Seed = None,
    tol: float | None = None,
    maxiter: int | None = None,
    callback: Callable[..., Any] | None = None,
    record: bool | str = True,
    progress: bool = False,
    nonfinite: str = "stop",
    checkpoint: str | os.PathLike[str] | None = None,
    every: float = checkpoints.EVERY,
    resume: bool = False,
    **unknown: Any,
) -> Result:
    """Minimise a smooth convex function.

    Parameters
    ----------
    fun : Problem or callable
        The function; a callable comes with `jac`.
    x0 : array of real numbers, any shape
        Where to start.  Not modified.  float32 stays float32.  An array of another
        library that follows the Python array API standard (PyTorch, JAX, CuPy) stays one, on its
        device: fun and jac are given such arrays, jac returns them, and r.x and r.jac are.
    jac : callable or True
        The gradient, or True when fun returns (value, gradient), as in SciPy.
    z0 : array like x0
        Where z starts, by default x0, as in the theorems of the paper (`cz.theory.bound` takes it
        too).  For known constants, without prox and mirror, and for NumPy arrays.
    L, mu : float
        Smoothness and strong convexity; by default the problem's own (mu: 0 if it has none).
        Where L is not known, or not given beside `metric` or `prox`, "continuized" finds it on
        the way, and restarts in place of mu; what it found is in `r.constants`.  A mu without L
        is refused there.
    method : "auto", "continuized", "sharp", "nesterov", "gradient-descent", or a method object
        "sharp" is `cz.SharpContinuized`, for mu > 0.
        Marked methods (CoordinateDescent, DualCoordinate, StochasticLeastSquares, Kaczmarz)
        find their own constants, and say them in `r.constants`.  "auto" chooses by shape,
        sparsity and conditioning, and says why in `r.message`; a metric that it chooses is
        corrected at every event by the last changes of the gradient, as in limited-memory BFGS.
    metric : None, "auto", "gram", "rows", "blocks", "nystrom", "diag", an array, or an object
        Take the whole process in the norm of a positive definite P: for a regression, made
        from its curvature (the Hessian or a sample of its rows; the same in the space of the rows,
        where these are few; for several classes, blocks of it; a sketch of low rank; its diagonal);
        an array P (a vector is a diagonal); or an object with solve(g) = P^-1 g.
        L and mu, if given, are those in the norm of P.
    prox : None, an object such as `cz.prox.L1(0.1)`, or a function prox(v, step)
        Minimise fun + psi by proximal steps.  With L= (and mu=), or a `cz.Continuized`, the bounds
        of the paper hold for fun + psi (`cz.theory.bound`): x0 must be in the domain of psi, and so
        is every x; where mu = 0 the start of the parameters is 2 by default, and not less.  With
        tol, r.x is one proximal step beyond the last event, where fun + psi is no larger, and has
        exact zeros.  Where L is not given, no theorem covers the run, and x0 may be anywhere.
    mirror : None, `cz.mirror.Entropy()`, `cz.mirror.PNorm(p)`, or an object of your own
        Take the steps of z in the geometry of a function h (`cz.mirror`): x on the simplex, or on a
        product of simplices, or with few entries.  L is the smoothness in its norm, by default
        what the geometry finds for a problem; mu must be 0.  The bounds hold with the divergence
        of h.  With Entropy, tol is compared with a gap, at least fun - f*.
    noise : noise model, such as `cz.noise.Gaussian(1e-4)`, or a `cz.noise.Oracle`
    clock : clock, such as `cz.clock.Recorded(times)`; by default the method's own
    rng : int, SeedSequence or Generator
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
        with x.  StopIteration stops.  A lasso that coordinate steps solve has no event.
    record : True, False or "path"
        Keep f(x_k) at every event; nothing but start and end; or the whole path, for `r.at`.
    progress : bool
        Show a progress bar on standard error, and say there where Numba compiles.
    nonfinite : "stop", "raise" or "skip"
        Where f or a gradient is not finite: end with Status.NOT_FINITE and the last good x; raise
        FloatingPointError; or, of gradients only, take the event without its jump, as if the
        gradient were zero (`r.skipped` counts them).  While L is unknown, it grows instead, and
        the run goes back to the best point.
    checkpoint : path
        A file to keep the state in, trace included, at the start, every so many seconds, at the
        end, and on Ctrl-C or an error; the one before it is kept too, as PATH.previous.  To tell
        one problem from another, f and its gradient are asked for once more, at x0.  With it,
        "auto" takes no Newton's steps for an l1 penalty, for what these keep is not saved: another
        run than without it, and a slower one, as `r.message` says.
    every : float
        Seconds between checkpoints.  0: as often as the state can be kept, which is after every
        block of events (0.1 s of work or so); where L is found on the way, or with `metric`,
        after every event; for a marked method after every pass (without record, after
        4,096 events, if that is more).
    resume : bool
        Go on from the checkpoint, if there is one: the same run, bit by bit, as one that was
        never interrupted.  All but tol, maxiter and callback must be as they were; with a larger
        maxiter or a smaller tol, a run that had ended goes on.

    Returns
    -------
    Result
        A dict with attributes as those of a SciPy OptimizeResult, a `trace` and, for
        record="path", `at(t)`.

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
    >>> r = cz.minimize(p, [0.0, 0.0, 0.0], tol=1e-9, rng=0)
    >>> r.success, r.x.round(6).tolist()
    (True, [1.0, 1.0, 1.0])
    """
    if unknown:
        raise dispatch.unknown_option(next(iter(unknown)), minimize)
    problem = dispatch.as_problem(fun, jac)
    if arrays.namespace(x0) is None:
        start = check_start(x0, problem)
    else:
        numpy_only = {"metric": metric, "prox": prox, "mirror": mirror, "noise": noise, "z0": z0}
        dispatch.check_array_api(method, **numpy_only, checkpoint=checkpoint)
        problem = arrays.ArrayProblem(problem, x0)
        start = problem.start
    why, is_chosen = "", isinstance(method, str) and method == "auto"
    learns = is_chosen and metric is None
    if is_chosen:
        asked = any(option is not None for option in (L, mu, prox, mirror, noise, z0))
        method, metric, why = dispatch.choose_method(problem, metric, asked or record == "path")
    composite = dispatch.as_composite(method, L, metric, prox, mirror, noise, start.shape)
    adapts = composite is None and dispatch.is_adaptive(method, problem, L, metric, prox, noise)
    chosen: Any = method
    if composite is not None:
        chosen = dispatch.composite_method(composite, method, problem, L, mu, start)
    elif not (is_marked(method) or adapts):
        chosen = dispatch.as_method(method, problem, L, mu)
    second = None
    if z0 is not None:
        dispatch.check_second_start_fits(chosen, composite, adapts)
        second = check_second_start(z0, start)
    limits = dispatch.limits_of(tol, maxiter, clock)
    record = dispatch.check_record(record)
    dispatch.check_nonfinite(nonfinite, checkpoint)
    if noise is not None:
        check_noise(noise)
        if isinstance(noise, Oracle) and noise.check:
            noise.test(problem, start)
    if clock is not None:
        check.instance(clock, "clock", "stream", "a clock such as cz.clock.Poisson(rng)")
    path = checkpoints.check_path(checkpoint, every, resume)
    root = seed_sequence(rng)
    called = None if callback is None else dispatch.as_callback(callback)
    skipping = nonfinite == "skip"
    check.flag(progress, "progress")
    stepper: Stepper
    if adapts:
        rest = (limits.tol, record, root, start.shape, skipping, learns)
        options = dispatch.adaptive_options(problem, L, mu, metric, prox, *rest)
        if is_chosen:
            options, why = dispatch.add_support(problem, options, why, path is not None)
        stepper = AdaptiveStepper(problem, start, options)
        ticking = clocks.Poisson(root) if clock is None else clock
    elif is_marked(chosen):
        from continuized.marked.stepper import clock_with_marks

        dispatch.check_marked(chosen, L, mu, noise, record, nonfinite)
        marked: MarkedStepper = chosen.prepare(problem, start)
        stepper, law = marked, marked.law
        limits = dispatch.limits_of(tol, maxiter, clock, events_of(law, law.size))
        marked.configure(start, limits.tol, bool(record))
        ticking = clock_with_marks(clock, marked, root)
    else:
        # Imported here, for it brings Numba with it.
        from continuized.solver.steppers.fixed import ArrayStepper, FixedStepper

        how: Any = {"record": record, "every_event": called is not None, "skipping": skipping}
        how["timed"] = progress or path is not None
        if isinstance(problem, arrays.ArrayProblem):
            stepper = ArrayStepper(chosen, problem, limits.tol, **how)
        else:
            how |= {"noise": noise, "rng": None if noise is None else generator(root, MARKS)}
            if composite is None:
                stepper = FixedStepper(chosen, problem, start, limits.tol, z0=second, **how)
            else:
                from continuized.solver.steppers.composite import CompositeStepper

                how["composite"] = composite
                stepper = CompositeStepper(chosen, problem, start, limits.tol, **how)
        ticking = chosen.clock(root) if clock is None else clock

    def identity() -> dict[str, str]:
        """Everything but maxiter, the size of tol and the callback, which may change."""
        return fingerprint_parts(
            x0=start if second is None else [start, second],
            method=chosen,
            constants=stepper.fingerprint(),
            noise=fingerprint_noise(noise, start.size),
            clock=clock,
            rng=None if rng is None else root,
            record=record,
            tol="none" if limits.tol is None else "given",
            problem=problem.fingerprint(start),
        )

    opened = checkpoints.open_checkpointer(path, every, resume, identity)
    compiling = announce_compilation(progress, "1 to 3")
    with opened as checkpointer, compiling, bar(stepper.name, limits.maxiter, progress) as show:
        loop = Loop(stepper, ticking, limits, callback=called, bar=show,
                    checkpointer=checkpointer)  # fmt: skip
        try:
            loop.run()
        except StopIteration as error:
            raise RuntimeError(
                "fun, jac or another function that was given raised StopIteration; only callback "
                "may, to stop a run"
            ) from error
    r = loop.result()
    r.update(x0=start, z0=None if z0 is None else second, noise=noise)
    if nonfinite == "raise" and r.status is Status.NOT_FINITE:
        raise FloatingPointError(
            f"after {r.nit} events a value of f, a gradient or an iterate was not finite; a larger "
            "L, or a fun and jac without overflow, may help"
        )
    if why:
        r.message = f"{r.message} {why}"
    return r
