"""Exact second moments of the process, for every kind of mark: one equation, one integrator.

`pair` has the equation, `integrate` follows it in time, and each kind of mark says what its events
do: here full gradients, `marks` (coordinates and rows) and `edges` (gossip and the dual method).
Three have equations of their own: `affine` (f + psi), `events` (at the k-th event) and `dadao`.

With full gradients of f = 1/2 sum lambda_i (x_i - x*_i)^2 every coordinate lives alone, and G is
the diagonal of the lambda_i.  The sampling-free value is the sharp test of an implementation; the
theorems' bounds are slack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.optimisation.dadao import DADAO
from continuized.network.optimisation.dual import Dual
from continuized.problems.base import Array, Problem
from continuized.problems.quadratic import Quadratic
from continuized.process.methods import Method, is_marked
from continuized.support import validation as check
from continuized.support.files import check_memory
from continuized.support.progress import Bar, bar
from continuized.theory.checks import check_counts, name_of, start_of, start_of_z
from continuized.theory.moments.affine import affine_moments
from continuized.theory.moments.dadao import dadao_moments
from continuized.theory.moments.edges import dual_moments, gossip_moments
from continuized.theory.moments.events import moments_at_events
from continuized.theory.moments.integrate import PERCENT, integrate_moments
from continuized.theory.moments.pair import Marks, Moments, rates_of

if TYPE_CHECKING:
    from continuized.marked.stepper import Marked
    from continuized.network import Graph, Objective

__all__ = ["Moments", "moments"]

# For fixed times without noise.
SYSTEMS: dict[type, Callable[..., Moments]] = {
    Gossip: gossip_moments,
    Dual: dual_moments,
    DADAO: dadao_moments,
}


def moments(
    p: Problem | Graph | tuple[Graph, Objective],
    method: Method | Marked | Gossip | Dual | DADAO,
    x0: ArrayLike,
    times: ArrayLike | None = None,
    k: ArrayLike | None = None,
    sigma2: float = 0.0,
    *,
    z0: ArrayLike | None = None,
    prox: Any = None,
    progress: bool = False,
) -> Moments:
    """Exact E f(x_t) and E |z_t - x*|^2 on a Quadratic, at fixed times or at the k-th event.

    The noise is isotropic, of total variance sigma2 (sigma2 / dim to a coordinate), white
    from event to event.

    - `times`, increasing: for Continuized (any start), SharpContinuized and CustomContinuized.
      All coordinates are integrated at once; relative accuracy about 1e-10.
    - `k`, integers: the expectation at the k-th event, E f(x_{T_k}), in which T_k ~ Gamma(k, 1)
      and the state are correlated.  For Continuized with start = inf, and SharpContinuized, in
      closed form (the gap's resolvent); for other parameters the density of (T_k, second moments)
      is carried from event to event on a spectral grid in t, relative accuracy about 1e-10, at a
      cost that grows as k^2.  For GradientDescent and Nesterov a recursion, which is all there is.

    With prox=, for Continuized and `times` only and without noise, `fun` is E F(x_t), F = f + psi,
    and x* its minimiser.  The proximal step must be an affine map: `cz.prox.Hyperplane` (100
    variables at most), or `cz.prox.Separable(l2=...)` (see `theory.moments.affine`).

    The others are for `times` only, without noise.

    - CoordinateDescent, on a Quadratic or on LeastSquares, StochasticLeastSquares and Kaczmarz (see
      `theory.moments.marks`).
    - Gossip, p a network.Graph of at most 400 nodes: `fun` is then E |x_t - mean|^2 (see
      `theory.moments.edges`, as for the next).
    - network.Dual, p a pair (Graph, network.Objective) of least squares and at most 400 dual
      variables, x0 the dual start (0): `fun` is then E mean_i |w_i - x*|^2, w_i a node's estimate.
    - network.DADAO, the same pair, of nodes times dimension at most 8, and the start 0: `fun` is
      E mean_i |x_i - x*|^2 (see `theory.moments.dadao`).

    Parameters
    ----------
    p : Quadratic, LeastSquares, Graph, or a pair (Graph, Objective)
    method : a method, marked or not, network.Gossip, network.Dual or network.DADAO
    x0 : array
        The start.
    z0 : array
        The start of z, by default x0; with full gradients only.
    times, k : numbers
        Exactly one of them.
    sigma2 : float
        The total variance of the noise, E|noise|^2.
    prox : an object such as `cz.prox.Hyperplane([1.0, 1.0], 1.0)`
        Of psi, as for `minimize`.
    progress : bool
        Show a progress bar on standard error.

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
    t = None if times is None else np.atleast_1d(check.times(times, "times", ordered=True))
    system = next((system for kind, system in SYSTEMS.items() if isinstance(method, kind)), None)
    if system is None and is_marked(method):
        # Imported here, for the marked methods bring Numba with them.
        from continuized.theory.moments.marks import marked_moments as system
    name = name_of(method)
    if system is not None and z0 is not None:
        raise ValueError(f"z0= is for methods with full gradients, not for {name}: drop it")
    if system is not None and t is None:
        raise ValueError(f"the moments of {name} are for fixed times: give times, not k=")
    if system is not None and sigma2 > 0.0:
        raise ValueError(f"no noise can be added to the gradients of {name}: sigma2 must be 0")
    if prox is not None and z0 is not None:
        raise ValueError("z0= goes without prox=: its theorem needs z_0 = x_0; drop z0=")
    if prox is not None and (system is not None or t is None or sigma2 > 0.0):
        raise ValueError(
            f"moments with prox= are for Continuized, fixed times and sigma2=0, got {name}, "
            f"{'k=' if t is None else 'times'} and sigma2={sigma2:.6g}"
        )
    with bar("moments", PERCENT, progress, unit="%") as show:
        if prox is not None and t is not None:
            return affine_moments(_check_quadratic(p), method, x0, t, prox, show)
        if system is None:
            return _full_gradient_moments(p, method, (x0, z0), t, k, sigma2, show)
        return system(p, method, x0, t, show)


def _check_quadratic(p: Any) -> Quadratic:
    if not isinstance(p, Quadratic):
        raise TypeError(
            f"moments are exact on a Quadratic only, got {type(p).__name__}; use an ensemble"
        )
    return p


def _full_gradient_moments(
    p: Any, method: Any, starts: tuple[ArrayLike, ArrayLike | None], t: Array | None,
    k: ArrayLike | None, sigma2: float, show: Bar,
) -> Moments:  # fmt: skip
    """The moments of the methods of the paper, at fixed times or at events."""
    p = _check_quadratic(p)
    lam, variance = p.eigenvalues, sigma2 / max(p.dim, 1)
    x = start_of(p, starts[0])
    u, w = (v.ravel() - p.x_star for v in (x, start_of_z(x, starts[1])))
    start = np.stack([u * u, u * w, w * w])
    if t is not None:
        one = np.ones_like(lam)
        marks = Marks.diagonal(lam, lam * lam, one, one, variance)
        rates = rates_of(method, "give k=, not times")
        found = list(integrate_moments(rates, marks, start, t, show=show))
        return Moments.on_quadratic(p, t, None, np.array(found).reshape(len(t), 3, p.dim))
    assert k is not None
    counts = np.atleast_1d(check_counts(k))
    if counts.ndim > 1:
        raise ValueError(f"k must be an integer or a vector of some, got shape {counts.shape}")
    last = int(counts.max(initial=0))
    check_memory(24.0 * (last + 1) * p.dim, "so many events", "a smaller k")
    rows = moments_at_events(method, lam, start, last, variance, show)[counts]
    return Moments.on_quadratic(p, None, counts, rows)
