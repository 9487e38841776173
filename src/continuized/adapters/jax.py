"""`minimize` for functions written in JAX: a run is one compiled loop, and has derivatives.

The loops stand in `_jax_loops`, the derivatives in `_jax_implicit`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from continuized.adapters import _jax_process as process
from continuized.adapters._jax_implicit import Functions, Minimum, Parameters, differentiate
from continuized.adapters._jax_loops import STATUSES, Inputs, Objective, run_adaptive, run_fixed
from continuized.adapters._jax_process import Tree, gaps, jax, jnp, lax, real_dtype
from continuized.adapters._jax_prox import check_prox
from continuized.process import clock as clocks
from continuized.process.coefficients import Rule
from continuized.process.methods import Continuized, Method, SharpContinuized, is_sharp
from continuized.process.stepper import Status
from continuized.solver.dispatch import (
    DEFAULT_MAXITER,
    DEFAULT_TOL,
    check_nonfinite,
    unknown_option,
)
from continuized.solver.minimize import minimize as minimize_arrays
from continuized.solver.steppers.adaptive import MOST_L
from continuized.support import validation as check
from continuized.support.display import show_html, show_lines

__all__ = ["Result", "gaps", "minimize"]

MAPPING = "norm of the gradient mapping"
# Where x is no minimiser, not even nearly: it has no derivative.
NO_MINIMISER = Status.NOT_FINITE, Status.NO_DESCENT, Status.NO_MINIMUM

# Options of other functions called minimize, and what to use here instead.
ELSEWHERE = dict.fromkeys(inspect.signature(minimize_arrays).parameters, "cz.minimize has it") | {
    "rng": "use key=, an integer or a key of jax.random",
    "seed": "use key=, an integer or a key of jax.random",
    "jac": "leave it out, for the gradient is that of jax.grad",
    "bounds": "use prox=cz.prox.Box(low, high)",
}


class Result(NamedTuple):
    """What `minimize` gives back; all are arrays of JAX, and under vmap there is one a run.

    x: the point after the last event, or the best one where L was found on the way.  fun: f there,
    with an operator of cz.prox f + psi.  jac: the gradient of f there.  nit, njev: events, and
    gradients asked for.  t: the time of the last event.  success; status: a number, see `message`.
    skipped: gradients that were not finite, with nonfinite="skip".  error: what tol is compared
    with, the norm of the gradient, or of the gradient mapping.  L: as given, or as found.
    has_prox: whether there was one.

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
    error: Any
    L: Any
    has_prox: Any

    def _facts(self) -> dict[str, Any]:
        one = jnp.ndim(self.status) == 0 and not isinstance(self.status, jax.core.Tracer)
        return ({"message": self.message} if one else {}) | self._asdict()

    def __repr__(self) -> str:
        return show_lines(self)

    def _repr_html_(self) -> str:
        return show_html(self)

    @property
    def message(self) -> str:
        """The status of one run in words; of a run that is not traced."""
        sentence = str(STATUSES[int(self.status)].value)
        return sentence.replace("gradient norm", MAPPING) if self.has_prox else sentence


def minimize(
    fun: Callable[..., Any],
    x0: Tree,
    args: tuple[Any, ...] | Any = (),
    *,
    prox: Any = None,
    prox_args: tuple[Any, ...] | Any = (),
    L: float | None = None,
    mu: float = 0.0,
    start: float | None = None,
    method: str = "continuized",
    key: int | Any = 0,
    clock: clocks.Recorded | jax.Array | None = None,
    tol: float | None = None,
    maxiter: int | None = None,
    nonfinite: str = "stop",
    **unknown: Any,
) -> Result:
    """Minimise f + psi, f smooth and convex and psi simple, by the continuized acceleration.

    The loop is compiled once for each function, prox, shape of x0, and form of the parameters (L
    unknown, mu = 0, mu > 0 with start = inf, or with a finite start); the numbers may then change.
    A function made anew for each call is compiled for each call: pass what changes in `args`.

    The result has derivatives, forward and reverse, in `args`, `prox_args` and what the functions
    close over, by the equation that holds at a minimum, x = prox(x - s grad f(x), s); in all else,
    x0 among it, they are 0.
    They are those of the minimiser as far as x is one: see "Derivatives" in the documentation.

    Parameters
    ----------
    fun : callable
        f: fun(x, *args) -> a real number, in operations of JAX; differentiated by jax.grad.
    x0 : array of real floats, or tree of such
        Where to start.  Structure and dtype are kept.
    args : tuple of trees of arrays, or one that is no tuple
        Of fun.
    prox : callable, an operator of cz.prox or a class of these, or None
        The proximal step of psi: prox(v, step, *prox_args) = argmin psi(x) + |x - v|^2 / (2 step),
        on trees like x0.  A class such as cz.prox.L1 takes what makes one as prox_args.  Steps are
        by the gradient mapping, with L as without; `cz.minimize` has those with a theorem for L.
    prox_args : tuple of trees of arrays, or one that is no tuple
    L, mu : float
        Smoothness and strong convexity.  L may be traced.  Without L it is found on the way, and
        restarts stand in for mu, as in `cz.minimize`.
    start : float or None
        As in `cz.Continuized`.
    method : "continuized" or "sharp"
        The latter is `cz.SharpContinuized`, which needs L and mu > 0, and has no start.
    key : integer or key of jax.random
        Of the event times; see `gaps`.  May be traced: `jax.vmap` over keys runs many at once.
    clock : cz.clock.Recorded, JAX array of gaps, or None
        Recorded event times in place of random ones.
    tol : float or None
        Stop when the norm of the gradient, or with prox of the gradient mapping, is at most tol,
        as in `cz.minimize`: without tol and maxiter, 1e-6; with maxiter alone, all maxiter steps
        are taken.
    maxiter : int or None
        The largest number of events; 100,000 by default, or all of a recorded clock.
    nonfinite : "stop", "raise" or "skip"
        Where an event would make a number that is not finite: end before it, at the last good x,
        with a status that says so; raise FloatingPointError (not inside jit or vmap); or take the
        event without its jump, as if the gradient were zero (`skipped` counts them).  Without L,
        such an event makes L larger instead.

    Raises TypeError or ValueError for arguments that make no sense; what is traced by JAX is not
    looked at.

    >>> def f(x, weights):
    ...     return 0.5 * jnp.sum(weights * (x - 1.0) ** 2)
    >>> weights = jnp.array([0.1, 1.0])
    >>> r = minimize(f, jnp.zeros(2), (weights,), tol=1e-5)
    >>> bool(r.success), r.x.round(3).tolist()
    (True, [1.0, 1.0])
    >>> many = jax.vmap(lambda key: minimize(f, jnp.zeros(2), (weights,), L=1.0, mu=0.1, key=key))
    >>> many(jnp.arange(5)).x.shape
    (5, 2)

    With psi = c |x|_1, the derivative of x in c is -1 / weights where x is not 0:

    >>> from continuized import prox
    >>> def first(c):
    ...     return minimize(f, jnp.zeros(2), weights, prox=prox.L1, prox_args=c, tol=1e-5).x[1]
    >>> round(float(jax.grad(first)(0.5)), 4)
    -1.0
    """
    if unknown:
        raise unknown_option(next(iter(unknown)), minimize, ELSEWHERE)
    check.function(fun, "fun")
    args = args if isinstance(args, tuple) else (args,)
    if any(callable(leaf) for leaf in jax.tree.leaves(args)):
        raise TypeError(
            "args must be arrays, what fun takes after x, got a function; the gradient is that of "
            "jax.grad, and need not be given"
        )
    rule, constants = _choose_rule(method, L, mu, start)
    recorded = process.recorded_gaps(clock)
    tol, maxiter = _check_limits(tol, maxiter, None if recorded is None else recorded.size)
    check_nonfinite(nonfinite, None)
    x = process.copy_checked(x0, "x0")
    operator, of_psi = check_prox(prox, prox_args, x)
    fun, found = process.hoist(fun, x, *args)
    of_f, key = (*args, *found), process.key_of(key)
    run = Inputs(of_f, of_psi, constants, key, recorded, tol, maxiter)
    result: Result = _solve(Functions(fun, operator), rule, nonfinite == "skip", x, run)
    if nonfinite == "raise":
        _raise_if_not_finite(result)
    return result


def _choose_rule(kind: Any, L: Any, mu: Any, start: Any) -> tuple[Rule | None, tuple[Any, ...]]:
    """Return the rule of the method, and (L, mu, start); it is chosen before compiling.

    None, and no constants, where L is to be found.
    """
    for name, value in (("mu", mu), ("start", start)):
        if isinstance(value, jax.core.Tracer):
            raise TypeError(
                f"{name} must not be traced by jit or vmap, for it says what to compile"
            )
    sharp = is_sharp(kind)
    if sharp and (L is None or start is not None):
        raise ValueError('method="sharp" needs L= and mu=, and has no start=')
    if L is None:
        if start is not None or not (check.is_real(mu) and mu == 0.0):
            raise ValueError("mu or start without L: give L= too, or neither of them")
        return None, ()
    traced = isinstance(L, jax.core.Tracer)
    known = MOST_L if traced else L
    method: Method = SharpContinuized(known, mu) if sharp else Continuized(known, mu, start)
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
def _solve(
    functions: Functions, rule: Rule | None, skipping: bool, x0: Tree, run: Inputs
) -> Result:
    """Run a loop, which is not differentiated, and tell JAX how its end depends on `args`."""
    parameters = Parameters(run.args, run.prox_args)
    x0, run = lax.stop_gradient((x0, run))
    objective = Objective(*functions, run.args, run.prox_args)
    if rule is None:
        end = run_adaptive(objective, x0, run)
    else:
        end = run_fixed(objective, rule, skipping, x0, run)
    success, has_minimum = (
        jnp.asarray([fits(status) for status in STATUSES])[end.status]
        for fits in (lambda status: status.success, lambda status: status not in NO_MINIMISER)
    )
    minimum = Minimum(end.x, end.fun, end.jac, 1.0 / end.L, has_minimum)
    x, fun, jac = differentiate(functions, minimum, parameters)
    return Result(
        x, fun, jac, end.nit, end.njev, end.t, success, end.status, end.skipped, end.error, end.L,
        jnp.asarray(functions.operator is not None),
    )  # fmt: skip


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


def __dir__() -> list[str]:
    return sorted(__all__)
