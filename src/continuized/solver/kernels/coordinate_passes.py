"""Passes of coordinate steps on a quadratic function with a separable psi, compiled.

psi is sum l1_i |x_i| for low <= x <= high, with the rows l1, low and high; an l2 is part of f.
"""

from __future__ import annotations

import numpy as np

from continuized.process.prox import FORMULAS, entry_step
from continuized.support.jit import compile_formulas, in_numpy, jit

compile_formulas(*FORMULAS, error_model="numpy")

SHORT_PASSES = 10  # over the entries that are not at rest, before one over all
ROWS = 32  # that are read at once


@jit
def find_slopes(g, x, psi, out):
    """Write the least subgradient of f + psi at x, where f has the gradient g; return its square.

    It is zero at the minimiser, and at least the norm of any gradient mapping.
    """
    total = 0.0
    for i in range(x.size):
        if x[i] != 0.0:
            slope = g[i] + psi[0, i] * np.sign(x[i])
        else:
            slope = g[i] - min(max(g[i], -psi[0, i]), psi[0, i])
        if (slope > 0.0 and x[i] <= psi[1, i]) or (slope < 0.0 and x[i] >= psi[2, i]):
            slope = 0.0
        out[i] = slope
        total += slope * slope
    return total


def step_along(x, slope, curvature, l1, low, high):
    """Return the minimiser along one coordinate; along a flat one psi alone counts."""
    if curvature > 0.0:
        return entry_step(x - slope / curvature, 1.0 / curvature, l1, 0.0, low, high)
    return min(max(0.0, low), high)


compile_formulas(step_along, error_model="numpy")


@jit
def descend(H, g, x, psi, least, flat, most):
    """Take passes of steps along each coordinate, in place, until one changes little; return them.

    f has the Hessian H and at x the gradient g, both of which change along.  A step of s along
    coordinate i gains at least H_ii s^2 / 2, and the slope there was at least H_ii s: the last pass
    gains at most `least`, or the sum of these squares of slopes is at most `flat`.
    """
    for k in range(most):
        gain = square = 0.0
        for i in range(x.size):
            curvature = H[i, i]
            new = step_along(x[i], g[i], curvature, psi[0, i], psi[1, i], psi[2, i])
            step = new - x[i]
            if step != 0.0:
                gain += 0.5 * curvature * step * step
                square += (curvature * step) ** 2
                x[i] = new
                line = H[i]
                for j in range(x.size):
                    g[j] += step * line[j]
        if gain <= least or square <= flat:
            return k + 1
    return most


@jit
def find_way(x, step, psi, free):
    """Return how much of the step the entries `free` of a point, which are x, may go, at most 1,
    and where they are then: the first of them to come to zero, if it has an l1, or to a bound,
    ends it."""
    length = 1.0
    lengths, moved = np.full(x.size, np.inf), np.empty(x.size)
    for k in range(x.size):
        i = free[k]
        low, high = psi[1, i], psi[2, i]
        end = high if step[k] > 0.0 else low
        if psi[0, i] > 0.0 and x[k] * step[k] < 0.0:
            end = min(max(0.0, low), high)
        moved[k] = end
        if step[k] != 0.0:
            lengths[k] = (end - x[k]) / step[k]
        length = min(length, lengths[k])
    for k in range(x.size):
        if lengths[k] > length:
            moved[k] = x[k] + length * step[k]
    return length, moved


@jit
def descend_on_columns(columns, means, curvatures, ridge, r, x, psi, least, flat, most):
    """Do the same without H: f(x) = |y - A x|^2 / 2 + sum ridge_i/2 x_i^2, whose residual is kept.

    columns: (values, indices, firsts, lasts), column i of A is values[firsts[i] : lasts[i]] in the
    rows `indices`, of which there are none where it has an entry in each.  Where A holds the
    columns with their means, `means` times a unit vector u is to be taken away from them: r is the
    residual but for a multiple of u, to which the true one is orthogonal.
    """
    values, indices, firsts, lasts = columns
    is_dense = indices.size == 0 and values.size > 0
    shift, short = 0.0, 0  # the multiple of u; the passes since one over all
    for k in range(most):
        gain = square = 0.0
        for i in range(x.size):
            if short > 0 and x[i] == 0.0:
                continue
            first, last, total = np.uintp(firsts[i]), np.uintp(lasts[i]), 0.0
            if is_dense:
                column = values[first:last]
                for p in range(r.size):
                    total += column[p] * r[p]
            else:
                for p in range(first, last):
                    total += values[p] * r[np.uintp(indices[p])]
            slope = ridge[i] * x[i] - total - shift * means[i]
            new = step_along(x[i], slope, curvatures[i], psi[0, i], psi[1, i], psi[2, i])
            step = new - x[i]
            if step != 0.0:
                gain += 0.5 * curvatures[i] * step * step
                square += (curvatures[i] * step) ** 2
                x[i] = new
                shift += step * means[i]
                if is_dense:
                    column = values[first:last]
                    for p in range(r.size):
                        r[p] -= step * column[p]
                else:
                    for p in range(first, last):
                        r[np.uintp(indices[p])] -= step * values[p]
        is_small = gain <= least or square <= flat
        if is_small and short == 0:
            return k + 1
        short = 0 if is_small else (short + 1) % (SHORT_PASSES + 1)
    return most


def _arrange_columns_in_numpy(X, roots, means, starts, rows, values, curvatures):
    entries, indptr, indices = X
    order = np.argsort(indices, kind="stable")
    rows[:] = np.repeat(np.arange(roots.size), np.diff(indptr))[order]
    places = indices[order]
    values[:] = entries[order] * roots[rows]
    starts[1:] = np.cumsum(np.bincount(places, minlength=means.size))
    apart = (values - means[places] * roots[rows]) ** 2
    curvatures[:] = np.bincount(places, apart, minlength=means.size)
    rest = 1.0 - np.bincount(places, roots[rows] ** 2, minlength=means.size)
    curvatures += means**2 * np.maximum(rest, 0.0)


@jit
@in_numpy(_arrange_columns_in_numpy)
def arrange_columns(X, roots, means, starts, rows, values, curvatures):
    """Write the entries of sparse rows (values, indptr, indices), times the roots of the weights,
    by columns, and the mean squares of the columns less their means.

    starts: zeros.  rows, values: those of column j are from starts[j] to starts[j + 1].
    """
    entries, indptr, indices = X
    for p in range(indices.size):
        starts[np.uintp(indices[p]) + np.uintp(1)] += 1
    for j in range(means.size):
        starts[j + 1] += starts[j]
    place, rest = starts[:-1].copy(), np.ones(means.size)  # rest: the weight of rows where X is 0
    curvatures[:] = 0.0
    for i in range(roots.size):
        root = roots[i]
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            column, value = np.uintp(indices[p]), entries[p] * root
            at = np.uintp(place[column])
            rows[at], values[at] = i, value
            place[column] += 1
            curvatures[column] += (value - means[column] * root) ** 2
            rest[column] -= root * root
    for j in range(means.size):
        curvatures[j] += means[j] * means[j] * max(rest[j], 0.0)


@jit
def gather_columns(X, chosen, means, roots, out, curvatures):
    """Write the chosen columns of X, less their means and times the roots, as rows of out, and
    their squares; some rows of X at a time, which stay near the core."""
    n = X.shape[0]
    for start in range(0, n, ROWS):
        stop = min(start + ROWS, n)
        for k in range(chosen.size):
            j, mean, line, total = chosen[k], means[k], out[k], 0.0
            for i in range(start, stop):
                value = (X[i, j] - mean) * roots[i]
                line[i] = value
                total += value * value
            curvatures[k] += total


def _add_few_columns_in_numpy(X, chosen, means, roots, old, H):
    A = (X[:, chosen] - means) * roots[:, np.newaxis]
    H[old:] += A[:, old:].T @ A


@jit
@in_numpy(_add_few_columns_in_numpy)
def add_few_columns_to_hessian(X, chosen, means, roots, old, H):
    """H[old:] += the products of the chosen columns of X, less their means and times the roots,
    those after the `old` first ones with all; by rows, four at a time, without a copy of the
    columns."""
    n, m = X.shape[0], chosen.size
    rows = np.empty((4, m))
    r0, r1, r2, r3 = rows[0], rows[1], rows[2], rows[3]
    for start in range(0, n, 4):
        for q in range(4):
            i, line = start + q, rows[q]
            for k in range(m):
                line[k] = (X[i, chosen[k]] - means[k]) * roots[i] if i < n else 0.0
        for a in range(old, m):
            v0, v1, v2, v3, line = r0[a], r1[a], r2[a], r3[a], H[a]
            for b in range(m):
                line[b] += v0 * r0[b] + v1 * r1[b] + v2 * r2[b] + v3 * r3[b]


@jit
def add_rows_to_hessian(values, indptr, indices, weights, place, old, H):
    """H += the products of the sparse rows, weighted, for the columns that have a place in it, if
    not both of them are among the `old` first ones."""
    places = np.empty(place.size + 1, np.uint32)
    entries = np.empty(place.size + 1)
    for i in range(indptr.size - 1):
        count, last = 0, np.int32(-1)
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            at = place[np.uintp(indices[p])]
            # Without a branch, which no processor could foresee: the next one writes over it.
            places[count], entries[count] = np.uint32(at), values[p]
            count += at >= 0
            last = max(last, at)
        if last < old:
            continue
        for a in range(count):
            if places[a] >= old:
                value, line = weights[i] * entries[a], H[places[a]]
                for b in range(count):
                    line[places[b]] += value * entries[b]
    for i in range(old, H.shape[0]):
        for j in range(old):
            H[j, i] = H[i, j]
