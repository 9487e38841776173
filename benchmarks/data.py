"""Synthetic data, the same at every call."""

from __future__ import annotations

from typing import Any

import numpy as np

from continuized.problems.base import Array
from continuized.process.marks import Categorical

MARGIN = 3.0  # the standard deviation of <x, w> for the planted w


def dense(n: int, d: int, rotated: bool) -> tuple[Array, Array]:
    """Gaussian rows, feature j of scale 1/j, along the axes or turned at random; labels."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d)) * np.arange(1, d + 1.0) ** -1.0
    if rotated:
        X = X @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    return X, labels(X, rng)


def dense_classes(n: int, d: int, classes: int) -> tuple[Array, Array]:
    """The rotated rows of `dense`, and labels 0, ..., drawn from a planted softmax."""
    X, rng = dense(n, d, rotated=True)[0], np.random.default_rng(1)
    scores = X @ rng.standard_normal((d, classes))
    scores *= MARGIN / scores.std()
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def planted(X: Any) -> tuple[Any, Array]:
    """X, and y of a planted w, a tenth of which is not zero, with noise of a tenth."""
    rng = np.random.default_rng(1)
    w = np.where(rng.random(X.shape[1]) < 0.1, rng.standard_normal(X.shape[1]), 0.0)
    return X, X @ w + 0.1 * rng.standard_normal(X.shape[0])


def sparse(n: int, d: int, per_row: int = 50) -> tuple[Any, Array]:
    """Rows of `sparse_rows`; labels."""
    rng = np.random.default_rng(0)
    X = sparse_rows(n, d, per_row, rng)
    return X, labels(X, rng)


def sparse_rows(n: int, d: int, per_row: int, rng: np.random.Generator, power: float = 0.7) -> Any:
    """Rows of unit norm with Gaussian entries, column j drawn in proportion to j^-power.

    Entries that fall into the same column of a row are added up.
    """
    from scipy.sparse import csr_array

    popularity = np.arange(1, d + 1.0) ** -power
    columns = Categorical(popularity / popularity.sum()).draw(rng, n * per_row)
    starts = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    entries = rng.standard_normal(n * per_row)
    X = csr_array((entries, columns.astype(np.int32), starts), shape=(n, d))
    X.sum_duplicates()
    X.data /= np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    return X


def labels(X: Any, rng: np.random.Generator) -> Array:
    """-1 and +1, drawn from a planted Gaussian w through the logistic law."""
    margins = X @ rng.standard_normal(X.shape[1])
    margins *= MARGIN / margins.std()
    return np.where(rng.random(len(margins)) < 1.0 / (1.0 + np.exp(-margins)), 1.0, -1.0)
