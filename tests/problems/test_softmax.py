"""The softmax regression: of two classes, far out, and in single precision."""

from __future__ import annotations

import numpy as np
import pytest

import continuized as cz
from tests.helpers.weighted_regressions import data

pytestmark = pytest.mark.blas


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
