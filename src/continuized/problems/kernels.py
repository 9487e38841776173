"""Compiled values and gradients: sums over rows, the problems made of them, passes on all threads.

Importing this module imports Numba: load it only where it is used.

Every problem takes the packed `data` of `problems.base.pack`, (matrix, vector, ints):

    quadratic   matrix: the eigenvalues and x* as two rows
    dense       matrix: X             vector: the loss, l2, and y
    csr         matrix: X's entries   vector: the same         ints: X's indptr and indices

and, where the rows have weights or there is an intercept,

    general_dense, general_csr         vector: the loss, l2, whether there is an intercept,
                                       y, and weights of mean 1

There are no type hints, because Numba infers the types.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from continuized.problems import quadratic
from continuized.problems.base import Array, Compiled, pack
from continuized.problems.losses import (
    FORMULAS,
    four_losses,
    loss,
    loss_by_tail,
    loss_slope,
    slope_by_tail,
    tail,
)
from continuized.problems.quadratic import half_square, linear_slope
from continuized.support import threads
from continuized.support.jit import compile_formulas, fetch, gradient_type, jit, value_type

CSR_BLOCK = 4096  # rows whose predictions are kept at once
FETCHED = 16  # entries of a dense row that are asked for ahead

compile_formulas(*FORMULAS, *quadratic.FORMULAS)


def dot(v, w):
    total = 0.0
    for j in range(w.size):
        total += v[j] * w[j]
    return total


compile_formulas(dot)


# Without weights, and without an intercept, these arguments are None: each case is compiled
# apart, and the plain one has nothing of the others in its loops.


def weigh(value, weights, i):
    """Multiply a loss or a slope of row i by its weight."""
    if weights is None:
        return value
    return weights[i] * value


def shift(prediction, bias):
    """Add the intercept to a prediction."""
    if bias is None:
        return prediction
    return prediction + bias


def sum_four(kind, p, y, e, weights, i):
    """Sum the losses of rows i to i + 3; without weights, they share a logarithm."""
    if weights is None:
        return four_losses(kind, p, y, e)
    return (
        weights[i] * loss_by_tail(kind, p[0], y[0], e[0])
        + weights[i + 1] * loss_by_tail(kind, p[1], y[1], e[1])
        + weights[i + 2] * loss_by_tail(kind, p[2], y[2], e[2])
        + weights[i + 3] * loss_by_tail(kind, p[3], y[3], e[3])
    )


compile_formulas(weigh, shift, sum_four)


def four_rows(kind, p, y, weights, i, want_value):
    """Return the sum of four losses (0 if it is not wanted), and their slopes."""
    y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
    e0, e1 = tail(kind, p[0], y0), tail(kind, p[1], y1)
    e2, e3 = tail(kind, p[2], y2), tail(kind, p[3], y3)
    total = 0.0
    if want_value:
        total = sum_four(kind, p, (y0, y1, y2, y3), (e0, e1, e2, e3), weights, i)
    c0 = weigh(slope_by_tail(kind, p[0], y0, e0), weights, i)
    c1 = weigh(slope_by_tail(kind, p[1], y1, e1), weights, i + 1)
    c2 = weigh(slope_by_tail(kind, p[2], y2, e2), weights, i + 2)
    c3 = weigh(slope_by_tail(kind, p[3], y3, e3), weights, i + 3)
    return total, c0, c1, c2, c3


compile_formulas(four_rows)


class Rows(NamedTuple):
    """Rows of data: X, dense or (entries, indptr, indices), y, weights or None, and the loss."""

    X: Any
    y: Array
    weights: Array | None
    kind: float


class Wanted(NamedTuple):
    """Which rows are summed, and what is wanted of them: the losses, their gradient, or both."""

    first: int
    last: int
    value: bool
    slope: bool


def dense_rows(rows, w, bias, out, wanted):
    """Add sum_i slope_i x_i over rows first, ..., last - 1 to out; return the sum of the losses.

    With an intercept (bias), out has one entry more than w: the sum of the slopes.

    One pass: each row is used twice while it is in cache.  Eight rows at a time, so that w
    and out are read and written once for eight rows of X.  The second use leaves the memory
    idle, so the beginnings of the next eight rows are asked for before it.
    """
    X, y, weights, kind = rows
    i, last, want_value, want_slope = wanted
    total = 0.0
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
        if bias is not None:
            p0, p1, p2, p3 = p0 + bias, p1 + bias, p2 + bias, p3 + bias
            p4, p5, p6, p7 = p4 + bias, p5 + bias, p6 + bias, p7 + bias
        low, c0, c1, c2, c3 = four_rows(kind, (p0, p1, p2, p3), y, weights, i, want_value)
        high, c4, c5, c6, c7 = four_rows(kind, (p4, p5, p6, p7), y, weights, i + 4, want_value)
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
            if bias is not None:
                out[w.size] += ((c0 + c1) + (c2 + c3)) + ((c4 + c5) + (c6 + c7))
        i += 8
    while i < last:
        row0 = X[i]
        p0 = shift(dot(row0, w), bias)
        if want_value:
            total += weigh(loss(kind, p0, y[i]), weights, i)
        if want_slope:
            c0 = weigh(loss_slope(kind, p0, y[i]), weights, i)
            for j in range(w.size):
                out[j] += c0 * row0[j]
            if bias is not None:
                out[w.size] += c0
        i += 1
    return total


def csr_rows(rows, w, bias, out, wanted):
    """Do the same for sparse rows, in blocks: dots, then losses, then the scatter.

    Apart, the dots of many rows overlap their cache misses; joined row by row, each row
    would wait for its exp.  Unsigned, an index is not tested for counting from the end:
    1.6 times quicker for the dots, twice for the scatter.
    """
    (values, indptr, indices), y, weights, kind = rows
    first, last, want_value, want_slope = wanted
    total = 0.0
    c = np.empty(min(CSR_BLOCK, max(last - first, 0)))
    for start in range(first, last, CSR_BLOCK):
        stop = min(start + CSR_BLOCK, last)
        for i in range(start, stop):
            prediction = 0.0
            for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
                prediction += values[p] * w[np.uintp(indices[p])]
            c[i - start] = shift(prediction, bias)
        i = start
        while i + 4 <= stop:
            k = i - start
            four = (c[k], c[k + 1], c[k + 2], c[k + 3])
            some, c[k], c[k + 1], c[k + 2], c[k + 3] = four_rows(
                kind, four, y, weights, i, want_value
            )
            total += some
            i += 4
        while i < stop:
            prediction = c[i - start]
            if want_value:
                total += weigh(loss(kind, prediction, y[i]), weights, i)
            c[i - start] = weigh(loss_slope(kind, prediction, y[i]), weights, i)
            i += 1
        if want_slope:
            if bias is not None:
                out[w.size] += c[: stop - start].sum()
            for i in range(start, stop):
                slope = c[i - start]
                for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
                    out[np.uintp(indices[p])] += slope * values[p]
    return total


compile_formulas(dense_rows, csr_rows)


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


def dense_sum(data, y, weights, kind, w, bias, out, want_slope):
    X, _, _ = data
    wanted = Wanted(0, y.size, not want_slope, want_slope)
    return dense_rows(Rows(X, y, weights, kind), w, bias, out, wanted)


def csr_sum(data, y, weights, kind, w, bias, out, want_slope):
    values, _, ints = data
    X = values[0], ints[: y.size + 1], ints[y.size + 1 :]
    wanted = Wanted(0, y.size, not want_slope, want_slope)
    return csr_rows(Rows(X, y, weights, kind), w, bias, out, wanted)


def _add_ridge(w, out, n, l2):
    for j in range(w.size):
        out[j] = out[j] / n + l2 * w[j]


def _plain_parts(vector):
    """Return the loss, l2 and y."""
    return vector[0], vector[1], vector[2:]


def _general_parts(vector):
    """Return the loss, l2, whether there is an intercept, y and the weights."""
    n = (vector.size - 3) // 2
    return vector[0], vector[1], vector[2] != 0.0, vector[3 : n + 3], vector[n + 3 :]


compile_formulas(dense_sum, csr_sum, _add_ridge, _plain_parts, _general_parts)


def make_plain(sum_rows):
    """Make the gradient and the value of a regression without weights and intercept."""

    def grad(w, out, data):
        kind, l2, y = _plain_parts(data[1])
        out[:] = 0.0
        sum_rows(data, y, None, kind, w, None, out, True)
        _add_ridge(w, out, y.size, l2)

    def fun(w, data):
        kind, l2, y = _plain_parts(data[1])
        total = sum_rows(data, y, None, kind, w, None, w, False)
        return total / y.size + 0.5 * l2 * dot(w, w)

    return grad, fun


def make_general(sum_rows):
    """Make the gradient and the value of a regression with weights, and maybe an intercept."""

    def grad(w, out, data):
        kind, l2, intercept, y, weights = _general_parts(data[1])
        out[:] = 0.0
        if intercept:
            sum_rows(data, y, weights, kind, w[:-1], w[-1], out, True)
            out[-1] /= y.size
            _add_ridge(w[:-1], out, y.size, l2)
        else:
            sum_rows(data, y, weights, kind, w, None, out, True)
            _add_ridge(w, out, y.size, l2)

    def fun(w, data):
        kind, l2, intercept, y, weights = _general_parts(data[1])
        if intercept:
            v = w[:-1]
            total = sum_rows(data, y, weights, kind, v, w[-1], w, False)
        else:
            v = w
            total = sum_rows(data, y, weights, kind, v, None, w, False)
        return total / y.size + 0.5 * l2 * dot(v, v)

    return grad, fun


PROBLEMS = {
    "quadratic": (quadratic_grad, quadratic_fun),
    "dense": make_plain(dense_sum),
    "csr": make_plain(csr_sum),
    "general_dense": make_general(dense_sum),
    "general_csr": make_general(csr_sum),
}


@cache
def _compile_functions(kind: str, char: str) -> tuple[Any, Any]:
    """Compile gradient and value of one of the problems above, for a dtype of this character."""
    grad, fun = PROBLEMS[kind]
    return jit(grad, gradient_type(np.dtype(char))), jit(fun, value_type(np.dtype(char)))


def compile_problem(kind: str, data: tuple[Array, ...]) -> Compiled:
    """Make a problem of one of the kinds above, with these data."""
    return Compiled(*_compile_functions(kind, data[0].dtype.char), data, kind)


# How a compiled loop asks a problem.  A sum over the entries of x gives its slope and its value
# entry by entry, in the loop's own pass over the vectors; others write a gradient into g and return
# f(x).  `pointer` is the gradient, or the function, of a user's own problem: it is called, and all
# others are written into the loop.


class Questions(NamedTuple):
    """The two functions by which a compiled loop asks a problem for its gradient and its value.

    slope(c, y, data) and part(c, x, data) where it is entrywise, and otherwise
    ask(pointer, y, g, data) and value(pointer, x, data).
    """

    gradient: Any
    value: Any
    is_entrywise: bool = False


def quadratic_slope(c, y, data):
    return linear_slope(data[0][0, c], y - data[0][1, c])


def quadratic_part(c, x, data):
    return half_square(data[0][0, c], x - data[0][1, c])


def ask_pointer(pointer, y, g, data):
    pointer(y, g, data)


def value_by_pointer(pointer, x, data):
    return pointer(x, data)


compile_formulas(quadratic_slope, quadratic_part, ask_pointer, value_by_pointer)


def makes_arrays(kind: str) -> bool:
    """Whether questions to a problem of this kind make arrays, for which memory is asked."""
    return kind.endswith("csr")


@cache
def questions(kind: str) -> Questions:
    """How to ask a problem of this kind; "" for a user's own."""
    if kind == "quadratic":
        return Questions(quadratic_slope, quadratic_part, is_entrywise=True)
    if kind == "":
        return Questions(ask_pointer, value_by_pointer)
    grad, fun = PROBLEMS[kind]
    compile_formulas(grad, fun)

    def ask(pointer, y, g, data):
        grad(y, g, data)

    def value(pointer, x, data):
        return fun(x, data)

    compile_formulas(ask, value)
    return Questions(ask, value)


def compile_user(grad: Any, fun: Any, dtype: Any) -> Compiled:
    """Make a problem of the user's own Numba g(x, out) and, if it is compiled, f(x)."""
    import numba

    def grad_without_data(x, out, data):
        grad(x, out)

    def fun_without_data(x, data):
        return fun(x)

    compiled_fun = None
    if fun is not None:
        compiled_fun = numba.njit(value_type(dtype), nogil=True)(fun_without_data)
    compiled_grad = numba.njit(gradient_type(dtype), nogil=True)(grad_without_data)
    return Compiled(compiled_grad, compiled_fun, pack(dtype=dtype))


DENSE_PASS, CSR_PASS = jit(dense_rows), jit(csr_rows)


def pass_over_rows(
    X: Any,
    y: Array,
    kind: float,
    w: Array,
    parts: int,
    *,
    value: bool,
    gradient: bool,
    weights: Array | None = None,
    intercept: bool = False,
) -> tuple[float, Array]:
    """Sum weights_i loss(<x_i, w>, y_i) over rows, and its gradient in w; zeros if not asked for.

    With an intercept, it is the last entry of w.  The rows are cut into as many parts as there
    are threads, each with a gradient of its own; these are added in order, so that the answer
    does not depend on who ran first.
    """
    if isinstance(X, np.ndarray):
        kernel, rows = DENSE_PASS, Rows(X, y, weights, kind)
        cuts = [len(X) * part // parts for part in range(parts + 1)]
    else:
        kernel, rows = CSR_PASS, Rows((X.data, X.indptr, X.indices), y, weights, kind)
        # Rows of equal numbers of entries, not equal numbers of rows.
        shares = [X.nnz * part // parts for part in range(1, parts)]
        inner = np.searchsorted(X.indptr, shares).tolist()
        cuts = [0, *inner, len(y)]
    gradients = np.zeros((parts, w.size if gradient else 0))
    point = (w[:-1], float(w[-1])) if intercept else (w, None)

    def work(part: int) -> float:
        wanted = Wanted(cuts[part], cuts[part + 1], value, gradient)
        return float(kernel(rows, *point, gradients[part], wanted))

    values = threads.in_parts(work, parts)
    return sum(values), gradients.sum(axis=0)
