"""Linear regressions: f(w) = mean_i loss(<x_i, w>, y_i) + l2/2 |w|^2."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from continuized.problems.base import Array, Compiled, Problem, flat, number, numbers, pack
from continuized.problems.losses import LOGISTIC, SQUARED

EXACT_UP_TO = 2000  # the smaller side of X for which eigenvalues are computed exactly


class _Regression(Problem):
    loss: ClassVar[float]
    curvature: ClassVar[float]  # the largest second derivative of the loss

    def __init__(self, X: Any, y: ArrayLike, l2: float = 0.0) -> None:
        self.X, self.y = _checked_data(X, y)
        self.l2 = number(l2, "l2")
        if not 0.0 <= self.l2 < np.inf:
            raise ValueError(f"l2 must be a finite number >= 0, got {l2!r}")

    @property
    def dim(self) -> int:
        return int(self.X.shape[1])

    @cached_property
    def gram_range(self) -> tuple[float, float]:
        """The smallest and largest eigenvalue of X^T X / n."""
        n, d = self.X.shape
        if min(n, d) == 0:
            return 0.0, 0.0
        if min(n, d) > EXACT_UP_TO:
            raise ValueError(
                f"X is {n} x {d}: give L= and mu= yourself, they are computed only where the "
                f"smaller side is at most {EXACT_UP_TO}"
            )
        gram = self.X.T @ self.X if d <= n else self.X @ self.X.T
        gram = np.asarray(gram.toarray() if hasattr(gram, "toarray") else gram, np.float64)
        eigenvalues = np.linalg.eigvalsh(gram) / n
        smallest = float(eigenvalues[0]) if d <= n else 0.0
        # Rounded outwards by the error of the eigenvalue solver: L is an upper bound.
        error = 4.0 * len(eigenvalues) * math.ulp(1.0) * float(eigenvalues[-1])
        return max(smallest - error, 0.0), float(eigenvalues[-1] + error)

    @cached_property
    def L(self) -> float:  # type: ignore[override]
        return float(self.curvature * self.gram_range[1] + self.l2)

    @cached_property
    def mu(self) -> float:  # type: ignore[override]
        return self.l2

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        return None

    @cached_property
    def f_star(self) -> float | None:  # type: ignore[override]
        return None if self.x_star is None else self.fun(self.x_star)

    def fun(self, x: Array) -> float:
        w = flat(x, self.dim)
        problem = self.compiled(w.dtype)
        return float(problem.fun(w, problem.data))

    def grad(self, x: Array) -> Array:
        w = flat(x, self.dim)
        problem = self.compiled(w.dtype)
        out = np.empty_like(w)
        problem.grad(w, out, problem.data)
        return out.reshape(np.shape(x))

    def compiled(self, dtype: Any = np.float64) -> Compiled:
        return self._compiled_for(np.dtype(dtype).char)

    def _compiled_for(self, char: str) -> Compiled:
        cached: dict[str, Compiled] = self.__dict__.setdefault("_compiled", {})
        if char not in cached:
            cached[char] = self._compile(np.dtype(char))
        return cached[char]

    def _compile(self, dtype: Any) -> Compiled:
        from continuized.problems.compiled import compiled

        vector = np.concatenate([[self.loss, self.l2], self.y])
        if isinstance(self.X, np.ndarray):
            return compiled("dense", pack(self.X, vector, dtype=dtype), dtype)
        ints = np.concatenate([self.X.indptr, self.X.indices])
        return compiled("csr", pack(self.X.data[np.newaxis], vector, ints, dtype), dtype)


class LeastSquares(_Regression):
    """f(w) = |Xw - y|^2 / (2n) + l2/2 |w|^2, X dense or sparse.

    >>> p = LeastSquares([[2.0, 0.0], [0.0, 1.0]], [2.0, 3.0])
    >>> round(p.L, 9), round(p.mu, 9), p.x_star.round(9).tolist()
    (2.0, 0.5, [1.0, 3.0])
    """

    loss = SQUARED
    curvature = 1.0

    @cached_property
    def mu(self) -> float:  # type: ignore[override]
        return self.gram_range[0] + self.l2

    @cached_property
    def x_star(self) -> Array | None:  # type: ignore[override]
        """The least-norm minimiser, by a direct solver; None where that would be too dear."""
        n, d = self.X.shape
        if max(min(n, d), d) > EXACT_UP_TO:
            return None
        X = self.X.toarray() if hasattr(self.X, "toarray") else self.X
        rows = np.vstack([X / np.sqrt(n), np.sqrt(self.l2) * np.eye(d)])
        right = np.concatenate([self.y / np.sqrt(n), np.zeros(d)])
        return np.asarray(np.linalg.lstsq(rows, right, rcond=None)[0])


class LogisticRegression(_Regression):
    """f(w) = mean_i log(1 + exp(-y_i <x_i, w>)) + l2/2 |w|^2, y in {-1, +1}.

    >>> p = LogisticRegression([[1.0], [1.0]], [1, -1], l2=0.5)
    >>> round(p.L, 9), p.mu
    (0.75, 0.5)
    """

    loss = LOGISTIC
    curvature = 0.25

    def __init__(self, X: Any, y: ArrayLike, l2: float = 1e-4) -> None:
        super().__init__(X, y, l2)
        others = np.setdiff1d(self.y, [-1.0, 1.0])
        if others.size:
            raise ValueError(f"y must hold only the labels -1 and +1, but also has {others[0]}")


def _checked_data(X: Any, y: ArrayLike) -> tuple[Any, Array]:
    from scipy import sparse

    labels = numbers(y, "y")
    if sparse.issparse(X):
        if X.dtype.kind not in "fiu":
            raise TypeError(f"X must be a matrix of real numbers, got dtype {X.dtype}")
        X = sparse.csr_array(X, dtype=np.float64)
        X.sum_duplicates()
        entries = X.data
    else:
        X = entries = numbers(X, "X")
    if X.ndim != 2 or labels.shape != (X.shape[0],):
        raise ValueError(
            f"X must be a matrix with a row for each entry of y, got shapes {X.shape} and "
            f"{labels.shape}"
        )
    if X.shape[0] == 0:
        raise ValueError("X has no rows")
    if not (np.all(np.isfinite(entries)) and np.all(np.isfinite(labels))):
        raise ValueError("X and y must hold finite numbers only")
    return X, labels
