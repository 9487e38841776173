"""Events that touch a block of coordinates, mixed lazily as those of one.

Block B is members[bounds[B]:bounds[B + 1]].  The arguments are those of `coordinate_events`, on a
function without entropy and with scale 1.
"""

from __future__ import annotations

import numpy as np

from continuized.marked.kernels.columns import column_slope, subtract_column
from continuized.marked.kernels.coordinate import ALPHA, BETA, is_due, rebase
from continuized.marked.kernels.layout import REBASED, D, S
from continuized.process.coefficients import GAMMA_PRIME, A, B
from continuized.process.flow import mix
from continuized.support.jit import jit


@jit
def block_events(
    marks, coefficients, terms, loss, columns, members, bounds, scalars, points, images
):
    """At a mark B, with g = dF/dx_B, x_B -= steps_B g and z_B -= gamma' weights_B g.

    All of g is of the same x: it is taken before anything is subtracted.  Where points and images
    are vectors, the steps are plain.
    """
    steps, weights, ridge, center, _, _ = terms
    kind, c, targets = loss
    indptr, indices, values = columns
    g = np.empty(members.size)
    alpha, beta = scalars[ALPHA], scalars[BETA]
    for e in range(marks.size):
        if points.ndim == 2:
            alpha, beta = mix(alpha, beta, coefficients[e, A], coefficients[e, B])
            if is_due(alpha, beta):
                rebase(alpha, beta, points)
                rebase(alpha, beta, images)
                alpha, beta = REBASED
        block = marks[e]
        for j in range(bounds[block], bounds[block + 1]):
            i = np.uintp(members[j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
            slope = column_slope(kind, alpha, begin, end, indices, values, targets, images)
            x = points[i] if points.ndim == 1 else points[i, S] + alpha * points[i, D]
            g[j] = c * slope + ridge[i] * (x - center[i])
        for j in range(bounds[block], bounds[block + 1]):
            i = np.uintp(members[j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + 1])
            ds, dd = steps[block] * g[j], 0.0
            if points.ndim == 1:
                points[i] -= ds
            else:
                dz = coefficients[e, GAMMA_PRIME] * weights[block] * g[j]
                dd = (ds - dz) / (alpha - beta)
                ds -= alpha * dd
                points[i, S] -= ds
                points[i, D] -= dd
            subtract_column(begin, end, indices, values, ds, dd, images)
    scalars[ALPHA], scalars[BETA] = alpha, beta
