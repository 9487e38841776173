"""Metrics: the process in the norm |v|_P^2 = v^T P v of a positive definite P.

Every gradient in a jump is replaced by P^-1 g, and L and mu are those of f in that norm; the
flow is unchanged, and all theorems hold.  A metric close to the Hessian makes L/mu small.

A metric is an object with `solve(g)`, which gives P^-1 g: a run never needs P itself.  A P of
`size` variables takes a g of any shape, as so many rows: each of the columns is a vector.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.threads import inner

__all__ = [
    "Dense",
    "Diagonal",
    "Identity",
    "LowRank",
    "Metric",
    "given_metric",
]

NAMES = ("diag", "gram", "nystrom", "auto")  # of the metrics that `metric_factory` makes


class Metric(Protocol):
    """What a run needs of a metric.  One of your own, whose answers are looked at:

    >>> class Twice:
    ...     def solve(self, g):
    ...         return g / 2.0
    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([2.0, 2.0], [1.0, 1.0])
    >>> cz.minimize(p, [0.0, 0.0], metric=Twice(), L=1.0, rng=0).x.round(6).tolist()
    [1.0, 1.0]
    """

    def solve(self, g: Array) -> Array:
        """P^-1 g, in the shape of g."""
        ...


class Identity(Metric):
    """The Euclidean norm.

    >>> Identity().solve(np.array([2.0, 6.0])).tolist()
    [2.0, 6.0]
    """

    name = "none"

    def solve(self, g: Array) -> Array:
        return g


def _columns(g: Array, size: int) -> Array:
    return g.reshape(size, g.size // max(size, 1))  # -1 cannot be told where there are none


class Diagonal(Metric):
    """P = diag(entries), all > 0.

    Raises ValueError unless entries is a vector of finite numbers > 0.

    >>> Diagonal([1.0, 2.0]).solve(np.array([2.0, 6.0])).tolist()
    [2.0, 3.0]
    >>> Diagonal([1.0, 2.0]).solve(np.full(4, 8.0)).tolist()  # two rows of two
    [8.0, 8.0, 4.0, 4.0]
    """

    name = "diag"

    def __init__(self, entries: Array) -> None:
        self._entries = check.array(entries, "metric", dtype=np.float64, ndim=1, above=0.0)
        self.size = self._entries.size

    def solve(self, g: Array) -> Array:
        return np.asarray(_columns(g, self.size) / self._entries[:, None]).reshape(g.shape)


class Dense(Metric):
    """A symmetric positive definite matrix P.

    P is inverted once, so that a step costs one product.  What errors the inverse has, the
    metric has: it stays symmetric, which is all that the theorems ask for.

    Raises ValueError unless P is square, finite, symmetric and positive definite.

    >>> Dense([[2.0, 1.0], [1.0, 2.0]]).solve(np.array([3.0, 0.0])).round(12).tolist()
    [2.0, -1.0]
    """

    name = "dense"

    def __init__(self, P: Array) -> None:
        P = check.array(P, "metric", dtype=np.float64, ndim=2, finite=True)
        if P.shape[0] != P.shape[1]:
            raise ValueError(f"metric must be a square matrix, got shape {P.shape}")
        if not np.allclose(P, P.T, rtol=1e-10, atol=1e-10 * float(np.abs(P).max(initial=0.0))):
            raise ValueError("a metric must be symmetric")
        self._take(P)

    @classmethod
    def of(cls, P: Array) -> Dense:
        """Make one of a P known to be symmetric and finite; ValueError if it is not definite."""
        metric = cls.__new__(cls)
        metric._take(P)
        return metric

    def _take(self, P: Array) -> None:
        self.size, self._inverse = len(P), _inverse(P)

    def solve(self, g: Array) -> Array:
        from continuized.solver.kernels.gram import symmetric_product

        columns = np.ascontiguousarray(_columns(g, self.size), dtype=np.float64)
        out = np.empty_like(columns)
        symmetric_product(self._inverse, columns, out)
        return out.reshape(g.shape)


def _inverse(P: Array) -> Array:
    """Invert P by LAPACK, from a Cholesky factor: a third of the work of solving."""
    from scipy.linalg import lapack

    factor, failed = lapack.dpotrf(P, lower=1)
    inverse, failed_too = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed or failed_too:
        raise ValueError("a metric must be positive definite; add to its diagonal")
    above = np.triu_indices(len(P), 1)
    inverse[above] = inverse.T[above]
    return np.ascontiguousarray(inverse)


class LowRank(Metric):
    """P = rest (I + U diag(ratios) U^T), U with orthonormal columns: a sketch plus identity.

    values: the eigenvalues of P along the columns of U, hence ratios = values / rest - 1 (0 where
    that is negative); rest > 0: those in all other directions.

    >>> LowRank(np.array([[1.0], [0.0]]), np.array([4.0]), 2.0).solve(np.array([8.0, 8.0])).tolist()
    [2.0, 4.0]
    """

    name = "nystrom"

    def __init__(self, U: Array, values: Array, rest: float) -> None:
        self._U, self._rest, self.size = U, rest, len(U)
        self._ratios = np.maximum(values / rest - 1.0, 0.0)

    def solve(self, g: Array) -> Array:
        columns = _columns(g, self.size)
        shares = (self._ratios / (1.0 + self._ratios))[:, None]
        along = np.einsum("ij,jc->ic", self._U, shares * np.einsum("ij,ic->jc", self._U, columns))
        return np.asarray((columns - along) / self._rest).reshape(g.shape)


class Own(Metric):
    """The user's object, whose answers are looked at."""

    def __init__(self, metric: Any) -> None:
        self._metric, self.name = metric, getattr(metric, "name", "own")

    def solve(self, g: Array) -> Array:
        q = np.asarray(self._metric.solve(g.copy()))
        if q.dtype.kind not in "fiu" or q.shape != g.shape:
            raise ValueError(
                f"metric.solve(g) must return real numbers in the shape of g, {g.shape}, "
                f"got shape {q.shape} and dtype {q.dtype}"
            )
        if inner(g.ravel(), q.ravel()) < 0.0:
            raise ValueError(
                "metric.solve must be that of a positive definite P, got g^T P^-1 g < 0"
            )
        return q


def given_metric(metric: Any, shape: tuple[int, ...]) -> Metric:
    """Return the user's own metric for an x of this shape: a vector (a diagonal), a matrix, or
    an object with solve.

    Raises TypeError for anything else, ValueError where metric and shape do not fit.

    >>> given_metric([1.0, 2.0], (2,)).name, given_metric(np.eye(2), (2,)).name
    ('diag', 'dense')
    """
    if hasattr(metric, "solve") and not isinstance(metric, type):
        if not isinstance(metric, Diagonal | Dense | LowRank):
            return Own(metric)
        ours = metric
    elif isinstance(metric, np.ndarray | list | tuple):
        values = check.array(metric, "metric")
        ours = Diagonal(values) if values.ndim == 1 else Dense(values)
    else:
        names = ", ".join(f'"{name}"' for name in NAMES)
        what = f"None, {names}, an array, or an object with solve(g) = P^-1 g"
        raise check.refusal(TypeError, "metric", what, metric)
    if ours.size not in (*shape[:1], math.prod(shape)):
        raise ValueError(
            f"the metric is one of {ours.size} variables, but x0 has shape {shape}: give one for "
            "its first axis or for all of its entries"
        )
    return ours
