"""Least squares with a separable psi, by plain coordinate steps on a working set.

Choose a working set, the coordinates that are not at rest and, of the others that would move, those
of the largest slopes; take steps along them, one after the other, until these become small; look at
the gradient and the duality gap on all coordinates, and choose again.  Few columns are all in the
set, and then the gradient is known from the steps themselves.

On a set that is much smaller than the data, f is a quadratic function of a small matrix, its
Hessian there, and a step costs a row of it, whatever the number of rows of the data.  Where many
steps do not get there, as of columns that are much alike, the minimiser on the face of the
coordinates that are not at rest is found with this matrix (`_leap`).  On a larger set, and as long
as the matrix would cost more than it saves, steps go along the columns of the data, with the
residual kept.

These are the steps of `CoordinateDescent(accelerated=False)`, in turn: where each costs so little,
momentum has nothing to save.  An intercept is always where f is least in it, given the others.

Importing this module imports Numba: load it only where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from continuized.marked.kernels.gap import find_gap
from continuized.problems.base import Array
from continuized.solver.kernels.coordinate_passes import (
    add_few_columns_to_hessian,
    add_rows_to_hessian,
    arrange_columns,
    descend,
    descend_on_columns,
    find_slopes,
    find_way,
    gather_columns,
)
from continuized.solver.kernels.gram import solve_cholesky
from continuized.solver.metric import factor
from continuized.support.blas import inner, sum_by_parts, transposed_product
from continuized.support.threads import interruptible

ALL_CHOSEN = 20  # coordinates, all of which are in the working set
ROOM = 5.0  # times the root of their number may enter it; as many as are in it, if that is more
EXACT = 0.01  # of tol: how much a pass over the working set may still gain
LEAST_EXACT = 1e-14  # what is not had with passes so exact is lost in rounding
ROUGH = 0.03  # of the gap, in place of tol: passes along columns on a set that may still grow
FLAT = 0.3  # of the slope that is asked for: what a pass over the working set may still see
CANCELLED = 1e-5  # of a column's mean square is its variance: less would lose too many digits
TRUSTED = 1e-8  # of f at the start: a gap above is known from the steps, whatever their rounding
# Entries of the Hessian that cost as much as one of a column.
DENSE_COLUMN, SPARSE_COLUMN = 4.0, 8.0
SMALL, LARGEST = 1000, 4000  # coordinates of a Hessian that may always be made, or never
PRODUCT = 0.25  # passes along a column that cost as much as its products with all of them
FEW_PRODUCTS = 32**2  # of columns: to gather them for BLAS would take longer
FEWEST = 13.0  # passes along columns that are worth a try
FEW_ENTRIES = 2**17  # of a sparse X, which first passes along all columns take no time
SWEEPS = 30  # of those passes
PASSES = 10  # of coordinate steps, and as many as a leap may cost, before it
FEW, QUICK_PASSES = 50, 30  # coordinates whose passes cost nothing beside the calls of a leap
MOST_LEAPS = 20  # in a row
MOST_LEAPING = 3000  # coordinates: a larger system is not solved
RIDGE = 1e-6  # of the diagonal, added where the Hessian is singular

Evaluate = Callable[[Array], tuple[float, Array]]


class Minimum(NamedTuple):
    """The point that was found, its duality gap, the passes, and whether it is what was asked."""

    x: Array
    gap: float
    passes: int
    success: bool


def solve_lasso(
    problem: Any, constants: Array, x: Array, tol: float, most: int, *,
    slope: float = 0.0, evaluate: Evaluate | None = None,
    first: tuple[float, Array] | None = None,
) -> Minimum:  # fmt: skip
    """Minimise f + psi from x, in at most so many passes, to a duality gap of tol or to where the
    least subgradient has at most the norm `slope`.

    problem: least squares.  constants: the rows l1, l2, low and high of psi, of the columns, not of
    an intercept; each has l1 > 0 or both bounds, so that every gradient has a dual point.
    evaluate: f and its gradient, the problem's own if left out; first: the two at x, if known.

    >>> from continuized.problems import LeastSquares
    >>> p = LeastSquares([[1.0, 0.0], [0.0, 1.0]], [4.0, 0.2])
    >>> psi = np.array([[0.5, 0.5], [0.0, 0.0], [-np.inf, -np.inf], [np.inf, np.inf]])
    >>> found = solve_lasso(p, psi, np.zeros(2), 1e-12, most=10)
    >>> found.x.round(12).tolist(), found.success
    ([3.0, 0.0], True)
    """
    reduced = _Reduced(problem, constants[1], evaluate or problem.value_and_gradient)
    w, passes, exact = x[: reduced.count].copy(), 0, 1.0
    psi, slopes = constants.take((0, 2, 3), axis=0), np.empty(reduced.count)
    chosen, hessian, columns = np.zeros(0, np.intp), _Hessian(reduced), _Columns(reduced)
    f, g = reduced.evaluate(w) if first is None else reduced.reduce(*first, w)
    largest = TRUSTED * f
    # Not where a gap alone is asked for: near rounding these passes would be in vain.
    is_small = reduced.is_sparse and reduced.entries <= FEW_ENTRIES
    sweeps = SWEEPS if is_small and slope > 0.0 else 0  # along all columns, which come first
    while True:
        gap = max(find_gap(f, g, w, *psi), 0.0)
        square = find_slopes(g, w, psi, slopes)
        success = gap <= tol or square <= slope * slope
        if success or passes >= most or exact < LEAST_EXACT:
            return Minimum(reduced.complete(w), gap, passes, success)
        if sweeps:
            goal = EXACT * tol, (FLAT * slope) ** 2
            passes = columns.descend(np.arange(w.size), w, w, psi, *goal, min(sweeps, most))
            columns.forget()
            chosen, sweeps = w.nonzero()[0], 0
            f, g = reduced.evaluate(w)
            continue
        new = _choose_new(slopes, chosen)
        if len(new):
            chosen = np.concatenate((chosen, new))
        else:
            exact *= EXACT  # the set is right: what is missing are steps
            columns.forget()
        goal = exact * EXACT * tol, exact * (FLAT * slope) ** 2
        part, bounds = w[chosen], psi.take(chosen, axis=1)
        at_once = hessian.count_passes(len(chosen))
        if at_once > 0.0:
            limit = math.ceil(min(at_once, most - passes))
            rough = exact * EXACT * max(tol, ROUGH * gap)
            taken = columns.descend(chosen, w, part, bounds, rough, goal[1], limit)
            passes, hessian.waited = passes + taken, hessian.waited + taken
        elif hessian.add(chosen, columns):
            columns.forget()
            changed = g[chosen]
            if len(chosen) < w.size:  # an evaluation costs more than some more of these passes
                goal = EXACT * goal[0], goal[1]
            passes += hessian.descend(changed, part, bounds, *goal, most - passes)
            if len(chosen) == w.size and tol > largest:
                # f is quadratic: between two points it changes by the mean of both slopes.
                f += 0.5 * inner(g[chosen] + changed, part - w[chosen])
                w[chosen], g[chosen] = part, changed
                continue
        w[chosen] = part
        f, g = reduced.evaluate(w)


class _Reduced:
    """f with the l2 of psi, as a function of the coefficients alone: an intercept is where it is
    least."""

    def __init__(self, problem: Any, l2: Array, evaluate: Evaluate) -> None:
        self.problem, self.l2, self._evaluate = problem, l2, evaluate
        self.ridge = l2 + problem.l2  # of f and psi together
        self.has_l2 = bool(l2.any())
        self.count, self.entries = problem.column_count, problem.entry_count
        self.is_sparse = problem.is_sparse
        self.means = None
        if problem.intercept:
            self.means = problem.column_means[: self.count]
            y, shares = problem.y, problem.shares
            self._middle = float(y.mean() if shares is None else np.average(y, weights=shares))

    def evaluate(self, w: Array) -> tuple[float, Array]:
        """Return f and its gradient."""
        return self.reduce(*self._evaluate(self.complete(w)), w)

    def reduce(self, f: float, g: Array, w: Array) -> tuple[float, Array]:
        """Return the same of the f and the gradient at (w, b), wherever the intercept b is."""
        g = np.array(g, np.float64)  # the caller's own stays as it is
        if self.means is not None:
            slope = float(g[-1])
            f, g = f - 0.5 * slope * slope, g[:-1] - slope * self.means
        if self.has_l2:
            f, g = f + 0.5 * inner(self.l2 * w, w), g + self.l2 * w
        return float(f), g

    def complete(self, w: Array) -> Array:
        """Return w, and the intercept that goes with it."""
        if self.means is None:
            return w.copy()
        return np.append(w, self._middle - inner(self.means, w))


class _Columns:
    """The columns of the working set, and steps along them, with the residual kept.

    They are scaled by the roots of the weights, so that f is half the sum of squares of the
    residual.  Dense ones are centred, and copied for that; of sparse ones the means are set apart.
    """

    def __init__(self, reduced: _Reduced) -> None:
        self._reduced = reduced
        self._room = np.zeros((0, len(reduced.problem.y)))  # for dense ones, as rows
        self._curvatures = np.zeros(0)
        self._residual: Array | None = None  # where the last steps ended, of dense columns
        n, shares = reduced.problem.row_count, reduced.problem.shares
        self._roots = np.full(n, 1.0 / math.sqrt(n)) if shares is None else np.sqrt(shares / n)

    def forget(self) -> None:
        """Compute the residual again, before the next steps: w has changed, or rounding counts."""
        self._residual = None

    @property
    def A(self) -> Array:
        """The dense ones that were gathered, as rows."""
        return self._room[: len(self._curvatures)]

    def gather(self, chosen: Any) -> None:
        """Copy the dense columns that are not there yet."""
        old, count = len(self.A), len(chosen)
        if count > len(self._room):
            room = np.empty((min(2 * count, self._reduced.count), len(self._roots)))
            room[:old] = self.A
            self._room = room
        if count > old:
            new, curvatures = chosen[old:], np.zeros(count - old)
            means, X = self._find_means(new), self._reduced.problem.X
            gather_columns(X, new, means, self._roots, self._room[old:count], curvatures)
            self._curvatures = np.append(self._curvatures, curvatures)

    def add_to_hessian(self, chosen: Any, old: int, H: Array) -> None:
        """Add the products of dense columns, those after the `old` first ones with all, to the
        Hessian, without gathering them."""
        X, means = self._reduced.problem.X, self._find_means(chosen)
        add_few_columns_to_hessian(X, chosen, means, self._roots, old, H)

    def _find_means(self, chosen: Any) -> Array:
        means = self._reduced.means
        return np.zeros(len(chosen)) if means is None else means[chosen]

    @cached_property
    def _sparse(self) -> tuple[Array, Array, Array, Array]:
        """(entries of the columns of X, scaled, their rows, where each column begins, and the
        curvatures along all of them)."""
        X, count = self._reduced.problem.X, self._reduced.count
        means = np.zeros(count) if self._reduced.means is None else self._reduced.means
        values, rows = np.empty(X.data.size), np.empty_like(X.indices)
        starts, curvatures = np.zeros(count + 1, X.indptr.dtype), np.empty(count)
        arrange_columns(
            (X.data, X.indptr, X.indices), self._roots, means, starts, rows, values, curvatures
        )
        return values, rows, starts, curvatures

    def _find_residual(self, w: Array) -> Array:
        p, x = self._reduced.problem, self._reduced.complete(w)
        predictions = p.predictions(x, slice(None)) if w.any() else x[w.size :].sum()
        r: Array = self._roots * (p.y - predictions)
        if self._reduced.means is not None:
            # The intercept is rounded, and times a mean far from zero that would count.
            r -= inner(self._roots, r) * self._roots
        return r

    def descend(
        self, chosen: Any, w: Array, part: Array, psi: Array, least: float, flat: float, most: int
    ) -> int:
        """Take steps from part, that of w, in place, until a pass changes little; return the
        passes."""
        reduced, r = self._reduced, self._residual
        if r is None:
            r = self._find_residual(w)
        self._residual = None if reduced.is_sparse else r
        if reduced.is_sparse:
            values, rows, starts, curvatures = self._sparse
            columns = values, rows, starts[chosen], starts[chosen + 1]
            means, curvatures = self._find_means(chosen), curvatures[chosen]
        else:
            self.gather(chosen)
            firsts = np.arange(len(chosen), dtype=np.int64) * len(r)
            columns = self.A.ravel(), np.zeros(0, np.int32), firsts, firsts + len(r)
            means, curvatures = np.zeros(len(chosen)), self._curvatures
        ridge = reduced.ridge[chosen]
        return int(
            descend_on_columns(
                columns, means, curvatures + ridge, ridge, r, part, psi, least, flat, most
            )
        )


class _Hessian:
    """The Hessian on the working set, and steps that need nothing else."""

    def __init__(self, reduced: _Reduced) -> None:
        self._reduced, self._H = reduced, np.zeros((0, 0))
        self._is_exact = True
        self._entries = reduced.entries / max(reduced.count, 1)  # of a column
        worth = (SPARSE_COLUMN if reduced.is_sparse else DENSE_COLUMN) * self._entries
        self._most = min(max(worth, SMALL), LARGEST)
        self.waited = 0  # passes along columns since it was last made

    def count_passes(self, count: int) -> float:
        """Count the passes along so many columns that are worth a try before this is made: those
        that cost as much as to make it; all of them, where it would be the dearer one to use.
        """
        if count > self._most or not self._is_exact:
            return math.inf
        passes = PRODUCT * (count - len(self._H))
        is_cheap = self._reduced.is_sparse or passes < FEWEST
        return 0.0 if is_cheap else max(passes - self.waited, 0.0)

    def add(self, chosen: Any, columns: _Columns) -> bool:
        """Make it that of these coordinates, the first of which are those from before; tell whether
        it could be done without losing too many digits."""
        old, count = len(self._H), len(chosen)
        if old == count:
            return True
        H = np.zeros((count, count))
        H[:old, :old] = self._H
        add = self._add_rows if self._reduced.is_sparse else self._add_columns
        interruptible(self._entries * count * (count - old), add, chosen, H, columns)
        if self._is_exact:
            H.reshape(-1)[old * (count + 1) :: count + 1] += self._reduced.ridge[chosen[old:]]
            self._H, self.waited = H, 0
        return self._is_exact

    def _add_columns(self, chosen: Any, H: Array, columns: _Columns) -> None:
        """Write the products of the new columns with all."""
        old, count = len(self._H), len(chosen)
        if count * (count - old) <= FEW_PRODUCTS:
            columns.add_to_hessian(chosen, old, H)
        else:
            columns.gather(chosen)
            A, n = columns.A, columns.A.shape[1]
            # Of the same array twice, as at first, BLAS makes one half.
            H[old:] = sum_by_parts(
                n, float(n) * count * (count - old), lambda part: A[old:, part] @ A[:, part].T
            )
        H[:old, old:] = H[old:, :old].T

    def _add_rows(self, chosen: Any, H: Array, columns: _Columns) -> None:
        """Do the same for a sparse X, by its rows; their means are taken away from the sums."""
        p, old, n = self._reduced.problem, len(self._H), len(self._reduced.problem.y)
        place = np.full(self._reduced.count, -1, np.int32)
        place[chosen] = np.arange(len(chosen))
        weights = np.full(n, 1.0 / n) if p.shares is None else p.shares / n
        add_rows_to_hessian(p.X.data, p.X.indptr, p.X.indices, weights, place, old, H)
        if self._reduced.means is not None:
            means = self._reduced.means[chosen]
            H[old:] -= np.outer(means[old:], means)
            H[:old, old:] = H[old:, :old].T
            left = H.diagonal()[old:] - CANCELLED * means[old:] ** 2
            self._is_exact = bool(np.all((left >= 0.0) | (means[old:] == 0.0)))

    def descend(self, g: Array, x: Array, psi: Array, least: float, flat: float, most: int) -> int:
        """Take steps from x, where the gradient is g, in place, until a pass changes little; return
        the passes."""
        H, passes, leaps = self._H, 0, True
        while passes < most:
            moving, at_once = np.count_nonzero(x), most - passes
            if leaps and moving <= MOST_LEAPING:
                quick = QUICK_PASSES if len(x) <= FEW else PASSES
                at_once = min(at_once, quick + int(moving * moving / (3.0 * len(x))))
            taken = descend(H, g, x, psi, least, flat, at_once)
            passes += taken
            if taken < at_once:
                break
            for _ in range(MOST_LEAPS if leaps else 0):
                length = _leap(H, g, x, psi)
                leaps = length > 0.0
                if length == 1.0 or not leaps:
                    break
        return passes


def _leap(H: Array, g: Array, x: Array, psi: Array) -> float:
    """Go to the minimiser on the face of the coordinates that are not at rest, or towards it until
    the first of them comes to zero or to a bound, in place; return how far it went, 1 for all the
    way, 0 where there is none.

    On the face f + psi is quadratic, so that it falls along the whole way.
    """
    l1, low, high = psi
    free = ((x != 0.0) & (x > low) & (x < high)).nonzero()[0]
    if not 0 < len(free) <= MOST_LEAPING:
        return 0.0
    part, rows = x[free], H.take(free, axis=0)
    step = solve_definite(rows.take(free, axis=1), -g[free] - l1[free] * np.sign(part))
    if step is None:
        return 0.0
    length, moved = find_way(part, step, psi, free)
    g += transposed_product(rows, moved - part)
    x[free] = moved
    return float(length)


def solve_definite(H: Array, right: Array) -> Array | None:
    """Solve by Cholesky's factors, of a little more than H where it is singular; None if not even
    that is definite."""
    scale = 1.0 / np.sqrt(np.maximum(H.diagonal(), 1e-300))
    H = H * scale * scale[:, np.newaxis]
    for ridge in (0.0, RIDGE):
        H.flat[:: len(H) + 1] += ridge
        try:
            lower = interruptible(len(H) ** 3 / 3.0, factor, H)
        except ValueError:  # not definite
            continue
        if lower.diagonal().min() ** 2 > len(H) * math.ulp(1.0):
            found = (right * scale)[np.newaxis]
            solve_cholesky(lower, found)
            return found[0] * scale if np.all(np.isfinite(found)) else None
    return None


def _choose_new(slopes: Array, chosen: Any) -> Any:
    """Return the coordinates that enter the working set: of those that would move, the ones with
    the largest slopes.

    By what a step of their own would gain, slope^2 over twice the curvature, the passes are as many
    on the whole, whatever the scales of the columns, and the curvatures cost a pass over the data.
    """
    if slopes.size <= ALL_CHOSEN:
        return np.arange(len(chosen), slopes.size)
    slopes = np.abs(slopes)
    slopes[chosen] = 0.0
    new = slopes.nonzero()[0]
    room = max(ALL_CHOSEN, int(ROOM * math.sqrt(slopes.size)), len(chosen))
    if len(new) > room:
        new = new[np.argpartition(slopes[new], len(new) - room)[-room:]]
    return new
