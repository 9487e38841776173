"""The bound for DADAO, proved in docs/proofs/dadao.md.

E mean_i |x_i - x*|^2 <= C e^{-rt} with r = sqrt(mu/L) / (8 sqrt 2) and, from the start 0,

    C = (4/mu) (F(0) - F*) + 7/(8 mu L) mean_i |grad f_i(x*)|^2 + (3 mu/(16 L)) |x*|^2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from continuized.network.optimisation.dadao.method import DADAO
from continuized.network.optimisation.objective import Objective
from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.theory.bounds.dual import check_pair
from continuized.theory.bounds.paper import log_of
from continuized.theory.checks import checked_counts


def log_bound(
    method: DADAO,
    pair: Any,
    x0: ArrayLike,
    t: ArrayLike | None,
    k: ArrayLike | None,
    sigma2: float,
) -> Array:
    """The logarithm of the bound on E mean_i |x_i - x*|^2, at times t or at the k-th event."""
    graph, objective = check_pair(pair, "DADAO")
    check_start(x0)
    if sigma2 > 0.0:
        raise ValueError("no theorem here covers noise for DADAO; use sigma2=0")
    first = log_of(constant(objective))
    if t is not None:
        return first - method.rate(graph, objective) * check.times(t, "t")
    assert k is not None
    return np.full(checked_counts(k).shape, first)[()]


def constant(objective: Objective) -> float:
    """C."""
    from continuized.network.optimisation.dual.function import slopes_at_minimiser

    L, mu, x_star = objective.L, objective.mu, objective.x_star
    excess = max(objective.fun(np.zeros_like(x_star)) - objective.f_star, 0.0)
    slopes = slopes_at_minimiser(objective)
    apart = float(np.vdot(slopes, slopes)) / objective.nodes
    return (
        4.0 * excess / mu
        + 0.875 * apart / mu / L
        + 0.1875 * mu / L * float(np.vdot(x_star, x_star))
    )


def check_start(x0: ArrayLike) -> None:
    """Raise ValueError unless x0 is 0: all six vectors of a node start there."""
    if np.any(check.array(x0, "x0") != 0.0):
        raise check.refusal(ValueError, "x0", "0, where DADAO starts", x0)
