"""The extreme eigenvalues of X^T X / n: exact where that is cheap, else certified bounds.

They are the same to the last bit on any number of cores, for a checkpoint knows its run by them:
each product is made by one thread of BLAS, of parts that do not depend on how many threads share
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.support import blas
from continuized.support.threads import interruptible

EXACT_UP_TO = 1500  # the smaller side of X for which all eigenvalues are computed,
EXACT_WORK = 5e10  # unless X^T X alone would take more operations than this
BLOCK_NUMBERS = 2**22  # entries of X converted to float64 at once
GRAM_NUMBERS = 2**20  # entries in a part of a Gram matrix, at least

SLACK = 0.05  # how much too large the Lanczos bound may be
FAILURE = 1e-10  # the probability that it is too small
SEED = 2021


class Spectrum(NamedTuple):
    """Bounds smallest <= every eigenvalue of X^T X / n <= largest.

    how: "exact" (all eigenvalues, widened by a bound on the rounding errors), "lanczos", or
    "norms".  failure: the probability that `largest` is too small; 0 unless how is "lanczos".
    rounding: how much of the distance to the eigenvalue is there for rounding errors alone.
    """

    smallest: float
    largest: float
    how: str
    failure: float
    rounding: float


def spectrum(X: Any, multiply: Callable[[Array], Array]) -> Spectrum:
    """The spectrum of X^T X / n, where multiply(v) = X^T X v / n."""
    return interruptible(X.size * float(min(X.shape)), _spectrum, X, multiply)


def _spectrum(X: Any, multiply: Callable[[Array], Array]) -> Spectrum:
    n, d = X.shape
    pairs = None
    if not isinstance(X, np.ndarray):
        pairs = count_pairs(np.diff(X.indptr) if d <= n else np.bincount(X.indices, minlength=d))
    work = count_gram_work(n, d, pairs)
    return bound_spectrum((n, d), X.size, measure(X), multiply, lambda: gram(X), work)


@blas.always_on_one_thread()
def bound_spectrum(
    shape: tuple[int, int], size: int, measures: Sequence[Any],
    multiply: Callable[[Array], Array], gram: Callable[[], Array], gram_work: float,
) -> Spectrum:  # fmt: skip
    """The spectrum of an X of this shape and so many entries, of which these `measures` are known.

    gram() gives the smaller of X^T X and X X^T, for so much work.
    """
    n, d = shape
    trace, norms = _safe_bounds(n, size, *measures)
    if not math.isfinite(trace):
        raise ValueError("the squares of X's entries overflow: rescale X")
    if trace == 0.0:
        return Spectrum(0.0, 0.0, "exact", 0.0, 0.0)
    inner, side = max(n, d), min(n, d)
    rounding = math.ulp(1.0) * trace
    if side <= EXACT_UP_TO and gram_work <= EXACT_WORK:
        eigenvalues = np.linalg.eigvalsh(gram() / n)
        error = gram_error(inner, side, trace)
        smallest = float(eigenvalues[0]) - error if d <= n else 0.0
        largest = float(eigenvalues[-1]) + error
        return Spectrum(max(smallest, 0.0), largest, "exact", 0.0, 2.0 * error)
    above = lanczos_bound(multiply, d, SLACK, FAILURE) + inner * rounding
    if norms <= above:
        return Spectrum(0.0, norms, "norms", 0.0, 2.0 * _sum_error(size) * norms)
    return Spectrum(0.0, above, "lanczos", FAILURE, 2.0 * inner * rounding)


def gram_error(inner: int, side: int, trace: Any) -> Any:
    """A bound on the errors of the eigenvalues of X^T X / n, of this trace, computed from it.

    |fl(X^T X) - X^T X| <= inner * eps * |X|_F^2 (Higham 2002, 3.5), where the products have `inner`
    terms, and an eigenvalue solver adds a modest multiple of its size, `side`.
    """
    return (inner + 4 * side) * math.ulp(1.0) * trace


def lanczos_steps(d: int, slack: float, failure: float) -> int:
    """Tell how many steps `lanczos_bound` takes."""
    return math.ceil(0.5 + 0.5 * math.log(1.648 * math.sqrt(d) / failure) / math.sqrt(slack))


def lanczos_bound(
    multiply: Callable[[Array], Array], d: int, slack: float, failure: float, seed: int = SEED
) -> float:
    """An upper bound of the largest eigenvalue of a positive semidefinite d x d matrix.

    After k steps from a random direction, the largest Ritz value theta satisfies

        P(theta < (1 - slack) lambda) <= 1.648 sqrt(d) exp(-sqrt(slack) (2k - 1))

    (Kuczynski and Wozniakowski 1992, theorem 4.2), whatever the spectrum: no gap is needed.
    k is chosen so that the right-hand side is `failure`; theta / (1 - slack) is the bound,
    and theta <= lambda says that it is never more than 1 / (1 - slack) times too large.

    The theorem is about exact arithmetic: the basis is kept orthogonal by orthogonalising
    twice, for memory of k vectors.  Where the Krylov space is exhausted, a fresh random
    direction extends it, which can only raise theta.
    """
    rng = np.random.default_rng(seed)
    k = min(lanczos_steps(d, slack, failure), d)
    basis = np.zeros((k, d))
    alpha, beta = np.zeros(k), np.zeros(k)
    v = rng.standard_normal(d)
    basis[0] = v / np.linalg.norm(v)
    for j in range(k):
        v = multiply(basis[j])
        alpha[j] = basis[j] @ v
        if j + 1 == k:
            break
        size = float(np.linalg.norm(v))
        beta[j], v = _orthogonal(v, basis[: j + 1])
        if beta[j] <= 1e-13 * size:
            beta[j], (_, v) = 0.0, _orthogonal(rng.standard_normal(d), basis[: j + 1])
        basis[j + 1] = v
    theta = float(np.linalg.eigvalsh(np.diag(alpha) + np.diag(beta[:-1], 1), UPLO="U")[-1])
    return theta / (1.0 - slack)


def _orthogonal(v: Array, basis: Array) -> tuple[float, Array]:
    """The length of v without its part in the basis, and that rest as a unit vector."""
    v = v - basis.T @ (basis @ v)
    v -= basis.T @ (basis @ v)
    length = float(np.linalg.norm(v))
    return length, v / length if length > 0.0 else v


def _blocks(X: Array) -> Iterator[Array]:
    """The rows of X, some at a time, in float64."""
    rows = max(1, BLOCK_NUMBERS // max(X.shape[1], 1))
    for first in range(0, len(X), rows):
        yield X[first : first + rows].astype(np.float64, copy=False)


@blas.always_on_one_thread()
def measure(X: Any) -> tuple[float, float, Array]:
    """Return |X|_F^2, the largest sum of the sizes of a row's entries, and that of each column."""
    d = X.shape[1]
    square, rows, columns = 0.0, 0.0, np.zeros(d)
    with np.errstate(over="ignore"):
        if isinstance(X, np.ndarray):
            for part in _blocks(X):
                sizes = np.abs(part)
                square += float(np.vdot(sizes, sizes))
                rows = max(rows, float(sizes.sum(axis=1).max(initial=0.0)))
                columns += sizes.sum(axis=0)
        else:
            sizes = np.abs(X.data.astype(np.float64))
            square = float(sizes @ sizes)
            rows = float((abs(X) @ np.ones(d)).max(initial=0.0))
            columns = np.bincount(X.indices, sizes, minlength=d)
    return square, rows, columns


def _safe_bounds(
    n: int, size: int, square: float, rows: float, columns: Array
) -> tuple[float, float]:
    """The trace of X^T X / n, and the smaller of it and |X|_1 |X|_inf / n, both rounded up."""
    with np.errstate(over="ignore"):
        norms = rows * float(columns.max(initial=0.0))
    up = 1.0 + _sum_error(size)
    return float(square / n * up), float(min(square, norms) / n * up)


def _sum_error(size: int) -> float:
    """Relative, of such sums over X: one of m terms >= 0 errs by less than m eps."""
    return float(3.0 * size * math.ulp(1.0))


def count_pairs(lengths: Array) -> float:
    """Count the pairs of entries that stand in one row (or column), of rows of these lengths."""
    return float((lengths.astype(np.float64) ** 2).sum())


def count_gram_work(n: int, d: int, pairs: float | None) -> float:
    """Count the operations that `gram` takes; pairs: of entries, in a sparse X (`count_pairs`)."""
    return float(n) * d * min(n, d) if pairs is None else 10.0 * pairs


def gram(X: Any) -> Array:
    """X^T X or X X^T, whichever is smaller, in float64."""
    return column_gram(X if X.shape[1] <= X.shape[0] else X.T)


def column_gram(X: Any) -> Array:
    """X^T X, in float64."""
    if not isinstance(X, np.ndarray):
        X = X.astype(np.float64)
        return np.asarray((X.T @ X).toarray())
    n, d = X.shape
    rows = max(GRAM_NUMBERS // max(d, 1), d, 1)  # no fewer than columns: the sums cost less, then

    def multiply(part: int) -> Array:
        some = X[part * rows : (part + 1) * rows].astype(np.float64, copy=False)
        return np.asarray(some.T @ some)

    return blas.add_in_order(max(-(-n // rows), 1), multiply)
