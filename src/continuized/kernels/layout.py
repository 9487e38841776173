"""Arrays as the lazy kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import Array


def pairs_at(x: Array) -> Array:
    """The pairs (s, d) for x = z = the given vector; float64 whatever x is."""
    return np.column_stack([x, np.zeros(x.size)])


def index_arrays(compressed: Any) -> tuple[Array, Array]:
    """The indptr and indices of a compressed sparse array.

    Unsigned, for Numba tests every signed index for being negative; 32-bit indices are not copied.
    """
    indices = compressed.indices.astype(np.int32, copy=False).view(np.uint32)
    return compressed.indptr.astype(np.uint64), indices


def touched(indices: Array, length: int) -> Array:
    """The entries of a vector of this length that occur among the indices, where they are known to
    be few; an empty array where they may be all (`lazy.rebase`)."""
    return np.unique(indices) if indices.size < length else indices[:0]
