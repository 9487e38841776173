"""Exact expectations of f + psi on a Quadratic where the proximal step is an affine map of z.

u = x - x*, w = z - x*, x* the minimiser of f + psi, H the Hessian of f.  An event moves w by -b s,
and u by eta as much, where

    psi = sum l2_i/2 x_i^2:     s = H u + l2 w,  b = gamma' / (1 + gamma' l2), entry by entry
    psi keeps <normal, x>:      s = P H u,       b = gamma',  P the projection along the normal

The first is a pair of numbers to a coordinate, which live alone.  In the second u and w stay in the
plane, and the event is that of full gradients with P H in place of H.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array
from continuized.problems.quadratic import Quadratic
from continuized.process.composite import Composite
from continuized.process.methods import Continuized
from continuized.process.prox import Halfspace, Hyperplane, Separable
from continuized.support.progress import Bar
from continuized.support.validation import short_repr
from continuized.theory.checks import check_continuized, start_of
from continuized.theory.moments.integrate import (
    LEAST_MOMENT,
    PIECE_FALL,
    EvaluationBudget,
    integrate_moments,
    solve,
)
from continuized.theory.moments.pair import (
    Marks,
    Moments,
    PairMoments,
    flow_slope,
    jump_slope,
    rates_of,
)

MOST_VARIABLES = 100  # on a plane: the ODE has 3 d^2 unknowns


def affine_moments(
    p: Quadratic, method: Any, x0: ArrayLike, t: Array, prox: Any, show: Bar
) -> Moments:
    """E F(x_t), and the moments of x - x* and z - x*, x* that of F = f + psi.

    Raises TypeError where the step of prox is no affine map.
    """
    method = check_continuized(method, "moments with prox=")
    x = start_of(p, x0).ravel()
    method = Composite(prox, x.shape).begin(method, x)
    if isinstance(prox, Hyperplane) and not isinstance(prox, Halfspace):
        return _on_a_plane(p, method, x, t, prox, show)
    if isinstance(prox, Separable) and _is_quadratic(prox):
        return _with_l2(p, method, x, t, np.broadcast_to(prox.l2, x.shape), show)
    raise TypeError(
        "exact moments need a proximal step that is an affine map, as of cz.prox.Hyperplane or "
        f"cz.prox.Separable(l2=...), and that of {short_repr(prox)} is not; use an ensemble"
    )


def _is_quadratic(prox: Separable) -> bool:
    """Tell whether psi is a sum of squares on the whole space."""
    is_unbounded = np.all(prox.low == -np.inf) and np.all(prox.high == np.inf)
    return bool(np.all(prox.l1 == 0.0) and is_unbounded)


def _with_l2(
    p: Quadratic, method: Continuized, x: Array, times: Array, l2: Array, show: Bar
) -> Moments:
    lam, rates = p.eigenvalues, rates_of(method)
    total = lam + l2
    star = np.divide(lam * p.x_star, total, out=p.x_star.copy(), where=total > 0.0)
    last = float(times.max(initial=0.0))
    budget = EvaluationBudget(last, show, 3 * x.size)

    def slope(t: float, m: PairMoments) -> PairMoments:
        """d/dt of the pair moments, which is linear in them."""
        budget.add(t)
        (uu, uw, ww), eta = m, rates.eta(t)
        us, ws = lam * uu + l2 * uw, lam * uw + l2 * ww
        ss, b = lam * us + l2 * ws, rates.gamma_prime(t) / (1.0 + rates.gamma_prime(t) * l2)
        a = eta * b
        by_flow = flow_slope(eta, rates.eta_prime(t), 1.0, 1.0, uu, uw, uw, ww)
        by_events = (
            jump_slope(a, a, ss, us, us), jump_slope(a, b, ss, ws, us), jump_slope(b, b, ss, ws, ws)
        )  # fmt: skip
        return np.asarray(np.array(by_flow) + np.array(by_events))

    u = x - star
    now, m, rows = 0.0, np.stack([u * u] * 3), []
    for stop in times.tolist():
        while now < stop and m.any():
            # In units of what they are now, for they decay below any absolute tolerance.
            size = m[::2].max(axis=0)
            unit = np.where(size > 0.0, size, 1.0)
            now, y = solve(slope, m / unit, now, stop, _falls_below(PIECE_FALL * (m / unit)[::2]))
            m = y * unit
            m[:, m[::2].max(axis=0) < LEAST_MOMENT] = 0.0
        rows.append(m)
    found = np.array(rows).reshape(len(times), 3, x.size)
    least_F = p.fun(star) + 0.5 * float((l2 * star * star).sum())
    fun = least_F + 0.5 * (found[:, 0] * total).sum(axis=1)
    return Moments.from_rows(times, None, fun, found)


def _falls_below(least: Array) -> Callable[[Array], bool]:
    return lambda m: bool((m[::2] < least).any())


def _on_a_plane(
    p: Quadratic, method: Continuized, x: Array, times: Array, prox: Hyperplane, show: Bar
) -> Moments:
    if x.size > MOST_VARIABLES:
        raise ValueError(
            f"exact moments on a plane are for at most {MOST_VARIABLES} variables, x has "
            f"{x.size}; use an ensemble"
        )
    if not np.all(p.eigenvalues > 0.0):
        raise ValueError(
            "exact moments on a plane need eigenvalues > 0, for x* there; use an ensemble"
        )
    normal = prox.normal.ravel() / np.linalg.norm(prox.normal)
    # On the plane H (x* - x*_f) is along the normal.
    along = normal / p.eigenvalues
    excess = float(normal @ p.x_star) - prox.offset / float(np.linalg.norm(prox.normal))
    star = p.x_star - along * (excess / float(normal @ along))
    # In a basis of the plane: what rounding adds beside it would never decay.
    basis = np.linalg.svd(normal[np.newaxis])[2][1:].T
    pulled, u = basis.T @ (p.eigenvalues[:, None] * basis), basis.T @ (x - star)
    one = np.ones(u.size)
    marks = Marks(lambda A: pulled @ A, lambda A: pulled @ A @ pulled, one, one)
    start = np.stack([np.outer(u, u)] * 3)
    found = list(integrate_moments(rates_of(method), marks, start, times, show=show))
    inside = np.array(found).reshape(len(times), 3, u.size, u.size)
    m = np.einsum("tbii->tbi", basis @ inside @ basis.T)
    fun = p.fun(star) + 0.5 * (m[:, 0] * p.eigenvalues).sum(axis=1)
    return Moments.from_rows(times, None, fun, m)
