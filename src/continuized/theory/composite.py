"""F = f + psi as the theorems see it: its values, its minimiser, and the gradients of f."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from continuized.problems.base import Array, Problem, check_problem
from continuized.process.composite import Composite
from continuized.process.mirror import make_composite
from continuized.support import validation as check
from continuized.support.threads import norm

ACCURACY = 1e-11  # of the gradient mapping at x*, relative to the gradient of f at x_0
MOST_EVENTS = 50_000  # to find x*; cheap for f's of moderate size


class CompositeProblem(Problem):
    """F = f + psi with its minimiser; `grad` and `grads` are those of f, L and mu too."""

    def __init__(self, smooth: Problem, composite: Composite, x_star: Array) -> None:
        self.smooth, self.composite = smooth, composite
        self.L, self.mu = smooth.L, smooth.mu
        self.x_star = x_star
        self.f_star = self.fun(x_star)

    def fun(self, x: Array) -> float:
        """Return F(x)."""
        return float(self.smooth.fun(x.copy())) + self.composite.value(x)

    def grad(self, x: Array) -> Array:
        """Return the gradient of f at x."""
        return self.smooth.grad(x)

    def values(self, points: Array) -> Array:
        """Return F at each of points[0], points[1], ..."""
        return self.smooth.values(points) + self.composite.values(points)

    def grads(self, points: Array) -> Array:
        """Return the gradient of f at each of points[0], points[1], ..."""
        return self.smooth.grads(points)

    def distances(self, points: Array) -> Array:
        """Return |z - x*|^2 of each of points[0], points[1], ..., or twice the divergence of x*
        from z in another geometry."""
        assert self.x_star is not None
        return self.composite.distances(self.x_star, points)


def as_composite_problem(
    problem: Any, x0: Array, prox: Any, mirror: Any, x_star: Any
) -> CompositeProblem:
    """Return F for the theorems; x_star is its minimiser, computed from x0 where it is None.

    Raises ValueError where it does not fit, or where computing it takes too long.
    """
    check_problem(problem)
    composite = make_composite(prox, mirror, x0.shape)
    if x_star is not None:
        star = check.array(x_star, "x_star", dtype=np.float64, finite=True)
        check.shape(star, "x_star", x0.shape, like="x")
        composite.check_start(star, "x_star")
    else:
        star = find_minimiser(problem, x0, composite)
    return CompositeProblem(problem, composite, star)


def find_minimiser(problem: Problem, x0: Array, composite: Composite | None = None) -> Array:
    """Find the minimiser of f, or of F, by a run that is told nothing, in the plain geometry."""
    from continuized.solver.minimize import minimize

    g, given = np.asarray(problem.grad(x0.copy())), None
    what = ("the minimiser", "set x_star of the problem")
    if composite is not None:
        what, given = (
            ("the minimiser with prox= or mirror=", "give x_star="),
            composite.plain_prox(),
        )
        if given is None:
            raise ValueError(
                "the minimiser in a geometry of your own is not computed: give x_star="
            )
        composite.check_start(x0)
        composite.move(x0, g, 1.0)  # which says what is wrong with a prox, where something is
    tol = ACCURACY * (norm(g) or 1.0)
    how: Any = {"tol": tol, "maxiter": MOST_EVENTS, "rng": 0, "record": False}
    r = minimize(problem, x0, prox=given, **how)
    if not r.success:
        raise ValueError(f"{what[0]} was not found in {MOST_EVENTS} events; {what[1]}")
    return np.asarray(r.x)


def with_minimiser(problem: Problem, x0: Array) -> Problem:
    """Return the problem, or a copy of it that knows its minimiser: found from x0."""
    check_problem(problem)
    if problem.x_star is not None and problem.f_star is not None:
        return problem
    known = copy.copy(problem)
    if known.x_star is None:
        known.x_star = find_minimiser(problem, x0)
    if known.f_star is None:
        known.f_star = float(problem.fun(np.array(known.x_star)))
    return known
