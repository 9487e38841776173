"""How a regression is fitted: by runs to a rough tol, Newton's last steps, and runs on from there.

`cz.minimize` makes one run, whose every event the user may see.  A fit is told by its end alone:
it may leave the last digits to steps of Newton, and take another metric's word for how near the
minimum is.  The estimators are made of it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.problems.regression.huber import ScaledHuber
from continuized.process import clock
from continuized.process.prox import Separable
from continuized.process.random_streams import Root
from continuized.process.stepper import Limits
from continuized.solver.array_api import inner
from continuized.solver.loop import Loop
from continuized.solver.metric_factory import MetricFactory, make_factory
from continuized.solver.sparse_newton import SupportSolver
from continuized.solver.steppers.adaptive import AdaptiveOptions, AdaptiveStepper
from continuized.solver.steppers.evaluations import Evaluation
from continuized.support import blas
from continuized.support.progress import bar

# Three steps of Newton bring a run that is near to its end to rounding: so it need come to this
# many times tol only, and to this many units at most.
EARLY, NEAR = 10.0, 1e-3
KINKED = 0.1  # times tol, to which a run with Huber's loss goes on where they do not


class Fit(NamedTuple):
    """What came of a fit: the coefficients, its events, whether tol was reached, and the gap."""

    x: Array
    nit: int = 0
    success: bool = True
    gap: float = math.nan


@blas.on_one_thread()  # set once: what is within finds it so
def fit_regression(
    problem: Any,
    w0: Array,
    root: Root,
    tol: float,
    most: int,
    *,
    prox: Separable | None = None,
    unit: float = 1.0,
    slope: float | None = None,
    title: str = "",
) -> Fit:
    """Find the minimiser from w0, in at most so many events, to tol, which is given in a unit.

    Without prox, tol is that of the gradient in the dual norm of the Hessian, which is the norm
    of the error in the Hessian's: the error of the predictions, whatever the scales of the
    columns; with a slope, a run ends, too, where no entry of the gradient is above tol times
    that.  With prox it is that of the duality gap, or of the gradient mapping.  title: of the
    progress bar, where one is wanted.
    """
    options = AdaptiveOptions(tol, record=False, certified=False)
    if prox is not None:
        options = options._replace(prox=prox, support=SupportSolver(problem, prox))
        return _run(problem, w0, options, root, most, title)[0]
    factory = make_factory("auto", problem, root, learns=True)
    options, taken = options._replace(factory=factory), 0
    if factory.is_cheap and problem.loss != SQUARED:
        early = min(EARLY * tol, NEAR * unit)
        if early > tol:
            rough = options._replace(tol=early, trusts_guess=True)  # what follows is measured
            fit, end = _run(problem, w0, rough, root, most, title)
            x = _take_last_steps(problem, end, factory, tol) if fit.success else None
            if x is not None or not fit.success or fit.nit >= most:
                return fit._replace(x=fit.x if x is None else x, success=x is not None)
            taken = fit.nit  # Newton's steps do not lead there: anew
            if isinstance(problem, ScaledHuber):
                # It has kinks, and its metric is above the Hessian: it shows too little.
                options = options._replace(tol=KINKED * tol)
    elif slope is not None:
        # Of columns smaller than 1, in their own units; empty ones have no slope.
        sizes = np.sqrt(np.where(problem.column_scales > 0.0, problem.column_scales, 1.0))
        each = slope * np.minimum(1.0 / unit, sizes)
        options = options._replace(slopes=np.repeat(each, problem.classes))
    fit, end = _run(problem, w0, options, root, most - taken, title)
    fit = fit._replace(nit=taken + fit.nit)
    if not fit.success:
        return fit
    x = _take_last_steps(problem, end, factory, tol) if problem.loss != SQUARED else None
    return fit if x is None else fit._replace(x=x)


def _run(
    problem: Any, w0: Array, options: AdaptiveOptions, root: Root, most: int, title: str
) -> tuple[Fit, Evaluation]:
    """Run to the tol of the options, and return what came of it and the last point measured.

    Without prox, a run that comes there takes one step more, which is not measured.
    """
    stepper = AdaptiveStepper(problem, w0, options)
    with bar(title, most, title != "") as show:
        loop = Loop(stepper, clock.Poisson(root), Limits(options.tol, most), bar=show)
        status = loop.run()
    end, gap, x = stepper.end, stepper.end_gap, stepper.end.y
    # Not where the diagonal is all that is known: L may be large in it.
    if (
        options.prox is None
        and status.success
        and (stepper.metric.changes or not stepper.metric.corrects)
    ):
        x = x - end.q
    return Fit(x, stepper.k, status.success, math.nan if gap is None else gap), end


def _take_last_steps(
    problem: Any, end: Evaluation, factory: MetricFactory, tol: float
) -> Array | None:
    """Take three steps of Newton with one Hessian from where a run has ended; None where the
    gradient after two is above tol, and where the Hessian is dear or not definite."""
    sharp = factory.sharpen(end.y)
    if sharp is None:
        return None
    x = end.y - sharp.solve(end.g)
    x = x - sharp.solve(problem.grad(x))
    g = problem.grad(x)
    q = sharp.solve(g)
    return x - q if inner(g, q) <= tol * tol else None
