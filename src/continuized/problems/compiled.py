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

from continuized.jit import compile_formulas, gradient_type, jit, value_type
from continuized.problems.base import Array, Compiled
from continuized.problems.losses import FORMULAS, half_square, linear_slope, loss, loss_slope

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


def dense_fun(w, data):
    X, vector, _ = data
    kind, l2, y = vector[0], vector[1], vector[2:]
    total = 0.0
    for i in range(y.size):
        prediction = _dot(X[i], w)
        total += loss(kind, prediction, y[i])
    return total / y.size + 0.5 * l2 * _dot(w, w)


def dense_grad(w, out, data):
    # One pass: each row is used twice while it is in cache.
    X, vector, _ = data
    kind, l2, y = vector[0], vector[1], vector[2:]
    out[:] = l2 * w
    for i in range(y.size):
        prediction = _dot(X[i], w)
        c = loss_slope(kind, prediction, y[i]) / y.size
        for j in range(w.size):
            out[j] += c * X[i, j]


def csr_fun(w, data):
    values, vector, ints = data
    kind, l2, y = vector[0], vector[1], vector[2:]
    indptr, indices = ints[: y.size + 1], ints[y.size + 1 :]
    total = 0.0
    for i in range(y.size):
        prediction = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            prediction += values[0, p] * w[indices[p]]
        total += loss(kind, prediction, y[i])
    return total / y.size + 0.5 * l2 * _dot(w, w)


def csr_grad(w, out, data):
    values, vector, ints = data
    kind, l2, y = vector[0], vector[1], vector[2:]
    indptr, indices = ints[: y.size + 1], ints[y.size + 1 :]
    out[:] = l2 * w
    for i in range(y.size):
        prediction = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            prediction += values[0, p] * w[indices[p]]
        c = loss_slope(kind, prediction, y[i]) / y.size
        for p in range(indptr[i], indptr[i + 1]):
            out[indices[p]] += c * values[0, p]


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
