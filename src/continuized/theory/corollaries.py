"""Corollaries: event times, the number of gradients, and the time to an accuracy.

T_k, the time of the k-th event, is Gamma(k, 1); N_t, the number of events (of gradients) up to
time t, is Poisson(t).
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.process.methods import Method
from continuized.support import validation as check
from continuized.theory.bounds import log_bound
from continuized.theory.checks import check_continuized, check_counts

LATEST_OF_SCIPY = 1e10  # beyond, SciPy's quantile of Poisson(t) may be NaN
MOST_COUNTED = 2**53  # the integers up to here are floats


def _broadcast(values: Array, name: str, q: ArrayLike) -> tuple[Array, Array]:
    """Return the values, of this name, and the levels q in one shape."""
    what = "probabilities in (0, 1)"
    levels = check.array(q, "q", dtype=np.float64, noun=what)
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise check.refusal(ValueError, "q", what, q)
    try:
        values, levels = np.broadcast_arrays(values, levels)
    except ValueError as error:
        raise ValueError(
            f"{name} and q must be numbers, or arrays that go together, got shapes {values.shape} "
            f"and {levels.shape}"
        ) from error
    return values, levels


def event_time_quantile(k: ArrayLike, q: ArrayLike) -> Array:
    """The q-quantile of T_k, the time of the k-th event: Gamma(k, 1).  T_0 = 0.

    k and q: numbers or arrays.  Raises TypeError unless k is an integer, ValueError unless k >= 0
    and 0 < q < 1.

    >>> round(float(event_time_quantile(1, 0.5)), 6)  # log 2
    0.693147
    """
    from scipy.special import gammaincinv

    counts, levels = _broadcast(check_counts(k), "k", q)
    return np.where(counts > 0, gammaincinv(np.maximum(counts, 1), levels), 0.0)[()]


def event_count_quantile(t: ArrayLike, q: ArrayLike) -> Array:
    """The q-quantile of N_t, the number of gradients up to time t: Poisson(t).

    t and q: numbers or arrays.  Beyond t = 1e10 it is the expansion of Cornish and Fisher, whose
    error is far below 1 there.  Integers where they are exact, which floats are up to 2^53; floats
    beyond.  Raises ValueError unless t >= 0 and 0 < q < 1.

    >>> float(event_count_quantile(100.0, 0.5))
    100.0
    """
    from scipy.special import ndtri
    from scipy.stats import poisson

    times, levels = _broadcast(check.times(t, "t"), "t", q)
    z = ndtri(levels)
    far = np.maximum(times + np.sqrt(times) * z + (z * z - 4.0) / 6.0, 0.0)
    near = poisson.ppf(levels, np.minimum(times, LATEST_OF_SCIPY))
    counts = np.where(times > LATEST_OF_SCIPY, np.ceil(far), near)
    found: Array = counts.astype(np.int64) if np.all(counts <= MOST_COUNTED) else counts
    return found[()]


def expected_gradients(t: ArrayLike) -> Array:
    """E N_t = t: the expected number of gradients up to time t; ValueError for t < 0.

    >>> float(expected_gradients(100.0))
    100.0
    """
    return check.times(t, "t")[()]


def time_to(method: Method, p: Problem, x0: ArrayLike, eps: float, delta: float = 0.05) -> float:
    """A time t at which f(x_t) - f* <= eps with probability at least 1 - delta.

    From Markov's inequality, P(f(x_t) - f* > eps) <= bound(t) / eps: the smallest t with
    bound(t) <= eps delta (Theorem 3, noiseless).  The expected number of gradients up to then
    is t itself, their number at most `event_count_quantile(t, q)` with probability q.

    Parameters
    ----------
    method : Continuized
    p : Problem
        x* and f* must be known.
    x0 : array
        The start.
    eps : float > 0
    delta : float in (0, 1)

    Raises
    ------
    ValueError
        For other methods, and for numbers that are none of these.

    >>> import continuized as cz, numpy as np
    >>> p = cz.problems.paper_strongly_convex()
    >>> method, x0 = cz.Continuized(p.L, p.mu), np.zeros(3)
    >>> t = time_to(method, p, x0, eps=1e-3)
    >>> bool(cz.theory.bound(method, p, x0, t=t) <= 1.001 * 1e-3 * 0.05)
    True
    """
    from scipy.optimize import brentq

    check_continuized(method, "time_to")
    eps = check.real(eps, "eps", above=0.0)
    delta = check.real(delta, "delta", above=0.0, below=1.0, noun="a probability")
    target = math.log(eps) + math.log(delta)

    def above(t: float) -> float:
        return float(log_bound(method, p, x0, t=t)) - target

    if above(0.0) <= 0.0:
        return 0.0
    high = 1.0
    while above(high) > 0.0:
        high *= 2.0
    # The bound falls; at t = 0 it may be infinite, which brentq does not take.
    low = 0.5 * high
    while above(low) <= 0.0:
        low *= 0.5
    return float(brentq(above, low, high, xtol=1e-12 * high, rtol=1e-14))


def events_to(method: Method, p: Problem, x0: ArrayLike, eps: float, delta: float = 0.05) -> int:
    """A number k of gradients after which f(x_k) - f* <= eps with probability >= 1 - delta.

    Theorem 5 with half of delta spent on T_k being small, and half on Markov's inequality for
    weight(T_k) (f(x_k) - f*): the smallest k whose delta/2-quantile of T_k is at least
    time_to(eps, delta/2).  method, p, x0, eps, delta and the errors: as for `time_to`; ValueError,
    too, for an eps that takes more gradients than can be counted in floats, 2^53.

    >>> import continuized as cz, numpy as np
    >>> p = cz.problems.paper_strongly_convex()
    >>> method, x0 = cz.Continuized(p.L, p.mu), np.zeros(3)
    >>> events_to(method, p, x0, eps=1e-3) > time_to(method, p, x0, eps=1e-3)
    True
    """
    check_continuized(method, "events_to")
    check.real(delta, "delta", above=0.0, below=1.0, noun="a probability")
    t = time_to(method, p, x0, eps, 0.5 * delta)
    if t > 0.5 * MOST_COUNTED:
        raise ValueError(
            f"eps = {check.short_repr(eps)} takes about {t:.2g} gradients, more than can be "
            "counted; give a larger eps, or ask time_to"
        )

    def quantile(k: int) -> float:
        return float(event_time_quantile(k, 0.5 * delta))

    high = 1
    while quantile(high) < t:
        high *= 2
    return bisect_left(range(high), t, key=quantile)
