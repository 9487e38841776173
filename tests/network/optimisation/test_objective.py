"""What nodes minimise together: its parts, its constants, its minimiser, conjugates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime

from continuized.network import Objective, split
from continuized.network.optimisation.local_solver import (
    DualFunction,
    compiled_gradient_of_conjugate,
    hessian,
    make_data,
    make_newton,
)
from continuized.problems import LeastSquares, LogisticRegression, Quadratic

pytestmark = pytest.mark.blas

KINDS = {"ridge": LeastSquares, "logistic": LogisticRegression}


def problem(kind: str, n: int = 47, d: int = 4, l2: float = 0.05) -> Any:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d)) * np.linspace(0.3, 2.0, d)
    y = X @ np.arange(1.0, d + 1.0) + rng.standard_normal(n)
    return KINDS[kind](X, y if kind == "ridge" else np.sign(y), l2=l2)


def local(o: Objective, i: int, w: np.ndarray) -> float:
    """f_i(w), from its definition."""
    p, y = o.X[o.rows(i)] @ w, o.y[o.rows(i)]
    losses = 0.5 * (p - y) ** 2 if o.loss == 0.0 else np.log1p(np.exp(-y * p))
    return float(o.scale[i] * losses.sum() + 0.5 * o.l2[i] * w @ w)


@pytest.mark.parametrize("seed", [0, None])
@pytest.mark.parametrize("kind", KINDS)
def test_split_keeps_the_function(kind: str, seed: int | None) -> None:
    p = problem(kind)
    o = split(p, 5, seed)  # 47 rows: parts of 10 and of 9
    assert np.diff(o.starts).tolist() == [10, 10, 9, 9, 9]
    assert (seed is None) == np.array_equal(o.X, p.X)
    for w in np.random.default_rng(0).standard_normal((3, 4)):
        assert o.fun(w) == pytest.approx(p.fun(w), rel=1e-14)
        assert np.mean([local(o, i, w) for i in range(5)]) == pytest.approx(p.fun(w), rel=1e-14)
        np.testing.assert_allclose(o.grad(w), p.grad(w), rtol=1e-12, atol=1e-13)
    assert np.linalg.norm(p.grad(o.x_star)) < 1e-13
    assert o.error(np.zeros((5, 4))) == pytest.approx(1.0)


def test_sparse_rows_and_a_problem_for_each_node() -> None:
    p = problem("ridge")
    halves = [LeastSquares(p.X[:20], p.y[:20], l2=0.1), LeastSquares(p.X[20:], p.y[20:], l2=0.3)]
    o = Objective.of(halves)
    w = np.arange(4.0)
    assert o.fun(w) == pytest.approx(0.5 * (halves[0].fun(w) + halves[1].fun(w)), rel=1e-14)
    as_sparse = [LeastSquares(sparse.csr_array(h.X), h.y, l2=h.l2) for h in halves]
    assert np.array_equal(Objective.of(as_sparse).X, o.X)
    assert Objective.of(o) is o


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [3, 20])  # parts with more rows than columns, and with fewer
def test_constants_bound_the_curvature_of_every_part(kind: str, nodes: int) -> None:
    o = split(problem(kind), nodes)
    rng = np.random.default_rng(1)
    for i in range(nodes):
        rows = o.X[o.rows(i)]
        H = o.scale[i] * (0.25 if kind == "logistic" else 1.0) * rows.T @ rows
        ends = np.linalg.eigvalsh(H)[[0, -1]] + o.l2[i]
        assert o.local_L[i] == pytest.approx(ends[1], rel=1e-12)
        expected = ends[0] if kind == "ridge" else o.l2[i]
        assert o.local_mu[i] == pytest.approx(expected, rel=1e-9)
        a, b = rng.standard_normal((2, 4))
        slopes = [approx_fprime(w, lambda v, i=i: local(o, i, v), 1e-7) for w in (a, b)]
        curvature = (slopes[0] - slopes[1]) @ (a - b) / ((a - b) @ (a - b))
        assert o.mu - 1e-4 <= curvature <= o.L + 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_conjugate_gradients_invert_the_gradients(kind: str) -> None:
    o = split(problem(kind), 5)
    data, newton = make_data(o, conjugates=True), make_newton(o.dim)
    rng = np.random.default_rng(2)
    for i in range(5):
        for size in (1e-6, 1.0, 30.0):  # the last far beyond the slopes of the data: w is large
            s = size * rng.standard_normal(4)
            w = 10.0 * rng.standard_normal(4)
            assert compiled_gradient_of_conjugate(data, i, s, w, newton)
            p, y = o.X[o.rows(i)] @ w, o.y[o.rows(i)]
            slope = p - y if kind == "ridge" else -y / (1.0 + np.exp(np.minimum(y * p, 500.0)))
            gradient = o.scale[i] * o.X[o.rows(i)].T @ slope + o.l2[i] * w
            np.testing.assert_allclose(gradient, s, rtol=1e-12, atol=1e-13 * max(1.0, size))


def cancel(kind: str, offset: float = 0.0) -> Objective:
    """Make parts whose gradients at 0 cancel, but for an offset of the last row's y or x."""
    p = problem(kind)
    X, y = np.vstack([p.X, p.X[::-1]]), np.concatenate([p.y, -p.y[::-1]])
    X[-1] *= 1.0 + offset
    return split(KINDS[kind](X, y, l2=0.05), 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_minimiser_that_is_rounding_is_zero(kind: str) -> None:
    o = cancel(kind)
    assert np.any(o.grad(np.zeros(4)) != 0.0)  # to be seen through
    assert o.x_star.tolist() == [0.0] * 4
    assert o.find_agreement(np.ones(5, np.bool_), np.zeros(4)).tolist() == [0.0] * 4
    assert o.error(np.full((5, 4), 0.5)) == 1.0  # absolute


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [1e-12, 1e-6])
def test_a_small_minimiser_is_none_that_is_rounding(kind: str, offset: float) -> None:
    o = cancel(kind, offset)
    curvature = 1.0 if kind == "ridge" else 0.25
    hessian = curvature * (o.X.T * o.row_scale) @ o.X / 5 + o.l2.mean() * np.eye(4)
    expected = -np.linalg.solve(hessian, o.grad(np.zeros(4)))
    assert np.any(expected != 0.0)
    np.testing.assert_allclose(o.x_star, expected, rtol=0, atol=0.02 * np.abs(expected).max())
    assert o.error(np.zeros((5, 4))) == pytest.approx(1.0)


def test_rows_may_be_read_only_and_in_any_order() -> None:
    o = split(problem("logistic"), 5)
    X, y = np.asfortranarray(o.X), o.y.copy()
    X.flags.writeable = y.flags.writeable = False
    same = Objective(o.loss, X, y, o.starts, o.scale, o.l2)
    assert same.x_star.tolist() == o.x_star.tolist()
    at = 0.1 * np.ones((5, 4))
    assert DualFunction(same).slopes(at).tolist() == DualFunction(o).slopes(at).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_newtons_matrix_is_the_hessian(kind: str) -> None:
    """A wrong one would still lead to the minimiser, only slowly."""
    o, out = split(problem(kind), 1), np.zeros((4, 4))
    w = np.array([0.3, -0.2, 0.5, 0.1])
    hessian(o.loss, o.X, o.y, o.row_scale, float(o.l2[0]), w, out)
    step = 1e-6 * np.eye(4)
    columns = [(o.grad(w + e) - o.grad(w - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(out, np.tril(np.array(columns)), atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_the_dual_function(kind: str) -> None:
    o = split(problem(kind), 4)
    D = DualFunction(o)
    y = o.slopes_at_minimiser()
    assert np.abs(y.sum(axis=0)).max() < 1e-14
    np.testing.assert_allclose(D.slopes(y), np.tile(o.x_star, (4, 1)), rtol=1e-10)
    assert D.value(y) == pytest.approx(D.minimum, rel=1e-12)
    other = y + 0.1 * np.random.default_rng(0).standard_normal(y.shape)
    found = approx_fprime(other.ravel(), lambda v: D.value(v.reshape(y.shape)), 1e-6)
    np.testing.assert_allclose(found, D.slopes(other).ravel(), rtol=1e-3, atol=1e-4)


def test_nothing_given_is_changed() -> None:
    p = problem("ridge")
    X, y = p.X.copy(), p.y.copy()
    o = split(p, 5)
    o.X[:] = 0.0
    assert np.array_equal(p.X, X)
    assert np.array_equal(p.y, y)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: split(problem("ridge"), 48), "from 1 to 47, got 48; there are 47 rows"),
        (lambda: split(problem("ridge"), 0), "from 1 to 47"),
        (lambda: split(problem("ridge"), True), "from 1 to 47"),
        (lambda: Objective.of([]), "a regression for each node, got []"),
        (lambda: Objective.of("grid"), "a regression for each node"),
        (lambda: Objective.of([Quadratic([1.0], [0.0])]), "node 0 must be LeastSquares or"),
        (lambda: Objective.of([problem("ridge"), problem("logistic")]), "nodes 0 and 1 differ"),
        (lambda: Objective.of([problem("ridge"), problem("ridge", d=3)]), "nodes 0 and 1 differ"),
        (
            lambda: split(LeastSquares(np.eye(3), np.ones(3), l2=1.0, intercept=True), 2),
            "weights or an intercept; give one without",
        ),
    ],
)
def test_bad_input(make: Any, complaint: str) -> None:
    with pytest.raises((ValueError, TypeError), match=complaint.replace("[", r"\[")) as caught:
        make()
    assert "\n" not in str(caught.value)
