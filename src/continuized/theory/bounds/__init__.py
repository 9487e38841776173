"""The front door of the theorems: `bound` for every method, and the weights of Theorem 5.

The right-hand sides are in `theorems` (full gradients), `marked_bounds` (coordinates and rows),
`gossip_bounds`, `dual_bounds` and `dadao_bounds` (networks).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.optimisation.a2cid2.method import A2CiD2
from continuized.network.optimisation.dadao.method import DADAO
from continuized.network.optimisation.dual.method import Dual
from continuized.problems.base import Array, Problem, checked_problem
from continuized.process.methods import Continuized, GradientDescent, Method, Nesterov
from continuized.support import validation as check
from continuized.theory.bounds import (
    dadao as dadao_bounds,
)
from continuized.theory.bounds import (
    dual as dual_bounds,
)
from continuized.theory.bounds import (
    gossip as gossip_bounds,
)
from continuized.theory.bounds.paper import THEOREMS, log_A, log_scale, theorem_of
from continuized.theory.checks import (
    check_constants_hold,
    start_of,
)

if TYPE_CHECKING:
    from continuized.marked.stepper import Marked
    from continuized.network import Graph, Objective

ON_NETWORKS: dict[type, Callable[..., Array]] = {
    Gossip: gossip_bounds.log_bound,
    A2CiD2: gossip_bounds.exchanges_log_bound,
    Dual: dual_bounds.log_bound,
    DADAO: dadao_bounds.log_bound,
}


def bound(
    method: Method | Marked | Gossip | Dual | DADAO | A2CiD2,
    problem: Problem | Graph | tuple[Graph, Objective],
    x0: ArrayLike,
    t: ArrayLike | None = None,
    k: ArrayLike | None = None,
    sigma2: float = 0.0,
) -> Array:
    """The theorem's right-hand side for a method, at times t or at the k-th event.

    Give exactly one of t and k, a number or an array.  f is assumed convex, L-smooth and,
    where the method's mu > 0, mu-strongly convex, with the *method's* L and mu; an L or mu
    that the problem contradicts is refused.  z_0 = x_0, and q = sqrt(mu/L), R = |x_0 - x*|.

    On every path (the method is deterministic), a bound on f(x_k) - f*:

    - GradientDescent, k (Theorem 1): 2L R^2 / (k+4), or, where problem.mu > 0,
      (L/2) (1 - mu/L)^k R^2.
    - Nesterov, k (Theorem 2): 2L R^2 / k^2, or (f_0 - f* + mu/2 R^2) (1 - q)^k.

    In expectation over the Poisson clock, and over unbiased noise of total variance
    E|noise|^2 <= sigma2:

    - Continuized, t (Theorems 3 and 6), a bound on E f(x_t) - f*: phi_0 / A_t plus
      (sigma2/L) int_0^t A_s ds / A_t.  That is 2L R^2 / t^2 + sigma2 t / (3L) when mu = 0,
      start = 0, and (f_0 - f* + mu/2 R^2) e^{-qt} + sigma2 / sqrt(mu L) when start = inf
      (as the theorem states it; its proof has a further factor 1 - e^{-qt} <= 1 on the
      noise).  The other starts are ours, by the same proof.
    - Continuized, k (Theorem 5), a bound on the *weighted* expectation
      E[weight(T_k) (f(x_k) - f*)], where `weight(method, T_k)` is T_k^2 when mu = 0,
      start = 0, and e^{q T_k} when start = inf: 2L R^2, respectively f_0 - f* + mu/2 R^2.
      It bounds no unweighted E f(x_k).  The noise's share (not in the paper, from the same
      proof) is sigma2 k(k+1)(k+2) / (3L), respectively (sigma2/(L q)) ((1-q)^{-k} - 1),
      which is infinite when mu = L.

    No theorem of the paper covers noise for GradientDescent and Nesterov; it is refused.

    In expectation over the clock and its marks, with constants from `method.prepare(problem, x0)`
    (sigma2 must be 0; every line is proved in `theory.marked_bounds`):

    - CoordinateDescent: the bounds of Continuized(S, mu), at t or at k (where the weight is
      `weight(method.prepare(problem, x0).process, T_k)`); with accelerated=False, unweighted
      bounds on E f - f*, at the k-th event (f_0 - f*) (1 - mu min_i p_i/L_i)^k, and where
      mu = 0 (c (f_0 - f*) + 1/2 sum_i L_i/p_i (x_0 - x*)_i^2) / (c + k), c = 1/min_i p_i; at
      time t, e^{-t mu min_i p_i/L_i} and c + t in place of the powers and of c + k.  For blocks,
      i is a block.
    - DualCoordinate on ridge regression: the same for the *dual* objective, E D(a_t) - D*, D to
      be minimised; not for f.  For the logistic loss no theorem is known, and it is refused.
    - StochasticLeastSquares and Kaczmarz: a bound on the *distance*, E |x_t - x*|^2 / 2, not on
      f; x* the solution of Xx = y nearest x_0 (labels with noise are refused).  phi_0 / A_t as
      for Continuized(R2 kappa, mu), with |x - x*|^2 / 2 for f - f* and, for |z_0 - x*|^2, its
      H^{-1} norm; with accelerated=False, (1/2) |x_0 - x*|^2 (1 - mu/R2)^k, and where mu = 0
      (kappa |x_0 - x*|^2 + R2 |x_0 - x*|^2_{H^{-1}}) / (2 kappa + 4k).  For batches, R2 and kappa
      are theirs.

    On a network.Graph in place of a problem, with x0 a row to a node, a bound on
    E |x_t - mean|^2, proved in `theory.gossip_bounds`:

    - Gossip with damping a: (1 + a) |x_0 - mean|^2 e^{-theta t}, theta = a sqrt(mu_g / (2R)), and
      at the k-th event (1 + a) |x_0 - mean|^2 for E[e^{theta T_k} |x_k - mean|^2]; with
      accelerated=False,
      |x_0 - mean|^2 e^{-mu_g t / 2}, and (1 - mu_g / 2)^k in place of the exponential.
    - network.A2CiD2, its exchanges alone: the same with a = 1 and t times their rate.  With its
      gradients, no theorem is known here, and a pair as below is refused.

    On a pair (Graph, network.Objective), with x0 the dual start (0), a bound on
    E mean_i |w_i - x*|^2, w_i the guesses of n nodes, proved in `theory.dual_bounds`:

    - network.Dual: 2/(mu n) (D_0 - D* + |y_0 - y*|^2 / (2L)) e^{-theta t}, D the dual function,
      theta = sqrt(mu_g mu / (2 R L)), and the same without the exponential for
      E[e^{theta T_k} ...] at the k-th event; with accelerated=False, 2/(mu n) (D_0 - D*) e^{-rt},
      r = mu_g mu / (2L), and (1 - r)^k in place of the exponential.
    - network.DADAO, whose start must be 0 (w_i is then x_i), proved in `theory.dadao_bounds`:
      C e^{-rt}, r = sqrt(mu/L) / (8 sqrt 2) and C = (4/mu) (F(0) - F*)
      + 7/(8 mu L) mean_i |grad f_i(x*)|^2 + (3 mu/(16 L)) |x*|^2, every node taking gradients at
      rate 1; and C for E[e^{r T_k} ...] at the k-th event of all, gradients and exchanges.

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
    return np.exp(log_bound(method, problem, x0, t, k, sigma2))


def log_bound(
    method: Method | Marked | Gossip | Dual | DADAO | A2CiD2,
    problem: Problem | Graph | tuple[Graph, Objective],
    x0: ArrayLike,
    t: ArrayLike | None = None,
    k: ArrayLike | None = None,
    sigma2: float = 0.0,
) -> Array:
    """The logarithm of `bound`, where the bound itself overflows or underflows.

    method, problem, x0, t, k, sigma2 and the errors: as for `bound`.

    >>> from continuized import Continuized, problems
    >>> p = problems.Quadratic([1.0, 0.1], [3.0, 4.0])
    >>> bool(log_bound(Continuized(p.L, p.mu), p, [0.0, 0.0], t=1e4) < -3000.0)
    True
    """
    if (t is None) == (k is None):
        raise ValueError("give exactly one of t= and k=")
    sigma2 = check.real(sigma2, "sigma2", minimum=0.0)
    if isinstance(method, tuple(ON_NETWORKS)):
        return theorem_of(method, ON_NETWORKS)(method, problem, x0, t, k, sigma2)
    p, x = checked_problem(problem), start_of(problem, x0)
    if hasattr(method, "prepare"):
        # Imported here, for the marked methods bring Numba with them.
        from continuized.theory.bounds import marked as marked_bounds

        return marked_bounds.log_bound(method, p, x, t, k, sigma2)
    check_constants_hold(method, p)
    return theorem_of(method, THEOREMS)(method, p, x, t, k, sigma2)


def weight(method: Method, t: ArrayLike) -> Array:
    """The weight of Theorem 5 for a method, at times t: E[weight(T_k) (f(x_k) - f*)] <= bound(k=k).

    (t + start)^2 when mu = 0, e^{sqrt(mu/L) t} when start = inf, and
    sinh^2(omega (t + start)) / omega^2 with omega = sqrt(mu/L)/2 for mu > 0 and a finite
    start; always A_t up to a constant.  For GradientDescent and Nesterov, whose bounds hold
    unweighted, it is 1.  Raises ValueError for other methods, and for times < 0.

    >>> from continuized import Continuized
    >>> float(weight(Continuized(1.0), 3.0).round(12))
    9.0
    """
    return np.exp(log_weight(method, t))


def log_weight(method: Method, t: ArrayLike) -> Array:
    """The logarithm of `weight` of a method at times t, where that overflows; the same errors.

    >>> from continuized import Continuized
    >>> float(log_weight(Continuized(1.0, 0.25), 4000.0))
    2000.0
    """
    times = check.times(t, "t")
    if isinstance(method, GradientDescent | Nesterov):
        return np.zeros_like(times)[()]
    return log_A(_continuized(method), times) + log_scale(_continuized(method))


def _continuized(method: Method) -> Continuized:
    if not isinstance(method, Continuized):
        raise ValueError(f"no theorem is known for the method {method.name!r}; use Continuized")
    return method
