"""The regressions: least squares, logistic and multinomial logistic (softmax)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import NOT_FINITE, Array, Compiled, flat, pack
from continuized.problems.losses import LOGISTIC, SOFTMAX, SQUARED, logistic_second_slope
from continuized.problems.regression.data import INT32_MAX, check_class_labels, check_labels
from continuized.problems.regression.least_norm import solve_least_squares
from continuized.problems.regression.linear import Linear, squares_of
from continuized.support import blas, threads
from continuized.support.threads import interruptible

DIRECT_UP_TO = 2000  # the number of variables for which the minimiser is computed directly,
DIRECT_ENTRIES = 2**25  # unless X has more entries than this
SMALL_L2 = 1e-6  # of the trace: below, gradients lose more than 10 digits to rounding
SVD = 10.0  # operations for n^2 d of them, about,
MOST_DIRECT = 1e10  # and the largest n^2 d for which it is asked: some seconds
BLOCK = 2**17  # entries of X that softmax takes at once, or some more: they stay in cache
LEAST_ROWS = 64

MOST_STEPS = 100
MOST_HALVINGS = 40
SMALL_STEP = 1e-9  # of the last step, relative to |w|, and to what changes predictions by about 1


class SingleOutput(Linear):
    """A regression with one prediction for each row, whose loss is compiled."""

    # Constants, computed when first asked for

    @cached_property
    def row_norms2(self) -> Array:
        """|x_i|^2 for each row, without its weight; with an intercept, |x_i|^2 + 1."""
        if not self.is_sparse:
            norms2 = np.asarray(np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64))
        else:
            n = len(self.y)
            rows = np.repeat(np.arange(n), np.diff(self.X.indptr))
            norms2 = np.bincount(rows, squares_of(self.X.data), minlength=n)
        return norms2 + self.intercept

    @cached_property
    def columns(self) -> Any:
        """X by columns, for coordinate methods: a CSC copy, or one in Fortran order.

        As X itself without weights, and without the constant column of an intercept.
        """
        return self.X.tocsc() if self.is_sparse else np.asfortranarray(self.X)

    @property
    def _is_small(self) -> bool:
        """Whether X is small enough to solve linear systems made of it."""
        n, d = self.X.shape
        return bool(d <= DIRECT_UP_TO and (n + d) * d <= DIRECT_ENTRIES)

    # The function and its gradient

    @property
    def threaded(self) -> bool:  # type: ignore[override]
        """Whether `fun` and `grad` run on all threads: where X is large."""
        return self._parts > 1

    def fun(self, x: ArrayLike) -> float:
        """f(x); ValueError where x is not of this dimension."""
        return self._evaluate(x, value=True, gradient=False)[0]

    def grad(self, x: ArrayLike) -> Array:
        """The gradient of f at x, in the shape of x."""
        return self._evaluate(x, value=False, gradient=True)[1]

    def value_and_gradient(self, x: ArrayLike) -> tuple[float, Array]:
        """f(x) and its gradient, in one pass over the data."""
        return self._evaluate(x, value=True, gradient=True)

    def _evaluate(self, x: ArrayLike, value: bool, gradient: bool) -> tuple[float, Array]:
        x = np.asarray(x)
        w = flat(x, self.dim)
        f, g = self._pass(w, self._parts, value=value, gradient=gradient)
        if not gradient:
            return f, g
        if g.dtype != w.dtype:
            with np.errstate(**NOT_FINITE):
                g = g.astype(w.dtype)
        return f, g if w is x else g.reshape(x.shape)

    @cached_property
    def _pass(self) -> Callable[..., tuple[float, Array]]:
        """A pass over the rows, imported once: beside small data, that would take long."""
        from continuized.problems.kernels import pass_over_rows

        return partial(pass_over_rows, self._arranged[1], self._vector)

    @cached_property
    def _vector(self) -> Array:
        """The vector of compiled data."""
        return self._pack(self.loss, self.l2, self.y)

    def _minimise_by_newton(self) -> Array | None:
        """Find the minimiser to rounding by Newton's method from 0; None if it is not found.

        Along Newton's direction |gradient|^2 falls at first, its derivative is -2 |gradient|^2: so
        a step is halved until the norm falls, and where no halving makes it fall, what is left is
        rounding.  The step that is then left to take is at most 1e-9 (|w| + unit), with a unit of w
        that changes predictions by about 1, or else nothing was found.

        `network.optimisation.local_solver` has the compiled one, for a node's few rows at every
        event.
        """
        return interruptible(self.X.size * float(self.dim), self._take_newton_steps)

    def _take_newton_steps(self) -> Array | None:
        w = np.zeros(self.dim)
        step, slope = w, w
        with np.errstate(all="ignore"):  # what is not finite ends the search
            unit = 1.0 / np.sqrt(np.average(self.row_norms2, weights=self.weights))
            gradient = self.grad(w)
            for _ in range(MOST_STEPS):
                step = self._newton_step(w, gradient)
                norm = float(np.linalg.norm(gradient))
                for halvings in range(MOST_HALVINGS):
                    trial = w - 0.5**halvings * step
                    slope = self.grad(trial)
                    if np.linalg.norm(slope) < norm:
                        break
                else:
                    break
                w, gradient = trial, slope
            is_found = np.linalg.norm(step) <= SMALL_STEP * (np.linalg.norm(w) + unit)
        return w if is_found else None

    def _newton_step(self, w: Array, gradient: Array) -> Array:
        """Solve with the Hessian."""
        try:
            return np.asarray(np.linalg.solve(self.hessian_block(w), gradient))
        except np.linalg.LinAlgError:  # singular, by rounding or underflow
            return np.full(w.size, np.nan)

    def hessian_block(self, w: Array, variables: Any = None) -> Array:
        """Return the rows and columns of the Hessian at w of these variables, in increasing order.

        The mean of q_i s_i s_i^T, of the rows and the curvatures of `sample_curvatures`, and l2 for
        each penalised variable.
        """
        n, size = self.row_count, self.dim
        A, m = self.X, self.column_count
        if variables is not None and len(variables) < size:
            chosen = np.asarray(variables)
            columns = chosen[chosen < m]
            size, m = len(chosen), len(columns)
            A = (self.columns if self.is_sparse else self.X)[:, columns]
        factors = self.shares  # None: they are all 1
        if self.loss != SQUARED:
            at = np.asarray(w, np.float64).reshape(self.dim, 1)
            q = self.second_slopes(self.predictions(at, slice(None)), slice(None))
            factors = q if factors is None else factors * q
        found = self._weighted_gram(A, factors)
        found /= n
        if m < size:  # the intercept, which is the last
            each = np.ones(n) if factors is None else factors
            inner, found = found, np.empty((m + 1, m + 1))
            found[:m, :m] = inner
            found[m, :m] = found[:m, m] = blas.transposed_product(A, each).ravel() / n
            found[m, m] = each.sum() / n
        found.flat[: m * size : size + 1] += self.l2
        return found

    def _weighted_gram(self, A: Any, factors: Array | None) -> Array:
        """The sum of factors_i a_i a_i^T over the rows of A; None: they are all 1."""
        if self.is_sparse:
            from scipy import sparse

            A = A.astype(np.float64)
            scaled = A if factors is None else sparse.diags_array(np.sqrt(factors)) @ A
            return np.asarray((scaled.T @ scaled).toarray())
        n, m = A.shape
        if factors is None:
            return blas.gram(n, m, lambda part: A[part].astype(np.float64, copy=False))
        roots = np.sqrt(factors)[:, np.newaxis]
        return blas.gram(n, m, lambda part: A[part] * roots[part])

    def _compile(self, dtype: Any) -> Compiled | None:
        from continuized.problems.kernels import compile_problem

        if not self.is_sparse:
            return compile_problem("dense", pack(self.X, self._vector, dtype=dtype))
        if self.X.nnz > INT32_MAX:
            raise ValueError(f"X has {self.X.nnz} entries: compiled loops take at most {INT32_MAX}")
        values, indptr, indices, side_by_side = self._arranged[1]
        ints = np.concatenate([[side_by_side], indptr, indices], dtype=np.int32)
        data = pack(values[np.newaxis], self._vector, ints, dtype)
        return compile_problem("csr", data)


class LeastSquares(SingleOutput):
    """f(w) = |Xw - y|^2 / (2n) + l2/2 |w|^2, X dense or sparse.

    X: an array, or a SciPy sparse matrix, which is kept as CSR (duplicate entries are added
    up, indices sorted).  float32 stays float32, integers become float64.  An array that is
    C-contiguous, or a canonical CSR matrix, is not copied: do not change it afterwards.  Of a
    sparse X with less than 32 entries a row, unless it is small, the first evaluation keeps a copy
    in another order.
    weights: a number >= 0 for each row; the mean over the rows becomes the weighted mean.
    intercept: if True, w has one entry more, the last, which is added to every prediction and
    is not penalised.  y: a number for each row.  l2: the penalty, finite and >= 0.

    Raises TypeError or ValueError for data that are not finite real numbers, or do not fit.

    >>> p = LeastSquares([[2.0, 0.0], [0.0, 1.0]], [2.0, 3.0])
    >>> round(p.L, 9), round(p.mu, 9), p.x_star.round(9).tolist()
    (2.0, 0.5, [1.0, 3.0])
    """

    loss = SQUARED
    curvature = 1.0

    def second_slopes(self, predictions: Array, index: Any) -> Array:
        return np.ones(len(predictions))

    def curvatures(self, w: ArrayLike, index: Any) -> Array:
        return np.ones(len(self.y[index]))  # whatever is predicted

    @cached_property
    def trace(self) -> float:
        """As for all, but in half the time without the scales, which no direct solver asks for."""
        if self.is_sparse or self.is_weighted or self.X.dtype != np.float64:
            return super().trace
        entries = self.X.ravel()
        with blas.on_one_thread():
            mean = float(np.vdot(entries, entries)) / self.row_count
        return mean + self.l2 * self.column_count + self.intercept

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The least-norm minimiser, by a direct solver; None where that would be too dear, or too
        large for floats."""
        n, d = self.X.shape
        if not self._is_small:
            return None
        A, y = self.sample_rows(slice(None)), self.y
        A = A.toarray() if self.is_sparse else A
        if self.shares is not None:
            y = y * np.sqrt(self.shares)
        ridge = math.sqrt(self.l2) * np.eye(d, self.dim)
        rows = np.vstack([A / np.sqrt(n, dtype=np.float64), ridge])
        right = np.concatenate([y / np.sqrt(n), np.zeros(d)])
        found = blas.compute(rows.size * float(self.dim), solve_least_squares, rows, right)
        return found if np.isfinite(found).all() else None

    def minimise_in_row_space(self) -> Array | None:
        """Find the minimiser with the least |w|, the intercept not counted, where X has few rows
        and more columns, and l2 is so small that gradients say little of it; otherwise None.

        It is in the space of the rows, whatever is rounded, for their singular vectors make it.
        """
        n, d = self.X.shape
        is_direct = n < d and n * d <= DIRECT_ENTRIES and float(n) ** 2 * d <= MOST_DIRECT
        if not (is_direct and self.l2 < SMALL_L2 * self.trace < math.inf):
            return None
        found = blas.compute(SVD * float(n) ** 2 * d, self._find_least_norm)
        return found if np.isfinite(found).all() else None

    def _find_least_norm(self) -> Array:
        X, y, weights = self.X.toarray() if self.is_sparse else self.X, self.y, self.weights
        X = X.astype(np.float64, copy=False)
        row, middle = np.zeros(X.shape[1]), 0.0
        if self.intercept:
            row, middle = np.average(X, axis=0, weights=weights), np.average(y, weights=weights)
        roots = np.sqrt(np.full(len(y), 1.0) if self.shares is None else self.shares)
        U, s, V = np.linalg.svd((X - row) * roots[:, np.newaxis], full_matrices=False)
        kept = s > math.ulp(1.0) * X.shape[1] * s[0]
        U, s, V = U[:, kept], s[kept], V[kept]
        w = ((roots * (y - middle)) @ U * s / (s * s + len(y) * self.l2)) @ V
        return np.append(w, [middle - row @ w] if self.intercept else [])


class LogisticRegression(SingleOutput):
    """f(w) = mean_i log(1 + exp(-y_i <x_i, w>)) + l2/2 |w|^2, y in {-1, +1}.

    X, l2, weights and intercept as for `LeastSquares`, but l2 is 1e-4 unless it is given: without
    it, separable data leave f without a minimum.  The errors are the same; ValueError, too, for
    other labels.

    >>> p = LogisticRegression([[1.0], [1.0]], [1, -1], l2=0.5)
    >>> round(p.L, 9), p.mu
    (0.75, 0.5)
    """

    loss = LOGISTIC
    curvature = 0.25

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        l2: float = 1e-4,
        *,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        super().__init__(X, y, l2, weights=weights, intercept=intercept)

    def _check_y(self) -> None:
        check_labels(self.y)

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The minimiser, by Newton's method, to rounding.

        None where X is too large for that, l2 is 0 (there may be no minimum), or there is an
        intercept but only one class.
        """
        counted = self.y if self.weights is None else self.y[self.weights > 0.0]
        is_bounded = not self.intercept or len(np.unique(counted)) == 2
        if not (self.l2 > 0.0 and is_bounded and self._is_small):
            return None
        return self._minimise_by_newton()

    def second_slopes(self, predictions: Array, index: Any) -> Array:
        return np.asarray(logistic_second_slope(np.exp(-np.abs(predictions[:, 0]))))

    def is_separated_by(self, x: ArrayLike) -> bool:
        """Tell whether <x_i, x> has the sign of y_i in every row: no minimum without l2, then."""
        predictions = self.predictions(flat(x, self.dim), slice(None))
        return bool(np.all(self.y * predictions > 0.0))


class SoftmaxRegression(Linear):
    """f(W) = mean_i [log sum_k exp(<x_i, W_k>) - <x_i, W_{y_i}>] + l2/2 |W|^2.

    X, l2, weights and intercept as for `LogisticRegression`; y: labels 0, ..., classes - 1 (by
    default as many as there are).  W has shape (d, classes), with the intercepts as one row more,
    and may be given flattened.  The second derivative of the loss in the predictions is
    diag(p) - p p^T, at most 1/2.

    Adding the same vector to every column of W changes no loss: with l2 > 0 the columns of the
    minimiser add up to zero, but the intercepts are determined up to a constant only.

    Raises TypeError or ValueError for data that are not finite real numbers, or do not fit, and
    for labels that are none of these.

    >>> p = SoftmaxRegression([[1.0], [1.0]], [0, 2], l2=0.5)
    >>> p.dim, p.curvature, round(p.L, 9), round(p.fun(np.zeros((1, 3))), 9)
    (3, 0.5, 1.0, 1.098612289)
    """

    loss = SOFTMAX
    curvature = 0.5

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        l2: float = 1e-4,
        *,
        classes: int | None = None,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        super().__init__(X, y, l2, weights=weights, intercept=intercept)
        self._set_options(classes)

    def _set_options(self, classes: int | None = None) -> None:
        self.labels, self.classes = check_class_labels(self.y, classes)

    def is_separated_by(self, x: ArrayLike) -> bool:
        """Tell whether <x_i, W_k> is largest for the class of every row: no minimum without l2."""
        W, rows = flat(x, self.dim).reshape(-1, self.classes), np.arange(self.row_count)
        scores = self.predictions(W, slice(None))
        own = scores[rows, self.labels]
        scores[rows, self.labels] = -np.inf
        return bool(np.all(own > scores.max(axis=1)))

    def fun(self, x: ArrayLike) -> float:
        """f(W); ValueError where x has not so many entries."""
        return self.value_and_gradient(x)[0]

    def grad(self, x: ArrayLike) -> Array:
        """The gradient of f at W, in the shape of x."""
        return self.value_and_gradient(x)[1]

    @np.errstate(**NOT_FINITE)
    def value_and_gradient(self, x: ArrayLike) -> tuple[float, Array]:
        """f(W) and its gradient, in the shape and the precision of x."""
        x = np.asarray(x)
        point = flat(x, self.dim)
        W = np.array(point.reshape(-1, self.classes).T, np.float64, order="C")
        n, d = self.row_count, self.column_count
        if self.entry_count * self.classes < blas.ON_ONE_ANYWAY:
            total, gradient = self._sum_rows(W, 0, n)
        else:
            total, gradient = self._sum_in_parts(W)
        gradient /= n
        gradient[:, :d] += self.l2 * W[:, :d]
        f = total / n + 0.5 * self.l2 * blas.norm(W[:, :d]) ** 2
        return f, gradient.T.astype(point.dtype, copy=False).reshape(x.shape)

    def _sum_in_parts(self, W: Array) -> tuple[float, Array]:
        """What `_sum_rows` gives for all rows, by all threads, if they are many."""
        n, parts = self.row_count, self._parts
        cuts = threads.cut(n, parts)
        with blas.on_one_thread():
            sums = threads.in_parts(lambda i: self._sum_rows(W, cuts[i], cuts[i + 1]), parts)
        return sum(total for total, _ in sums), np.asarray(sum(slopes for _, slopes in sums))

    @np.errstate(**NOT_FINITE)  # here too: the threads of a pool do not have the caller's
    def _sum_rows(self, W: Array, first: int, last: int) -> tuple[float, Array]:
        """The sum of the losses of rows first, ..., last - 1, and its gradient in W.

        W and all else have a class a row here: sums over the classes then run along the rows of
        data, twice as quick.  Few rows at a time, so that X is read from memory once.
        """
        d = self.column_count
        gradient, total = np.zeros(W.shape), 0.0
        blocks = max((last - first) * d // BLOCK, 1)  # as long as can be: each takes many calls
        at_once = max(-(-(last - first) // blocks), LEAST_ROWS)
        for start in range(first, last, at_once):
            rows = slice(start, min(start + at_once, last))
            X = self.X[rows]
            scores = np.ascontiguousarray(W[:, :d] @ X.T)  # of a sparse X in another order
            if self.intercept:
                scores += W[:, d:]
            value, slopes = self._losses(scores, rows)
            total += value
            gradient[:, :d] += slopes @ X
            if self.intercept:
                gradient[:, d] += slopes.sum(axis=1)
        return total, gradient

    def _losses(self, scores: Array, rows: slice) -> tuple[float, Array]:
        """The sum of the losses of these rows, weighted, and its slopes, in place of the scores."""
        labels = self.labels[rows]
        own = labels * len(labels) + np.arange(len(labels))  # the places of the rows' own classes
        scores -= scores.max(axis=0)
        losses = -scores.ravel()[own]
        slopes = np.exp(scores, out=scores)
        sums = slopes.sum(axis=0)
        losses += np.log(sums)
        slopes /= sums
        slopes.ravel()[own] -= 1.0
        if self.shares is None:
            return float(losses.sum()), slopes
        slopes *= self.shares[rows]
        return float((self.shares[rows] * losses).sum()), slopes

    def hessian_block(self, W: Array, variables: Any = None) -> Array:
        """Return the rows and columns of the Hessian at W of these variables, of the flattened W.

        The mean of (diag(p_i) - p_i p_i^T) x s_i s_i^T, of the rows and the probabilities of
        `sample_curvatures`, and l2 for each penalised variable.
        """
        n, d = self.X.shape
        chosen = np.arange(self.dim) if variables is None else np.asarray(variables)
        columns, kinds = np.divmod(chosen, self.classes)
        found = np.zeros((len(chosen), len(chosen)))
        at_once = max(blas.ENTRIES_AT_ONCE // max(len(chosen), 1), 1)
        with blas.on_one_thread():
            for start in range(0, n, at_once):
                rows, p = self.sample_curvatures(W, slice(start, start + at_once))
                A = rows[:, columns]
                A = A.toarray() if self.is_sparse else A.astype(np.float64, copy=False)
                scaled = A * p[:, kinds]
                found -= scaled.T @ scaled
                for kind in np.unique(kinds):
                    own = np.flatnonzero(kinds == kind)
                    found[np.ix_(own, own)] += scaled[:, own].T @ A[:, own]
        found /= n
        found[np.diag_indices(len(chosen))] += np.where(columns < d, self.l2, 0.0)
        return found

    def second_slopes(self, predictions: Array, index: Any) -> Array:
        """The probabilities p of the classes in each row: they give diag(p) - p p^T."""
        p = np.exp(predictions - predictions.max(axis=1, keepdims=True))
        return np.asarray(p / p.sum(axis=1, keepdims=True))
