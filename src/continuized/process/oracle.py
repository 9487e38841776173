"""The oracle of full gradients: (x, noise) -> the gradient that an event is given.

An oracle sees a point and a mark, never the time nor z.  Those of coordinates and rows stand in
`reference`: users' runs take their jumps in compiled loops, `marked.kernels`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import Array, Problem, check_gradient
from continuized.support.checkpoints.state import Checkpointed


class FullGradient(Checkpointed):
    """The gradient, or with noise, a vector that is the mark, their sum (the paper's section 5).

    Checks the answers of the user's function, and counts the questions.
    """

    changing = ("calls", "eps")

    def __init__(self, problem: Problem, like: Array) -> None:
        self.function = problem.plain_grad or problem.grad
        self._shape, self._dtype = like.shape, like.dtype
        self.calls = 0
        self.eps = float(np.finfo(like.dtype).eps)  # the coarsest rounding of the answers so far

    def __call__(self, x: Array, noise: Array | None = None) -> Array:
        self.calls += 1
        return self.check(self.function(x), noise)

    def check(self, g: Any, noise: Array | None = None) -> Array:
        """Return an answer of the function as an array of the type of x, with the noise."""
        # An equal dtype that is not the same object is checked, too, though it need not be.
        if not (type(g) is np.ndarray and g.dtype is self._dtype and g.shape == self._shape):
            array, eps = check_gradient(g, self._shape)
            self.eps = max(self.eps, eps)
            g = array.astype(self._dtype)
        answer: Array = g if noise is None else g + noise.reshape(self._shape)
        return answer
