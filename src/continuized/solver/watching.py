"""What a run with known constants is watched for: the stopping tests, and witnesses."""

from __future__ import annotations

import math

import numpy as np

from continuized.problems.base import Array
from continuized.process.methods import Method
from continuized.solver.kernels import loop as kernel
from continuized.solver.result import Status

SIGNALS = {kernel.NOT_FINITE: Status.NOT_FINITE, kernel.DIVERGED: Status.DIVERGED}


def skipped_sentence(n: int) -> str:
    """What a message says of n gradients that were skipped."""
    return f" {n} gradients that were not finite were skipped." if n else ""


def scale_of_gradients(watch: Array, f0: float) -> None:
    """The least that max |g| is taken for, by f at the start.

    A gradient is a sum that may cancel, as at a warm start; its rounding errors are those of the
    terms.  sqrt(2 L |f|), the largest gradient that f >= 0 allows, measures them.
    """
    scale = 2.0 * watch[kernel.L] * abs(f0)
    if math.isfinite(scale):
        watch[kernel.G_MAX] = scale


def watch_for(method: Method, tol: float | None, noisy: bool, eps: float) -> Array:
    """What a run is watched for: see the entries in `kernels.loop`."""
    watch = np.zeros(kernel.WATCH_SIZE)
    watch[kernel.TOL2] = -1.0 if tol is None else tol * tol
    watch[kernel.LIMIT2] = math.inf
    watch[kernel.L] = method.L if not noisy else math.nan
    watch[kernel.MU] = method.mu
    watch[kernel.EPS] = eps
    watch[kernel.MU_SEEN] = math.inf
    return watch


def witness_sentence(watch: Array) -> str | None:
    """What the gradients seen say against L or mu."""
    L, mu = watch[kernel.L], watch[kernel.MU]
    L_seen, mu_seen = watch[kernel.L_SEEN], watch[kernel.MU_SEEN]
    if math.isinf(L_seen) or mu_seen < 0.0:
        return (
            "two gradients show that f is not convex, or that its gradient is wrong: "
            f"<g - g', y - y'> < 0; no L makes the method converge (L = {L:.6g} was used)"
        )
    if L_seen > 0.0:
        return f"L = {L:.6g} is too small: two gradients show that L is at least {L_seen:.6g}"
    if math.isfinite(mu_seen):
        return f"mu = {mu:.6g} is too large: two gradients show that mu is at most {mu_seen:.6g}"
    return None
