"""The solver behind the estimators."""

from __future__ import annotations

from typing import Any

from continuized.problems.base import Array
from continuized.process import clock
from continuized.process import random_streams as seeds
from continuized.solver import adaptive
from continuized.solver import metric_factory as curvature
from continuized.solver.setting import Setting
from continuized.solver.stopping import Limits


def solve(
    problem: Any, w0: Array, tol: float, max_iter: int, seed: int | None
) -> tuple[Array, int, bool]:
    """The minimiser from w0, the number of iterations, and whether tol was reached.

    tol is that of the gradient in the dual norm of the Hessian, which is the norm of the error
    in the Hessian's: the error of the predictions, whatever the scales of the columns.
    """
    root = seeds.seed_sequence(seed)
    setting = Setting(
        Limits(tol, max_iter),
        source=curvature.source("auto", problem, root),
        record=False,
        certified=False,
    )
    r = adaptive.Run(problem, w0, clock.Poisson(root).stream(), setting).go()
    return r.x, int(r.nit), bool(r.success)
