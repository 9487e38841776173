"""Weights and intercepts of the regressions, and the softmax regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp

import continuized as cz
from continuized.problems import linear, softmax, spectrum, threads
from continuized.problems.passes import Wanted, one_pass
from continuized.problems.row_sums import CSR_BLOCK

KINDS = {
    "squared": cz.problems.LeastSquares,
    "logistic": cz.problems.LogisticRegression,
    "softmax": cz.problems.SoftmaxRegression,
}
FORMS = {"dense": np.array, "sparse": sparse.csr_array}
CLASSES = 4
EXTRAS = [(weighted, intercept) for weighted in (False, True) for intercept in (False, True)]


def data(kind: str, n: int = 37, d: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X, y and weights, some of which are 0."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6) + 0.3
    y = {
        "squared": rng.standard_normal(n),
        "logistic": np.where(rng.random(n) < 0.5, -1.0, 1.0),
        "softmax": rng.integers(0, CLASSES, n).astype(float),
    }[kind]
    return X, y, np.where(rng.random(n) < 0.2, 0.0, rng.exponential(3.0, n))


def make(kind: str, form: str, weighted: bool, intercept: bool, l2: float = 0.2, **o: int) -> Any:
    X, y, weights = data(kind, **o)
    options: dict[str, Any] = {"classes": CLASSES} if kind == "softmax" else {}
    if weighted:
        options["weights"] = weights
    return KINDS[kind](FORMS[form](X), y, l2=l2, intercept=intercept, **options)


def by_definition(p: Any, kind: str, w: np.ndarray) -> float:
    """f from its definition, row by row, with the constant column written out."""
    X = p.X.toarray() if p.is_sparse else p.X
    A = np.column_stack([X, np.ones(len(X))]) if p.intercept else X
    weights = np.ones(len(X)) if p.weights is None else p.weights
    W = w.reshape(A.shape[1], -1)
    scores = A @ W
    if kind == "softmax":
        labels = p.y.astype(int)
        losses = [logsumexp(s) - s[k] for s, k in zip(scores, labels, strict=True)]
    elif kind == "logistic":
        losses = [np.logaddexp(0.0, -y * s) for y, s in zip(p.y, scores[:, 0], strict=True)]
    else:
        losses = [0.5 * (s - y) ** 2 for y, s in zip(p.y, scores[:, 0], strict=True)]
    penalised = W[: X.shape[1]]
    total = sum(c * v for c, v in zip(weights, losses, strict=True))
    return float(total / weights.sum() + 0.5 * p.l2 * np.sum(penalised**2))


@pytest.fixture(params=[1, 3])
def parts(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """A pass cut into so many parts, however small the data."""
    monkeypatch.setattr(linear, "LARGE", 0)
    monkeypatch.setattr(softmax, "ROWS", 10 if request.param > 1 else 10_000)
    monkeypatch.setattr(threads, "count", lambda: request.param)
    return int(request.param)


@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_against_the_definition(
    kind: str, form: str, weighted: bool, intercept: bool, parts: int
) -> None:
    for n in (1, 7, 8, 37):
        p = make(kind, form, weighted, intercept, n=n)
        w = np.random.default_rng(1).standard_normal(p.dim)
        f = by_definition(p, kind, w)
        value, gradient = p.value_and_gradient(w)
        assert value == pytest.approx(f, rel=1e-13)
        assert p.fun(w) == pytest.approx(f, rel=1e-13)
        steps = 1e-5 * np.eye(p.dim)
        slopes = [
            (by_definition(p, kind, w + s) - by_definition(p, kind, w - s)) / 2e-5 for s in steps
        ]
        np.testing.assert_allclose(gradient, slopes, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(p.grad(w), gradient, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["squared", "logistic"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_for_loops(
    kind: str, form: str, weighted: bool, intercept: bool, dtype: Any
) -> None:
    p = make(kind, form, weighted, intercept)
    w = np.random.default_rng(2).standard_normal(p.dim).astype(dtype)
    c, out = p.compiled(dtype), np.full(p.dim, np.nan, dtype)
    c.grad(w, out, c.data)
    value, gradient = p.value_and_gradient(w.astype(np.float64))
    rtol = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(out, gradient, rtol=rtol, atol=rtol)
    assert c.fun(w, c.data) == pytest.approx(value, rel=rtol)
    assert p.value_and_gradient(w)[1].dtype == p.grad(w).dtype == dtype


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_constants(
    kind: str,
    form: str,
    weighted: bool,
    intercept: bool,
    exact: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Against the eigenvalues of the Hessian's bound, with the constant column written out."""
    if not exact:
        monkeypatch.setattr(spectrum, "EXACT_UP_TO", 0)
    for l2 in (0.0, 0.2):
        p = make(kind, form, weighted, intercept, l2=l2)
        X = p.X.toarray() if p.is_sparse else p.X
        A = np.column_stack([X, np.ones(len(X))]) if intercept else X
        weights = np.ones(len(X)) if p.weights is None else p.weights
        gram = A.T @ (weights[:, None] * A) / weights.sum()
        ridge = l2 * np.diag([1.0] * X.shape[1] + [0.0] * intercept)
        values = np.linalg.eigvalsh(p.curvature * gram + ridge)
        assert values[-1] <= p.L * (1.0 + 1e-14)
        slack = 1e-12 if exact else 0.06
        assert values[-1] * (1.0 + slack) + (l2 if intercept else 0.0) >= p.L
        assert 0.0 <= p.mu <= values[0]
        if kind == "squared":
            assert p.mu >= (0.9 * values[0] if exact and not (l2 and intercept) else 0.1 * l2)
            assert p.mu > 0.0 or not (l2 or exact)
        else:
            assert p.mu == (0.0 if intercept else l2)
        rows = p.sample_rows(np.arange(len(X)))
        rows = rows.toarray() if p.is_sparse else rows
        np.testing.assert_allclose(rows.T @ rows / len(X), gram, rtol=1e-12, atol=1e-14)
        if kind != "softmax":
            diagonal = np.diag(p.curvature * gram + ridge)
            np.testing.assert_allclose(p.coordinate_L, diagonal, rtol=1e-13)
            np.testing.assert_allclose(p.row_norms2, np.sum(A**2, axis=1), rtol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_curvatures_give_the_hessian(kind: str, form: str) -> None:
    p = make(kind, form, True, True)
    w = np.random.default_rng(8).standard_normal(p.dim)
    rows = np.arange(len(p.y))
    S, q = p.sampled(w, rows)
    S = S.toarray() if p.is_sparse else S
    assert np.all((q >= 0.0) & (q <= p.curvature))
    M = S.T @ (q[:, None] * S) / len(rows) + p.l2 * np.diag([1.0] * (S.shape[1] - 1) + [0.0])
    steps = 1e-5 * np.eye(p.dim)
    hessian = np.array([(p.grad(w + s) - p.grad(w - s)) / 2e-5 for s in steps])
    if kind == "softmax":  # only a bound, the same for every class
        assert np.linalg.eigvalsh(np.kron(M, np.eye(CLASSES)) - hessian)[0] > -1e-8
    else:
        np.testing.assert_allclose(hessian, M, rtol=1e-7, atol=1e-9)


def test_mu_with_an_intercept_where_rows_are_few() -> None:
    # More variables than rows: only l2 and the intercept's own curvature make f strongly convex.
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 30.0):
        X = rng.standard_normal((4, 9)) + scale
        p = cz.problems.LeastSquares(X, np.ones(4), l2=0.1, intercept=True)
        A = np.column_stack([X, np.ones(4)])
        smallest = np.linalg.eigvalsh(A.T @ A / 4 + 0.1 * np.diag([1.0] * 9 + [0.0]))[0]
        assert 0.2 * smallest <= p.mu <= smallest


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_repeated_rows(kind: str, form: str) -> None:
    X, y, _ = data(kind)
    counts = np.random.default_rng(3).integers(0, 4, len(y))
    options: dict[str, Any] = {"classes": CLASSES} if kind == "softmax" else {}
    p = KINDS[kind](FORMS[form](X), y, l2=0.1, weights=counts, intercept=True, **options)
    repeated = FORMS[form](X.repeat(counts, axis=0))
    q = KINDS[kind](repeated, y.repeat(counts), l2=0.1, intercept=True, **options)
    w = np.random.default_rng(4).standard_normal(p.dim)
    assert p.fun(w) == pytest.approx(q.fun(w), rel=1e-13)
    np.testing.assert_allclose(p.grad(w), q.grad(w), rtol=1e-12, atol=1e-14)
    assert pytest.approx(q.L, rel=1e-12) == p.L
    assert p.mu == pytest.approx(q.mu, rel=1e-9, abs=1e-15)
    # Neither the size of the weights nor their type counts.
    other = KINDS[kind](
        FORMS[form](X), y, l2=0.1, weights=1e-250 * counts, intercept=True, **options
    )
    assert other.fun(w) == pytest.approx(p.fun(w), rel=1e-13)


@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
def test_minimiser_of_least_squares(form: str, weighted: bool, intercept: bool) -> None:
    p = make("squared", form, weighted, intercept)
    assert np.linalg.norm(p.grad(p.x_star)) < 1e-13
    assert p.f_star == pytest.approx(by_definition(p, "squared", p.x_star), rel=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_minimize(kind: str) -> None:
    p = make(kind, "sparse", True, True, l2=0.3)
    shape = (p.dim // CLASSES, CLASSES) if kind == "softmax" else (p.dim,)
    r = cz.minimize(p, np.zeros(shape), tol=1e-9, seed=0)
    assert r.success
    assert r.x.shape == shape
    assert np.linalg.norm(p.grad(r.x)) < 2e-9
    if kind == "squared":
        np.testing.assert_allclose(r.x, p.x_star, atol=1e-7)


def test_softmax_of_two_classes_is_logistic() -> None:
    X, y, weights = data("logistic")
    p = cz.problems.SoftmaxRegression(X, (y + 1) / 2, 0.1, weights=weights, intercept=True)
    q = cz.problems.LogisticRegression(X, y, 0.05, weights=weights, intercept=True)
    assert p.classes == 2
    w = np.random.default_rng(5).standard_normal(q.dim)
    # <x, w> = <x, w/2> - <x, -w/2>, and |w/2|^2 + |w/2|^2 = |w|^2 / 2
    W = np.stack([-w / 2, w / 2], axis=1)
    assert p.fun(W) == pytest.approx(q.fun(w), rel=1e-13)
    np.testing.assert_allclose(p.grad(W)[:, 1] - p.grad(W)[:, 0], 2 * q.grad(w), rtol=1e-12)


def test_softmax_far_out() -> None:
    p = cz.problems.SoftmaxRegression([[1.0], [1.0]], [0, 1], l2=0.0, classes=3)
    value, gradient = p.value_and_gradient(np.array([[1000.0, -1000.0, 0.0]]))
    assert value == 1000.0
    assert gradient.tolist() == [[0.5, -0.5, 0.0]]


def test_softmax_in_single_precision() -> None:
    X, y, _ = data("softmax")
    p = cz.problems.SoftmaxRegression(X.astype(np.float32), y, intercept=True)
    exact = cz.problems.SoftmaxRegression(X.astype(np.float32).astype(float), y, intercept=True)
    w = np.random.default_rng(6).standard_normal(p.dim)
    np.testing.assert_allclose(p.grad(w), exact.grad(w), rtol=1e-12, atol=1e-15)
    assert p.grad(w.astype(np.float32)).dtype == np.float32


def test_threads_and_one_pass() -> None:
    X, y, weights = data("logistic", n=100)
    w = np.random.default_rng(7).standard_normal(X.shape[1] + 1)
    for form in FORMS.values():
        once = one_pass(form(X), y, 1.0, w, Wanted(True, True), 1, weights, True)
        cut = one_pass(form(X), y, 1.0, w, Wanted(True, True), 4, weights, True)
        assert cut[0] == pytest.approx(once[0], rel=1e-13)
        np.testing.assert_allclose(cut[1], once[1], rtol=1e-12)


@pytest.mark.parametrize("kind", ["squared", "logistic"])
def test_more_rows_than_a_block(kind: str) -> None:
    # Sparse rows are taken in blocks, the last of which is shorter.
    dense, csr = (make(kind, form, True, True, n=CSR_BLOCK + 5, d=2) for form in FORMS)
    w = np.array([0.5, -1.0, 2.0])
    assert csr.fun(w) == pytest.approx(dense.fun(w), rel=1e-12)
    np.testing.assert_allclose(csr.grad(w), dense.grad(w), rtol=1e-11)


@pytest.mark.parametrize("extra", [{"weights": np.arange(12.0)}, {"intercept": True}])
@pytest.mark.parametrize(
    ("method", "l2"),
    [
        (cz.CoordinateDescent(), 0.1),
        (cz.DualCoordinate(), 0.1),
        (cz.StochasticLeastSquares(), 0.0),
        (cz.Kaczmarz(), 0.0),
    ],
)
def test_methods_that_know_no_extras_refuse_them(method: Any, l2: float, extra: Any) -> None:
    X, y, _ = data("squared", n=12)
    p = cz.problems.LeastSquares(X, y, l2=l2, **extra)
    with pytest.raises(ValueError, match="is for regressions without weights and intercept"):
        cz.minimize(p, np.zeros(p.dim), method=method, maxiter=1)


BAD_WEIGHTS = [
    ([1.0, 2.0], r"weights must be a vector of 3, one a row, got shape \(2,\)"),
    ([[1.0], [2.0], [3.0]], r"weights must be a vector of 3, one a row, got shape \(3, 1\)"),
    ([1.0, -2.0, 1.0], r"finite and >= 0, but weights\[1\] is -2.0"),
    ([1.0, 1.0, np.nan], r"finite and >= 0, but weights\[2\] is nan"),
    ([np.inf, 1.0, 1.0], r"finite and >= 0, but weights\[0\] is inf"),
    ([0.0, 0.0, 0.0], "every weight is 0"),
    ([1e308, 1e308, 1e308], "sum of the weights overflows"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("weights", "message"), BAD_WEIGHTS)
def test_bad_weights(kind: str, weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KINDS[kind](np.eye(3), [1, 1, 1], weights=weights)


def test_other_bad_arguments() -> None:
    with pytest.raises(TypeError, match="intercept must be True or False, got 1"):
        cz.problems.LeastSquares(np.eye(2), [1, 2], intercept=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="weights must be an array of real numbers"):
        cz.problems.LeastSquares(np.eye(2), [1, 2], weights=["a", "b"])
    for y, classes in (([0.5, 1.0], None), ([-1, 1], None), ([0, 3], 3), ([0, 1e300], None)):
        with pytest.raises(ValueError, match=r"y must hold labels 0, 1, \.\.\., classes - 1"):
            cz.problems.SoftmaxRegression(np.eye(2), y, classes=classes)
    with pytest.raises(TypeError, match=r"classes must be an integer or None, got 2\.5"):
        cz.problems.SoftmaxRegression(np.eye(2), [0, 1], classes=2.5)  # type: ignore[arg-type]


def test_weights_are_copied() -> None:
    weights = np.ones(3)
    p = cz.problems.LeastSquares(np.eye(3), [1, 2, 3], weights=weights)
    weights[:] = 7.0
    assert p.weights is not None
    assert p.weights.tolist() == [1.0, 1.0, 1.0]
