"""A problem and its dual as coordinate descent sees them: separable terms and columns of data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from continuized.marked.blocks import Partition
from continuized.marked.kernels import layout
from continuized.marked.penalty import Penalty
from continuized.problems import LeastSquares, LogisticRegression, Problem, Quadratic
from continuized.problems.base import Array
from continuized.problems.losses import LOGISTIC, SQUARED
from continuized.problems.regression.linear import check_squares

BISECTIONS = 12  # for the scale of a start: it need not be exact


@dataclass(frozen=True)
class SeparableForm:
    """F(x) = c sum_r loss(u_r, y_r) + sum_i ridge_i/2 (x_i - center_i)^2 + psi(x), with
    u = A diag(scale) x and A by columns; L_i the coordinate smoothness, mu the strong convexity.

    psi: a penalty, without its l2, which ridge and center have; or entropy sum_i H(x_i),
    H(v) = v log v + (1-v) log(1-v), with L_i and mu as if f had its strong convexity, 4 entropy.

    Where A has fewer entries than rows, rows without entries are left out: u is in the order of
    the rows `kept` of all there are, `length`.
    """

    kind: float
    c: float
    ridge: Array
    center: Array
    scale: Array
    columns: layout.SparseColumns
    targets: Array
    L_i: Array
    find_mu: Callable[[], float]
    kept: Any
    length: int
    penalty: Penalty | None = None
    entropy: float | None = None

    @cached_property
    def mu(self) -> float:
        """The strong convexity: slow to find for a regression, and plain steps need none."""
        return float(self.find_mu())

    @property
    def is_penalised(self) -> bool:
        """Whether there is a psi beside f."""
        return self.penalty is not None or self.entropy is not None

    def image(self, x: Array) -> Array:
        """Return A diag(scale) x."""
        indptr, indices, values = self.columns
        if indices is None:
            return np.asarray((self.scale * x) @ values.reshape(x.size, -1))
        columns = (values, indices.view(np.int32), indptr.astype(np.int64))
        return np.asarray(sparse.csc_array(columns, (self.targets.size, x.size)) @ (self.scale * x))

    def fill_rows(self, u: Array) -> Array:
        """Return the images of all rows: those of rows without entries are 0."""
        out = np.zeros(self.length)
        out[self.kept] = u
        return out


def primal_form(problem: Problem) -> SeparableForm:
    """Return the problem's own coordinates; TypeError where its coordinate steps are unknown."""
    if isinstance(problem, Quadratic):
        lam, d = problem.eigenvalues, problem.dim
        kept, no_columns = layout.columns_of(np.zeros((d, 0)))
        return SeparableForm(
            SQUARED, 0.0, lam, problem.x_star, np.ones(d), no_columns, np.zeros(0), lam,
            lambda: problem.mu, kept, 0,
        )  # fmt: skip
    if not isinstance(problem, LeastSquares | LogisticRegression):
        raise TypeError(
            "CoordinateDescent is for Quadratic, LeastSquares and LogisticRegression, got "
            f"{type(problem).__name__}"
        )
    problem.refuse_extras("CoordinateDescent")
    check_squares(problem.coordinate_L, problem.X)
    n, d = problem.X.shape
    kept, columns = layout.columns_of(problem.columns.T)
    return SeparableForm(
        problem.loss, 1.0 / n, np.full(d, problem.l2), np.zeros(d), np.ones(d), columns,
        problem.y[kept], problem.coordinate_L, lambda: problem.mu, kept, n,
    )  # fmt: skip


def add_penalty(
    form: SeparableForm, penalty: Penalty, blocks: Partition, x0: Array
) -> SeparableForm:
    """Return f + psi, f with the l2 of psi; ValueError where x0 is outside the domain.

    Where f is flat along a block, any L_i will do: where psi would move it from x0, it is given the
    least of the others.
    """
    penalty.check_start(x0)
    firsts = blocks.bounds[:-1]
    L_i = form.L_i + np.maximum.reduceat(penalty.l2[blocks.members], firsts)
    moves = np.logical_or.reduceat(~penalty.find_still(x0)[blocks.members], firsts)
    least = float(L_i[L_i > 0.0].min(initial=np.inf))
    L_i[moves & (L_i == 0.0)] = least if least < np.inf else 1.0
    ridge = form.ridge + penalty.l2
    share = np.divide(form.ridge, ridge, out=np.zeros_like(ridge), where=ridge > 0.0)
    return replace(
        form, ridge=ridge, center=form.center * share, L_i=L_i, penalty=penalty,
        find_mu=lambda: form.mu + float(penalty.l2.min()),
    )  # fmt: skip


def dual_form(problem: Any, x0: Array) -> tuple[SeparableForm, Array]:
    """Return the dual of a ridge or l2-logistic regression (`dual.DualCoordinate`), and where to
    start in it: from the slopes of the losses at x0, scaled."""
    n, d = problem.X.shape
    if d == 0:
        raise ValueError("the problem has no variables: there is nothing to minimise")
    shrink = 1.0 / (problem.l2 * n)
    smooth = problem.row_norms2 * shrink / n  # of l2/2 |w|^2 along a_i
    check_squares(smooth + 1.0 / n, problem.X)  # 1/n: the losses', so that small ones do not count
    kept, columns = layout.columns_of(problem.X)
    margins = problem.X @ x0 if np.any(x0) else np.zeros(n)  # 0 is the usual start
    if problem.loss == LOGISTIC:
        a0 = 1.0 / (1.0 + np.exp(np.clip(problem.y * margins, -30, 700)))
        scale, entropy, mu = problem.y * shrink, 1.0 / n, 4.0 / n
    else:
        a0, scale, entropy, mu = problem.y - margins, np.full(n, shrink), None, 1.0 / n
    form = SeparableForm(
        SQUARED, problem.l2, np.full(n, 1.0 / n), problem.y, scale, columns,
        np.zeros(d)[kept], smooth + mu, lambda: mu, kept, d, entropy=entropy,
    )  # fmt: skip
    w = form.image(a0)
    with np.errstate(over="ignore"):  # if the first does, the best scale is 0
        squares = problem.l2 * float(w @ w)
        finite = bool(np.isfinite(a0 @ a0))
    if not finite:
        raise ValueError("y is too large for the dual, its squares overflow: divide y by a number")
    return form, a0 * _best_scale(problem, a0, squares)


def _best_scale(problem: Any, a: Array, squares: float) -> float:
    """Find the c in [0, 1] for which c a is best in the dual.

    Far from the solution the slopes of the losses give a w that is too large by far: with
    l2 = 0.01/n, a few passes are spent on coming back.  Near the solution c is about 1.
    """
    if problem.loss != LOGISTIC:
        below = float(a @ a) / a.size + squares
        return min(max(float(a @ problem.y) / a.size / below, 0.0), 1.0) if below > 0.0 else 1.0
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):  # mean a logit(c a) + c squares is increasing in c
        c = 0.5 * (low + high)
        slope = float(np.mean(a * np.log(c * a / (1.0 - c * a)))) + c * squares
        low, high = (low, c) if slope > 0.0 else (c, high)
    return high
