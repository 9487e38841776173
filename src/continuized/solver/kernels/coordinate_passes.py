"""Passes of coordinate steps on a quadratic function with a separable psi, compiled."""

from __future__ import annotations

from continuized.process.prox import FORMULAS, entry_step
from continuized.support.jit import compile_formulas, jit

compile_formulas(*FORMULAS, error_model="numpy")


@jit
def descend(H, g, x, psi, least, most):
    """Take passes of steps along each coordinate, in place, until one gains little; return them.

    f has the Hessian H and at x the gradient g, both of which change along; the rows of psi are
    l1, l2, low and high.  A step of s along coordinate i gains at least (H_ii + l2_i) s^2 / 2.
    """
    for k in range(most):
        gain = 0.0
        for i in range(x.size):
            curvature = H[i, i]
            if curvature > 0.0:
                new = entry_step(
                    x[i] - g[i] / curvature, 1.0 / curvature, psi[0, i], psi[1, i], psi[2, i],
                    psi[3, i],
                )  # fmt: skip
            else:  # along it f is flat: psi alone counts
                new = min(max(0.0, psi[2, i]), psi[3, i])
            step = new - x[i]
            if step != 0.0:
                gain += 0.5 * (curvature + psi[1, i]) * step * step
                x[i] = new
                line = H[i]
                for j in range(x.size):
                    g[j] += step * line[j]
        if gain <= least:
            return k + 1
    return most
