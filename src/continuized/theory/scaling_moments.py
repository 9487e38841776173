"""The distance of the process to its scaling limit, exactly, on quadratics.

E |x_t - X|^2 needs only the first and second moments of x_t; no sampling, and so a rate with no
noise in it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array
from continuized.problems.quadratic import Quadratic
from continuized.process.methods import Continuized
from continuized.theory.checks import check_positive, start_of
from continuized.theory.moments.pair import Rates, rates
from continuized.theory.moments.second_moments import moments
from continuized.theory.scaling import (
    ScalingDistance,
    checked_L_values,
    checked_points,
    scaling_limit,
)

FIRST = 1e-9  # x = z = x_0 up to the first event, so that an infinite eta(0) does no harm


def expected_scaling_distance(
    p: Quadratic, x0: ArrayLike, horizon: float, L_values: ArrayLike, points: int = 8
) -> ScalingDistance:
    """As `scaling_distance`, with exact expectations in place of runs (and no error).

    p: a Quadratic, TypeError otherwise.  x0, horizon, L_values, points: as there.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0], [0.0], mu=0.0)
    >>> far, near = expected_scaling_distance(p, [1.0], 3.0, [10.0, 1e4]).distance
    >>> bool(near < far)
    True
    """
    if not isinstance(p, Quadratic):
        raise TypeError(
            f"exact distances are known on a Quadratic only, got {type(p).__name__}; "
            "use scaling_distance"
        )
    horizon = check_positive(horizon, "horizon")
    L, s = checked_L_values(p, L_values), checked_points(horizon, points)
    limit = scaling_limit(p, x0, s).reshape(len(s), -1) - p.x_star
    u0 = start_of(p, x0).ravel() - p.x_star
    distance = np.empty(L.size)
    for i, L_i in enumerate(L.tolist()):
        method, times = Continuized(L_i, p.mu or 0.0), s * math.sqrt(L_i)
        second = moments(p, method, x0, times).xx
        mean = mean_distances(rates(method), p.eigenvalues, u0, times)
        squares = (second - 2.0 * mean * limit + limit**2).sum(axis=1)
        distance[i] = math.sqrt(float(squares.max()))
    rate = float(np.polynomial.polynomial.polyfit(np.log(L), np.log(distance), 1)[1])
    return ScalingDistance(L, distance, np.zeros(L.size), rate)


def mean_distances(rate: Rates, lam: Array, u0: Array, times: Array) -> Array:
    """E x_t - x* at increasing times > 0, a row each, for x_0 = z_0 = x* + u0.

    The means obey u' = eta (w - u) - gamma lambda u, w' = eta' (u - w) - gamma' lambda u.
    """
    from scipy.integrate import solve_ivp

    def slope(t: float, y: Array) -> Array:
        u, w = y.reshape(2, -1)
        return np.concatenate(
            [
                rate.eta(t) * (w - u) - rate.gamma(t) * lam * u,
                rate.eta_prime(t) * (u - w) - rate.gamma_prime(t) * lam * u,
            ]
        )

    solution = solve_ivp(
        slope,
        (FIRST, float(times[-1])),
        np.concatenate([u0, u0]),
        method="DOP853",
        t_eval=times,
        rtol=1e-11,
        atol=1e-13 * float(np.abs(u0).max(initial=1e-300)),
    )
    if not solution.success:
        raise ArithmeticError(f"the means could not be integrated: {solution.message}")
    return np.asarray(solution.y.T[:, : u0.size])
