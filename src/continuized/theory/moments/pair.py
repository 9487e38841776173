"""How a mix, a jump and the flow act on second moments (u^2, uw, w^2) of a coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.process import parameters
from continuized.process.methods import Continuized, CustomContinuized, Method
from continuized.support.validation import brief

Number = float | Array
Map = tuple[Number, Number, Number, Number]  # u <- p u + q w, w <- r u + s w, as (p, q, r, s)


class Moments(NamedTuple):
    """Exact expectations, one row per time (or per event count): E f, E |z - x*|^2.

    These are fun, and z2.  xx, xz, zz are the second moments of x - x* and z - x*, a column per
    coordinate.  Exactly one of t and k is not None.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> m = cz.theory.moments(p, cz.Continuized(p.L, p.mu), [0.0, 0.0], k=[0, 5])
    >>> m.k.tolist(), m.xx.shape, bool(np.allclose(m.fun, 0.5 * m.xx @ p.eigenvalues))
    ([0, 5], (2, 2), True)
    """

    t: Array | None
    k: Array | None
    fun: Array
    z2: Array
    xx: Array
    xz: Array
    zz: Array


class Rates(NamedTuple):
    """eta, eta', gamma, gamma' as functions of t."""

    eta: Callable[[float], float]
    eta_prime: Callable[[float], float]
    gamma: Callable[[float], float]
    gamma_prime: Callable[[float], float]


def rates(method: Method) -> Rates:
    """The scalars of a method in continuous time."""
    if isinstance(method, CustomContinuized):
        return Rates(method.eta, method.eta_prime, method.gamma, method.gamma_prime)
    if not isinstance(method, Method):
        raise TypeError(
            f"method must be a method such as cz.Continuized(L, mu), got {brief(method)}"
        )
    if not isinstance(method, Continuized):
        raise ValueError(f"{method.name} counts iterations: give k=, not times")
    c = method.constants
    return Rates(
        lambda t: parameters.eta(t, *c),
        lambda t: parameters.eta_prime(t, *c),
        lambda t: parameters.gamma(method.L),
        lambda t: parameters.gamma_prime(t, *c),
    )


def apply(linear: Map, m: Array) -> Array:
    """The second moments after a linear map of (u, w); m has the rows u^2, uw, w^2."""
    p, q, r, s = linear
    uu, uw, ww = m
    return np.stack(
        [
            p * p * uu + 2.0 * p * q * uw + q * q * ww,
            p * r * uu + (p * s + q * r) * uw + q * s * ww,
            r * r * uu + 2.0 * r * s * uw + s * s * ww,
        ]
    )


def jump_map(gamma: float, gamma_prime: float, lam: Array) -> Map:
    """A gradient step on 1/2 lambda u^2: u <- u - gamma lambda u, w <- w - gamma' lambda u."""
    return 1.0 - gamma * lam, 0.0, -gamma_prime * lam, 1.0


def jump_noise(gamma: float, gamma_prime: float) -> Array:
    """What noise of variance 1 adds to the second moments at a jump."""
    return np.array([gamma * gamma, gamma * gamma_prime, gamma_prime * gamma_prime])


def flow_matrix(rate: Rates, t: float) -> Array:
    """d/dt of (u^2, uw, w^2) under u' = eta (w - u), w' = eta' (u - w)."""
    e, f = rate.eta(t), rate.eta_prime(t)
    return np.array([[-2.0 * e, 2.0 * e, 0.0], [f, -e - f, e], [0.0, 2.0 * f, -2.0 * f]])
