"""Oracles: (x, mark) -> what an event is given: a gradient, or a jump on a support.

An oracle sees a point and a mark, never the time nor z.  `Exact` and `Noisy` give the whole
gradient, and are what the loops of `driver` ask.  `Coordinates` (one, or a block) and `Rows` (one,
or a batch) give a `Jump`, eagerly: from x as a whole, with no thought of cost.  They are the
reference, which a reader can check and `methods.marked_step` can run.  Users' runs take the same
jumps in compiled loops, `kernels.lazy`, `kernels.blocks` and `kernels.batches`, which never form x
and cost what the support costs; that both give the same x is tested, and a claim of `verify`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.support import validation as check


def checked_gradient(g: Any, shape: tuple[int, ...]) -> tuple[Array, float]:
    """What the user's function gave as an array, and the rounding it comes with (0: integers)."""
    array = check.array(g, "the gradient")
    check.shape(array, "the gradient", shape, like="x")
    return array, float(np.finfo(array.dtype).eps) if array.dtype.kind == "f" else 0.0


class Exact:
    """The gradient itself.  Checks the answer, and counts the questions."""

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
        return self._converted(g)

    def _converted(self, g: Any) -> Array:
        array, eps = checked_gradient(g, self._shape)
        self.eps = max(self.eps, eps)
        return array.astype(self._dtype)


class Noisy(Exact):
    """The gradient plus noise: the mark is the noise vector (the paper's section 5)."""

    def __call__(self, x: Array, mark: Any = None) -> Array:
        g = super().__call__(x)
        noise: Array = mark.reshape(self._shape).astype(self._dtype, copy=False)
        return g + noise


class Jump(NamedTuple):
    """What an event does on its support: x[support] -= x, z[support] -= gamma' z."""

    support: Any
    x: Array
    z: Array


class Coordinates:
    """Mark i: the gradient along coordinate i, or along a block of coordinates.

    x_i -= grad_i f / L_i and z_i -= (gamma'/p_i) grad_i f; L and p have an entry to a mark.
    """

    def __init__(
        self, problem: Problem, L: Array, p: Array, blocks: Sequence[Array] | None = None
    ) -> None:
        self._grad, self._L, self._p = problem.grad, L, p
        self._blocks = [np.array([i]) for i in range(len(L))] if blocks is None else blocks

    def __call__(self, x: Array, mark: int) -> Jump:
        support = self._blocks[mark]
        g = self._grad(x)[support]
        step = 1.0 / self._L[mark] if self._L[mark] > 0.0 else 0.0
        return Jump(support, step * g, g / self._p[mark])


class Rows:
    """Mark i: the gradient of row i, (<a, x> - b) a with a = factors_i a_i; several marks at
    once are a batch, their mean.  x -= g / R2 and z -= gamma' g, on the rows' entries."""

    def __init__(self, problem: Any, R2: float, factors: Array | None = None) -> None:
        from scipy import sparse

        problem.refuse_extras("a row at a time")
        rows = sparse.csr_array(problem.X)
        self._rows, self._y, self._R2 = rows, problem.y, R2
        self._factors = np.ones(rows.shape[0]) if factors is None else factors

    def __call__(self, x: Array, mark: Any) -> Jump:
        marks = np.atleast_1d(mark)
        a = self._rows[marks].toarray() * self._factors[marks, None]
        g = (a @ x - self._factors[marks] * self._y[marks]) @ a / len(marks)
        support = np.flatnonzero(a.any(axis=0))
        return Jump(support, g[support] / self._R2, g[support])
