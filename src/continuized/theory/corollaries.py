"""Corollaries: event times, time to accuracy, the number of gradients, the L that suits the noise.

T_k, the time of the k-th event, is Gamma(k, 1); N_t, the number of events (of gradients) up to
time t, is Poisson(t).  Noise asks for another L than accuracy does: larger steps shrink the bias,
smaller ones the noise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.problems.quadratic import Quadratic
from continuized.process import parameters as scalars
from continuized.process.methods import Continuized, CustomContinuized, Method
from continuized.support import validation as check
from continuized.support.display import show_lines
from continuized.theory.bounds import log_bound
from continuized.theory.checks import (
    check_continuized,
    check_counts,
    excess,
    known_L,
    squared_distance,
    start_of,
)

LARGE = 1e10  # times beyond which SciPy's quantile of Poisson(t) may be NaN
EXACT = 2**53  # the integers up to here are floats
LATEST = 1e100  # horizons beyond overflow, or leave nothing of a rate


def _pair(values: Array, name: str, q: ArrayLike) -> tuple[Array, Array]:
    """Return the values and the levels q in one shape."""
    levels = _levels(q)
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

    counts, levels = _pair(check_counts(k), "k", q)
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

    times, levels = _pair(check.times(t, "t"), "t", q)
    z = ndtri(levels)
    far = np.maximum(times + np.sqrt(times) * z + (z * z - 4.0) / 6.0, 0.0)
    counts = np.where(times > LARGE, np.ceil(far), poisson.ppf(levels, np.minimum(times, LARGE)))
    found: Array = counts.astype(np.int64) if np.all(counts <= EXACT) else counts
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
    if t > 0.5 * EXACT:
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


def noise_tuned_L(p: Problem, x0: ArrayLike, sigma2: float, horizon: float) -> float:
    """The L' >= p.L whose bound of Theorem 6 at t = horizon is smallest.

    To be used as Continuized(L', p.mu), with the paper's start.

    - mu = 0: the bound 2L' R^2/t^2 + sigma2 t/(3L') is smallest at L' = sigma sqrt(t^3/6) / R,
      R = |x_0 - x*|, where it is 2 sigma R sqrt(2/(3t)).
    - mu > 0: with q = sqrt(mu/L') it is C e^{-qt} + sigma2 q/mu, C = f_0 - f* + mu/2 R^2:
      convex in q, smallest at q = log(C mu t / sigma2) / t.

    Where the bound only falls as L' grows without end (x_0 is the minimiser, or C mu t <=
    sigma2: no step is worth its noise), there is no best L', and ValueError says so.

    Parameters
    ----------
    p : Problem
        With L and x* known.
    x0 : array
        The start.
    sigma2 : float
        The total variance of the noise, E|noise|^2; with 0, L' is p.L.
    horizon : float > 0
        The time t at which the bound counts.

    >>> import continuized as cz, numpy as np
    >>> p = cz.problems.paper_convex()
    >>> L = noise_tuned_L(p, np.zeros(100), sigma2=0.01, horizon=1000.0)
    >>> bool(L > p.L)
    True
    """
    sigma2 = check.real(sigma2, "sigma2", minimum=0.0)
    t = check.real(horizon, "horizon", above=0.0, maximum=LATEST)
    L, mu = known_L(p), float(p.mu or 0.0)
    x = start_of(p, x0)
    R2 = squared_distance(p, x)
    if sigma2 == 0.0:
        return L
    if R2 == 0.0:
        raise ValueError("x0 is the minimiser: every step only adds noise, no finite L is best")
    if mu == 0.0:
        return max(L, math.sqrt(sigma2) / math.sqrt(R2) * t * math.sqrt(t / 6.0))
    worth = (excess(p, x) + 0.5 * mu * R2) * mu * t / sigma2
    if worth <= 1.0:
        raise ValueError(
            f"the noise outweighs the gain of any step by t = {t:.6g}: no finite L is best; "
            "give a longer horizon, or a smaller sigma2"
        )
    q = math.log(worth) / t
    return max(L, mu / q**2)


def noise_floor(method: Method, p: Quadratic, sigma2: float) -> float:
    """Compute the limit of E f(x_t) - f* with isotropic noise, exactly: the plateau of a run.

    method: with parameters that settle, as for `quadratic_rate`.  p: a Quadratic, whose eigenvalues
    are all > 0.  sigma2: the total variance of the noise.  The second moments m of each coordinate
    solve M m + s = 0, s the noise that an event adds.  ValueError where they grow for ever, and for
    other methods and problems.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> method = cz.Continuized(p.L, p.mu)
    >>> late = cz.theory.moments(p, method, [0.0, 0.0], [400.0], sigma2=0.01).fun[0]
    >>> bool(abs(noise_floor(method, p, 0.01) - late) < 1e-9)
    True
    """
    from continuized.theory.quadratic_rate import constant_parameters, moment_matrices

    sigma2 = check.real(sigma2, "sigma2", minimum=0.0)
    check.instance(p, "p", Quadratic, "a Quadratic, on which the floor is exact")
    if not p.dim or float(p.eigenvalues.min()) <= 0.0:
        raise ValueError("p must have eigenvalues > 0: along others the noise adds up for ever")
    four = constant_parameters(method)
    gamma, gamma_prime = four[2:]
    M = moment_matrices(four, p.eigenvalues)
    if float(np.linalg.eigvals(M).real.max()) >= 0.0:
        raise ValueError("the second moments of this method grow on p: there is no floor")
    added = sigma2 / p.dim * np.array([gamma**2, gamma * gamma_prime, gamma_prime**2])
    moments = np.linalg.solve(M, np.broadcast_to(-added, (p.dim, 3))[..., None])[..., 0]
    return float(0.5 * p.eigenvalues @ moments[:, 0])


class NoiseStep(NamedTuple):
    """Which gamma suits an L' that was chosen for noise, and the exact floors of both.

    gamma: 1/L' or 1/sqrt(L L').  floors: that with 1/L', and that with 1/sqrt(L L').  method: the
    process with the gamma that has the lower one.

    >>> NoiseStep(0.5, (0.2, 0.1), None).floors[1]
    0.1
    """

    gamma: float
    floors: tuple[float, float]
    method: Any

    def __repr__(self) -> str:
        return show_lines(self)


def noise_step(p: Quadratic, L: float, sigma2: float) -> NoiseStep:
    """Choose the step gamma of x, for a process whose L' is larger than that of the function.

    With noise a larger L' lowers the floor (`noise_tuned_L`).  Theorem 6 asks of gamma only
    gamma (1 - L gamma/2) >= 1/(2L') and L gamma^2/2 <= 1/(2L'): beside 1/L', 1/sqrt(L L') has the
    same proof and the same bound, where L is that of the function.  Which has the lower floor
    depends on the spectrum: at L/mu = 10 mostly the short step, from L/mu = 100 on the long one.

    Parameters
    ----------
    p : Quadratic
        With mu > 0: the floors are exact.
    L : float
        L', at least p.L.
    sigma2 : float
        The total variance of the noise.

    Returns
    -------
    NoiseStep
        Its method is Continuized(L', mu), or with the long step CustomContinuized, whose events run
        in Python.

    Raises
    ------
    TypeError, ValueError
        For what is none of these.

    >>> import continuized as cz, numpy as np
    >>> p = cz.problems.Quadratic(np.geomspace(0.001, 1.0, 30))
    >>> found = noise_step(p, L=10.0, sigma2=0.01)
    >>> round(found.floors[1] / found.floors[0], 2), found.method.name
    (0.8, 'custom')
    """
    check.instance(p, "p", Quadratic, "a Quadratic, on which the floor is exact")
    own, mu = known_L(p), float(p.mu or 0.0)
    larger = check.real(L, "L", minimum=own, noun="a number that is no less than p.L,")
    if mu == 0.0:
        raise ValueError("p must have mu > 0: where it is 0 the noise adds up, and has no floor")
    short = Continuized(larger, mu)
    now = (0.0, *short.parameters)
    gamma = 1.0 / (math.sqrt(own) * math.sqrt(larger))
    long = CustomContinuized(
        eta=_constant(scalars.eta(*now)),
        eta_prime=_constant(scalars.eta_prime(*now)),
        gamma=_constant(gamma),
        gamma_prime=_constant(scalars.gamma_prime(*now)),
        L=larger,
        mu=mu,
    )
    floors = noise_floor(short, p, sigma2), noise_floor(long, p, sigma2)
    if floors[1] < floors[0]:
        return NoiseStep(gamma, floors, long)
    return NoiseStep(1.0 / larger, floors, short)


def _constant(value: float) -> Callable[[float], float]:
    return lambda t: value


def _levels(q: ArrayLike) -> Array:
    what = "probabilities in (0, 1)"
    levels = check.array(q, "q", dtype=np.float64, noun=what)
    if not np.all((levels > 0.0) & (levels < 1.0)):
        raise check.refusal(ValueError, "q", what, q)
    return levels
