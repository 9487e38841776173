"""Least squares: f(w) = |Xw - y|^2 / (2n) + l2/2 |w|^2."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.problems.regression.linear import SingleOutput
from continuized.support import threads


class LeastSquares(SingleOutput):
    """f(w) = |Xw - y|^2 / (2n) + l2/2 |w|^2, X dense or sparse.

    X: an array, or a SciPy sparse matrix, which is kept as CSR (duplicate entries are added
    up, indices sorted).  float32 stays float32, integers become float64.  An array that is
    C-contiguous, or a canonical CSR matrix, is not copied: do not change it afterwards.
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

    @cached_property
    def mu(self) -> float:  # type: ignore[override]
        """A lower bound of the strong convexity: the smallest eigenvalue of the Hessian.

        That of the mean of a_i a_i^T, plus l2, where it is computed: where X has a small side.
        With an intercept it is the larger of that eigenvalue alone and of what l2 gives.
        """
        if not self.intercept:
            return self.spectrum.smallest + self.l2
        return max(self.spectrum.smallest, self._mu_by_l2)

    @property
    def _mu_by_l2(self) -> float:
        """A lower bound with an intercept, l2 / (1 + l2 + m^2), m the norm of the mean row.

        With u that row, the curvature along (v, b) is at least l2 |v|^2 + (<u, v> + b)^2, for the
        variance of <x_i, v> is not negative.  The worst v is along u: what is left is the matrix
        [[l2 + m^2, m], [m, 1]], whose smallest eigenvalue is at least determinant / trace.
        """
        from continuized.problems.kernels import Wanted, pass_over_rows

        n, d = self.X.shape
        # At w = 0 and y = -1 the squared loss has the slope 1: its gradient is the sum of the rows.
        ones, start, wanted = np.full(n, -1.0), np.zeros(d), Wanted(False, True)
        total = pass_over_rows(self.X, ones, SQUARED, start, wanted, self._parts, self.shares)[1]
        size = float(np.average(self.row_norms2, weights=self.shares))
        rounding = n * math.ulp(1.0) * math.sqrt(size)
        m = threads.norm(total) / n + rounding
        return float(self.l2 / (1.0 + self.l2 + m * m))

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The least-norm minimiser, by a direct solver; None where that would be too dear."""
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
        return np.asarray(np.linalg.lstsq(rows, right, rcond=None)[0])
