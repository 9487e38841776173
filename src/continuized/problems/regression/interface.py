"""What runs ask of a regression, wherever its rows are: in this process, or in others.

A regression is a weighted mean of losses over rows, so that f, its gradient and its curvature are
sums over the rows.  Whoever holds the rows adds them up: `Linear` in this process,
`network.Sharded` over several.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.problems.losses import SQUARED
from continuized.problems.regression.spectrum import Spectrum
from continuized.support import blas

ALL_ROWS = slice(None)


class Regression(Problem):
    """A weighted mean of losses of linear predictions, and l2/2 |w|^2."""

    is_defined_everywhere = True
    is_here: bool = True  # whether the rows are in this process, where methods can take each

    loss: float
    least_loss: float = 0.0  # a lower bound of the mean of the losses, whatever is predicted
    curvature: float  # the largest second derivative of the loss
    classes: int = 1  # predictions of a row
    l2: float
    intercept: bool
    is_weighted: bool  # whether rows have weights
    mean: float  # of y, weighted; asked for where the curvature has no bound

    # What is known of the rows

    row_count: int
    column_count: int  # without that of the intercept
    entry_count: int  # of X, as far as they are held
    is_sparse: bool
    entry_pairs: float  # products x_ij x_ik that the rows of a sparse X have
    square_sums: Array  # for each column, the sum of the weighted squares of its entries
    spectrum: Spectrum  # of the weighted mean of a_i a_i^T
    column_means: Array  # the weighted mean of each column of X, and 1 for the intercept

    def sum_over_rows(
        self, question: Callable[..., Any], *arguments: Any, index: Any = ALL_ROWS
    ) -> Any:
        """Return the sum of an answer over these rows: an array, or a tuple of arrays.

        question(p, index, *arguments) is a function of a module, which is given a regression with
        all rows or some of them, and the numbers of those to answer for in it.  Arguments are
        arrays, numbers or None.
        """
        raise NotImplementedError

    def sample_curvatures(self, w: ArrayLike, index: Any) -> tuple[Any, Array]:
        """Return rows and their curvatures (`Linear.sample_curvatures`)."""
        raise NotImplementedError

    @property
    def variables(self) -> int:
        """The columns of X, and the intercept; for several classes, the variables of each."""
        return int(self.column_count + self.intercept)

    @property
    def dim(self) -> int:
        """The number of variables, the intercepts included, of all classes."""
        return self.variables * self.classes

    @property
    def is_plain(self) -> bool:
        """Whether there are neither weights nor an intercept."""
        return not (self.is_weighted or self.intercept)

    @property
    def density(self) -> float:
        """The share of the entries of X that are held."""
        return float(self.entry_count / max(self.row_count * self.column_count, 1))

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"rows": self.row_count, "columns": self.column_count}
        facts["l2"] = self.l2
        if self.classes > 1:
            facts["classes"] = self.classes
        extras = {
            "sparse": self.is_sparse,
            "weights": self.is_weighted,
            "intercept": self.intercept,
        }
        return facts | {name: True for name, there in extras.items() if there} | self._known()

    # Constants, computed when first asked for

    @cached_property
    def L(self) -> float:  # type: ignore[override]
        """An upper bound of the smoothness constant: the largest curvature is at most this.

        Where X has a small side it is, up to rounding, the largest eigenvalue of curvature times
        the mean of a_i a_i^T, and l2 (with an intercept: at most l2 more); otherwise at most 1.053
        times too large and, with probability 1 - 1e-10 over a random direction, not too small
        (`p.spectrum`).
        """
        return float(self.curvature * self.spectrum.largest + self.l2)

    @property
    def rounding(self) -> float:
        """The part of L, and of what mu is too small, that is there for rounding errors alone."""
        return float(self.curvature * self.spectrum.rounding)

    @cached_property
    def mu(self) -> float:  # type: ignore[override]
        """A lower bound of the strong convexity: l2, for the loss itself may be flat.

        With an intercept, which is not penalised, 0.  Of least squares it is the smallest
        eigenvalue of the Hessian: that of the mean of a_i a_i^T, plus l2, where it is computed:
        where X has a small side.  With an intercept it is the larger of that eigenvalue alone and
        of what l2 gives.
        """
        if self.loss != SQUARED:
            return 0.0 if self.intercept else self.l2
        if not self.intercept:
            return self.spectrum.smallest + self.l2
        mean = self.column_means[: self.column_count]
        size = float(self.square_sums.sum()) / self.row_count + 1.0
        rounding = self.row_count * math.ulp(1.0) * math.sqrt(size)
        return max(self.spectrum.smallest, mu_by_l2(self.l2, blas.norm(mean) + rounding))

    @property
    def coordinate_L(self) -> Array:
        """L_j = curvature |X_j|^2 / n + l2 for each column X_j: the smoothness along it.

        With weights, the weighted mean of x_ij^2; the intercept's is the curvature.  Infinite
        where the curvature has no bound.
        """
        is_known = math.isfinite(self.curvature)
        return self.column_scales if is_known else np.full(self.dim, math.inf)

    @property
    def typical_curvature(self) -> float:
        """A second derivative of the loss that tells the scale of f: the largest, or, where they
        have no bound, that of Poisson's loss where the mean of y is predicted for every row."""
        return self.curvature if math.isfinite(self.curvature) else self.mean or 1.0

    @cached_property
    def column_scales(self) -> Array:
        """The curvature of f along each variable where that of every loss is the typical one."""
        each = self.typical_curvature
        scales: Array = each * self.square_sums / self.row_count + self.l2
        return np.append(scales, each) if self.intercept else scales

    @cached_property
    def trace(self) -> float:
        """The sum of the `column_scales`, the trace of such a Hessian of one class."""
        return float(self.column_scales.sum())

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The minimiser, where known."""
        return None

    @cached_property
    def f_star(self) -> float | None:  # type: ignore[override]
        """The minimum, where the minimiser is known."""
        return None if self.x_star is None else self.fun(self.x_star)


def mu_by_l2(l2: float, mean: float) -> float:
    """Bound the strong convexity of least squares with an intercept: l2 / (1 + l2 + m^2), m the
    norm of the mean row.

    With u that row, the curvature along (v, b) is at least l2 |v|^2 + (<u, v> + b)^2, for the
    variance of <x_i, v> is not negative.  The worst v is along u: what is left is the matrix
    [[l2 + m^2, m], [m, 1]], whose smallest eigenvalue is at least determinant / trace.
    """
    return float(l2 / (1.0 + l2 + mean * mean))
