"""Compiled values and gradients: means over rows, the problems made of them, passes on all threads.

Importing this module imports Numba: load it only where it is used.

Every problem takes the packed `data` of `problems.base.pack`, (matrix, vector, ints):

    quadratic   matrix: the eigenvalues and x* as two rows
    dense       matrix: X             vector: the loss, l2, whether there is an intercept,
                                      y, and weights of mean 1
    csr         matrix: X's entries   vector: the same         ints: X's indptr and indices

There are no type hints, because Numba infers the types.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from continuized.problems import quadratic
from continuized.problems.base import Array, Compiled, pack
from continuized.problems.losses import (
    LOGISTIC,
    compile_losses,
    loss_by_tail,
    losses_in_numpy,
    slope_by_tail,
    tail,
)
from continuized.problems.quadratic import half_square, linear_slope
from continuized.support import threads
from continuized.support.jit import (
    HAS_NUMBA,
    UNCOUNTED,
    compile_formulas,
    gradient_type,
    in_numpy,
    jit,
    jit_uncounted,
    njit,
    scratch,
    uncounted,
    value_type,
)

MOST_ROWS = 4096  # whose predictions are kept at once,
BLOCK = 2**14  # of about so many entries of X: they stay near the core until they are used again

compile_losses()
compile_formulas(*quadratic.FORMULAS)


# A pass over the rows, in blocks: their predictions, then losses and slopes, then the sum of the
# rows by their slopes.  A block is near the core when it is used again.  Apart, exp and log1p of
# many rows run in vector registers, and the cache misses of sparse rows overlap.


@uncounted
def predict_dense(X, w, start, last, out):
    """Write <x_i, w> for a block of rows from `start` on; return the row after it.

    One row after the other, so that X is read in the order of its memory: hardware fetches that
    ahead, but not several rows side by side.
    """
    d = X.shape[1]
    stop = min(start + max(min(BLOCK // max(d, 1), MOST_ROWS) // 4 * 4, 8), last)
    for i in range(start, stop):
        row, total = X[i], w.dtype.type(0.0)
        for j in range(d):
            total += row[j] * w[j]
        out[i - start] = total
    return stop


@uncounted
def predict_csr(X, w, start, last, out):
    """Do the same for sparse rows.

    Unsigned, an index is not tested for counting from the end: 1.6 times quicker here, twice in
    `add_csr`.
    """
    values, indptr, indices = X
    i, enough = start, indptr[start] + BLOCK
    while i < last and i < start + MOST_ROWS and indptr[i] < enough:
        total = w.dtype.type(0.0)
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            total += values[p] * w[np.uintp(indices[p])]
        out[i - start] = total
        i += 1
    return i


@uncounted
def add_dense(X, slopes, start, out):
    """Add slopes_k x_i, i = start + k, to out: four rows at a time, so that out is read and written
    once for four rows of X."""
    real, d, k = out.dtype.type, X.shape[1], 0
    while k + 4 <= slopes.size:
        i, c0, c1, c2, c3 = start + k, slopes[k], slopes[k + 1], slopes[k + 2], slopes[k + 3]
        row0, row1, row2, row3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        c0, c1, c2, c3 = real(c0), real(c1), real(c2), real(c3)
        for j in range(d):
            out[j] += (c0 * row0[j] + c1 * row1[j]) + (c2 * row2[j] + c3 * row3[j])
        k += 4
    while k < slopes.size:
        row0, c0 = X[start + k], real(slopes[k])
        for j in range(d):
            out[j] += c0 * row0[j]
        k += 1


@uncounted
def add_csr(X, slopes, start, out):
    """Do the same for sparse rows."""
    values, indptr, indices = X
    real = out.dtype.type
    for k in range(slopes.size):
        c, i = real(slopes[k]), start + k
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            out[np.uintp(indices[p])] += c * values[p]


def take_losses(kind, y, weights, bias, slopes, want_value):
    """Turn predictions, to which the intercept is added, into the weighted slopes of the losses.

    Returns the sums of the losses and of the slopes.
    """
    total = push = 0.0
    for k in range(slopes.size):
        p = slopes[k] + bias
        e = tail(kind, p, y[k])
        if want_value:
            total += weights[k] * loss_by_tail(kind, p, y[k], e)
        slopes[k] = weights[k] * slope_by_tail(kind, p, y[k], e)
        push += slopes[k]
    return total, push


compile_formulas(take_losses, forceinline=True, **UNCOUNTED)


def _mean_in_numpy(X, vector, w, out, first, last, want_value, want_slope):
    from scipy.sparse import csr_array

    n = count_rows(vector)
    kind, l2, intercept = vector[:3]
    y, weights = vector[3 + first : 3 + last], vector[3 + n + first : 3 + n + last]
    d = w.size - int(intercept != 0.0)
    if isinstance(X, tuple):
        values, indptr, indices = X
        X = csr_array((values, indices, indptr), shape=(n, d))
    rows = X if (first, last) == (0, n) else X[first:last]
    losses, slopes = losses_in_numpy(kind, rows @ w[:d] + w[d:].sum(), y)
    total, slopes = float(weights @ losses) / n, weights * slopes
    if want_slope:
        out[:d], out[d:] = rows.T @ slopes / n, slopes.sum() / n
    if first == 0:
        total += 0.5 * l2 * float(np.vdot(w[:d], w[:d]))
        if want_slope:
            out[:d] += l2 * w[:d]
    return total


def make_mean(predict, add_rows):
    """Make the function that takes the mean over rows, dense or sparse."""

    @in_numpy(_mean_in_numpy)
    def mean(X, vector, w, out, first, last, want_value, want_slope):
        """Write the part of the gradient that is due to rows first, ..., last - 1, and return that
        of f: their share in the mean over all rows, and the penalty where they are the first.

        With an intercept, it is the last entry of w.
        """
        n = count_rows(vector)
        kind, l2, intercept, y, weights = (
            vector[0],
            vector[1],
            vector[2],
            vector[3:],
            vector[3 + n :],
        )
        d, bias, start, total = w.size, w.dtype.type(0.0), first, 0.0
        if intercept != 0.0:
            d, bias = d - 1, w[d - 1]
        if want_slope:
            for j in range(w.size):
                out[j] = 0.0
        kept = scratch(MOST_ROWS)
        while start < last:
            stop = predict(X, w, start, last, kept)
            slopes = kept[: stop - start]
            some = y[start:], weights[start:], bias, slopes, want_value
            if kind == LOGISTIC:  # said to LLVM, for which one kind is enough to see through
                value, push = take_losses(LOGISTIC, *some)
            else:
                value, push = take_losses(kind, *some)
            total += value
            if want_slope:
                add_rows(X, slopes, start, out)
                if intercept != 0.0:
                    out[d] += push
            start = stop
        if want_slope:
            for j in range(w.size):
                out[j] /= n
        total /= n
        if first == 0:
            for j in range(d):
                total += 0.5 * l2 * w[j] * w[j]
                if want_slope:
                    out[j] += l2 * w[j]
        return total

    compile_formulas(mean, **UNCOUNTED)
    return mean


@uncounted
def count_rows(vector):
    """Return the number of rows that a vector of packed data is for."""
    return (vector.size - 3) // 2


mean_dense = make_mean(predict_dense, add_dense)
mean_csr = make_mean(predict_csr, add_csr)


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


def dense_grad(w, out, data):
    X, vector, _ = data
    mean_dense(X, vector, w, out, 0, X.shape[0], False, True)


def dense_fun(w, data):
    X, vector, _ = data
    return mean_dense(X, vector, w, w, 0, X.shape[0], True, False)


def csr_grad(w, out, data):
    values, vector, ints = data
    n = count_rows(vector)
    mean_csr((values[0], ints[: n + 1], ints[n + 1 :]), vector, w, out, 0, n, False, True)


def csr_fun(w, data):
    values, vector, ints = data
    n = count_rows(vector)
    return mean_csr((values[0], ints[: n + 1], ints[n + 1 :]), vector, w, w, 0, n, True, False)


PROBLEMS = {
    "quadratic": (quadratic_grad, quadratic_fun),
    "dense": (dense_grad, dense_fun),
    "csr": (csr_grad, csr_fun),
}


@cache
def _compile_functions(kind: str, char: str) -> tuple[Any, Any]:
    """Compile gradient and value of one of the problems above, for a dtype of this character."""
    grad, fun = PROBLEMS[kind]
    types = gradient_type(np.dtype(char)), value_type(np.dtype(char))
    return jit(grad, types[0], **UNCOUNTED), jit(fun, types[1], **UNCOUNTED)


def compile_problem(kind: str, data: tuple[Array, ...]) -> Compiled | None:
    """Make a problem of one of the kinds above, with these data; None without Numba."""
    if not HAS_NUMBA:
        return None
    asked = kind if kind in QUESTIONS else ""
    return Compiled(*_compile_functions(kind, data[0].dtype.char), data, asked)


# How a compiled loop asks a problem.  A sum over the entries of x gives its slope and its value
# entry by entry, in the loop's own pass over the vectors; others write a gradient into g and return
# f(x), and are called by a pointer: the same loop serves all of them, and the pass over the rows of
# a regression, beside which a call is nothing, is not compiled anew for every loop.


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


# The loops that are made, by the kind of problem: "" for those that are asked by a pointer.
QUESTIONS = {
    "": Questions(ask_pointer, value_by_pointer),
    "quadratic": Questions(quadratic_slope, quadratic_part, is_entrywise=True),
}


def questions(kind: str) -> Questions:
    """How to ask a problem of this kind."""
    return QUESTIONS[kind]


def compile_user(grad: Any, fun: Any, dtype: Any) -> Compiled:
    """Make a problem of the user's own Numba g(x, out) and, if it is compiled, f(x)."""

    def grad_without_data(x, out, data):
        grad(x, out)

    def fun_without_data(x, data):
        return fun(x)

    compiled_fun = None
    if fun is not None:
        compiled_fun = njit(value_type(dtype), nogil=True)(fun_without_data)
    compiled_grad = njit(gradient_type(dtype), nogil=True)(grad_without_data)
    return Compiled(compiled_grad, compiled_fun, pack(dtype=dtype))


DENSE_PASS, CSR_PASS = jit_uncounted(mean_dense), jit_uncounted(mean_csr)


def pass_over_rows(
    X: Any, vector: Array, w: Array, parts: int, *, value: bool, gradient: bool
) -> tuple[float, Array]:
    """Return f(w) and its gradient, in float64; they mean nothing if not asked for.

    X is an array or (entries, indptr, indices), the vector that of packed data.  The rows are cut
    into as many parts as there are threads, each with a gradient of its own; these are added in
    order, so that the answer does not depend on who ran first.
    """
    is_dense = not isinstance(X, tuple)
    kernel, n = DENSE_PASS if is_dense else CSR_PASS, (len(vector) - 3) // 2
    if parts == 1:
        out = np.empty(w.size if gradient else 0)
        return kernel(X, vector, w, out, 0, n, value, gradient), out
    if is_dense:
        cuts = [n * part // parts for part in range(parts + 1)]
    else:  # rows of equal numbers of entries, not equal numbers of rows
        shares = [len(X[0]) * part // parts for part in range(1, parts)]
        cuts = [0, *np.searchsorted(X[1], shares).tolist(), n]
    gradients = np.empty((parts, w.size if gradient else 0))

    def work(part: int) -> float:
        rows = cuts[part], cuts[part + 1]
        found: float = kernel(X, vector, w, gradients[part], *rows, value, gradient)
        return found

    return sum(threads.in_parts(work, parts)), gradients.sum(axis=0)
