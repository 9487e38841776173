"""Events that touch a coordinate, a block of them, a row or a batch of rows: all else mixes lazily.

Between events all coordinates mix by the same two weights, so that with two global scalars

    x_i = s_i + alpha d_i        z_i = s_i + beta d_i

s and d stand still, and the flow acts on (alpha, beta) alone: `mix(alpha, beta, a, b)`.  A jump
of x_i by -dx and of z_i by -dz changes s_i and d_i; so do linear images u = Ax, v = Az with the
same alpha and beta.  An event costs as much as what it touches.

`rebase` expresses the state anew with alpha = 1/2, beta = -1/2.  It is due when alpha - beta has
become small against alpha or beta, before s_i = x_i - alpha d_i would cancel, or against 1,
before d would overflow.  That takes a time of order 1/eta, in which events touch never less than
all coordinates once.  Images that no entry touches are not among those given, where they may be
many (`layout.keep_occurring`).  So its cost is spread thin, over events that touch as much.

Each loop asks ahead for what its coming events will read, in lines that are nearly the same: in a
function of their own, given the arrays, an event takes up to three times as long.
"""

from __future__ import annotations

import math

import numpy as np

from continuized.marked.kernels.entropy import entropy_step, logit
from continuized.marked.kernels.layout import ALPHA, BETA, HIGH, L1, LOW, REBASED, D, S
from continuized.problems.losses import SQUARED, loss_slope, losses_in_numpy
from continuized.process import prox
from continuized.process.coefficients import GAMMA, GAMMA_PRIME, A, B
from continuized.process.flow import mix
from continuized.process.prox import entry_step
from continuized.support.jit import (
    compile_formulas,
    fetch,
    in_numpy,
    jit,
    subtract_pair,
    uncounted,
)

compile_formulas(*prox.FORMULAS, error_model="numpy")

ENTRIES_A_LINE = 8
NEAR_A_CORE = 2**18  # numbers: 2 MB, about what is near to a core
WORST_RATIO = 4.0  # of |alpha| or |beta| to alpha - beta
SMALLEST_GAP = 1e-30  # alpha - beta

AHEAD = 5  # events
IMAGES_AHEAD = 2  # events: long after the indices were asked for
LENT = 4.0  # the strong convexity of the entropy, which f is given
ONE = np.uintp(1)  # unsigned, an index is not tested for counting from the end


def _rebase_in_numpy(alpha, beta, pairs):
    x, z = pairs[:, S] + alpha * pairs[:, D], pairs[:, S] + beta * pairs[:, D]
    pairs[:, S], pairs[:, D] = 0.5 * (x + z), x - z


@uncounted
@in_numpy(_rebase_in_numpy)
def rebase(alpha, beta, pairs):
    """Express the same x and z by the pairs (s, d) with alpha = 1/2, beta = -1/2."""
    for i in range(pairs.shape[0]):
        x, z = pairs[i, S] + alpha * pairs[i, D], pairs[i, S] + beta * pairs[i, D]
        pairs[i, S], pairs[i, D] = 0.5 * (x + z), x - z


@uncounted
def is_due(alpha, beta):
    """Tell whether it is time to rebase; the module says why."""
    gap = alpha - beta
    return gap < SMALLEST_GAP or max(abs(alpha), abs(beta)) > WORST_RATIO * gap


# The two loops of a coordinate event over column i of A: the slope along it, and its subtraction.
#
# The images are u = A diag(scale) x, carried along as x moves: pairs (s, d) with u = s + alpha d,
# or, for methods without acceleration, u itself, a vector.  An event of coordinate i
#
#     takes the slope       sum_r A_ri loss'(u_r, y_r),
#     and then subtracts    A_ri (the change of x_i, scaled)  from every u_r,
#
# r over the entries of the column.  What is None (`layout`: indices, targets) and `images.ndim` are
# known when Numba compiles: each case is compiled apart, with nothing of the others in its loops.
#
# All dense columns have the same rows.  So one sweep over the images can subtract a column and
# take the slope along the column of the next event, while an image is at hand.


def _fetch_nothing(*places):
    """Ask for nothing: without Numba, nobody waits for memory."""


@uncounted
@in_numpy(_fetch_nothing)
def fetch_column(i, indptr, indices, values):
    """Ask for a column's entries ahead of their use: marks are random, so no hardware foresees
    them."""
    for p in range(indptr[i], indptr[i + 1], ENTRIES_A_LINE):
        fetch(values, p)
    if indices is not None:
        for p in range(indptr[i], indptr[i + 1], 2 * ENTRIES_A_LINE):
            fetch(indices, p)


@uncounted
def are_far(indices, images):
    """Whether to ask for the images too ahead of their use: those of sparse columns, where they
    are too many to stay near.  Where they do, asking costs a sixth of an event."""
    return indices is not None and images.size > NEAR_A_CORE


@uncounted
@in_numpy(_fetch_nothing)
def fetch_images(i, indptr, indices, images):
    """Ask for what a sparse column will meet; its own entries must have come by now."""
    if indices is not None:
        width = np.uintp(images.size // images.shape[0])
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            fetch(images, width * np.uintp(indices[p]))


def _column_slope_in_numpy(kind, alpha, begin, end, indices, values, targets, images):
    rows = slice(None) if indices is None else indices[begin:end]
    u = images[rows] if images.ndim == 1 else images[rows, S] + alpha * images[rows, D]
    slopes = u if targets is None else losses_in_numpy(kind, u, targets[rows])[1]
    return float(values[begin:end] @ slopes)


@uncounted
@in_numpy(_column_slope_in_numpy)
def column_slope(kind, alpha, begin, end, indices, values, targets, images):
    """Return sum_r A_ri loss'(u_r, y_r), over a column of A."""
    slope = 0.0
    for p in range(begin, end):
        r = p - begin if indices is None else np.uintp(indices[p])
        u = images[r] if images.ndim == 1 else images[r, S] + alpha * images[r, D]
        slope += values[p] * (u if targets is None else loss_slope(kind, u, targets[r]))
    return slope


def _subtract_column_in_numpy(begin, end, indices, values, ds, dd, images):
    rows, column = slice(None) if indices is None else indices[begin:end], values[begin:end]
    if images.ndim == 1:
        images[rows] -= column * ds
    else:
        images[rows, S] -= column * ds
        images[rows, D] -= column * dd


@uncounted
@in_numpy(_subtract_column_in_numpy)
def subtract_column(begin, end, indices, values, ds, dd, images):
    """Subtract the images of the change of a coordinate."""
    for p in range(begin, end):
        if images.ndim == 1:
            r = p - begin if indices is None else np.uintp(indices[p])
            images[r] -= values[p] * ds
        elif indices is None:
            r, entry = p - begin, values[p]
            images[r, S], images[r, D] = images[r, S] - entry * ds, images[r, D] - entry * dd
        else:
            subtract_pair(images, np.uintp(indices[p]), values[p], ds, dd)


def _subtract_then_slope_in_numpy(
    kind, alpha, begin, end, following, values, ds, dd, targets, images
):
    subtract_column(begin, end, None, values, ds, dd, images)
    last = following + (end - begin)
    return column_slope(kind, alpha, following, last, None, values, targets, images)


@uncounted
@in_numpy(_subtract_then_slope_in_numpy)
def subtract_then_slope(kind, alpha, begin, end, following, values, ds, dd, targets, images):
    """Do subtract_column for a dense column, then column_slope, with the alpha of the next event,
    for the one whose entries begin at `following`."""
    slope = 0.0
    for r in range(end - begin):
        entry = values[begin + r]
        if images.ndim == 1:
            u = images[r] - entry * ds
            images[r] = u
        else:
            s, d = images[r, S] - entry * ds, images[r, D] - entry * dd
            images[r, S], images[r, D] = s, d
            u = s + alpha * d
        slope += values[following + r] * (u if targets is None else loss_slope(kind, u, targets[r]))
    return slope


@uncounted
@in_numpy(_fetch_nothing)
def fetch_constants(i, steps, ridge, center, scale, entries, entropy):
    """Ask for a coordinate's constants ahead of their use, as `fetch_column` for its column."""
    fetch(steps, i)
    fetch(scale, i)
    if entropy is None:
        fetch(ridge, i)
        fetch(center, i)
    if entries is not None:
        fetch(entries, entries.shape[1] * i)


# The step of an event along coordinate i, from v = z_i, or v = x_i where there is no z:
#
#     v+ = argmin over u of  g u + psi_i(u) + (u - v)^2 / (2 step),     g = df/dx_i at x,
#
# psi_i: nothing; a term of cz.prox.Separable without its l2 (`entries`), which stands in f; or the
# entropy H less convexity/2 u^2, which stands in f.  What is None is compiled out.


@uncounted
def prepare_step(v, step, convexity, entropy):
    """Return what an entropy step needs and takes long to find, before its slope is known: logit(v)
    and the curvature that (u - v)^2 / (2 step) has left beside what was lent, in units of H."""
    if entropy is None:
        return 0.0, 0.0
    return logit(v), max(1.0 / (step * entropy) - convexity, 0.0)


@uncounted
def fall_along(i, v, x, g, step, prepared, convexity, entries, entropy):
    """Return v - v+."""
    if entropy is not None:
        k = g / entropy + convexity * (x - v)
        return v - entropy_step(v, prepared[0], k, prepared[1])
    if entries is not None:
        low, high = entries[i, LOW], entries[i, HIGH]
        return v - entry_step(v - step * g, step, entries[i, L1], 0.0, low, high)
    return step * g


@uncounted
def is_at_rest(fall, entries):
    """Whether a plain step changes nothing: of a lasso, most do not."""
    return False if entries is None else fall == 0.0


@uncounted
def fall_of_x(g, fall, rate, step, psi, other_psi):
    """Return by how much x_i falls where z_i falls by `fall`: the part step_i eta of it, step_i =
    1/p_i; without psi, step_i g."""
    if psi is None and other_psi is None:
        return step * g
    return rate * step * fall


@jit
def coordinate_events(marks, coefficients, terms, loss, columns, scalars, points, images):
    """Take coordinate steps on

        F(x) = c sum_r loss(u_r, y_r) + sum_i ridge_i/2 (x_i - center_i)^2 + psi_i(x_i),

    u = A diag(scale) x, A given by columns (`layout` has the arguments).  At a mark i,
    g = df/dx_i of what comes before psi.  Without psi x_i -= steps_i g and z_i -= gamma' weights_i
    g; with psi z_i takes the step above, of length gamma' weights_i, and x_i moves by
    eta steps_i (z_i+ - z_i), eta = gamma / gamma'.  points are x and z as pairs, or where the steps
    are plain x alone, a vector, with steps of length steps_i; so are their images.

    An event has five parts: ask memory for what later events read; mix alpha and beta; find g; step
    x_i and z_i; carry the change on to the images.  Where columns are dense, the last part already
    finds the slope of the next event, in the same pass over the images: `is_known` says that the
    next event has its slope, and its alpha and beta, and skips those parts.
    """
    # Unpacked once: what is taken out of a tuple at an event counts references.
    steps, weights, ridge, center, scale, entries, _, entropy = terms
    kind, c, targets = loss
    indptr, indices, values = columns
    alpha, beta = scalars[ALPHA], scalars[BETA]
    slope, is_known = 0.0, False
    far = are_far(indices, images)
    for e in range(marks.size):
        # Ask for what the coming events read: their constants and columns, then the images.
        if e + AHEAD < marks.size:
            coming = marks[e + AHEAD]
            if points.ndim == 1:
                fetch(points, coming)
            else:
                fetch(points, 2 * coming)
                fetch(weights, coming)
            fetch_constants(coming, steps, ridge, center, scale, entries, entropy)
            fetch_column(coming, indptr, indices, values)
        if e + 2 * AHEAD < marks.size:
            fetch(indptr, marks[e + 2 * AHEAD])  # which fetch_column reads
        if far and e + IMAGES_AHEAD < marks.size:
            fetch_images(marks[e + IMAGES_AHEAD], indptr, indices, images)
        i = np.uintp(marks[e])
        begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
        # Mix all coordinates, by way of the two scalars.
        if points.ndim == 2 and not is_known:
            alpha, beta = mix(alpha, beta, coefficients[e, A], coefficients[e, B])
            if is_due(alpha, beta):
                rebase(alpha, beta, points)
                rebase(alpha, beta, images)
                alpha, beta = REBASED
        # Where to step from and how far, and all that does not wait for the slope.
        if points.ndim == 1:
            x, step, convexity = points[i], steps[i], LENT
            v = x
        else:
            x, v = points[i, S] + alpha * points[i, D], points[i, S] + beta * points[i, D]
            step = coefficients[e, GAMMA_PRIME] * weights[i]
            convexity = LENT * steps[i] / weights[i]
        prepared = prepare_step(v, step, convexity, entropy)
        # The gradient along coordinate i at x.
        if not is_known:
            slope = column_slope(kind, alpha, begin, end, indices, values, targets, images)
        g = c * scale[i] * slope
        if entropy is None:
            g += ridge[i] * (x - center[i])
        # The jump, as a change (ds, dd) of (s_i, d_i); and what the next event can know of it.
        fall = fall_along(i, v, x, g, step, prepared, convexity, entries, entropy)
        is_known = False
        if points.ndim == 1:
            if is_at_rest(fall, entries):
                continue
            points[i] = x - fall
            ds, dd = scale[i] * fall, 0.0
            is_known = indices is None and e + 1 < marks.size
        else:
            rate = coefficients[e, GAMMA] / coefficients[e, GAMMA_PRIME]
            dx = fall_of_x(g, fall, rate, steps[i], entries, entropy)
            dd = (dx - fall) / (alpha - beta)
            ds = dx - alpha * dd
            points[i, S] -= ds
            points[i, D] -= dd
            ds, dd = scale[i] * ds, scale[i] * dd
            if indices is None and e + 1 < marks.size:
                later = mix(alpha, beta, coefficients[e + 1, A], coefficients[e + 1, B])
                is_known = not is_due(later[ALPHA], later[BETA])
                if is_known:
                    alpha, beta = later
        # The images follow.
        if is_known:
            following = np.uintp(indptr[marks[e + 1]])
            slope = subtract_then_slope(
                kind, alpha, begin, end, following, values, ds, dd, targets, images
            )
        else:
            subtract_column(begin, end, indices, values, ds, dd, images)
    scalars[ALPHA], scalars[BETA] = alpha, beta


@uncounted
def shrink_block(falls, first, last, step, members, points, beta, block, norms):
    """Let the falls be those of a step on a weighted norm of the block.

    v+ = w max(0, 1 - weight step / |w|), w = v - fall, fall = step g.
    """
    if norms is not None:
        square = 0.0
        for j in range(first, last):
            i = np.uintp(members[j])
            v = points[i] if points.ndim == 1 else points[i, S] + beta * points[i, D]
            square += (v - falls[j]) ** 2
        size, least = math.sqrt(square), norms[block] * step
        lost = least / size if size > least else 1.0
        for j in range(first, last):
            i = np.uintp(members[j])
            v = points[i] if points.ndim == 1 else points[i, S] + beta * points[i, D]
            falls[j] += lost * (v - falls[j])


@jit
def block_events(
    marks, coefficients, members, bounds, terms, loss, columns, scalars, points, images
):
    """Take a step on a block B at each mark: with g = df/dx_B, x_B -= steps_B g and z_B -= gamma'
    weights_B g; with psi as in `coordinate_events`.

    Block B is members[bounds[B]:bounds[B + 1]].  The other arguments are those of
    `coordinate_events`, on a function without entropy and with scale 1.

    All of g is of the same x: it is taken before anything is subtracted.
    """
    steps, weights, ridge, center, _, entries, norms, _ = terms
    kind, c, targets = loss
    indptr, indices, values = columns
    slopes, falls = np.empty(members.size), np.empty(members.size)
    alpha, beta = scalars[ALPHA], scalars[BETA]
    for e in range(marks.size):
        if points.ndim == 2:
            alpha, beta = mix(alpha, beta, coefficients[e, A], coefficients[e, B])
            if is_due(alpha, beta):
                rebase(alpha, beta, points)
                rebase(alpha, beta, images)
                alpha, beta = REBASED
        block = marks[e]
        first, last = bounds[block], bounds[block + 1]
        step = steps[block]
        if points.ndim == 2:
            step = coefficients[e, GAMMA_PRIME] * weights[block]
        for j in range(first, last):
            i = np.uintp(members[j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
            slope = column_slope(kind, alpha, begin, end, indices, values, targets, images)
            x = points[i] if points.ndim == 1 else points[i, S] + alpha * points[i, D]
            v = x if points.ndim == 1 else points[i, S] + beta * points[i, D]
            g = c * slope + ridge[i] * (x - center[i])
            if points.ndim == 2:
                slopes[j] = g
            falls[j] = fall_along(i, v, x, g, step, (0.0, 0.0), 0.0, entries, None)
        shrink_block(falls, first, last, step, members, points, beta, block, norms)
        for j in range(first, last):
            i = np.uintp(members[j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
            ds, dd = falls[j], 0.0
            if points.ndim == 1:
                points[i] -= ds
            else:
                rate = coefficients[e, GAMMA] / coefficients[e, GAMMA_PRIME]
                dx = fall_of_x(slopes[j], falls[j], rate, steps[block], entries, norms)
                dd = (dx - falls[j]) / (alpha - beta)
                ds = dx - alpha * dd
                points[i, S] -= ds
                points[i, D] -= dd
            subtract_column(begin, end, indices, values, ds, dd, images)
    scalars[ALPHA], scalars[BETA] = alpha, beta


@jit
def row_events(marks, coefficients, factors, rhs, columns, step, accelerated, scalars, pairs):
    """Take steps of stochastic least squares: at a mark, or at a row of marks, a batch, with g the
    mean over its marks i of r_i a_i, r_i the residual of a_i = factors_i times the data's row,
    x -= step g and z -= gamma' g.

    All residuals are of the same x: they are taken before anything is subtracted.  Rows are given
    as the columns of A are, and x and z in the place of the images.
    """
    indptr, indices, values = columns
    batch = 1 if marks.ndim == 1 else marks.shape[1]  # known when Numba compiles, where it is 1
    drawn = marks.ravel()
    residuals = np.empty(batch)
    alpha, beta = scalars[ALPHA], scalars[BETA]
    far = are_far(indices, pairs)
    for e in range(marks.shape[0]):
        gamma_prime = coefficients[e, GAMMA_PRIME]
        if accelerated:
            alpha, beta = mix(alpha, beta, coefficients[e, A], coefficients[e, B])
            if is_due(alpha, beta):
                rebase(alpha, beta, pairs)
                alpha, beta = REBASED
        for j in range(batch):
            m = e * batch + j
            if m + AHEAD < drawn.size:
                coming = drawn[m + AHEAD]
                fetch(factors, coming)
                fetch(rhs, coming)
                fetch_column(coming, indptr, indices, values)
            if m + 2 * AHEAD < drawn.size:
                fetch(indptr, drawn[m + 2 * AHEAD])  # which fetch_column reads
            if far and m + IMAGES_AHEAD < drawn.size:
                fetch_images(drawn[m + IMAGES_AHEAD], indptr, indices, pairs)
            i = np.uintp(drawn[m])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
            slope = column_slope(SQUARED, alpha, begin, end, indices, values, None, pairs)
            residuals[j] = factors[i] * factors[i] * (slope - rhs[i]) / batch
        for j in range(batch):
            i = np.uintp(drawn[e * batch + j])
            begin, end = np.uintp(indptr[i]), np.uintp(indptr[i + ONE])
            dd = (step - gamma_prime) * residuals[j] / (alpha - beta) if accelerated else 0.0
            ds = step * residuals[j] - alpha * dd
            subtract_column(begin, end, indices, values, ds, dd, pairs)
    scalars[ALPHA], scalars[BETA] = alpha, beta
