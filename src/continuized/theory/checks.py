"""What the theorems need of their arguments, checked once for the whole room."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem, checked_start
from continuized.problems.quadratic import Quadratic
from continuized.process.methods import Method
from continuized.support.validation import as_float, brief, is_real

ROUNDING = 1e-12  # relative; L of a regression comes from a numerical eigenvalue


def checked_problem(problem: Any) -> Problem:
    """A Problem, and nothing else."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {brief(problem)}")
    return problem


def start_of(problem: Any, x0: ArrayLike) -> Array:
    """x0 as `minimize` would take it, in float64."""
    return checked_start(x0, checked_problem(problem)).astype(np.float64)


def minimiser(problem: Problem) -> Array:
    """x*, or a sentence that says it is missing."""
    if problem.x_star is None:
        raise ValueError(
            f"the minimiser of this {type(problem).__name__} is not known: set its x_star and "
            "f_star, the theorem is about |z_0 - x*|"
        )
    return problem.x_star


def minimum(problem: Problem) -> float:
    """f*, or a sentence that says it is missing."""
    if problem.f_star is None:
        raise ValueError(
            f"the minimum of this {type(problem).__name__} is not known: set its f_star, the "
            "theorem is about f - f*"
        )
    return float(problem.f_star)


def squared_distance(problem: Problem, x0: Array) -> float:
    """|x_0 - x*|^2 (and z_0 = x_0)."""
    difference = x0.ravel() - minimiser(problem).ravel()
    return float(difference @ difference)


def excess(problem: Problem, x0: Array) -> float:
    """f(x_0) - f*; a rounding error below zero is zero."""
    return max(float(problem.fun(x0)) - minimum(problem), 0.0)


def checked_sigma2(sigma2: Any) -> float:
    """The noise's total variance E|noise|^2, a finite number >= 0."""
    if not (is_real(sigma2) and 0.0 <= as_float(sigma2) < math.inf):
        raise ValueError(f"sigma2 must be a finite number >= 0, got {brief(sigma2)}")
    return float(sigma2)


def checked_times(times: ArrayLike, name: str = "t", ordered: bool = False) -> Array:
    """Finite times >= 0; never decreasing where `ordered`."""
    t = _array(times, name, "fiu", "real numbers").astype(np.float64)
    if not (np.all(np.isfinite(t)) and np.all(t >= 0.0)):
        raise ValueError(f"{name} must be finite and >= 0, got {brief(times)}")
    if ordered and (t.ndim > 1 or np.any(np.diff(np.atleast_1d(t)) < 0.0)):
        raise ValueError(f"{name} must be a sequence in increasing order, got {brief(times)}")
    return t


def checked_counts(k: ArrayLike) -> Array:
    """Numbers of events: integers >= 0."""
    counts = _array(k, "k", "iu", "integers")
    if np.any(counts < 0):
        raise ValueError(f"k must be >= 0, got {brief(k)}")
    return counts.astype(np.int64)


def check_constants_hold(method: Any, problem: Problem) -> None:
    """Refuse a theorem whose L or mu is known not to hold for the function."""
    if not isinstance(method, Method):
        raise TypeError(
            f"method must be a method such as cz.Continuized(L, mu), got {brief(method)}"
        )
    L, mu = problem.L, problem.mu
    if isinstance(problem, Quadratic) and problem.dim:
        mu = float(problem.eigenvalues.min())  # problem.mu may have been set smaller
    slack = getattr(problem, "rounding", 0.0)  # by which a regression's L and mu err on purpose
    if L is not None and method.L + slack < L * (1.0 - ROUNDING):
        raise ValueError(
            f"the theorem needs L of the method to be at least that of the function, got "
            f"{method.L:.6g} < {L:.6g}"
        )
    if mu is not None and method.mu > mu * (1.0 + ROUNDING) + slack:
        raise ValueError(
            f"the theorem needs mu of the method to be at most that of the function, got "
            f"{method.mu:.6g} > {mu:.6g}"
        )


def check_probability(value: Any, name: str) -> float:
    """A probability strictly between 0 and 1."""
    if not (is_real(value) and 0.0 < value < 1.0):
        raise ValueError(f"{name} must be a probability in (0, 1), got {brief(value)}")
    return float(value)


def check_positive(value: Any, name: str) -> float:
    """A finite number > 0."""
    if not (is_real(value) and 0.0 < as_float(value) < math.inf):
        raise ValueError(f"{name} must be a finite number > 0, got {brief(value)}")
    return float(value)


def check_fits(problem: Problem, x: Array) -> None:
    """Refuse points, one to a row, of another dimension than the problem's."""
    size = math.prod(x.shape[1:])
    if problem.dim is not None and size != problem.dim:
        raise ValueError(f"x has {size} entries, but the problem has dimension {problem.dim}")


def _array(values: ArrayLike, name: str, kinds: str, what: str) -> Array:
    try:
        array = np.asarray(values)
    except ValueError as error:  # ragged
        raise ValueError(f"{name} must be {what}, got {brief(values)}") from error
    if array.dtype.kind not in kinds and array.size:
        raise TypeError(f"{name} must be {what}, got {brief(values)}")
    return array
