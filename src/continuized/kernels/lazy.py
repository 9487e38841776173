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

from continuized import kernels as _  # noqa: F401  (registers the formulas)
from continuized.flow import mix
from continuized.jit import jit
from continuized.problems import compiled as __  # noqa: F401  (registers the losses)
from continuized.problems.losses import loss_slope

WORST_RATIO = 4.0  # of |alpha| or |beta| to alpha - beta
SMALLEST = 1e-30  # alpha - beta

ALPHA, BETA = 0, 1  # the entries of `scalars`


@jit
def rebase(scalars, s, d):
    """The same x and z for the pair (s, d) with alpha = 1/2, beta = -1/2."""
    alpha, beta = scalars[ALPHA], scalars[BETA]
    for i in range(s.size):
        x, z = s[i] + alpha * d[i], s[i] + beta * d[i]
        s[i], d[i] = 0.5 * (x + z), x - z


@jit
def advance_flow(scalars, a, b, s, d, su, du):
    """The flow over a gap; rebases the coordinates and their images when it is due."""
    scalars[ALPHA], scalars[BETA] = mix(scalars[ALPHA], scalars[BETA], a, b)
    alpha, beta = scalars[ALPHA], scalars[BETA]
    gap = alpha - beta
    if gap < SMALLEST or max(abs(alpha), abs(beta)) > WORST_RATIO * gap:
        rebase(scalars, s, d)
        rebase(scalars, su, du)
        scalars[ALPHA], scalars[BETA] = 0.5, -0.5


@jit
def entropy_mapping(x, g, step, entropy):
    """The gradient mapping (x - v) / step of the proximal step on entropy H.

    The smooth part has slope g at x and curvature L = 1/step, of which 4 entropy is lent by H
    (its strong convexity).  v in (0, 1) solves g + (L - 4 entropy)(v - x) + entropy logit(v) = 0;
    in theta = logit(v) that is increasing with slope at least 1: Newton, kept in a bracket.
    """
    m = (1.0 / step - 4.0 * entropy) / entropy
    k = g / entropy
    low, high = -k - m * (1.0 - x), -k + m * x
    theta = min(max(0.0, low), high)
    v = 0.5
    for _ in range(60):
        v = 1.0 / (1.0 + math.exp(-theta)) if theta > -700.0 else 0.0
        value = k + m * (v - x) + theta
        if value > 0.0:
            high = theta
        else:
            low = theta
        step_theta = value / (1.0 + m * v * (1.0 - v))
        new = theta - step_theta
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - theta) <= 1e-14 * (1.0 + abs(theta)):
            break
        theta = new
    return (x - v) / step


@jit
def slope_at(kind, alpha, i, indptr, indices, values, targets, su, du):
    """sum_r A_ri loss'(u_r, y_r), over the column i of A."""
    slope = 0.0
    for p in range(indptr[i], indptr[i + 1]):
        r = indices[p]
        slope += values[p] * loss_slope(kind, su[r] + alpha * du[r], targets[r])
    return slope


@jit
def coordinate_events(
    marks, coefficients, steps, weights, ridge, center, entropy, scale, indptr, indices, values,
    targets, h, scalars, s, d, su, du,
):  # fmt: skip
    """Accelerated coordinate steps on

        F(x) = c sum_r loss(u_r, y_r) + sum_i ridge_i/2 (x_i - center_i)^2 + entropy H(x_i),

    u = A diag(scale) x, A given by columns, h = (loss kind, c), H(v) = v log v + (1-v) log(1-v).
    At a mark i, with g = dF/dx_i (with entropy: the gradient mapping of the proximal step),
    x_i -= steps_i g and z_i -= gamma' weights_i g.
    """
    kind, c = h
    for e in range(marks.size):
        i = marks[e]
        advance_flow(scalars, coefficients[e, 0], coefficients[e, 1], s, d, su, du)
        alpha, gap = scalars[ALPHA], scalars[ALPHA] - scalars[BETA]
        x = s[i] + alpha * d[i]
        g = c * scale[i] * slope_at(kind, alpha, i, indptr, indices, values, targets, su, du)
        if entropy > 0.0:
            g = entropy_mapping(x, g, steps[i], entropy)
        else:
            g += ridge[i] * (x - center[i])
        dx, dz = steps[i] * g, coefficients[e, 3] * weights[i] * g
        dd = (dx - dz) / gap
        ds = dx - alpha * dd
        s[i] -= ds
        d[i] -= dd
        ds, dd = scale[i] * ds, scale[i] * dd
        for p in range(indptr[i], indptr[i + 1]):
            su[indices[p]] -= values[p] * ds
            du[indices[p]] -= values[p] * dd


@jit
def plain_coordinate_events(
    marks, steps, ridge, center, entropy, scale, indptr, indices, values, targets, h, s, su
):
    """The same without acceleration: x_i -= steps_i g."""
    kind, c = h
    for e in range(marks.size):
        i = marks[e]
        slope = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            slope += values[p] * loss_slope(kind, su[indices[p]], targets[indices[p]])
        g = c * scale[i] * slope
        if entropy > 0.0:
            g = entropy_mapping(s[i], g, steps[i], entropy)
        else:
            g += ridge[i] * (s[i] - center[i])
        dx = steps[i] * g
        s[i] -= dx
        dx *= scale[i]
        for p in range(indptr[i], indptr[i + 1]):
            su[indices[p]] -= values[p] * dx


@jit
def row_events(
    marks, coefficients, factors, step, indptr, indices, values, rhs, accelerated, scalars, s, d
):
    """Stochastic least squares: at a mark i, with the residual r of the row a = factors_i a_i,
    x -= step r a and z -= gamma' r a."""
    for e in range(marks.size):
        i = marks[e]
        if accelerated:
            advance_flow(scalars, coefficients[e, 0], coefficients[e, 1], s, d, s[:0], d[:0])
        alpha, gap = scalars[ALPHA], scalars[ALPHA] - scalars[BETA]
        residual = -rhs[i]
        for p in range(indptr[i], indptr[i + 1]):
            residual += values[p] * (s[indices[p]] + alpha * d[indices[p]])
        residual *= factors[i] * factors[i]
        if accelerated:
            dd = (step - coefficients[e, 3]) * residual / gap
        else:
            dd = 0.0
        ds = step * residual - alpha * dd
        for p in range(indptr[i], indptr[i + 1]):
            s[indices[p]] -= values[p] * ds
            d[indices[p]] -= values[p] * dd
