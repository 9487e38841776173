"""`Sharded`: a regression whose rows no single process holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.sharded.parts import (
    RegressionPlan,
    Survey,
    check_parts,
    check_sources,
    choose_plan,
    name_kind,
    order_source,
    pack_part,
    survey,
)
from continuized.network.sharded.pool import WorkerPool, close_on_error
from continuized.network.sharded.shard import REGRESSIONS
from continuized.network.workers.ray_options import Ray, as_transport
from continuized.problems.base import NOT_FINITE, Array, flat
from continuized.problems.losses import LOGISTIC, POISSON
from continuized.problems.regression import questions
from continuized.problems.regression.interface import ALL_ROWS, Regression
from continuized.problems.regression.linear import Linear
from continuized.problems.regression.spectrum import Spectrum, bound_spectrum, count_gram_work
from continuized.support import blas
from continuized.support import validation as check


class Sharded(Regression):
    """A regression whose rows are in several processes, or actors of Ray.

    f, its gradient and its curvature are sums over the shards, each in one round trip; what is
    sent is as large as x, or as a Hessian, never as the data.  The sums are taken in the order of
    the shards, whichever answers first: runs are the same, bit by bit.  A worker that ends is
    started again, reads its rows again and is asked again, so that the run goes on as if nothing
    had been (`restarts` counts them).

    Use it wherever a regression goes: `cz.minimize(sharded, x0, method="auto")`, metrics, `prox`,
    checkpoints.  What takes rows or columns one by one (`cz.DualCoordinate`,
    `cz.CoordinateDescent`, metric="rows") is refused.

    Parameters
    ----------
    parts : list of regressions
        Of one kind, with the same number of columns, l2, intercept and delta; their losses are
        averaged over all rows, by their weights if they have any.  Classes of `SoftmaxRegression`
        are joined.  For files and Ray datasets, which the workers read themselves, use `read`.
    transport : "local", "ray" or a `network.Ray`
        Processes of this machine, or actors of Ray, with the options of the latter.
    address : str
        Of a running Ray cluster: transport="ray", address=A is transport=Ray(address=A).
    threads : int
        Of each worker; by default they share the cores of this machine, and have one each on a
        cluster.

    Close it after use, or use it as a context manager: the workers end then.  They also end with
    this process, however it ends.

    Raises TypeError or ValueError for parts that do not go together.

    >>> import continuized as cz
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> halves = [cz.problems.LeastSquares(X[rows], y[rows]) for rows in (slice(2), slice(2, 4))]
    >>> with cz.network.Sharded(halves) as p:
    ...     r = cz.minimize(p, np.zeros(4), method="auto", tol=1e-12, rng=0)
    >>> r.x.round(6).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """

    is_here = False
    threaded = True  # in the workers: no compiled loop on one thread would be quicker

    def __init__(
        self,
        parts: Sequence[Linear],
        transport: str | Ray = "local",
        *,
        address: str | None = None,
        threads: int | None = None,
    ) -> None:
        where = as_transport(transport, address, None)
        listed = check_parts(parts)
        first = listed[0]
        classes = max(p.classes for p in listed)
        delta = getattr(first, "delta", None)
        plan = RegressionPlan(
            name_kind(first), first.l2, first.intercept, delta, None, None, classes
        )
        pool = WorkerPool([pack_part(k, p) for k, p in enumerate(listed)], where, threads)
        with close_on_error(pool):
            self._build(pool, survey(pool), plan)

    @classmethod
    def read(
        cls,
        paths: Sequence[Any],
        transport: str | Ray = "local",
        *,
        loss: str,
        l2: float,
        intercept: bool = False,
        delta: float = 1.0,
        address: str | None = None,
        threads: int | None = None,
        **how: Any,
    ) -> Sharded:
        """Let each worker read its own rows.

        Parameters
        ----------
        paths : list of paths, or of Ray datasets
            What `cz.problems.read` reads, in the order of the shards; a folder with X.npy and y.npy
            is mapped into memory, not read.  On a cluster, each path must be there on every
            machine.
        loss : "ridge", "logistic", "softmax", "poisson" or "huber"
            Of `LeastSquares`, `LogisticRegression`, `SoftmaxRegression`, `PoissonRegression` and
            `HuberRegression`.  Labels of classes may be numbers or words: those of all shards
            together, in order, are `classes_`; a shard need not have all of them.
        l2, intercept, delta
            As for these.
        transport, address, threads
            As for `Sharded`.
        how
            Options of `cz.problems.read`; for Ray datasets label=, the column to predict.
        """
        where = as_transport(transport, address, None)
        check.one_of(loss, "loss", REGRESSIONS)
        l2 = check.real(l2, "l2", minimum=0.0)
        check.flag(intercept, "intercept")
        delta = check.real(delta, "delta", above=0.0)
        listed = check_sources(paths)
        parts = [order_source(k, each, where, how) for k, each in enumerate(listed)]
        pool = WorkerPool(parts, where, threads)
        with close_on_error(pool):
            found = survey(pool)
            plan = choose_plan(found, loss, l2, intercept, delta)
            return cls.from_pool(pool, found, plan)

    @classmethod
    def from_pool(cls, pool: WorkerPool, found: Survey, plan: RegressionPlan) -> Sharded:
        """Make the problem of workers that have read their rows, by this plan."""
        made = cls.__new__(cls)
        with close_on_error(pool):
            made._build(pool, found, plan)
        return made

    def _build(self, pool: WorkerPool, found: Survey, plan: RegressionPlan) -> None:
        """Tell the workers what all shards have in common, and take what they answer."""
        self._pool, self.l2, self.intercept = pool, plan.l2, plan.intercept
        extras: dict[str, Any] = {}
        if plan.loss == "softmax":
            extras["classes"] = plan.classes
        if plan.loss == "huber":
            extras["delta"] = plan.delta
        header = {
            "loss": plan.loss,
            "columns": found.columns,
            "intercept": plan.intercept,
            "row_share": None if found.weight is None else found.rows / found.weight,
            "words": plan.words,
            "numbered": plan.words is not None or plan.labels is not None,
            "extras": extras,
        }
        arrays = {} if plan.labels is None else {"labels": np.array(plan.labels)}
        answers = [answer for answer, _ in pool.build(header, arrays)]
        kind = self.kind = REGRESSIONS[plan.loss]
        self.loss = -float(plan.delta or 1.0) if plan.loss == "huber" else kind.loss
        self.curvature, self.delta = kind.curvature, plan.delta
        self.classes = plan.classes if plan.loss == "softmax" else 1
        self.classes_ = plan.words if plan.words is not None else plan.labels
        self.row_count, self.column_count = found.rows, found.columns
        self.is_sparse, self.is_weighted = found.sparse, found.weight is not None
        self.entry_count = sum(each["entries"] for each in answers)
        self.entry_pairs = sum(each["entry_pairs"] for each in answers)
        n = self.row_count
        self.least_loss = sum(each["weight"] * each["least_loss"] for each in answers) / n
        self.mean = sum(each["weight"] * each["mean"] for each in answers) / n
        self._starts = np.cumsum([0, *found.rows_of_each])
        if self.loss == POISSON:
            self.L = None  # type: ignore[assignment]

    # The workers

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return len(self._pool)

    @property
    def restarts(self) -> int:
        """How often a worker had ended and was started again."""
        return self._pool.restarts

    def close(self) -> None:
        """End all workers; after that, nothing can be asked any more."""
        self._pool.close()

    def __enter__(self) -> Sharded:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def sum_over_rows(
        self, question: Callable[..., Any], *arguments: Any, index: Any = ALL_ROWS
    ) -> Any:
        answers = self._ask(question, *arguments, index=index)
        with np.errstate(**NOT_FINITE):
            sums = tuple(_add(parts) for parts in zip(*answers, strict=True))
        return sums[0] if len(sums) == 1 else sums

    def _ask(
        self, question: Callable[..., Any], *arguments: Any, index: Any = ALL_ROWS
    ) -> list[tuple[Array, ...]]:
        """Ask all shards; index: the numbers of rows, counted over all shards, in order."""
        if isinstance(index, slice):
            return self._pool.ask(question, arguments, None)
        cuts = np.searchsorted(index, self._starts)
        each = [
            index[first:last] - start
            for first, last, start in zip(cuts[:-1], cuts[1:], self._starts, strict=False)
        ]
        return self._pool.ask(question, arguments, each)

    # The function and its gradient

    def fun(self, x: ArrayLike) -> float:
        """f(x); ValueError where x is not of this dimension."""
        w = flat(x, self.dim).astype(np.float64, copy=False)
        total = self.sum_over_rows(questions.sum_losses, w, False)
        return float(total) / self.row_count + self._find_penalty(w)

    def grad(self, x: ArrayLike) -> Array:
        """The gradient of f at x, in the shape of x."""
        w = flat(x, self.dim).astype(np.float64, copy=False)
        return self._finish_gradient(self.sum_over_rows(questions.sum_slopes, w), w, x)

    def value_and_gradient(self, x: ArrayLike) -> tuple[float, Array]:
        """f(x) and its gradient, in one round trip."""
        w = flat(x, self.dim).astype(np.float64, copy=False)
        total, slopes = self.sum_over_rows(questions.sum_losses, w, True)
        f = float(total) / self.row_count + self._find_penalty(w)
        return f, self._finish_gradient(slopes, w, x)

    def _find_penalty(self, w: Array) -> float:
        penalised = w[: self.column_count * self.classes]
        return 0.5 * self.l2 * blas.inner(penalised, penalised)

    def _finish_gradient(self, slopes: Array, w: Array, x: ArrayLike) -> Array:
        """Take the mean, add the slope of the penalty, and return it as x is."""
        penalised = self.column_count * self.classes
        dtype = np.asarray(x).dtype
        with np.errstate(**NOT_FINITE):
            g = slopes / self.row_count
            g[:penalised] += self.l2 * w[:penalised]
            return np.asarray(g.astype(dtype if dtype == np.float32 else np.float64, copy=False)
                              .reshape(np.shape(x)))  # fmt: skip

    def fingerprint(self, x0: Array) -> str:
        """Tell what a checkpoint knows the problem by; not by how its rows are shared out."""
        return f"{self.kind.__qualname__} in shards: {super().fingerprint(x0)}"

    def _facts(self) -> dict[str, Any]:
        where = {"shards": self.shards, "transport": self._pool.transport}
        return {"kind": self.kind.__name__, **where, **super()._facts()}

    # Curvature

    def hessian_block(self, w: Array, variables: Any = None) -> Array:
        """Return the rows and columns of the Hessian at w of these variables, of one output."""
        chosen = None if variables is None else np.asarray(variables)
        found = self.sum_over_rows(questions.sum_hessian, np.asarray(w, np.float64), chosen)
        found = found / self.row_count
        numbers = np.arange(self.dim) if chosen is None else chosen
        each = np.flatnonzero(numbers < self.column_count)
        found[each, each] += self.l2
        return np.asarray(found)

    def sample_curvatures(self, w: ArrayLike, index: Any) -> tuple[Any, Array]:
        """Fetch rows and their curvatures: those of a sample, for a sketch of the Hessian."""
        answers = self._ask(questions.take_sample, np.asarray(w, np.float64), index=index)
        q = np.concatenate([q for q, *_ in answers])
        if not self.is_sparse:
            return np.concatenate([rows for _, rows in answers]), q
        from scipy.sparse import csr_array, vstack

        rows = [
            csr_array(tuple(parts), shape=(len(each), self.variables)) for each, *parts in answers
        ]
        return vstack(rows, format="csr"), q

    @cached_property
    def square_sums(self) -> Array:  # type: ignore[override]
        """For each column, the sum of the weighted squares of its entries."""
        return np.asarray(self.sum_over_rows(questions.sum_squares))

    @cached_property
    def column_means(self) -> Array:  # type: ignore[override]
        """The weighted mean of each column of X, and 1 for the intercept."""
        return np.asarray(self.sum_over_rows(questions.sum_columns) / self.row_count)

    @cached_property
    def spectrum(self) -> Spectrum:  # type: ignore[override]
        """Bounds on the eigenvalues of the weighted mean of a_i a_i^T, and how they were found."""
        n, d = self.row_count, self.variables
        answers = self._ask(questions.measure_rows)
        measures = (
            sum(float(square) for square, *_ in answers),
            max(float(rows) for _, rows, _ in answers),
            _add([columns for *_, columns in answers]),
        )
        work = count_gram_work(n, d, self.entry_pairs if self.is_sparse else None)
        return bound_spectrum(
            (n, d),
            self.entry_count,
            measures,
            lambda v: self.sum_over_rows(questions.sum_products, v) / n,
            lambda: self.sum_over_rows(questions.sum_outer_products),
            work if d <= n else math.inf,  # products of rows of two shards are not known
        )

    def is_separated_by(self, x: ArrayLike) -> bool:
        """Tell whether a logistic regression has no minimum without l2, for x separates it."""
        if self.loss != LOGISTIC:
            return False
        w = flat(x, self.dim).astype(np.float64, copy=False)
        return not int(self.sum_over_rows(questions.count_misplaced, w))


def _add(parts: Sequence[Array]) -> Array:
    """Add in the order of the shards."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
