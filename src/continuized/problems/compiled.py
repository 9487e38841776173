"""Compiled functions and gradients.  Imports Numba: load it only where it is used.

Every function here takes the packed `data` of `problems.base.pack`, (matrix, vector, ints):

    quadratic   matrix: the eigenvalues and x* as two rows
    dense       matrix: X             vector: the loss, l2, and y
    csr         matrix: X's entries   vector: the same         ints: X's indptr and indices

and, where the rows have weights or there is an intercept,

    general_dense, general_csr         vector: the loss, l2, whether there is an intercept,
                                       y, and weights of mean 1

Without type hints, for Numba infers the types.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from continuized.problems.base import Array, Compiled
from continuized.problems.losses import half_square, linear_slope
from continuized.problems.row_sums import csr_rows, dense_rows, dot
from continuized.support.jit import compile_formulas, gradient_type, jit, value_type


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


def _ridge(w, out, n, l2):
    for j in range(w.size):
        out[j] = out[j] / n + l2 * w[j]


def _csr_parts(data, header, copies):
    """X's arrays: the vector has `header` numbers before y, and y and the weights after them."""
    values, vector, ints = data
    n = (vector.size - header) // copies
    return values[0], ints[: n + 1], ints[n + 1 :]


compile_formulas(_ridge, _csr_parts)


def dense_fun(w, data):
    X, vector, _ = data
    kind, l2, y = vector[0], vector[1], vector[2:]
    total = dense_rows(X, y, None, kind, w, None, w, 0, y.size, True, False)
    return total / y.size + 0.5 * l2 * dot(w, w)


def dense_grad(w, out, data):
    X, vector, _ = data
    kind, l2, y = vector[0], vector[1], vector[2:]
    out[:] = 0.0
    dense_rows(X, y, None, kind, w, None, out, 0, y.size, False, True)
    _ridge(w, out, y.size, l2)


def csr_fun(w, data):
    values, indptr, indices = _csr_parts(data, 2, 1)
    kind, l2, y = data[1][0], data[1][1], data[1][2:]
    total = csr_rows(values, indptr, indices, y, None, kind, w, None, w, 0, y.size, True, False)
    return total / y.size + 0.5 * l2 * dot(w, w)


def csr_grad(w, out, data):
    values, indptr, indices = _csr_parts(data, 2, 1)
    kind, l2, y = data[1][0], data[1][1], data[1][2:]
    out[:] = 0.0
    csr_rows(values, indptr, indices, y, None, kind, w, None, out, 0, y.size, False, True)
    _ridge(w, out, y.size, l2)


def _general(vector):
    """The loss, l2, whether there is an intercept, y and the weights."""
    n = (vector.size - 3) // 2
    return vector[0], vector[1], vector[2] != 0.0, vector[3 : n + 3], vector[n + 3 :]


compile_formulas(_general)


def general_dense_fun(w, data):
    kind, l2, intercept, y, weights = _general(data[1])
    if intercept:
        v = w[:-1]
        total = dense_rows(data[0], y, weights, kind, v, w[-1], w, 0, y.size, True, False)
    else:
        v = w
        total = dense_rows(data[0], y, weights, kind, v, None, w, 0, y.size, True, False)
    return total / y.size + 0.5 * l2 * dot(v, v)


def general_dense_grad(w, out, data):
    kind, l2, intercept, y, weights = _general(data[1])
    out[:] = 0.0
    if intercept:
        dense_rows(data[0], y, weights, kind, w[:-1], w[-1], out, 0, y.size, False, True)
        out[-1] /= y.size
        _ridge(w[:-1], out, y.size, l2)
    else:
        dense_rows(data[0], y, weights, kind, w, None, out, 0, y.size, False, True)
        _ridge(w, out, y.size, l2)


def general_csr_fun(w, data):
    values, indptr, indices = _csr_parts(data, 3, 2)
    kind, l2, intercept, y, weights = _general(data[1])
    if intercept:
        v = w[:-1]
        total = csr_rows(
            values, indptr, indices, y, weights, kind, v, w[-1], w, 0, y.size, True, False
        )
    else:
        v = w
        total = csr_rows(
            values, indptr, indices, y, weights, kind, v, None, w, 0, y.size, True, False
        )
    return total / y.size + 0.5 * l2 * dot(v, v)


def general_csr_grad(w, out, data):
    values, indptr, indices = _csr_parts(data, 3, 2)
    kind, l2, intercept, y, weights = _general(data[1])
    out[:] = 0.0
    if intercept:
        csr_rows(
            values, indptr, indices, y, weights, kind, w[:-1], w[-1], out, 0, y.size, False, True
        )
        out[-1] /= y.size
        _ridge(w[:-1], out, y.size, l2)
    else:
        csr_rows(values, indptr, indices, y, weights, kind, w, None, out, 0, y.size, False, True)
        _ridge(w, out, y.size, l2)


@cache
def _pair(name: str, dtype: Any) -> tuple[Any, Any]:
    functions = globals()
    grad = jit(functions[name + "_grad"], gradient_type(dtype))
    return grad, jit(functions[name + "_fun"], value_type(dtype))


def compiled(name: str, data: tuple[Array, ...], dtype: Any) -> Compiled:
    """One of the problems above ("quadratic", "dense", ...) with its data."""
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
