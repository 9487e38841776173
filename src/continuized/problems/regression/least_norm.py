"""The shortest minimiser of a least squares problem, whatever the scales of its columns."""

from __future__ import annotations

import math

import numpy as np

from continuized.problems.base import Array

CLOSE = 1e-9  # of |y|: so much farther from it, predictions are not the nearest
ALIKE = 10  # powers of 2 between lengths of columns that one unit does for


@np.errstate(over="ignore")  # who asks looks at what is too large
def solve_least_squares(rows: Array, right: Array) -> Array:
    """Find the w of least norm among the minimisers of |rows w - right|, whatever the scales of the
    columns; where these are of different scales and rounding hides it, another minimiser.

    How many columns are independent is told by columns of lengths near 1: beside one of length
    1e11, one of length 1 would be taken for rounding.
    """
    lengths = _column_lengths(rows)
    exponents = np.where(lengths > 0.0, np.frexp(lengths)[1], 0)
    scaled = np.ldexp(rows, -exponents)  # by powers of 2: nothing is rounded
    u, _, rank, _ = np.linalg.lstsq(scaled, right, rcond=None)
    if rank == len(exponents):
        return np.asarray(np.ldexp(u, -exponents))
    if np.ptp(exponents) <= ALIKE:
        w, _, seen, _ = np.linalg.lstsq(rows, right, rcond=None)
        if seen == rank:
            return np.asarray(w)
    shortest = _find_shortest(scaled, right, exponents)
    # Of columns that nearly depend on each other, rounding hides which do: no minimiser is lost.
    least, found = (np.linalg.norm(scaled @ each - right) for each in (u, shortest))
    is_minimiser = found <= least + CLOSE * np.linalg.norm(right)
    return np.asarray(np.ldexp(shortest if is_minimiser else u, -exponents))


def _column_lengths(rows: Array) -> Array:
    """Return the length of each column, also where its squares would overflow."""
    largest = np.abs(rows).max(axis=0, initial=0.0)
    units = np.where(largest > 0.0, largest, 1.0)
    return np.asarray(largest * np.linalg.norm(rows / units, axis=0))


def _find_shortest(scaled: Array, right: Array, exponents: Array) -> Array:
    """Find the u that minimises |scaled u - right| for which w = 2^-exponents u is the shortest.

    Those columns are kept that no longer ones give, B; the others are B K.  The minimiser of the
    former alone is unique, t, and all are (t - K v, v): the shortest has v = K^T (I + K K^T)^-1 t.
    In the units of w, K is of no large entries, as no column is given by shorter ones: nothing
    small is lost beside them.
    """
    order = np.argsort(-exponents, kind="stable")
    R: Array = np.asarray(np.linalg.qr(scaled[:, order], mode="r"))
    kept = _find_independent(R, math.ulp(1.0) * max(scaled.shape) * math.sqrt(len(exponents)))
    rest = np.setdiff1d(np.arange(len(order)), kept)
    t = np.linalg.lstsq(scaled[:, order[kept]], right, rcond=None)[0]
    K = np.linalg.lstsq(R[:, kept], R[:, rest], rcond=None)[0]
    K[kept[:, np.newaxis] > rest] = 0.0  # of shorter columns, but for rounding
    ratios = exponents[order[rest]] - exponents[order[kept]][:, np.newaxis]
    shares = np.ldexp(K, 2 * np.minimum(ratios, 0))
    u = np.full(len(order), np.nan)
    try:
        first = np.linalg.solve(np.eye(len(kept)) + K @ shares.T, t)
    except np.linalg.LinAlgError:  # by rounding
        return u
    u[order[kept]], u[order[rest]] = first, shares.T @ first
    return u


def _find_independent(columns: Array, cut: float) -> Array:
    """Find the numbers of the columns that differ by more than `cut` from all that those before
    them give."""
    basis = np.zeros((len(columns), min(columns.shape)))
    kept: list[int] = []
    for j, column in enumerate(columns.T):
        before = basis[:, : len(kept)]
        left = column - before @ (before.T @ column)
        left -= before @ (before.T @ left)
        length = float(np.linalg.norm(left))
        if length > cut and len(kept) < basis.shape[1]:
            basis[:, len(kept)] = left / length
            kept.append(j)
    return np.array(kept, dtype=np.intp)
