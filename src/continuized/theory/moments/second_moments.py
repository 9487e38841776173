"""Exact expectations on quadratics: E f(x_t) and E |z_t - x*|^2 with no sampling.

On f = 1/2 sum lambda_i (x_i - x*_i)^2 every coordinate lives alone.  With u = x_i - x*_i and
w = z_i - x*_i, the second moments m = (E u^2, E uw, E w^2) obey a linear ODE,

    m' = F_t m + (J_t m + n_t) - m,

F_t the flow's, J_t the jump's action on second moments, n_t the noise's share of a jump.  The
sampling-free value is the sharp test of an implementation; the theorems' bounds are slack.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.gossip import Gossip
from continuized.network.optimisation.dadao.method import DADAO
from continuized.network.optimisation.dual.method import Dual
from continuized.problems.base import Array, Problem
from continuized.problems.quadratic import Quadratic
from continuized.process.methods import GradientDescent, Method, Nesterov
from continuized.support.files import check_memory
from continuized.theory.checks import (
    checked_counts,
    checked_problem,
    checked_sigma2,
    checked_times,
    start_of,
)
from continuized.theory.moments.events import at_events
from continuized.theory.moments.integrate import in_chunks, solved
from continuized.theory.moments.pair import (
    Moments,
    Rates,
    apply,
    flow_matrix,
    jump_map,
    jump_noise,
    rates,
)

if TYPE_CHECKING:
    from continuized.marked.stepper import Marked
    from continuized.network import Graph, Objective

RTOL, ATOL = 3e-11, 1e-14
ATOL_FIRST = 3e-12  # in the first chunk, where a calm part of size e^-t is added
FIRST = 1e-6  # where the series takes over from an infinite eta(0); its error is FIRST^2


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

    CoordinateDescent, on a Quadratic or on LeastSquares, StochasticLeastSquares and Kaczmarz are
    for `times` only, without noise; see `theory.marked_moments`.  On networks too:

    - Gossip, p a network.Graph of at most 400 nodes: `fun` is then E |x_t - mean|^2 (see
      `theory.gossip_moments`).
    - network.Dual, p a pair (Graph, network.Objective) of least squares and at most 400 dual
      variables, x0 the dual start (0): `fun` is then E mean_i |w_i - x*|^2, w_i the nodes' guesses
      (see `theory.dual_moments`).
    - network.DADAO, the same pair, of nodes times dimension at most 8, and the start 0: `fun` is
      E mean_i |x_i - x*|^2 (see `theory.dadao_moments`).

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
    if isinstance(method, Gossip):
        from continuized.theory.moments.gossip import gossip_moments

        return gossip_moments(p, method, x0, times, checked_sigma2(sigma2))
    if isinstance(method, Dual):
        from continuized.theory.moments.dual import dual_moments

        return dual_moments(p, method, x0, times, checked_sigma2(sigma2))
    if isinstance(method, DADAO):
        from continuized.theory.moments.dadao import dadao_moments

        return dadao_moments(p, method, x0, times, checked_sigma2(sigma2))
    if hasattr(method, "prepare"):
        # Imported here, for the marked methods bring Numba with them.
        from continuized.theory.moments.marks import marked_moments

        return marked_moments(checked_problem(p), method, x0, times, checked_sigma2(sigma2))
    if not isinstance(p, Quadratic):
        raise TypeError(
            f"moments are exact on a Quadratic only, got {type(p).__name__}; use an ensemble"
        )
    variance = checked_sigma2(sigma2) / max(p.dim, 1)
    u0 = (start_of(p, x0).ravel() - p.x_star) ** 2
    if times is not None:
        t = np.atleast_1d(checked_times(times, "times", ordered=True))
        return _packed(p, t, None, _at_times(rates(method), p.eigenvalues, u0, t, variance))
    assert k is not None
    counts = np.atleast_1d(checked_counts(k))
    check_memory(24.0 * (int(counts.max(initial=0)) + 1) * p.dim, "so many events", "a smaller k")
    if isinstance(method, GradientDescent | Nesterov):
        rows = _recursion(method, p.eigenvalues, u0, int(counts.max(initial=0)), variance)
    else:
        rows = at_events(method, p.eigenvalues, u0, int(counts.max(initial=0)), variance)
    return _packed(p, None, counts, rows[counts])


def _packed(p: Quadratic, t: Array | None, k: Array | None, rows: Array) -> Moments:
    """rows: (number of times, 3, dim)."""
    xx, xz, zz = rows[:, 0], rows[:, 1], rows[:, 2]
    fun = p.f_star + 0.5 * (xx * p.eigenvalues).sum(axis=1)
    return Moments(t, k, fun, zz.sum(axis=1), xx, xz, zz)


def _at_times(rate: Rates, lam: Array, u0: Array, times: Array, variance: float) -> Array:
    """The moments at increasing times, shape (len(times), 3, dim)."""
    return in_chunks(partial(_chunk, rate, lam, variance), np.stack([u0, u0, u0]), 0.0, times)


def _chunk(rate: Rates, lam: Array, variance: float, m: Array, t0: float, stops: Array) -> Array:
    """From the moments m at t0 to those at `stops`.

    u and w are measured in units of each coordinate's own size at t0, for they may differ by
    orders of magnitude, and every moment deserves its relative accuracy.  The first chunk
    integrates the part with at least one event, m - e^{-t} m_0: until the first event x = z
    stands still, whatever eta, so that an infinite eta(0) does no harm.
    """
    unit_u, unit_w = _units(m, t0, variance, rate.gamma(stops[-1]), rate.gamma_prime(stops[-1]))
    units = np.stack([unit_u * unit_u, unit_u * unit_w, unit_w * unit_w])
    still = m / units if t0 == 0.0 else np.zeros(())
    ratio = unit_w / unit_u
    noise = variance / units

    def slope(t: float, n: Array) -> Array:
        return _derivative(rate, lam, ratio, noise, t, n, math.exp(-t) * still)

    start, first = m / units - still, t0
    if t0 == 0.0 and math.isinf(rate.eta(0.0)):
        first = min(FIRST, 0.5 * float(stops[0]))
        source = _derivative(rate, lam, ratio, noise, first, np.zeros_like(m), still)
        # n = t n_1 + O(t^2), where (1 - t F) n_1 = the source at 0 (ratio = 1 here)
        start = first * np.linalg.solve(np.eye(3) - first * flow_matrix(rate, first), source)
    n = solved(slope, start, first, stops, RTOL, ATOL_FIRST if t0 == 0.0 else ATOL)
    moment: Array = (n + np.exp(-stops)[:, None, None] * still) * units
    return moment


def _units(
    m: Array, t0: float, variance: float, gamma: float, gamma_prime: float
) -> tuple[Array, Array]:
    """The sizes of u and w: what they are, or what the noise of one event makes of them."""
    unit_u = np.sqrt(np.maximum(m[0], variance * gamma * gamma))
    unit_w = np.sqrt(np.maximum(m[2], variance * gamma_prime * gamma_prime))
    if t0 == 0.0:
        unit_u = unit_w = np.maximum(unit_u, unit_w)
    return np.where(unit_u > 0.0, unit_u, 1.0), np.where(unit_w > 0.0, unit_w, 1.0)


def _derivative(
    rate: Rates, lam: Array, ratio: Array, noise: Array, t: float, n: Array, calm: Array
) -> Array:
    """F n + J (n + calm) + noise - n: flow, jumps, and the loss at an event.

    Written out, for this is where the time goes: n holds u^2, uw and w^2 in units in which
    w is `ratio` times larger, so that u' = eta (ratio w - u) and w' = eta' (u / ratio - w).
    """
    e, f, step, step_prime = (function(t) for function in rate)
    uu, uw, ww = n + calm
    p = 1.0 - step * lam  # u <- p u and w <- w - c u at a jump
    c = (step_prime * lam) / ratio
    cu = c * uu
    out = np.empty_like(n)
    pull, push = ratio * n[1] - n[0], ratio * n[2] - n[1]
    out[0] = p * p * uu - n[0] + (2.0 * e) * pull + step * step * noise[0]
    out[1] = p * (uw - cu) - n[1] + e * push + step * step_prime * noise[1]
    out[2] = ww - c * (uw + uw - cu) - n[2] + step_prime * step_prime * noise[2]
    if f != 0.0:
        out[1] += f * (n[0] / ratio - n[1])
        out[2] += (2.0 * f) * (n[1] / ratio - n[2])
    return out


def _recursion(method: Method, lam: Array, u0: Array, last: int, variance: float) -> Array:
    """Discrete methods: mix and jump, k = 0, ..., last."""
    m = np.stack([u0, u0, u0])
    rows, carry = [m], method.init(0.0).carry
    for k in range(1, last + 1):
        a, b, step, step_prime, carry = method.coefficients(k, k - 1.0, float(k), 1.0, carry)
        m = apply((1.0 - a, a, b, 1.0 - b), m)
        m = apply(jump_map(step, step_prime, lam), m)
        m = m + (variance * jump_noise(step, step_prime))[:, None]
        rows.append(m)
    return np.stack(rows)
