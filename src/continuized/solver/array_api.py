"""Arrays of other libraries, by the names of the Python array API standard.

The steppers for unknown constants and for such arrays do with arrays what stands here, and
otherwise only add, subtract and scale them: nothing leaves the device but sums, as floats.
NumPy's own arrays go by the package's own sums (`support.blas`), not by the standard's.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from continuized.problems.base import Problem, writes_into_out
from continuized.support import blas
from continuized.support import validation as check

NUMPY_TYPES = (np.ndarray, np.generic)  # arithmetic on arrays of no dimension gives the latter

# Squares of no more may have lost digits below the least normal number, in single precision too.
SMALL_SQUARE = 1e-30

# Libraries with the functions of the standard, whose arrays need not say so themselves.
SILENT = ("torch", "cupy")


def namespace(x: Any) -> Any:
    """Return the functions for an array of another library; None for NumPy's, and for no array.

    >>> namespace(np.zeros(2)) is None, namespace([0.0, 1.0]) is None
    (True, True)
    """
    if isinstance(x, NUMPY_TYPES):
        return None
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return None
    roots = [kind.__module__.partition(".")[0] for kind in type(x).__mro__]
    return next((sys.modules[root] for root in roots if root in SILENT), None)


def name_of(xp: Any) -> str:
    """Return the name of the library of a namespace."""
    return str(xp.__name__).partition(".")[0]


def copy(x: Any) -> Any:
    """Make a copy on the same device, free of any graph of gradients."""
    if isinstance(x, NUMPY_TYPES):
        return x.copy()
    if hasattr(x, "detach"):  # torch
        return x.detach().clone()
    return x.copy() if hasattr(x, "copy") else namespace(x).asarray(x, copy=True)


def inner(u: Any, v: Any) -> float:
    """Return <u, v> of arrays of one shape."""
    if isinstance(u, NUMPY_TYPES):
        return blas.inner(u.ravel(), v.ravel())
    return float(namespace(u).sum(u * v))


def inners(xp: Any, *pairs: tuple[Any, Any]) -> list[float]:
    """Return <u, v> of each pair, brought to the host together: each transfer waits for the
    device."""
    sums = xp.stack([xp.sum(u * v) for u, v in pairs])
    if hasattr(sums, "tolist"):
        return list(sums.tolist())
    return [float(sums[i]) for i in range(len(pairs))]


def norm(v: Any) -> float:
    """Return the Euclidean norm of an array, also where its square would overflow or underflow."""
    square = inner(v, v)
    if SMALL_SQUARE < square < math.inf or not is_finite(v):
        return math.sqrt(square)
    xp = namespace(v) or np
    largest = float(xp.max(xp.abs(v))) if math.prod(v.shape) else 0.0
    if largest == 0.0:
        return 0.0
    scaled = v / largest
    return largest * math.sqrt(inner(scaled, scaled))


def is_finite(x: Any) -> bool:
    """Whether every entry of x is finite."""
    if isinstance(x, NUMPY_TYPES):
        return bool(np.isfinite(x).all())  # in half the time of np.all
    xp = namespace(x)
    return bool(xp.all(xp.isfinite(x)))


def eps_of(x: Any) -> float:
    """Return the rounding unit of its dtype."""
    return float((namespace(x) or np).finfo(x.dtype).eps)


def check_dense(x: Any, name: str) -> None:
    """Raise TypeError for a sparse tensor: z moves in every coordinate."""
    if hasattr(x, "detach") and str(x.layout) != "torch.strided":  # torch
        raise TypeError(f"{name} must be a dense array, got one of layout {x.layout}; convert it")


class ArrayProblem(Problem):
    """The user's functions on arrays of another library, from x0.

    They are given copies, to keep or to write into, and their answers are checked, and cut off
    from the graphs that they were computed with.
    """

    def __init__(self, problem: Problem, x0: Any) -> None:
        self.xp = xp = namespace(x0)
        given = f"x0 is an array of {name_of(xp)}"
        if type(problem) is not Problem:
            raise TypeError(
                f"{given}, but {type(problem).__name__} computes in NumPy; give a NumPy x0, or fun "
                "and jac of your own"
            )
        if writes_into_out(problem._grad):
            raise TypeError(f"{given}, but jac is compiled for NumPy's; give a NumPy x0")
        super().__init__(
            problem._fun,
            problem._grad,
            L=problem.L,
            mu=problem.mu,
            value_and_grad=problem._both,
        )
        self.plain_grad = None
        self.start = self._check_start(x0, problem.dim)
        self.calls = 0  # of the gradient

    def _check_start(self, x0: Any, dim: int | None) -> Any:
        if x0.dtype not in (self.xp.float32, self.xp.float64):
            raise TypeError(f"x0 must be of float32 or float64, got {x0.dtype}; convert it")
        check_dense(x0, "x0")
        x = copy(x0)
        if not is_finite(x):
            raise ValueError("x0 must be finite, but it has NaN or infinity in it")
        size = math.prod(x.shape)
        if dim is not None and size != dim:
            raise ValueError(f"x0 has {size} entries, but the problem has dimension {dim}")
        return x

    def fun(self, x: Any) -> float:
        return super().fun(copy(x))

    def grad(self, x: Any) -> Any:
        self.calls += 1
        return self._check_gradient(super().grad(copy(x)))

    def value_and_gradient(self, x: Any) -> tuple[float, Any]:
        if not self._both:
            return self.fun(x), self.grad(x)
        self.calls += 1
        value, gradient = self._value_and_gradient(copy(x))
        return value, self._check_gradient(gradient)

    def _check_gradient(self, g: Any) -> Any:
        if namespace(g) is not self.xp:
            raise check.refusal(TypeError, "the gradient", f"an array of {name_of(self.xp)}", g)
        check_dense(g, "the gradient")
        x = self.start
        check.shape(g, "the gradient", x.shape, like="x")
        if g.dtype != x.dtype:
            raise TypeError(f"the gradient must have the dtype of x, {x.dtype}, got {g.dtype}")
        return copy(g)
