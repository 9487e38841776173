"""Weights and intercepts of the regressions: the constants, and the Hessian."""

from __future__ import annotations

import numpy as np
import pytest

import continuized as cz
from continuized.problems.regression import spectrum
from tests.helpers.weighted_regressions import CLASSES, EXTRAS, FORMS, KINDS, make

pytestmark = pytest.mark.blas


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("weighted", "intercept"), EXTRAS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "poisson"])
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
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "huber"])
def test_curvatures_give_the_hessian(kind: str, form: str) -> None:
    p = make(kind, form, True, True)
    w = np.random.default_rng(8).standard_normal(p.dim)
    rows = np.arange(len(p.y))
    S, q = p.sample_curvatures(w, rows)
    S = S.toarray() if p.is_sparse else S
    if kind == "softmax":  # probabilities
        each = q[:, :, None] * np.eye(CLASSES) - q[:, :, None] * q[:, None, :]
        np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-14)
    else:
        each = q[:, None, None]
    assert np.all(np.linalg.eigvalsh(each) <= p.curvature)
    M = np.einsum("ia,ib,ikl->akbl", S, S, each).reshape(p.dim, p.dim) / len(rows)
    M += p.l2 * np.diag(np.repeat([1.0] * (S.shape[1] - 1) + [0.0], p.classes))
    steps = 1e-5 * np.eye(p.dim)
    hessian = np.array([(p.grad(w + s) - p.grad(w - s)) / 2e-5 for s in steps])
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
