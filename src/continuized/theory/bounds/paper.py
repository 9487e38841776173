"""Theorems 1, 2, 3, 5 and 6: the right-hand sides, and what other theorems are made of.

Everything is computed as a logarithm, for A_t overflows when sqrt(mu/L) t > 709.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.process import parameters
from continuized.process.methods import Continuized, GradientDescent, Method, Nesterov
from continuized.theory.bounds import noise_terms
from continuized.theory.checks import check_any_method, excess, name_of, squared_distance

T = TypeVar("T")


class Query(NamedTuple):
    """What a bound is asked for: times t, or counts k of events, and the noise's variance.

    Exactly one of t and k is not None.
    """

    t: Array | None
    k: Array | None
    sigma2: float = 0.0


def theorem_of(method: Any, theorems: Mapping[type, Callable[..., T]]) -> Callable[..., T]:
    """Look up the entry of a method's type, or of the nearest type that it derives from."""
    for kind in type(method).__mro__:
        if kind in theorems:
            return theorems[kind]
    check_any_method(method)
    raise ValueError(f"no theorem is known for the method {name_of(method)!r}; use Continuized")


def log_A(method: Continuized, t: Array) -> Array:
    """Return log A_t, elementwise."""
    return _each(lambda s: parameters.log_A(s, *method.constants), t)


def log_B(method: Continuized, t: Array) -> Array:
    """Return log B_t, elementwise."""
    return _each(lambda s: parameters.log_B(s, *method.constants), t)


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
    log_A_0 = parameters.log_A(0.0, *method.constants)
    log_B_0 = parameters.log_B(0.0, *method.constants)
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
    t, k, sigma2 = query
    if t is not None:
        same = _without_large_start(method)
        log_phi = log_phi_0(same, distance, excess)
        # Started at the minimiser, the first term is 0, even at t = 0 where A_0 may be 0 too.
        first = log_phi - log_A(same, t) if log_phi > -math.inf else np.full(t.shape, -math.inf)
        noise = partial(noise_terms.log_mean_A, method, t)
    else:
        assert k is not None
        first = np.full(k.shape, log_phi_0(method, distance, excess) + log_scale(method))
        noise = partial(noise_terms.log_mean_weight, method, k)
    if sigma2 == 0.0:
        return first[()]
    return np.logaddexp(first, np.log(sigma2) - np.log(method.L) + noise())  # type: ignore[no-any-return]


def _without_large_start(method: Continuized) -> Continuized:
    """start = inf where e^{-2 omega start} is below rounding: phi_0 / A_t is the same, but
    log A_t would lose the digits of t to those of start."""
    L, mu, start = method.constants
    return Continuized(L, mu) if parameters.omega(L, mu) * start > 20.0 else method


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


def _continuized_theorem(method: Continuized, problem: Problem, x: Array, query: Query) -> Array:
    distance = squared_distance(problem, x)
    return continuized_bound(method, distance, lambda: excess(problem, x), query)


def _nesterov_theorem(method: Nesterov, problem: Problem, x: Array, query: Query) -> Array:
    counts = _counts(method, query)
    log_R2 = log_of(squared_distance(problem, x))
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
