"""Compiled values and gradients: means over rows, the problems made of them, passes on all threads.

Importing this module imports Numba: load it only where it is used.

Every problem takes the packed `data` of `problems.base.pack`, (matrix, vector, ints):

    quadratic   matrix: the eigenvalues, x* and half the eigenvalues as three rows, with zeros
                        behind them (`alignment.padded_size`), at least `IN_REGISTERS` columns
    dense       matrix: X             vector: the loss, l2, whether there is an intercept,
                                      y, and weights of mean 1
    csr         matrix: X's entries   vector: the same         ints: whether short rows are side by
                                      side (`problems.sparse_rows`), X's indptr and indices

There are no type hints, because Numba infers the types.
"""

from __future__ import annotations

from functools import cache, partial
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
from continuized.problems.quadratic import linear_slope, weighted_square
from continuized.problems.sparse_rows import ABREAST, add_sparse, predict_sparse
from continuized.support import threads
from continuized.support.jit import (
    HAS_NUMBA,
    UNCOUNTED,
    array_at,
    call_gradient,
    call_value,
    compile_formulas,
    data_type,
    find_address,
    gradient_type,
    in_numpy,
    jit,
    jit_uncounted,
    scratch,
    types,
    uncounted,
    value_type,
)

# Entries of vectors that loops keep in registers; the data of sums over entries have as many.
IN_REGISTERS = 16
MOST_ROWS = 4096  # whose predictions are kept at once,
BLOCK = 2**14  # of about so many entries of X: they stay near the core until they are used again

compile_losses()
compile_formulas(*quadratic.FORMULAS)


# A pass over the rows, in blocks: their predictions, then losses and slopes, then the sum of the
# rows by their slopes.  A block is near the core when it is used again.  Apart, exp and log1p of
# many rows run in vector registers, and the cache misses of sparse rows overlap.


@uncounted
def end_block_dense(X, start, last):
    """Return the row after a block of rows from `start` on."""
    return min(start + max(min(BLOCK // max(X.shape[1], 1), MOST_ROWS) // 4 * 4, 8), last)


@uncounted
def end_block_sparse(X, start, last):
    """Do the same for sparse rows, those that are side by side in one block."""
    indptr, i = X[1], start
    enough = indptr[start] + BLOCK
    while i < last and i < start + MOST_ROWS and indptr[i] < enough:
        i = min(i + ABREAST, last)
    return i


# Rows are counted from the first of a block: LLVM then knows that no number of a row is negative,
# and does not test at each whether it counts from the end.


@uncounted
def predict_dense(X, w, start, stop, out):
    """Write <x_i, w> for rows start, ..., stop - 1.

    One row after the other, so that X is read in the order of its memory: hardware fetches that
    ahead, but not several rows side by side.
    """
    rows, d = X[start:stop], X.shape[1]
    for k in range(rows.shape[0]):
        row, total = rows[k], w.dtype.type(0.0)
        for j in range(d):
            total += row[j] * w[j]
        out[k] = total


@uncounted
def add_dense(X, slopes, start, out):
    """Add slopes_k x_i, i = start + k, to out: four rows at a time, so that out is read and written
    once for four rows of X."""
    real, n, d = out.dtype.type, slopes.size, X.shape[1]
    rows, fours = X[start : start + n], n // 4
    for four in range(fours):
        k = 4 * four
        c0, c1, c2, c3 = slopes[k], slopes[k + 1], slopes[k + 2], slopes[k + 3]
        row0, row1, row2, row3 = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
        c0, c1, c2, c3 = real(c0), real(c1), real(c2), real(c3)
        for j in range(d):
            out[j] += (c0 * row0[j] + c1 * row1[j]) + (c2 * row2[j] + c3 * row3[j])
    for k in range(4 * fours, n):
        row0, c0 = rows[k], real(slopes[k])
        for j in range(d):
            out[j] += c0 * row0[j]


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
        values, indptr, indices, _ = X
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


def make_mean(end_block, predict, add_rows):
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
        kept = scratch(MOST_ROWS, np.float64)
        while start < last:
            stop = end_block(X, start, last)
            predict(X, w, start, stop, kept)
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


mean_dense = make_mean(end_block_dense, predict_dense, add_dense)
mean_csr = make_mean(end_block_sparse, predict_sparse, add_sparse)


# The functions of a problem are given addresses, of x, out and the data; `real` is their dtype.


@uncounted
def find_data(place, real):
    """Return the packed data whose table is at this address."""
    table = array_at(place, (7,), np.int64)
    return (
        array_at(table[0], (table[1], table[2]), real),
        array_at(table[3], (table[4],), real),
        array_at(table[5], (table[6],), np.int32),
    )


def make_table(data: tuple[Array, ...]) -> Array:
    """Make the table of packed data that `find_data` reads."""
    return np.array([n for part in data for n in (part.ctypes.data, *part.shape)], np.int64)


def make_quadratic(real):
    """Make gradient and value of a quadratic."""

    def grad(x, out, size, data):
        matrix, _, _ = find_data(data, real)
        point, slopes = array_at(x, (size,), real), array_at(out, (size,), real)
        for i in range(point.size):
            slopes[i] = linear_slope(matrix[0, i], point[i] - matrix[1, i])

    def fun(x, size, data):
        matrix, _, _ = find_data(data, real)
        point, total = array_at(x, (size,), real), 0.0
        for i in range(point.size):
            total += weighted_square(np.float64(matrix[2, i]), point[i] - matrix[1, i])
        return total

    return grad, fun


def make_dense(real):
    """Make gradient and value of a mean over dense rows."""

    def grad(x, out, size, data):
        X, vector, _ = find_data(data, real)
        w, slopes = array_at(x, (size,), real), array_at(out, (size,), real)
        mean_dense(X, vector, w, slopes, 0, X.shape[0], False, True)

    def fun(x, size, data):
        X, vector, _ = find_data(data, real)
        w = array_at(x, (size,), real)
        return mean_dense(X, vector, w, w, 0, X.shape[0], True, False)

    return grad, fun


@uncounted
def mean_packed_csr(w, out, data, want_value, want_slope):
    values, vector, ints = data
    n = count_rows(vector)
    X = values[0], ints[1 : n + 2], ints[n + 2 :], ints[0] != 0
    return mean_csr(X, vector, w, out, 0, n, want_value, want_slope)


def make_csr(real):
    """Make gradient and value of a mean over sparse rows."""

    def grad(x, out, size, data):
        w, slopes = array_at(x, (size,), real), array_at(out, (size,), real)
        mean_packed_csr(w, slopes, find_data(data, real), False, True)

    def fun(x, size, data):
        w = array_at(x, (size,), real)
        return mean_packed_csr(w, w, find_data(data, real), True, False)

    return grad, fun


PROBLEMS = {"quadratic": make_quadratic, "dense": make_dense, "csr": make_csr}


@cache
def _compile_gradient(kind: str, char: str) -> Any:
    """Compile the gradient of one of the problems above, for a dtype of this character."""
    grad, _ = PROBLEMS[kind](np.dtype(char).type)
    return jit(grad, gradient_type(), **UNCOUNTED)


@cache
def _compile_value(kind: str, char: str) -> Any:
    """Compile f of one of them."""
    _, fun = PROBLEMS[kind](np.dtype(char).type)
    return jit(fun, value_type(), **UNCOUNTED)


def compile_problem(kind: str, data: tuple[Array, ...]) -> Compiled | None:
    """Make a problem of one of the kinds above, with these data; None without Numba."""
    if not HAS_NUMBA:
        return None
    asked, which = kind if kind in QUESTIONS else "", (kind, data[0].dtype.char)
    functions = partial(_compile_gradient, *which), partial(_compile_value, *which)
    return Compiled(*functions, data, make_table(data), asked)


# How a compiled loop asks a problem.  A sum over the entries of x gives its slope and its value
# entry by entry, in the loop's own pass over the vectors; others write a gradient into g and return
# f(x), and are called by their addresses: the same loop serves all of them, and the pass over the
# rows of a regression, beside which a call is nothing, is not compiled anew for every loop.


class Questions(NamedTuple):
    """The two functions by which a compiled loop asks a problem for its gradient and its value.

    slope(c, y, data), not finite where y is not, and part(c, x, data) where it is entrywise, and
    otherwise ask(address, y, g, data) and value(address, x, data), `data` being the address of the
    table.
    """

    gradient: Any
    value: Any
    is_entrywise: bool = False


def quadratic_slope(c, y, data):
    return linear_slope(data[0][0, c], y - data[0][1, c])


def quadratic_part(c, x, data):
    return weighted_square(np.float64(data[0][2, c]), x - data[0][1, c])  # f is in doubles


def ask_at(address, y, g, data):
    call_gradient(address, (y.ctypes.data, g.ctypes.data, y.size, data))


def value_at(address, x, data):
    return call_value(address, (x.ctypes.data, x.size, data))


compile_formulas(quadratic_slope, quadratic_part, ask_at, value_at, **UNCOUNTED)


# The loops that are made, by the kind of problem: "" for those that are called by their addresses.
QUESTIONS = {
    "": Questions(ask_at, value_at),
    "quadratic": Questions(quadratic_slope, quadratic_part, is_entrywise=True),
}


def questions(kind: str) -> Questions:
    """How to ask a problem of this kind."""
    return QUESTIONS[kind]


def types_of_questions(kind: str, dtype: Any) -> tuple[Any, Any, Any]:
    """The types by which a loop takes the gradient, f and the data of a problem of this kind."""
    address = types.uintp
    return (types.none, types.none, data_type(dtype)) if kind else (address, address, address)


def find_addresses(compiled: Compiled, *, value: bool) -> tuple[Any, Any, Any]:
    """Return what a loop is given for the gradient, f, if it asks for that, and the data."""
    if compiled.kind:
        return None, None, compiled.data
    fun = find_address(compiled.fun) if value else 0
    return find_address(compiled.grad), fun, compiled.table.ctypes.data


def compile_user(grad: Any, fun: Any, dtype: Any) -> Compiled:
    """Make a problem of the user's own Numba g(x, out) and, if it is compiled, f(x)."""
    real, data = np.dtype(dtype).type, pack(dtype=dtype)

    def grad_at(x, out, size, data):
        grad(array_at(x, (size,), real), array_at(out, (size,), real))

    def fun_at(x, size, data):
        return fun(array_at(x, (size,), real))

    compiled_grad = jit(grad_at, gradient_type(), cached=False, inlines=True)
    compile_fun = cache(partial(jit, fun_at, value_type(), cached=False, inlines=True))
    return Compiled(
        lambda: compiled_grad, None if fun is None else compile_fun, data, make_table(data)
    )


# For Python to call.  Functions of their own, so that `mean` is compiled once for these and for the
# gradients above.


@jit_uncounted
def sum_dense_rows(X, vector, w, out, first, last, want_value, want_slope):
    return mean_dense(X, vector, w, out, first, last, want_value, want_slope)


@jit_uncounted
def sum_csr_rows(X, vector, w, out, first, last, want_value, want_slope):
    return mean_csr(X, vector, w, out, first, last, want_value, want_slope)


def pass_over_rows(
    X: Any, vector: Array, w: Array, parts: int, *, value: bool, gradient: bool
) -> tuple[float, Array]:
    """Return f(w) and its gradient, in float64; they mean nothing if not asked for.

    X is an array or a tuple of sparse rows, the vector that of packed data.  The rows are cut
    into so many parts, each with a gradient of its own; these are added in order, so that the
    answer does not depend on who ran first.
    """
    is_dense = not isinstance(X, tuple)
    kernel, n = sum_dense_rows if is_dense else sum_csr_rows, (len(vector) - 3) // 2
    if parts == 1:
        out = np.empty(w.size if gradient else 0)
        return kernel(X, vector, w, out, 0, n, value, gradient), out
    if is_dense:
        cuts = [n * part // parts for part in range(parts + 1)]
    else:  # rows of equal numbers of entries, not equal numbers of rows
        shares = [len(X[0]) * part // parts for part in range(1, parts)]
        inner = np.searchsorted(X[1], shares) // ABREAST * ABREAST  # what is side by side stays so
        cuts = sorted({0, *inner.tolist(), n})
        parts = len(cuts) - 1
    gradients = np.empty((parts, w.size if gradient else 0))

    def work(part: int) -> float:
        rows = cuts[part], cuts[part + 1]
        found: float = kernel(X, vector, w, gradients[part], *rows, value, gradient)
        return found

    return sum(threads.in_order(work, parts)), gradients.sum(axis=0)
