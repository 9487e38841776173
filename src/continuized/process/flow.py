"""The flow: exact mixing of x and z over an interval without events.

Between events  dx = eta_t (z - x) dt,  dz = eta'_t (x - z) dt.  The solution over
[t0, t1] is, simultaneously,

    x <- x + a (z - x)        z <- z + b (x - z)

with two scalars a, b in [0, 1] given here in closed form (the paper's Theorem 4 and
appendix C for start = 0 and start = inf; the general case is ours).  `dt` is the gap as
drawn by the clock: t1 - t0 recomputed has lost digits once t is large.  L, mu and start are those
of `parameters`; omega = sqrt(mu/L) / 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from continuized.process.parameters import omega, sharp_eta, sharp_eta_prime
from continuized.support.elementary import expm1

__all__ = [
    "constant_weights",
    "convex_flow",
    "equal_weights",
    "exponential_flow",
    "hyperbolic_flow",
    "hyperbolic_weights",
    "integrate_weights",
    "mix",
    "no_flow",
    "quasar_convex_flow",
    "quasar_exponential_flow",
    "sharp_flow",
    "weights",
]


def mix(x: Any, z: Any, a: float, b: float) -> tuple[Any, Any]:
    """(x + a (z - x), z + b (x - z)), both at once; works on floats and on arrays alike.

    >>> mix(0.0, 1.0, 0.75, 0.25)
    (0.75, 0.75)
    """
    apart = z - x
    return x + a * apart, z - b * apart


def weights(
    t0: float, t1: float, dt: float, L: float, mu: float, start: float
) -> tuple[float, float]:
    """The mixing weights (a, b) over [t0, t1], with dt the drawn gap; L, mu and start: any.

    >>> weights(1.0, 2.0, 1.0, L=1.0, mu=0.0, start=0.0)
    (0.75, 0.0)
    """
    if mu == 0.0:
        return convex_flow(t0, t1, dt, L, mu, start)
    if start == math.inf:
        return exponential_flow(t0, t1, dt, L, mu, start)
    return hyperbolic_flow(t0, t1, dt, L, mu, start)


def no_flow(
    t0: float, t1: float, dt: float, L: float, mu: float, start: float
) -> tuple[float, float]:
    """The weights of a discrete method, which stands still between events: a = b = 0.

    >>> no_flow(1.0, 2.0, 1.0, L=1.0, mu=0.0, start=0.0)
    (0.0, 0.0)
    """
    return 0.0, 0.0


def convex_flow(
    t0: float, t1: float, dt: float, L: float, mu: float, start: float
) -> tuple[float, float]:
    """The weights for mu = 0: a = 1 - ((t0 + start) / (t1 + start))^2, b = 0.

    >>> convex_flow(1.0, 2.0, 1.0, L=1.0, mu=0.0, start=0.0)
    (0.75, 0.0)
    """
    if dt == 0.0:
        return 0.0, 0.0
    # 1 - (t0/t1)^2 without the cancellation that ruins it for large t.
    r = dt / (t1 + start)
    return r * (2.0 - r), 0.0


def exponential_flow(
    t0: float, t1: float, dt: float, L: float, mu: float, start: float
) -> tuple[float, float]:
    """The weights for mu > 0 and start = inf: a = b = (1 - e^{-4 omega dt}) / 2.

    >>> a, b = exponential_flow(0.0, 1.0, 1.0, L=1.0, mu=0.25, start=math.inf)
    >>> round(a, 6), a == b
    (0.31606, True)
    """
    return equal_weights(2.0 * omega(L, mu), dt)


def equal_weights(rate: float, dt: float) -> tuple[float, float]:
    """The weights for eta = eta' = rate, a constant: a = b = (1 - e^{-2 rate dt}) / 2.

    >>> equal_weights(1.0, math.log(2.0))
    (0.375, 0.375)
    """
    a = -0.5 * expm1(-2.0 * rate * dt)
    return a, a


def constant_weights(eta: float, eta_prime: float, dt: float) -> tuple[float, float]:
    """The weights for any two constants eta and eta' (eta_prime), not both 0, over a gap dt.

    With c = eta + eta', a = (eta / c) (1 - e^{-c dt}) and b = (eta' / c) (1 - e^{-c dt}).

    >>> a, b = constant_weights(2.0, 1.0, math.log(2.0) / 3.0)
    >>> round(a, 12), round(b, 12)
    (0.333333333333, 0.166666666667)
    """
    both = -expm1(-(eta + eta_prime) * dt) / (eta + eta_prime)
    return eta * both, eta_prime * both


def sharp_flow(
    t0: float, t1: float, dt: float, L: float, mu: float, start: float
) -> tuple[float, float]:
    """The weights of Theorem B: eta = p and eta' = p/2, p = sqrt(2 mu / L).

    >>> a, b = sharp_flow(0.0, 1.0, 1.0, L=8.0, mu=1.0, start=0.0)
    >>> round(a, 6), a == 2.0 * b
    (0.351756, True)
    """
    return constant_weights(sharp_eta(L, mu), sharp_eta_prime(L, mu), dt)


def quasar_convex_flow(
    t0: float, t1: float, dt: float, L: float, tau: float, start: float
) -> tuple[float, float]:
    """The weights for mu = 0 and tau < 1: a = 1 - ((t0 + start) / (t1 + start))^{2/tau}, b = 0.

    tau stands where the other rules have mu, which is 0.

    >>> a, b = quasar_convex_flow(1.0, 2.0, 1.0, L=1.0, tau=0.5, start=0.0)
    >>> round(a, 12), b
    (0.9375, 0.0)
    """
    if dt == 0.0:
        return 0.0, 0.0
    r = dt / (t1 + start)
    if r >= 1.0:  # from t0 + start = 0, where eta is infinite: x joins z
        return 1.0, 0.0
    return -math.expm1(2.0 / tau * math.log1p(-r)), 0.0


def quasar_exponential_flow(
    t0: float, t1: float, dt: float, L: float, mu: float, tau: float
) -> tuple[float, float]:
    """The weights for mu > 0, start = inf and tau < 1: eta = sqrt(mu/L) and eta' = tau eta.

    tau stands where the other rules have start, which is infinite.

    >>> a, b = quasar_exponential_flow(0.0, 1.0, 1.0, L=1.0, mu=0.25, tau=0.5)
    >>> round(a, 6), b == 0.5 * a
    (0.351756, True)
    """
    rate = 2.0 * omega(L, mu)
    return constant_weights(rate, tau * rate, dt)


def hyperbolic_flow(
    t0: float, t1: float, dt: float, L: float, mu: float, start: float
) -> tuple[float, float]:
    """The weights for mu > 0 and a finite start: `hyperbolic_weights` at omega (t0 + start).

    >>> hyperbolic_flow(0.0, 1.0, 1.0, L=1.0, mu=0.25, start=0.0)  # eta_0 = inf: x joins z
    (1.0, 0.0)
    """
    if dt == 0.0:
        return 0.0, 0.0
    return hyperbolic_weights(omega(L, mu) * (t0 + start), omega(L, mu) * dt)


def hyperbolic_weights(u: float, d: float) -> tuple[float, float]:
    """(a, b) for mu > 0 and a finite start, from u = omega (t0 + start) to u + d.

    eta = 2 omega coth and eta' = 2 omega tanh, so that with S = sinh 2u and over v from u to u + d

        a = S^2 int 2 coth(v) / sinh^2(2v) dv        b = S^2 int 2 tanh(v) / sinh^2(2v) dv

    in closed form for small u, and as a series in e^{-2u} for large.

    >>> [round(weight, 6) for weight in hyperbolic_weights(1.0, 0.5)]
    [0.520008, 0.34892]
    """
    if u == 0.0:
        return 1.0, 0.0
    if u < 0.7:  # where the two are equally good: relative errors below 8 * 2^-52
        return _weights_near(u, d)
    return _weights_far(u, d)


def _weights_near(u: float, d: float) -> tuple[float, float]:
    # In tanh d, not u + d: nothing overflows, and small d loses no digits.
    tanh_d, tanh_u = math.tanh(d), math.tanh(u)
    sinh_2u, cosh_2u = math.sinh(2.0 * u), math.cosh(2.0 * u)
    up, down = tanh_u + tanh_d, 1.0 + tanh_u * tanh_d
    p = tanh_d * (sinh_2u + cosh_2u * tanh_d)
    log_part = 0.5 * sinh_2u**2 * math.log1p(2.0 * tanh_d / (sinh_2u * down))
    return p / up**2 - log_part, log_part - p * (tanh_u / down) ** 2


def _weights_far(u: float, d: float) -> tuple[float, float]:
    # A series in e = exp(-2u): the closed form in tanh and log cancels to nothing here.
    e = math.exp(-2.0 * u)
    power = 1.0
    even = odd = 0.0
    n = 2
    while n < 64 and power > 1e-18:
        even += n * power * -math.expm1(-2.0 * n * d)
        odd += (n + 1 - 1.0 / (n + 1)) * power * e * -math.expm1(-2.0 * (n + 1) * d)
        power *= e * e
        n += 2
    scale = 0.25 * (1.0 - e * e) ** 2
    return scale * (even + odd), scale * (even - odd)


def integrate_weights(
    eta: Callable[[float], float], eta_prime: Callable[[float], float], t0: float, dt: float
) -> tuple[float, float]:
    """(a, b) over [t0, t0 + dt] for any eta and eta_prime, by numerical integration.

    With h' = eta + eta', the difference z - x decays as exp(-h), hence
    a' = eta exp(-h) and b' = eta' exp(-h).  An infinite eta at t0 is read as a
    non-integrable one (such as 2/t at 0): x joins z at once.  Raises ArithmeticError where the
    integration fails.

    >>> a, b = integrate_weights(lambda t: 2.0 / t, lambda t: 0.0, 1.0, 1.0)
    >>> round(a, 12), b
    (0.75, 0.0)
    """
    from scipy.integrate import solve_ivp

    if dt == 0.0:
        return 0.0, 0.0
    if _is_infinite(eta, t0):
        return 1.0, 0.0

    def right_hand_side(t: float, y: list[float]) -> list[float]:
        rate, rate_prime, decay = eta(t), eta_prime(t), math.exp(-y[0])
        return [rate + rate_prime, rate * decay, rate_prime * decay]

    solution = solve_ivp(
        right_hand_side, (t0, t0 + dt), [0.0, 0.0, 0.0], method="DOP853", rtol=1e-13, atol=1e-15
    )
    if not solution.success:
        raise ArithmeticError(
            f"the flow could not be integrated over [{t0}, {t0 + dt}]: {solution.message}"
        )
    return float(solution.y[1, -1]), float(solution.y[2, -1])


def _is_infinite(eta: Callable[[float], float], t: float) -> bool:
    try:
        return math.isinf(eta(t))
    except ZeroDivisionError:  # 2 / t at t = 0, as a user would write it
        return True


FORMULAS = (
    mix,
    weights,
    convex_flow,
    exponential_flow,
    equal_weights,
    constant_weights,
    sharp_flow,
    quasar_convex_flow,
    quasar_exponential_flow,
    hyperbolic_flow,
    hyperbolic_weights,
    _weights_near,
    _weights_far,
)


def __dir__() -> list[str]:
    return sorted(__all__)
