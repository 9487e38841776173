"""Long vectors in few numbers, from which distances between them can be told.

While a run goes on, what is asked of its nodes is how far apart they are.  For that no whole vector
need travel: with coordinates dealt out to buckets at random and random signs s_c,

    (Sx)_b = sum over the coordinates c of bucket b of s_c x_c

is linear, so that means of sketches are sketches of means, and E |Sx|^2 = |x|^2 over the draws,
with a variance of at most 2 |x|^4 / buckets (the CountSketch of Charikar, Chen and Farach-Colton).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from continuized.problems.base import Array

BUCKETS = 1024
SKETCH_KEY = 0xFFFFFFFE  # of the random stream; the keys of nodes are their numbers
MARGIN_DEVIATIONS = 4.0  # standard ones


def find_margin(dim: int) -> float:
    """Find the relative error that the squared norm of a sketch of `dim` numbers may have."""
    return 0.0 if dim <= BUCKETS else MARGIN_DEVIATIONS * math.sqrt(2.0 / BUCKETS)


class Sketch:
    """The sketches of vectors of `dim` numbers; those of at most `BUCKETS` are the vectors.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.standard_normal((2, 50_000))
    >>> sketch = Sketch(50_000, seed=[1])
    >>> near = float(np.linalg.norm(sketch.apply(x) - sketch.apply(y)))
    >>> abs(near / float(np.linalg.norm(x - y)) - 1.0) < find_margin(50_000)
    True
    """

    def __init__(self, dim: int, seed: Sequence[int]) -> None:
        self.size = min(dim, BUCKETS)
        self._is_whole = dim <= BUCKETS
        if not self._is_whole:
            random = np.random.default_rng([*seed, SKETCH_KEY])
            self._bucket = random.integers(self.size, size=dim)
            self._sign = random.choice((-1.0, 1.0), dim)

    def apply(self, x: Array) -> Array:
        """Make the sketch of a vector."""
        if self._is_whole:
            return x
        return np.bincount(self._bucket, self._sign * x.ravel(), self.size)
