"""Least squares and logistic regression: certified constants, of f, coordinates and rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import continuized as cz
from continuized.marked.blocks import block_L, partition
from continuized.problems.regression import spectrum
from continuized.support import blas, threads
from tests.helpers.regressions import FORMS, KINDS, data

pytestmark = pytest.mark.blas


def with_spectrum(eigenvalues: np.ndarray, n: int, seed: int) -> np.ndarray:
    """A matrix X of n rows for which X^T X / n has these eigenvalues."""
    rng = np.random.default_rng(seed)
    d = len(eigenvalues)
    left, _ = np.linalg.qr(rng.standard_normal((n, min(n, d))))
    right, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return math.sqrt(n) * (left * np.sqrt(eigenvalues[: left.shape[1]])) @ right[: left.shape[1]]


SPECTRA = {
    "one large": lambda d: np.r_[1.0, np.full(d - 1, 1e-3)],
    "clustered at the top": lambda d: 1.0 - 1e-6 * np.arange(d) / d,
    "no gap": lambda d: np.linspace(1.0, 0.0, d),
    "power law": lambda d: 1.0 / np.arange(1.0, d + 1.0) ** 2,
    "rank one": lambda d: np.r_[1.0, np.zeros(d - 1)],
    "rank three": lambda d: np.r_[1.0, 1.0, 0.5, np.zeros(d - 3)],
    "all equal": lambda d: np.ones(d),
    "slow, Chebyshev": lambda d: 0.5 + 0.5 * np.cos(np.pi * np.arange(d) / d),
}


@pytest.mark.parametrize(
    "scale", [1.0, *[pytest.param(far, marks=pytest.mark.slow) for far in (1e-6, 1e9)]]
)
@pytest.mark.parametrize("n", [300, 90])
@pytest.mark.parametrize("shape", SPECTRA)
def test_lanczos_is_an_upper_bound(
    shape: str, n: int, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each may fail with probability 1e-10: 16 of them, 2e-9 together.  d > the 62 steps."""
    monkeypatch.setattr(spectrum, "EXACT_UP_TO", 0)
    d = 200
    assert spectrum.lanczos_steps(d, spectrum.SLACK, spectrum.FAILURE) < 90
    for seed in range(1):
        X = math.sqrt(scale) * with_spectrum(SPECTRA[shape](d), n, seed)
        largest = np.linalg.eigvalsh(X.T @ X / n)[-1]
        for form in FORMS.values():
            found = cz.problems.LeastSquares(form(X), np.zeros(n)).spectrum
            assert found.smallest == 0.0
            assert found.largest >= largest * (1.0 - 1e-13)
            assert found.largest <= largest / (1.0 - spectrum.SLACK) * (1.0 + 1e-9)
            assert found.failure == (spectrum.FAILURE if found.how == "lanczos" else 0.0)


def test_the_theorem_behind_the_bound() -> None:
    """How often k steps are too few, against Kuczynski and Wozniakowski's bound on it.

    With so few steps that failures do occur.  400 starts; the count is under the theorem's
    mean plus 5 standard deviations, which a count of that mean exceeds with probability < 1e-5.
    """
    d, slack, starts = 100, 0.2, 400
    eigenvalues = SPECTRA["slow, Chebyshev"](d)
    for k in (6, 9):
        claimed = 1.648 * math.sqrt(d) * math.exp(-math.sqrt(slack) * (2 * k - 1))
        assert spectrum.lanczos_steps(d, slack, claimed) == k
        bounds = [
            spectrum.lanczos_bound(lambda v: eigenvalues * v, d, slack, claimed, seed)
            for seed in range(starts)
        ]
        failures = sum(bound < eigenvalues.max() for bound in bounds)
        mean = starts * min(claimed, 1.0)
        assert failures <= mean + 5.0 * math.sqrt(mean)


def test_lanczos_against_theta(monkeypatch: pytest.MonkeyPatch) -> None:
    # With as many steps as variables the Ritz value is the eigenvalue: the bound has no slack left.
    for seed in range(5):
        X = np.random.default_rng(seed).standard_normal((30, 20))
        A = X.T @ X
        bound = spectrum.lanczos_bound(lambda v, A=A: A @ v, 20, 0.05, 1e-10)
        assert bound * 0.95 == pytest.approx(np.linalg.eigvalsh(A)[-1], rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**32 - 1), st.integers(-8, 8))
def test_exact_constants(n: int, d: int, seed: int, power: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(0, min(n, d) + 1))
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) * 10.0**power
    singular = np.linalg.svd(X, compute_uv=False) ** 2 / n  # never squared: more exact
    p = cz.problems.LeastSquares(X, rng.standard_normal(n), l2=0.0)
    assert singular[0] * (1.0 - 1e-14) <= p.L
    assert pytest.approx(singular[0], rel=1e-11) == p.L
    smallest = singular[-1] if d <= n else 0.0
    assert 0.0 <= p.mu <= smallest
    assert p.mu >= smallest - 1e-12 * singular.sum()


def test_a_certified_L_where_X_is_large() -> None:
    rng = np.random.default_rng(5)
    X = sparse.random_array((4000, 3000), density=0.01, rng=rng, format="csr")
    p = cz.problems.LogisticRegression(X, np.sign(rng.standard_normal(4000)), l2=0.125)
    largest = sparse.linalg.svds(X, 1, return_singular_vectors=False, rng=rng)[0] ** 2 / 4000
    assert p.spectrum.how == "lanczos"
    assert largest / 4 + 0.125 <= p.L <= (largest / 4) / 0.95 * (1.0 + 1e-9) + 0.125
    assert p.mu == 0.125
    q = cz.problems.LeastSquares(sparse.eye_array(3000, format="csr"), np.ones(3000))
    assert q.spectrum.how == "norms"
    assert pytest.approx(1.0 / 3000, rel=1e-10) == q.L
    assert q.mu == 0.0
    assert q.x_star is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_coordinate_and_row_constants(kind: Any, form: str) -> None:
    X, y = data(40, 6)
    X[3] = 0.0
    X[:, 2] = 0.0
    p = kind(FORMS[form](X), y, l2=0.01)
    curvature = 1.0 if kind is KINDS[0] else 0.25
    hessian = curvature * X.T @ X / 40 + 0.01 * np.eye(6)
    np.testing.assert_allclose(p.coordinate_L, np.diag(hessian), rtol=1e-14)
    assert p.coordinate_L[2] == 0.01
    np.testing.assert_allclose(p.row_norms2, np.diag(X @ X.T), rtol=1e-14)
    assert p.row_norms2[3] == 0.0
    w = np.random.default_rng(6).standard_normal(6)
    for j in range(6):  # smooth along each coordinate, and for least squares just so
        step = np.eye(6)[j] * 0.3
        slope = (p.grad(w + step) - p.grad(w))[j] / 0.3
        assert slope <= p.coordinate_L[j] * (1.0 + 1e-12)
        if kind is KINDS[0]:
            assert slope == pytest.approx(p.coordinate_L[j], rel=1e-12)


def test_columns() -> None:
    X, y = data(20, 5)
    dense, csc = cz.problems.LeastSquares(X, y).columns, None
    assert dense.flags.f_contiguous
    assert np.array_equal(dense, X)
    p = cz.problems.LeastSquares(sparse.csr_array(X), y)
    csc = p.columns
    assert csc.format == "csc"
    assert csc.indices.dtype == np.int32
    assert np.array_equal(csc.toarray(), X)
    assert p.columns is csc


# The same on any number of cores


CONSTANTS: dict[str, Any] = {
    "square": lambda rng: eigenvalues_of(rng.standard_normal((1300, 1300))),
    "an intercept": lambda rng: eigenvalues_of(np.tile(rng.standard_normal((9000, 75)), 2), True),
    "Lanczos": lambda rng: eigenvalues_of(rng.standard_normal((2600, 1600))),
    "blocks": lambda rng: blocks_of(rng.standard_normal((1500, 2600)), 1300),
}


def eigenvalues_of(X: np.ndarray, intercept: bool = False) -> tuple[float, ...]:
    p = cz.problems.LeastSquares(X, X[:, 0], l2=1e-3, intercept=intercept)
    return p.L, p.mu


def blocks_of(X: np.ndarray, size: int) -> tuple[float, ...]:
    p = cz.problems.LeastSquares(X, X[:, 0], l2=1e-3)
    return tuple(block_L(p, partition(size, p.dim)).tolist())


@pytest.mark.parametrize("case", CONSTANTS)
def test_constants_are_the_same_on_any_number_of_cores(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last bit, for a checkpoint knows its run by them."""
    libraries = blas._libraries(True)
    before = [library.num_threads for library in libraries]
    found = []
    try:
        for cores in (1, 2, 3):
            monkeypatch.setattr(threads, "count", lambda cores=cores: cores)
            for library in libraries:
                blas._set_number(library, cores)
            found.append(CONSTANTS[case](np.random.default_rng(0)))
    finally:
        for library, number in zip(libraries, before, strict=True):
            blas._set_number(library, number)
    assert found[0] == found[1] == found[2]
