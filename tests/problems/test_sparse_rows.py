"""Sparse rows, side by side or one after the other, against dense products of the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.problems import sparse_rows
from continuized.problems.kernels import pass_over_rows
from continuized.problems.losses import SQUARED
from continuized.problems.sparse_rows import ABREAST, NEAR, SHORT_ROW, arrange
from continuized.support.jit import HAS_NUMBA


def draw(lengths: Any, d: int, dtype: Any = np.float64) -> Any:
    """A CSR array with rows of these lengths, at columns drawn at random, the first more often."""
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    draw_columns = (rng.permutation(d)[:m] if rng.random() < 0.5 else np.arange(m) for m in lengths)
    indices = np.concatenate([np.sort(columns) for columns in draw_columns]).astype(np.int32)
    values = rng.standard_normal(len(indices)).astype(dtype)
    return sparse.csr_array((values, indices, indptr), shape=(len(lengths), d))


RNG = np.random.default_rng(1)
LENGTHS = {
    "one of eight is long": np.tile([3, 0, 1, 40, 2, 2, 5, 0], 9),
    "skewed, and some are left over": np.minimum(RNG.pareto(1.0, 8 * 40 + 5) * 2, 90).astype(int),
    "none has an entry, but one": np.eye(1, 35, 30, dtype=int)[0] * 7,
    "fewer than eight": np.array([4, 1, 0, 2, 2]),
    "long": np.full(30, 60),
    "more than are sorted together": RNG.integers(0, 4, NEAR + 2 * ABREAST + 3),
}


@pytest.fixture(autouse=True)
def _few_entries_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_rows, "FEW_ENTRIES", 0)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", LENGTHS)
def test_sums_of_products(name: str, parts: int) -> None:
    X = draw(LENGTHS[name], 91)
    n, d = X.shape
    rng = np.random.default_rng(2)
    w, y, weights = rng.standard_normal(d), rng.standard_normal(n), rng.random(n)
    order, rows = arrange(X)
    assert (order is not None) == (HAS_NUMBA and X.nnz < SHORT_ROW * n and n >= ABREAST)
    taken = np.arange(n) if order is None else order
    assert sorted(taken) == list(range(n))
    assert sorted(rows[0]) == sorted(X.data)
    vector = np.concatenate([[SQUARED, 0.3, 0.0], y[taken], weights[taken]])
    value, gradient = pass_over_rows(rows, vector, w, parts, value=True, gradient=True)

    A = X.toarray()
    residuals = A @ w - y
    size = np.abs(A) @ np.abs(w) + np.abs(y)
    f = np.average(residuals**2 * weights) / 2 + 0.15 * w @ w
    # Each sum is off by its length times the rounding of the sizes of what is added.
    units = (n + d) * np.finfo(float).eps
    assert abs(value - f) <= units * (np.average(size**2 * weights) + w @ w)
    bound = units * (np.abs(A).T @ (weights * size) / n + np.abs(w))
    g = A.T @ (weights * residuals) / n + 0.3 * w
    assert np.all(np.abs(gradient - g) <= bound)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_users_matrix_stays_as_it_is(dtype: Any) -> None:
    X = draw(LENGTHS["one of eight is long"], 50, dtype)
    kept = X.copy()
    y = np.where(np.arange(X.shape[0]) % 3, 1.0, -1.0)
    p = cz.problems.LogisticRegression(X, y, 0.1)
    w = np.linspace(-1.0, 1.0, 50)
    dense = cz.problems.LogisticRegression(X.toarray(), y, 0.1)
    np.testing.assert_allclose(p.grad(w), dense.grad(w), rtol=1e-12, atol=1e-14)
    assert (kept != p.X).nnz == 0
    assert p.X.data.dtype == dtype
