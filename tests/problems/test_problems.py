"""The problems: gradients, constants, and compiled against plain."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.problems import kernels
from tests.invariants.registry import PROBLEMS, data, problem, same_bits

pytestmark = pytest.mark.blas

points = np.random.default_rng(3).standard_normal


@pytest.mark.parametrize("on", PROBLEMS)
def test_gradients_against_finite_differences(on: str) -> None:
    p = problem(on)
    x, v = points((2, p.dim))
    h = 1e-5
    slope = (p.fun(x + h * v) - p.fun(x - h * v)) / (2.0 * h)
    assert p.grad(x) @ v == pytest.approx(slope, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("on", PROBLEMS)
def test_constants_are_valid(on: str) -> None:
    p = problem(on)
    for _ in range(30):
        x, y = points((2, p.dim))
        dg, dx = p.grad(x) - p.grad(y), x - y
        assert dg @ dg <= p.L * (dg @ dx) * (1.0 + 1e-12)
        assert dg @ dx >= p.mu * (dx @ dx) * (1.0 - 1e-12)


@pytest.mark.parametrize("on", PROBLEMS)
def test_the_minimiser_where_known(on: str) -> None:
    p = problem(on)
    if p.x_star is None:
        assert p.f_star is None
        assert on.startswith(("logistic", "huber"))
        return
    assert np.linalg.norm(p.grad(p.x_star)) < 1e-14 * p.L * (1.0 + np.linalg.norm(p.x_star)) * 10
    assert p.f_star == pytest.approx(p.fun(p.x_star), abs=1e-15)
    assert all(p.fun(p.x_star + 0.1 * v) >= p.f_star for v in points((9, p.dim)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("on", [on for on in PROBLEMS if "user" not in on])
def test_compiled_is_plain(on: str, dtype: Any) -> None:
    p = problem(on)
    x = points(p.dim).astype(dtype)
    c = p.compile(dtype)
    out = np.empty_like(x)
    c.grad(x.ctypes.data, out.ctypes.data, x.size, c.table.ctypes.data)
    rtol = 1e-13 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(out, p.grad(x.astype(np.float64)), rtol=rtol, atol=rtol)
    assert c.value(x) == pytest.approx(p.fun(x.astype(np.float64)), rel=rtol)
    assert p.grad(x).dtype == dtype
    np.testing.assert_allclose(p.values(np.stack([x, 2 * x])), [p.fun(x), p.fun(2 * x)], rtol=1e-6)


def test_the_papers_functions() -> None:
    left, right = cz.problems.paper_convex(), cz.problems.paper_strongly_convex()
    assert (left.dim, left.L, left.mu, left.f_star) == (100, 1.0, 0.0, 0.0)
    assert left.fun(np.zeros(100)) == pytest.approx(0.5 * sum(i**-4.0 for i in range(1, 101)))
    assert left.x_star[[0, 1, 99]].tolist() == [1.0, 0.5, 0.01]
    assert (right.dim, right.L, right.mu, right.f_star) == (3, 1.0, 0.01, 0.0)
    assert right.grad(np.zeros(3)).tolist() == [-0.01, -0.03, -1.0]
    assert right.fun(np.zeros(3)) == pytest.approx(0.52)


KINDS = [cz.problems.LeastSquares, cz.problems.LogisticRegression]


def labels(kind: Any, y: np.ndarray) -> np.ndarray:
    return np.where(y > 0, 1.0, -1.0) if kind is KINDS[1] else y


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_is_dense(kind: Any, form: Any) -> None:
    X, y = data()
    p, q = kind(X, labels(kind, y), l2=0.1), kind(form(X), labels(kind, y), l2=0.1)
    w = points(p.dim)
    assert q.fun(w) == pytest.approx(p.fun(w), rel=1e-14)
    np.testing.assert_allclose(q.grad(w), p.grad(w), rtol=1e-13, atol=1e-15)
    assert (q.L, q.mu) == (pytest.approx(p.L, rel=1e-13), pytest.approx(p.mu, rel=1e-13))


def test_duplicates_in_a_sparse_matrix_add_up() -> None:
    X = sparse.coo_array(([1.0, 2.0, 1.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    p = cz.problems.LeastSquares(X, [3.0, 1.0])
    np.testing.assert_allclose(p.x_star, [1.0, 1.0], rtol=1e-14)


@pytest.mark.parametrize("shape", [(30, 4), (4, 9)])
def test_regression_constants_are_the_eigenvalues(shape: tuple[int, int]) -> None:
    X, y = points(shape), points(shape[0])
    hessian = np.linalg.eigvalsh(X.T @ X / shape[0])
    p = cz.problems.LeastSquares(X, y, l2=0.25)
    assert pytest.approx(hessian[-1] + 0.25, rel=1e-12) == p.L
    assert pytest.approx(max(hessian[0], 0.0) + 0.25, rel=1e-12) == p.mu
    q = cz.problems.LogisticRegression(X, np.sign(y), l2=0.25)
    assert pytest.approx(hessian[-1] / 4 + 0.25, rel=1e-12) == q.L
    assert q.mu == 0.25


def test_logistic_loss_far_out() -> None:
    p = cz.problems.LogisticRegression([[1.0]], [1.0], l2=0.0)
    for w in (-800.0, -30.0, -1e-9, 0.0, 1e-9, 30.0, 800.0):
        with mp.workdps(50):
            value = mp.log1p(mp.exp(-mp.mpf(w)))
            slope = -1 / (1 + mp.exp(mp.mpf(w)))
        assert p.fun(np.array([w])) == pytest.approx(float(value), rel=1e-15, abs=1e-320)
        assert p.grad(np.array([w]))[0] == pytest.approx(float(slope), rel=1e-15, abs=1e-320)


@pytest.mark.parametrize("on", [on for on in PROBLEMS if "user" not in on])
def test_points_as_users_write_them(on: str) -> None:
    p = problem(on)
    x = points(p.dim)
    assert p.fun(x.tolist()) == p.fun(x)
    assert same_bits(p.grad(x.tolist()), p.grad(x))
    assert same_bits(p.grad(np.repeat(x, 2)[::2]), p.grad(x))
    assert same_bits(p.grad(x[:, np.newaxis]), p.grad(x)[:, np.newaxis])
    never_written = x.copy()
    never_written.flags.writeable = False
    assert same_bits(p.grad(never_written), p.grad(x))
    ints = np.arange(p.dim)
    assert same_bits(p.grad(ints), p.grad(ints.astype(float)))
    assert p.fun(ints) == p.fun(ints.astype(float))
    for wrong in (np.zeros(p.dim + 1), np.zeros(p.dim - 1), 1.0 if p.dim > 1 else [1.0, 2.0]):
        for function in (p.fun, p.grad):
            with pytest.raises(ValueError, match=f"the problem has dimension {p.dim}"):
                function(wrong)


def test_small_arrays_are_copied() -> None:
    X, y = data()
    p = cz.problems.LeastSquares(X, y)  # X, which may be large, is used as it is
    w = points(p.dim)
    before = p.grad(w)
    y[:] = 0.0
    assert same_bits(p.grad(w), before)
    lam = np.array([1.0, 2.0])
    q = cz.problems.Quadratic(lam)
    lam[:] = 0.0
    assert q.grad(np.ones(2)).tolist() == [1.0, 2.0]


BAD = [
    (lambda: cz.problems.Quadratic([1.0, -1.0]), ValueError, "eigenvalues must be finite and >= 0"),
    (lambda: cz.problems.Quadratic([np.nan]), ValueError, "eigenvalues must be finite"),
    (
        lambda: cz.problems.Quadratic([[1.0]]),
        ValueError,
        r"eigenvalues must be a vector, got shape \(1, 1\)",
    ),
    (
        lambda: cz.problems.Quadratic([1.0], [1.0, 2.0]),
        ValueError,
        r"x_star must have the shape of eigenvalues, \(1,\), got \(2,\)",
    ),
    (lambda: cz.problems.Quadratic(["a"]), TypeError, "eigenvalues must be an array of real"),
    (lambda: cz.problems.Quadratic([1j]), TypeError, "eigenvalues must be an array of real"),
    (
        lambda: cz.problems.Quadratic([1.0], mu=2.0),
        ValueError,
        r"mu must be a number in \[0, 1\], got 2.0; ",
    ),
    (lambda: cz.problems.Quadratic([1.0], mu="1"), TypeError, r"mu must be a number .*, got '1'"),
    (lambda: cz.problems.LeastSquares([[1.0]], [1.0, 2.0]), ValueError, "a row for each entry"),
    (lambda: cz.problems.LeastSquares([1.0], [1.0]), ValueError, "X must be a matrix"),
    (
        lambda: cz.problems.LeastSquares([[np.inf]], [1.0]),
        ValueError,
        r"X must be finite, but X\[0, 0\] is inf",
    ),
    (lambda: cz.problems.LeastSquares([[1.0], [1.0, 2.0]], [1.0, 1.0]), ValueError, "X must be an"),
    (lambda: cz.problems.LeastSquares([["a"]], [1.0]), TypeError, "X must be an array of real"),
    (lambda: cz.problems.LeastSquares([[1.0]], [1j]), TypeError, "y must be an array of real"),
    (lambda: cz.problems.LeastSquares(np.zeros((0, 2)), []), ValueError, "no rows"),
    (lambda: cz.problems.LeastSquares([[1.0]], [1.0], l2=-1.0), ValueError, "l2 .* got -1.0"),
    (lambda: cz.problems.LeastSquares([[1.0]], [1.0], l2="a"), TypeError, "l2 .* got 'a'"),
    (lambda: cz.problems.LeastSquares(sparse.eye_array(2) * 1j, [1.0, 1.0]), TypeError, "X must"),
    (lambda: cz.problems.LogisticRegression([[1.0]], [0.0]), ValueError, r"-1 and \+1, .* 0.0"),
    (lambda: cz.Problem(3, abs), TypeError, "fun must be a function of x, got 3"),
    (lambda: cz.Problem(abs, 3), TypeError, "grad must be a function of x, got 3"),
]


@pytest.mark.parametrize(("make", "error", "message"), BAD)
def test_bad_data(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["L", "mu", "f_star", "x_star"])
def test_constants_that_are_no_finite_numbers_are_refused(name: str) -> None:
    for wrong in (10**400, float("nan"), "a"):
        given = [wrong, 1.0] if name == "x_star" else wrong
        with pytest.raises((TypeError, ValueError), match=f"^{name} must be "):
            cz.Problem(lambda x: 0.0, lambda x: x, **{name: given})


def test_an_array_is_no_flag() -> None:
    both = np.array([True, False])
    with pytest.raises(TypeError, match=r"^value_and_grad must be True or False, got array"):
        cz.Problem(lambda x: 0.0, lambda x: x, value_and_grad=both)  # type: ignore[arg-type]
    p = cz.problems.paper_strongly_convex()
    with pytest.raises(TypeError, match=r"^progress must be True or False, got array"):
        cz.minimize(p, np.zeros(3), progress=both)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^progress must be True or False, got array"):
        cz.ensemble(p, cz.Continuized(1.0), np.zeros(3), runs=2, steps=2, progress=both)  # type: ignore[arg-type]


@pytest.mark.parametrize("on", [name for name in PROBLEMS if not name.startswith("user")])
@pytest.mark.parametrize("size", [1e200, 1e308, np.inf, np.nan])
def test_far_away_no_warning_of_numpy_is_heard(on: str, size: float) -> None:
    p = problem(on)
    for x in (np.full(p.dim, size), np.resize([size, -size], p.dim)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values = p.fun(x), p.value_and_gradient(x)[0]
            p.grad(x)
        assert np.array_equal(*values, equal_nan=True)


def test_gradient_and_value_are_compiled_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops for quadratics have both written into them, and others ask for the gradient alone."""
    made: list[str] = []
    monkeypatch.setattr(
        kernels, "jit", lambda function, *_, **options: made.append(function.__name__)
    )
    for f in (kernels._compile_gradient, kernels._compile_value):
        monkeypatch.setattr(kernels, f.__name__, f.__wrapped__)  # without what is compiled already
    compiled = cz.problems.Quadratic([1.0]).compile()
    assert compiled is not None
    assert not made
    assert compiled.grad is None
    assert made == ["grad"]
    assert compiled.fun is None
    assert made == ["grad", "fun"]


def test_what_is_compiled_of_a_copy_has_the_data_of_the_copy() -> None:
    """Addresses of the data of another problem would outlive it."""
    X, y = points((20, 3)), np.sign(points(20))
    for p in (
        cz.problems.LogisticRegression(X, y),
        cz.problems.LeastSquares(sparse.csr_array(X), y),
    ):
        p.compile()
        compiled: Any = copy.deepcopy(p).compile()
        assert compiled.table.tolist() == kernels.make_table(compiled.data).tolist()


def test_a_problem_whose_data_change_between_runs_is_minimised_as_it_is() -> None:
    p = cz.problems.Quadratic([1.0, 4.0], [1.0, 2.0])
    cz.minimize(p, [0.0, 0.0], tol=1e-9, rng=0)
    p.x_star[:] = -5.0, 7.0
    np.testing.assert_allclose(cz.minimize(p, [0.0, 0.0], tol=1e-9, rng=0).x, [-5.0, 7.0])
    X, y = np.random.default_rng(0).standard_normal((2, 30, 5))
    fit = cz.problems.LeastSquares(X, y[:, 0], l2=0.1)
    fit.weights = np.full(30, 2.0)
    with pytest.raises(ValueError, match="weights"):
        cz.minimize(fit, np.zeros(5), method=cz.DualCoordinate(), rng=0)


def test_data_that_cannot_be_written_to_are_not_copied() -> None:
    """They may be mapped from a file, and larger than memory."""
    X = np.arange(12.0).reshape(4, 3)
    X.flags.writeable = False
    p = cz.problems.LeastSquares(X, np.ones(4), 0.1)
    compiled = p.compile()
    assert compiled is not None
    assert np.shares_memory(compiled.data[0], X)
    assert cz.minimize(p, np.zeros(3), rng=0).success
