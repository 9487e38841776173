"""Compiled functions and gradients.  Imports Numba: load it only where it is used.

Every function here takes the packed `data` of `problems.base.pack`, (matrix, vector, ints):

    quadratic   matrix: the eigenvalues and x* as two rows
    dense       matrix: X             vector: the loss, l2, and y
    csr         matrix: X's entries   vector: the same         ints: X's indptr and indices

Without type hints, for Numba infers the types.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.jit import compile_formulas, fetch, gradient_type, jit, value_type
from continuized.problems.base import Array, Compiled
from continuized.problems.losses import (
    FORMULAS,
    four_losses,
    half_square,
    linear_slope,
    loss,
    loss_slope,
    slope_by_tail,
    tail,
)

CSR_BLOCK = 4096  # rows whose predictions are kept at once
FETCHED = 16  # entries of a dense row that are asked for ahead

compile_formulas(*FORMULAS)


def quadratic_fun(x, data):
    matrix, _, _ = data
    total = 0.0
    for i in range(x.size):
        total += half_square(matrix[0, i], x[i] - matrix[1, i])
    return total


def quadratic_grad(x, out, data):
    matrix, _, _ = data
    for i in range(x.size):
        out[i] = linear_slope(matrix[0, i], x[i] - matrix[1, i])


def _dot(v, w):
    total = 0.0
    for j in range(w.size):
        total += v[j] * w[j]
    return total


compile_formulas(_dot)


def four_rows(kind, p, y, i, want_value):
    """The sum of four losses (0 if it is not wanted), and their slopes."""
    y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
    e0, e1 = tail(kind, p[0], y0), tail(kind, p[1], y1)
    e2, e3 = tail(kind, p[2], y2), tail(kind, p[3], y3)
    total = four_losses(kind, p, (y0, y1, y2, y3), (e0, e1, e2, e3)) if want_value else 0.0
    c0, c1 = slope_by_tail(kind, p[0], y0, e0), slope_by_tail(kind, p[1], y1, e1)
    c2, c3 = slope_by_tail(kind, p[2], y2, e2), slope_by_tail(kind, p[3], y3, e3)
    return total, c0, c1, c2, c3


compile_formulas(four_rows)


def dense_rows(X, y, kind, w, out, first, last, want_value, want_slope):
    """Rows first, ..., last - 1: adds sum_i slope_i x_i to out, returns the sum of the losses.

    One pass: each row is used twice while it is in cache.  Eight rows at a time, so that w
    and out are read and written once for eight rows of X.  The second use leaves the memory
    idle, so the beginnings of the next eight rows are asked for before it.
    """
    total = 0.0
    i = first
    while i + 8 <= last:
        row0, row1, row2, row3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        row4, row5, row6, row7 = X[i + 4], X[i + 5], X[i + 6], X[i + 7]
        p0 = p1 = p2 = p3 = p4 = p5 = p6 = p7 = 0.0
        for j in range(w.size):
            p0 += row0[j] * w[j]
            p1 += row1[j] * w[j]
            p2 += row2[j] * w[j]
            p3 += row3[j] * w[j]
            p4 += row4[j] * w[j]
            p5 += row5[j] * w[j]
            p6 += row6[j] * w[j]
            p7 += row7[j] * w[j]
        low, c0, c1, c2, c3 = four_rows(kind, (p0, p1, p2, p3), y, i, want_value)
        high, c4, c5, c6, c7 = four_rows(kind, (p4, p5, p6, p7), y, i + 4, want_value)
        total += low + high
        if want_slope:
            for j in range(0, min(FETCHED, w.size), 8):  # a line of the cache is 8 floats
                for row in range(i + 8, i + 16):
                    fetch(X, row * w.size + j)  # past the end of X it does nothing
            for j in range(w.size):
                out[j] += (
                    (c0 * row0[j] + c1 * row1[j] + c2 * row2[j] + c3 * row3[j])
                    + (c4 * row4[j] + c5 * row5[j] + c6 * row6[j] + c7 * row7[j])
                )  # fmt: skip
        i += 8
    while i < last:
        row0 = X[i]
        p0 = _dot(row0, w)
        if want_value:
            total += loss(kind, p0, y[i])
        if want_slope:
            c0 = loss_slope(kind, p0, y[i])
            for j in range(w.size):
                out[j] += c0 * row0[j]
        i += 1
    return total


def csr_rows(values, indptr, indices, y, kind, w, out, first, last, want_value, want_slope):
    """The same for sparse rows, in blocks: dots, then losses, then the scatter.

    Apart, the dots of many rows overlap their cache misses; joined row by row, each row
    would wait for its exp.  Unsigned, an index is not tested for counting from the end:
    1.6 times quicker for the dots, twice for the scatter.
    """
    total = 0.0
    c = np.empty(min(CSR_BLOCK, max(last - first, 0)))
    for start in range(first, last, CSR_BLOCK):
        stop = min(start + CSR_BLOCK, last)
        for i in range(start, stop):
            prediction = 0.0
            for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
                prediction += values[p] * w[np.uintp(indices[p])]
            c[i - start] = prediction
        if want_value:
            for i in range(start, stop):
                total += loss(kind, c[i - start], y[i])
        if want_slope:
            for i in range(start, stop):
                c[i - start] = loss_slope(kind, c[i - start], y[i])
            for i in range(start, stop):
                slope = c[i - start]
                for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
                    out[np.uintp(indices[p])] += slope * values[p]
    return total


compile_formulas(dense_rows, csr_rows)


def _ridge(w, out, n, l2):
    for j in range(w.size):
        out[j] = out[j] / n + l2 * w[j]


def _csr_parts(data):
    values, vector, ints = data
    n = vector.size - 2
    return values[0], ints[: n + 1], ints[n + 1 :], vector[2:]


compile_formulas(_ridge, _csr_parts)


def dense_fun(w, data):
    X, vector, _ = data
    kind, l2, y = vector[0], vector[1], vector[2:]
    total = dense_rows(X, y, kind, w, w, 0, y.size, True, False)
    return total / y.size + 0.5 * l2 * _dot(w, w)


def dense_grad(w, out, data):
    X, vector, _ = data
    kind, l2, y = vector[0], vector[1], vector[2:]
    out[:] = 0.0
    dense_rows(X, y, kind, w, out, 0, y.size, False, True)
    _ridge(w, out, y.size, l2)


def csr_fun(w, data):
    values, indptr, indices, y = _csr_parts(data)
    kind, l2 = data[1][0], data[1][1]
    total = csr_rows(values, indptr, indices, y, kind, w, w, 0, y.size, True, False)
    return total / y.size + 0.5 * l2 * _dot(w, w)


def csr_grad(w, out, data):
    values, indptr, indices, y = _csr_parts(data)
    kind, l2 = data[1][0], data[1][1]
    out[:] = 0.0
    csr_rows(values, indptr, indices, y, kind, w, out, 0, y.size, False, True)
    _ridge(w, out, y.size, l2)


@cache
def _pair(name: str, dtype: Any) -> tuple[Any, Any]:
    functions = globals()
    grad = jit(functions[name + "_grad"], gradient_type(dtype))
    return grad, jit(functions[name + "_fun"], value_type(dtype))


def compiled(name: str, data: tuple[Array, ...], dtype: Any) -> Compiled:
    """One of the problems above ("quadratic", "dense", "csr") with its data."""
    grad, fun = _pair(name, np.dtype(dtype))
    return Compiled(grad, fun, data)


def compiled_user(grad: Any, fun: Any, dtype: Any) -> Compiled:
    """The user's own Numba g(x, out) and, if it is compiled, f(x)."""
    import numba

    from continuized.problems.base import pack

    def grad_without_data(x, out, data):
        grad(x, out)

    def fun_without_data(x, data):
        return fun(x)

    compiled_fun = None
    if fun is not None:
        compiled_fun = numba.njit(value_type(dtype), nogil=True)(fun_without_data)
    compiled_grad = numba.njit(gradient_type(dtype), nogil=True)(grad_without_data)
    return Compiled(compiled_grad, compiled_fun, pack(dtype=dtype))
