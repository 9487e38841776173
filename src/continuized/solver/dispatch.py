"""Which loop, which method and which metric: what `minimize` decides, and why."""

from __future__ import annotations

from typing import Any

from continuized.marked.dual import DualCoordinate
from continuized.problems import Problem
from continuized.problems.losses import SOFTMAX
from continuized.problems.regression.linear import Linear
from continuized.process import random_streams as seeds
from continuized.process.methods import Continuized
from continuized.process.prox import checked_prox
from continuized.solver.metric import Identity, given_metric
from continuized.solver.metric_factory import best_kind, filled, make_factory
from continuized.solver.steppers.adaptive import AdaptiveOptions

FEW = 300  # variables: a factorisation takes no time
MOST_KAPPA = 1e4  # of the dual: beyond, it takes hundreds of passes
OWN = 'It is the process with the constants of the problem (method="continuized").'
FOUND = 'L is found on the way, and restarts stand in for mu (method="continuized").'


def chosen_for(problem: Problem, metric: Any, asked: bool) -> tuple[Any, Any, str]:
    """(method, metric, the reason in a sentence) for method="auto".

    `asked`: whether other options ask for the process itself (L, mu, prox, noise, a path).
    """
    if metric is not None or asked:
        return "continuized", metric, 'Full gradients (method="continuized"), as the options ask.'
    if not isinstance(problem, Linear):
        return "continuized", None, OWN if problem.L is not None else FOUND
    n, d = len(problem.y), problem.variables
    kind = best_kind(problem)
    wide = d > FEW and n < d and kind != "diag" and problem.loss != SOFTMAX
    if wide and problem.is_plain and _dual_is_well_conditioned(problem):
        reason = f"{n} rows are fewer than {d} columns"
        return DualCoordinate(), None, f"Dual coordinates (cz.DualCoordinate()): {reason}."
    reason = {
        "gram": f"the Hessian of {d} variables is cheap to factorise",
        "diag": f"only {filled(problem.X):.2g} of X is not zero, and its Hessian nearly diagonal",
        "nystrom": f"{d} variables are too many to factorise the Hessian",
    }[kind]
    return "continuized", kind, f'Full gradients with metric="{kind}": {reason}.'


def _dual_is_well_conditioned(problem: Any) -> bool:
    """The curvature of a coordinate there, against its strong convexity."""
    n = len(problem.y)
    return bool(problem.curvature * problem.row_norms2.mean() <= MOST_KAPPA * n * problem.l2)


def is_adaptive(method: Any, problem: Any, L: Any, metric: Any, prox: Any, noise: Any) -> bool:
    """Whether the loop for unknown constants, metrics and proximal steps is the one."""
    if not _is_named_and_exact(method, noise):
        return False
    # A regression computes its L when asked: do not ask where it is not needed.
    return metric is not None or prox is not None or (L is None and problem.L is None)


def check_metric_and_prox(method: Any, metric: Any, prox: Any, noise: Any) -> None:
    """ValueError where a metric or a prox is given to a loop that has neither."""
    given = metric is not None or prox is not None
    if given and not _is_named_and_exact(method, noise):
        raise ValueError('metric= and prox= go with method="continuized" and without noise=')


def _is_named_and_exact(method: Any, noise: Any) -> bool:
    return isinstance(method, str) and method == "continuized" and noise is None


def adaptive_options(
    problem: Problem, L: Any, mu: Any, metric: Any, prox: Any, tol: float | None, record: Any,
    root: seeds.Root, shape: tuple[int, ...], skipping: bool = False,
) -> AdaptiveOptions:  # fmt: skip
    """The options of such a run, checked."""
    if record == "path":
        raise ValueError("a path needs constants that do not change; give L=, or record=True")
    step = checked_prox(prox, shape)
    named = isinstance(metric, str)
    if metric is not None and step is not None:
        raise ValueError("metric= and prox= do not go together: prox is a step in the plain norm")
    made = make_factory(metric, problem, root) if named else None
    if mu is not None and L is None:
        raise ValueError("mu without L: give both, or neither (restarts stand in for mu)")
    method = None if L is None else Continuized(L, 0.0 if mu is None else mu)
    if method is not None and made is not None:
        raise ValueError("L and mu are not known in a metric that is made on the way; drop them")
    own = Identity() if metric is None or named else given_metric(metric, shape)
    return AdaptiveOptions(tol, own, made, step, method, bool(record), skipping=skipping)
