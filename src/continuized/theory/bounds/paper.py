"""Theorems 1, 2, 3, 5 and 6: the right-hand sides, and what other theorems are made of.

Everything is computed as a logarithm, for A_t overflows when sqrt(mu/L) t > 709; log 0 = -inf is
meant.  What noise adds are integrals of A in closed form, for every start, each a sum of positive
terms, so that nothing cancels for small mu, small t or large arguments.  With omega = sqrt(mu/L)/2,
u = omega start, v = omega (t + start) and d = omega t:

    int_0^t sinh^2 omega(s + start) ds = (2 sinh^2((u+v)/2) sinh d + (sinh d - d)) / (2 omega).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.process import parameters
from continuized.process.methods import Continuized, GradientDescent, Method, Nesterov
from continuized.process.parameters import omega
from continuized.support import validation as check
from continuized.theory.checks import (
    check_any_method,
    check_counts,
    excess,
    name_of,
    squared_distance,
)

T = TypeVar("T")


class Query(NamedTuple):
    """What a bound is asked for: times t, or counts k of events, and the noise's variance.

    Exactly one of t and k is not None.  z0: where z starts, for the theorems that tell it from x_0.
    """

    t: Array | None
    k: Array | None
    sigma2: float = 0.0
    z0: Any = None


def make_query(t: ArrayLike | None, k: ArrayLike | None, sigma2: float = 0.0) -> Query:
    """Check what the user asks for; TypeError or ValueError where it makes no sense."""
    if (t is None) == (k is None):
        raise ValueError("give exactly one of t= and k=")
    sigma2 = check.real(sigma2, "sigma2", minimum=0.0)
    if t is not None:
        return Query(check.times(t, "t"), None, sigma2)
    return Query(None, check_counts(k), sigma2)  # type: ignore[arg-type]


def theorem_of(method: Any, theorems: Mapping[type, Callable[..., T]]) -> Callable[..., T]:
    """Look up the entry of a method's type, or of the nearest type that it derives from."""
    for kind in type(method).__mro__:
        if kind in theorems:
            return theorems[kind]
    check_any_method(method)
    raise ValueError(f"no theorem is known for the method {name_of(method)!r}; use Continuized")


def log_A(method: Continuized, t: Array) -> Array:
    """Return log A_t, elementwise."""
    return _each(lambda s: parameters.log_A(s, *method.parameters), t)


def log_B(method: Continuized, t: Array) -> Array:
    """Return log B_t, elementwise."""
    return _each(lambda s: parameters.log_B(s, *method.parameters), t)


def log_of(value: float) -> float:
    """log, with log 0 = -inf."""
    return math.log(value) if value > 0.0 else -math.inf


def _each(function: Callable[[float], float], t: Array) -> Array:
    """Compute a function of each of the times, which are often all the same."""
    times, places = np.unique(t, return_inverse=True)
    values = np.array([function(s) for s in times.tolist()], dtype=np.float64)
    return values[places].reshape(t.shape)[()]


def log_scale(method: Continuized) -> float:
    """What A_t is multiplied by in Theorem 5: 2L turns t^2 / (2L) into t^2."""
    return 0.0 if method.start == math.inf else math.log(2.0) + math.log(method.L)


def log_phi_0(method: Continuized, distance: float, excess: Callable[[], float]) -> float:
    """log of A_0 excess + B_0 distance; the excess is asked for only where A_0 > 0."""
    log_A_0 = parameters.log_A(0.0, *method.parameters)
    log_B_0 = parameters.log_B(0.0, *method.parameters)
    start = log_B_0 + log_of(distance)
    if log_A_0 == -math.inf:  # the theorem asks nothing of f(x_0)
        return start
    return float(np.logaddexp(log_A_0 + log_of(excess()), start))


def continuized_bound(
    method: Continuized, distance: float, excess: Callable[[], float], query: Query
) -> Array:
    """The log of phi_0 / A_t, or of the weighted bound at the k-th event, plus the noise's.

    distance and excess: as for `log_phi_0`.
    """
    t, k, sigma2, _ = query
    if t is not None:
        same = _without_large_start(method)
        log_phi = log_phi_0(same, distance, excess)
        # Started at the minimiser, the first term is 0, even at t = 0 where A_0 may be 0 too.
        first = log_phi - log_A(same, t) if log_phi > -math.inf else np.full(t.shape, -math.inf)
        noise = partial(_each, lambda s: log_mean_A(s, *method.parameters), t)
    else:
        assert k is not None
        first = np.full(k.shape, log_phi_0(method, distance, excess) + log_scale(method))
        noise = partial(log_mean_weight, method, k)
    if sigma2 == 0.0:
        return first[()]
    return np.logaddexp(first, np.log(sigma2) - np.log(method.L) + noise())  # type: ignore[no-any-return]


def _without_large_start(method: Continuized) -> Continuized:
    """start = inf where e^{-2 omega start} is below rounding: phi_0 / A_t is the same, but
    log A_t would lose the digits of t to those of start."""
    L, mu, start, tau = method.parameters
    return replace(method, start=None) if tau * parameters.omega(L, mu) * start > 20.0 else method


def log_decay(first: float, rate: float, query: Query, weighted: bool = False) -> Array:
    """The log of a bound e^first e^{-rate t}, or e^first (1 - rate)^k at the k-th event.

    Where `weighted`, what is bounded at events has the weight e^{rate T_k}, and nothing decays.
    """
    if query.t is not None:
        return first - rate * query.t
    assert query.k is not None
    if weighted:
        return np.full(query.k.shape, first)[()]
    return first + log_power(rate, query.k)


def log_power(r: float, k: Array) -> Array:
    """log (1 - r)^k, where 0^0 = 1."""
    if r >= 1.0:
        return np.where(k == 0, 0.0, -math.inf)[()]
    return k * math.log1p(-r)


def log_mean_A(t: float, L: float, mu: float, start: float, tau: float = 1.0) -> float:
    """log of int_0^t A_s ds / A_t.  At start = inf, of its limit sqrt(L/mu) / tau (Theorem 6.2)."""
    if mu > 0.0 and start == math.inf:
        return -math.log(tau * 2.0 * omega(L, mu))
    if t == 0.0:
        return -math.inf
    if mu == 0.0:
        ratio = start / (t + start)
        return math.log(t) + math.log((1.0 + ratio + ratio * ratio) / 3.0)
    w = tau * omega(L, mu)
    return log_of(mean_sinh2(w * start, w * (t + start), w * t)) - math.log(w)


def mean_sinh2(u: float, v: float, d: float) -> float:
    """int_u^v sinh^2 / sinh^2 v, with d = v - u > 0.

    In sinh^2((u+v)/2) sinh d / sinh^2 v the exponents cancel exactly: (u+v) + d = 2v.
    Ratios are taken first, and the rest as a logarithm: v^2 and d^3 may underflow.
    """
    half = math.expm1(-(u + v)) / math.expm1(-2.0 * v)  # sinh((u+v)/2) / sinh v, but for exponents
    rest = log_sinh_minus(d) - 2.0 * v - 2.0 * math.log(-math.expm1(-2.0 * v))
    return -0.5 * half * half * math.expm1(-2.0 * d) + 2.0 * math.exp(rest)


def log_mean_weight(method: Continuized, k: Array) -> Array:
    """log of E int_0^{T_k} weight(s) ds, T_k ~ Gamma(k, 1), with the weight of Theorem 5.

    mu = 0:       tau^2 ((T+start)^3 - start^3)/3,  with E T = k, E T^2 = k(k+1), ...
    start = inf:  (e^{qT} - 1)/q, q = tau sqrt(mu/L), with E e^{qT} = (1-q)^{-k}
    otherwise     2/q^2 int_0^T (cosh q(s + start) - 1) ds, with E e^{qT} and E e^{-qT}.
    """
    L, mu, start, tau = method.parameters
    n = k.astype(np.float64)
    with np.errstate(divide="ignore"):  # at k = 0
        if mu == 0.0:
            cubes = n * ((n + 1.0) * ((n + 2.0) / 3.0 + start) + start * start)
            return np.log(cubes) + 2.0 * math.log(tau)
        q = tau * 2.0 * parameters.omega(L, mu)
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
    rest = _each(log_sinh_minus, h)
    sine = _log_sum(log_expm1(m) + log_sinh(h), rest, log_n + log_atanh_minus(q))
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
    return x + np.log(-np.expm1(-x))


def log_sinh(x: Array) -> Array:
    """log sinh x, x >= 0."""
    return x + np.log(-np.expm1(-2.0 * x)) - math.log(2.0)


def log_cosh(x: Array) -> Array:
    """log cosh x, x >= 0."""
    return x + np.log1p(np.exp(-2.0 * x)) - math.log(2.0)


def log_sinh_minus(x: float) -> float:
    """log(sinh x - x), x >= 0: the series x^3/3! + x^5/5! + ... where they cancel."""
    if x == 0.0:
        return -math.inf
    if x >= 1.0:
        return x + math.log1p(-math.exp(-2.0 * x) - 2.0 * x * math.exp(-x)) - math.log(2.0)
    total, term, n = 1.0, 1.0, 2.0
    while n < 11.0:
        term = term * x * x / (2.0 * n * (2.0 * n + 1.0))
        total = total + term
        n = n + 1.0
    return 3.0 * math.log(x) - math.log(6.0) + math.log(total)


def log_atanh_minus(q: float) -> float:
    """log(atanh q - q), 0 < q < 1: the series q^3/3 + q^5/5 + ... where they cancel."""
    if q > 0.3:
        return math.log(math.atanh(q) - q)
    return 3.0 * math.log(q) + math.log(sum(q ** (2 * n) / (2 * n + 3) for n in range(17)))


def _continuized_theorem(method: Continuized, problem: Problem, x: Array, query: Query) -> Array:
    distance = squared_distance(problem, query.z0)
    return continuized_bound(method, distance, lambda: excess(problem, x), query)


def _nesterov_theorem(method: Nesterov, problem: Problem, x: Array, query: Query) -> Array:
    counts = _counts(method, query)
    log_R2 = log_of(squared_distance(problem, query.z0))
    if method.mu == 0.0:
        if log_R2 == -math.inf:
            return np.full(counts.shape, -math.inf)[()]
        with np.errstate(divide="ignore"):  # k = 0 says nothing: infinity
            return math.log(2.0) + math.log(method.L) + log_R2 - 2.0 * np.log(counts)
    first = np.logaddexp(log_of(excess(problem, x)), math.log(method.mu) - math.log(2.0) + log_R2)
    return float(first) + log_power(2.0 * parameters.omega(method.L, method.mu), counts)


def _gradient_descent_theorem(
    method: GradientDescent, problem: Problem, x: Array, query: Query
) -> Array:
    counts = _counts(method, query)
    log_R2 = log_of(squared_distance(problem, x))
    L, mu = method.L, problem.mu or 0.0
    if mu > 0.0:
        return math.log(L) - math.log(2.0) + log_R2 + log_power(mu / L, counts)
    return math.log(2.0) + math.log(L) + log_R2 - np.log(counts + 4.0)


def _counts(method: Method, query: Query) -> Array:
    """k for a method that counts iterations."""
    if query.k is None:
        raise ValueError(f"the bound of {method.name} counts iterations: give k=, not t=")
    return query.k


THEOREMS: dict[type, Callable[..., Array]] = {
    Continuized: _continuized_theorem,
    Nesterov: _nesterov_theorem,
    GradientDescent: _gradient_descent_theorem,
}
