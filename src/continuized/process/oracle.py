"""Oracles of full gradients: (x, mark) -> the gradient that an event is given.

An oracle sees a point and a mark, never the time nor z.  Those of coordinates and rows stand in
`reference`: users' runs take their jumps in compiled loops, `marked.kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import Array, Problem, check_gradient
from continuized.support.checkpoints.state import Checkpointed


class Exact(Checkpointed):
    """The gradient itself.  Checks the answer, and counts the questions."""

    changing = ("calls", "eps")

    def __init__(self, problem: Problem, like: Array) -> None:
        self._grad = problem.plain_grad or problem.grad
        self._shape, self._dtype = like.shape, like.dtype
        self.calls = 0
        self.eps = float(np.finfo(like.dtype).eps)  # the coarsest rounding of the answers so far

    def __call__(self, x: Array, mark: Any = None) -> Array:
        self.calls += 1
        g = self._grad(x)
        if type(g) is np.ndarray and g.dtype is self._dtype and g.shape == self._shape:
            return g  # the quick way; an equal dtype that is not the same object takes the other
        array, eps = check_gradient(g, self._shape)
        self.eps = max(self.eps, eps)
        return array.astype(self._dtype)


class Noisy(Exact):
    """The gradient plus noise: the mark is the noise vector (the paper's section 5)."""

    def __call__(self, x: Array, mark: Any = None) -> Array:
        g = super().__call__(x)
        noise: Array = mark.reshape(self._shape).astype(self._dtype, copy=False)
        return g + noise
