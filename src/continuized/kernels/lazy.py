"""Events that touch a few coordinates: everything else mixes lazily.

Between events all coordinates mix by the same two weights, so that with two global scalars

    x_i = s_i + alpha d_i        z_i = s_i + beta d_i

s and d stand still, and the flow acts on (alpha, beta) alone: `mix(alpha, beta, a, b)`.  A jump
of x_i by -dx and of z_i by -dz changes s_i and d_i; so do linear images u = Ax, v = Az with the
same alpha and beta.  An event costs as much as what it touches.

`rebase` expresses the state anew with alpha = 1/2, beta = -1/2.  It is due when alpha - beta has
become small against alpha or beta, before s_i = x_i - alpha d_i would cancel, or against 1,
before d would overflow.  That takes a time of order 1/eta, which is never less than the number
of coordinates, so that its cost is spread thin.
"""

from __future__ import annotations

import math

import numpy as np

from continuized.flow import mix
from continuized.jit import fetch, jit
from continuized.problems import compiled as __  # noqa: F401  (registers the losses)
from continuized.problems.losses import SQUARED, loss_slope

WORST_RATIO = 4.0  # of |alpha| or |beta| to alpha - beta
SMALLEST = 1e-30  # alpha - beta

ALPHA, BETA = 0, 1  # the entries of `scalars`
S, D = 0, 1  # the columns of pairs: side by side, for one cache line instead of two

MOST_NEWTON_STEPS = 60  # 2 or 3 are usual
ROOT_OF_ROUNDING = 1e-5  # of the third order
AHEAD = 8  # events
ONE = np.uintp(1)  # unsigned, an index is not tested for counting from the end
ENTRIES_A_LINE = 8


@jit
def rebase(alpha, beta, pairs):
    """The same x and z for the pairs (s, d) with alpha = 1/2, beta = -1/2."""
    for i in range(pairs.shape[0]):
        x, z = pairs[i, S] + alpha * pairs[i, D], pairs[i, S] + beta * pairs[i, D]
        pairs[i, S], pairs[i, D] = 0.5 * (x + z), x - z


@jit
def advance_flow(alpha, beta, a, b, pairs, images):
    """alpha and beta after the flow over a gap; rebases the coordinates and their images when it
    is due."""
    alpha, beta = mix(alpha, beta, a, b)
    gap = alpha - beta
    if gap < SMALLEST or max(abs(alpha), abs(beta)) > WORST_RATIO * gap:
        rebase(alpha, beta, pairs)
        rebase(alpha, beta, images)
        return 0.5, -0.5
    return alpha, beta


@jit
def entropy_step(x, k, m):
    """The root v in (0, 1) of k + m (v - x) + logit(v) = 0, m >= 0: a proximal step on entropy.

    With theta = logit(v), h(theta) = k + m (v - x) + theta is increasing, convex below 0 and
    concave above.  The sign of h(0) tells the side; the upper one is turned over to the lower
    one.  There Newton comes down to the root from the right, and one step from the left of it
    leads to the right: it needs no bracket, only not to pass the bound that v > 0 gives.  Near
    the root the step is Halley's, which takes the curvature of h into account.
    """
    upper = k + m * (0.5 - x) < 0.0
    if upper:
        x, k = 1.0 - x, -k
    most = min(0.0, m * x - k)
    v, theta = x, most
    known = 0.0 < x < 0.5
    if known:
        theta = math.log(x / (1.0 - x))  # the step is short near the solution
        known = theta <= most
    if not known:
        theta = most
        v = math.exp(theta) / (1.0 + math.exp(theta))
    for _step in range(MOST_NEWTON_STEPS):
        slope_v = v * (1.0 - v)
        h, slope_h = k + m * (v - x) + theta, 1.0 + m * slope_v
        bend, square = h * m * slope_v * (0.5 - v), slope_h * slope_h
        near = abs(bend) < 0.25 * square
        change = -h * slope_h / (square - bend) if near else -h / slope_h
        change = min(change, most - theta)
        theta += change
        if abs(change) <= ROOT_OF_ROUNDING:  # what is left is its cube
            v += change * slope_v * (1.0 + change * (0.5 - v))
            break
        e = math.exp(theta)
        v = e / (1.0 + e)
    return 1.0 - v if upper else v


@jit
def fetch_column(i, indptr, indices, values):
    """Ask for a column's entries ahead of their use: marks are random, so no hardware foresees
    them."""
    for p in range(indptr[i], indptr[i + 1], ENTRIES_A_LINE):
        fetch(values, p)
    if indices is not None:
        for p in range(indptr[i], indptr[i + 1], 2 * ENTRIES_A_LINE):
            fetch(indices, p)


# Dense columns have no indices (None), and the squared loss no targets: its images are the
# residuals u - y.  So each case is compiled apart, with nothing of the others in its loops.


@jit
def column_slope(kind, alpha, begin, end, indices, values, targets, images):
    """sum_r A_ri loss'(u_r, y_r), over a column of A."""
    slope = 0.0
    for p in range(begin, end):
        r = p - begin if indices is None else np.uintp(indices[p])
        u = images[r, S] + alpha * images[r, D]
        slope += values[p] * (u if targets is None else loss_slope(kind, u, targets[r]))
    return slope


@jit
def subtract_column(begin, end, indices, values, ds, dd, images):
    """The images of the change of a coordinate."""
    for p in range(begin, end):
        r = p - begin if indices is None else np.uintp(indices[p])
        entry, image_s, image_d = values[p], images[r, S], images[r, D]
        images[r, S], images[r, D] = image_s - entry * ds, image_d - entry * dd


@jit
def plain_slope(kind, begin, end, indices, values, targets, u):
    """As column_slope, with images that do not mix."""
    slope = 0.0
    for p in range(begin, end):
        r = p - begin if indices is None else np.uintp(indices[p])
        slope += values[p] * (u[r] if targets is None else loss_slope(kind, u[r], targets[r]))
    return slope


@jit
def plain_subtract(begin, end, indices, values, dx, u):
    """As subtract_column, with images that do not mix."""
    for p in range(begin, end):
        r = p - begin if indices is None else np.uintp(indices[p])
        u[r] -= values[p] * dx


@jit
def coordinate_events(
    marks, coefficients, steps, weights, ridge, center, entropy, scale, indptr, indices, values,
    targets, h, scalars, pairs, images,
):  # fmt: skip
    """Accelerated coordinate steps on

        F(x) = c sum_r loss(u_r, y_r) + sum_i ridge_i/2 (x_i - center_i)^2 + entropy H(x_i),

    u = A diag(scale) x, A given by columns, h = (loss kind, c), H(v) = v log v + (1-v) log(1-v).
    At a mark i, with g = dF/dx_i (with entropy: the gradient mapping of the proximal step),
    x_i -= steps_i g and z_i -= gamma' weights_i g.

    With entropy, the curvature 1/steps_i is that of the smooth part and the 4 entropy that H
    lends (its strong convexity): the step ends at the v where
    g + (1/steps_i - 4 entropy)(v - x_i) + entropy logit(v) = 0, g the slope of the smooth part.
    """
    kind, c = h
    alpha, beta = scalars[ALPHA], scalars[BETA]
    for e in range(marks.size):
        if e + AHEAD < marks.size:
            fetch(pairs, 2 * marks[e + AHEAD])
            fetch_column(marks[e + AHEAD], indptr, indices, values)
        i = np.uintp(marks[e])
        begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
        a, b, gamma_prime = coefficients[e, 0], coefficients[e, 1], coefficients[e, 3]
        alpha, beta = advance_flow(alpha, beta, a, b, pairs, images)
        per_gap = 1.0 / (alpha - beta)
        x = pairs[i, S] + alpha * pairs[i, D]
        g = c * scale[i] * column_slope(kind, alpha, begin, end, indices, values, targets, images)
        if entropy > 0.0:
            v = entropy_step(x, g / entropy, 1.0 / (steps[i] * entropy) - 4.0)
            dx = x - v
            g = dx / steps[i]
        else:
            g += ridge[i] * (x - center[i])
            dx = steps[i] * g
        dd = (dx - gamma_prime * weights[i] * g) * per_gap
        ds = dx - alpha * dd
        pairs[i, S] -= ds
        pairs[i, D] -= dd
        subtract_column(begin, end, indices, values, scale[i] * ds, scale[i] * dd, images)
    scalars[ALPHA], scalars[BETA] = alpha, beta


@jit
def plain_coordinate_events(
    marks, steps, ridge, center, entropy, scale, indptr, indices, values, targets, h, x, u
):
    """The same without acceleration: x_i -= steps_i g."""
    kind, c = h
    for e in range(marks.size):
        if e + AHEAD < marks.size:
            fetch(x, marks[e + AHEAD])
            fetch_column(marks[e + AHEAD], indptr, indices, values)
        i = np.uintp(marks[e])
        begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
        g = c * scale[i] * plain_slope(kind, begin, end, indices, values, targets, u)
        if entropy > 0.0:
            dx = x[i] - entropy_step(x[i], g / entropy, 1.0 / (steps[i] * entropy) - 4.0)
        else:
            dx = steps[i] * (g + ridge[i] * (x[i] - center[i]))
        x[i] -= dx
        plain_subtract(begin, end, indices, values, scale[i] * dx, u)


@jit
def row_events(
    marks, coefficients, factors, step, indptr, indices, values, rhs, accelerated, scalars, pairs
):
    """Stochastic least squares: at a mark i, with the residual r of the row a = factors_i a_i,
    x -= step r a and z -= gamma' r a."""
    alpha, beta = scalars[ALPHA], scalars[BETA]
    none = pairs[:0]
    for e in range(marks.size):
        i = np.uintp(marks[e])
        begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
        if accelerated:
            a, b = coefficients[e, 0], coefficients[e, 1]
            alpha, beta = advance_flow(alpha, beta, a, b, pairs, none)
        residual = column_slope(SQUARED, alpha, begin, end, indices, values, None, pairs) - rhs[i]
        residual *= factors[i] * factors[i]
        dd = (step - coefficients[e, 3]) * residual / (alpha - beta) if accelerated else 0.0
        ds = step * residual - alpha * dd
        subtract_column(begin, end, indices, values, ds, dd, pairs)
    scalars[ALPHA], scalars[BETA] = alpha, beta
