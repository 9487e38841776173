"""The L that suits the noise: larger steps shrink the bias, smaller ones the noise."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from continuized.problems.base import Problem
from continuized.support import validation as check
from continuized.theory.checks import excess, squared_distance, start_of


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
    t = check.real(horizon, "horizon", above=0.0)
    if p.L is None:
        raise ValueError("the smoothness constant is not known: give L= to the problem")
    L, mu = float(p.L), float(p.mu or 0.0)
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
