"""`minimize` for functions written in JAX: with L, the whole run is one compiled loop.

Without L, it is `cz.minimize` on JAX arrays: the stepper of its loop decides in Python, event by
event, what L is, and fun and its gradient are compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from continuized.adapters import _jax_process as process
from continuized.adapters._jax_process import Tree, gaps, in_jax, jax, jnp, lax, real_dtype
from continuized.process import clock as clocks
from continuized.process.coefficients import Rule
from continuized.process.methods import Continuized
from continuized.process.stepper import Status
from continuized.solver.dispatch import DEFAULT_MAXITER, DEFAULT_TOL, check_nonfinite
from continuized.solver.minimize import minimize as minimize_arrays
from continuized.solver.steppers.adaptive import MOST_L
from continuized.support import validation as check

__all__ = ["Result", "gaps", "minimize"]

BLOCK = 256  # gaps drawn at once: a call of JAX costs as much as many of them
STATUSES = (
    Status.CONVERGED,
    Status.COMPLETED,
    Status.MAXITER,
    Status.CLOCK_ENDED,
    Status.NOT_FINITE,
    Status.WRONG_GRADIENT,  # this and what follows: without L only
    Status.NO_DESCENT,
    Status.NO_MINIMUM,
)


class Result(NamedTuple):
    """What `minimize` gives back; all are arrays of JAX, and under vmap there is one a run.

    x: the point after the last event; fun, jac: f and its gradient there.  nit, njev: events, and
    gradients asked for.  t: the time of the last event.  success; status: a number, see `message`.
    skipped: gradients that were not finite, with nonfinite="skip".

    >>> r = minimize(lambda x: 0.5 * jnp.sum(x**2), jnp.ones(2), L=1.0, maxiter=3)
    >>> int(r.nit), r.message
    (3, 'All the steps asked for were taken.')
    """

    x: Tree
    fun: Any
    jac: Tree
    nit: Any
    njev: Any
    t: Any
    success: Any
    status: Any
    skipped: Any

    @property
    def message(self) -> str:
        """The status of one run in words."""
        return str(STATUSES[int(self.status)].value)


class _Carry(NamedTuple):
    k: Any
    t: process.Time
    x: Tree
    z: Tree
    small: Any  # the gradient of the last event was
    failed: Any  # the coming event would have made a number that is not finite
    skipped: Any  # events without a jump


class _End(NamedTuple):
    """Where a run may end."""

    at: _Carry
    jac: Tree
    converged: Any
    done: Any
    asked: Any  # how many gradients at x


class _Inputs(NamedTuple):
    """What a compiled run is given: arrays, which may change without compiling again."""

    args: tuple[Any, ...]
    constants: tuple[Any, Any, Any]
    key: Any
    recorded: Any
    tol: Any  # negative: no test
    maxiter: Any


def minimize(
    fun: Callable[..., Any],
    x0: Tree,
    args: tuple[Any, ...] = (),
    *,
    L: float | None = None,
    mu: float = 0.0,
    start: float | None = None,
    key: int | Any = 0,
    clock: clocks.Recorded | jax.Array | None = None,
    tol: float | None = None,
    maxiter: int | None = None,
    nonfinite: str = "stop",
) -> Result:
    """Minimise a smooth convex function written in JAX, by the continuized acceleration.

    The loop is compiled once for each function, shape of x0, and form of the parameters (mu = 0,
    or mu > 0 with start = inf, or with a finite start); L, mu, start, key, tol, maxiter and args
    may then change.  A function made anew for each call is compiled for each call: pass what
    changes in `args`.

    Parameters
    ----------
    fun : callable
        fun(x, *args) -> a real number, in operations of JAX; differentiated by jax.grad.
    x0 : array of real floats, or tree of such
        Where to start.  Structure and dtype are kept.
    args : tuple of trees of arrays, or one that is no tuple
    L, mu : float
        Smoothness and strong convexity.  L may be traced.  Without L it is found on the way, and
        restarts stand in for mu, as in `cz.minimize`: in a loop of Python, not inside jit or vmap.
    start : float or None
        As in `cz.Continuized`.
    key : integer or key of jax.random
        Of the event times; see `gaps`.  May be traced: `jax.vmap` over keys runs many at once.
    clock : cz.clock.Recorded, JAX array of gaps, or None
        Recorded event times in place of random ones.
    tol : float or None
        Stop when the gradient norm is at most tol, as in `cz.minimize`: without tol and maxiter,
        1e-6; with maxiter alone, all maxiter steps are taken.
    maxiter : int or None
        The largest number of events; 100,000 by default, or all of a recorded clock.
    nonfinite : "stop", "raise" or "skip"
        Where an event would make a number that is not finite: end before it, at the last good x,
        with a status that says so; raise FloatingPointError (not inside jit or vmap); or take the
        event without its jump, as if the gradient were zero (`skipped` counts them).

    Raises TypeError or ValueError for arguments that make no sense; what is traced by JAX is not
    looked at.

    >>> def f(x, weights):
    ...     return 0.5 * jnp.sum(weights * (x - 1.0) ** 2)
    >>> weights = jnp.array([0.1, 1.0])
    >>> r = minimize(f, jnp.zeros(2), (weights,), L=1.0, mu=0.1, tol=1e-5)
    >>> bool(r.success), r.x.round(3).tolist()
    (True, [1.0, 1.0])
    >>> many = jax.vmap(lambda key: minimize(f, jnp.zeros(2), (weights,), L=1.0, mu=0.1, key=key))
    >>> many(jnp.arange(5)).x.shape
    (5, 2)
    """
    check.function(fun, "fun")
    args = args if isinstance(args, tuple) else (args,)
    if L is None:
        limits = {"tol": tol, "maxiter": maxiter, "nonfinite": nonfinite}
        return _minimize_without_L(fun, x0, args, mu, start, key, clock, limits)
    rule, constants = _choose_rule(L, mu, start)
    recorded = process.recorded_gaps(clock)
    tol, maxiter = _check_limits(tol, maxiter, None if recorded is None else recorded.size)
    run = _Inputs(args, constants, process.key_of(key), recorded, tol, maxiter)
    check_nonfinite(nonfinite, None)
    x = process.copy_checked(x0, "x0")
    result: Result = _solve(fun, rule, nonfinite == "skip", x, run)
    if nonfinite == "raise":
        _raise_if_not_finite(result)
    return result


def _choose_rule(L: Any, mu: Any, start: Any) -> tuple[Rule, tuple[Any, Any, Any]]:
    """Return the rule of the method, and (L, mu, start); it is chosen before compiling."""
    for name, value in (("mu", mu), ("start", start)):
        if isinstance(value, jax.core.Tracer):
            raise TypeError(
                f"{name} must not be traced by jit or vmap, for it says what to compile"
            )
    traced = isinstance(L, jax.core.Tracer)
    method = Continuized(MOST_L if traced else L, mu, start)
    return method.rule, ((L if traced else method.L), *method.constants[1:])


def _raise_if_not_finite(result: Result) -> None:
    if isinstance(result.status, jax.core.Tracer):
        raise ValueError(
            'nonfinite="raise" cannot raise inside jit or vmap; use "stop", and look at the status'
        )
    if int(result.status) == STATUSES.index(Status.NOT_FINITE):
        raise FloatingPointError(
            f"after {int(result.nit)} events a value of f, a gradient or an iterate was not finite"
        )


@partial(jax.jit, static_argnums=(0, 1, 2))
def _solve(fun: Callable[..., Any], rule: Rule, skipping: bool, x0: Tree, run: _Inputs) -> Result:
    limit = run.maxiter if run.recorded is None else jnp.minimum(run.maxiter, run.recorded.size)
    gradient = jax.grad(fun)

    def goes_on(c: _Carry) -> Any:
        return (c.k < limit) & ~c.failed

    def event(c: _Carry) -> _Carry:
        k = c.k + 1
        dt = process.find_gap(run.key, run.recorded, k)
        t = c.t.after(dt)
        a, b, *steps, _ = in_jax(rule)(k, c.t.hi, t.hi, dt, 0.0, *run.constants)
        y, z = process.mix(c.x, c.z, a, b)
        g = gradient(y, *run.args)
        x, z_after = process.jump(y, z, g, *steps)
        small = process.norm(g) <= run.tol
        after = _Carry(k, t, x, z_after, small, c.failed, c.skipped)
        if skipping:
            otherwise = _Carry(k, t, y, z, false, c.failed, c.skipped + 1)
        else:
            otherwise = c._replace(failed=~false)
        finite = process.all_finite(after.x, after.z)
        return _Carry(*process.where(finite, after, otherwise))

    def try_to_stop(end: _End) -> _End:
        """Events until a gradient is small, or the last; then is the gradient at x small, too?"""
        c = end.at._replace(small=false)
        c = lax.while_loop(lambda c: goes_on(c) & ~c.small, event, c)
        g = gradient(c.x, *run.args)
        converged = process.norm(g) <= run.tol
        return _End(c, g, converged, converged | ~goes_on(c), end.asked + 1)

    false, zero = jnp.asarray(False), jnp.zeros((), jnp.int32)
    first = _Carry(zero, process.time_at(0.0), x0, x0, false, false, zero)
    begin = _End(first, x0, false, false, zero)
    c, g, converged, _, asked = lax.while_loop(lambda end: ~end.done, try_to_stop, begin)
    value = fun(c.x, *run.args)
    failed = c.failed | ~process.all_finite(value, g)
    status = _find_status(failed, converged, c.k, run)
    success = jnp.asarray([each.success for each in STATUSES])[status]
    njev = c.k + c.failed + asked
    return Result(c.x, value, g, c.k, njev, c.t.hi, success, status, c.skipped)


def _find_status(failed: Any, converged: Any, k: Any, run: _Inputs) -> Any:
    """Return the number in STATUSES of the first that applies."""
    cases = {
        Status.NOT_FINITE: failed,
        Status.CONVERGED: converged,
        Status.CLOCK_ENDED: k < run.maxiter,
        Status.COMPLETED: run.tol < 0.0,
    }
    numbers = [jnp.asarray(STATUSES.index(status), jnp.int32) for status in cases]
    return jnp.select(list(cases.values()), numbers, STATUSES.index(Status.MAXITER))


def _check_limits(tol: Any, maxiter: Any, events: int | None) -> tuple[Any, Any]:
    """Return tol (-1 for no test) and maxiter, checked where they are not traced."""
    if tol is None and maxiter is None and events is None:
        tol = DEFAULT_TOL
    if tol is None:
        tol = -1.0
    elif not isinstance(tol, jax.Array):
        tol = check.real(tol, "tol", minimum=0.0, finite=False, other="None")
    if maxiter is None:
        # With tol, one more than recorded: if the run gets to the end, it is the clock that ended.
        maxiter = DEFAULT_MAXITER if events is None else events + (tol >= 0.0)
    elif not isinstance(maxiter, jax.Array):
        most = int(np.iinfo(np.int32).max) - 1
        maxiter = check.whole(maxiter, "maxiter", minimum=0, maximum=most, other="None")
    return jnp.asarray(tol, real_dtype()), jnp.asarray(maxiter, jnp.int32)


def _minimize_without_L(
    fun: Any, x0: Tree, args: Any, mu: Any, start: Any, key: Any, clock: Any, limits: dict[str, Any]
) -> Result:
    """Run `cz.minimize` on the vector of x0's leaves.

    Raises ValueError inside jit or vmap, where no L can be decided on.
    """
    from jax.flatten_util import ravel_pytree

    if start is not None or not (check.is_real(mu) and mu == 0.0):
        raise ValueError("mu or start without L: give L= too, or neither of them")
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((x0, args, key, clock))):
        raise ValueError(
            "L is missing: give L= inside jit or vmap; elsewhere it is found on the way"
        )
    x, tree = ravel_pytree(process.copy_checked(x0, "x0"))
    compiled = jax.jit(jax.value_and_grad(lambda x, *args: fun(tree(x), *args)))

    def value_and_gradient(x: Any) -> tuple[Any, Any]:
        value, gradient = compiled(x, *args)
        return float(value), gradient

    recorded = process.recorded_gaps(clock)
    if recorded is None:
        events: clocks.Clock = _Keyed(process.key_of(key))
    elif isinstance(clock, clocks.Recorded):
        events = clock
    else:
        drawn = np.asarray(recorded, float)
        events = clocks.Recorded(np.cumsum(drawn), drawn)
    r = minimize_arrays(value_and_gradient, x, True, clock=events, record=False, **limits)
    value, t = jnp.asarray([r.fun, r.trace.t[-1]], real_dtype())
    fields = r.nit, r.njev, r.success, STATUSES.index(r.status), r.get("skipped", 0)
    nit, njev, success, status, skipped = map(jnp.asarray, fields)
    return Result(tree(r.x), value, tree(r.jac), nit, njev, t, success, status, skipped)


@dataclass(frozen=True)
class _Keyed:
    """The clock whose gaps are `gaps(key, n)`, however many are asked for."""

    key: Any

    def stream(self) -> clocks.Stream:
        block = jax.jit(jax.vmap(process.gap, (None, 0)))
        blocks = (block(self.key, jnp.arange(k, k + BLOCK)) for k in count(1, BLOCK))
        drawn = chain.from_iterable(np.asarray(each, float) for each in blocks)
        return clocks.Stream(lambda n: np.fromiter(drawn, float, n))
