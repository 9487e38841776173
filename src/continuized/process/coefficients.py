"""The rules of the methods: the mixing weights and steps of an event, all functions of scalars.

A rule gives (a, b, gamma, gamma') of event k at time t, with t0 the time of the event before and
dt the gap between them as it was drawn; `methods` says what a step does with them.  `carry` is a
scalar of the rule's own that goes from event to event.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from continuized.process.flow import (
    convex_flow,
    exponential_flow,
    hyperbolic_flow,
    quasar_convex_flow,
    quasar_exponential_flow,
    sharp_flow,
)
from continuized.process.parameters import (
    convex_gamma_prime,
    exponential_gamma_prime,
    gamma,
    hyperbolic_gamma_prime,
    sharp_gamma_prime,
)

# (k, t0, t, dt, carry, L, mu, start) -> (a, b, gamma, gamma', carry)
Rule = Callable[
    [int, float, float, float, float, float, float, float],
    tuple[float, float, float, float, float],
]
A, B, GAMMA, GAMMA_PRIME, CARRY = range(5)  # the entries of what a rule gives
COEFFICIENTS = 5  # how many they are
# (t0, t, dt, L, mu, start) -> (a, b)
FlowRule = Callable[[float, float, float, float, float, float], tuple[float, float]]


def gradient_descent_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> tuple[float, float, float, float, float]:
    """x <- x - grad f(x) / L (Theorem 1).  z follows x."""
    return 0.0, 0.0, gamma(L), gamma(L), carry


def nesterov_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> tuple[float, float, float, float, float]:
    """Nesterov acceleration (Theorem 2); the paper's tau' acts on y, so b = tau' (1 - tau).

    In the convex case `carry` is A_k, with A_{k+1} = A_k + (1 + sqrt(4 A_k + 1)) / 2.
    """
    if mu > 0.0:
        q = math.sqrt(mu) / math.sqrt(L)
        tau = q / (1.0 + q)
        return tau, q * (1.0 - tau), gamma(L), exponential_gamma_prime(L, mu), carry
    increment = 0.5 * (1.0 + math.sqrt(4.0 * carry + 1.0))
    A = carry + increment
    return increment / A, 0.0, gamma(L), increment / L, A


# The continuized acceleration (Theorems 3 and 4), a rule for each form of its parameters: only
# the one in use is compiled.  gamma' is taken at the event's own time t = T_{k+1}; the paper's
# Theorem 4 prints T_k, against its own proof, and with T_k the Lyapunov function is no
# supermartingale.


def convex_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> tuple[float, float, float, float, float]:
    """The continuized acceleration for mu = 0."""
    a, b = convex_flow(t0, t, dt, L, mu, start)
    return a, b, gamma(L), convex_gamma_prime(t, L, start), carry


def exponential_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> tuple[float, float, float, float, float]:
    """The continuized acceleration for mu > 0 and start = inf."""
    a, b = exponential_flow(t0, t, dt, L, mu, start)
    return a, b, gamma(L), exponential_gamma_prime(L, mu), carry


def hyperbolic_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> tuple[float, float, float, float, float]:
    """The continuized acceleration for mu > 0 and a finite start."""
    a, b = hyperbolic_flow(t0, t, dt, L, mu, start)
    return a, b, gamma(L), hyperbolic_gamma_prime(t, L, mu, start), carry


# For quasar-convex functions: as above with tau < 1, which stands where a constant is not needed.


def quasar_convex_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, tau: float, start: float
) -> tuple[float, float, float, float, float]:
    """The continuized acceleration for mu = 0 and tau < 1."""
    a, b = quasar_convex_flow(t0, t, dt, L, tau, start)
    return a, b, gamma(L), convex_gamma_prime(t, L, start, tau), carry


def quasar_exponential_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, tau: float
) -> tuple[float, float, float, float, float]:
    """The continuized acceleration for mu > 0, start = inf and tau < 1."""
    a, b = quasar_exponential_flow(t0, t, dt, L, mu, tau)
    return a, b, gamma(L), exponential_gamma_prime(L, mu), carry


def sharp_rule(
    k: int, t0: float, t: float, dt: float, carry: float, L: float, mu: float, start: float
) -> tuple[float, float, float, float, float]:
    """The constants of Theorem B (docs/proofs/sharp.md), for mu > 0."""
    a, b = sharp_flow(t0, t, dt, L, mu, start)
    return a, b, gamma(L), sharp_gamma_prime(L, mu), carry
