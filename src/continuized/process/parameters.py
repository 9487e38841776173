"""The scalars of the process: A, B, eta, eta', gamma' as functions of time.

The formulas are plain Python on floats, so that `process/compiled.py` compiles these very
functions.  With f convex, L-smooth and mu-strongly convex (mu >= 0), the Lyapunov function

    phi_t = A_t (f(x_t) - f*) + B_t |z_t - x*|^2

is a supermartingale when gamma = 1/L and

    (sqrt A)' = sqrt(B) / sqrt(2L)        (sqrt B)' = mu sqrt(A) / sqrt(8L)
    eta = sqrt(2B / (L A))    eta' = mu sqrt(A / (2 L B))    gamma' = sqrt(A / (2 L B))

(the paper's appendix B).  The solutions differ only by a shift `start` of the clock: with
omega = sqrt(mu/L) / 2, sqrt(A) is proportional to t + start when mu = 0 and to
sinh(omega (t + start)) when mu > 0; start = inf is the exponential solution of Theorem 3.2.
The paper's appendix prints gamma' = t / sqrt(2L) in the convex case; it is t / (2L).

For functions that are only tau-quasar-convex, 0 < tau <= 1 (docs/proofs/quasar.md), (sqrt A)',
(sqrt B)' and eta' have a factor tau; tau = 1, for convex f, changes no bit.

Square roots are taken of L and mu apart: mu L may underflow, mu / L lose its last digits.
"""

from __future__ import annotations

import math
from typing import Any

from continuized.support import validation as check

__all__ = [
    "carried_gamma_prime",
    "carried_time",
    "check_constants",
    "convex_gamma_prime",
    "default_start",
    "eta",
    "eta_prime",
    "exponential_gamma_prime",
    "gamma",
    "gamma_prime",
    "hyperbolic_gamma_prime",
    "log_A",
    "log_B",
    "omega",
    "sharp_eta",
    "sharp_eta_prime",
    "sharp_gamma_prime",
    "unit_start",
    "unit_time",
]


def check_constants(L: Any, mu: Any) -> tuple[float, float]:
    """L in (0, inf) and mu in [0, L] as floats; raises TypeError or ValueError for others.

    >>> check_constants(2, 1)
    (2.0, 1.0)
    """
    L = check.real(L, "L", above=0.0)
    mu = check.real(mu, "mu", minimum=0.0)
    if mu > L:
        raise ValueError(f"mu must not exceed L, got mu = {mu} > L = {L}")
    return L, mu


def omega(L: float, mu: float) -> float:
    """Half the accelerated rate, sqrt(mu/L) / 2.

    >>> omega(L=4.0, mu=1.0)
    0.25
    """
    return 0.5 * math.sqrt(mu) / math.sqrt(L)


def default_start(mu: float) -> float:
    """The paper's own choice: 0 in the convex case (mu = 0), infinity in the strongly convex one.

    >>> default_start(0.0), default_start(0.1)
    (0.0, inf)
    """
    return math.inf if mu > 0.0 else 0.0


def least_composite_start(L: float, mu: float, most: float = 1.0) -> float:
    """The least start for which eta is at most this from the beginning, as f + psi needs it.

    2 / most when mu = 0, otherwise (2/q) artanh(q / most) with q = sqrt(mu/L), infinite where
    q >= most.

    >>> least_composite_start(1.0, 0.0), least_composite_start(1.0, 1.0)
    (2.0, inf)
    >>> round(least_composite_start(1.0, 0.25), 6)
    2.197225
    """
    q = 2.0 * omega(L, mu)
    if q == 0.0:
        return 2.0 / most
    return 2.0 * math.atanh(q / most) / q if q < most else math.inf


def eta(t: float, L: float, mu: float, start: float, tau: float = 1.0) -> float:
    """The rate at which x is drawn to z.  Infinite at t = 0 when start = 0.

    2 / (tau (t + start)) when mu = 0, sqrt(mu/L) when start = inf, and otherwise
    sqrt(mu/L) coth(tau omega (t + start)).

    >>> eta(4.0, L=1.0, mu=0.0, start=0.0), eta(4.0, L=4.0, mu=1.0, start=math.inf)
    (0.5, 0.5)
    """
    if mu > 0.0 and start == math.inf:
        return 2.0 * omega(L, mu)
    if t + start == 0.0:
        return math.inf
    if mu == 0.0:
        return 2.0 / (tau * (t + start))
    return 2.0 * omega(L, mu) / math.tanh(tau * omega(L, mu) * (t + start))


def eta_prime(t: float, L: float, mu: float, start: float, tau: float = 1.0) -> float:
    """The rate at which z is drawn to x.

    0 when mu = 0, tau sqrt(mu/L) when start = inf, and otherwise
    tau sqrt(mu/L) tanh(tau omega (t + start)).

    >>> eta_prime(4.0, L=1.0, mu=0.0, start=0.0), eta_prime(4.0, L=4.0, mu=1.0, start=math.inf)
    (0.0, 0.5)
    """
    if mu == 0.0:
        return 0.0
    if start == math.inf:
        return tau * 2.0 * omega(L, mu)
    return tau * 2.0 * omega(L, mu) * math.tanh(tau * omega(L, mu) * (t + start))


def gamma(L: float) -> float:
    """The gradient step of x, 1 / L.

    >>> gamma(L=4.0)
    0.25
    """
    return 1.0 / L


def gamma_prime(t: float, L: float, mu: float, start: float, tau: float = 1.0) -> float:
    """The gradient step of z: one of the three below, as mu and start ask for.

    >>> gamma_prime(4.0, L=1.0, mu=0.0, start=0.0), gamma_prime(4.0, L=4.0, mu=1.0, start=math.inf)
    (2.0, 0.5)
    """
    if mu == 0.0:
        return convex_gamma_prime(t, L, start, tau)
    if start == math.inf:
        return exponential_gamma_prime(L, mu)
    return hyperbolic_gamma_prime(t, L, mu, start, tau)


def convex_gamma_prime(t: float, L: float, start: float, tau: float = 1.0) -> float:
    """gamma' for mu = 0, tau (t + start) / (2L).

    >>> convex_gamma_prime(4.0, L=1.0, start=0.0)
    2.0
    """
    return 0.5 * tau * (t + start) / L


def exponential_gamma_prime(L: float, mu: float) -> float:
    """gamma' for mu > 0 and start = inf, 1 / sqrt(mu L).

    >>> exponential_gamma_prime(L=4.0, mu=1.0)
    0.5
    """
    return 1.0 / (math.sqrt(mu) * math.sqrt(L))


def hyperbolic_gamma_prime(t: float, L: float, mu: float, start: float, tau: float = 1.0) -> float:
    """gamma' for mu > 0 and a finite start, tanh(tau omega (t + start)) / sqrt(mu L).

    >>> round(hyperbolic_gamma_prime(4.0, L=4.0, mu=1.0, start=0.0), 6)  # tanh(1) / 2
    0.380797
    """
    return math.tanh(tau * omega(L, mu) * (t + start)) * exponential_gamma_prime(L, mu)


def sharp_eta(L: float, mu: float) -> float:
    """eta of Theorem B, sqrt(2 mu / L), which is also the rate that it proves.

    >>> sharp_eta(L=8.0, mu=1.0)
    0.5
    """
    return math.sqrt(2.0) * math.sqrt(mu) / math.sqrt(L)


def sharp_eta_prime(L: float, mu: float) -> float:
    """eta' of Theorem B, half of its eta.

    >>> sharp_eta_prime(L=8.0, mu=1.0)
    0.25
    """
    return 0.5 * sharp_eta(L, mu)


def sharp_gamma_prime(L: float, mu: float) -> float:
    """gamma' of Theorem B, 1 / sqrt(2 mu L) + 2 / (3L).

    >>> round(sharp_gamma_prime(L=8.0, mu=1.0), 12) == round(1 / 4 + 1 / 12, 12)
    True
    """
    return 1.0 / (math.sqrt(2.0) * math.sqrt(mu) * math.sqrt(L)) + 2.0 / (3.0 * L)


def carried_time(s: float, L: float, L_new: float) -> float:
    """The time t + start that gives the same A / B with L_new as s = t + start did with L.

    A / B is a function of s / sqrt(L) and mu, so that s grows as sqrt(L).  Where L changes at
    an event, the process goes on from the same pair (sqrt A, sqrt B), and from this time.

    >>> carried_time(3.0, L=1.0, L_new=4.0)
    6.0
    """
    return s * math.sqrt(L_new / L)


def log_A(t: float, L: float, mu: float, start: float, tau: float = 1.0) -> float:
    """log A_t; minus infinity at t = 0 when start = 0.  In logs, for A overflows early.

    Scaled so that B_0 = 1 at start = 0 (then A_t = (tau t)^2 / (2L) when mu = 0, and
    2 sinh^2(tau omega t) / mu, which tends to it as mu -> 0), and A_0 = 1 at start = inf.

    >>> round(math.exp(log_A(4.0, L=2.0, mu=0.0, start=0.0)), 12)  # t^2 / (2L)
    4.0
    """
    if mu > 0.0 and start == math.inf:
        return tau * 2.0 * omega(L, mu) * t
    if t + start == 0.0:
        return -math.inf
    if mu == 0.0:
        return 2.0 * (math.log(t + start) + math.log(tau)) - math.log(2.0) - math.log(L)
    return math.log(2.0) - math.log(mu) + 2.0 * _log_sinh(tau * omega(L, mu) * (t + start))


def log_B(t: float, L: float, mu: float, start: float, tau: float = 1.0) -> float:
    """log B_t, scaled as log_A is.

    0 when mu = 0, log(mu/2) + tau sqrt(mu/L) t when start = inf, and otherwise
    2 log cosh(tau omega (t + start)).

    >>> log_B(4.0, L=2.0, mu=0.0, start=0.0), log_B(4.0, L=8.0, mu=2.0, start=math.inf)
    (0.0, 2.0)
    """
    if mu == 0.0:
        return 0.0
    if start == math.inf:
        return math.log(mu) - math.log(2.0) + tau * 2.0 * omega(L, mu) * t
    u = tau * omega(L, mu) * (t + start)
    return 2.0 * (u + math.log1p(math.exp(-2.0 * u)) - math.log(2.0))


def _log_sinh(u: float) -> float:
    if u < 1.0:
        return math.log(math.sinh(u))
    return u + math.log1p(-math.exp(-2.0 * u)) - math.log(2.0)


# The clock of L = 1, on which a run whose L changes at events adds up its gaps: `flow.weights`
# there, with L = 1, are those of the gaps at their own L.


def unit_time(dt: float, L: float) -> float:
    """A gap dt of the clock of L, on the clock of L = 1: dt / sqrt(L).

    >>> unit_time(3.0, L=4.0)
    1.5
    """
    return carried_time(dt, L, 1.0)


def unit_start(start: float, L: float) -> tuple[float, float]:
    """(the time that has passed before time 0, the start that is left) on the clock of L = 1.

    >>> unit_start(3.0, L=4.0), unit_start(math.inf, L=4.0)
    ((1.5, 0.0), (0.0, inf))
    """
    if start == math.inf:
        return 0.0, math.inf
    return unit_time(start, L), 0.0


def carried_gamma_prime(tau: float, L: float, mu: float, start: float) -> float:
    """gamma' at L, at the time tau of the clock of L = 1; `start` too is on that clock.

    >>> carried_gamma_prime(1.5, L=4.0, mu=0.0, start=0.0), gamma_prime(3.0, 4.0, 0.0, 0.0)
    (0.375, 0.375)
    """
    return gamma_prime(tau, 1.0, mu, start) / math.sqrt(L)


FORMULAS = (
    omega,
    eta,
    eta_prime,
    gamma,
    gamma_prime,
    convex_gamma_prime,
    exponential_gamma_prime,
    hyperbolic_gamma_prime,
    sharp_eta,
    sharp_eta_prime,
    sharp_gamma_prime,
    log_A,
    log_B,
    _log_sinh,
)


def __dir__() -> list[str]:
    return sorted(__all__)
