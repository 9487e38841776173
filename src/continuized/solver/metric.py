"""Metrics: the process in the norm |v|_P^2 = v^T P v of a positive definite P.

Every gradient in a jump is replaced by P^-1 g, and L and mu are those of f in that norm; the
flow is unchanged, and all theorems hold.  A metric close to the Hessian makes L/mu small.

A metric is an object with `solve(g)`, which gives P^-1 g: a run never needs P itself.  A P of
`size` variables takes a g of any shape, as so many rows: each of the columns is a vector.

For a regression, `metric_factory` makes metrics from its curvature.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from continuized.problems.base import Array
from continuized.support import blas
from continuized.support import validation as check
from continuized.support.display import show_line
from continuized.support.threads import interruptible

__all__ = [
    "Blocks",
    "Dense",
    "Diagonal",
    "Identity",
    "LowRank",
    "Metric",
    "given_metric",
]

# Of the metrics that are made from the curvature.
NAMES = ("diag", "gram", "rows", "blocks", "nystrom", "auto")
SMALL_FACTOR = 200  # variables of a matrix that is factored without LAPACK
NOT_DEFINITE = "a metric must be positive definite; add to its diagonal"


class NotDefiniteError(ValueError):
    """A matrix that has no Cholesky factor."""


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


class _Named(Metric):
    """A metric that is shown by its size, where it has one."""

    __repr__ = show_line

    def _facts(self) -> dict[str, Any]:
        return {"size": self.size} if hasattr(self, "size") else {}


class Identity(_Named):
    """The Euclidean norm.

    >>> Identity().solve(np.array([2.0, 6.0])).tolist()
    [2.0, 6.0]
    """

    name = "none"

    def solve(self, g: Array) -> Array:
        return g


def _columns(g: Array, size: int) -> Array:
    return g.reshape(size, g.size // max(size, 1))  # -1 cannot be told where there are none


class Diagonal(_Named):
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
        if g.shape == self._entries.shape:
            return np.asarray(g / self._entries)
        return np.asarray(_columns(g, self.size) / self._entries[:, None]).reshape(g.shape)


class Dense(_Named):
    """A symmetric positive definite matrix P.

    P is factored once, so that a step costs as much as one product.  What errors the factor has,
    the metric has: it stays symmetric, which is all that the theorems ask for.

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
            i, j = np.unravel_index(np.abs(P - P.T).argmax(), P.shape)
            raise ValueError(
                f"metric must be symmetric, but metric[{i}, {j}] is {P[i, j]} and metric[{j}, {i}] "
                f"is {P[j, i]}; give (P + P.T) / 2"
            )
        self._take(P)

    @classmethod
    def of(cls, P: Array) -> Dense:
        """Make one of a P known to be symmetric and finite, in its place; ValueError if it is not
        definite."""
        metric = cls.__new__(cls)
        metric._take(P)
        return metric

    def _take(self, P: Array) -> None:
        self.size = len(P)
        self._factor = interruptible(float(len(P)) ** 3 / 3.0, factor, P, False)

    def solve(self, g: Array) -> Array:
        from continuized.solver.kernels.gram import solve_cholesky

        rows = np.array(_columns(g, self.size).T, dtype=np.float64, order="C")
        solve_cholesky(self._factor, rows)
        return np.ascontiguousarray(rows.T).reshape(g.shape)


def factor(P: Array, copied: bool = True) -> Array:
    """Factor P, or if it need not be kept, in its place: the lower triangle is Cholesky's factor,
    the upper one still that of P.

    A large one by LAPACK, whose threads would wait for each other longer than a small one takes.

    Raises ValueError where P is not definite.
    """
    from continuized.solver.kernels.gram import factor_cholesky
    from continuized.support.jit import HAS_NUMBA

    half = np.array(P, dtype=np.float64, order="C", copy=copied or None)
    if len(half) <= SMALL_FACTOR or not HAS_NUMBA:
        if not factor_cholesky(half):
            raise NotDefiniteError(NOT_DEFINITE)
        return half
    n, stride, info = (ctypes.c_int(value) for value in (len(half), max(len(half), 1), 0))
    places = ctypes.byref(n), half.ctypes.data, ctypes.byref(stride), ctypes.byref(info)
    routine = _find_lapack("dpotrf")
    with blas.by_size(float(len(half)) ** 3 / 3.0):
        routine(b"U", *places)  # LAPACK counts by columns: its upper is our lower
    if info.value:
        raise NotDefiniteError(NOT_DEFINITE)
    return half


@cache
def _find_lapack(name: str) -> Any:
    """Find a routine for a triangle of a symmetric matrix.

    By its address: SciPy's own functions keep the GIL, and no thread would hear Ctrl-C.
    """
    from scipy.linalg import cython_lapack

    capsule, api = cython_lapack.__pyx_capi__[name], ctypes.pythonapi
    text, place = ctypes.c_char_p, ctypes.c_void_p
    name_of = ctypes.PYFUNCTYPE(text, ctypes.py_object)(("PyCapsule_GetName", api))
    find = ctypes.PYFUNCTYPE(place, ctypes.py_object, text)(("PyCapsule_GetPointer", api))
    routine = ctypes.CFUNCTYPE(None, text, *[place] * 4)
    return routine(find(capsule, name_of(capsule)))


class LowRank(_Named):
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


class Blocks(_Named):
    """P = sum_k P_k x u_k u_k^T for x of d rows and K columns, u_k orthonormal: P_k along u_k.

    directions: the u_k, as columns; metrics: those of the P_k, of d variables each.

    >>> both = Blocks(np.eye(2), [Diagonal([1.0, 2.0]), Diagonal([4.0, 8.0])])
    >>> both.solve(np.full((2, 2), 8.0)).tolist()
    [[8.0, 2.0], [4.0, 1.0]]
    """

    name = "blocks"

    def __init__(self, directions: Array, metrics: Sequence[Metric]) -> None:
        self._directions, self._metrics = directions, metrics

    def solve(self, g: Array) -> Array:
        u, count = self._directions, len(self._metrics)
        along = np.einsum("jk,kl->lj", g.reshape(-1, count), u)
        solved = np.stack([P.solve(v) for P, v in zip(self._metrics, along, strict=True)])
        return np.asarray(np.einsum("lj,kl->jk", solved, u)).reshape(g.shape)


class RowSpace(_Named):
    """P = A^T A + l2 I of a wide A = diag(roots) X, factored in the space of its rows: A A^T + l2 I
    is smaller.

    P^-1 v = (v - A^T (A A^T + l2 I)^-1 A v) / l2 (Woodbury).  With `constant`, a column of ones
    without a penalty stands beside X: it is eliminated, and what is left of its diagonal is
    l2 <roots, (A A^T + l2 I)^-1 roots>.  products: X X^T, where it is known.

    Raises ValueError where A A^T + l2 I is not definite.

    >>> one = RowSpace(np.array([[2.0, 0.0]]), np.array([1.0]), 1.0)
    >>> one.solve(np.array([5.0, 3.0])).tolist()
    [1.0, 3.0]
    >>> both = RowSpace(np.array([[1.0]]), np.array([1.0]), 1.0, True)  # P = [[2, 1], [1, 1]]
    >>> both.solve(np.array([1.0, 0.0])).round(12).tolist()
    [1.0, -1.0]
    """

    name = "rows"

    def __init__(
        self, X: Any, roots: Array, l2: float, constant: bool = False, products: Any = None
    ) -> None:
        self._X, self._roots, self._l2, self._constant = X, roots, l2, constant
        self.size = X.shape[1] + constant
        own = multiply_rows(X) if products is None else None
        K = np.multiply(products if own is None else own, roots, out=own)
        K *= roots[:, np.newaxis]
        np.einsum("ii->i", K)[:] += l2
        self._kernel = Dense.of(K)
        if constant:
            self._column = self._kernel.solve(roots)  # A^T times it is P^-1 of the constant's part
            self._left = l2 * blas.inner(roots, self._column)

    def solve(self, g: Array) -> Array:
        flat, d = np.asarray(g, np.float64).ravel(), self._X.shape[1]
        products = self._roots * blas.product(self._X, flat[:d])
        along = self._kernel.solve(products)
        q = np.empty(self.size)
        if self._constant:
            q[d] = b = (flat[d] - blas.inner(self._column, products)) / self._left
            along += self._l2 * b * self._column
        np.subtract(flat[:d], blas.transposed_product(self._X, self._roots * along), out=q[:d])
        q[:d] /= self._l2
        return q.reshape(g.shape)


def multiply_rows(X: Any) -> Array:
    """Return X X^T, dense, in float64."""
    X = X.astype(np.float64, copy=False)
    if not isinstance(X, np.ndarray):
        return np.asarray((X @ X.T).toarray())
    with blas.by_size(float(X.shape[0]) ** 2 * X.shape[1]):
        return np.asarray(X @ X.T)


class Secant(_Named):
    """A metric corrected by the last changes of x and of the gradient: P s = y for each pair.

    Limited-memory BFGS: from a multiple of the base, one pair (s, y) after the other corrects P^-1
    by the least that makes it map y to s and leaves it symmetric and positive definite.  The last
    pair tells the multiple.  Pairs with <s, y> <= 0 are left out; one at least is given, and so
    many at most are kept.

    >>> pair = np.array([1.0, 0.0]), np.array([4.0, 0.0])
    >>> Secant(Diagonal([1.0, 1.0]), [pair], 10).solve(np.array([4.0, 8.0])).tolist()
    [1.0, 2.0]
    """

    name = "secant"

    def __init__(self, base: Metric, changes: Sequence[tuple[Array, Array]], most: int) -> None:
        self._base, self._scale, self._most = base, 1.0, most
        # With room for as many again: so that they are moved once in so many times.
        self._changes = np.empty((2 * most, 2, len(changes[0][0])))
        self._along = np.empty(2 * most)
        self._first = self._last = 0
        for s, y in changes[-most:]:
            self._keep(s, y)
        self._find_scale()

    def learn(self, s: Array, y: Array) -> None:
        """Correct it by one pair more, and leave out the first where there are too many."""
        self._keep(s, y)
        self._find_scale()

    def _keep(self, s: Array, y: Array) -> None:
        if self._last == len(self._changes):
            kept = self._most - 1
            for array in (self._changes, self._along):
                array[:kept] = array[len(array) - kept :]
            self._last = kept
        pair = self._changes[self._last]
        pair[0], pair[1] = s, y  # given at once, they would be copied twice
        self._along[self._last] = blas.inner(pair[0], pair[1])
        self._last += 1
        self._first = max(self._last - self._most, 0)

    def _find_scale(self) -> None:
        """Find what the base is multiplied by, so that it fits along the last change."""
        along, y = float(self._along[self._last - 1]), self._changes[self._last - 1, 1]
        square = blas.inner(y, self._base.solve(y)) if along > 0.0 else 0.0
        self._scale = along / square if square > 0.0 else 1.0

    def solve(self, g: Array) -> Array:
        from continuized.solver.kernels.gram import add_changes, remove_changes

        kept = slice(self._first, self._last)
        changes, along, v = self._changes[kept], self._along[kept], np.array(g, np.float64).ravel()
        shares = remove_changes(changes, along, v)
        v = self._base.solve(v)
        v *= self._scale
        add_changes(changes, along, shares, v)
        return v.reshape(g.shape)


class UserMetric(Metric):
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
        if blas.inner(g.ravel(), q.ravel()) < 0.0:
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
    if callable(getattr(metric, "solve", None)) and not isinstance(metric, type):
        if not isinstance(metric, Diagonal | Dense | LowRank):
            return UserMetric(metric)
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


def __dir__() -> list[str]:
    return sorted(__all__)
