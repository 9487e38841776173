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

from continuized.checkpoints import copies, put_back
from continuized.kernels import batches, lazy
from continuized.kernels.layout import at_factor, index_arrays, pairs_at, touched
from continuized.marks import Batches, Categorical, Finite, checked_batch
from continuized.methods import Continuized
from continuized.problems import LeastSquares, Problem
from continuized.problems.base import Array
from continuized.problems.spectrum import spectrum
from continuized.problems.threads import norm
from continuized.words import brief, is_real

EXACT_UP_TO = 1000  # columns for which R2, kappa and mu are computed exactly
FULL_RANK = 1e-12  # relative size below which an eigenvalue of H counts as 0


class RowConstants(NamedTuple):
    """R2, kappa and mu, and whether they were computed, or only estimated."""

    R2: float
    kappa: float
    mu: float
    exact: bool


@dataclass(frozen=True, eq=False)
class StochasticLeastSquares:
    """Rows drawn uniformly.  R2, kappa and mu are computed when they are not given: exactly up to
    1000 columns; beyond, R2 = max |a|^2, mu = 0, and kappa is estimated: that of independent
    columns, or d + 2, that of Gaussian rows, if it is more.

    At a row a with label b, x -= (<a, x> - b) a / R2 and z -= gamma' (<a, x> - b) a, with the
    parameters of Continuized(R2 kappa, mu).  accelerated: False for stochastic gradient descent.
    start: as in Continuized.  Raises ValueError for constants that are negative or not finite.

    batch: how many rows an event draws, independently, so that one may be there twice; the step is
    along the mean of their (<a, x> - b) a.  R2 and kappa are still given for single rows; those of
    batches follow (`rows.batch_constants`), and are in r.constants.  Raises TypeError or ValueError
    unless it is an integer >= 1.

    >>> import continuized as cz, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> p = cz.problems.LeastSquares(X, X.sum(axis=1))  # labels without noise
    >>> r = cz.minimize(p, np.zeros(4), method=cz.StochasticLeastSquares(), tol=1e-6, seed=0)
    >>> r.success, r.x.round(4).tolist()
    (True, [1.0, 1.0, 1.0, 1.0])
    >>> batches = cz.minimize(
    ...     p, np.zeros(4), method=cz.StochasticLeastSquares(batch=8), tol=1e-6, seed=0
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
    return sparse.csr_array(problem.X)


def row_constants(rows: Any, p: Array, factors: Array) -> RowConstants:
    """R2, kappa and mu of the rows factors_i a_i drawn with probabilities p_i."""
    d = rows.shape[1]
    norms2 = factors**2 * np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    if d > EXACT_UP_TO:
        R2 = float(norms2[p > 0].max(initial=0.0)) or 1.0
        return RowConstants(R2, _estimated_kappa(rows, p, factors), 0.0, exact=False)
    a = rows.toarray() * factors[:, None]
    values, vectors = np.linalg.eigh(a.T @ (p[:, None] * a))
    live = values > FULL_RANK * values[-1] if d else np.zeros(0, bool)
    white = (a @ vectors[:, live]) / np.sqrt(values[live])  # rows H^{-1/2} a
    largest = [
        float(np.linalg.eigvalsh(white.T @ ((p * w)[:, None] * white))[-1]) if live.any() else 1.0
        for w in (norms2, (white**2).sum(axis=1))
    ]
    mu = float(values[0]) if live.all() and d else 0.0
    return RowConstants(largest[0], largest[1], mu, exact=True)


def _estimated_kappa(rows: Any, p: Array, factors: Array) -> float:
    """kappa as if H were diagonal, for rare columns make it far larger than d + 2; never more
    than 1 / min p, which always holds, for |a_i|^2_{H^-1} <= 1 / p_i."""
    squares = rows.astype(np.float64).power(2)  # of a_i, without its factor
    weights = p * factors**2
    diagonal = squares.T @ weights
    inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0.0)
    norms2 = factors**2 * (squares @ inverse)  # |a|^2_{H^-1}
    largest = float((inverse * (squares.T @ (weights * norms2))).max())
    return float(min(max(rows.shape[1] + 2.0, largest), 1.0 / p[p > 0.0].min()))


def batch_constants(row: RowConstants, L_H: float, batch: int) -> RowConstants:
    """R2, kappa and mu of batches, from those of rows and L_H, the largest eigenvalue of H.

    The mean A of b independent copies of a a^T has b^2 products of two copies in its square; in b
    of them a copy meets itself, in the others two that are independent, of mean H each.  So

        E[A A] = E[|a|^2 a a^T] / b + (1 - 1/b) H^2               <= (R2 / b + (1 - 1/b) L_H) H
        E[A H^-1 A] = E[|a|^2_{H^-1} a a^T] / b + (1 - 1/b) H     <= (kappa / b + 1 - 1/b) H

    which take the places of E[|a|^2 a a^T] <= R2 H and E[|a|^2_{H^-1} a a^T] <= kappa H.

    >>> batch_constants(RowConstants(R2=8.0, kappa=5.0, mu=0.1, exact=True), L_H=2.0, batch=2)
    RowConstants(R2=5.0, kappa=3.0, mu=0.1, exact=True)
    """
    shared = 1.0 - 1.0 / batch
    return row._replace(R2=row.R2 / batch + shared * L_H, kappa=row.kappa / batch + shared)


def largest_eigenvalue(rows: Any, p: Array, factors: Array) -> float:
    """An upper bound of the largest eigenvalue of H = sum_i p_i factors_i^2 a_i a_i^T: up to
    rounding that itself, or with the certificate of `problems.spectrum`."""
    from scipy import sparse

    n = rows.shape[0]
    scaled = sparse.csr_array(sparse.diags_array(factors * np.sqrt(n * p)) @ rows)
    return spectrum(scaled, lambda v: scaled.T @ (scaled @ v) / n).largest


def _with_given(found: RowConstants, method: StochasticLeastSquares) -> RowConstants:
    return RowConstants(
        found.R2 if method.R2 is None else float(method.R2),
        found.kappa if method.kappa is None else float(method.kappa),
        found.mu if method.mu is None else float(method.mu),
        found.exact,
    )


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
        self.batch, self.row = method.batch, _with_given(row_constants(rows, p, factors), method)
        law, used = Categorical(p), self.row
        self.law: Finite = law
        if self.batch > 1:
            self.L_H = largest_eigenvalue(rows, p, factors)
            used = batch_constants(self.row, self.L_H, self.batch)
            self.law = Batches(law, self.batch)
        self.R2, self.kappa, self.mu, self.exact = used
        self.for_another_law = method.for_another_law
        L = self.R2 * self.kappa
        self.process = Continuized(L, min(self.mu, L), method.start)
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
        """What was used, given or computed."""
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
