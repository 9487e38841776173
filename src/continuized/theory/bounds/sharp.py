"""Theorems A and B: larger exponents than the paper's for mu > 0, and bounds of whole paths.

The proofs are in docs/proofs/sharp.md.  Both have one Lyapunov function,

    V = f(x) - f* - (nu mu / 2) |x - x*|^2 + nu mu |w - x*|^2,

with w = x/4 + 3z/4 (A, the paper's parameters) or w = z (B), of which E V_t e^{rho t} never grows.
Their numbers are in `theory.proofs`: what is left is a quadratic form that must not be positive.

V >= (1 - nu) (f - f*), so that V e^{rho t} / (1 - nu), as phi_t / A_t, bounds f(x_t) - f* along a
whole path, by Ville's inequality for supermartingales that are not negative.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem, check_problem
from continuized.process import parameters
from continuized.process.methods import Continuized, Method, SharpContinuized
from continuized.support import validation as check
from continuized.support.display import shown
from continuized.theory.bounds.paper import (
    Query,
    continuized_bound,
    log_decay,
    log_of,
    make_query,
    theorem_of,
)
from continuized.theory.checks import (
    ROUNDING,
    check_constants_hold,
    excess,
    squared_distance,
    start_of,
)
from continuized.theory.proofs import Proof, theorem_A, theorem_B

LEAST_A, LEAST_B = 7.04, 6.5  # of L / mu
CONSTANT = 3.0  # of both theorems, at a time


def log_harmonic_mean(a: float, b: float) -> float:
    """Return the log of 2 / (e^-a + e^-b)."""
    return math.log(2.0) + min(a, b) - math.log1p(math.exp(-abs(a - b)))


@shown
class SharpBound(NamedTuple):
    """A bound, the theorem that gives it, and its exponent, each in the shape of t or k.

    rate: the bound falls as e^{-rate t}, or at the k-th event has the weight e^{rate T_k}; NaN
    where the theorem is the paper's and start is finite: then `cz.theory.weight` is the weight.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> found = cz.theory.sharp_bound(cz.Continuized(p.L, p.mu), p, [0.0, 0.0, 0.0], t=[1.0, 90.0])
    >>> found.theorem.tolist()
    ['Theorem 3', 'Theorem A']
    """

    bound: Array
    theorem: Array
    rate: Array


class _Decay(NamedTuple):
    """A theorem of V: E V e^{rho t} never grows; V_0 for x_0 = z_0."""

    name: str
    rho: float
    nu: float
    V_0: float
    phi_0: float

    @property
    def log_of_path(self) -> float:
        """Log of V_0 / (1 - nu)."""
        return log_of(self.V_0) - math.log1p(-self.nu)

    def log_bound(self, query: Query) -> Array:
        """Log of the bound on E f(x_t) - f*, or on E[e^{rho T_k} (f(x_k) - f*)]."""
        if query.t is not None:
            return log_decay(math.log(CONSTANT) + log_of(self.phi_0), self.rho, query)
        return log_decay(self.log_of_path, self.rho, query, weighted=True)


def sharp_bound(
    method: Continuized | SharpContinuized,
    problem: Problem,
    x0: ArrayLike,
    t: ArrayLike | None = None,
    k: ArrayLike | None = None,
) -> SharpBound:
    """The least bound that is proved here for a method, and the theorem that it is from.

    With q = sqrt(mu/L), phi_0 = f_0 - f* + mu/2 |x_0 - x*|^2 and x_0 = z_0, a bound on
    E f(x_t) - f*:

    - `Continuized` with start = inf and L/mu >= 7.04 (Theorem A, new here): the lesser of
      3 phi_0 e^{-4/3 qt} and Theorem 3's phi_0 e^{-qt}; they cross at qt = 3 log 3.
    - `SharpContinuized` with L/mu >= 6.5 (Theorem B, new here): 3 phi_0 e^{-sqrt(2) qt}.
    - any other `Continuized`: that of `cz.theory.bound`.

    At the k-th event, E[e^{rate T_k} (f(x_k) - f*)] is bounded, by V_0 / (1 - nu), where
    V_0 = f_0 - f* + nu mu/2 |x_0 - x*|^2 and 1/(1 - nu) is at most 9 in A, and 1 + 3/(2 sqrt(2) q)
    in B.  No noise: no theorem covers it.

    Parameters
    ----------
    method : Continuized or SharpContinuized
    problem : Problem
        x* and f* must be known.
    x0 : array
        The start of x and of z: the constants are for z_0 = x_0.
    t, k : number or array
        Exactly one of them: times, or numbers of events.

    Returns
    -------
    SharpBound

    Raises
    ------
    TypeError, ValueError
        Where no theorem is known, its assumptions do not hold, or an argument makes no sense.

    >>> import continuized as cz
    >>> p = cz.problems.paper_strongly_convex()
    >>> found = sharp_bound(cz.SharpContinuized(p.L, p.mu), p, [0.0, 0.0, 0.0], t=100.0)
    >>> str(found.theorem), bool(found.bound < 1e-5)
    ('Theorem B', True)
    """
    query = make_query(t, k)
    own, paper = _theorems(method, problem, x0, query)
    rate = math.nan
    if isinstance(method, Continuized) and method.start == math.inf:
        rate = method.tau * 2.0 * parameters.omega(method.L, method.mu)
    name = "Theorem 3" if k is None else "Theorem 5"
    if own is None:
        log, names, rates = paper, np.full(np.shape(paper), name), np.full(np.shape(paper), rate)
    else:
        # At events the two have different weights, and only one can be told.
        sharp = own.log_bound(query)
        less = sharp < paper if k is None else np.full(np.shape(paper), True)
        log, names = np.where(less, sharp, paper), np.where(less, own.name, name)
        rates = np.where(less, own.rho, rate)
    return SharpBound(np.exp(log)[()], names[()], rates[()])


def _theorems(
    method: Any, problem: Any, x0: ArrayLike, query: Query
) -> tuple[_Decay | None, Array]:
    """Theorem A or B where it holds, and the log of the paper's bound, infinite where there is
    none."""
    if not isinstance(method, Continuized | SharpContinuized):
        theorem_of(method, {})  # which raises
    p, x = check_problem(problem), start_of(problem, x0)
    check_constants_hold(method, p)
    R2 = squared_distance(p, x)
    if isinstance(method, SharpContinuized):
        asked: Any = query.t if query.k is None else query.k
        return decay_B(method, R2, excess(p, x)), np.full(asked.shape, math.inf)
    paper = continuized_bound(method, R2, lambda: excess(p, x), query)
    if not has_theorem_A(method):
        return None, paper
    proof = theorem_A(2.0 * parameters.omega(method.L, method.mu))
    return _make_decay("Theorem A", proof, method, R2, excess(p, x)), paper


def has_theorem_A(method: Continuized) -> bool:
    """Tell whether Theorem A covers these parameters."""
    is_paper = method.mu > 0.0 and method.start == math.inf and method.tau == 1.0
    return is_paper and _is_at_least(method, LEAST_A)


def decay_B(method: SharpContinuized, R2: float, f: float) -> _Decay:
    """Theorem B, with |x_0 - x*|^2 and f_0 - f*; ValueError where L/mu is too small for it."""
    if not _is_at_least(method, LEAST_B):
        raise ValueError(
            f"Theorem B needs L/mu >= {LEAST_B}, got {method.L / method.mu:.6g}; use cz.Continuized"
        )
    proof = theorem_B(parameters.sharp_eta(method.L, method.mu))
    return _make_decay("Theorem B", proof, method, R2, f)


def _is_at_least(method: Method, ratio: float) -> bool:
    return ratio * method.mu * (1.0 - ROUNDING) <= method.L


def _make_decay(name: str, proof: Proof, method: Method, R2: float, f: float) -> _Decay:
    mu, rho, nu = method.mu, float(proof.rate), float(proof.nu)
    return _Decay(name, rho, nu, f + 0.5 * nu * mu * R2, f + 0.5 * mu * R2)


def sharp_log_bound(method: SharpContinuized, problem: Problem, x: Array, query: Query) -> Array:
    """The log of Theorem B's bound, weighted at events, as `cz.theory.bound` takes it."""
    return decay_B(method, squared_distance(problem, x), excess(problem, x)).log_bound(query)


def path_bound(
    method: Continuized | SharpContinuized,
    problem: Problem,
    x0: ArrayLike,
    t: ArrayLike,
    delta: float,
) -> Array:
    """A curve that a single run stays below for ever, with probability at least 1 - delta.

    P(there is a t with f(x_t) - f* > path_bound(t)) <= delta, by Ville's inequality for a
    supermartingale that is not negative and begins as 1 (new here): phi_t / phi_0, which gives
    phi_0 / (delta A_t); for `SharpContinuized` V_t e^{rho t} / V_0, which gives
    V_0 e^{-rho t} / ((1 - nu) delta); and where Theorem A holds the mean of both, which gives the
    harmonic mean of the two curves, at most twice the lesser.  (The lesser itself is known to hold
    with probability 1 - 2 delta only.)

    For exact gradients, x_0 = z_0.  method, problem, x0, t and the errors: as for `sharp_bound`;
    ValueError, too, for a delta that is not in (0, 1).  Returns an array in the shape of t.

    >>> import continuized as cz
    >>> p = cz.problems.paper_convex()
    >>> method, x0 = cz.Continuized(p.L), np.zeros(100)
    >>> ratio = path_bound(method, p, x0, 10.0, 0.1) / cz.theory.bound(method, p, x0, t=10.0)
    >>> round(float(ratio), 9)
    10.0
    """
    delta = check.real(delta, "delta", above=0.0, below=1.0, noun="a probability")
    query = Query(check.times(t, "t"), None)
    own, paper = _theorems(method, problem, x0, query)
    curve = paper
    if own is not None:
        curve = log_decay(own.log_of_path, own.rho, query)
        if isinstance(method, Continuized) and own.V_0 > 0.0:
            curve = np.vectorize(log_harmonic_mean, otypes=[float])(curve, paper)
    return np.asarray(np.exp(curve - math.log(delta)))[()]
