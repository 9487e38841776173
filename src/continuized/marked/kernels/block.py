"""Events that touch a block of coordinates, mixed lazily as those of one (`lazy`).

Block B is members[bounds[B]:bounds[B + 1]].  The columns of A are as in `lazy.coordinate_events`,
on a function without entropy and with scale 1.
"""

from __future__ import annotations

import numpy as np

from continuized.marked.kernels.columns import (
    column_slope,
    plain_slope,
    plain_subtract,
    subtract_column,
)
from continuized.marked.kernels.coordinate import ALPHA, BETA, is_due, rebase
from continuized.marked.kernels.layout import REBASED, D, S
from continuized.process.coefficients import GAMMA_PRIME, A, B
from continuized.process.flow import mix
from continuized.support.jit import jit


@jit
def block_events(
    marks, coefficients, steps, weights, ridge, center, members, bounds, indptr, indices, values,
    targets, h, scalars, pairs, images,
):  # fmt: skip
    """At a mark B, with g = dF/dx_B, x_B -= steps_B g and z_B -= gamma' weights_B g.

    All of g is of the same x: it is taken before anything is subtracted.
    """
    kind, c = h
    g = np.empty(members.size)
    alpha, beta = scalars[ALPHA], scalars[BETA]
    for e in range(marks.size):
        alpha, beta = mix(alpha, beta, coefficients[e, A], coefficients[e, B])
        if is_due(alpha, beta):
            rebase(alpha, beta, pairs)
            rebase(alpha, beta, images)
            alpha, beta = REBASED
        block = marks[e]
        for j in range(bounds[block], bounds[block + 1]):
            i = np.uintp(members[j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
            slope = column_slope(kind, alpha, begin, end, indices, values, targets, images)
            g[j] = c * slope + ridge[i] * (pairs[i, S] + alpha * pairs[i, D] - center[i])
        for j in range(bounds[block], bounds[block + 1]):
            i = np.uintp(members[j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
            dx = steps[block] * g[j]
            dd = (dx - coefficients[e, GAMMA_PRIME] * weights[block] * g[j]) / (alpha - beta)
            ds = dx - alpha * dd
            pairs[i, S] -= ds
            pairs[i, D] -= dd
            subtract_column(begin, end, indices, values, ds, dd, images)
    scalars[ALPHA], scalars[BETA] = alpha, beta


@jit
def plain_block_events(
    marks, steps, ridge, center, members, bounds, indptr, indices, values, targets, h, x, u
):
    """The same without acceleration: x_B -= steps_B g."""
    kind, c = h
    g = np.empty(members.size)
    for e in range(marks.size):
        block = marks[e]
        for j in range(bounds[block], bounds[block + 1]):
            i = np.uintp(members[j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
            slope = plain_slope(kind, begin, end, indices, values, targets, u)
            g[j] = c * slope + ridge[i] * (x[i] - center[i])
        for j in range(bounds[block], bounds[block + 1]):
            i = np.uintp(members[j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
            dx = steps[block] * g[j]
            x[i] -= dx
            plain_subtract(begin, end, indices, values, dx, u)
