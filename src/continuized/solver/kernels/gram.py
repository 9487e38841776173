"""Products and solutions for metrics, compiled.  Imports Numba: load it only where it is used.

Not by BLAS: its threads go on spinning after a call, on the cores that the next pass over the
data wants (`support.threads`).
"""

from __future__ import annotations

import math

import numpy as np

from continuized.support.jit import in_numpy, jit


def _solve_cholesky_in_numpy(factor, rows):
    from scipy.linalg import cho_solve

    rows[:] = cho_solve((factor, True), rows.T, check_finite=False).T


@jit
def factor_cholesky(half):
    """Factor a symmetric matrix in place: the lower triangle becomes Cholesky's factor, the upper
    one stays; return whether it is positive definite.

    Every entry is a product of two rows, as they stand in memory.
    """
    for i in range(half.shape[0]):
        line = half[i]
        for j in range(i + 1):
            other, total = half[j], line[j]
            for c in range(j):
                total -= line[c] * other[c]
            if j < i:
                line[j] = total / other[j]
            elif total > 0.0:
                line[i] = math.sqrt(total)
            else:
                return False
    return True


@jit
@in_numpy(_solve_cholesky_in_numpy)
def solve_cholesky(factor, rows):
    """Solve F F^T x = v for each row v of `rows`, in place; F is the lower triangle of factor.

    Both substitutions go along the rows of F, as they stand in memory.
    """
    for c in range(rows.shape[0]):
        v = rows[c]
        for i in range(v.size):
            line, total = factor[i], v[i]
            for j in range(i):
                total -= line[j] * v[j]
            v[i] = total / line[i]
        for i in range(v.size - 1, -1, -1):
            line = factor[i]
            v[i] /= line[i]
            value = v[i]
            for j in range(i):
                v[j] -= line[j] * value


def _solve_secant_in_numpy(entries, changes, v):
    along = np.einsum("ij,ij->i", changes[:, 0], changes[:, 1])
    pairs = [(s, y, sy) for (s, y), sy in zip(changes, along, strict=True) if sy > 0.0]
    shares = []
    for s, y, sy in reversed(pairs):
        shares.append(s @ v / sy)
        v -= shares[-1] * y
    scale = 1.0
    if len(along) and along[-1] > 0.0:
        scale = along[-1] / (changes[-1, 1] ** 2 / entries).sum()
    v *= scale / entries
    for (s, y, sy), share in zip(pairs, reversed(shares), strict=True):
        v += (share - y @ v / sy) * s


@jit
@in_numpy(_solve_secant_in_numpy)
def solve_secant(entries, changes, v):
    """Apply the inverse of a secant metric to v, in place; see `metric.Secant`."""
    last = changes.shape[0] - 1
    along, shares = np.zeros(last + 1), np.zeros(last + 1)
    for i in range(last, -1, -1):
        s, y = changes[i, 0], changes[i, 1]
        product = 0.0
        for j in range(v.size):
            along[i] += s[j] * y[j]
            product += s[j] * v[j]
        if along[i] > 0.0:
            shares[i] = product / along[i]
            for j in range(v.size):
                v[j] -= shares[i] * y[j]
    scale = 1.0
    if last >= 0 and along[last] > 0.0:
        y, square = changes[last, 1], 0.0
        for j in range(v.size):
            square += y[j] * y[j] / entries[j]
        scale = along[last] / square
    for j in range(v.size):
        v[j] *= scale / entries[j]
    for i in range(last + 1):
        s, y = changes[i, 0], changes[i, 1]
        if along[i] > 0.0:
            product = 0.0
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
