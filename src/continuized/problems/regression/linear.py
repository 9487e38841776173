"""What the regressions share: rows with weights, an intercept, and bounds on the curvature.

With A the rows of X, each followed by a 1 where there is an intercept, and weights_i the weights
(1 each, if none are given), every regression has a Hessian of at most

    curvature * sum_i weights_i a_i a_i^T / sum_i weights_i + l2 * (1 for each penalised variable).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.problems.regression.data import check_data, check_weights
from continuized.problems.regression.interface import ALL_ROWS, Regression
from continuized.problems.regression.spectrum import Spectrum, count_pairs, spectrum
from continuized.support import blas, threads
from continuized.support import validation as check

LEAST_SQUARE, MOST_SQUARE = 1e-280, 1e280  # for the largest sum of squares
LARGE = 2**19  # entries of X from which all threads are quicker than one
CONSTANT_PARTS = 16  # of the rows of a large X, in sums that are to be the same on every machine


class Linear(Regression):
    """A regression whose rows are in this process, or in a file that is mapped into it."""

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        l2: float = 0.0,
        *,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        X, y = check_data(X, y)
        l2 = check.real(l2, "l2", minimum=0.0)
        weights = None if weights is None else check_weights(weights, len(y))
        self._take(X, y, l2, weights, check.flag(intercept, "intercept"))

    @classmethod
    def of_checked(
        cls,
        X: Array,
        y: Array,
        l2: float,
        *,
        weights: Array | None,
        intercept: bool,
        **options: Any,
    ) -> Any:
        """Make the regression of a finite C-ordered array of floats X, and of weights and options,
        that were checked before: to do so again would take long, beside small data and beside few
        passes over large ones."""
        made = cls.__new__(cls)
        y = check.array(y, "y", dtype=np.float64, finite=True)
        made._take(X, y, l2, weights, intercept)
        made._set_options(**options)
        return made

    def _take(self, X: Any, y: Array, l2: float, weights: Array | None, intercept: bool) -> None:
        """Keep what was checked, and what runs ask of it many times."""
        self.X, self.y, self.l2, self.weights, self.intercept = X, y, l2, weights, intercept
        self.row_count, self.column_count = X.shape
        self.entry_count = int(X.size)
        self.is_sparse = not isinstance(X, np.ndarray)
        self._check_y()

    def _check_y(self) -> None:
        """Refuse a y that the loss has no value for."""

    def _set_options(self, *args: Any, **options: Any) -> None:
        """Keep what the loss takes beside the data."""

    def sum_over_rows(
        self, question: Callable[..., Any], *arguments: Any, index: Any = ALL_ROWS
    ) -> Any:
        with blas.on_one_thread():
            return question(self, index, *arguments)

    @property
    def is_weighted(self) -> bool:  # type: ignore[override]
        """Whether rows have weights."""
        return self.weights is not None

    @property
    def entry_pairs(self) -> float:  # type: ignore[override]
        """The products x_ij x_ik that the rows of a sparse X have."""
        return count_pairs(np.diff(self.X.indptr))

    def refuse_extras(self, who: str) -> None:
        """Raise ValueError where there are weights or an intercept."""
        if not self.is_plain:
            what = "an intercept" if self.weights is None else "weights"
            raise ValueError(
                f"{who} is for regressions without weights and intercept, but this one has {what}; "
                'use method="continuized"'
            )

    @cached_property
    def shares(self) -> Array | None:
        """The weights, scaled to the mean 1 over all rows, in a shard over those of all shards;
        None where there are none."""
        if self.weights is None:
            return None
        return np.asarray(self.weights / self.weights.sum() * len(self.y))

    def sample_rows(self, index: Any) -> Any:
        """Return rows s_i = sqrt(shares_i) (x_i, 1), dense or CSR; the 1 only with an intercept.

        The mean of s_i s_i^T over all rows is the weighted mean of the outer products, so that
        over rows drawn uniformly it is an estimate of that, whatever the weights.
        """
        rows = self._rows(index)
        if self.is_plain:
            return rows
        n = rows.shape[0]
        roots = np.ones(n) if self.shares is None else np.sqrt(self.shares[index])
        constant = [roots[:, np.newaxis]] if self.intercept else []
        if not self.is_sparse:
            return np.hstack([rows * roots[:, np.newaxis], *constant])
        from scipy import sparse

        scaled = sparse.diags_array(roots, shape=(n, n)) @ rows
        return sparse.hstack([scaled, *map(sparse.csr_array, constant)], format="csr")

    def sample_curvatures(self, w: ArrayLike, index: Any) -> tuple[Any, Array]:
        """Return `sample_rows`, and q: the second derivatives of the losses of these rows at w.

        Each is at most `curvature`.  The Hessian at w is the mean of q_i s_i s_i^T, and l2 for
        each penalised variable.  With several classes q_i is a row, the probabilities of the
        classes, and the second derivative is the matrix diag(q_i) - q_i q_i^T.  Huber's loss has
        the curvature of a parabola above it in place of its second derivative.
        """
        return self.sample_rows(index), self.curvatures(w, index)

    def curvatures(self, w: ArrayLike, index: Any) -> Array:
        """Return the q of `sample_curvatures` alone."""
        at = np.asarray(w, np.float64).reshape(self.variables, self.classes)
        return self.second_slopes(self.predictions(at, index), index)

    def second_slopes(self, predictions: Array, index: Any) -> Array:
        """Return what tells the second derivative of the loss of each of these rows."""
        raise NotImplementedError

    def predictions(self, w: Array, index: Any) -> Array:
        """Return <x_i, w> for these rows, with the intercept; for each column of a matrix w."""
        d = self.X.shape[1]
        rows, constant = self._rows(index), w[d:].sum(axis=0)
        if not w[:d].any():  # as where most runs begin
            zeros = np.zeros((rows.shape[0], *w.shape[1:]), np.result_type(rows.dtype, w))
            return np.asarray(zeros + constant)
        return np.asarray(blas.product(rows, w[:d]) + constant)

    def _rows(self, index: Any) -> Any:
        """Return X[index]; all of X without the copy that SciPy would make."""
        return self.X if isinstance(index, slice) and index == slice(None) else self.X[index]

    # Constants, computed when first asked for

    @cached_property
    def spectrum(self) -> Spectrum:  # type: ignore[override]
        """Bounds on the eigenvalues of the weighted mean of a_i a_i^T, and how they were found.

        With weights or an intercept, these take a copy of X while they are computed.
        """
        zeros = np.zeros(len(self.y))

        def multiply(v: Array) -> Array:
            # The gradient of |Av|^2 / 2 is A^T A v: one pass over X, with all threads.
            return self.mean_squares(zeros, v)

        return spectrum(self.X if self.is_plain else self.sample_rows(slice(None)), multiply)

    @cached_property
    def square_sums(self) -> Array:  # type: ignore[override]
        """For each column, the sum of the weighted squares of its entries."""
        if self.is_sparse:
            squares = squares_of(self.X.data)
            if self.shares is not None:
                squares *= np.repeat(self.shares, np.diff(self.X.indptr))
            return np.bincount(self.X.indices, squares, minlength=self.X.shape[1])
        if self.shares is None:
            return np.asarray(np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64))
        return np.asarray(np.einsum("i,ij,ij->j", self.shares, self.X, self.X, dtype=np.float64))

    @cached_property
    def column_means(self) -> Array:  # type: ignore[override]
        """The weighted mean of each column of X, and 1 for the intercept."""
        n, parts = len(self.y), self._constant_parts
        shares, cuts = np.ones(n) if self.shares is None else self.shares, threads.cut(n, parts)

        def add_rows(part: int) -> Array:
            rows = slice(cuts[part], cuts[part + 1])
            return np.asarray(shares[rows] @ self.X[rows])

        means = blas.add_in_order(parts, add_rows) / n
        return np.append(means, 1.0) if self.intercept else means

    def mean_squares(self, y: Array, w: Array) -> Array:
        """Return the gradient at w of the weighted mean of (<a_i, w> - y_i)^2 / 2."""
        from continuized.problems.kernels import pass_over_rows

        vector = self._pack(SQUARED, 0.0, y)
        return pass_over_rows(
            self._arranged[1], vector, w, self._constant_parts, value=False, gradient=True
        )[1]

    def _pack(self, loss: float, l2: float, y: Array) -> Array:
        """Return the vector of compiled data (`problems.kernels`), with this loss, l2 and y."""
        shares = np.ones(len(y)) if self.shares is None else self.shares
        order, _ = self._arranged
        if order is not None:
            y, shares = y[order], shares[order]
        return np.concatenate([[loss, l2, float(self.intercept)], y, shares])

    @cached_property
    def _arranged(self) -> tuple[Array | None, Any]:
        """The order in which passes take the rows, None for their own, and the rows in it: X, or a
        tuple of sparse rows (`problems.sparse_rows`)."""
        if not self.is_sparse:
            return None, self.X
        from continuized.problems.sparse_rows import arrange

        return arrange(self.X)

    @property
    def _parts(self) -> int:
        """The number of parts of a pass: one for each thread, or one where X is small."""
        return min(threads.count(), self.row_count) if self.entry_count >= LARGE else 1

    @property
    def _constant_parts(self) -> int:
        """The number of parts of a sum for constants, by which checkpoints know the problem: the
        same however many threads there are."""
        return min(CONSTANT_PARTS, self.row_count) if self.entry_count >= LARGE else 1


def squares_of(entries: Array) -> Array:
    """Return the squares in float64, whatever the entries are held in."""
    with np.errstate(over="ignore"):  # who asks looks at the sums, and says it in a sentence
        return entries.astype(np.float64) ** 2


def check_squares(sums: Array, X: Any) -> None:
    """Refuse an X with these sums of squares, of rows or columns, if the largest is out of range.

    Steps divide by them and multiply them: the range leaves room for that.
    """
    largest = float(sums.max(initial=0.0))
    is_zero = not np.any(X if isinstance(X, np.ndarray) else X.data)
    if LEAST_SQUARE <= largest <= MOST_SQUARE or is_zero:
        return
    what = "underflow" if largest < LEAST_SQUARE else "overflow"
    raise ValueError(f"the squares of X's entries {what} (sums of {largest:.3g}): rescale X")
