"""What the regressions share: rows with weights, an intercept, and bounds on the curvature.

With A the rows of X, each followed by a 1 where there is an intercept, and weights_i the weights
(1 each, if none are given), every regression has a Hessian of at most

    curvature * sum_i weights_i a_i a_i^T / sum_i weights_i + l2 * (1 for each penalised variable).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.problems.losses import SQUARED
from continuized.problems.regression.data import check_data, check_weights
from continuized.problems.regression.spectrum import Spectrum, spectrum
from continuized.support import threads
from continuized.support import validation as check

LEAST_SQUARE, MOST_SQUARE = 1e-280, 1e280  # for the largest sum of squares
LARGE = 2**19  # entries of X from which all threads are quicker than one


class Linear(Problem):
    """A weighted mean of losses of linear predictions, and l2/2 |w|^2."""

    is_defined_everywhere = True

    loss: float
    least_loss: float = 0.0  # a lower bound of the mean of the losses, whatever is predicted
    curvature: ClassVar[float]  # the largest second derivative of the loss
    classes: int = 1  # predictions of a row

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        l2: float = 0.0,
        *,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        self.X, self.y = check_data(X, y)
        self.l2 = check.real(l2, "l2", minimum=0.0)
        self.weights = None if weights is None else check_weights(weights, len(self.y))
        self.intercept = check.flag(intercept, "intercept")
        self._check_y()

    def _check_y(self) -> None:
        """Refuse a y that the loss has no value for."""

    @property
    def variables(self) -> int:
        """The columns of X, and the intercept; for several classes, the variables of each."""
        return int(self.X.shape[1] + self.intercept)

    @property
    def dim(self) -> int:
        """The number of variables, the intercepts included, of all classes."""
        return self.variables * self.classes

    @property
    def is_sparse(self) -> bool:
        """Whether X is a CSR array."""
        return not isinstance(self.X, np.ndarray)

    @property
    def is_plain(self) -> bool:
        """Whether there are neither weights nor an intercept."""
        return self.weights is None and not self.intercept

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
        """The weights, scaled to the mean 1; None where there are none."""
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
        return self._second_slopes(self.predictions(at, index), index)

    def _second_slopes(self, predictions: Array, index: Any) -> Array:
        """Return what tells the second derivative of the loss of each of these rows."""
        raise NotImplementedError

    def predictions(self, w: Array, index: Any) -> Array:
        """Return <x_i, w> for these rows, with the intercept; for each column of a matrix w."""
        d = self.X.shape[1]
        return np.asarray(self._rows(index) @ w[:d] + w[d:].sum(axis=0))

    def _rows(self, index: Any) -> Any:
        """Return X[index]; all of X without the copy that SciPy would make."""
        return self.X if isinstance(index, slice) and index == slice(None) else self.X[index]

    # Constants, computed when first asked for

    @cached_property
    def spectrum(self) -> Spectrum:
        """Bounds on the eigenvalues of the weighted mean of a_i a_i^T, and how they were found.

        With weights or an intercept, these take a copy of X while they are computed.
        """
        zeros = np.zeros(len(self.y))

        def multiply(v: Array) -> Array:
            # The gradient of |Av|^2 / 2 is A^T A v: one pass over X, with all threads.
            return self._sum_losses(SQUARED, zeros, v, gradient=True)[1] / zeros.size

        return spectrum(self.X if self.is_plain else self.sample_rows(slice(None)), multiply)

    @cached_property
    def L(self) -> float:  # type: ignore[override]
        """An upper bound of the smoothness constant: the largest curvature is at most this.

        Up to rounding the exact one of the bound above where X has a small side (with an
        intercept: at most l2 more); otherwise at most 1.053 times too large and, with
        probability 1 - 1e-10 over a random direction, not too small (`p.spectrum`).
        """
        return float(self.curvature * self.spectrum.largest + self.l2)

    @property
    def rounding(self) -> float:
        """The part of L, and of what mu is too small, that is there for rounding errors alone."""
        return float(self.curvature * self.spectrum.rounding)

    @cached_property
    def mu(self) -> float:  # type: ignore[override]
        """A lower bound of the strong convexity: l2, for the loss itself may be flat.

        With an intercept, which is not penalised, 0.
        """
        return 0.0 if self.intercept else self.l2

    @property
    def coordinate_L(self) -> Array:
        """L_j = curvature |X_j|^2 / n + l2 for each column X_j: the smoothness along it.

        With weights, the weighted mean of x_ij^2; the intercept's is the curvature.
        """
        return self.column_scales

    @property
    def typical_curvature(self) -> float:
        """A second derivative of the loss that tells the scale of f: the largest, if there is."""
        return self.curvature

    @cached_property
    def column_scales(self) -> Array:
        """The curvature of f along each variable where that of every loss is the typical one."""
        n, d = self.X.shape
        if self.is_sparse:
            squares = squares_of(self.X.data)
            if self.shares is not None:
                squares *= np.repeat(self.shares, np.diff(self.X.indptr))
            sums = np.bincount(self.X.indices, squares, minlength=d)
        elif self.shares is None:
            sums = np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64)
        else:
            sums = np.einsum("i,ij,ij->j", self.shares, self.X, self.X, dtype=np.float64)
        each = self.typical_curvature
        scales: Array = each * sums / n + self.l2
        return np.append(scales, each) if self.intercept else scales

    @cached_property
    def column_means(self) -> Array:
        """The weighted mean of each column of X, and 1 for the intercept."""
        n = len(self.y)
        shares = np.ones(n) if self.shares is None else self.shares
        means = np.asarray(shares @ self.X).ravel() / n
        return np.append(means, 1.0) if self.intercept else means

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The minimiser, where known."""
        return None

    @cached_property
    def f_star(self) -> float | None:  # type: ignore[override]
        """The minimum, where the minimiser is known."""
        return None if self.x_star is None else self.fun(self.x_star)

    def _sum_losses(
        self, kind: float, y: Array, w: Array, *, value: bool = False, gradient: bool = False
    ) -> tuple[float, Array]:
        """Sum shares_i loss_i, of this kind and with these y, and its gradient, on all threads."""
        from continuized.problems.kernels import pass_over_rows

        asked: Any = {"value": value, "gradient": gradient, "weights": self.shares}
        return pass_over_rows(self.X, y, kind, w, self._parts, intercept=self.intercept, **asked)

    @property
    def _parts(self) -> int:
        """The number of parts of a pass: one for each thread, or one where X is small."""
        return min(threads.count(), len(self.y)) if self.X.size >= LARGE else 1


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
