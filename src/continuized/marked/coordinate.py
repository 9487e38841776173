"""Coordinate descent, plain and accelerated: the continuized process with coordinates for marks.

The bounds are those of the process with S = max_i L_i / p_i^2 for L (Even, Hendrikx and Massoulie
2020), and `theory.bound` has them.  S is least at p_i proportional to sqrt(L_i): (sum sqrt L_i)^2.

All of this holds for blocks of coordinates, with L_B the smoothness along a block (`blocks`), and
for f + psi with a psi that is a sum over them (`penalty`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from continuized.marked.blocks import Partition, block_L, partition
from continuized.marked.kernels import layout
from continuized.marked.kernels.events import block_events, coordinate_events
from continuized.marked.penalty import Penalty
from continuized.marked.separable import SeparableForm, add_penalty, primal_form
from continuized.marked.stepper import MarkedStepper
from continuized.problems import Problem
from continuized.problems.base import Array
from continuized.problems.losses import SQUARED
from continuized.process.marks import Categorical, Changing, Finite, check_probabilities
from continuized.process.methods import Continuized
from continuized.process.stepper import Progress
from continuized.support import validation as check
from continuized.support.blas import norm
from continuized.support.display import show_line

FIRST_REFRESH = 16  # passes; then at each doubling
CYCLES = 5  # through a working set before it is chosen anew, or as many steps as coordinates
LEAST_NEW = 32  # coordinates that a working set takes up at once; as many as are in it, if more


@dataclass(frozen=True, eq=False)
class CoordinateDescent:
    """Accelerated (or plain) coordinate descent on a Quadratic, LeastSquares or
    LogisticRegression f, or on f + psi.

    At an event of mark i, x_i -= grad_i f / L_i and z_i -= (gamma'/p_i) grad_i f, with the
    parameters of Continuized(S, mu), S = max_i L_i / p_i^2.  With psi = prox, z_i takes a proximal
    step of length gamma'/p_i instead, and x_i moves by eta/p_i times what z_i does; plain, x_i
    takes a proximal step of length 1/L_i.

    sampling: "sqrt" (p_i proportional to sqrt(L_i)), "uniform", or the probabilities themselves.
    "active", a heuristic for plain steps with prox: cycles through a working set, the coordinates
    that are off the kinks and bounds of psi, and those that gain most by leaving them; it is
    chosen anew now and then.  Nothing is drawn, and no bound is known, but it is the quickest where
    most coordinates of x* are at rest, as those of a lasso.
    accelerated: False for plain coordinate descent.  start: as in Continuized; with prox it must
    be such that eta <= min p_i, and is 2 / min p_i by default where mu = 0.
    blocks: None for single coordinates; an integer for blocks of so many consecutive ones; or a
    list of vectors of indices, in which each coordinate is once.  Then a mark is a block B, and
    the constants L_B (the largest eigenvalue of the block of the Hessian, or of a bound on it) and
    p_B in place of L_i and p_i; sampling is over the blocks.
    prox: a sum over coordinates (`cz.prox.L1`, `ElasticNet`, `Box`, `LInfBall`, `NonNegative`,
    `Separable`), or `cz.prox.GroupLasso`, whose groups are the blocks.  An l2 in it counts as part
    of f, which it makes strongly convex.  tol is for the duality gap, a bound on F - F*, on
    LeastSquares where psi grows in every direction (the lasso, the elastic net, a bounded box),
    otherwise for the norm of L_i (x_i - a proximal step of length 1/L_i).  The x of accelerated
    runs is a mean of many z: exact zeros come from plain ones.

    >>> import continuized as cz, numpy as np
    >>> X = np.random.default_rng(0).standard_normal((60, 4))
    >>> p = cz.problems.LeastSquares(X, X.sum(axis=1), l2=0.1)
    >>> r = cz.minimize(p, np.zeros(4), method=cz.CoordinateDescent(), tol=1e-8, rng=0)
    >>> r.success, sorted(r.constants)
    (True, ['S', 'max_L_i', 'mu'])
    >>> r = cz.minimize(p, np.zeros(4), method=cz.CoordinateDescent(blocks=2), tol=1e-8, rng=0)
    >>> r.success, sorted(r.constants)
    (True, ['S', 'max_L_B', 'mu'])
    >>> lasso = cz.CoordinateDescent(prox=cz.prox.L1(0.5), accelerated=False)
    >>> r = cz.minimize(p, np.zeros(4), method=lasso, tol=1e-10, rng=0)
    >>> r.message, bool(r.gap <= 1e-10)
    ('The duality gap is at most tol.', True)
    """

    __repr__ = show_line

    sampling: Any = "sqrt"
    accelerated: bool = True
    start: float | None = None
    blocks: Any = None
    prox: Any = None
    name: ClassVar[str] = "coordinate-descent"

    def __post_init__(self) -> None:
        check.flag(self.accelerated, "accelerated")

    def prepare(self, problem: Problem, x0: Array) -> CoordinateStepper:
        """Prepare the run on this problem from x0.

        Raises TypeError or ValueError for problems of other kinds, for blocks that are empty,
        overlap, leave out a coordinate or have an index out of range, for a prox that is no sum
        over coordinates or blocks, and for an x0 outside its domain.
        """
        form, x = primal_form(problem), x0.ravel()
        penalty = None if self.prox is None else Penalty(self.prox, x0.shape)
        blocks = self._find_blocks(penalty, form.L_i.size)
        if not blocks.is_single:
            form = replace(form, L_i=block_L(problem, blocks))
        if penalty is not None:
            form = add_penalty(form, penalty.along(blocks), blocks, x)
        if blocks.is_single:
            return CoordinateStepper(form, self, x, problem)
        return BlockStepper(form, self, x, problem, blocks)

    def _find_blocks(self, penalty: Penalty | None, d: int) -> Partition:
        if self.blocks is None and penalty is not None and penalty.groups is not None:
            return penalty.groups
        return partition(1 if self.blocks is None else self.blocks, d)


class CoordinateStepper(MarkedStepper):
    """A run of coordinate steps: the state, and what may be asked of it between two blocks.

    pairs and image_pairs, the images of these, are vectors where there is no z.
    """

    unit, largest = "coordinate", "max_L_i"  # what a mark is, and the largest of its constants
    changing = (*MarkedStepper.changing, "events", "image_pairs")

    def __init__(self, form: SeparableForm, method: Any, x0: Array, problem: Problem) -> None:
        super().__init__(problem, method, form.columns, x0)
        self.form, self.start, self.penalty = form, method.start, form.penalty
        if self.penalty is not None:
            self.criterion_is_gap = form.kind == SQUARED and form.c > 0.0 and self.penalty.has_dual
            self.criterion_name = (
                "duality gap" if self.criterion_is_gap else "norm of the gradient mapping"
            )
        # Plain steps are the same whatever the law, as long as every coordinate comes.
        self.for_another_law = "the method sampling= the same" if self.accelerated else ""
        self.law_changes = isinstance(method.sampling, str) and method.sampling == "active"
        if self.law_changes and (self.accelerated or self.penalty is None):
            raise ValueError(
                'sampling="active" is for plain steps with prox; give accelerated=False and prox='
            )
        sampling = "uniform" if self.law_changes else method.sampling
        self._set_law(_probabilities(sampling, form.L_i, self.unit), np.ones(form.L_i.size))
        self.law, self.seen = Changing(self._law()), (-1, x0, 0.0, x0)
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
        if not self.accelerated:
            self.process = Continuized(self.S)  # of which plain steps take nothing
        else:
            self.process = Continuized(self.S, min(self.form.mu, self.S), self.start)
            if self.form.is_penalised:
                # Then x_i is a mean of values that z_i had, with weights >= 0.
                self.process = self.process.for_composite(float(p[p > 0.0].min()))
        self.weights = _invert(p * metric)
        # With psi, x_i moves by (eta / p_i) times what z_i does.
        self.steps = _invert(p if self.accelerated and self.form.is_penalised else self.form.L_i)

    def _law(self) -> Finite:
        """Make the law of marks with the probabilities p."""
        return Categorical(self.p)

    @property
    def constants(self) -> dict[str, float]:
        """The constants that were used, given or computed."""
        found = {self.largest: float(self.form.L_i.max(initial=0.0))}
        return {"S": self.S, "mu": self.form.mu, **found} if self.accelerated else found

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
        self._follow()

    def begin(self) -> Progress:
        progress = super().begin()
        self._follow()
        return progress

    def _follow(self) -> None:
        """Choose the working set for the next events, where the marks are those of one."""
        if self.penalty is None or not self.law_changes:
            return
        x, _, g = self._look()
        L = self._lengths()
        gains = self.per_mark(L * (x - self.penalty.step(x - g / L, 1.0 / L)) ** 2)
        free = np.flatnonzero(self.per_mark(~self.penalty.find_resting(x)) > 0)
        gains[free] = 0.0
        others = np.flatnonzero(gains)
        most = max(LEAST_NEW, free.size)
        if others.size > most:
            others = others[np.argpartition(-gains[others], most)[:most]]
        chosen = np.sort(np.concatenate([free, others]))
        self.law.now = Cycle(chosen if chosen.size else np.arange(self.p.size), self.p.size)
        self.block = max(self.p.size, CYCLES * chosen.size)
        self.next_test = 0.0  # the gradient is at hand

    def after_restoring(self) -> None:
        self._follow()
        super().after_restoring()

    def _look(self) -> tuple[Array, float, Array]:
        """Return x, and f and its gradient there, with the l2 of psi; once at an event."""
        if self.seen[0] != self.events.item():
            x, l2 = self.coordinates(), 0.0 if self.penalty is None else self.penalty.l2
            f, g = self.problem.value_and_gradient(x)
            f, g = f + 0.5 * float((l2 * x * x).sum()), np.asarray(g).ravel() + l2 * x
            self.seen = self.events.item(), x, f, g
        return self.seen[1:]

    def _lengths(self) -> Array:
        """Return the L_i of each coordinate, 1 where it is 0."""
        return self.per_coordinate(np.where(self.form.L_i > 0.0, self.form.L_i, 1.0))

    def _run(self, marks: Array, coefficients: Array) -> None:
        coordinate_events(marks, coefficients, *self._arguments())

    def _arguments(self) -> tuple[Any, ...]:
        """Return what the kernels know of the function, and what they change."""
        f = self.form
        psi = (None, None) if f.penalty is None else (f.penalty.entries, f.penalty.weights)
        terms = (self.steps, self.weights, f.ridge, f.center, f.scale, *psi, f.entropy)
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

    def per_mark(self, values: Array) -> Array:
        """Sum a value for each coordinate over the coordinates of each mark."""
        return values

    def coordinates(self) -> Array:
        """Return x, the coordinates now."""
        x = self.at_x(self.pairs)
        # Inside the domain up to the rounding of s + alpha d.
        return x if self.penalty is None else np.clip(x, self.penalty.low, self.penalty.high)

    def evaluate(self, x: Array) -> float:
        psi = 0.0 if self.penalty is None else self.penalty.value(x)
        return super().evaluate(x) + psi

    def value(self) -> float:
        if self.penalty is None or self.recorded == self.k or self.seen[0] != self.events.item():
            return super().value()
        _, x, f, _ = self.seen
        return f - 0.5 * float((self.penalty.l2 * x * x).sum()) + self.penalty.value(x)

    def evaluate_criterion(self) -> float:
        if self.penalty is None:
            return super().evaluate_criterion()
        x, f, g = self._look()
        if self.criterion_is_gap:
            return self.penalty.find_gap(f, g, x)
        L = self._lengths()
        return norm(L * (x - self.penalty.step(x - g / L, 1.0 / L)))

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
        self.partition = blocks
        super().__init__(form, method, x0, problem)
        self.costs = blocks.sum_blocks(self.costs)

    def _run(self, marks: Array, coefficients: Array) -> None:
        block_events(marks, coefficients, *self.partition, *self._arguments())

    def per_coordinate(self, values: Array) -> Array:
        return self.partition.per_coordinate(values)

    def per_mark(self, values: Array) -> Array:
        return self.partition.sum_blocks(values)


@dataclass(frozen=True)
class Cycle:
    """The marks of a list, in turn; size: how many marks there are, in the list or not."""

    order: Array
    size: int

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Return the first n marks; nothing is drawn."""
        return np.resize(self.order, n)


def _invert(values: Array) -> Array:
    """Return 1 / values, and 0 where they are 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0.0)


def _probabilities(sampling: Any, L_i: Array, unit: str) -> Array:
    if not L_i.size:
        raise ValueError("the problem has no variables: there is no coordinate to draw")
    if isinstance(sampling, str):
        check.one_of(sampling, "sampling", ("sqrt", "uniform", "active"), other="probabilities")
        by_roots = sampling == "sqrt" and np.any(L_i > 0.0)
        shares = np.sqrt(L_i) if by_roots else np.ones(L_i.size)
        return np.asarray(shares / shares.sum())
    p = check_probabilities(sampling)
    if p.shape != L_i.shape:
        raise ValueError(f"sampling has {p.size} probabilities, but there are {L_i.size} {unit}s")
    never = np.flatnonzero((p == 0.0) & (L_i > 0.0))
    if never.size:
        raise ValueError(
            f"{unit} {never[0]} has probability 0, but what is minimised depends on it: it would "
            "never be moved; give it a probability > 0"
        )
    return p
