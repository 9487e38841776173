"""The peers of `penalised`: solvers of ridge regression and of the lasso, without intercept."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import continuized as cz
from benchmarks.peers import as_matrix, load
from benchmarks.race import Solve
from continuized.problems import LeastSquares
from continuized.problems.base import Array

ITERATIONS = 10_000


class Lasso(NamedTuple):
    """|Xw - y|^2 / (2n) + weight |w|_1."""

    smooth: LeastSquares
    l1: cz.prox.L1

    def fun(self, w: Array) -> float:
        return self.smooth.fun(w) + self.l1.value(w)

    @property
    def weight(self) -> float:
        return float(self.l1.weight)


def sklearn_ridge(solver: str) -> Solve:
    """One of scikit-learn's solvers."""

    def solve(p: LeastSquares, tol: float) -> Array:
        linear = load("scikit-learn", "linear_model")
        model = linear.Ridge(
            p.l2 * len(p.y), fit_intercept=False, solver=solver, tol=tol, random_state=0
        )
        w: Array = model.fit(as_matrix(p.X), p.y).coef_
        return w

    return solve


def cyanure_ridge(p: LeastSquares, tol: float) -> Array:
    """Its default solver."""
    return _cyanure(p, "l2", p.l2, tol)


def cyanure_lasso(p: Lasso, tol: float) -> Array:
    """Its default solver."""
    return _cyanure(p.smooth, "l1", p.weight, tol)


def _cyanure(p: LeastSquares, penalty: str, weight: float, tol: float) -> Array:
    estimators = load("cyanure", "estimators")
    model = estimators.Regression(
        penalty=penalty, lambda_1=weight, fit_intercept=False, tol=tol,
        max_iter=ITERATIONS, verbose=False,
    )  # fmt: skip
    model.fit(as_matrix(p.X), p.y)
    w: Array = np.asarray(model.get_weights()).ravel()
    return w


def skglm_ridge(p: LeastSquares, tol: float) -> Array:
    """Coordinate descent on the elastic net without its l1 part."""
    penalty = load("skglm", "penalties").L1_plus_L2(p.l2, 0.0)
    return _skglm(p, penalty, tol)


def skglm_lasso(p: Lasso, tol: float) -> Array:
    """Coordinate descent on working sets."""
    return _skglm(p.smooth, load("skglm", "penalties").L1(p.weight), tol)


def _skglm(p: LeastSquares, penalty: Any, tol: float) -> Array:
    solver = load("skglm", "solvers").AndersonCD(tol=tol, fit_intercept=False)
    quadratic = load("skglm", "datafits").Quadratic()
    w: Array = solver.solve(as_matrix(p.X, columns=True), p.y, quadratic, penalty)[0]
    return w


def sklearn_lasso(p: Lasso, tol: float) -> Array:
    """Coordinate descent."""
    linear = load("scikit-learn", "linear_model")
    model = linear.Lasso(p.weight, fit_intercept=False, tol=tol, max_iter=ITERATIONS)
    w: Array = model.fit(as_matrix(p.smooth.X, columns=True), p.smooth.y).coef_
    return w


def celer(p: Lasso, tol: float) -> Array:
    """Coordinate descent on working sets."""
    model = load("celer").Lasso(p.weight, fit_intercept=False, tol=tol)
    w: Array = model.fit(as_matrix(p.smooth.X, columns=True), p.smooth.y).coef_
    return w


RIDGE: dict[str, Solve] = {
    **{
        f"scikit-learn, {solver}": sklearn_ridge(solver)
        for solver in ("auto", "lsqr", "sparse_cg", "saga")
    },
    "cyanure": cyanure_ridge,
    "skglm": skglm_ridge,
}
LASSO: dict[str, Solve] = {
    "scikit-learn": sklearn_lasso,
    "cyanure": cyanure_lasso,
    "skglm": skglm_lasso,
    "celer": celer,
}
