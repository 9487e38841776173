"""`softmax`: time to a relative suboptimality of 1e-6 and of 1e-8 on l2-softmax regression.

Ours is `ContinuizedLogisticRegression`, beside scikit-learn's solvers.  A solver's time is that of
the loosest tol, on a grid, with which it gets there, ours too.  With intercepts, C = 1, and the
same objective for all: the mean loss + |W|^2 / (2 n).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks import data
from benchmarks.outcome import Panel, Suite
from benchmarks.peers import load
from benchmarks.race import Race, Solve
from benchmarks.timing import NotRunError, Say
from continuized.problems import SoftmaxRegression
from continuized.problems.base import Array

ITERATIONS = 3000
LARGEST_HESSIAN = 4_000  # variables; at 7,850 a Hessian takes scikit-learn a minute


class Size(NamedTuple):
    """How much is done.  A solver is given up when a trial takes more than `most` times ours."""

    synthetic: tuple[tuple[int, int, int], ...]  # rows, columns, classes
    repeats: int
    most: float
    precisions: tuple[float, ...] = (1e-6, 1e-8)
    digits: bool = True


FULL = Size(synthetic=((10_000, 100, 20), (60_000, 784, 10)), repeats=3, most=20.0)
QUICK = Size(synthetic=((2_000, 50, 5),), repeats=2, most=20.0)


def run(size: Size, say: Say) -> Suite:
    """The contests of this suite."""
    contests, panels = [], []
    for title, X, labels in _sets(size):
        n, d = X.shape
        p = SoftmaxRegression(X, labels, 1.0 / n, intercept=True)
        for precision in size.precisions:
            race = Race(p, size.most, ours, SOLVERS, precision)
            name = f"{title} {n:,} x {d:,}, {p.classes} classes"
            contests.append(race.run(f"time to {precision:.0e}, {name}", size.repeats, say))
        panels.append(Panel(name, "seconds", race.curves()))
    return Suite(contests, panels)


def _sets(size: Size) -> Any:
    """(title, X, labels), one at a time: they are large."""
    if size.digits:
        yield "handwritten digits,", *load("scikit-learn", "datasets").load_digits(return_X_y=True)
    for n, d, classes in size.synthetic:
        yield "softmax, synthetic,", *data.dense_classes(n, d, classes)


def ours(p: SoftmaxRegression, tol: float) -> Array:
    """Our estimator, which has its own measure of tol."""
    from continuized.adapters.sklearn import ContinuizedLogisticRegression

    model = ContinuizedLogisticRegression(tol=tol, random_state=0)
    return coefficients(model.fit(p.X, p.labels))


def sklearn(solver: str) -> Solve:
    """One of scikit-learn's solvers."""

    def solve(p: SoftmaxRegression, tol: float) -> Array:
        linear = load("scikit-learn", "linear_model")
        if solver == "newton-cholesky" and p.dim > LARGEST_HESSIAN:
            raise NotRunError(f"a Hessian of {p.dim:,} variables is too large")
        model = linear.LogisticRegression(
            C=1.0 / (p.l2 * len(p.y)), solver=solver, tol=tol, max_iter=ITERATIONS, random_state=0
        )
        return coefficients(model.fit(p.X, p.labels))

    return solve


def coefficients(model: Any) -> Array:
    """Those of a model as the problem has them: a row for each column of X, then the intercepts."""
    return np.vstack([model.coef_.T, model.intercept_])


SOLVERS: dict[str, Solve] = {
    f"scikit-learn, {solver}": sklearn(solver)
    for solver in ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga")
}
