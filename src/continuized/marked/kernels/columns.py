"""The two loops of a coordinate event over column i of A: the slope along it, and its subtraction.

The images are u = A diag(scale) x, carried along as x moves: pairs (s, d) with u = s + alpha d
(`layout`), or, for methods without acceleration, u itself, a vector.  An event of coordinate i

    takes the slope       sum_r A_ri loss'(u_r, y_r),
    and then subtracts    A_ri (the change of x_i, scaled)  from every u_r,

r over the entries of the column, which are values[indptr[i]:indptr[i + 1]] in the rows `indices`.
Where the column is dense there are no indices (None): entry k is in row k.  The squared loss has no
targets (None): its images are the residuals u - y.  So each case is compiled apart, with nothing of
the others in its loops; `images.ndim`, too, is known when Numba compiles.

All dense columns have the same rows.  So one sweep over the images can subtract a column and
take the slope along the column of the next event, while an image is at hand.
"""

from __future__ import annotations

import numpy as np

from continuized.marked.kernels.layout import D, S
from continuized.problems.losses import loss_slope
from continuized.support.jit import fetch, jit, subtract_pair

ENTRIES_A_LINE = 8
FAR = 2**18  # numbers: 2 MB, about what is near to a core


@jit
def fetch_column(i, indptr, indices, values):
    """Ask for a column's entries ahead of their use: marks are random, so no hardware foresees
    them."""
    for p in range(indptr[i], indptr[i + 1], ENTRIES_A_LINE):
        fetch(values, p)
    if indices is not None:
        for p in range(indptr[i], indptr[i + 1], 2 * ENTRIES_A_LINE):
            fetch(indices, p)


@jit
def are_far(indices, images):
    """Whether to ask for the images too ahead of their use: those of sparse columns, where they
    are too many to stay near.  Where they do, asking costs a sixth of an event."""
    return indices is not None and images.size > FAR


@jit
def fetch_images(i, indptr, indices, images):
    """Ask for what a sparse column will meet; its own entries must have come by now."""
    if indices is not None:
        width = np.uintp(images.size // images.shape[0])
        for p in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            fetch(images, width * np.uintp(indices[p]))


@jit
def column_slope(kind, alpha, begin, end, indices, values, targets, images):
    """sum_r A_ri loss'(u_r, y_r), over a column of A."""
    slope = 0.0
    for p in range(begin, end):
        r = p - begin if indices is None else np.uintp(indices[p])
        u = images[r] if images.ndim == 1 else images[r, S] + alpha * images[r, D]
        slope += values[p] * (u if targets is None else loss_slope(kind, u, targets[r]))
    return slope


@jit
def subtract_column(begin, end, indices, values, ds, dd, images):
    """The images of the change of a coordinate."""
    for p in range(begin, end):
        if images.ndim == 1:
            r = p - begin if indices is None else np.uintp(indices[p])
            images[r] -= values[p] * ds
        elif indices is None:
            r, entry = p - begin, values[p]
            images[r, S], images[r, D] = images[r, S] - entry * ds, images[r, D] - entry * dd
        else:
            subtract_pair(images, np.uintp(indices[p]), values[p], ds, dd)


@jit
def subtract_then_slope(kind, alpha, begin, end, following, values, ds, dd, targets, images):
    """subtract_column for a dense column, then column_slope, with the alpha of the next event, for
    the one whose entries begin at `following`."""
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
