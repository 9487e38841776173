"""Exact second moments of the process, for every kind of mark: one equation, one integrator.

`pair` has the equation, `integrate` follows it in time, and each kind of mark says what its events
do: `full_gradient`, `marks` (coordinates and rows) and `edges` (gossip and the dual method).  Two
have equations of their own: `events` (at the k-th event) and `dadao`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.optimisation.dadao.method import DADAO
from continuized.network.optimisation.dual.method import Dual
from continuized.problems.base import Array, Problem
from continuized.process.methods import Method
from continuized.support import validation as check
from continuized.theory.moments.full_gradient import full_gradient_moments
from continuized.theory.moments.pair import Moments

if TYPE_CHECKING:
    from continuized.marked.stepper import Marked
    from continuized.network import Graph, Objective

__all__ = ["Moments", "moments"]

# For fixed times without noise.  The modules are imported when asked for: they bring Numba.
SYSTEMS = {
    Gossip: ("edges", "gossip_moments", "gossip"),
    Dual: ("edges", "dual_moments", "the dual method"),
    DADAO: ("dadao", "dadao_moments", "DADAO"),
}


def moments(
    p: Problem | Graph | tuple[Graph, Objective],
    method: Method | Marked | Gossip | Dual | DADAO,
    x0: ArrayLike,
    times: ArrayLike | None = None,
    k: ArrayLike | None = None,
    sigma2: float = 0.0,
) -> Moments:
    """Exact E f(x_t) and E |z_t - x*|^2 on a Quadratic, at fixed times or at the k-th event.

    The noise is isotropic, of total variance sigma2 (sigma2 / dim to a coordinate), white
    from event to event.

    - `times`, increasing: for Continuized (any start) and CustomContinuized.  All coordinates
      are integrated at once; relative accuracy about 1e-10.
    - `k`, integers: the expectation at the k-th event, E f(x_{T_k}), in which T_k ~ Gamma(k, 1)
      and the state are correlated.  For Continuized with start = inf in closed form (the gap's
      resolvent); for other parameters the density of (T_k, second moments) is carried from
      event to event on a spectral grid in t, relative accuracy about 1e-10, at a cost that
      grows as k^2.  For GradientDescent and Nesterov a recursion, which is all there is.

    The others are for `times` only, without noise.

    - CoordinateDescent, on a Quadratic or on LeastSquares, StochasticLeastSquares and Kaczmarz (see
      `theory.moments.marks`).
    - Gossip, p a network.Graph of at most 400 nodes: `fun` is then E |x_t - mean|^2 (see
      `theory.moments.edges`, as for the next).
    - network.Dual, p a pair (Graph, network.Objective) of least squares and at most 400 dual
      variables, x0 the dual start (0): `fun` is then E mean_i |w_i - x*|^2, w_i the nodes' guesses.
    - network.DADAO, the same pair, of nodes times dimension at most 8, and the start 0: `fun` is
      E mean_i |x_i - x*|^2 (see `theory.moments.dadao`).

    Parameters
    ----------
    p : Quadratic, LeastSquares, Graph, or a pair (Graph, Objective)
    method : a method, marked or not, network.Gossip, network.Dual or network.DADAO
    x0 : array
        The start, z_0 = x_0.
    times, k : numbers
        Exactly one of them.
    sigma2 : float
        The total variance of the noise, E|noise|^2.

    Returns
    -------
    Moments

    Raises
    ------
    TypeError, ValueError
        Where the expectation is not known in closed form, or an argument makes no sense.
    MemoryError
        For more events than fit.

    >>> from continuized import Continuized, problems
    >>> p = problems.paper_strongly_convex()
    >>> m = moments(p, Continuized(p.L, p.mu), [0.0, 0.0, 0.0], [0.0, 10.0])
    >>> m.fun.round(6).tolist()
    [0.52, 0.052367]
    """
    if (times is None) == (k is None):
        raise ValueError("give exactly one of times and k=")
    sigma2 = check.real(sigma2, "sigma2", minimum=0.0)
    system = next((row for kind, row in SYSTEMS.items() if isinstance(method, kind)), None)
    if system is None and hasattr(method, "prepare"):
        system = "marks", "marked_moments", method.name
    if system is None:
        return full_gradient_moments(p, method, x0, times, k, sigma2)  # type: ignore[arg-type]
    module, function, name = system
    t = _fixed_times(name, times, sigma2)
    compute = getattr(import_module(f"{__name__}.{module}"), function)
    found: Moments = compute(p, method, x0, t)
    return found


def _fixed_times(name: str, times: Any, sigma2: float) -> Array:
    if times is None:
        raise ValueError(f"the moments of {name} are for fixed times: give times, not k=")
    if sigma2 > 0.0:
        raise ValueError(f"no noise can be added to the gradients of {name}: sigma2 must be 0")
    return np.atleast_1d(check.times(times, "times", ordered=True))
