"""Least squares a row at a time: stochastic gradient descent and Kaczmarz, accelerated.

Rows a with labels b = <a, x*> and no noise on them, H = E[a a^T].  With the smallest R2 and kappa
such that E[|a|^2 a a^T] <= R2 H and E[|a|^2_{H^-1} a a^T] <= kappa H, the step of x is 1/R2 and
the parameters are those of the process with L := R2 kappa and mu the smallest eigenvalue of H
(Even et al. 2021).  With label noise the iterates come near x*, and stay about it.  A batch of rows
has a mean of several a a^T in place of a a^T, and smaller R2 and kappa (`batches`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from continuized.batches import batch_constants, largest_eigenvalue
from continuized.checkpoints import copies, put_back
from continuized.kernels import batches, lazy
from continuized.kernels.layout import at_factor, index_arrays, pairs_at, touched
from continuized.marks import Batches, Categorical, Finite, checked_batch
from continuized.methods import Continuized
from continuized.problems import LeastSquares, Problem
from continuized.problems.base import Array
from continuized.problems.linear import check_squares
from continuized.problems.threads import norm
from continuized.words import brief, check_flag, is_real

EXACT_UP_TO = 1000  # columns for which R2, kappa and mu are computed exactly
FULL_RANK = 1e-12  # relative size below which an eigenvalue of H counts as 0
BLOCK_NUMBERS = 2**16  # entries of X made dense at once, or as many as H has, if that is more
GIVEN = 1e-9  # relative; constants that are given may be rounded


class RowConstants(NamedTuple):
    """R2, kappa and mu."""

    R2: float
    kappa: float
    mu: float


@dataclass(frozen=True, eq=False)
class StochasticLeastSquares:
    """Rows drawn uniformly.  R2, kappa and mu are computed when they are not given: exactly up to
    1000 columns; beyond, R2 = max |a|^2, mu = 0, and kappa is estimated: that of independent
    columns, or d + 2, that of Gaussian rows, if it is more.

    At a row a with label b, x -= (<a, x> - b) a / R2 and z -= gamma' (<a, x> - b) a, with the
    parameters of Continuized(R2 kappa, mu).  accelerated: False for stochastic gradient descent.
    start: as in Continuized.  Raises ValueError for constants that are negative or not finite, and
    in a run where mu > R2 kappa.  `r.constants` has those used, and whether all were computed.

    batch: how many rows an event draws, independently, for a step along the mean of their
    (<a, x> - b) a; an integer >= 1, else TypeError or ValueError.  R2 and kappa are given for
    single rows: those of batches follow (`batches.batch_constants`), and are in r.constants.

    >>> import continuized as cz, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> p = cz.problems.LeastSquares(X, X.sum(axis=1))  # labels without noise
    >>> r = cz.minimize(p, np.zeros(4), method=cz.StochasticLeastSquares(), tol=1e-6, seed=0)
    >>> r.success, r.x.round(4).tolist()
    (True, [1.0, 1.0, 1.0, 1.0])
    >>> method = cz.StochasticLeastSquares(batch=8)
    >>> cz.minimize(p, np.zeros(4), method=method, tol=1e-6, seed=0).nit < r.nit
    True
    """

    R2: float | None = None
    kappa: float | None = None
    mu: float | None = None
    accelerated: bool = True
    start: float | None = None
    batch: int = 1
    name: ClassVar[str] = "stochastic-least-squares"

    def __post_init__(self) -> None:
        check_flag(self.accelerated, "accelerated")
        object.__setattr__(self, "batch", checked_batch(self.batch))
        for name in ("R2", "kappa", "mu"):
            value, sign = getattr(self, name), ">=" if name == "mu" else ">"
            if value is None:
                continue
            fits = is_real(value) and np.isfinite(value) and value >= 0.0
            if not fits or (value == 0.0 and sign == ">"):
                raise ValueError(
                    f"{name} must be a finite number {sign} 0 or None, got {brief(value)}"
                )

    @property
    def for_another_law(self) -> str:
        """What rows drawn with other probabilities need: the law enters by the constants alone."""
        names = ("R2", "kappa", "mu") if self.accelerated else ("R2",)
        missing = [name for name in names if getattr(self, name) is None]
        return f"the method {', '.join(missing)} for that law" if missing else ""

    def prepare(self, problem: Problem, x0: Array) -> Rows:
        """The run on this problem from x0.

        Raises TypeError unless it is LeastSquares, ValueError for weights, an intercept or l2 > 0.
        """
        rows = _rows_of(problem, type(self).__name__)
        n = problem.X.shape[0]  # type: ignore[attr-defined]
        return Rows(self, problem, rows, np.full(n, 1.0 / n), np.ones(n), x0)


@dataclass(frozen=True, eq=False)
class Kaczmarz(StochasticLeastSquares):
    """Rows drawn with probability proportional to |a|^2, and normalised: then R2 = 1.

    A step projects x on {x : <a, x> = b}.  R2, kappa, mu, accelerated, start and batch: as
    for StochasticLeastSquares.

    >>> import continuized as cz, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> p = cz.problems.LeastSquares(X, X.sum(axis=1))
    >>> cz.minimize(p, np.zeros(4), method=cz.Kaczmarz(), tol=1e-6, seed=0).x.round(4).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """

    name: ClassVar[str] = "kaczmarz"

    @property
    def for_another_law(self) -> str:
        """A projection, which is the plain step, is the same whatever the law: R2 = 1."""
        return super().for_another_law if self.accelerated else ""

    def prepare(self, problem: Problem, x0: Array) -> Rows:
        """As for StochasticLeastSquares; ValueError, too, where every row is zero."""
        rows = _rows_of(problem, type(self).__name__)
        norms2 = problem.row_norms2  # type: ignore[attr-defined]
        if not np.any(norms2 > 0.0):
            raise ValueError("every row of X is zero: there is nothing to project on")
        factors = np.divide(1.0, np.sqrt(norms2), out=np.zeros_like(norms2), where=norms2 > 0.0)
        return Rows(self, problem, rows, norms2 / norms2.sum(), factors, x0)


def _rows_of(problem: Problem, who: str) -> Any:
    from scipy import sparse

    if not isinstance(problem, LeastSquares):
        raise TypeError(f"{who} is for LeastSquares, got {type(problem).__name__}")
    problem.refuse_extras(who)
    if problem.l2 != 0.0:
        raise ValueError(
            f"{who} is for least squares without l2, got l2 = {problem.l2}; use CoordinateDescent "
            "or DualCoordinate"
        )
    if problem.dim == 0:
        raise ValueError("the problem has no variables: there is nothing to project on")
    check_squares(problem.row_norms2, problem.X)
    return sparse.csr_array(problem.X)


def row_constants(
    rows: Any,
    p: Array,
    factors: Array,
    R2: float | None = None,
    kappa: float | None = None,
    mu: float | None = None,
) -> RowConstants:
    """R2, kappa and mu of the rows factors_i a_i drawn with probabilities p_i.

    Those that are given are taken as they are, and not computed.
    """
    from scipy import sparse

    d = rows.shape[1]
    if R2 is None or kappa is None or (mu is None and d <= EXACT_UP_TO):
        # A copy of the entries, in float64: sums of squares in float32 would be off by 1e-7.
        scaled = sparse.diags_array(factors) @ rows.astype(np.float64)
        find = _exact if d <= EXACT_UP_TO else _estimated
        R2, kappa, mu = find(scaled, p, R2, kappa, mu)
    return RowConstants(float(R2), float(kappa), float(mu or 0.0))


def _exact(
    a: Any, p: Array, R2: float | None, kappa: float | None, mu: float | None
) -> tuple[float, float, float]:
    d = a.shape[1]
    H = sum((block.T @ (p[at, None] * block) for at, block in _blocks(a)), np.zeros((d, d)))
    values, vectors = np.linalg.eigh(H)
    live = values > FULL_RANK * values[-1]
    if mu is None:
        mu = float(values[0]) if live.all() else 0.0
    if R2 is None or kappa is None:
        found = _largest(a, p, vectors[:, live] / np.sqrt(values[live]))
        R2, kappa = found[0] if R2 is None else R2, found[1] if kappa is None else kappa
    return R2, kappa, mu


def _largest(a: Any, p: Array, W: Array) -> tuple[float, float]:
    """The largest eigenvalues of E |a|^2 v v^T and E |v|^2 v v^T, v = W^T a = H^{-1/2} a."""
    rank = W.shape[1]
    if rank == 0:  # nothing but zeros
        return 1.0, 1.0
    sums = np.zeros((2, rank, rank))
    for at, block in _blocks(a):
        white = block @ W
        for total, lines in zip(sums, (block, white), strict=True):
            weights = p[at] * np.einsum("ij,ij->i", lines, lines)
            total += white.T @ (weights[:, None] * white)
    largest = np.linalg.eigvalsh(sums)[:, -1]
    return float(largest[0]), float(largest[1])


def _blocks(a: Any) -> Iterator[tuple[slice, Array]]:
    """The rows, some at a time, dense: as many as there are columns, more where those are few."""
    n, d = a.shape
    size = max(d, BLOCK_NUMBERS // d)
    for first in range(0, n, size):
        at = slice(first, first + size)
        yield at, a[at].toarray()


def _estimated(
    a: Any, p: Array, R2: float | None, kappa: float | None, mu: float | None
) -> tuple[float, float, float]:
    """R2 = max |a|^2 and mu = 0, which hold; kappa as if H were diagonal, for rare columns make it
    far larger than d + 2; never more than 1 / min p, for |a_i|^2_{H^-1} <= 1 / p_i."""
    squares = a.power(2)
    if R2 is None:
        R2 = float((squares.sum(axis=1) * (p > 0.0)).max()) or 1.0
    if kappa is None:
        diagonal = squares.T @ p
        inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0)
        norms2 = squares @ inverse  # |a|^2_{H^-1}
        largest = float((inverse * (squares.T @ (p * norms2))).max())
        kappa = float(min(max(a.shape[1] + 2.0, largest), 1.0 / p[p > 0.0].min()))
    return R2, kappa, mu or 0.0


class Rows:
    """A run of row steps: the state, and what may be asked of it between blocks."""

    measured, measures_gap = "gradient norm", False

    def __init__(
        self,
        method: StochasticLeastSquares,
        problem: Problem,
        rows: Any,
        p: Array,
        factors: Array,
        x0: Array,
    ) -> None:
        self.problem, self.accelerated, self.name = problem, method.accelerated, method.name
        given = (method.R2, method.kappa, method.mu)
        self.row, self.batch = row_constants(rows, p, factors, *given), method.batch
        self.R2, self.kappa, mu = self.row
        self.law: Finite = Categorical(p)
        if self.batch > 1:
            self.L_H = largest_eigenvalue(rows, p, factors)
            self.R2, self.kappa = batch_constants(self.R2, self.kappa, self.L_H, self.batch)
            self.law = Batches(self.law, self.batch)
        self.exact = given == (None, None, None) and rows.shape[1] <= EXACT_UP_TO
        self.for_another_law = method.for_another_law
        L = self.R2 * self.kappa
        if mu > L * (1.0 + GIVEN):
            raise ValueError(
                f"mu must be at most R2 kappa = {L:.6g}, whatever the rows, got mu = {mu:.6g}; "
                "leave out what you gave, or give smaller mu"
            )
        self.mu = min(mu, L)  # of equal ones, either may be the larger by rounding
        self.process = Continuized(L, self.mu, method.start)
        self.p, self.factors = p, factors
        self.indptr, self.indices = index_arrays(rows)
        self.values, self.rhs = rows.data, problem.y  # type: ignore[attr-defined]
        self.costs = np.maximum(np.diff(self.indptr).astype(np.int64), 1)
        self.size = max(int(self.indptr[-1]), len(self.costs), 1)
        self.scalars = np.array([0.5, -0.5])
        self.pairs = pairs_at(x0.ravel())
        self.live = touched(self.indices, x0.size)

    @property
    def constants(self) -> dict[str, Any]:
        """What was used; exact: whether all of it was computed, none given or estimated."""
        found = {"R2": self.R2, "kappa": self.kappa, "mu": self.mu, "exact": self.exact}
        return found if self.batch == 1 else {**found, "batch": self.batch, "L_H": self.L_H}

    def advance(self, marks: Array, coefficients: Array) -> None:
        """A block of events."""
        events = lazy.row_events if self.batch == 1 else batches.batch_events
        events(
            marks, coefficients, self.factors, 1.0 / self.R2, self.indptr, self.indices,
            self.values, self.rhs, self.accelerated, self.scalars, self.pairs, self.live,
        )  # fmt: skip

    def state(self) -> dict[str, Array]:
        """What events change."""
        return copies(self, ("scalars", "pairs"))

    def restore(self, arrays: dict[str, Array]) -> None:
        """Go on from there."""
        put_back(self, ("scalars", "pairs"), arrays)

    def point(self) -> Array:
        """x now."""
        return at_factor(self.pairs, self.scalars[lazy.ALPHA])

    def value(self) -> float:
        """f at the point."""
        return self.problem.fun(self.point())

    def measure(self) -> float:
        """What tol is compared with."""
        return norm(self.problem.grad(self.point()))
