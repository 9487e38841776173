"""Second moments of the pair (u, w) = (x - x*, z - x*), and how flow and events move them.

Pair moments are an array of the rows E uu, E uw and E ww: of shape (3, d) where every coordinate
lives alone (a diagonal), and (3, d, d) otherwise.  An event of a random matrix G does

    u -= a * (G u)        w -= b * (G u)

entry by entry, a and b the steps of x and z.  So the moments obey a linear equation that needs of
the marks only the maps A -> E[G] A (`pull`) and A -> E[G A G^T] (`spread`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array
from continuized.problems.quadratic import Quadratic
from continuized.process import parameters
from continuized.process.methods import (
    Continuized,
    CustomContinuized,
    Method,
    SharpContinuized,
    check_method,
)
from continuized.support.display import shown

PairMoments = Array


@shown
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

    @classmethod
    def from_rows(cls, t: Array | None, k: Array | None, fun: Array, rows: Array) -> Moments:
        """Put together E f and the pair moments, of shape (number of times, 3, columns)."""
        xx, xz, zz = np.moveaxis(rows, 1, 0)
        return cls(t, k, fun, zz.sum(axis=1), xx, xz, zz)

    @classmethod
    def on_quadratic(cls, p: Quadratic, t: Array | None, k: Array | None, rows: Array) -> Moments:
        """Put together the pair moments of a quadratic, with a column to a coordinate."""
        fun = p.f_star + 0.5 * (rows[:, 0] * p.eigenvalues).sum(axis=1)
        return cls.from_rows(t, k, fun, rows)


class Rates(NamedTuple):
    """eta, eta', gamma, gamma' as functions of t."""

    eta: Callable[[float], float]
    eta_prime: Callable[[float], float]
    gamma: Callable[[float], float]
    gamma_prime: Callable[[float], float]

    @classmethod
    def constant(
        cls, theta: float, gamma: float, gamma_prime: float, eta_prime: float | None = None
    ) -> Rates:
        """Make rates that do not change, with eta = theta, and eta' too unless it is given."""
        other = theta if eta_prime is None else eta_prime
        return cls(lambda t: theta, lambda t: other, lambda t: gamma, lambda t: gamma_prime)


class Marks(NamedTuple):
    """What events do: the means over the marks, and the steps of each coordinate.

    pull: A -> E[G] A.  spread: A -> E[G A G^T], for symmetric A.  The steps of x are
    gamma(t) * steps, those of z are gamma'(t) * weights.  noise: the variance that an event adds to
    every entry of G u.
    """

    pull: Callable[[Array], Array]
    spread: Callable[[Array], Array]
    steps: Array
    weights: Array
    noise: float = 0.0

    @classmethod
    def diagonal(
        cls, mean: Array, square: Array, steps: Array, weights: Array, noise: float = 0.0
    ) -> Marks:
        """Make marks under which every coordinate lives alone: G is diagonal, of these E[G] and
        E[G^2]."""
        return cls(lambda A: mean * A, lambda A: square * A, steps, weights, noise)


def rates_of(
    method: Method, advice: str = "use Continuized, SharpContinuized or CustomContinuized"
) -> Rates:
    """Look up the scalars of a method in continuous time; ValueError, with advice, for others."""
    if isinstance(method, CustomContinuized):
        return Rates(method.eta, method.eta_prime, method.gamma, method.gamma_prime)
    if isinstance(method, SharpContinuized):
        L, mu = method.L, method.mu
        steps = parameters.gamma(L), parameters.sharp_gamma_prime(L, mu)
        eta_prime = parameters.sharp_eta_prime(L, mu)
        return Rates.constant(parameters.sharp_eta(L, mu), *steps, eta_prime=eta_prime)
    check_method(method)
    if not isinstance(method, Continuized):
        raise ValueError(f"{method.name} counts iterations: {advice}")
    c = method.parameters
    return Rates(
        lambda t: parameters.eta(t, *c),
        lambda t: parameters.eta_prime(t, *c),
        lambda t: parameters.gamma(method.L),
        lambda t: parameters.gamma_prime(t, *c),
    )


def parameter_rows(method: Method, times: Array) -> Array:
    """Return eta, eta', gamma and gamma' of a method at many times, a row each."""
    rates = rates_of(method)
    if getattr(method, "start", None) == math.inf or isinstance(method, SharpContinuized):
        return np.tile([rate(0.0) for rate in rates], (len(times), 1))
    rows = [[rate(t) for rate in rates] for t in times.tolist()]
    return np.array(rows, dtype=np.float64).reshape(-1, 4)


def flow_slope(
    eta: Any, eta_prime: Any, ratio: Any, inverse: Any, uu: Any, uw: Any, wu: Any, ww: Any
) -> tuple[Any, Any, Any]:
    """d/dt of (uu, uw, ww) between events, wu the transpose of uw.

    w is in units `ratio` times larger than those of u: u' = eta (ratio w - u) and
    w' = eta' (inverse u - w), inverse = 1 / ratio.
    """
    both = uw + wu
    return (
        eta * (ratio * both - 2.0 * uu),
        eta * (ratio * ww - uw) + eta_prime * (inverse * uu - uw),
        eta_prime * (inverse * both - 2.0 * ww),
    )


def jump_slope(a: Any, b: Any, spread: Any, left: Any, right: Any) -> Any:
    """What events add to E[v v'^T] in unit time, where v -= a G u and v' -= b G u.

    left is E[G] E[u v'^T], and right is E[v u^T] E[G]^T.
    """
    return a * b * spread - a * left - b * right


def jump_noise(gamma: Any, gamma_prime: Any) -> Array:
    """What noise of variance 1 adds to (uu, uw, ww) at an event with these steps."""
    return np.array([gamma * gamma, gamma * gamma_prime, gamma_prime * gamma_prime])


def flow_matrix(eta: ArrayLike, eta_prime: ArrayLike) -> Array:
    """`flow_slope` as matrices on (uu, uw, ww), uw symmetric: of shape (*eta.shape, 3, 3)."""
    uu, uw, ww = np.eye(3)
    e, f = np.asarray(eta)[..., None], np.asarray(eta_prime)[..., None]
    return np.stack(flow_slope(e, f, 1.0, 1.0, uu, uw, uw, ww), axis=-2)


def slope(
    eta: float, eta_prime: float, ratio: Array, a: Array, b: Array, marks: Marks,
    m: PairMoments, noise: Array,
) -> PairMoments:  # fmt: skip
    """d/dt of pair moments by flow and events; units as in `flow_slope`.

    a and b are the steps of each coordinate; noise is what it adds to E[G uu G^T] of diagonals.
    """
    uu, uw, ww = m
    if m.ndim == 3:
        # Rounding makes uu and ww not symmetric, and the difference would grow, while all else
        # decays: here it is not seen, and `symmetrise` takes it out.
        uu = 0.5 * (uu + uu.T)
    S = marks.spread(uu) + noise if m.ndim == 2 else marks.spread(uu)
    moments, out = (uu, uw, ww, S, marks.pull(uu), marks.pull(uw)), np.empty_like(m)
    _compile()(eta, eta_prime, (ratio[()], (1.0 / ratio)[()], a, b), moments, out)
    return out


def _sweep_in_numpy(
    eta: float, eta_prime: float, scales: Any, moments: tuple[Array, ...], out: PairMoments
) -> None:
    ratio, inverse, a, b = scales
    uu, uw, ww, S, U, W = moments  # of diagonals, each is its own transpose
    a_rows, b_rows = (a, b) if out.ndim == 2 else (a[:, np.newaxis], b[:, np.newaxis])
    moved = flow_slope(eta, eta_prime, ratio, inverse, uu, uw, uw.T, 0.5 * (ww + ww.T))
    out[0] = moved[0] + jump_slope(a_rows, a, S, U, U.T)
    out[1] = moved[1] + jump_slope(a_rows, b, S, W, U.T)
    out[2] = moved[2] + jump_slope(b_rows, b, S, W, W.T)


def _sweep(
    eta: float, eta_prime: float, scales: Any, moments: tuple[Array, ...], out: PairMoments
) -> None:
    """All in one pass, which makes no arrays on the way.  Of full matrices, an entry and its
    transpose at a time; out.ndim is known when Numba compiles."""
    ratio, inverse, a, b = scales
    uu, uw, ww, S, U, W = moments
    for i in range(len(a)):
        if out.ndim == 2:
            moved = flow_slope(eta, eta_prime, ratio[i], inverse[i], uu[i], uw[i], uw[i], ww[i])
            out[0, i] = moved[0] + jump_slope(a[i], a[i], S[i], U[i], U[i])
            out[1, i] = moved[1] + jump_slope(a[i], b[i], S[i], W[i], U[i])
            out[2, i] = moved[2] + jump_slope(b[i], b[i], S[i], W[i], W[i])
        else:
            for j in range(i + 1):
                u, v, v_T, w = uu[i, j], uw[i, j], uw[j, i], 0.5 * (ww[i, j] + ww[j, i])
                in_uu, in_uw, in_ww = flow_slope(eta, eta_prime, ratio, inverse, u, v, v_T, w)
                in_wu = flow_slope(eta, eta_prime, ratio, inverse, u, v_T, v, w)[1]
                in_uu += jump_slope(a[i], a[j], S[i, j], U[i, j], U[j, i])
                in_ww += jump_slope(b[i], b[j], S[i, j], W[i, j], W[j, i])
                out[0, i, j] = out[0, j, i] = in_uu
                out[1, i, j] = in_uw + jump_slope(a[i], b[j], S[i, j], W[i, j], U[j, i])
                out[1, j, i] = in_wu + jump_slope(a[j], b[i], S[i, j], W[j, i], U[i, j])
                out[2, i, j] = out[2, j, i] = in_ww


@cache
def _compile() -> Any:
    from continuized.support.jit import compile_formulas, in_numpy, jit

    compile_formulas(flow_slope, jump_slope)
    return jit(in_numpy(_sweep_in_numpy)(_sweep))


def symmetrise(m: Array) -> Array:
    """Make the first and the last of full matrices symmetric; diagonals stay as they are."""
    if m.ndim == 3:
        m[::2] = 0.5 * (m[::2] + np.swapaxes(m[::2], 1, 2))
    return m


def sizes(m: PairMoments) -> Array:
    """E uu and E ww of each coordinate where it lives alone, else the largest of all."""
    return m[::2] if m.ndim == 2 else np.diagonal(m[::2], axis1=1, axis2=2).max(axis=1)
