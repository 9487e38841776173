"""The peers of `logistic`: solvers that minimise the mean loss + l2/2 |w|^2, without intercept."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import as_matrix, load
from benchmarks.race import Solve
from benchmarks.timing import NotRunError
from continuized.problems import LogisticRegression
from continuized.problems.base import Array

ITERATIONS = 2000
LARGEST_HESSIAN = 2_000  # columns; at 50,000 it would take 20 GB


def sklearn(solver: str) -> Solve:
    """One of scikit-learn's solvers."""

    def solve(p: LogisticRegression, tol: float) -> Array:
        linear = load("scikit-learn", "linear_model")
        if solver == "newton-cholesky" and p.dim > LARGEST_HESSIAN:
            raise NotRunError(f"a Hessian of {p.dim:,} columns is too large")
        model = linear.LogisticRegression(
            C=1.0 / (p.l2 * len(p.y)), fit_intercept=False, solver=solver, tol=tol,
            max_iter=ITERATIONS, random_state=0,
        )  # fmt: skip
        w: Array = model.fit(p.X, p.y).coef_.ravel()
        return w

    return solve


def cyanure(p: LogisticRegression, tol: float) -> Array:
    """Its default solver."""
    estimators = load("cyanure", "estimators")
    model = estimators.Classifier(
        loss="logistic", penalty="l2", lambda_1=p.l2, fit_intercept=False, tol=tol,
        max_iter=ITERATIONS, verbose=False,
    )  # fmt: skip
    model.fit(as_matrix(p.X), p.y)
    w: Array = np.asarray(model.get_weights()).ravel()
    return w


def skglm(solver: str) -> Solve:
    """One of skglm's solvers; the elastic net without its l1 part, where that is all it takes."""

    def solve(p: LogisticRegression, tol: float) -> Array:
        solvers, penalties = load("skglm", "solvers"), load("skglm", "penalties")
        options: dict[str, Any] = {"tol": tol, "max_iter": ITERATIONS}
        if solver == "LBFGS":
            penalty = penalties.L2(p.l2)
        else:
            penalty = penalties.L1_plus_L2(p.l2, 0.0)
            options["fit_intercept"] = False
        logistic = load("skglm", "datafits").Logistic()
        X = as_matrix(p.X, columns=True)
        w: Array = getattr(solvers, solver)(**options).solve(X, p.y, logistic, penalty)[0]
        return w

    return solve


SOLVERS: dict[str, Solve] = {
    **{
        f"scikit-learn, {solver}": sklearn(solver)
        for solver in ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga")
    },
    "cyanure": cyanure,
    **{f"skglm, {solver}": skglm(solver) for solver in ("LBFGS", "ProxNewton")},
}
