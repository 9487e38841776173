"""Theorems 1, 2, 3, 5 and 6: the right-hand sides, and what other theorems are made of.

Everything is computed as a logarithm, for A_t overflows when sqrt(mu/L) t > 709.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Problem
from continuized.process import parameters
from continuized.process.methods import Continuized, GradientDescent, Method, Nesterov
from continuized.support import validation as check
from continuized.theory.bounds import noise_terms
from continuized.theory.checks import checked_counts, excess, squared_distance

T = TypeVar("T")


def theorem_of(method: Any, theorems: Mapping[type, Callable[..., T]]) -> Callable[..., T]:
    """The entry of a method's type, or of the nearest type that it derives from."""
    for kind in type(method).__mro__:
        if kind in theorems:
            return theorems[kind]
    raise ValueError(f"no theorem is known for the method {method.name!r}; use Continuized")


def log_A(method: Continuized, t: Array) -> Array:
    """log A_t, elementwise."""
    return _each(lambda s: parameters.log_A(s, *method.constants), t)


def log_B(method: Continuized, t: Array) -> Array:
    """log B_t, elementwise."""
    return _each(lambda s: parameters.log_B(s, *method.constants), t)


def log_of(value: float) -> float:
    """log, with log 0 = -inf."""
    return math.log(value) if value > 0.0 else -math.inf


def _each(function: Callable[[float], float], t: Array) -> Array:
    flat = np.array([function(s) for s in t.ravel().tolist()], dtype=np.float64)
    return flat.reshape(t.shape)[()]


def log_scale(method: Continuized) -> float:
    """What A_t is multiplied by in Theorem 5: 2L turns t^2 / (2L) into t^2."""
    return 0.0 if method.start == math.inf else math.log(2.0) + math.log(method.L)


def log_phi_0(method: Continuized, distance: float, excess: Callable[[], float]) -> float:
    """log of A_0 excess + B_0 distance; the excess is asked for only where A_0 > 0."""
    log_A_0 = parameters.log_A(0.0, *method.constants)
    log_B_0 = parameters.log_B(0.0, *method.constants)
    start = log_B_0 + log_of(distance)
    if log_A_0 == -math.inf:  # the theorem asks nothing of f(x_0)
        return start
    return float(np.logaddexp(log_A_0 + log_of(excess()), start))


def continuized_bound(
    method: Continuized,
    log_phi: Callable[[Continuized], float],
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float = 0.0,
) -> Array:
    """The log of phi_0 / A_t, or of the weighted bound at the k-th event, plus the noise's."""
    if t is not None:
        return _at_time(method, log_phi, check.times(t, "t"), sigma2)
    assert k is not None
    return _at_event(method, log_phi(method), checked_counts(k), sigma2)


def _at_time(
    method: Continuized, log_phi: Callable[[Continuized], float], t: Array, sigma2: float
) -> Array:
    same = _without_large_start(method)
    # Started at the minimiser, the first term is 0, even at t = 0 where A_0 may be 0 too.
    first = np.full(t.shape, -math.inf)
    if log_phi(same) > -math.inf:
        first = log_phi(same) - log_A(same, t)
    if sigma2 == 0.0:
        return first[()]
    noise = np.log(sigma2) - np.log(method.L) + noise_terms.log_mean_A(method, t)
    return np.logaddexp(first, noise)  # type: ignore[no-any-return]


def _without_large_start(method: Continuized) -> Continuized:
    """start = inf where e^{-2 omega start} is below rounding: phi_0 / A_t is the same, but
    log A_t would lose the digits of t to those of start."""
    L, mu, start = method.constants
    return Continuized(L, mu) if parameters.omega(L, mu) * start > 20.0 else method


def _at_event(method: Continuized, log_phi: float, k: Array, sigma2: float) -> Array:
    first = np.full(k.shape, log_phi + log_scale(method))
    if sigma2 == 0.0:
        return first[()]
    noise = np.log(sigma2) - np.log(method.L) + noise_terms.log_mean_weight(method, k)
    return np.logaddexp(first, noise)  # type: ignore[no-any-return]


def _continuized_theorem(
    method: Continuized,
    problem: Problem,
    x: Array,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    def log_phi(same: Continuized) -> float:
        return log_phi_0(same, squared_distance(problem, x), lambda: excess(problem, x))

    return continuized_bound(method, log_phi, t, k, sigma2)


def _nesterov_theorem(
    method: Nesterov,
    problem: Problem,
    x: Array,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    counts = _counts(method, t, k, sigma2)
    log_R2 = log_of(squared_distance(problem, x))
    if method.mu == 0.0:
        if log_R2 == -math.inf:
            return np.full(counts.shape, -math.inf)[()]
        with np.errstate(divide="ignore"):  # k = 0 says nothing: infinity
            return math.log(2.0) + math.log(method.L) + log_R2 - 2.0 * np.log(counts)
    first = np.logaddexp(log_of(excess(problem, x)), math.log(method.mu) - math.log(2.0) + log_R2)
    return float(first) + log_power(2.0 * parameters.omega(method.L, method.mu), counts)


def _gradient_descent_theorem(
    method: GradientDescent,
    problem: Problem,
    x: Array,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    counts = _counts(method, t, k, sigma2)
    log_R2 = log_of(squared_distance(problem, x))
    L, mu = method.L, problem.mu or 0.0
    if mu > 0.0:
        return math.log(L) - math.log(2.0) + log_R2 + log_power(mu / L, counts)
    return math.log(2.0) + math.log(L) + log_R2 - np.log(counts + 4.0)


def _counts(method: Method, t: ArrayLike | None, k: ArrayLike | None, sigma2: float) -> Array:
    """k for a method that counts iterations."""
    if t is not None:
        raise ValueError(f"the bound of {method.name} counts iterations: give k=, not t=")
    if sigma2 > 0.0:
        raise ValueError(
            f"no theorem of the paper covers noise for {method.name}; use Continuized, or sigma2=0"
        )
    assert k is not None
    return checked_counts(k).astype(np.float64)


def log_power(r: float, k: Array) -> Array:
    """log (1 - r)^k, where 0^0 = 1."""
    if r >= 1.0:
        return np.where(k == 0.0, 0.0, -math.inf)[()]
    return k * math.log1p(-r)


THEOREMS: dict[type, Callable[..., Array]] = {
    Continuized: _continuized_theorem,
    Nesterov: _nesterov_theorem,
    GradientDescent: _gradient_descent_theorem,
}
