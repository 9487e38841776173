"""What runs ask of a regression, wherever its rows are: in this process, or in others.

A regression is a weighted mean of losses over rows, so that f, its gradient and its curvature are
sums over the rows.  Whoever holds the rows adds them up: `Linear` in this process,
`network.Sharded` over several.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.problems.regression.spectrum import Spectrum

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
    is_plain: bool  # whether there are neither weights nor an intercept

    # What is known of the rows

    row_count: int
    column_count: int  # without that of the intercept
    entry_count: int  # of X, as far as they are held
    is_sparse: bool
    meetings: float  # products x_ij x_ik that the rows of a sparse X have
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
    def density(self) -> float:
        """The share of the entries of X that are held."""
        return float(self.entry_count / max(self.row_count * self.column_count, 1))

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
        each = self.typical_curvature
        scales: Array = each * self.square_sums / self.row_count + self.l2
        return np.append(scales, each) if self.intercept else scales

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
