"""Events that touch several rows at once, mixed lazily as those of one row (`lazy`)."""

from __future__ import annotations

import numpy as np

from continuized.marked.kernels.columns import column_slope, fetch_column, subtract_column
from continuized.marked.kernels.coordinate import ALPHA, BETA, is_due, rebase
from continuized.marked.kernels.layout import REBASED
from continuized.problems.losses import SQUARED
from continuized.process.coefficients import GAMMA_PRIME, A, B
from continuized.process.flow import mix
from continuized.support.jit import jit


@jit
def batch_events(
    marks, coefficients, factors, step, indptr, indices, values, rhs, accelerated, scalars, pairs
):
    """Least squares in batches: at a row of marks, with g the mean over its marks i of r_i a_i,
    r_i the residual of the row a_i = factors_i times the data's, x -= step g and z -= gamma' g.

    All residuals are of the same x: they are taken before anything is subtracted.
    """
    batch = marks.shape[1]
    residuals = np.empty(batch)
    alpha, beta = scalars[ALPHA], scalars[BETA]
    for e in range(marks.shape[0]):
        if e + 1 < marks.shape[0]:
            for j in range(batch):
                fetch_column(marks[e + 1, j], indptr, indices, values)
        gamma_prime = coefficients[e, GAMMA_PRIME]
        if accelerated:
            alpha, beta = mix(alpha, beta, coefficients[e, A], coefficients[e, B])
            if is_due(alpha, beta):
                rebase(alpha, beta, pairs)
                alpha, beta = REBASED
        for j in range(batch):
            i = np.uintp(marks[e, j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
            slope = column_slope(SQUARED, alpha, begin, end, indices, values, None, pairs)
            residuals[j] = factors[i] * factors[i] * (slope - rhs[i]) / batch
        for j in range(batch):
            i = np.uintp(marks[e, j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
            dd = (step - gamma_prime) * residuals[j] / (alpha - beta) if accelerated else 0.0
            ds = step * residuals[j] - alpha * dd
            subtract_column(begin, end, indices, values, ds, dd, pairs)
    scalars[ALPHA], scalars[BETA] = alpha, beta
