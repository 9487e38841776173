"""Coordinate steps on working sets, against the duality gap as its definition has it."""

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.marked.penalty import Penalty
from continuized.solver import lasso
from continuized.solver.lasso import solve_lasso

SHAPES = {"few columns": (80, 7), "working sets": (150, 260)}


def data(shape, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape) * np.geomspace(1.0, 3.0, shape[1]) + offset
    w = np.where(np.arange(shape[1]) % 5 == 0, rng.standard_normal(shape[1]), 0.0)
    return X, X @ w + 0.3 * rng.standard_normal(shape[0])


def find_gap(X, y, shares, w, b, l1, l2):
    """The duality gap, written down from the definition: f(w) less the dual at a scaled residual.

    With f = mean of shares (y - Xw - b)^2 / 2 + l2/2 |w|^2 the dual of the stacked least squares
    [X; sqrt(n l2) I] w ~ [y; 0] is c <R, Y> - c^2 |R|^2 / 2, all over n."""
    n = len(y)
    r = shares**0.5 * (y - X @ w - b)
    A = shares[:, None] ** 0.5 * X
    R = np.append(r, -np.sqrt(n * l2) * w)
    Y = np.append(shares**0.5 * y, np.zeros(len(w)))
    slope = np.abs(A.T @ r / n - l2 * w).max()
    c = min(1.0, l1 / slope)
    return float((0.5 * R @ R - c * R @ Y + 0.5 * c * c * R @ R) / n + l1 * np.abs(w).sum())


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_minimiser_is_where_the_gap_is_zero(shape, kind, weighted):
    X, y = data(shape)
    if kind == "sparse":
        X = np.where(np.abs(X) > 1.0, X, 0.0)
    given = sparse.csr_array(X) if kind == "sparse" else X
    weights = np.random.default_rng(1).random(len(y)) if weighted else None
    shares = np.ones(len(y)) if weights is None else weights / weights.mean()
    p = cz.problems.LeastSquares(given, y, weights=weights, intercept=True)
    penalty = Penalty(cz.prox.Separable(0.1, 0.05), (shape[1],))
    found = solve_lasso(p, penalty, np.zeros(p.dim), 1e-9, most=10_000)
    w, b = found.x[:-1], found.x[-1]
    assert found.success
    assert 0 < np.count_nonzero(w) < len(w)
    # The intercept has no penalty: the gap is that of centred data.
    centred = y - np.average(y, weights=shares), X - np.average(X, axis=0, weights=shares)
    gap = find_gap(centred[1], centred[0], shares, w, 0.0, 0.1, 0.05)
    assert gap <= 2e-9
    assert np.average(y - X @ w - b, weights=shares) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_means_far_from_zero_lose_no_digits_that_count(shape, offset):
    """Of X^T X, 1e12 beside a variance of 1, rounding leaves 1e-4 of the variance; of gradients,
    products of X and residuals, 1e-16 offset^2 / sqrt(n), to which the gap is proportional."""
    X, y = data(shape)
    penalty, tol = Penalty(cz.prox.L1(0.1), (shape[1],)), max(1e-7, 1e-16 * offset**2)
    p = cz.problems.LeastSquares(X + offset, y, intercept=True)
    found = solve_lasso(p, penalty, np.zeros(p.dim), tol, most=10_000)
    assert found.success
    centred = X - X.mean(axis=0)
    w = found.x[:-1]
    assert find_gap(centred, y - y.mean(), np.ones(len(y)), w, 0.0, 0.1, 0.0) <= 2.0 * tol


def test_a_constant_column_and_one_of_zeros_are_left_out():
    X, y = data((60, 4))
    X[:, 1], X[:, 2] = 5.0, 0.0
    p = cz.problems.LeastSquares(X, y, intercept=True)
    found = solve_lasso(p, Penalty(cz.prox.L1(0.01), (4,)), np.zeros(5), 1e-10, most=1000)
    assert found.success
    assert found.x[1] == found.x[2] == 0.0


def test_all_columns_at_once_equal_working_sets(monkeypatch):
    X, y = data((150, 90))
    p, penalty = cz.problems.LeastSquares(X, y), Penalty(cz.prox.L1(0.05), (90,))
    monkeypatch.setattr(lasso, "FEW", 90)
    whole = solve_lasso(p, penalty, np.zeros(90), 1e-13, most=10_000)
    monkeypatch.setattr(lasso, "FEW", 3)
    monkeypatch.setattr(lasso, "SHARE", 0.0)
    parts = solve_lasso(p, penalty, np.zeros(90), 1e-13, most=10_000)
    assert whole.success
    assert parts.success
    np.testing.assert_allclose(whole.x, parts.x, atol=1e-6)
    assert np.array_equal(whole.x != 0.0, parts.x != 0.0)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_the_gap_bounds_what_is_left(tol, positive):
    X, y = data((100, 40))
    p = cz.problems.LeastSquares(X, y, intercept=True)
    prox = cz.prox.Separable(0.1, 0.01, 0.0 if positive else -np.inf)
    penalty = Penalty(prox, (40,))

    def value(x):
        return p.fun(x) + prox.value(x[:-1])

    best = value(solve_lasso(p, penalty, np.zeros(41), 1e-13, most=10_000).x)
    found = solve_lasso(p, penalty, np.zeros(41), tol, most=10_000)
    assert value(found.x) - best - 1e-12 <= found.gap <= tol


def test_too_few_passes_are_told():
    X, y = data((50, 30))
    p = cz.problems.LeastSquares(X, y)
    found = solve_lasso(p, Penalty(cz.prox.L1(0.01), (30,)), np.zeros(30), 1e-14, most=2)
    assert not found.success
    assert found.passes == 2
    assert found.gap > 1e-14


def test_bounds_hold_and_stop_coordinates():
    """Against SciPy's bounded least squares, with the l1 norm of x >= 0 as a linear term."""
    from scipy.optimize import minimize

    X, y = data((100, 6))
    p = cz.problems.LeastSquares(X, y)
    penalty = Penalty(cz.prox.Separable(0.1, low=0.0), (6,))
    found = solve_lasso(p, penalty, np.zeros(6), 1e-12, most=1000)
    other = minimize(
        lambda w: (p.fun(w) + 0.1 * w.sum(), p.grad(w) + 0.1), np.ones(6), jac=True,
        bounds=[(0.0, None)] * 6, options={"ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    np.testing.assert_allclose(found.x, other.x, atol=1e-6)
    assert found.x.min() == 0.0
