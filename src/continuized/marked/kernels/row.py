"""Events that touch a row, or a batch of rows, mixed lazily as those of a coordinate.

The rows are given as `layout.Columns` are: row i is values[indptr[i]:indptr[i + 1]], in the
coordinates `indices`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from continuized.marked.kernels.columns import (
    are_far,
    column_slope,
    fetch_column,
    fetch_images,
    subtract_column,
)
from continuized.marked.kernels.coordinate import (
    AHEAD,
    ALPHA,
    BETA,
    IMAGES_AHEAD,
    ONE,
    is_due,
    rebase,
)
from continuized.marked.kernels.layout import REBASED
from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.process.coefficients import GAMMA_PRIME, A, B
from continuized.process.flow import mix
from continuized.support.jit import fetch, jit


class Rows(NamedTuple):
    """What the rows of the data are multiplied by, and their labels."""

    factors: Array
    rhs: Array


@jit
def row_events(marks, coefficients, rows, columns, step, accelerated, scalars, pairs):
    """Stochastic least squares: at a mark i, with the residual r of the row a = factors_i a_i,
    x -= step r a and z -= gamma' r a."""
    factors, rhs = rows
    indptr, indices, values = columns
    alpha, beta = scalars[ALPHA], scalars[BETA]
    far = are_far(indices, pairs)
    for e in range(marks.size):
        if e + AHEAD < marks.size:
            coming = marks[e + AHEAD]
            fetch(factors, coming)
            fetch(rhs, coming)
            fetch_column(coming, indptr, indices, values)
        if e + 2 * AHEAD < marks.size:
            fetch(indptr, marks[e + 2 * AHEAD])  # which fetch_column reads
        if far and e + IMAGES_AHEAD < marks.size:
            fetch_images(marks[e + IMAGES_AHEAD], indptr, indices, pairs)
        i = np.uintp(marks[e])
        begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
        gamma_prime = coefficients[e, GAMMA_PRIME]
        if accelerated:
            alpha, beta = mix(alpha, beta, coefficients[e, A], coefficients[e, B])
            if is_due(alpha, beta):
                rebase(alpha, beta, pairs)
                alpha, beta = REBASED
        residual = column_slope(SQUARED, alpha, begin, end, indices, values, None, pairs) - rhs[i]
        residual *= factors[i] * factors[i]
        dd = (step - gamma_prime) * residual / (alpha - beta) if accelerated else 0.0
        ds = step * residual - alpha * dd
        subtract_column(begin, end, indices, values, ds, dd, pairs)
    scalars[ALPHA], scalars[BETA] = alpha, beta


@jit
def batch_events(marks, coefficients, rows, columns, step, accelerated, scalars, pairs):
    """Least squares in batches: at a row of marks, with g the mean over its marks i of r_i a_i,
    r_i the residual of the row a_i = factors_i times the data's, x -= step g and z -= gamma' g.

    All residuals are of the same x: they are taken before anything is subtracted.
    """
    factors, rhs = rows
    indptr, indices, values = columns
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
