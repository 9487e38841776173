"""What the theorems need of their arguments, checked once for the whole package."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.optimisation.a2cid2 import A2CiD2
from continuized.network.optimisation.dadao import DADAO
from continuized.network.optimisation.dual import Dual
from continuized.problems.base import (
    Array,
    Problem,
    check_problem,
    check_second_start,
    check_start,
)
from continuized.problems.quadratic import Quadratic
from continuized.process.methods import Continuized, Method, check_method, is_marked
from continuized.process.mirror import MirrorComposite
from continuized.solver.constant_checks import seen_L
from continuized.support import validation as check
from continuized.theory.composite import CompositeProblem, as_composite_problem

if TYPE_CHECKING:
    from continuized.solver.result import Path

ROUNDING = 1e-12  # relative; L of a regression comes from a numerical eigenvalue
NETWORK_NAMES = {Gossip: "gossip", A2CiD2: "A²CiD²", Dual: "the dual method", DADAO: "DADAO"}


def name_of(method: Any) -> str:
    """Return what a method is called in a sentence."""
    kind = type(method)
    return NETWORK_NAMES.get(kind) or str(getattr(method, "name", kind.__name__))


def check_any_method(method: Any) -> None:
    """Raise TypeError for what is no method: of the paper, of marks or of networks."""
    if not (isinstance(method, (Method, *NETWORK_NAMES)) or is_marked(method)):
        check_method(method)


def check_continuized(method: Any, what: str) -> Continuized:
    """Return the method where it is Continuized, for which alone `what` is known."""
    check_any_method(method)
    if not isinstance(method, Continuized):
        raise ValueError(f"{what} is known for Continuized only, got the method {name_of(method)}")
    return method


def start_of(problem: Any, x0: ArrayLike) -> Array:
    """Return x0 as `minimize` would take it, in float64, if its squares are finite too."""
    return _check_squares(check_start(x0, check_problem(problem)).astype(np.float64), "x0")


def _check_squares(x: Array, name: str) -> Array:
    with np.errstate(over="ignore"):
        if not np.isfinite(np.sum(x * x)):
            raise ValueError(f"{name} is too large, its squares overflow: divide x by a number")
    return x


def start_of_z(x0: Array, z0: ArrayLike | None) -> Array:
    """Return z0 as `start_of` returns x0, in the shape of x0; x0 itself where z0 is None."""
    return x0 if z0 is None else _check_squares(check_second_start(z0, x0), "z0")


def with_composite(
    method: Any, problem: Any, x0: ArrayLike, prox: Any, mirror: Any, x_star: Any
) -> tuple[Continuized, CompositeProblem]:
    """Return the method as it is run on f + psi, and f + psi; raise where no theorem covers it."""
    method = check_continuized(method, "a bound with prox= or mirror=")
    x = start_of(problem, x0)
    F = as_composite_problem(problem, x, prox, mirror, x_star)
    method = F.composite.begin(method, x)
    check_L_by_witness(method.L, F, x)
    return method, F


def check_L_by_witness(L: float, F: CompositeProblem, x: Array) -> None:
    """Refuse an L that the gradients at x and at x* contradict, in the norm of the geometry."""
    assert F.x_star is not None
    (g, g_star), squares = F.grads(np.array([x, F.x_star])), F.composite.squares
    g2, y2, dg2, dgdy, dy2 = squares(g, x, g - g_star, x - F.x_star)
    g2_star, y2_star, *_ = squares(g_star, F.x_star, g_star, F.x_star)
    largest = max(g2, g2_star), max(y2, y2_star)
    seen = seen_L(dg2, dgdy, dy2, L, float(np.finfo(x.dtype).eps), *largest)
    if seen > 0.0:
        raise ValueError(
            f"the theorem needs L of the method to be at least that of the function, got {L:.6g}, "
            f"but two gradients show that it is at least {seen:.6g}"
        )


def known_L(problem: Problem) -> float:
    """Return L; raise ValueError where it is not known."""
    L = check_problem(problem).L
    if L is None:
        raise ValueError("the smoothness constant is not known: give L= to the problem")
    return float(L)


def minimiser(problem: Problem) -> Array:
    """Return x*; raise ValueError where it is not known."""
    if problem.x_star is None:
        raise _explain_unknown(problem, "minimiser", "|z_0 - x*|")
    return problem.x_star


def minimum(problem: Problem) -> float:
    """Return f*; raise ValueError where it is not known."""
    if problem.f_star is None:
        raise _explain_unknown(problem, "minimum", "f - f*")
    return float(problem.f_star)


def _explain_unknown(problem: Problem, what: str, subject: str) -> ValueError:
    return ValueError(
        f"the {what} of this {type(problem).__name__} is not known, and the theorem is about "
        f"{subject}: set its x_star and f_star, or give cz.theory.with_minimiser(problem, x0), "
        "which finds them"
    )


def squared_distance(problem: Problem, x0: Array) -> float:
    """Return |x_0 - x*|^2 (and z_0 = x_0), or twice the divergence in another geometry."""
    if isinstance(problem, CompositeProblem):
        return float(problem.distances(x0[np.newaxis])[0])
    difference = x0.ravel() - minimiser(problem).ravel()
    return float(difference @ difference)


def excess(problem: Problem, x0: Array) -> float:
    """Return f(x_0) - f*; a rounding error below zero is zero."""
    return max(float(problem.fun(x0)) - minimum(problem), 0.0)


def check_counts(k: ArrayLike) -> Array:
    """Return numbers of events, integers >= 0, as an array."""
    return check.array(k, "k", dtype=np.int64, minimum=0, noun="integers >= 0")


def check_constants_hold(method: Any, problem: Problem) -> None:
    """Refuse a theorem whose L or mu is known not to hold for the function."""
    check_method(method)
    if isinstance(problem, CompositeProblem):
        if isinstance(problem.composite, MirrorComposite):
            return  # L is in another norm
        problem = problem.smooth
    L, mu = problem.L, problem.mu
    if isinstance(problem, Quadratic) and problem.dim:
        mu = float(problem.eigenvalues.min())  # problem.mu may have been set smaller
    slack = getattr(problem, "rounding", 0.0)  # by which a regression's L and mu err on purpose
    if not method.assumes_convexity and method.tau > problem.tau * (1.0 + ROUNDING):
        raise ValueError(
            f"the theorem needs tau of the method to be at most that of the function, got "
            f"{method.tau:.6g} > {problem.tau:.6g}"
        )
    if method.assumes_convexity and problem.tau < 1.0:
        raise ValueError(
            f"the function is not known to be convex, but {problem.tau:.6g}-quasar-convex: use "
            f"cz.Continuized(L, mu, tau={problem.tau:.6g})"
        )
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


def check_path(r: Any) -> Path:
    """Return the recorded path of a result of `minimize`; raise where there is none."""
    from continuized.solver.result import Result

    check.instance(r, "r", Result, 'a result of minimize(..., record="path")')
    path: Path | None = r.get("path")
    if path is None:
        raise ValueError('the path was not recorded; call minimize with record="path"')
    return path


def check_fits(problem: Problem, x: Array) -> None:
    """Refuse points, one to a row, of another dimension than the problem's."""
    size = math.prod(x.shape[1:])
    if check_problem(problem).dim is not None and size != problem.dim:
        raise ValueError(f"x has {size} entries, but the problem has dimension {problem.dim}")
