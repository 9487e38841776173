"""Metrics of a regression, made from its curvature at a point, and when to make them anew.

With losses of curvature q_i at w, the Hessian is H = sum_i q_i x_i x_i^T / n + l2 I.  A metric is
made from it or from a random sample of its rows, and made anew at a later point when the steps
since have cost as much as it did: so at most half of the work is spent on it.  Where rows are fewer
than columns, it is factored in the space of the rows (`RowSpace`).

A run may also learn: its metric is corrected at every event by the last changes of the gradient
(`Secant`).  It begins with the diagonal, and the first Hessian is made when the steps have cost as
much, or sooner where they are slow.  Where the entries of X are few, the Hessian may be nearly
diagonal, and every run begins so.

With K classes of probabilities p_i the curvature of row i is a matrix, diag(p_i) - p_i p_i^T = C_i,
and H = sum_i (x_i x_i^T) x C_i / n + l2 I (x: Kronecker's product) has d K variables.  In the
directions u_k in which the mean of the C_i is diagonal, the diagonal blocks of H are
sum_i <u_k, C_i u_k> x_i x_i^T / n + l2 I.  They are cheap, and all of H where the p_i are equal, as
at w = 0: a run begins with them, and takes the whole H where they are slow and the steps have cost
a part of what it costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.problems.losses import SOFTMAX, SQUARED
from continuized.problems.regression.huber import ScaledHuber
from continuized.problems.regression.spectrum import count_pairs
from continuized.process.random_streams import METRICS, Root, child
from continuized.solver.metric import (
    NAMES,
    Blocks,
    Dense,
    Diagonal,
    LowRank,
    Metric,
    NotDefiniteError,
    RowSpace,
    multiply_rows,
)
from continuized.support import blas, threads
from continuized.support import validation as check
from continuized.support.threads import interruptible

# Variables, for "auto" and with several classes: a factorisation beyond costs more than it gains.
MOST_GRAM = 3000
SPARSE = 0.1  # of the entries of X are held, at most
SAMPLE = 10  # rows a variable
FEW_VARIABLES = 200  # the Hessian of all rows costs less than the steps that it saves
RANK = 200
MOST_ROWS = 20.0  # steps, for which a run in the space of the rows is cheap
LEAST_L2 = 1e-9  # of the trace of the Hessian
BLAS_QUICKER = 2.5  # a flop of a matrix product, than one of a pass over the data
SPARSE_SLOWER = 3.0  # an entry of a sparse row, than one of a dense row
FEW_CLASSES = 6  # one after the other: NumPy takes rows so short four times as long
STEP = 1e6  # flops in the time that a step takes besides its gradient
# Of several classes: the part of the cost of a whole Hessian after which it is made; a larger one
# where the metric learns, for then most runs make it once, and it is better nearer to the end.
PART, LEARNING_PART = 0.25, 0.5
SLOW = 0.1  # of the fall of f in the metric before: in a good one there is less left
# Steps for which a metric stays: in coarse ones the momentum needs time.
LEAST_STEPS = {"gram": 3, "rows": 1, "blocks": 7, "nystrom": 30}
FEWEST_STEPS = 4  # that a run takes in a new Hessian to its end
# Where it is corrected at every event: for how many steps at least the diagonal and what comes
# after it stay, and how many times as long as it costs.
FIRST_STEPS, LEARNING_STEPS, LEARNING_LONGER = 12, 4, 2.0
# A diagonal that would need so many steps more is slow, and left after so many already.
SLOW_DIAGONAL, SLOW_DIAGONAL_STEPS = 40.0, 6
LENGTHS = 3  # of a first step that are tried, each with the curvature half way along the one before
CHEAP = 2.0  # steps: for so little a whole Hessian is made from all rows
FLOOR_GROWTH, MOST_FLOOR = 1e3, 1e9  # of what is added to the diagonal, in units of rounding
NEWTON = 6.0  # whole Hessians take a run to its end


@dataclass(frozen=True)
class MetricFactory:
    """A kind of metric for a regression: `build` makes it, `steps_before_renewal` tells when to
    make it anew.

    With several classes, "gram" begins with "blocks".
    """

    problem: Any
    kind: str
    root: Root
    learns: bool = False  # from the gradients, where a run takes more than a step

    @cached_property
    def corrects(self) -> bool:
        """Whether the metric is corrected at every event: not the Hessian of a squared loss."""
        return self.learns and (self.problem.loss != SQUARED or self._begins_with_diagonal)

    @property
    def first_kind(self) -> str:
        """The kind of the first metric of a run."""
        return "diag" if self._begins_with_diagonal else self._first_hessian

    @cached_property
    def _first_hessian(self) -> str:
        """The kind of the first metric that is not a diagonal."""
        return "blocks" if self.kind == "gram" and self.problem.classes > 1 else self.kind

    @cached_property
    def _begins_with_diagonal(self) -> bool:
        """Whether steps in the norm of the diagonal, corrected, may be all that it takes."""
        p = self.problem
        if self.learns and p.loss != SQUARED:
            return True
        return (
            self.kind == "gram"
            and p.classes == 1
            and bool(p.density <= SPARSE)
            and self.cost["gram"] > FIRST_STEPS
        )

    @property
    def leaves_diagonal(self) -> bool:
        """Whether a Hessian comes after it: a sketch is no better than what is learnt by then."""
        return self._begins_with_diagonal and self._first_hessian not in ("diag", "nystrom")

    def find_first_L(self, w: Array, g: Array, q: Array) -> float:
        """Find the L of a first step from w, of the gradient g, in the diagonal's norm: q = P^-1 g.

        Where columns depend on each other, as they all do where rows are fewer, it is far above 1.
        Beside small data, an event that is rejected costs no more than the look for it.
        """
        if self.is_cheap:
            return 1.0
        p, v = self.problem, q.ravel()
        square, penalised = blas.inner(g.ravel(), v), v[: p.column_count * p.classes]
        penalty = p.l2 * blas.inner(penalised, penalised)
        losses = p.sum_over_rows(sum_along_step, w.ravel(), v, square, penalty) / p.row_count
        L = float(losses + penalty) / square if square > 0.0 else 1.0
        return L if 0.0 < L < math.inf else 1.0

    def sharpen(self, at: Array) -> Metric | None:
        """Make the whole Hessian at the end of a run, where it costs little."""
        if not self.is_cheap:
            return None
        if isinstance(self.problem, ScaledHuber):
            try:
                return Dense.of(_add_floor(self.problem, self.problem.find_second_derivative(at)))
            except ValueError:  # of few rows within
                return None
        return self.build(at, 0, "gram")

    @cached_property
    def is_cheap(self) -> bool:
        """Whether the whole Hessian costs little."""
        return self.kind == "gram" and self.cost["gram"] <= CHEAP and _sees_all(self.problem)

    @property
    def kinds(self) -> set[str]:
        """The kinds that the metrics of a run may have: not the whole Hessian where it is large."""
        is_small = self.kind != "gram" or self.problem.dim <= MOST_GRAM
        return {self.first_kind, self._first_hessian} | ({self.kind} if is_small else set())

    def next_kind(self, kind: str, k: int, fell: float) -> str:
        """Choose the kind of the next metric, after k steps.

        f fell in this metric by `fell` times what it did in the one before: where that does not
        become small with blocks, the whole Hessian is worth its cost, if memory has room for it.
        """
        if kind == "diag":
            return self._first_hessian
        is_due = fell > SLOW and k >= self._whole_after and self.kind in self.kinds
        return self.kind if is_due else kind

    @property
    def _whole_after(self) -> float:
        """After how many steps the whole Hessian of several classes may be made."""
        part = LEARNING_PART if self.corrects else PART
        return max(LEAST_STEPS["gram"], part * self.cost["gram"])

    @cached_property
    def steps(self) -> dict[str, float]:
        """After how many steps a metric of a kind is made anew: they cost as much."""
        p = self.problem
        if p.loss == SQUARED:
            steps = dict.fromkeys(NAMES, math.inf)  # it would be the same again
        else:
            least: dict[str, float] = dict(LEAST_STEPS)
            longer = LEARNING_LONGER if self.corrects else 1.0
            if self.corrects:
                least = dict.fromkeys(least, LEARNING_STEPS)
            elif _is_whole(p):
                least["gram"] = 1
            steps = {kind: max(some, longer * self.cost[kind]) for kind, some in least.items()}
            if p.classes > 1 and not self.corrects:
                steps["gram"] = self._whole_after
        first = max(FIRST_STEPS, self._cost_after("diag")) if self.leaves_diagonal else math.inf
        return {**steps, "diag": first}

    def steps_before_renewal(self, kind: str, left: float) -> float:
        """For how many steps a metric of this kind stays, with so many left at the pace of now:
        `steps`, but for a slow diagonal."""
        if kind == "diag" and self.leaves_diagonal and left > SLOW_DIAGONAL:
            return max(SLOW_DIAGONAL_STEPS, self._cost_after(kind))
        return self.steps[kind]

    def _cost_after(self, kind: str) -> float:
        """How many steps the metric after one of this kind costs."""
        if kind == "diag":
            return self.cost.get(self._first_hessian, math.inf) + self.cost["products"]
        return self.cost[kind]

    def renewal_cost(self, kind: str) -> float:
        """How many steps a metric after one of this kind costs, with the steps in it."""
        return FEWEST_STEPS + self._cost_after(kind)

    @cached_property
    def cost(self) -> dict[str, float]:
        """How many steps cost as much as making a metric of a kind; "products": what those in the
        space of the rows have in common."""
        p, n, in_rows = self.problem, float(self.problem.row_count), _fits_rows(self.problem)
        gradient = 4.0 * p.entry_count * p.classes * (SPARSE_SLOWER if p.is_sparse else 1.0)
        rows = _inverse_work(n)
        work = {
            "gram": self._gram_work(p.dim),
            "blocks": (rows if in_rows else self._gram_work(p.variables)) * p.classes,
            "nystrom": self._sketch_work(),
            "rows": rows,
            "products": n * p.entry_count / BLAS_QUICKER if in_rows else 0.0,
        }
        return {kind: each / (gradient + STEP) for kind, each in work.items()}

    @cached_property
    def row_products(self) -> Array:
        """X X^T, which the metrics in the space of the rows have in common."""
        products = multiply_rows(self.problem.X)
        _check_scales(products.diagonal())
        return products

    def _gram_work(self, size: int) -> float:
        """The work for a Gram matrix of so many variables, and its factor."""
        p, inverse = self.problem, _inverse_work(float(size))
        m = _sample_size(p, size)
        if p.is_sparse:
            pairs = p.entry_pairs * (size / p.variables) ** 2
            return float(pairs * m / p.row_count + inverse)
        return float(m * float(size) ** 2 / BLAS_QUICKER + inverse)

    def _sketch_work(self) -> float:
        m = float(min(SAMPLE * RANK, self.problem.row_count))
        small = min(m, float(self.problem.dim))
        return float((m * self.problem.dim * small + 10.0 * small**3) / BLAS_QUICKER)

    def build(self, w: Array, number: int, kind: str) -> Metric:
        """The metric for steps from w.  Each of a run, by its number, has a sample of its own."""
        p, work = self.problem, 0.0
        if kind == "rows" or (kind == "blocks" and _fits_rows(p)):
            work = float(p.row_count) ** 2 * (p.variables + p.classes * p.row_count)
        elif kind == "gram":
            work = self._gram_work(p.dim)
        elif kind == "blocks":
            work = p.classes * self._gram_work(p.variables)
        elif kind == "nystrom":
            work = self._sketch_work()
        return interruptible(work, self._build, w, number, kind)

    @np.errstate(over="ignore", invalid="ignore")  # squares that overflow are told in a sentence
    def _build(self, w: Array, number: int, kind: str) -> Metric:
        p, w = self.problem, w.ravel()
        if kind == "diag":
            scales = np.maximum(p.column_scales, _least(p))
            # With an entry for each class: dividing a row of classes by one entry is slow.
            return Diagonal(np.repeat(scales, p.classes))
        with blas.on_one_thread():
            if kind == "rows":
                q = p.curvatures(w, slice(None)) / p.row_count
                roots = np.sqrt(q if p.shares is None else q * p.shares)
                if p.loss == SQUARED:  # made once, and in the place of the products
                    _check_scales(p.trace)
                    return RowSpace(p.X, roots, p.l2, p.intercept)
                return RowSpace(p.X, roots, p.l2, p.intercept, self.row_products)
            if kind == "gram" and _is_whole(p):
                return _factor(p, lambda: p.hessian_block(w))
            seed = child(self.root, METRICS, number)
            if kind == "gram":
                return _factor(p, lambda: gram(p, w, seed))
            if kind == "blocks":
                return blocks(p, w, seed, self.row_products if _fits_rows(p) else None)
            return nystrom(p, w, seed)


def make_factory(kind: Any, problem: Problem, root: Root, learns: bool = False) -> MetricFactory:
    """Make a factory of metrics by its name; it may learn them from the gradients first."""
    check.one_of(kind, "metric", NAMES, other=("an array", "an object with solve(g) = P^-1 g"))
    if not hasattr(problem, "curvature"):
        raise ValueError(
            f'metric="{kind}" is made from the data of a regression, got a '
            f"{type(problem).__name__} without such data; give an array "
            "or an object with solve(g) = P^-1 g"
        )
    regression: Any = problem
    if regression.variables == 0:
        raise ValueError("the problem has no variables: X has no columns")
    if kind == "rows" and not (regression.l2 > 0.0 and regression.loss != SOFTMAX):
        raise ValueError(
            'metric="rows" is for regressions of one output and l2 > 0, by which it divides; use '
            'metric="gram"'
        )
    if kind == "rows" and not regression.is_here:
        raise ValueError(
            'metric="rows" is made of all rows in one place, but these are in several processes; '
            'use metric="auto"'
        )
    kind = best_kind(problem) if kind == "auto" else kind
    # Of one class, the Hessian is one block.
    one = kind == "blocks" and regression.classes == 1
    return MetricFactory(problem, "gram" if one else kind, root, learns)


def best_kind(problem: Any) -> str:
    """Choose the kind of metric for a regression.

    Few columns of sparse rows meet in a row: their Hessian is nearly diagonal.
    """
    if problem.classes == 1 and _is_wide(problem):
        return "rows"
    if problem.dim <= MOST_GRAM:
        return "gram"
    if problem.variables * problem.dim <= MOST_GRAM**2:
        return "blocks"
    return "diag" if problem.density <= SPARSE else "nystrom"


def _sample_size(p: Any, size: int) -> int:
    """Rows of a sample for so many variables: enough for every direction; all of them where that
    costs little more.

    Sparse columns are not all seen by a sample, and a direction that it misses has L large.
    """
    n, some = int(p.row_count), SAMPLE * int(size)
    dense = n * float(size) ** 2 / BLAS_QUICKER
    is_small = p.loss == SQUARED and size <= FEW_VARIABLES
    cheap = is_small or dense <= CHEAP * (4.0 * p.entry_count + STEP)
    if (cheap and not p.is_sparse) or (p.is_sparse and p.entry_pairs <= 100.0 * p.entry_count):
        return n
    return min(n, some)


def _sample(p: Any, m: int, rng: Root | np.random.Generator) -> Any:
    """The numbers of m rows in their order, or all of them, for which nothing is drawn."""
    n = p.row_count
    if m >= n:
        return slice(None)
    return np.sort(np.random.default_rng(rng).choice(n, m, replace=False))


def _check_scales(scales: Any) -> Any:
    """Refuse an X by the sums of squares of its columns or rows, or of all; return them."""
    if not np.isfinite(scales).all():
        raise ValueError("X is too large, its squares overflow: divide its columns by a number")
    return scales


def _least(p: Any) -> float:
    """What the eigenvalues of a metric are kept above: a column may be empty, and far away all
    losses are straight lines."""
    return max(math.ulp(1.0) * float(_check_scales(p.column_scales).sum()), 1e-300)


def _floor(p: Any, scales: Array) -> Array:
    """What keeps a factorisation from failing: small against each entry of the diagonal, for the
    columns may be of any scale; 1 for an empty column, along which nothing ever moves."""
    _check_scales(scales)
    floor: Array = np.maximum(math.ulp(1.0) * p.variables * scales, 1e-300)
    floor[scales == 0.0] = 1.0
    return floor


def _penalty(p: Any) -> Array:
    """The penalty of each variable of a class: no intercept has one."""
    return np.where(np.arange(p.variables) < p.column_count, p.l2, 0.0)


def _unseen(p: Any) -> Array:
    """A curvature for steps that are the same in all classes, where neither losses nor a penalty
    have one; no gradient has a part along them."""
    return np.where(_penalty(p) > 0.0, 0.0, p.column_scales)


def _inverse_work(size: float) -> float:
    """The work for a factor of a matrix of so many variables: LAPACK's are slower than products."""
    return 0.5 * size**3 / BLAS_QUICKER


def _fits_rows(p: Any) -> bool:
    """Tell whether the space of the rows is the smaller one, and the penalty large enough to divide
    by: what is lost in the difference of `RowSpace` is eps times the Hessian over it."""
    is_small = p.is_here and p.row_count < p.variables and p.row_count <= MOST_GRAM
    return is_small and bool(p.l2 > LEAST_L2 * p.trace)


def _is_wide(p: Any) -> bool:
    """Tell whether the space of the rows is the smaller one, and cheap."""
    if not _fits_rows(p):
        return False
    n = float(p.row_count)
    work = (n * n * p.variables + NEWTON * p.classes * n**3 / 3.0) / BLAS_QUICKER
    is_cheap = work <= MOST_ROWS * (4.0 * p.entry_count * p.classes + STEP)
    return bool(p.loss == SQUARED or is_cheap)


def _sees_all(p: Any) -> bool:
    """Tell whether a whole Hessian is made from all rows."""
    return bool(_sample_size(p, p.dim) == p.row_count)


def _is_whole(p: Any) -> bool:
    """Tell whether a dense Hessian of one output is made from all rows."""
    return p.loss != SOFTMAX and not p.is_sparse and _sees_all(p)


def _factor(p: Any, make: Callable[[], Array], times: float = 1.0) -> Metric:
    """Make the metric of the matrix that make() gives, with so many times the floor: more where
    rounding has made it indefinite, as where columns depend on each other and nothing is penalised.

    make() is called again then, for a factor is made in the place of its matrix.
    """
    P = _add_floor(p, make(), times)
    try:
        return Dense.of(P)
    except NotDefiniteError:
        if times >= MOST_FLOOR:
            raise
    return _factor(p, make, FLOOR_GROWTH * times)


def _add_floor(p: Any, P: Array, times: float = 1.0) -> Array:
    """Add to the diagonal what keeps a factorisation from failing, so many times."""
    scales = P.diagonal()
    # Of all rows and a squared loss it has the scales of the columns, which take a pass over X.
    # Elsewhere a column may be missing in it, and curvatures may be far above the typical one.
    if not (p.loss == SQUARED and _is_whole(p)):
        scales = np.maximum(np.repeat(p.column_scales, len(P) // p.variables), scales)
    P.flat[:: len(P) + 1] += times * _floor(p, scales)
    return P


def gram(p: Any, w: Array, rng: Root | np.random.Generator) -> Array:
    """The Hessian, its losses from a sample of rows."""
    m = _sample_size(p, p.dim)
    P = p.sum_over_rows(sum_curvatures, w, m, index=_sample(p, m, rng))
    if p.loss == SOFTMAX:
        P = _add_diagonals(-P, p.classes)
        each = np.arange(p.variables)
        tensor = P.reshape(p.variables, p.classes, p.variables, p.classes)
        tensor[each, :, each, :] += (_unseen(p) / p.classes)[:, None, None]
    P[np.diag_indices(len(P))] += np.repeat(_penalty(p), p.classes)
    return np.asarray(P)


def sum_curvatures(p: Any, index: Any, w: Array, m: int) -> Array:
    """The part of these rows in the mean of q_i s_i s_i^T over m rows; with several classes, that
    of (s_i x q_i)(s_i x q_i)^T."""
    rows, q = p.sample_curvatures(w, index)
    return _gram(rows, np.sqrt(q / m)[:, None] if q.ndim == 1 else q / math.sqrt(m))


def sum_along_step(p: Any, index: Any, w: Array, v: Array, slope: float, penalty: float) -> Array:
    """The part of these rows in the sum of <v, q_i s_i s_i^T v>, the curvature along v, half way
    along a step from w against v to where f is least.

    slope: of f along v; penalty: its curvature.  How far that is, these rows say for themselves:
    the predictions on the way cost nothing, once those of w and v are known.
    """
    first, change = (p.predictions(at.reshape(-1, p.classes), index) for at in (w, v))
    shares, length, total = 1.0 if p.shares is None else p.shares[index], 0.0, 0.0
    for _ in range(LENGTHS):
        q = p.second_slopes(first - 0.5 * length * change, index).reshape(change.shape)
        squares = (q * change**2).sum(axis=1)
        if p.loss == SOFTMAX:
            squares -= (q * change).sum(axis=1) ** 2
        total = float((shares * squares).sum())
        curvature = total / len(change) + penalty
        length = slope / curvature if curvature > 0.0 else 0.0
    return np.array(total)


def _add_diagonals(P: Array, classes: int) -> Array:
    """From the part of -p p^T in the Hessian, make all of it.

    The probabilities add up to 1, so diag(p) = diag(p p^T 1): that of a class is the sum of its
    blocks with all classes.
    """
    tensor = P.reshape(-1, classes, len(P) // classes, classes)
    sums = tensor.sum(axis=3)
    for k in range(classes):
        tensor[:, k, :, k] -= sums[:, k, :]
    return P


def blocks(
    p: Any, w: Array, rng: Root | np.random.Generator, products: Array | None = None
) -> Metric:
    """The blocks of the Hessian along the directions in which the mean of the C_i is diagonal; with
    X X^T, in the space of the rows."""
    m = p.row_count if products is not None else _sample_size(p, p.variables)
    index = _sample(p, m, rng)
    mean = p.sum_over_rows(sum_class_curvatures, w, index=index) / m
    # Shifted, the last is (1, ..., 1), along which every C_i is zero.
    directions = np.linalg.eigh(mean + 1.0 / p.classes)[1]
    diagonal = _penalty(p) + _floor(p, p.column_scales)
    metrics: list[Metric] = []
    if products is not None:
        for slopes in _slopes_along(p.curvatures(w, index), directions).T:
            roots = np.sqrt((slopes if p.shares is None else slopes * p.shares) / m)
            metrics.append(RowSpace(p.X, roots, p.l2, p.intercept, products))
        return Blocks(directions, [*metrics, Diagonal(diagonal + _unseen(p))])
    for P in p.sum_over_rows(sum_blocks, w, directions, m, index=index):
        P[np.diag_indices(len(P))] += _penalty(p)
        metrics.append(_factor(p, P.copy))
    return Blocks(directions, [*metrics, Diagonal(diagonal + _unseen(p))])


def sum_class_curvatures(p: Any, index: Any, w: Array) -> Array:
    """The sum of the C_i of these rows."""
    q = p.curvatures(w, index)
    return np.asarray(np.diag(q.sum(axis=0)) - q.T @ q)


def sum_blocks(p: Any, index: Any, w: Array, directions: Array, m: int) -> Array:
    """The part of these rows in the mean of <u_k, C_i u_k> s_i s_i^T over m rows, for all
    directions u_k but the last."""
    rows, q = p.sample_curvatures(w, index)
    slopes = _slopes_along(q, directions)
    return np.stack([_gram(rows, np.sqrt(each / m)[:, None]) for each in slopes.T])


def _slopes_along(q: Array, directions: Array) -> Array:
    """Return <u_k, C_i u_k> for rows i of probabilities q_i and all directions u_k but the last."""
    u = directions[:, :-1]
    return np.asarray(np.maximum(q @ u**2 - (q @ u) ** 2, 0.0))


def _outer(rows: Any, factors: Array) -> Any:
    """Rows x_i and factors f_i as rows x_i x f_i, dense or CSR: their entries x_ij f_ik."""
    m, d = rows.shape
    K = factors.shape[1]
    if isinstance(rows, np.ndarray):
        products = np.empty((m, d, K))
        if K > FEW_CLASSES:
            np.multiply(rows[:, :, None], factors[:, None, :], out=products)
        else:
            for k in range(K):
                np.multiply(rows, factors[:, k, None], out=products[:, :, k])
        return products.reshape(m, d * K)
    from scipy import sparse

    rows = rows if rows.has_sorted_indices else rows.sorted_indices()
    counts = np.diff(rows.indptr)
    data = rows.data[:, None] * np.repeat(factors, counts, axis=0)
    indices = rows.indices[:, None] * K + np.arange(K, dtype=rows.indices.dtype)
    parts = data.ravel(), indices.ravel(), rows.indptr * K
    return sparse.csr_array(parts, shape=(m, d * K))


def _gram(rows: Any, factors: Array) -> Array:
    """The sum of z_i z_i^T over rows, z_i = x_i x f_i, on our own threads."""
    if not isinstance(rows, np.ndarray):
        return _sparse_gram(_outer(rows, factors))
    n, size = len(rows), rows.shape[1] * factors.shape[1]
    return blas.gram(n, size, lambda part: np.asarray(_outer(rows[part], factors[part])))


def _sparse_gram(X: Any) -> Array:
    from continuized.solver.kernels.gram import add_sparse_gram

    n, d = X.shape
    parts = threads.count() if count_pairs(np.diff(X.indptr)) > 10.0 * d * d else 1
    cuts = threads.cut(n, parts)
    sums = np.zeros((parts, d, d))
    data = X.data.astype(np.float64, copy=False)

    def add(i: int) -> None:
        add_sparse_gram(data, X.indptr, X.indices, cuts[i], cuts[i + 1], sums[i])

    threads.in_parts(add, parts)
    upper = sums.sum(axis=0)
    return np.asarray(upper + np.triu(upper, 1).T)


def nystrom(p: Any, w: Array, rng: Root | np.random.Generator) -> Metric:
    """The largest eigenvalues of a sample's Hessian and their directions; elsewhere, the
    smallest of these in place of the rest."""
    n, d, least, rng = p.row_count, p.dim, _least(p), np.random.default_rng(rng)
    rank = min(RANK, n, d)
    index = _sample(p, min(SAMPLE * rank, n), rng)
    rows, q = p.sample_curvatures(w, index)
    S = _outer(rows, (np.sqrt(q)[:, None] if q.ndim == 1 else _draw(q, rng)) / np.sqrt(len(q)))
    rows_first = len(q) <= d  # the smaller of S S^T and S^T S, which have the same eigenvalues
    K = S @ S.T if rows_first else S.T @ S
    values, vectors = np.linalg.eigh(K.toarray() if p.is_sparse else K)
    kept = values > max(values[-1] * 1e-12, least)
    if not np.any(kept):
        return Diagonal(np.full(d, p.l2 + least))
    values, vectors = values[kept][::-1][:rank], vectors[:, kept][:, ::-1][:, :rank]
    # Through S^T in both cases: a column that is empty stays so, to the last bit.
    U = S.T @ vectors / np.sqrt(values) if rows_first else S.T @ (S @ vectors) / values
    # Where nothing is left out, neither rows nor directions, the rest has l2 alone.
    whole = len(q) == n and q.ndim == 1
    exact = whole and kept.sum() <= rank and p.l2 > 0.0 and not p.intercept
    rest = p.l2 + (0.0 if exact else float(values[-1]))
    return LowRank(np.ascontiguousarray(U), values + p.l2, max(rest, 1e-12 * float(values[0])))


def _draw(p: Array, rng: np.random.Generator) -> Array:
    """Draw a class k of each row, with its probabilities, and return e_k - p.

    The mean of (e_k - p)(e_k - p)^T over k is diag(p) - p p^T.
    """
    drawn = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
    factors = -p
    factors[np.arange(len(p)), np.minimum(drawn, p.shape[1] - 1)] += 1.0
    return factors
