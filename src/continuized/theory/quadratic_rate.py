"""The exact rate of the second moments on quadratics, the worst over their spectra.

On 1/2 lambda x^2 the moments (E x^2, E xz, E z^2) of a process with constant parameters obey
m' = M(lambda) m, a matrix of three by three (`moments.pair`).  Their slowest rate is minus its
largest real part of an eigenvalue, and that of a function with eigenvalues in [mu, L] the least of
these.  No proof can give a larger exponent for the class that holds them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.process.methods import Continuized, CustomContinuized, Method
from continuized.process.parameters import check_constants
from continuized.theory.checks import name_of
from continuized.theory.moments.pair import flow_matrix, jump_slope, rates_of

POINTS = 2001  # of the first grid over the logarithm of lambda
REFINEMENTS = 6  # each finds the largest among POINTS between two neighbours of the last
LATE = 1e6  # a time, over sqrt(L/mu), at which the parameters of any start have settled
CONSTANT_AT = (0.0, 1.0, 30.0, 1e3)  # where a user's own parameters are compared


def quadratic_rate(method: Method, L: float, mu: float) -> float:
    """The exponent at which E f(x_t) - f* falls on the worst quadratic with spectrum in [mu, L].

    rate = - max over lambda in [mu, L] of the largest real part of the eigenvalues of the equation
    of the second moments: E f(x_t) - f* falls as e^{-rate t}, or faster.  Negative where it grows.
    Exact: no certificate for all L-smooth, mu-strongly convex functions can exceed it.

    Parameters
    ----------
    method : Continuized with mu > 0 (of any start: the rate in the long run), SharpContinuized, or
        CustomContinuized with parameters that do not depend on t
    L, mu : float
        Of the functions, 0 < mu <= L; the method may have others.

    Raises
    ------
    TypeError, ValueError
        For other methods, and for numbers that are none of these.

    >>> import continuized as cz
    >>> method = cz.Continuized(L=1.0, mu=0.01)
    >>> round(quadratic_rate(method, 1.0, 0.01) / 0.1, 2)  # against 1 and 4/3 that are proved
    1.5
    """
    L, mu = check_constants(L, mu)
    if mu == 0.0:
        raise ValueError("mu must be > 0: where it is 0 the second moments fall at no rate")
    parameters = settled_parameters(method)
    low, high = math.log(mu), math.log(L)
    grid = np.linspace(low, high, POINTS if high > low else 1)
    for _ in range(REFINEMENTS):
        growth = _growth(parameters, np.exp(grid))
        i = int(np.argmax(growth))
        grid = np.linspace(grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)], len(grid))
    # At the ends themselves: exp(log mu) need not be mu.
    ends = _growth(parameters, np.array([mu, L]))
    return -float(max(growth.max(), ends.max()))


def settled_parameters(method: Any) -> tuple[float, float, float, float]:
    """eta, eta', gamma and gamma', in the long run."""
    rates = rates_of(method)
    if isinstance(method, CustomContinuized):
        found = {tuple(float(rate(t)) for rate in rates) for t in CONSTANT_AT}
        if len(found) > 1:
            raise ValueError("a rate needs parameters that do not depend on t, but these do")
        return found.pop()  # type: ignore[return-value]
    if isinstance(method, Continuized) and method.mu == 0.0:
        raise ValueError(
            f"{name_of(method)} with mu = 0 has no rate, for its parameters change for ever: give "
            "it mu > 0"
        )
    late = LATE * math.sqrt(method.L) / math.sqrt(method.mu) if _changes(method) else 0.0
    return tuple(rate(late) for rate in rates)  # type: ignore[return-value]


def _changes(method: Any) -> bool:
    return isinstance(method, Continuized) and method.start != math.inf


def moment_matrices(parameters: tuple[float, float, float, float], lam: Array) -> Array:
    """M(lambda), of shape (*lam.shape, 3, 3)."""
    eta, eta_prime, gamma, gamma_prime = parameters
    uu, uw, _ = np.eye(3)
    lam = np.asarray(lam)[..., None]
    jumps = [
        jump_slope(a, b, lam * lam * uu, lam * left, lam * right)
        for a, b, left, right in (
            (gamma, gamma, uu, uu),
            (gamma, gamma_prime, uw, uu),
            (gamma_prime, gamma_prime, uw, uw),
        )
    ]
    return np.asarray(flow_matrix(eta, eta_prime) + np.stack(jumps, axis=-2))


def _growth(parameters: tuple[float, float, float, float], lam: Array) -> Array:
    with np.errstate(all="ignore"):
        M = moment_matrices(parameters, lam)
    if not np.all(np.isfinite(M)):
        raise ValueError(
            f"L = {lam.max():.6g} is so large beside the steps of the method that the second "
            "moments overflow: give the method the same L"
        )
    return np.asarray(np.linalg.eigvals(M).real.max(axis=-1))
