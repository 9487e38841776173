"""Questions whose answers are sums over rows, for `Regression.sum_over_rows`.

Each is a function of a regression with some of the rows, and without a penalty, and of the numbers
of the rows that it is to answer for; those that take no `index` into account are for all rows.  A
mean over a shard's rows times their number is their part in the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import NOT_FINITE, Array
from continuized.problems.regression.spectrum import column_gram, measure


def sum_losses(p: Any, index: Any, w: Array, gradient: bool) -> tuple[Array, ...]:
    """Return the sum of the losses at w and, if asked for, its gradient."""
    n = p.row_count
    with np.errstate(**NOT_FINITE):
        if not gradient:
            return (np.array(n * p.fun(w)),)
        f, g = p.value_and_gradient(w)
        return np.array(n * f), n * g


def sum_slopes(p: Any, index: Any, w: Array) -> Array:
    """Return the gradient at w of the sum of the losses."""
    with np.errstate(**NOT_FINITE):
        return np.asarray(p.row_count * p.grad(w))


def sum_hessian(p: Any, index: Any, w: Array, variables: Array | None) -> Array:
    """Return the Hessian at w of the sum of the losses, for these variables or for all."""
    return np.asarray(p.row_count * p.hessian_block(w, variables))


def sum_squares(p: Any, index: Any) -> Array:
    """Return, for each column, the sum of the weighted squares of its entries."""
    return np.asarray(p.square_sums)


def sum_columns(p: Any, index: Any) -> Array:
    """Return the weighted sum of each column, and that of the weights for the intercept."""
    sums = p.row_count * p.column_means
    if p.intercept:
        sums[-1] = p.row_count if p.shares is None else p.shares.sum()
    return np.asarray(sums)


def sum_products(p: Any, index: Any, v: Array) -> Array:
    """Return the sum of weights_i a_i <a_i, v>."""
    return np.asarray(p.row_count * p.mean_squares(np.zeros(p.row_count), v))


def sum_outer_products(p: Any, index: Any) -> Array:
    """Return the sum of weights_i a_i a_i^T."""
    return column_gram(p.X if p.is_plain else p.sample_rows(index))


def measure_rows(p: Any, index: Any) -> tuple[Array, ...]:
    """Return what a bound of the spectrum needs (`spectrum.measure`)."""
    square, rows, columns = measure(p.X if p.is_plain else p.sample_rows(index))
    return np.array(square), np.array(rows), columns


def count_misplaced(p: Any, index: Any, w: Array) -> Array:
    """Count the rows of a logistic regression whose prediction has not the sign of y."""
    return np.array(np.count_nonzero(~(p.y[index] * p.predictions(w, index) > 0.0)))


def take_sample(p: Any, index: Any, w: Array) -> tuple[Array, ...]:
    """Return `sample_curvatures` as plain arrays: q, and X or what a CSR array is made of."""
    rows, q = p.sample_curvatures(w, index)
    return (q, rows.data, rows.indices, rows.indptr) if p.is_sparse else (q, np.asarray(rows))
