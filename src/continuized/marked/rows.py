"""Least squares a row at a time: stochastic gradient descent and Kaczmarz, accelerated.

Rows a with labels b = <a, x*> and no noise on them, H = E[a a^T].  With the smallest R2 and kappa
such that E[|a|^2 a a^T] <= R2 H and E[|a|^2_{H^-1} a a^T] <= kappa H, the step of x is 1/R2 and
the parameters are those of the process with L := R2 kappa and mu the smallest eigenvalue of H
(Even et al. 2021).  With label noise the iterates come near x*, and stay about it.  In batches, the
mean of several a a^T takes the place of a a^T, and R2 and kappa are smaller (`batch_constants`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from continuized.marked.kernels import layout
from continuized.marked.kernels.events import row_events
from continuized.marked.stepper import MarkedStepper
from continuized.problems import LeastSquares, Problem
from continuized.problems.base import Array
from continuized.problems.regression.linear import check_squares
from continuized.problems.regression.spectrum import spectrum
from continuized.process.marks import Batches, Categorical, Finite
from continuized.process.methods import Continuized
from continuized.support import blas, threads
from continuized.support import validation as check

Given = tuple[float | None, float | None, float | None]  # R2, kappa and mu, as far as they are

EXACT_UP_TO = 1000  # columns for which R2, kappa and mu are computed exactly
FULL_RANK = 1e-12  # relative size below which an eigenvalue of H counts as 0
BLOCK_NUMBERS = 2**16  # entries of X made dense at once, or as many as H has, if that is more
GIVEN_ROUNDING = 1e-9  # relative; constants that are given may be rounded


@dataclass(frozen=True, eq=False)
class StochasticLeastSquares:
    """Rows drawn uniformly.  R2, kappa and mu are computed when they are not given: exactly up to
    1000 columns; beyond, R2 = max |a|^2, mu = 0, and kappa is estimated: that of independent
    columns, or d + 2, that of Gaussian rows, if it is more.

    At a row a with label b, x -= (<a, x> - b) a / R2 and z -= gamma' (<a, x> - b) a, with the
    parameters of Continuized(R2 kappa, mu).  accelerated: False for stochastic gradient descent.
    start: as in Continuized.  Raises ValueError for constants that are negative or not finite, and
    in a run where mu > R2 kappa.  `r.constants` has those used, and whether all were computed.

    batch: how many rows an event draws, independently, so that one may be there twice; the step is
    along the mean of their (<a, x> - b) a.  R2 and kappa are still given for single rows; those of
    batches follow (`rows.batch_constants`), and are in r.constants.  Raises TypeError or
    ValueError unless it is an integer >= 1.

    >>> import continuized as cz, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> p = cz.problems.LeastSquares(X, X.sum(axis=1))  # labels without noise
    >>> r = cz.minimize(p, np.zeros(4), method=cz.StochasticLeastSquares(), tol=1e-6, rng=0)
    >>> r.success, r.x.round(4).tolist()
    (True, [1.0, 1.0, 1.0, 1.0])
    >>> batches = cz.minimize(
    ...     p, np.zeros(4), method=cz.StochasticLeastSquares(batch=8), tol=1e-6, rng=0
    ... )
    >>> batches.success, batches.constants["R2"] < r.constants["R2"], batches.nit < r.nit
    (True, True, True)
    """

    R2: float | None = None
    kappa: float | None = None
    mu: float | None = None
    accelerated: bool = True
    start: float | None = None
    batch: int = 1
    name: ClassVar[str] = "stochastic-least-squares"

    def __post_init__(self) -> None:
        check.flag(self.accelerated, "accelerated")
        batch = check.whole(self.batch, "batch", minimum=1, maximum=2**31 - 1)
        object.__setattr__(self, "batch", batch)
        for name in ("R2", "kappa"):
            if getattr(self, name) is not None:
                check.real(getattr(self, name), name, above=0.0, other="None")
        if self.mu is not None:
            check.real(self.mu, "mu", minimum=0.0, other="None")

    @property
    def for_another_law(self) -> str:
        """What rows drawn with other probabilities need: the law enters by the constants alone."""
        if self.batch > 1:  # those of batches take the largest eigenvalue of H for this law
            return "batch=1, and R2, kappa and mu for that law"
        names = ("R2", "kappa", "mu") if self.accelerated else ("R2",)
        missing = [name for name in names if getattr(self, name) is None]
        return f"the method {', '.join(missing)} for that law" if missing else ""

    def prepare(self, problem: Problem, x0: Array) -> RowStepper:
        """Prepare the run on this problem from x0.

        Raises TypeError unless it is LeastSquares, ValueError for weights, an intercept or l2 > 0.
        """
        who = type(self).__name__
        if not isinstance(problem, LeastSquares):
            raise TypeError(f"{who} is for LeastSquares, got {type(problem).__name__}")
        problem.refuse_extras(who)
        if problem.l2 != 0.0:
            raise ValueError(
                f"{who} is for least squares without l2, got l2 = {problem.l2}; use "
                "CoordinateDescent or DualCoordinate"
            )
        if problem.dim == 0:
            raise ValueError("the problem has no variables: there is nothing to project on")
        check_squares(problem.row_norms2, problem.X)
        return RowStepper(self, problem, x0)

    def _weights(self, problem: Any) -> tuple[Array, Array]:
        """Return the probabilities of the rows, and the factors that they are multiplied by."""
        n = problem.X.shape[0]
        return np.full(n, 1.0 / n), np.ones(n)


@dataclass(frozen=True, eq=False)
class Kaczmarz(StochasticLeastSquares):
    """Rows drawn with probability proportional to |a|^2, and normalised: then R2 = 1 of one row.

    A step on one row projects x on {x : <a, x> = b}.  R2, kappa, mu, accelerated, start and batch:
    as for StochasticLeastSquares.  Raises ValueError in a run where every row is zero.

    >>> import continuized as cz, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> p = cz.problems.LeastSquares(X, X.sum(axis=1))
    >>> cz.minimize(p, np.zeros(4), method=cz.Kaczmarz(), tol=1e-6, rng=0).x.round(4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    name: ClassVar[str] = "kaczmarz"

    @property
    def for_another_law(self) -> str:
        """A projection, which is the plain step, is the same whatever the law: R2 = 1."""
        return super().for_another_law if self.accelerated or self.batch > 1 else ""

    def _weights(self, problem: Any) -> tuple[Array, Array]:
        norms2 = problem.row_norms2
        if not np.any(norms2 > 0.0):
            raise ValueError("every row of X is zero: there is nothing to project on")
        factors = np.divide(1.0, np.sqrt(norms2), out=np.zeros_like(norms2), where=norms2 > 0.0)
        return norms2 / norms2.sum(), factors


class RowStepper(MarkedStepper):
    """A run of row steps: the state, and what may be asked of it between blocks."""

    def __init__(self, method: StochasticLeastSquares, problem: LeastSquares, x0: Array) -> None:
        from scipy import sparse

        rows, (p, factors) = sparse.csr_array(problem.X), method._weights(problem)
        self.kept, self.entries = layout.columns_of(rows)  # other entries of x stay
        self.x0 = np.array(x0.ravel(), dtype=np.float64)
        super().__init__(problem, method, self.entries, self.x0[self.kept])
        self.batch, given = method.batch, (method.R2, method.kappa, method.mu)
        self.row = row_constants(rows, p, factors, given)
        self.exact = given == (None, None, None) and are_exact(rows)
        self.for_another_law = method.for_another_law
        law, used = Categorical(p), self.row
        self.law: Finite = law
        if self.batch > 1:
            self.L_H = largest_eigenvalue(rows, p, factors)
            used = batch_constants(self.row, self.L_H, self.batch)
            self.law = Batches(law, self.batch)
        self.R2, self.kappa, mu = used
        L = self.R2 * self.kappa
        if mu > L * (1.0 + GIVEN_ROUNDING):
            raise ValueError(
                f"mu must be at most R2 kappa = {L:.6g}, whatever the rows, got mu = {mu:.6g}; "
                "leave out what you gave, or give smaller mu"
            )
        self.mu = min(mu, L)  # of equal ones, either may be the larger by rounding
        self.process = Continuized(L, self.mu, method.start)
        self.p, self.factors, self.rhs = p, factors, problem.y

    @property
    def constants(self) -> dict[str, Any]:
        """The constants that were used; exact: whether none was given or estimated."""
        found = {"R2": self.R2, "kappa": self.kappa, "mu": self.mu, "exact": self.exact}
        return found if self.batch == 1 else {**found, "batch": self.batch, "L_H": self.L_H}

    def take(self, marks: Array, coefficients: Array) -> None:
        known = (self.factors, self.rhs, self.entries, 1.0 / self.R2, self.accelerated)
        row_events(marks, coefficients, *known, self.scalars, self.pairs)

    def point(self) -> Array:
        x = self.x0.copy()
        x[self.kept] = self.at_x(self.pairs)
        return x


class RowConstants(NamedTuple):
    """The constants R2, kappa and mu of the module, of single rows or of batches of them."""

    R2: float
    kappa: float
    mu: float


def are_exact(rows: Any) -> bool:
    """Whether the constants of these rows are computed exactly, where none are given."""
    return bool(rows.shape[1] <= EXACT_UP_TO)


def row_constants(
    rows: Any, p: Array, factors: Array, given: Given = (None, None, None)
) -> RowConstants:
    """Return R2, kappa and mu of the rows factors_i a_i drawn with probabilities p_i.

    Those that are given are taken as they are, and not computed.
    """
    from scipy import sparse

    R2, kappa, mu = given
    if R2 is None or kappa is None or (mu is None and are_exact(rows)):
        # A copy of the entries, in float64: sums of squares in float32 would be off by 1e-7.
        scaled = sparse.diags_array(factors) @ rows.astype(np.float64)
        find = _compute_exactly if are_exact(rows) else _estimate
        work = rows.size * float(rows.shape[1])
        with blas.always_on_one_thread():
            R2, kappa, mu = threads.interruptible(work, find, scaled, p, given)
    return RowConstants(float(R2), float(kappa), float(mu or 0.0))


def _compute_exactly(a: Any, p: Array, given: Given) -> tuple[float, float, float]:
    R2, kappa, mu = given
    cuts = _cut(a)

    def add_rows(part: int) -> Array:
        at = cuts[part]
        block = a[at].toarray()
        return np.asarray(block.T @ (p[at, None] * block))

    H = blas.add_in_order(len(cuts), add_rows)
    values, vectors = np.linalg.eigh(H)
    live = values > FULL_RANK * values[-1]
    if mu is None:
        mu = float(values[0]) if live.all() else 0.0
    if R2 is None or kappa is None:
        found = _largest(a, p, vectors[:, live] / np.sqrt(values[live]))
        R2, kappa = found[0] if R2 is None else R2, found[1] if kappa is None else kappa
    return R2, kappa, mu


def _largest(a: Any, p: Array, W: Array) -> tuple[float, float]:
    """Find the largest eigenvalues of E |a|^2 v v^T and E |v|^2 v v^T, v = W^T a = H^{-1/2} a."""
    rank = W.shape[1]
    if rank == 0:  # nothing but zeros
        return 1.0, 1.0
    cuts = _cut(a)

    def add_rows(part: int) -> Array:
        at = cuts[part]
        block = a[at].toarray()
        white = block @ W
        weights = [p[at] * np.einsum("ij,ij->i", lines, lines) for lines in (block, white)]
        return np.stack([white.T @ (each[:, None] * white) for each in weights])

    largest = np.linalg.eigvalsh(blas.add_in_order(len(cuts), add_rows))[:, -1]
    return float(largest[0]), float(largest[1])


def _cut(a: Any) -> list[slice]:
    """Cut the rows into parts that are made dense: as many in each as there are columns, more where
    those are few."""
    n, d = a.shape
    size = max(d, BLOCK_NUMBERS // d)
    return [slice(first, first + size) for first in range(0, n, size)]


def _estimate(a: Any, p: Array, given: Given) -> tuple[float, float, float]:
    """Take R2 = max |a|^2 and mu = 0, which hold; estimate kappa as if H were diagonal, for rare
    columns make it far larger than d + 2; never more than 1 / min p, for |a_i|^2_{H^-1} <= 1 / p_i.
    """
    (R2, kappa, mu), squares = given, a.power(2)
    if R2 is None:
        R2 = float((squares.sum(axis=1) * (p > 0.0)).max()) or 1.0
    if kappa is None:
        diagonal = squares.T @ p
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0)
        norms2 = squares @ inverse  # |a|^2_{H^-1}
        largest = float((inverse * (squares.T @ (p * norms2))).max())
        kappa = float(min(max(a.shape[1] + 2.0, largest), 1.0 / p[p > 0.0].min()))
    return R2, kappa, mu or 0.0


def batch_constants(row: RowConstants, L_H: float, batch: int) -> RowConstants:
    """Return R2, kappa and mu of batches, from those of rows and L_H, the largest eigenvalue of H.

    The mean A of b independent copies of a a^T has b^2 products of two copies in its square; in b
    of them a copy meets itself, in the others two that are independent, of mean H each.  So

        E[A A] = E[|a|^2 a a^T] / b + (1 - 1/b) H^2               <= (R2 / b + (1 - 1/b) L_H) H
        E[A H^-1 A] = E[|a|^2_{H^-1} a a^T] / b + (1 - 1/b) H     <= (kappa / b + 1 - 1/b) H

    which take the places of E[|a|^2 a a^T] <= R2 H and E[|a|^2_{H^-1} a a^T] <= kappa H.

    >>> batch_constants(RowConstants(R2=8.0, kappa=5.0, mu=0.1), L_H=2.0, batch=2)
    RowConstants(R2=5.0, kappa=3.0, mu=0.1)
    """
    shared = 1.0 - 1.0 / batch
    return row._replace(R2=row.R2 / batch + shared * L_H, kappa=row.kappa / batch + shared)


def largest_eigenvalue(rows: Any, p: Array, factors: Array) -> float:
    """Return an upper bound of the largest eigenvalue of H = sum_i p_i factors_i^2 a_i a_i^T: up to
    rounding that itself, or with the certificate of `problems.regression.spectrum`."""
    from scipy import sparse

    n = rows.shape[0]
    scaled = sparse.csr_array(sparse.diags_array(factors * np.sqrt(n * p)) @ rows)
    return spectrum(scaled, lambda v: scaled.T @ (scaled @ v) / n).largest
