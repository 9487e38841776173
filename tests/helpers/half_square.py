"""f(x) = |x|^2 / 2, its gradient, and where to start, for the tests of `minimize`."""

from __future__ import annotations

import numpy as np

X0 = np.array([0.3, -1.0, 4.0])


def square(x: np.ndarray) -> float:
    return 0.5 * float(np.sum(x * x))


def identity(x: np.ndarray) -> np.ndarray:
    return x
