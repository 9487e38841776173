"""A method for `scipy.optimize.minimize`: method=cz.scipy_method.

SciPy hands a method of the user's own everything as it was given, with three exceptions: fun and
jac of jac=True become two functions that share a call, tol becomes an option, and a jac that
names finite differences becomes None (hence the option `finite_differences`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import Bounds, OptimizeResult, OptimizeWarning
from scipy.optimize._numdiff import approx_derivative

from continuized.problems.base import Array, writes_into_out
from continuized.process.methods import Continuized, Method, SharpContinuized, is_sharp
from continuized.process.prox import Box
from continuized.solver.dispatch import DEFAULT_TOL
from continuized.solver.minimize import minimize
from continuized.solver.result import Result
from continuized.support import validation as check
from continuized.support.validation import short_repr

__all__ = ["scipy_method"]

SCHEMES = ("2-point", "3-point", "cs")
# Options that `minimize` is given as they are.
PASSED_ON = (
    "maxiter", "mirror", "clock", "rng", "record", "progress", "nonfinite", "checkpoint", "every",
    "resume", "z0",
)  # fmt: skip


def scipy_method(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    jac: Callable[..., Any] | bool | str | None = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    callback: Callable[..., Any] | None = None,
    *,
    tol: float | None = None,
    L: float | None = None,
    mu: float | None = None,
    start: float | None = None,
    method: str = "continuized",
    metric: Any = None,
    disp: bool = False,
    finite_differences: str = "2-point",
    finite_diff_rel_step: Any = None,
    **options: Any,
) -> OptimizeResult:
    """The continuized acceleration as a method of `scipy.optimize.minimize`.

    Parameters
    ----------
    fun, x0, args, jac, callback
        As in `scipy.optimize.minimize`.  Without jac, gradients are finite differences, with a
        warning of what they cost.
    bounds : Bounds or pairs (low, high)
        Kept by proximal steps, `cz.prox.Box`: every x is within, but fun and jac are asked for
        at points outside too.  x0 is moved inside.
    constraints
        Refused.
    hess, hessp
        Not used, with a warning.
    tol : float
        Stop when the norm of the gradient (with bounds, of the gradient mapping) is at most tol;
        1e-6 by default, also where maxiter is given.
    L, mu, metric
        Options, as in `cz.minimize`.  Without L it is found on the way, and so it is with bounds
        where mu is not given: an L alone is not used there.
    start : float
        An option: that of `cz.Continuized`, which needs L.
    method : "continuized" or "sharp"
        An option: the latter is `cz.SharpContinuized`, which needs L and mu, and has no start.
    disp : bool
        An option: print the message at the end.
    finite_differences : "2-point", "3-point" or "cs"
        An option: how to make gradients where jac is not given.
    finite_diff_rel_step : float or array
        An option: their relative step.
    **options
        maxiter, mirror, clock, rng, record, progress, nonfinite, checkpoint, every, resume and z0,
        as in `cz.minimize`.  Others are warned of, and not used.

    Returns
    -------
    OptimizeResult
        x, fun, jac, nit, nfev, njev, success, message and a number `status`: 0 success, 1 maxiter
        reached, 2 the clock ended, 3 not finite, 4 diverged, 5 jac is not the gradient, 6 fun
        does not fall, 7 no minimum, 8 tol is below what rounding allows, 99 stopped by the
        callback; also `trace`, `method` and, where
        they were found, `constants`, as in `cz.minimize`.

    Raises TypeError or ValueError for arguments that make no sense, before the first step.

    >>> from scipy.optimize import minimize
    >>> r = minimize(lambda x: ((x - 1) ** 2).sum(), [0.0, 0.0], jac=lambda x: 2 * (x - 1),
    ...              method=scipy_method, options={"rng": 0})
    >>> r.success, r.status, r.x.round(6).tolist()
    (True, 0, [1.0, 1.0])
    """
    check.function(fun, "fun", advice="of a Problem p, give p.fun, and jac=p.grad")
    _warn_of_unused([name for name in options if name not in PASSED_ON], hess, hessp)
    _refuse_constraints(constraints)
    x = np.atleast_1d(np.asarray(x0))
    box = _make_box(bounds, x.shape)
    fun, jac = _with_args(fun, args), _with_args(jac, args)
    if x.size == 1 and callable(jac) and not writes_into_out(jac):
        jac = _as_vector(jac)
    differences = None
    if jac is None or jac is False or isinstance(jac, str):
        scheme = finite_differences if jac is None or jac is False else jac
        scheme = check.one_of(scheme, "finite differences", SCHEMES)
        differences = FiniteDifferences(fun, scheme, finite_diff_rel_step)
        evaluations = 2 * x.size if scheme == "3-point" else x.size
        warnings.warn(
            f"jac is not given: every gradient takes {evaluations} further values of fun "
            f"({scheme} finite differences); give jac= if there is one",
            OptimizeWarning,
            stacklevel=3,
        )
        fun, jac = differences.fun, differences.grad
    r = minimize(
        fun,
        x if box is None else np.clip(x, box.low, box.high),
        jac,
        **_choose_process(method, L, mu, start, metric, box),
        tol=DEFAULT_TOL if tol is None else tol,
        callback=callback,
        **{name: value for name, value in options.items() if name in PASSED_ON},
    )
    r.status = r.status.code
    if differences is not None:
        r.nfev = differences.calls
    if disp:
        print(r.message)
    return ScipyResult(r)


class ScipyResult(Result, OptimizeResult):
    """A `Result` that is SciPy's too."""


class FiniteDifferences:
    """fun, and its gradient by SciPy's finite differences; counts every call of fun."""

    def __init__(self, fun: Callable[[Array], Any], scheme: str, rel_step: Any) -> None:
        self._user, self._options = fun, {"method": scheme, "rel_step": rel_step}
        self._x: Array | None = None  # where fun was asked last, and what it said
        self._f: Any = None
        self.calls = 0

    def _count(self, x: Array) -> Any:
        self.calls += 1
        return self._user(x)

    def fun(self, x: Array) -> Any:
        """Ask for fun itself."""
        self._x, self._f = x.copy(), self._count(x)
        return self._f

    def grad(self, x: Array) -> Array:
        """Make the gradient; fun at x itself is not asked for again."""
        f = self._f if self._x is not None and np.array_equal(x, self._x) else self.fun(x.copy())
        return np.asarray(approx_derivative(self._count, x, f0=f, **self._options))


def _with_args(function: Any, args: Any) -> Any:
    """Make a function of x alone."""
    if not callable(function) or (isinstance(args, tuple) and not args):
        return function
    rest = args if isinstance(args, tuple) else (args,)
    return lambda x: function(x, *rest)


def _as_vector(jac: Callable[[Array], Any]) -> Callable[[Array], Array]:
    """Make a vector of a gradient in one variable: SciPy's own methods take a number too."""
    return lambda x: np.atleast_1d(jac(x))


def _warn_of_unused(unknown: list[str], hess: Any, hessp: Any) -> None:
    level = 4  # the caller of SciPy's minimize
    if unknown:
        sentence = f"these options are not known: {', '.join(unknown)}"
        if not {"gtol", "ftol", "xtol"}.isdisjoint(unknown):
            sentence += "; tol= is the norm of the gradient at which to stop"
        warnings.warn(sentence, OptimizeWarning, stacklevel=level)
    for name, given in (("hess", hess), ("hessp", hessp)):
        if given is not None:
            said = f"the continuized acceleration makes no use of {name}"
            warnings.warn(said, RuntimeWarning, stacklevel=level)


def _refuse_constraints(constraints: Any) -> None:
    if constraints is None or (isinstance(constraints, tuple | list | dict) and not constraints):
        return
    raise ValueError(
        f"constraints are not supported, only bounds, got {short_repr(constraints)}; use SciPy's "
        'method="SLSQP" or "trust-constr"'
    )


def _make_box(bounds: Any, shape: tuple[int, ...]) -> Box | None:
    """Make the box of bounds as SciPy takes them; None where nothing is bounded."""
    if bounds is None:
        return None
    pairs = (bounds.lb, bounds.ub) if isinstance(bounds, Bounds) else _split_pairs(bounds)
    try:
        low, high = (np.broadcast_to(side, shape) for side in pairs)
    except ValueError as error:
        what = f"one for each of the {shape[0]} entries of x0"
        raise check.refusal(ValueError, "bounds", what, bounds) from error
    if np.all(low == -np.inf) and np.all(high == np.inf):
        return None
    return Box(low, high)


def _split_pairs(bounds: Any) -> tuple[Array, Array]:
    """Split pairs, in which None is no bound, into their low and their high ends."""
    try:
        pairs = [(low, high) for low, high in bounds]
        low = np.array([-np.inf if low is None else float(low) for low, _ in pairs])
        high = np.array([np.inf if high is None else float(high) for _, high in pairs])
    except (TypeError, ValueError) as error:
        what = "scipy.optimize.Bounds or pairs (low, high) of numbers or None"
        raise check.refusal(TypeError, "bounds", what, bounds) from error
    return low, high


def _choose_process(
    method: Any, L: Any, mu: Any, start: Any, metric: Any, box: Box | None
) -> dict[str, Any]:
    """Choose what `minimize` is told of the process.

    Not of an L beside bounds where mu is not known: the run that finds L restarts, and is much
    quicker there than the one whose bounds are proved.
    """
    sharp = is_sharp(method)
    if start is None and not sharp:
        known = None if box is not None and mu is None else L
        return {"L": known, "mu": mu, "metric": metric, "prox": box}
    if L is None or metric is not None or box is not None:
        name = 'method="sharp"' if sharp else "start="
        raise ValueError(f"{name} needs L=, and goes without metric= and bounds; drop {name}")
    if sharp and start is not None:
        raise ValueError('method="sharp" has no start=; drop one of them')
    mu = 0.0 if mu is None else mu
    chosen: Method = SharpContinuized(L, mu) if sharp else Continuized(L, mu, start)
    return {"method": chosen}


def __dir__() -> list[str]:
    return sorted(__all__)
