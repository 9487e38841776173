"""Evaluations of f in a metric, counted, and what two of them say of L."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array, Problem, check_gradient
from continuized.process.prox import Prox, proximal_step
from continuized.solver import array_api as arrays
from continuized.solver.array_api import inner, norm
from continuized.solver.metric import Identity, Metric
from continuized.support.checkpoints.state import Checkpointed

ROUNDING = 64.0  # epsilons: differences below are not looked at
PROBE = 1e-4  # of the length of x, the step of the first estimate of L


class Evaluation(NamedTuple):
    """Where f was evaluated: the point, f, its gradient g, and P^-1 g.

    f is infinite where it, its gradient or the norm of that is not finite.
    """

    y: Array
    f: float
    g: Array
    q: Array


# Formulas: plain functions of floats, which JAX's adapter translates.


def find_probe_step(size: float, slope: float) -> float:
    """Return how far along the gradient L is first looked for: |x| and the slope are given.

    >>> find_probe_step(20.0, 0.5)
    0.004
    """
    return PROBE * max(size, 1.0) / slope


def find_least_L(
    change: float, along: float, up: float, down: float, size: float, largest: float, eps: float
) -> float:
    """Return the least L that two points y, y' allow; 0 where rounding hides it.

    For a convex f that is L-smooth, L is at least

        |g - g'|^2 / (2 d),    d = f(y') - f(y) - <g, y' - y>,

    whichever of the two points is y.  change = |g - g'|^2, along = <g' - g, y' - y>; up and down
    are d from one point and from the other; size is the larger |f|, largest the largest |g|^2 seen.

    >>> find_least_L(4.0, 2.0, 1.0, 1.0, size=1.0, largest=4.0, eps=1e-16)  # f = x^2, 0 and 1
    2.0
    """
    if change > (ROUNDING * eps) ** 2 * largest and along > 0.0:
        if min(up, down) > ROUNDING * eps * size:
            return 0.5 * change / min(up, down)
        return change / along  # the sum of the two needs no f
    return 0.0


def after_step(at: Evaluation, gamma: float, prox: Prox | None) -> tuple[Array, Array, Array]:
    """Return x after a step of length gamma, the gradient (or gradient mapping) and P^-1 times
    it."""
    x = at.y - gamma * at.q
    if prox is None:
        return x, at.g, at.q
    x = proximal_step(prox, x, gamma)
    with np.errstate(over="ignore"):  # of a prox that goes very far; the run ends then
        mapping = (at.y - x) / gamma
    return x, mapping, mapping


def find_bends(one: Evaluation, two: Evaluation) -> tuple[float, float]:
    """Return how far f is above its tangent: at the second point from the first, and the other way
    round."""
    dy = two.y - one.y
    return two.f - one.f - inner(one.g, dy), one.f - two.f + inner(two.g, dy)


class Evaluator(Checkpointed):
    """Asks for f and its gradient at points of one shape and dtype."""

    changing = ("evaluations", "values", "mu_seen", "_largest", "eps")

    def __init__(self, problem: Problem, like: Array, metric: Metric) -> None:
        self._problem, self.metric = problem, metric
        self._shape, self._dtype = like.shape, like.dtype
        # Of (y, f, g): the metric, corrected by what they show.
        self.correct: Callable[[Array, float, Array], Metric] | None = None
        self._is_array_api = arrays.namespace(like) is not None
        self.eps = arrays.eps_of(like)
        self.evaluations = self.values = 0  # of f and its gradient, and of f alone
        self.last_value = math.nan  # f as it was given, whatever the gradient was
        self.mu_seen = math.inf
        self._largest = 0.0  # of the squared gradients, in the dual norm

    def evaluate(self, y: Array) -> Evaluation:
        """Evaluate f and its gradient at y."""
        self.evaluations += 1
        f, g = self._problem.value_and_gradient(arrays.copy(y))
        g, self.last_value = self._check_gradient(g), f
        # A finite |g|^2 shows that g is; a metric is given none that is not.
        plain = type(self.metric) is Identity
        if not (math.isfinite(f) and (plain or arrays.is_finite(g))):
            return Evaluation(y, math.inf, g, g)
        if self.correct is not None:
            self.metric = self.correct(y, f, g)
        q = self._solve(g)
        square = inner(g, q)
        if not math.isfinite(square):
            return Evaluation(y, math.inf, g, g)
        self._largest = max(self._largest, square)
        return Evaluation(y, f, g, q)

    def change_metric(self, metric: Metric) -> None:
        """Go on in another metric; evaluations from before need `in_new_metric`."""
        self.metric, self._largest = metric, 0.0  # gradients are compared with those to come

    def forget_all_but(self, *points: Evaluation) -> None:
        """Take gradients of before for no measure of what rounding hides, but those of some
        points."""
        self._largest = max(inner(point.g, point.q) for point in points)

    def in_new_metric(self, point: Evaluation) -> Evaluation:
        """Return the same point in the metric of now."""
        q = self._solve(point.g)
        self._largest = max(self._largest, inner(point.g, q))
        return point._replace(q=q)

    def _solve(self, g: Array) -> Array:
        if type(self.metric) is Identity:
            return g
        return self.metric.solve(g).astype(self._dtype, copy=False)

    def _check_gradient(self, g: Any) -> Array:
        if self._is_array_api:  # checked already
            given: Array = g
            return given
        if type(g) is np.ndarray and g.dtype is self._dtype and g.shape == self._shape:
            return g.copy()  # the quick way, which most gradients take
        array, eps = check_gradient(g, self._shape)
        self.eps = max(self.eps, eps)
        return array.astype(self._dtype, copy=True)

    def first_L(self, at: Evaluation) -> float:
        """Estimate L by a short step along the gradient: one evaluation more."""
        length = norm(at.q)
        if length == 0.0:
            return 1.0
        step = find_probe_step(norm(at.y), length)
        probe = self.evaluate(at.y - step * at.q)
        seen = self.least_L(at, probe) if math.isfinite(probe.f) else 0.0
        return seen if seen > 0.0 else 1.0 / step

    def contradicts_gradient(self, at: Evaluation) -> bool:
        """Tell whether central differences of f along the gradient show that it is wrong.

        Where f bends as much as it falls on the way, as at a kink, nothing is said; nor where
        differences over other lengths say something else, as they do of a rough f.
        """
        length = norm(at.g)
        if length == 0.0:
            return False
        step = math.cbrt(self.eps) * max(norm(at.y), 1.0)
        first = self._slope_error(at, step)
        for other in (step / 4.0, 4.0 * step):
            if first == 0.0 or abs(self._slope_error(at, other) - first) > 0.25 * abs(first):
                return False
        return True

    def _slope_error(self, at: Evaluation, step: float) -> float:
        """By how much a central difference of f along the gradient is off; 0 where it fits."""
        length = norm(at.g)
        move = (step / length) * at.g
        ahead, behind = self._problem.fun(at.y + move), self._problem.fun(at.y - move)
        self.values += 2
        slope, bend = (ahead - behind) / (2.0 * step), (ahead - 2.0 * at.f + behind) / step
        rounding = ROUNDING * self.eps * abs(at.f) / step
        error = slope - length
        return error if abs(error) > 0.5 * length + abs(bend) + rounding else 0.0

    def is_the_same_gradient(self, one: Evaluation, two: Evaluation) -> bool:
        """Tell whether two gradients differ by rounding alone, and are about the largest so far."""
        change = inner(two.g - one.g, two.q - one.q)
        is_seen = change > (ROUNDING * self.eps) ** 2 * self._largest  # as in find_least_L
        return not is_seen and inner(two.g, two.q) > 0.25 * self._largest

    def least_L(self, one: Evaluation, two: Evaluation) -> float:
        """Return `find_least_L` of two points, in the dual norm of the metric's."""
        dg, dy = two.g - one.g, two.y - one.y
        change = inner(dg, two.q - one.q)
        along = inner(dg, dy)
        size = max(abs(one.f), abs(two.f))
        bends = find_bends(one, two)
        seen = find_least_L(change, along, *bends, size, self._largest, self.eps)
        square = inner(dy, dy)  # it may underflow, where two points nearly coincide, or overflow
        if seen > 0.0 and type(self.metric) is Identity and 0.0 < square < math.inf:
            self.mu_seen = min(self.mu_seen, along / square)
        return seen
