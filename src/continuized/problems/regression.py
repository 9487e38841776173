"""Linear regressions: f(w) = mean_i loss(<x_i, w>, y_i) + l2/2 |w|^2."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems import threads
from continuized.problems.base import Array, Compiled, Problem, flat, number, pack
from continuized.problems.data import INT32_MAX, check_labels, checked_data
from continuized.problems.losses import LOGISTIC, SQUARED
from continuized.problems.spectrum import Spectrum, entries_of, spectrum

LARGE = 2**19  # entries of X from which all threads are quicker than one
DIRECT_UP_TO = 2000  # the number of variables for which least squares is solved directly,
DIRECT_ENTRIES = 2**25  # unless X has more entries than this


class _Regression(Problem):
    loss: ClassVar[float]
    curvature: ClassVar[float]  # the largest second derivative of the loss

    def __init__(self, X: Any, y: ArrayLike, l2: float = 0.0) -> None:
        self.X, self.y = checked_data(X, y)
        self.l2 = number(l2, "l2")
        if not 0.0 <= self.l2 < np.inf:
            raise ValueError(f"l2 must be a finite number >= 0, got {l2!r}")

    @property
    def dim(self) -> int:
        return int(self.X.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether X is a CSR array."""
        return not isinstance(self.X, np.ndarray)

    # Constants, computed when first asked for

    @cached_property
    def spectrum(self) -> Spectrum:
        """Bounds on the eigenvalues of X^T X / n, and how they were found."""
        zeros = np.zeros(len(self.y))
        parts = self._parts

        def multiply(v: Array) -> Array:
            from continuized.problems.passes import Wanted, one_pass

            # The gradient of |Xv|^2 / 2 is X^T X v: one pass over X, with all threads.
            return one_pass(self.X, zeros, SQUARED, v, Wanted(False, True), parts)[1] / zeros.size

        return spectrum(self.X, multiply)

    @cached_property
    def L(self) -> float:  # type: ignore[override]
        """An upper bound of the smoothness constant: the largest curvature is at most this.

        Exact up to rounding where X has a small side; otherwise at most 1.053 times too large
        and, with probability 1 - 1e-10 over a random direction, not too small (`p.spectrum`).
        """
        return float(self.curvature * self.spectrum.largest + self.l2)

    @cached_property
    def mu(self) -> float:  # type: ignore[override]
        """A lower bound of the strong convexity: l2, for the loss itself may be flat."""
        return self.l2

    @cached_property
    def coordinate_L(self) -> Array:
        """L_j = curvature |X_j|^2 / n + l2 for each column X_j: the smoothness along it."""
        if self.is_sparse:
            squares = np.bincount(self.X.indices, _squares(self.X.data), minlength=self.dim)
        else:
            squares = np.einsum("ij,ij->j", self.X, self.X, dtype=np.float64)
        constants: Array = self.curvature * squares / len(self.y) + self.l2
        return constants

    @cached_property
    def row_norms2(self) -> Array:
        """|x_i|^2 for each row."""
        if not self.is_sparse:
            return np.asarray(np.einsum("ij,ij->i", self.X, self.X, dtype=np.float64))
        n = len(self.y)
        rows = np.repeat(np.arange(n), np.diff(self.X.indptr))
        return np.bincount(rows, _squares(self.X.data), minlength=n)

    @cached_property
    def columns(self) -> Any:
        """X by columns, for coordinate methods: a CSC copy, or one in Fortran order."""
        if not self.is_sparse:
            return np.asfortranarray(self.X)
        return self.X.tocsc()

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        return None

    @cached_property
    def f_star(self) -> float | None:  # type: ignore[override]
        return None if self.x_star is None else self.fun(self.x_star)

    # The function and its gradient

    @property
    def _parts(self) -> int:
        """Into how many parts a pass is cut: one for each thread, or one where X is small."""
        return min(threads.count(), len(self.y)) if entries_of(self.X) >= LARGE else 1

    @property
    def threaded(self) -> bool:  # type: ignore[override]
        """Whether `fun` and `grad` run on all threads: where X is large."""
        return self._parts > 1

    def fun(self, x: ArrayLike) -> float:
        w = flat(x, self.dim)
        if self.threaded:
            return self._pass(w, value=True, gradient=False)[0]
        problem = self.compiled(w.dtype)
        return float(problem.fun(w, problem.data))

    def grad(self, x: ArrayLike) -> Array:
        w = flat(x, self.dim)
        if self.threaded:
            return self._pass(w, value=False, gradient=True)[1].reshape(np.shape(x))
        problem = self.compiled(w.dtype)
        out = np.empty_like(w)
        problem.grad(w, out, problem.data)
        return out.reshape(np.shape(x))

    def value_and_gradient(self, x: ArrayLike) -> tuple[float, Array]:
        """f(x) and its gradient, in one pass over the data."""
        value, gradient = self._pass(flat(x, self.dim), value=True, gradient=True)
        return value, gradient.reshape(np.shape(x))

    def _pass(self, w: Array, value: bool, gradient: bool) -> tuple[float, Array]:
        from continuized.problems.passes import Wanted, one_pass

        n, wanted = len(self.y), Wanted(value, gradient)
        total, slopes = one_pass(self.X, self.y, self.loss, w, wanted, self._parts)
        wide = w.astype(np.float64, copy=False)
        f = total / n + 0.5 * self.l2 * threads.inner(wide, wide)
        g = slopes / n + self.l2 * wide if gradient else slopes
        return f, g.astype(w.dtype, copy=False)

    def compiled(self, dtype: Any = np.float64) -> Compiled:
        """The problem on one thread, for compiled loops: several may run at once."""
        char = np.dtype(dtype).char
        cached: dict[str, Compiled] = self.__dict__.setdefault("_compiled", {})
        if char not in cached:
            cached[char] = self._compile(np.dtype(char))
        return cached[char]

    def _compile(self, dtype: Any) -> Compiled:
        from continuized.problems.compiled import compiled

        vector = np.concatenate([[self.loss, self.l2], self.y])
        if not self.is_sparse:
            return compiled("dense", pack(self.X, vector, dtype=dtype), dtype)
        if self.X.nnz > INT32_MAX:
            raise ValueError(f"X has {self.X.nnz} entries: compiled loops take at most {INT32_MAX}")
        ints = np.concatenate([self.X.indptr, self.X.indices])
        return compiled("csr", pack(self.X.data[np.newaxis], vector, ints, dtype), dtype)


def _squares(entries: Array) -> Array:
    return entries.astype(np.float64) ** 2


class LeastSquares(_Regression):
    """f(w) = |Xw - y|^2 / (2n) + l2/2 |w|^2, X dense or sparse.

    X: an array, or a SciPy sparse matrix, which is kept as CSR (duplicate entries are added
    up, indices sorted).  float32 stays float32, integers become float64.  An array that is
    C-contiguous, or a canonical CSR matrix, is not copied: do not change it afterwards.

    >>> p = LeastSquares([[2.0, 0.0], [0.0, 1.0]], [2.0, 3.0])
    >>> round(p.L, 9), round(p.mu, 9), p.x_star.round(9).tolist()
    (2.0, 0.5, [1.0, 3.0])
    """

    loss = SQUARED
    curvature = 1.0

    @cached_property
    def mu(self) -> float:  # type: ignore[override]
        """A lower bound of the strong convexity, l2 + the smallest eigenvalue of X^T X / n.

        That eigenvalue counts only where it is computed: where X has a small side.
        """
        return self.spectrum.smallest + self.l2

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The least-norm minimiser, by a direct solver; None where that would be too dear."""
        n, d = self.X.shape
        if d > DIRECT_UP_TO or (n + d) * d > DIRECT_ENTRIES:
            return None
        X = self.X.toarray() if self.is_sparse else self.X
        rows = np.vstack([X / np.sqrt(n, dtype=np.float64), np.sqrt(self.l2) * np.eye(d)])
        right = np.concatenate([self.y / np.sqrt(n), np.zeros(d)])
        return np.asarray(np.linalg.lstsq(rows, right, rcond=None)[0])


class LogisticRegression(_Regression):
    """f(w) = mean_i log(1 + exp(-y_i <x_i, w>)) + l2/2 |w|^2, y in {-1, +1}.

    X as for `LeastSquares`.

    >>> p = LogisticRegression([[1.0], [1.0]], [1, -1], l2=0.5)
    >>> round(p.L, 9), p.mu
    (0.75, 0.5)
    """

    loss = LOGISTIC
    curvature = 0.25

    def __init__(self, X: Any, y: ArrayLike, l2: float = 1e-4) -> None:
        super().__init__(X, y, l2)
        check_labels(self.y)

    def separated_by(self, x: ArrayLike) -> bool:
        """Whether <x_i, x> has the sign of y_i in all rows; then, without l2, f has no minimum."""
        return bool(np.all(self.y * (self.X @ flat(x, self.dim)) > 0.0))
