"""What noise adds to the bounds: integrals of A in closed form, for every start.

Each formula is a sum of positive terms, so that nothing cancels for small mu, small t or
large arguments.  With omega = sqrt(mu/L)/2, u = omega start, v = omega (t + start) and
d = omega t:

    int_0^t sinh^2 omega(s + start) ds = (2 sinh^2((u+v)/2) sinh d + (sinh d - d)) / (2 omega).
"""

from __future__ import annotations

import math

import numpy as np

from continuized.problems.base import Array
from continuized.process import parameters
from continuized.process.methods import Continuized


def log_mean_A(method: Continuized, t: Array) -> Array:
    """log of int_0^t A_s ds / A_t.  At start = inf, of its limit sqrt(L/mu) (Theorem 6.2)."""
    L, mu, start = method.constants
    if mu > 0.0 and start == math.inf:
        return np.zeros(t.shape)[()] - math.log(2.0 * parameters.omega(L, mu))
    with np.errstate(divide="ignore", invalid="ignore"):
        if mu == 0.0:
            end = t + start
            ratio = np.where(end > 0.0, start / end, 0.0)
            third: Array = np.log(t) + np.log((1.0 + ratio + ratio * ratio) / 3.0)
            return third
        w = parameters.omega(L, mu)
        mean = _mean_sinh2(w * start, w * (t + start), w * t)
        return np.log(np.where(t > 0.0, mean, 0.0)) - math.log(w)


def _mean_sinh2(u: float, v: Array, d: Array) -> Array:
    """int_u^v sinh^2 / sinh^2 v, with d = v - u.

    In sinh^2((u+v)/2) sinh d / sinh^2 v the exponents cancel exactly: (u+v) + d = 2v.
    Ratios are taken first, and the rest as a logarithm: v^2 and d^3 may underflow.
    """
    half = np.expm1(-(u + v)) / np.expm1(-2.0 * v)  # sinh((u+v)/2) / sinh v, but for exponents
    rest = log_sinh_minus(d) - 2.0 * v - 2.0 * np.log(-np.expm1(-2.0 * v))  # -inf at large v
    return np.asarray(0.5 * half**2 * -np.expm1(-2.0 * d) + 2.0 * np.exp(rest))


def log_mean_weight(method: Continuized, k: Array) -> Array:
    """log of E int_0^{T_k} weight(s) ds, T_k ~ Gamma(k, 1), with the weight of Theorem 5.

    mu = 0:       ((T+start)^3 - start^3)/3,  with E T = k, E T^2 = k(k+1), ...
    start = inf:  (e^{qT} - 1)/q,             with E e^{qT} = (1-q)^{-k}
    otherwise     2/q^2 int_0^T (cosh q(s + start) - 1) ds, with E e^{qT} and E e^{-qT}.
    """
    L, mu, start = method.constants
    n = k.astype(np.float64)
    with np.errstate(divide="ignore"):  # log 0 = -inf at k = 0
        if mu == 0.0:
            return np.log(n * ((n + 1.0) * ((n + 2.0) / 3.0 + start) + start * start))
        q = 2.0 * parameters.omega(L, mu)
        if q >= 1.0:
            return np.where(n > 0.0, math.inf, -math.inf)[()]
        if start == math.inf:
            return log_expm1(-n * math.log1p(-q)) - math.log(q)
        return _log_mean_hyperbolic(n, q, q * start)


def _log_mean_hyperbolic(n: Array, q: float, v: float) -> Array:
    """log of 2/q^2 E int_0^T (cosh(qs + v) - 1) ds.

    With (1-q)^{-n} = e^{m+h} and (1+q)^{-n} = e^{m-h}, E sinh qT = e^m sinh h and
    E cosh qT = e^m cosh h, and the integral splits into

        cosh v (e^m sinh h - qn)/q  +  sinh v (e^m cosh h - 1)/q  +  n (cosh v - 1).
    """
    m, h = -0.5 * n * math.log1p(-q * q), n * math.atanh(q)
    log_n = np.log(n)
    sine = _log_sum(log_expm1(m) + log_sinh(h), log_sinh_minus(h), log_n + log_atanh_minus(q))
    cosine = _log_sum(log_expm1(m) + log_cosh(h), math.log(2.0) + 2.0 * log_sinh(0.5 * h))
    half = np.asarray(0.5 * v)
    total = _log_sum(
        log_cosh(np.asarray(v)) + sine - math.log(q),
        log_sinh(np.asarray(v)) + cosine - math.log(q),
        math.log(2.0) + 2.0 * log_sinh(half) + log_n,
    )
    return total + math.log(2.0) - 2.0 * math.log(q)


def _log_sum(*logs: Array | float) -> Array:
    return np.logaddexp.reduce(np.broadcast_arrays(*logs))  # type: ignore[no-any-return]


def log_expm1(x: Array) -> Array:
    """log(e^x - 1), x >= 0."""
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-x))


def log_sinh(x: Array) -> Array:
    """log sinh x, x >= 0."""
    with np.errstate(divide="ignore"):
        return x + np.log(-np.expm1(-2.0 * x)) - math.log(2.0)


def log_cosh(x: Array) -> Array:
    """log cosh x, x >= 0."""
    return x + np.log1p(np.exp(-2.0 * x)) - math.log(2.0)


def log_sinh_minus(x: Array) -> Array:
    """log(sinh x - x), x >= 0: the series x^3/3! + x^5/5! + ... where they cancel."""
    x = np.asarray(x, dtype=np.float64)
    small = np.minimum(x, 1.0)
    total, term = np.ones_like(small), np.ones_like(small)
    for n in range(2, 11):
        term = term * small * small / (2 * n * (2 * n + 1))
        total = total + term
    large = np.maximum(x, 1.0)
    with np.errstate(divide="ignore"):
        near = 3.0 * np.log(small) - math.log(6.0) + np.log(total)
    far = large + np.log1p(-np.exp(-2.0 * large) - 2.0 * large * np.exp(-large)) - math.log(2.0)
    return np.where(x < 1.0, near, far)[()]


def log_atanh_minus(q: float) -> float:
    """log(atanh q - q), 0 < q < 1: the series q^3/3 + q^5/5 + ... where they cancel."""
    if q > 0.3:
        return math.log(math.atanh(q) - q)
    return 3.0 * math.log(q) + math.log(sum(q ** (2 * n) / (2 * n + 3) for n in range(17)))
