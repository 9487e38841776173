"""Metrics made from the curvature of a regression at a point.

With losses of curvature q_i at w, the Hessian is H = sum_i q_i x_i x_i^T / n + l2 I.  A metric
is made from it or from a random sample of its rows, and made anew at a later point when the
steps since have cost as much as it did: so at most half of the work is spent on it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from continuized import metric as metrics
from continuized import seeds
from continuized.problems.base import Array, Problem
from continuized.problems.losses import LOGISTIC, SQUARED

NAMES = ("diag", "gram", "nystrom", "auto")
MOST_GRAM = 3000  # variables, for "auto": a factorisation of d^3 beyond costs more than it gains
SAMPLE = 10  # rows a variable
RANK = 200
BLAS_QUICKER = 5.0  # a flop of a matrix product, than one of a pass over the data
LEAST_STEPS = 3


@dataclass(frozen=True)
class Source:
    """A kind of metric for a regression: `at(w)` makes it, `steps` is when to make it anew."""

    problem: Any
    kind: str
    root: seeds.Root

    @property
    def steps(self) -> float:
        """How many steps cost as much as making the metric."""
        p, d = self.problem, float(self.problem.dim)
        if self.kind == "diag" or p.loss == SQUARED:
            return math.inf  # it would be the same again
        gradient = 4.0 * entries(p.X)
        if self.kind == "nystrom":
            m = min(4.0 * RANK, len(p.y))
            work = (m * m * d + m * m * m) / BLAS_QUICKER
        elif p.is_sparse:
            squares = np.diff(p.X.indptr).astype(np.float64) ** 2
            share = min(1.0, _sample_size(p) / len(p.y))
            work = float(squares.sum()) * share + 2.0 * d**3 / BLAS_QUICKER
        else:
            work = (_sample_size(p) * d * d + 2.0 * d**3) / BLAS_QUICKER
        return max(LEAST_STEPS, work / gradient)

    def at(self, w: Array, number: int) -> metrics.Metric:
        """The metric for steps from w, the so-manieth of a run: each has a sample of its own."""
        rng = np.random.default_rng(seeds.child(self.root, seeds.METRICS, number))
        return metrics.fitting(self._made(w.ravel(), rng), w.shape)

    def _made(self, w: Array, rng: np.random.Generator) -> Any:
        if self.kind == "diag":
            return metrics.Diagonal(np.maximum(self.problem.coordinate_L, _least(self.problem)))
        if self.kind == "gram":
            return metrics.Dense(gram(self.problem, w, rng))
        return nystrom(self.problem, w, rng)


def source(kind: Any, problem: Problem, root: seeds.Root) -> Source:
    """A metric by its name."""
    if kind not in NAMES:
        raise ValueError(f'metric must be one of "diag", "gram", "nystrom", "auto", got {kind!r}')
    if not hasattr(problem, "curvature"):
        raise ValueError(
            f'metric="{kind}" is made from the data of a regression, got a '
            f"{type(problem).__name__} without such data; give an array "
            "or an object with solve(g) and norm2(v)"
        )
    if kind == "auto":
        kind = "gram" if problem.dim is not None and problem.dim <= MOST_GRAM else "nystrom"
    return Source(problem, kind, root)


def entries(X: Any) -> float:
    """How many numbers X holds."""
    return float(X.size if isinstance(X, np.ndarray) else X.nnz)


def _sample_size(p: Any) -> int:
    """Rows of a sample: enough for every direction; all of them where that costs little more.

    Sparse columns are not all seen by a sample, and a direction that it misses has L large.
    """
    n, d = p.X.shape
    if not p.is_sparse:
        return int(min(n, SAMPLE * d))
    squares = float((np.diff(p.X.indptr).astype(np.float64) ** 2).sum())
    return int(n if squares <= 100.0 * p.X.nnz else min(n, SAMPLE * d))


def _sample(p: Any, m: int, rng: np.random.Generator) -> Array:
    n = len(p.y)
    return np.arange(n) if m >= n else np.sort(rng.choice(n, m, replace=False))


def _least(p: Any) -> float:
    """What the eigenvalues of a metric are kept above: a column may be empty, and far away all
    losses are straight lines."""
    return max(float(np.finfo(np.float64).eps * p.coordinate_L.sum()), 1e-300)


def gram(p: Any, w: Array, rng: np.random.Generator) -> Array:
    """sum_i q_i x_i x_i^T / m + l2 I over a sample of m rows."""
    rows = _sample(p, _sample_size(p), rng)
    if p.is_sparse:
        P = _sparse_gram(p, w, rows)
    else:
        S = p.X if len(rows) == len(p.y) else p.X[rows]
        scaled = S * np.sqrt(_curvatures(p, S @ w, rows))[:, None]
        P = scaled.T @ scaled / len(rows)
    P[np.diag_indices(len(P))] += p.l2 + _least(p)
    return P


def _sparse_gram(p: Any, w: Array, rows: Array) -> Array:
    from continuized.kernels.gram import add_sparse_gram
    from continuized.problems import threads

    X = p.X if p.X.has_sorted_indices else p.X.sorted_indices()
    q = _curvatures(p, (X @ w)[rows], rows) / len(rows)
    parts = threads.count() if X.nnz > 10 * X.shape[1] ** 2 else 1
    cuts = [len(rows) * part // parts for part in range(parts + 1)]
    sums = np.zeros((parts, X.shape[1], X.shape[1]))

    def work(i: int) -> None:
        part = slice(cuts[i], cuts[i + 1])
        data = X.data.astype(np.float64, copy=False)
        add_sparse_gram(data, X.indptr, X.indices, q[part], rows[part], sums[i])

    threads.in_parts(work, parts)
    upper = sums.sum(axis=0)
    return np.asarray(upper + np.triu(upper, 1).T)


def _curvatures(p: Any, predictions: Array, rows: Array) -> Array:
    """The second derivatives of the losses at these predictions."""
    if p.loss != LOGISTIC:
        return np.ones(len(rows))
    e = np.exp(-np.abs(predictions))
    return np.asarray(e / (1.0 + e) ** 2)


def nystrom(p: Any, w: Array, rng: np.random.Generator) -> Any:
    """The largest eigenvalues of a sample's Hessian and their directions; elsewhere, the
    smallest of these in place of the rest."""
    n, d = p.X.shape
    rank = min(RANK, n, d)
    rows = _sample(p, min(4 * rank, n), rng)
    S = p.X[rows]
    scaled = np.sqrt(_curvatures(p, S @ w, rows) / len(rows))[:, None]
    S = S.multiply(scaled).tocsr() if p.is_sparse else S * scaled
    K = S @ S.T
    values, vectors = np.linalg.eigh(K.toarray() if p.is_sparse else K)
    kept = values > max(values[-1] * 1e-12, _least(p))
    if not np.any(kept):
        return metrics.Diagonal(np.full(d, p.l2 + _least(p)))
    values, vectors = values[kept][::-1][:rank], vectors[:, kept][:, ::-1][:, :rank]
    U = np.ascontiguousarray((S.T @ vectors) / np.sqrt(values))
    # Where nothing is left out, neither rows nor directions, the rest has l2 alone.
    exact = len(rows) == n and kept.sum() <= rank and p.l2 > 0.0
    rest = p.l2 + (0.0 if exact else float(values[-1]))
    return metrics.LowRank(U, values + p.l2, max(rest, 1e-12 * float(values[0])))
