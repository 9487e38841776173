"""When hopeless runs are looked for and what the user is told of them; and where constants are
unknown, what tol is compared with, and when it cannot be reached.
"""

from __future__ import annotations

import math

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.process.prox import Prox, mapping_norm
from continuized.solver.array_api import SMALL_SQUARE, eps_of, inner, norm
from continuized.solver.steppers.evaluations import Evaluation
from continuized.support.checkpoints.state import Checkpointed

# Events, after which a hopeless run is looked for; before, tol may be reached, which is an answer
# too.  Later after a block that is eight times as long, and so on.
FIRST_LOOK, LOOK_FACTOR = 1024, 9
# All is rounding where the criterion was not halved in seven eighths of the events, and in the half
# that came last was never less than before, nor x moved.  Before that, single ulps may be gained.
HALVED_WITHIN, FELL_WITHIN, LEAST_EVENTS = 8, 2, 1024
FAR_TO_TELL = 1e4  # of 1 + |x_0|: a run that ends there says that x went away
FAR_TO_STOP, FAR_TO_STOP_FLOAT32 = 1e100, 1e25  # of 1 + |x_0|: a run ends there
GOES_AWAY = (
    " x went far away and the gradient did not get smaller: f may have no minimum, or jac may not "
    "be its gradient."
)
TOO_LARGE = (
    " The square of |x| is too large for a float: give x in larger units, or leave out L and mu."
)


class Criterion:
    """The duality gap where it is known (and wanted), otherwise the norm of the gradient, in the
    dual norm of the metric (or, unless `dual_norm`, the Euclidean one), or of the gradient mapping.

    slopes: with a number > 0 for each variable, the largest entry of the gradient over them stands
    for its norm where that is less: a run ends, too, where no variable has a larger slope.
    """

    def __init__(
        self,
        problem: Problem,
        prox: Prox | None,
        certified: bool = True,
        slopes: Array | None = None,
        *,
        dual_norm: bool = True,
    ) -> None:
        self._prox, self.slopes, self._dual_norm = prox, slopes, dual_norm
        # What turns a gradient into a duality gap; 0 where nothing does.
        regression = certified and prox is None and hasattr(problem, "curvature")
        known = regression and not getattr(problem, "intercept", False)
        self.strong = float(getattr(problem, "l2", 0.0)) if known else 0.0
        self.name = "duality gap" if self.strong > 0.0 else "gradient norm"
        if prox is not None:
            self.name = "norm of the gradient mapping"

    def gap(self, at: Evaluation) -> float | None:
        """Return a bound of f - f*, where one is known.

        For the mean of losses plus l2/2 |w|^2, the dual point made of the slopes of the losses
        at w has the duality gap |g|^2 / (2 l2): Fenchel's inequality is an equality there.
        """
        if self.strong > 0.0:
            return 0.5 * inner(at.g, at.g) / self.strong
        return None

    def evaluate(
        self, at: Evaluation, x: Array, gamma: float, *, in_a_guess: bool = False
    ) -> float:
        """Evaluate it at a point, from which a step of length gamma goes to x.

        in_a_guess: whether the metric's norm may be far below f's own; then slopes alone count.
        """
        gap = self.gap(at)
        if gap is not None:
            return gap
        if self._prox is not None:
            return mapping_norm(self._prox, at.y, at.g, gamma, x)
        largest = math.inf if self.slopes is None else float(np.abs(at.g / self.slopes).max())
        if in_a_guess and self.slopes is not None:
            return largest
        return min(dual_norm(at.g, at.q) if self._dual_norm else norm(at.g), largest)


def dual_norm(g: Array, q: Array) -> float:
    """Return sqrt(<g, q>), q = P^-1 g, also where the product would underflow; infinite where it is
    negative: P is definite, and nothing but rounding is left of q.

    >>> dual_norm(np.array([1e-200]), np.array([1e-200])), dual_norm(np.ones(1), -np.ones(1))
    (1e-200, inf)
    """
    square = inner(g, q)
    if square > SMALL_SQUARE:
        return math.sqrt(square)
    sizes = norm(g), norm(q)
    if 0.0 in sizes:
        return 0.0
    cosine = inner(g / sizes[0], q / sizes[1])
    return (
        math.sqrt(cosine) * math.sqrt(sizes[0]) * math.sqrt(sizes[1]) if cosine >= 0.0 else math.inf
    )


class Stagnation(Checkpointed):
    """How the criterion fell, by which a run is known that rounding alone moves.

    least: its least value, at the event fell_at.  half: half of what it was at the event halved_at.
    moved_at: the last event known at which x moved by more than rounding.
    """

    changing = ("least", "half", "halved_at", "fell_at", "moved_at")

    def __init__(self) -> None:
        self.least = self.half = math.inf
        self.halved_at = self.fell_at = self.moved_at = 0

    def note(self, k: int, found: float) -> None:
        """Remember the criterion of event k."""
        if found < self.least:
            self.least, self.fell_at = found, k
        if found < self.half:
            self.half, self.halved_at = 0.5 * found, k

    def is_all_rounding(self, k: int) -> bool:
        """Tell whether, after k events, the criterion has stopped falling, and x moving."""
        fell = FELL_WITHIN * max(self.fell_at, self.moved_at)
        return k >= max(HALVED_WITHIN * self.halved_at, fell, LEAST_EVENTS)


def is_far(x: Array, start: Array) -> bool:
    """Tell whether x is farther from 0 than any minimum that is of use."""
    return norm(x) > find_farthest(eps_of(x), norm(start))


def find_farthest(eps: float, size: float) -> float:
    """Return how far from 0 a run may go that began at |x_0| = size, by the dtype's rounding.

    >>> find_farthest(2.2e-16, 1.0), find_farthest(1.2e-7, 0.0)
    (2e+100, 1e+25)
    """
    return (FAR_TO_STOP if eps < 1e-10 else FAR_TO_STOP_FLOAT32) * (1.0 + size)


def next_look(k: int) -> int:
    """Return when, after k events, a hopeless run is looked for: at ends of blocks of events.

    >>> next_look(0), next_look(1024), next_look(9216)
    (1024, 9216, 82944)
    """
    look = FIRST_LOOK
    while look <= k:
        look *= LOOK_FACTOR
    return look


def is_time_to_look(k: int) -> bool:
    """Tell whether a hopeless run is looked for now."""
    return next_look(k - 1) == k
