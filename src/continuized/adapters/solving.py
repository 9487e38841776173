"""The solver behind the estimators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from continuized.minimizer import minimize
from continuized.problems.base import Array

LARGEST_METRIC = 2000


def solve(
    problem: Any, w0: Array, tol: float, max_iter: int, seed: int | None
) -> tuple[Array, int]:
    """The minimiser from w0, and the number of iterations.

    TO BE REPLACED by `cz.minimize(problem, w0, metric="auto", ...)`: until then, Nesterov's
    method with restarts in the metric of all rows, until the gradient's dual norm is at most tol.
    """
    if problem.X.shape[1] > LARGEST_METRIC:
        r = minimize(problem, w0, tol=tol, maxiter=max_iter, seed=seed, record=False)
        return r.x, int(r.nit)
    rows = problem.sample_rows(slice(None))
    gram = rows.T @ rows
    gram = np.asarray(gram.toarray() if problem.is_sparse else gram, dtype=np.float64)
    diagonal = np.diag(gram) + 1e-3 * np.diag(gram).max() + 1e-300
    P = problem.curvature * gram / len(problem.y) + 1e-13 * np.diag(diagonal)
    P += problem.l2 * np.diag(np.arange(len(P)) < problem.X.shape[1])
    R = np.linalg.cholesky(P)
    shape = (len(P), -1)

    def point(v: Array) -> Array:
        return np.asarray(solve_triangular(R, v.reshape(shape), lower=True, trans="T")).ravel()

    def gradient(v: Array) -> Array:
        g = problem.value_and_gradient(point(v))[1]
        return np.asarray(solve_triangular(R, g.reshape(shape), lower=True)).ravel()

    x = y = (R.T @ w0.reshape(shape)).ravel()
    t = 1.0
    for k in range(max_iter):
        g = gradient(y)
        if np.linalg.norm(g) <= tol:
            return point(y), k
        new = y - g
        if g @ (new - x) > 0.0:
            t = 1.0
        t, before = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t)), t
        y, x = new + (before - 1.0) / t * (new - x), new
    return point(x), max_iter
