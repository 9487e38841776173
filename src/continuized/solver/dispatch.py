"""What `minimize` is given, checked, and what it decides: the stepper, the method, the metric."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.problems.losses import LOGISTIC, SQUARED
from continuized.problems.regression.interface import Regression
from continuized.process import clock as clocks
from continuized.process.composite import Composite
from continuized.process.methods import METHODS, Continuized, GradientDescent, Method, is_marked
from continuized.process.mirror import MirrorComposite, make_composite
from continuized.process.parameters import check_constants
from continuized.process.prox import Separable, check_prox
from continuized.process.random_streams import Root
from continuized.process.stepper import Limits
from continuized.solver.loop import Callback
from continuized.solver.metric import Identity, given_metric
from continuized.solver.metric_factory import best_kind, make_factory
from continuized.solver.sparse_newton import SupportSolver
from continuized.solver.steppers.adaptive import AdaptiveOptions
from continuized.support import validation as check

DEFAULT_TOL = 1e-6
DEFAULT_MAXITER = 100_000
DEFAULT_PASSES = 1_000  # of a marked method, over its coordinates or rows
EASILY_FACTORED = 300  # variables: a factorisation takes no time
MOST_KAPPA = 1e4  # of the dual: beyond, it takes hundreds of passes
REASON_KNOWN_L = 'It is the process with the constants of the problem (method="continuized").'
PROX_AND_METRIC = "metric= and prox= do not go together: prox is a step in the plain norm"
MIRROR_AND_METRIC = "metric= and mirror= do not go together: each is a geometry of its own"
REASON_UNKNOWN_L = 'L is found on the way, and restarts stand in for mu (method="continuized").'
REASON_SUPPORT = (
    'Full gradients (method="continuized"), and Newton\'s steps on the entries that are not zero.'
)
REASON_NO_SUPPORT = (
    'Full gradients (method="continuized"), as the options ask: with checkpoint= there are no '
    "Newton's steps on the entries that are not zero, for what they keep is not saved."
)
# Of a regression, by the kind of metric.
REASONS = {
    "gram": "the Hessian of {0.dim} variables is cheap to factorise",
    "rows": "the Hessian is cheap to factorise in the space of its {0.row_count} rows",
    "blocks": "of the Hessian of {0.dim} variables, blocks are cheap to factorise",
    "diag": "only {0.density:.2g} of X is not zero, and its Hessian nearly diagonal",
    "nystrom": "{0.dim} variables are too many to factorise the Hessian",
}

# Options of SciPy's minimize, and what to use here instead.
ELSEWHERE = {
    "bounds": "use prox=cz.prox.Box(low, high)",
    "args": "use a function of x alone, such as lambda x: fun(x, *args)",
    "constraints": "only sets with a simple projection can be had, as prox= or mirror=",
    "hess": "leave it out, or give its bound as metric=",
    "options": "give each option by its own name",
    "gtol": "use tol=",
    "seed": "use rng=",
}


def unknown_option(
    name: str, function: Callable[..., Any], elsewhere: Mapping[str, str] = ELSEWHERE
) -> TypeError:
    """The error for an option that a function does not have, and what to use instead."""
    advice = elsewhere.get(name, "")
    if not advice:
        known = list(inspect.signature(function).parameters)
        near = difflib.get_close_matches(name, known, n=1)
        advice = f"did you mean {near[0]}=?" if near else "its docstring names those that it has"
    return TypeError(f"{function.__name__} has no option {name}=; {advice}")


def as_problem(fun: Any, jac: Any) -> Problem:
    """The problem of fun and jac, as `minimize` takes them."""
    if isinstance(fun, Problem):
        if jac is not None:
            raise ValueError("jac is given, but the problem has a gradient of its own; drop jac=")
        return fun
    check.function(fun, "fun", "a Problem or a function of x")
    if jac is True:
        return Problem(fun, value_and_grad=True)
    if jac is None or jac is False:
        raise ValueError(
            "the gradient is missing: give jac=, a function of x (of JAX jax.grad(fun), of PyTorch "
            "torch.func.grad(fun)), or jac=True if fun returns (value, gradient)"
        )
    return Problem(fun, check.function(jac, "jac", "a function of x or True"))


def as_method(method: Any, problem: Problem, L: Any, mu: Any) -> Method:
    """The method of a name, with the constants given or those of the problem."""
    if isinstance(method, Method):
        if L is not None or mu is not None:
            raise ValueError("L and mu belong to the method object that is given; drop L= and mu=")
        return method
    check.one_of(method, "method", ("auto", *METHODS), other="a method object")
    L = problem.L if L is None else L
    if L is None:
        raise ValueError("the smoothness constant is not known: give L=, or a Problem with L")
    if mu is not None:
        check_constants(L, mu)  # also where the method has no use for mu
    kind = METHODS[method]
    if kind is GradientDescent:
        return GradientDescent(L)
    mu = problem.mu if mu is None else mu
    if kind is Continuized:
        return Continuized(L, 0.0 if mu is None else mu, tau=problem.tau)
    return kind(L, 0.0 if mu is None else mu)


def check_marked(method: Any, L: Any, mu: Any, noise: Any, record: Any, nonfinite: str) -> None:
    """Raise ValueError for what does not go with a marked method."""
    if L is not None or mu is not None:
        raise ValueError(f"{method.name} finds its own constants; drop L= and mu=")
    if noise is not None:
        raise ValueError(f"{method.name} draws its own gradients; drop noise=")
    if record == "path":
        raise ValueError(f"{method.name} records one row a pass, no path; use record=True")
    if nonfinite == "skip":
        raise ValueError(f'{method.name} has no gradients to skip; use nonfinite="stop" or "raise"')


def check_second_start_fits(method: Any, composite: Composite | None, adapts: bool) -> None:
    """Raise ValueError for a run that z0 does not go with."""
    if composite is not None:
        raise ValueError("z0= goes without prox= and mirror=, which need z_0 = x_0: drop z0=")
    if adapts:
        raise ValueError("z0= goes with known constants only: give L=, without metric= and prox=")
    if is_marked(method) or isinstance(method, GradientDescent):
        raise ValueError(f"{method.name} takes no z0=; drop it, or use a cz.Continuized(L, mu)")


def limits_of(tol: Any, maxiter: Any, clock: Any, events_of_a_pass: int | None = None) -> Limits:
    """When to stop, by tol, maxiter and the length of a recorded clock."""
    if tol is not None:
        tol = check.real(tol, "tol", minimum=0.0, finite=False, other="None")
    if maxiter is not None:
        return Limits(tol, check.whole(maxiter, "maxiter", minimum=0, other="None"))
    # None first: whether something is of a protocol's class takes Python long to tell.
    if clock is not None and isinstance(clock, clocks.Recorded):
        # With tol, one more than it has: if the run gets to the end, it is the clock that ended.
        return Limits(tol, len(clock) + (tol is not None))
    default = DEFAULT_MAXITER
    if events_of_a_pass is not None:
        default = max(default, DEFAULT_PASSES * events_of_a_pass)
    return Limits(DEFAULT_TOL if tol is None else tol, default)


def as_callback(callback: Any) -> Callback:
    """A function of the intermediate result that calls the user's in its own convention."""
    check.function(callback, "callback", "callable")
    try:
        parameters = list(inspect.signature(callback).parameters)
    except (TypeError, ValueError):  # a builtin without a signature
        parameters = []
    if parameters == ["intermediate_result"]:
        return lambda result: callback(intermediate_result=result)
    return lambda result: callback(result.x)


def check_record(record: Any) -> bool | str:
    """Return `record` as True, False or "path"; raise for anything else."""
    if isinstance(record, str):
        return check.one_of(record, "record", ("path",), other=("True", "False"))
    if not isinstance(record, bool | np.bool_):
        raise check.refusal(TypeError, "record", '"path", True or False', record)
    return bool(record)


def check_nonfinite(nonfinite: Any, checkpoint: Any) -> None:
    """Raise ValueError unless it is one of the names, and goes with the checkpoint, if any."""
    check.one_of(nonfinite, "nonfinite", ("stop", "raise", "skip"))
    if nonfinite == "skip" and checkpoint is not None:
        raise ValueError(
            'nonfinite="skip" keeps no checkpoints, for what was skipped is not in them; drop '
            'checkpoint=, or use nonfinite="stop"'
        )


def check_array_api(method: Any, **numpy_only: Any) -> None:
    """Raise ValueError for what is NumPy's only, where x0 is an array of another library."""
    for name, value in numpy_only.items():
        if value is not None:
            raise ValueError(f"{name}= is for NumPy arrays only; drop it, or give a NumPy x0")
    if is_marked(method):
        raise ValueError(
            f"{check.short_repr(method)} is for NumPy arrays only; give a NumPy x0, or use "
            'method="continuized"'
        )


def choose_method(problem: Problem, metric: Any, asked: bool) -> tuple[Any, Any, str]:
    """Choose (method, metric, the reason in a sentence) for method="auto".

    `asked`: whether other options ask for the process itself (L, prox, mirror, noise, a path...).
    """
    if metric is not None or asked:
        return "continuized", metric, 'Full gradients (method="continuized"), as the options ask.'
    if not isinstance(problem, Regression):
        return "continuized", None, REASON_KNOWN_L if problem.L is not None else REASON_UNKNOWN_L
    n, d = problem.row_count, problem.variables
    kind = best_kind(problem)
    # Where the Hessian is cheap in the space of the rows, the coordinates of the dual take longer.
    wide = d > EASILY_FACTORED and n < d and kind not in ("diag", "rows")
    has_dual = problem.is_here and problem.is_plain and problem.loss in (SQUARED, LOGISTIC)
    if wide and has_dual and _dual_is_well_conditioned(problem):
        # Imported here: no other run of `minimize` needs the marked methods.
        from continuized.marked.dual import DualCoordinate

        reason = f"{n} rows are fewer than {d} columns"
        return DualCoordinate(), None, f"Dual coordinates (cz.DualCoordinate()): {reason}."
    reason = REASONS[kind].format(problem)
    return "continuized", kind, f'Full gradients with metric="{kind}": {reason}.'


def add_support(
    problem: Problem, options: AdaptiveOptions, why: str, is_saved: bool
) -> tuple[AdaptiveOptions, str]:
    """Let a sparse regression take Newton's steps on its support; return why, too.

    Not where the run is saved to a checkpoint: what these steps keep between events is not in it.
    """
    prox = options.prox
    if not (isinstance(prox, Separable) and prox.has_l1):
        return options, why
    if not (isinstance(problem, Regression) and (problem.classes == 1 or problem.is_here)):
        return options, why
    if is_saved:
        return options, REASON_NO_SUPPORT
    return options._replace(support=SupportSolver(problem, prox, options.tol)), REASON_SUPPORT


def _dual_is_well_conditioned(problem: Any) -> bool:
    """Tell whether the curvature of a dual coordinate is small against its strong convexity."""
    n = len(problem.y)
    return bool(problem.curvature * problem.row_norms2.mean() <= MOST_KAPPA * n * problem.l2)


def as_composite(
    method: Any, L: Any, metric: Any, prox: Any, mirror: Any, noise: Any, shape: tuple[int, ...]
) -> Composite | None:
    """Return f + psi where its constants are known: L is given, or a Continuized, or the geometry
    finds L; None otherwise.

    Raises ValueError where psi goes with nothing else that is given.
    """
    by_name = isinstance(method, str) and method == "continuized"
    is_known = isinstance(method, Continuized) or (by_name and L is not None)
    if mirror is not None and not (is_known or by_name):
        raise ValueError('mirror= goes with method="continuized" or a cz.Continuized(L) only')
    if mirror is None and (prox is None or not is_known):
        return None
    if metric is not None:
        raise ValueError(PROX_AND_METRIC if mirror is None else MIRROR_AND_METRIC)
    return make_composite(prox, mirror, shape, noise)


def composite_method(
    composite: Composite, method: Any, problem: Problem, L: Any, mu: Any, x0: Array
) -> Continuized:
    """Return the method of a run on f + psi from x0, with its constants and its start."""
    if isinstance(composite, MirrorComposite) and isinstance(method, str):
        L = composite.find_L(problem, x0.shape) if L is None else L
        mu = 0.0 if mu is None else mu  # not the problem's own: there is no use for it
    return composite.begin(as_method(method, problem, L, mu), x0)


def is_adaptive(method: Any, problem: Any, L: Any, metric: Any, prox: Any, noise: Any) -> bool:
    """Tell whether the stepper for unknown constants, and for metrics, is the one.

    Raises ValueError where a metric or a prox is given to a stepper that has neither.
    """
    given = metric is not None or prox is not None
    if isinstance(method, str) and method == "continuized" and noise is None:
        # A regression computes its L when asked: do not ask where it is not needed.
        return given or (L is None and problem.L is None)
    if metric is not None:
        raise ValueError('metric= goes with method="continuized" and without noise=')
    if prox is not None:
        from continuized.marked.coordinate import CoordinateDescent

        if isinstance(method, CoordinateDescent):
            raise ValueError(
                "prox= of minimize is for full gradients; give it to the method, "
                "cz.CoordinateDescent(prox=...)"
            )
        name = method if isinstance(method, str) else getattr(method, "name", "given")
        raise ValueError(
            f'prox= goes with method="continuized" alone, not with {name!r}: without noise=, or '
            "with L= or a cz.Continuized(L, mu)"
        )
    return False


def adaptive_options(
    problem: Problem, L: Any, mu: Any, metric: Any, prox: Any, tol: float | None, record: Any,
    root: Root, shape: tuple[int, ...], skipping: bool = False, learns: bool = False,
) -> AdaptiveOptions:  # fmt: skip
    """Check the options of a run that adapts, and put them together.

    learns: whether a metric that is made on the way is corrected by the gradients.
    """
    if record == "path":
        raise ValueError("a path needs constants that do not change; give L=, or record=True")
    step = check_prox(prox, shape)
    named = isinstance(metric, str)
    if metric is not None and step is not None:
        raise ValueError(PROX_AND_METRIC)
    made = make_factory(metric, problem, root, learns) if named else None
    if mu is not None and L is None:
        raise ValueError("mu without L: give both, or neither (restarts stand in for mu)")
    method = None if L is None else Continuized(L, 0.0 if mu is None else mu)
    if method is not None and made is not None:
        raise ValueError("L and mu are not known in a metric that is made on the way; drop them")
    own = Identity() if metric is None or named else given_metric(metric, shape)
    return AdaptiveOptions(
        tol, own, made, step, method, bool(record),
        certified=metric is not None,  # without one, tol is for the gradient norm, as in all runs
        skipping=skipping,
    )  # fmt: skip
