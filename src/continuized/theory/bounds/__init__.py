"""The front door of the theorems: `bound` for every method, and the weights of Theorem 5.

The right-hand sides are in `paper` and `sharp` (full gradients), `marked` (coordinates and rows)
and `network`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.optimisation.a2cid2 import A2CiD2
from continuized.network.optimisation.dadao import DADAO
from continuized.network.optimisation.dual import Dual
from continuized.problems.base import Array, Problem, check_problem
from continuized.process import parameters
from continuized.process.methods import Continuized, Method, Nesterov, SharpContinuized, is_marked
from continuized.support import validation as check
from continuized.theory.bounds import network, paper
from continuized.theory.bounds.paper import log_A, log_scale, make_query, theorem_of
from continuized.theory.bounds.sharp import sharp_log_bound
from continuized.theory.checks import (
    check_constants_hold,
    name_of,
    start_of,
    start_of_z,
    with_composite,
)

if TYPE_CHECKING:
    from continuized.marked.stepper import Marked
    from continuized.network import Graph, Objective

THEOREMS: dict[type, Callable[..., Array]] = paper.THEOREMS | {SharpContinuized: sharp_log_bound}
ON_NETWORKS: dict[type, Callable[..., Array]] = {
    Gossip: network.gossip_log_bound,
    A2CiD2: network.exchanges_log_bound,
    Dual: network.dual_log_bound,
    DADAO: network.dadao_log_bound,
}


def bound(
    method: Method | Marked | Gossip | Dual | DADAO | A2CiD2,
    problem: Problem | Graph | tuple[Graph, Objective],
    x0: ArrayLike,
    t: ArrayLike | None = None,
    k: ArrayLike | None = None,
    sigma2: float = 0.0,
    *,
    z0: ArrayLike | None = None,
    prox: Any = None,
    mirror: Any = None,
    x_star: ArrayLike | None = None,
) -> Array:
    """The theorem's right-hand side for a method, at times t or at the k-th event.

    Give exactly one of t and k, a number or an array.  f is assumed convex, L-smooth and,
    where the method's mu > 0, mu-strongly convex, with the *method's* L and mu; an L or mu
    that the problem contradicts is refused.  What is bounded (the page "Theorems, functions,
    tests" has each formula):

    - GradientDescent and Nesterov, k (Theorems 1 and 2): f(x_k) - f*, on every path.
    - Continuized, t (Theorems 3 and 6): E f(x_t) - f*, with noise E|noise|^2 <= sigma2.
    - Continuized, k (Theorem 5): the *weighted* E[weight(T_k) (f(x_k) - f*)], with `weight`.  It
      bounds no unweighted E f(x_k).  With tau < 1, f need only be (tau, mu)-quasar-convex.
    - SharpContinuized, t and k (Theorem B; see `sharp_bound`): the same, with its own weight.
    - CoordinateDescent: the same as for Continuized, and unweighted with accelerated=False.  With
      prox, for F = f + prox, whose minimiser is computed.
    - DualCoordinate on ridge regression, and on logistic regression with heuristics=False: the same
      for the *dual* objective, not for f.
    - StochasticLeastSquares and Kaczmarz: the *distance* E |x - x*|^2 / 2, not f; labels with
      noise are refused.
    - network.Gossip, and the exchanges of network.A2CiD2, on a Graph: E |x - mean|^2, with the
      weight e^{theta T_k} at the k-th event where accelerated.
    - network.Dual and network.DADAO on a pair (Graph, network.Objective): E mean_i |w_i - x*|^2,
      w_i the estimates of the nodes, with such a weight too.  The start of DADAO must be 0.

    With prox=, for Continuized only, f + psi stands in place of f throughout, and the bounds are
    the same (docs/proofs/composite.md); x0 must be in the domain of psi, and the start as
    `minimize` takes it.  Noise is refused but for Continuized: no theorem covers it.

    Parameters
    ----------
    method : a method, marked or not, or network.Gossip, A2CiD2, Dual or DADAO
    problem : Problem; for the last four, a Graph or a pair (Graph, Objective), as above
        x* and f* must be known: given to a Problem, computed by a regression of moderate size (the
        logistic one where l2 > 0), or set as problem.x_star and problem.f_star.
    x0 : array
        The start.
    t, k : number or array
        Exactly one of them: times, or numbers of events.
    sigma2 : float
        The total variance of the noise, E|noise|^2.
    z0 : array
        The start of z, by default x0; for Continuized and Nesterov, without prox and mirror.
    prox : an object such as `cz.prox.L1(0.1)`
        Of psi, as for `minimize`.
    mirror : an object such as `cz.mirror.Entropy()`
        The geometry, as for `minimize`: twice its divergence stands for |z_0 - x*|^2, and L is that
        in its norm.
    x_star : array
        With either, the minimiser of f + psi; by default it is computed, to about 1e-10.

    Returns
    -------
    array
        In the shape of t or k.

    Raises
    ------
    TypeError, ValueError
        Where no theorem is known, its assumptions do not hold, or an argument makes no sense.

    >>> from continuized import Continuized, problems
    >>> p = problems.Quadratic([1.0, 0.1], [3.0, 4.0], mu=0.0)
    >>> float(bound(Continuized(p.L), p, [0.0, 0.0], t=10.0).round(12))
    0.5
    """
    given: Any = {"z0": z0, "prox": prox, "mirror": mirror, "x_star": x_star}
    return np.exp(log_bound(method, problem, x0, t, k, sigma2, **given))


def log_bound(
    method: Method | Marked | Gossip | Dual | DADAO | A2CiD2,
    problem: Problem | Graph | tuple[Graph, Objective],
    x0: ArrayLike,
    t: ArrayLike | None = None,
    k: ArrayLike | None = None,
    sigma2: float = 0.0,
    *,
    z0: ArrayLike | None = None,
    prox: Any = None,
    mirror: Any = None,
    x_star: ArrayLike | None = None,
) -> Array:
    """The logarithm of `bound`, where the bound itself overflows or underflows.

    method, problem, x0, t, k, sigma2, z0, prox, mirror, x_star and the errors: as for `bound`.

    >>> from continuized import Continuized, problems
    >>> p = problems.Quadratic([1.0, 0.1], [3.0, 4.0])
    >>> bool(log_bound(Continuized(p.L, p.mu), p, [0.0, 0.0], t=1e4) < -3000.0)
    True
    """
    query = make_query(t, k, sigma2)
    if query.sigma2 > 0.0 and not isinstance(method, Continuized):
        name = name_of(method)
        raise ValueError(f"no theorem covers noise for {name}; use Continuized, or sigma2=0")
    is_composite = prox is not None or mirror is not None
    if x_star is not None and not is_composite:
        raise ValueError("x_star= goes with prox= or mirror=; set problem.x_star, or drop it")
    if z0 is not None and is_composite:
        raise ValueError("z0= goes without prox= and mirror=, which need z_0 = x_0: drop z0=")
    if z0 is not None and not isinstance(method, Continuized | Nesterov):
        raise ValueError(f"no theorem covers z_0 apart from x_0 for {name_of(method)}: drop z0=")
    if mirror is not None and query.sigma2 > 0.0:
        raise ValueError("no theorem here covers noise with mirror=; use sigma2=0")
    if is_composite:
        method, problem = with_composite(method, problem, x0, prox, mirror, x_star)
    if isinstance(method, tuple(ON_NETWORKS)):
        return theorem_of(method, ON_NETWORKS)(method, problem, x0, query)
    p, x = check_problem(problem), start_of(problem, x0)
    if is_marked(method):
        # Imported here, for the marked methods bring Numba with them.
        from continuized.theory.bounds import marked

        return marked.log_bound(method, p, x, query)
    check_constants_hold(method, p)
    query = query._replace(z0=start_of_z(x, z0))
    return theorem_of(method, THEOREMS)(method, p, x, query)


def weight(method: Method, t: ArrayLike) -> Array:
    """The weight of Theorem 5 for a method, at times t: E[weight(T_k) (f(x_k) - f*)] <= bound(k=k).

    (t + start)^2 when mu = 0, e^{sqrt(mu/L) t} when start = inf, and
    sinh^2(omega (t + start)) / omega^2 with omega = sqrt(mu/L)/2 for mu > 0 and a finite
    start; always A_t up to a constant.  With tau < 1, tau (t + start) and tau sqrt(mu/L) stand in
    their places.  e^{sqrt(2 mu/L) t} for SharpContinuized.  For GradientDescent and Nesterov, whose
    bounds hold unweighted, it is 1.  Raises ValueError for other methods, and for times < 0.

    >>> from continuized import Continuized
    >>> float(weight(Continuized(1.0), 3.0).round(12))
    9.0
    """
    with np.errstate(over="ignore"):  # infinite where it is too large; `log_weight` is not
        return np.exp(log_weight(method, t))


def log_weight(method: Method, t: ArrayLike) -> Array:
    """The logarithm of `weight` of a method at times t, where that overflows; the same errors.

    >>> from continuized import Continuized
    >>> float(log_weight(Continuized(1.0, 0.25), 4000.0))
    2000.0
    """
    times = check.times(t, "t")
    theorem_of(method, THEOREMS)  # raises where there is none
    if isinstance(method, SharpContinuized):
        return parameters.sharp_eta(method.L, method.mu) * times[()]
    if not isinstance(method, Continuized):
        return np.zeros_like(times)[()]
    return log_A(method, times) + log_scale(method)
