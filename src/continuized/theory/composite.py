"""F = f + psi as the theorems see it: its values, its minimiser, and the gradients of f."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem, check_problem, check_start
from continuized.process.composite import Composite
from continuized.process.mirror import make_composite
from continuized.process.stepper import Status
from continuized.support import validation as check
from continuized.support.blas import norm

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
    """Find the minimiser of f, or of F, in the plain geometry.

    The run is told nothing: with L alone it would have no restarts, and take far longer.
    """
    from continuized.solver.minimize import minimize

    g, prox = np.asarray(problem.grad(x0.copy())), None
    what, remedy = "the minimiser", "Set x_star of the problem."
    if composite is not None:
        what, remedy = "the minimiser with prox= or mirror=", "Give x_star=."
        prox = composite.plain_prox()
        if prox is None:
            raise ValueError(
                "the minimiser in a geometry of your own is not computed: give x_star="
            )
        composite.check_start(x0)
        composite.move(x0, g, 1.0)  # which says what is wrong with a prox, where something is
    tol = ACCURACY * (norm(g) or 1.0)
    how: Any = {"tol": tol, "maxiter": MOST_EVENTS, "rng": 0, "record": False}
    r = minimize(problem.fun, x0, problem.grad, prox=prox, **how)
    if not (r.success or r.status is Status.PRECISION):
        raise ValueError(f"{what} was not found: {r.message} {remedy}")
    return np.asarray(r.x)


def with_minimiser(problem: Problem, x0: ArrayLike) -> Problem:
    """Return a copy of a problem that knows its minimiser, or itself where it does.

    The minimiser is found by a run from x0, until the gradient is 1e-11 of that at x0, or as small
    as rounding allows; bounds are as exact as it is.  Raises TypeError for what is no problem,
    ValueError where x0 does not fit, and where 50,000 events find no minimiser.

    >>> import continuized as cz
    >>> p = cz.Problem(lambda x: float((x - 1.0) @ (x - 1.0)), lambda x: 2.0 * (x - 1.0), L=2.0)
    >>> known = with_minimiser(p, [0.0, 3.0])
    >>> round(float(cz.theory.bound(cz.Continuized(2.0), known, [0.0, 3.0], t=10.0)), 9)
    0.2
    """
    check_problem(problem)
    if problem.x_star is not None and problem.f_star is not None:
        return problem
    known = copy.copy(problem)
    if known.x_star is None:
        known.x_star = find_minimiser(problem, check_start(x0, problem).astype(np.float64))
    if known.f_star is None:
        known.f_star = float(problem.fun(np.array(known.x_star)))
    return known
