"""Least squares with a separable psi, by plain coordinate steps on the Hessian of a working set.

On a set of coordinates that is much smaller than the data, f is a quadratic function of a small
matrix, its Hessian there, and a step along one of them costs a row of it, whatever the number of
rows of the data.  So: choose a working set, the coordinates that are not at rest and, of the others
that would move, those of the largest slopes; take steps along them, one after the other, until
these become small; look at the gradient and the duality gap on all coordinates, and choose again.
Few columns are all in the set, and then the gradient is known from the steps themselves.

These are the steps of `CoordinateDescent(accelerated=False)`, in turn: where each costs so little,
momentum has nothing to save.  An intercept is always where f is least in it, given the others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from continuized.marked.penalty import Penalty
from continuized.problems.base import Array
from continuized.support.threads import inner, interruptible

FEW = 20  # coordinates, all of which are in the working set
SHARE = 0.2  # of all coordinates may enter it; as many as FEW or as are in it, if that is more
EXACT = 0.01  # of tol: how much a pass over the working set may still gain
CANCELLED = 1e-5  # of a column's mean square is its variance: less would lose too many digits
TRUSTED = 1e-8  # of f at the start: a gap above is known from the steps, whatever their rounding


class Minimum(NamedTuple):
    """The point that was found, its duality gap, the passes, and whether the gap is at most tol."""

    x: Array
    gap: float
    passes: int
    success: bool


def solve_lasso(problem: Any, penalty: Penalty, x: Array, tol: float, most: int) -> Minimum:
    """Minimise f + psi from x, to a duality gap of tol, in at most so many passes.

    problem: least squares.  penalty: of its columns, not of an intercept, and with a dual point for
    every gradient.

    >>> from continuized.problems import LeastSquares
    >>> from continuized.process.prox import L1
    >>> p = LeastSquares([[1.0, 0.0], [0.0, 1.0]], [4.0, 0.2])
    >>> found = solve_lasso(p, Penalty(L1(0.5), (2,)), np.zeros(2), 1e-12, most=10)
    >>> found.x.tolist(), found.success
    ([3.0, 0.0], True)
    """
    from continuized.solver.kernels.coordinate_passes import descend

    reduced = _Reduced(problem)
    w, passes, exact = x[: reduced.columns].copy(), 0, EXACT
    chosen = np.zeros(0, np.intp)
    f, g = reduced.evaluate(w)
    largest = TRUSTED * f
    while True:
        gap = _find_gap(penalty, f, g, w)
        if gap <= tol or passes >= most:
            return Minimum(reduced.complete(w), gap, passes, gap <= tol)
        new = _choose_new(penalty, w, g, chosen)
        if len(new):
            chosen = np.append(chosen, new)
            work = float(len(problem.y)) * len(chosen) * len(new)
            interruptible(work, reduced.add_to_hessian, new)
        else:
            exact *= EXACT  # the set is right: what is missing are steps
        part, slopes = w[chosen], g[chosen]
        constants = penalty.constants[:, chosen]
        passes += descend(reduced.H, slopes, part, constants, exact * tol, most - passes)
        if len(chosen) == w.size and tol > largest:
            # f is quadratic: between two points it changes by the mean of both slopes.
            f += 0.5 * inner(g[chosen] + slopes, part - w[chosen])
            w[chosen], g[chosen] = part, slopes
        else:
            w[chosen] = part
            f, g = reduced.evaluate(w)


class _Reduced:
    """f as a function of the coefficients alone, an intercept where it is least."""

    def __init__(self, problem: Any) -> None:
        self._problem = problem
        self.columns = int(problem.X.shape[1])
        self.H = np.zeros((0, 0))
        self._parts: list[Any] = []  # the columns of H, centred and weighted
        self._means = None
        if problem.intercept:
            self._means = problem.column_means[: self.columns]
            self._middle = float(np.average(problem.y, weights=problem.shares))

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """Return f and its gradient."""
        if self._means is None:
            f, g = self._problem.value_and_gradient(w)
            return float(f), np.asarray(g, np.float64)
        f, g = self._problem.value_and_gradient(self.complete(w))
        slope = float(g[-1])  # but for rounding 0
        return float(f) - 0.5 * slope * slope, g[:-1] - slope * self._means

    def add_to_hessian(self, new: Any) -> None:
        """Make H, the Hessian of the coordinates so far, that of these as well."""
        p, old = self._problem, len(self.H)
        whole = self._find_whole() if len(new) == self.columns else None
        if whole is not None:
            self.H = whole
            return
        added: Any = p.columns[:, new] if p.is_sparse else np.asarray(p.X[:, new], np.float64)
        if self._means is not None:  # taken away before, for a mean may hide the rest
            added = (added.toarray() if p.is_sparse else added) - self._means[new]
        if p.shares is not None:
            roots = np.sqrt(p.shares)[:, np.newaxis]
            added = added.multiply(roots).tocsc() if hasattr(added, "multiply") else added * roots
        H = np.empty((old + len(new), old + len(new)))
        H[:old, :old] = self.H
        first = 0
        for columns in self._parts:
            last = first + columns.shape[1]
            H[old:, first:last] = _dense(added.T @ columns) / len(p.y)
            H[first:last, old:] = H[old:, first:last].T
            first = last
        H[old:, old:] = _dense(added.T @ added) / len(p.y)
        self._parts.append(added)
        self.H = H

    def _find_whole(self) -> Array | None:
        """Return the Hessian of all coordinates, from the data as they are; None where the means of
        the columns are so large that little would be left of it."""
        H = self._problem.hessian_block(None)
        if self._means is None:
            return np.asarray(H)
        centred = H[:-1, :-1] - np.outer(self._means, self._means)
        is_exact = np.all(centred.diagonal() >= CANCELLED * self._means**2)
        return np.asarray(centred) if is_exact else None

    def complete(self, w: Array) -> Array:
        """Return w, and the intercept that goes with it."""
        if self._means is None:
            return w
        return np.append(w, self._middle - inner(self._means, w))


def _find_gap(penalty: Penalty, f: float, g: Array, w: Array) -> float:
    ridge = penalty.l2 * w
    return max(penalty.find_gap(f + 0.5 * inner(ridge, w), g + ridge, w), 0.0)


def _choose_new(penalty: Penalty, w: Array, g: Array, chosen: Any) -> Any:
    """Return the coordinates that enter the working set: of those that would move, the ones with
    the largest slopes."""
    if w.size <= FEW:
        return np.arange(len(chosen), w.size)
    slope = g + penalty.l2 * w
    moved = penalty.step(w - slope, np.ones(w.size)) != w
    moved[chosen] = False
    new, room = np.flatnonzero(moved), max(FEW, int(SHARE * w.size), len(chosen))
    if len(new) > room:
        new = new[np.argpartition(np.abs(slope[new]), len(new) - room)[-room:]]
    return new


def _dense(A: Any) -> Array:
    return np.asarray(A.toarray() if hasattr(A, "toarray") else A)
