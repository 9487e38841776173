"""Products and solutions for metrics, compiled.  Imports Numba: load it only where it is used."""

from __future__ import annotations

import numpy as np

from continuized.support.cholesky import factor_in_place, solve_in_place
from continuized.support.jit import in_numpy, jit, jit_uncounted

factor_cholesky = jit_uncounted(factor_in_place)


@jit
def solve_cholesky(factor, rows):
    """Solve F F^T x = v for each row v of `rows`, in place; F is the lower triangle of factor."""
    for c in range(rows.shape[0]):
        solve_in_place(factor, rows[c])


def _remove_changes_in_numpy(changes, along, v):
    shares = np.zeros(len(along))
    for i in np.flatnonzero(along > 0.0)[::-1]:
        shares[i] = changes[i, 0] @ v / along[i]
        v -= shares[i] * changes[i, 1]
    return shares


@jit
@in_numpy(_remove_changes_in_numpy)
def remove_changes(changes, along, v):
    """Take out of v, in place, the changes of the gradient, the last one first; return the share of
    each.  The first half of `metric.Secant.solve`."""
    shares = np.zeros(along.size)
    for i in range(along.size - 1, -1, -1):
        if along[i] > 0.0:
            s, y, product = changes[i, 0], changes[i, 1], 0.0
            for j in range(v.size):
                product += s[j] * v[j]
            shares[i] = product / along[i]
            for j in range(v.size):
                v[j] -= shares[i] * y[j]
    return shares


def _add_changes_in_numpy(changes, along, shares, v):
    for i in np.flatnonzero(along > 0.0):
        v += (shares[i] - changes[i, 1] @ v / along[i]) * changes[i, 0]


@jit
@in_numpy(_add_changes_in_numpy)
def add_changes(changes, along, shares, v):
    """Add to v, in place, the changes of x by these shares, less what v has of them: the second
    half."""
    for i in range(along.size):
        if along[i] > 0.0:
            s, y, product = changes[i, 0], changes[i, 1], 0.0
            for j in range(v.size):
                product += y[j] * v[j]
            share = shares[i] - product / along[i]
            for j in range(v.size):
                v[j] += share * s[j]


def _add_sparse_gram_in_numpy(values, indptr, indices, first, last, out):
    from scipy.sparse import csr_array, triu

    rows = csr_array((values, indices, indptr), shape=(len(indptr) - 1, len(out)))[first:last]
    out += triu(rows.T @ rows).toarray()


@jit
@in_numpy(_add_sparse_gram_in_numpy)
def add_sparse_gram(values, indptr, indices, first, last, out):
    """out += sum of x_i x_i^T over rows first, ..., last - 1, in the upper triangle.

    The indices of a row are sorted.
    """
    for i in range(first, last):
        begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
        for p in range(begin, end):
            value, line = values[p], out[np.uintp(indices[p])]
            for q in range(p, end):
                line[np.uintp(indices[q])] += value * values[q]
