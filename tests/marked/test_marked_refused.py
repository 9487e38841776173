"""Marked methods: data and settings that are refused, and what is said of what was used."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.marked import rows as constants_module
from continuized.marked.rows import row_constants
from continuized.marked.stepper import round_gap
from tests.helpers.refused_input import one_sentence

X = np.random.default_rng(0).standard_normal((30, 4))
Y = X.sum(axis=1)
ZERO = np.zeros(4)
COORDINATES = (cz.CoordinateDescent, cz.DualCoordinate)
ROWS = (cz.StochasticLeastSquares, cz.Kaczmarz)
KINDS = (*COORDINATES, *ROWS)


def least_squares(kind: Any, data: Any = X, y: Any = Y) -> cz.problems.LeastSquares:
    return cz.problems.LeastSquares(data, y, l2=0.1 if kind is cz.DualCoordinate else 0.0)


def refuses(error: type[Exception], words: str, kind: Any, data: Any = X, **options: Any) -> None:
    p = least_squares(kind, data)
    with pytest.raises(error, match=re.escape(words)) as caught:
        cz.minimize(p, np.zeros(p.dim), method=kind(**options), maxiter=100)
    one_sentence(caught)


@pytest.mark.parametrize("kind", KINDS)
def test_no_variables(kind: Any) -> None:
    refuses(ValueError, "the problem has no variables", kind, np.zeros((30, 0)))


@pytest.mark.parametrize("form", [np.array, sparse.csr_array])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accelerated", [True, False])
def test_squares_out_of_range(kind: Any, form: Any, accelerated: bool) -> None:
    for size in (1e150, 1e170):
        words = "the squares of X's entries overflow (sums of "
        refuses(ValueError, words, kind, form(X * size), accelerated=accelerated)
    if kind is cz.DualCoordinate:  # l2 > 0: what is below it does not count
        return
    for size in (1e-150, 1e-170):
        words = "the squares of X's entries underflow (sums of "
        refuses(ValueError, words, kind, form(X * size), accelerated=accelerated)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-60, 1e60])
def test_squares_within_range(kind: Any, size: float) -> None:
    p = least_squares(kind, X * size, Y * size)
    r = cz.minimize(p, ZERO, method=kind(), tol=0.0, maxiter=3000, rng=0)
    assert math.isfinite(r.fun)
    if kind is not cz.DualCoordinate:
        np.testing.assert_allclose(r.x, 1.0, rtol=1e-6)


def test_rows_of_zeros_only() -> None:
    p = cz.problems.LeastSquares(np.zeros((30, 4)), Y)
    with pytest.raises(ValueError, match="every row of X is zero"):
        cz.Kaczmarz().prepare(p, ZERO)
    constants = cz.StochasticLeastSquares().prepare(p, ZERO).constants
    assert constants == {"R2": 1.0, "kappa": 1.0, "mu": 0.0, "exact": True}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flag", ["False", 0, None, np.array([True])])
def test_accelerated_must_be_a_flag(kind: Any, flag: Any) -> None:
    with pytest.raises(TypeError, match="accelerated must be True or False, got ") as caught:
        kind(accelerated=flag)
    one_sentence(caught)


@pytest.mark.parametrize("kind", COORDINATES)
@pytest.mark.parametrize(
    "p",
    [
        np.ma.masked_array(np.full(4, 0.25), [False, True, False, False]),
        ["0.25", "0.25", "0.25", "0.25"],
        np.full(4, 0.25).astype("S"),
        [0.25, 0.25, 0.25, None],
        [True, False, False, False],
        np.full(4, 0.25 + 0j),
    ],
    ids=["masked", "strings", "bytes", "None", "flags", "complex"],
)
def test_probabilities_must_be_numbers(kind: Any, p: Any) -> None:
    refuses(TypeError, "probabilities ", kind, sampling=p)
    with pytest.raises(TypeError, match="probabilities "):
        cz.marks.Categorical(p)
    with pytest.raises(TypeError, match="probabilities "):
        cz.marks.Stratified(p)


@pytest.mark.parametrize(
    ("p", "words"),
    [
        ([], "one or more, got none"),
        ([[1.0]], r"a vector, got shape \(1, 1\)"),
        ([0.5, np.nan], r"finite and >= 0, but probabilities\[1\] is nan"),
        (np.full((30, 30), 1.0 / 900.0), r"a vector, got shape \(30, 30\)"),
        ([[0.5, 0.5], [0.5]], r"a vector of numbers, got \[\[0.5, 0.5\], \[0.5\]\]"),
    ],
)
def test_probabilities_must_be_a_finite_vector(p: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"probabilities must be {words}") as caught:
        cz.marks.Categorical(p)
    one_sentence(caught)


# The constants of rows


@pytest.mark.parametrize("kind", ROWS)
def test_constants_that_no_rows_have_are_refused(kind: Any) -> None:
    words = "mu must be at most R2 kappa = 0.002, whatever the rows, got mu = 5"
    refuses(ValueError, words, kind, R2=1e-3, kappa=2.0, mu=5.0)
    refuses(ValueError, "mu must be at most R2 kappa = ", kind, mu=1e3)


@pytest.mark.parametrize("kind", ROWS)
def test_the_constants_reported_are_those_used(kind: Any) -> None:
    p = least_squares(kind)
    found = kind().prepare(p, ZERO).constants
    assert found.pop("exact")
    for given in (
        {"R2": 9.0},
        {"kappa": 11.0},
        {"mu": 0.01},
        {"R2": 9.0, "kappa": 11.0, "mu": 0.0},
    ):
        r = cz.minimize(p, ZERO, method=kind(**given), maxiter=10, rng=0)
        assert r.constants == found | given | {"exact": False}
        assert (r.method.L, r.method.mu) == (
            r.constants["R2"] * r.constants["kappa"],
            r.constants["mu"],
        )


def test_equal_constants_differ_by_rounding_only() -> None:
    p = cz.problems.LeastSquares(np.full((3, 1), 0.1), np.full(3, 0.1))  # R2 = mu, kappa = 1
    stepper = cz.StochasticLeastSquares().prepare(p, np.zeros(1))
    assert stepper.mu == stepper.process.mu <= stepper.process.L
    slightly = cz.StochasticLeastSquares(R2=1.0, kappa=1.0, mu=1.0 + 1e-12).prepare(p, np.zeros(1))
    assert slightly.constants["mu"] == slightly.process.mu == 1.0


def test_what_is_given_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    p = least_squares(cz.Kaczmarz, sparse.csr_array(X))

    def never(*_: Any) -> Any:
        raise AssertionError("computed")

    monkeypatch.setattr(constants_module, "_largest", never)
    cz.Kaczmarz(R2=1.0, kappa=9.0).prepare(p, ZERO)  # mu is: it takes H only
    monkeypatch.setattr(constants_module, "_cut", never)
    cz.Kaczmarz(R2=1.0, kappa=9.0, mu=0.0).prepare(p, ZERO)
    monkeypatch.setattr(constants_module, "EXACT_UP_TO", 3)
    monkeypatch.setattr(constants_module, "_estimate", never)
    assert cz.Kaczmarz(R2=1.0, kappa=9.0).prepare(p, ZERO).constants["mu"] == 0.0


def test_no_more_rows_are_made_dense_than_there_are_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constants_module, "BLOCK_NUMBERS", 1)
    whole = sparse.csr_array(X)
    assert [len(range(30)[at]) for at in constants_module._cut(whole)] == [4] * 7 + [2]
    p = np.full(30, 1.0 / 30)
    in_blocks = row_constants(whole, p, np.ones(30))
    monkeypatch.setattr(constants_module, "BLOCK_NUMBERS", 2**16)
    np.testing.assert_allclose(in_blocks, row_constants(whole, p, np.ones(30)), rtol=1e-13)


def smallest_multiple(E: np.ndarray, H: np.ndarray) -> float:
    """The smallest c with E <= c H, by the generalised eigenvalues."""
    from scipy.linalg import eigh

    return float(eigh(E, H, eigvals_only=True)[-1])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ROWS)
def test_row_constants_are_the_smallest(kind: Any, dtype: Any) -> None:
    data = X.astype(dtype)
    a = data.astype(np.float64)
    p = np.full(30, 1.0 / 30)
    if kind is cz.Kaczmarz:
        norms2 = (a * a).sum(axis=1)
        a, p = a / np.sqrt(norms2)[:, None], norms2 / norms2.sum()
    H = (a.T * p) @ a
    by_norm, by_inverse = (a * a).sum(axis=1), np.einsum("ij,ji->i", a, np.linalg.solve(H, a.T))
    constants = kind().prepare(least_squares(kind, data), ZERO).constants
    for name, weights in (("R2", p * by_norm), ("kappa", p * by_inverse)):
        expected = smallest_multiple((a.T * weights) @ a, H)
        np.testing.assert_allclose(constants[name], expected, rtol=1e-12)
    np.testing.assert_allclose(constants["mu"], np.linalg.eigvalsh(H)[0], rtol=1e-12)


# The duality gap


def test_a_gap_is_not_negative_by_rounding() -> None:
    rng, negative = np.random.default_rng(1), 0
    for i in range(12):
        data = rng.standard_normal((40, 4))
        p = cz.problems.LeastSquares(data, data.sum(axis=1) + rng.standard_normal(40), l2=0.1)
        r = cz.minimize(p, ZERO, method=cz.DualCoordinate(), tol=0.0, maxiter=20_000, rng=i)
        negative += r.gap == 0.0
        assert 0.0 <= r.gap < 1e-14 * p.fun(ZERO)
    assert negative > 0, "no gap was negative: nothing was tested"


def test_a_gap_that_is_really_negative_is_reported() -> None:
    p = least_squares(cz.DualCoordinate)
    fun = p.fun(ZERO)
    assert round_gap(-1e-17 * fun, fun, p) == 0.0
    for gap in (-1e-13 * fun, -1e-3, 0.0, 1e-17):
        assert round_gap(gap, fun, p) == gap
    assert math.isnan(round_gap(math.nan, fun, p))
