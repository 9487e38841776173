"""Arrays as the lazy kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import Array

REBASED = (0.5, -0.5)  # alpha and beta at the start, and after a `lazy.rebase`


def pairs_at(x: Array) -> Array:
    """The pairs (s, d) for x = z = the given vector; float64 whatever x is."""
    return np.column_stack([x, np.zeros(x.size)])


def index_arrays(compressed: Any) -> tuple[Array, Array]:
    """The indptr and indices of a compressed sparse array.

    Unsigned, for Numba tests every signed index for being negative; 32-bit indices are not copied.
    """
    indices = compressed.indices.astype(np.int32, copy=False).view(np.uint32)
    return compressed.indptr.astype(np.uint64), indices
