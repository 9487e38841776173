"""Coordinate descent, plain and accelerated: the continuized process with coordinates for marks.

The bounds are those of the process with S = max_i L_i / p_i^2 for L (Even, Hendrikx and Massoulie
2020), and `theory.bound` has them.  S is least at p_i proportional to sqrt(L_i): (sum sqrt L_i)^2.

All of this holds for blocks of coordinates, with L_B the smoothness along a block.  Along a block B
the Hessian is at most L_B, the largest eigenvalue of the rows and columns B of a bound on the
whole: max of the eigenvalues of a Quadratic, and of X_B^T X_B / n times the curvature of the loss,
plus l2, of a regression.  It lies between the largest L_i of the block and their sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np

from continuized.marked.kernels import layout
from continuized.marked.kernels.events import block_events, coordinate_events
from continuized.marked.separable import SeparableForm, primal_form
from continuized.marked.stepper import MarkedStepper
from continuized.problems import Problem, Quadratic
from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.problems.regression.spectrum import gram_error, spectrum
from continuized.process.marks import Categorical, Changing, Finite, check_probabilities
from continuized.process.methods import Continuized
from continuized.support import validation as check
from continuized.support.display import show_line

FIRST_REFRESH = 16  # passes; then at each doubling
SMALL = 32  # coordinates; sparse blocks up to this size are treated together, a size at a time


@dataclass(frozen=True, eq=False)
class CoordinateDescent:
    """Accelerated (or plain) coordinate descent on a Quadratic, LeastSquares or
    LogisticRegression.

    At an event of mark i, x_i -= grad_i f / L_i and z_i -= (gamma'/p_i) grad_i f, with the
    parameters of Continuized(S, mu), S = max_i L_i / p_i^2.

    sampling: "sqrt" (p_i proportional to sqrt(L_i)), "uniform", or the probabilities themselves.
    accelerated: False for plain coordinate descent.  start: as in Continuized.
    blocks: None for single coordinates; an integer for blocks of so many consecutive ones; or a
    list of vectors of indices, in which each coordinate is once.  Then a mark is a block B, and
    the constants L_B (the largest eigenvalue of the block of the Hessian, or of a bound on it) and
    p_B in place of L_i and p_i; sampling is over the blocks.

    >>> import continuized as cz, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> p = cz.problems.LeastSquares(X, X.sum(axis=1), l2=0.1)
    >>> r = cz.minimize(p, np.zeros(4), method=cz.CoordinateDescent(), tol=1e-8, rng=0)
    >>> r.success, sorted(r.constants)
    (True, ['S', 'max_L_i', 'mu'])
    >>> r = cz.minimize(p, np.zeros(4), method=cz.CoordinateDescent(blocks=2), tol=1e-8, rng=0)
    >>> r.success, sorted(r.constants)
    (True, ['S', 'max_L_B', 'mu'])
    """

    __repr__ = show_line

    sampling: Any = "sqrt"
    accelerated: bool = True
    start: float | None = None
    blocks: Any = None
    name: ClassVar[str] = "coordinate-descent"

    def __post_init__(self) -> None:
        check.flag(self.accelerated, "accelerated")

    def prepare(self, problem: Problem, x0: Array) -> CoordinateStepper:
        """Prepare the run on this problem from x0.

        Raises TypeError or ValueError for problems of other kinds, and for blocks that are empty,
        overlap, leave out a coordinate or have an index out of range.
        """
        form, x = primal_form(problem), x0.ravel()
        blocks = partition(1 if self.blocks is None else self.blocks, form.L_i.size)
        if blocks.is_single:
            return CoordinateStepper(form, self, x, problem)
        form = replace(form, L_i=block_L(problem, blocks))
        return BlockStepper(form, self, x, problem, blocks)


class CoordinateStepper(MarkedStepper):
    """A run of coordinate steps: the state, and what may be asked of it between two blocks.

    pairs and image_pairs, the images of these, are vectors where there is no z.
    """

    unit, largest = "coordinate", "max_L_i"  # what a mark is, and the largest of its constants
    changing = (*MarkedStepper.changing, "events", "image_pairs")

    def __init__(self, form: SeparableForm, method: Any, x0: Array, problem: Problem) -> None:
        super().__init__(problem, method, form.columns, x0)
        self.form, self.start = form, method.start
        # Plain steps are the same whatever the law, as long as every coordinate comes.
        self.for_another_law = "the method sampling= the same" if self.accelerated else ""
        p = _probabilities(method.sampling, form.L_i, self.unit)
        self._set_law(p, np.ones(form.L_i.size))
        self.law = Changing(self._law())
        self.steps = np.divide(1.0, form.L_i, out=np.zeros_like(self.p), where=form.L_i > 0.0)
        self.events = np.zeros(1, np.int64)
        # The kernels keep the residuals for the squared loss, and the images for others.
        self.shift = form.targets if form.kind == SQUARED else 0.0
        self.image_pairs = form.image(x0) - self.shift
        if not self.accelerated:
            self.pairs = x0.astype(np.float64)
        else:
            self.image_pairs = layout.pairs_at(self.image_pairs)
            if form.columns.indices is None:  # dense columns run in SIMD lanes: s and d apart
                self.image_pairs = np.asfortranarray(self.image_pairs)

    def _set_law(self, p: Array, metric: Array) -> None:
        """Set the constants for the law p, in the norm |v|^2 = sum metric_i v_i^2."""
        self.p = p
        L_i, live = self.form.L_i / metric, self.form.L_i > 0.0
        with np.errstate(divide="ignore", over="ignore"):
            self.S = float(np.max(L_i[live] / p[live] ** 2, initial=0.0)) or 1.0
        if not np.isfinite(self.S):
            raise ValueError(
                "S = max L_i / p_i^2 overflows; give larger probabilities, or rescale the problem"
            )
        self.process = Continuized(self.S, min(self.form.mu, self.S), self.start)
        self.weights = np.divide(1.0, p * metric, out=np.zeros_like(p), where=p > 0.0)

    def _law(self) -> Finite:
        """Make the law of marks with the probabilities p."""
        return Categorical(self.p)

    @property
    def constants(self) -> dict[str, float]:
        """The constants that were used, given or computed."""
        found = {"mu": self.form.mu, self.largest: float(self.form.L_i.max(initial=0.0))}
        return {"S": self.S, **found} if self.accelerated else found

    def take(self, marks: Array, coefficients: Array) -> None:
        first = FIRST_REFRESH * self.p.size
        while marks.size:
            before = self.events.item()
            due = first << (before // first).bit_length()  # of first, 2 first, 4 first, ...
            now = min(due - before, marks.size)
            self._run(marks[:now], coefficients[:now])
            self.events += now
            if before + now == due:
                self._refresh()
            marks, coefficients = marks[now:], coefficients[now:]

    def _run(self, marks: Array, coefficients: Array) -> None:
        coordinate_events(marks, coefficients, *self._arguments())

    def _arguments(self) -> tuple[Any, ...]:
        """Return what the kernels know of the function, and what they change."""
        f = self.form
        terms = (self.steps, self.weights, f.ridge, f.center, f.entropy, f.scale)
        loss = layout.Loss(f.kind, f.c, None if f.kind == SQUARED else f.targets)
        state = (self.scalars, self.pairs, self.image_pairs)
        return layout.CoordinateTerms(*terms), loss, f.columns, *state

    def _refresh(self) -> None:
        """Compute the images anew: rounding stays in them of all that they once were."""
        if self.accelerated:
            self.image_pairs[:, layout.S] = self.form.image(self.pairs[:, layout.S]) - self.shift
            self.image_pairs[:, layout.D] = self.form.image(self.pairs[:, layout.D])
        else:
            self.image_pairs[:] = self.form.image(self.pairs) - self.shift

    def per_coordinate(self, values: Array) -> Array:
        """Turn a value for each mark into one for each coordinate."""
        return values

    def coordinates(self) -> Array:
        """Return x, the coordinates now."""
        return self.at_x(self.pairs)

    def images(self) -> Array:
        """Return u = A diag(scale) x, as carried along."""
        return self.form.fill_rows(self.shift + self.at_x(self.image_pairs))

    def point(self) -> Array:
        """Return the point in the problem's own variables."""
        return self.coordinates()


class BlockStepper(CoordinateStepper):
    """Marks are blocks of coordinates: p, steps, weights and form.L_i have an entry to a block."""

    unit, largest = "block", "max_L_B"

    def __init__(
        self, form: SeparableForm, method: Any, x0: Array, problem: Problem, blocks: Partition
    ) -> None:
        super().__init__(form, method, x0, problem)
        self.partition = blocks
        self.costs = np.add.reduceat(self.costs[blocks.members], blocks.bounds[:-1])

    def _run(self, marks: Array, coefficients: Array) -> None:
        block_events(marks, coefficients, *self.partition, *self._arguments())

    def per_coordinate(self, values: Array) -> Array:
        return self.partition.per_coordinate(values)


def _probabilities(sampling: Any, L_i: Array, unit: str) -> Array:
    if not L_i.size:
        raise ValueError("the problem has no variables: there is no coordinate to draw")
    if isinstance(sampling, str):
        check.one_of(sampling, "sampling", ("sqrt", "uniform"), other="probabilities")
        by_roots = sampling == "sqrt" and np.any(L_i > 0.0)
        shares = np.sqrt(L_i) if by_roots else np.ones(L_i.size)
        return np.asarray(shares / shares.sum())
    p = check_probabilities(sampling)
    if p.shape != L_i.shape:
        raise ValueError(f"sampling has {p.size} probabilities, but there are {L_i.size} {unit}s")
    never = np.flatnonzero((p == 0.0) & (L_i > 0.0))
    if never.size:
        raise ValueError(
            f"{unit} {never[0]} has probability 0, but f depends on it: it would never be moved"
        )
    return p


class Partition(NamedTuple):
    """The coordinates in blocks: block b is members[bounds[b]:bounds[b + 1]]."""

    members: Array
    bounds: Array

    @property
    def is_single(self) -> bool:
        """Whether block i is the coordinate i."""
        return self.bounds.size == self.members.size + 1 and bool(
            np.all(self.members == np.arange(self.members.size))
        )

    def per_coordinate(self, values: Array) -> Array:
        """Turn a value for each block into one for each coordinate."""
        out = np.empty(self.members.size, values.dtype)
        out[self.members] = np.repeat(values, np.diff(self.bounds))
        return out


def partition(blocks: Any, d: int) -> Partition:
    """Return the blocks of d coordinates.

    blocks: an integer, the size of blocks of consecutive coordinates, of which the last may be
    smaller; or a sequence of vectors of indices, in which each coordinate is once.  TypeError or
    ValueError for anything else.

    >>> partition(2, 5)
    Partition(members=array([0, 1, 2, 3, 4]), bounds=array([0, 2, 4, 5]))
    >>> partition([[0, 1], [1, 2]], 3)
    Traceback (most recent call last):
        ...
    ValueError: coordinate 1 is in block 0 and in block 1: it must be in one only
    """
    if check.is_whole(blocks):
        size = check.whole(blocks, "the size of blocks", minimum=1)
        return Partition(np.arange(d), np.append(np.arange(0, d, min(size, max(d, 1))), d))
    what = "None, an integer >= 1 or a list of vectors of indices"
    listed = check.sequence(blocks, "blocks", what)
    indices = [_check_block(block, b, d) for b, block in enumerate(listed)]
    members = np.concatenate([np.zeros(0, np.int64), *indices])
    _check_each_is_once(indices, members, d)
    return Partition(members, np.cumsum([0, *(block.size for block in indices)]))


def _check_block(block: Any, b: int, d: int) -> Array:
    noun = "a vector of indices"
    indices = check.array(block, f"block {b}", dtype=np.int64, ndim=1, noun=noun)
    if indices.size == 0:
        raise ValueError(f"block {b} is empty: leave it out")
    wrong = indices[(indices < 0) | (indices >= d)]
    if wrong.size:
        raise ValueError(f"block {b} has the index {wrong[0]}, but indices must be in [0, {d})")
    return np.sort(indices)


def _check_each_is_once(indices: list[Array], members: Array, d: int) -> None:
    times = np.bincount(members, minlength=d)
    if np.all(times == 1):
        return
    i = int(np.argmax(times != 1))
    if times[i] == 0:
        raise ValueError(f"coordinate {i} is in no block: blocks must hold every coordinate")
    first, second = [b for b, block in enumerate(indices) for _ in range(np.sum(block == i))][:2]
    raise ValueError(
        f"coordinate {i} is in block {first} and in block {second}: it must be in one only"
    )


def block_L(problem: Any, blocks: Partition) -> Array:
    """Return L_B of each block: exact (up to rounding, to the safe side) where the block or the
    rows it meets are few, else a bound with the certificate of `problems.regression.spectrum`.

    problem: a Quadratic, LeastSquares or LogisticRegression, without weights and intercept.
    """
    if isinstance(problem, Quadratic):
        return np.maximum.reduceat(problem.eigenvalues[blocks.members], blocks.bounds[:-1])
    firsts, sizes = blocks.bounds[:-1], np.diff(blocks.bounds)
    L: Array = problem.coordinate_L[blocks.members[firsts]]  # of blocks of one
    limit = SMALL if problem.is_sparse else 1
    for size in np.unique(sizes[(sizes > 1) & (sizes <= limit)]).tolist():
        which = np.flatnonzero(sizes == size)
        together = blocks.members[firsts[which, np.newaxis] + np.arange(size)]
        L[which] = problem.curvature * _largest_eigenvalues(problem.columns, together) + problem.l2
    for b in np.flatnonzero(sizes > limit).tolist():
        block = blocks.members[blocks.bounds[b] : blocks.bounds[b + 1]]
        L[b] = problem.curvature * _largest_eigenvalue(problem.columns, block) + problem.l2
    return L


def _largest_eigenvalues(columns: Any, together: Array) -> Array:
    """Find the largest eigenvalue of X_B^T X_B / n for each row B of `together`, all at once, for
    many small sparse blocks take long one by one."""
    n, size = columns.shape[0], together.shape[1]
    parts = [columns[:, i].astype(np.float64) for i in together.T]
    gram = np.empty((len(together), size, size))
    for i, j in product(range(size), repeat=2):
        if j <= i:
            gram[:, i, j] = gram[:, j, i] = parts[i].multiply(parts[j]).sum(axis=0) / n
    trace = np.trace(gram, axis1=1, axis2=2)
    return np.asarray(np.linalg.eigvalsh(gram)[:, -1] + gram_error(n, size, trace))


def _largest_eigenvalue(columns: Any, block: Array) -> float:
    """Find the largest eigenvalue of X_B^T X_B / n, or a bound of it."""
    X, n = columns[:, block], int(columns.shape[0])
    if not isinstance(X, np.ndarray):
        from scipy import sparse

        # Without empty rows: a block should cost what it holds, not a pass over all rows.
        kept, row = np.unique(X.indices, return_inverse=True)
        shape = (max(kept.size, 1), X.shape[1])
        X = sparse.csc_array((X.data, row, X.indptr), shape).tocsr()
    rows = int(X.shape[0])
    return spectrum(X, lambda v: X.T @ (X @ v) / rows).largest * rows / n
