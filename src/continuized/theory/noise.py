"""Noise on the gradients: the L that suits it, the floor that a run comes to, and the step of x.

Noise asks for another L than accuracy does: larger steps shrink the bias, smaller ones the noise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Problem
from continuized.problems.quadratic import Quadratic
from continuized.process import parameters as scalars
from continuized.process.methods import Continuized, CustomContinuized, Method
from continuized.support import validation as check
from continuized.support.display import show_lines
from continuized.theory.checks import excess, known_L, squared_distance, start_of
from continuized.theory.moments.pair import jump_noise
from continuized.theory.quadratic_rate import moment_matrices, settled_parameters

LATEST_HORIZON = 1e100  # horizons beyond overflow, or leave nothing of a rate


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
    t = check.real(horizon, "horizon", above=0.0, maximum=LATEST_HORIZON)
    L, mu = known_L(p), float(p.mu or 0.0)
    x = start_of(p, x0)
    R2 = squared_distance(p, x)
    if sigma2 == 0.0:
        return L
    if R2 == 0.0:
        raise ValueError(
            "x0 is the minimiser: every step only adds noise, no finite L is best; give another x0"
        )
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
    sigma2 = check.real(sigma2, "sigma2", minimum=0.0)
    check.instance(p, "p", Quadratic, "a Quadratic, on which the floor is exact")
    if not p.dim or float(p.eigenvalues.min()) <= 0.0:
        raise ValueError("p must have eigenvalues > 0: along others the noise adds up for ever")
    four = settled_parameters(method)
    M = moment_matrices(four, p.eigenvalues)
    if float(np.linalg.eigvals(M).real.max()) >= 0.0:
        raise ValueError("the second moments of this method grow on p: there is no floor")
    added = sigma2 / p.dim * jump_noise(*four[2:])
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
        eta=scalars.eta(*now),
        eta_prime=scalars.eta_prime(*now),
        gamma=gamma,
        gamma_prime=scalars.gamma_prime(*now),
        L=larger,
        mu=mu,
    )
    floors = noise_floor(short, p, sigma2), noise_floor(long, p, sigma2)
    if floors[1] < floors[0]:
        return NoiseStep(gamma, floors, long)
    return NoiseStep(1.0 / larger, floors, short)
