"""Least squares and logistic regression: data as users give it, good and bad."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from tests.helpers.regressions import FORMS, KINDS, data
from tests.invariants.registry import same_bits


def test_X_is_neither_copied_nor_changed() -> None:
    X, y = data(30, 4)
    for given_ in (X, X.astype(np.float32)):
        assert cz.problems.LeastSquares(given_, y).X is given_
    csr = sparse.csr_matrix(X)
    assert np.shares_memory(cz.problems.LeastSquares(csr, y).X.data, csr.data)
    frozen = X.copy()
    frozen.setflags(write=False)
    p = cz.problems.LeastSquares(frozen, y)
    assert p.X is frozen
    w = np.ones(4)
    w.setflags(write=False)
    assert same_bits(p.grad(w), cz.problems.LeastSquares(X, y).grad(w))
    np.testing.assert_allclose(p.value_and_gradient(w)[1], p.grad(w), rtol=1e-12)
    cz.minimize(p, np.zeros(4), maxiter=5, rng=0)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_indices_in_any_order(index: Any) -> None:
    # Row 0 has its columns the wrong way round, row 1 has column 1 twice, row 2 is empty.
    indices = np.array([2, 0, 1, 1], dtype=index)
    indptr = np.array([0, 2, 4, 4], dtype=index)
    entries = np.array([1.0, 2.0, 3.0, 4.0])
    X = sparse.csr_array((entries, indices, indptr), shape=(3, 3))
    p = cz.problems.LeastSquares(X, [1.0, 2.0, 3.0])
    assert X.indices.tolist() == [2, 0, 1, 1]
    assert X.data.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert p.X.indices.dtype == p.X.indptr.dtype == np.int32
    assert p.X.indices.tolist() == [0, 2, 1]
    assert p.X.toarray().tolist() == [[2.0, 0.0, 1.0], [0.0, 7.0, 0.0], [0.0, 0.0, 0.0]]
    dense = cz.problems.LeastSquares(p.X.toarray(), [1.0, 2.0, 3.0])
    w = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(p.grad(w), dense.grad(w), rtol=1e-14)
    np.testing.assert_allclose(p.coordinate_L, dense.coordinate_L, rtol=1e-14)


# SciPy has no sparse matrices of half precision or of foreign byte order.
OTHER = [(form, dtype) for form in FORMS for dtype in (np.int8, np.uint16, np.int64, np.longdouble)]


@pytest.mark.parametrize(("form", "dtype"), [*OTHER, ("dense", np.float16), ("dense", ">f8")])
def test_other_numbers_become_float64(form: str, dtype: Any) -> None:
    X = np.array([[1, 0], [3, 4], [0, 0]])
    p = cz.problems.LogisticRegression(FORMS[form](X.astype(dtype)), np.array([1, -1, 1], np.int8))
    assert p.X.dtype == np.float64
    assert p.X.dtype.isnative
    assert p.y.dtype == np.float64
    plain = cz.problems.LogisticRegression(FORMS[form](X.astype(float)), [1.0, -1.0, 1.0])
    assert same_bits(p.grad([1, 2]), plain.grad([1.0, 2.0]))


@pytest.mark.parametrize("order", ["C", "F", "strided", "unaligned", "matrix"])
def test_arrays_of_every_layout(order: str) -> None:
    X, y = data(9, 4)
    if order == "F":
        given_: Any = np.asfortranarray(X)
    elif order == "strided":
        given_ = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    elif order == "unaligned":
        given_ = (
            np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(9, 4)
        )
        assert not given_.flags.aligned
    elif order == "matrix":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            given_ = np.matrix(X)
    else:
        given_ = X
    p, q = cz.problems.LeastSquares(given_, y), cz.problems.LeastSquares(X, y)
    assert same_bits(p.grad(np.ones(4)), q.grad(np.ones(4)))
    assert same_bits(p.value_and_gradient(np.ones(4))[1], q.value_and_gradient(np.ones(4))[1])


def corrupt() -> Any:
    X = sparse.csr_array(np.eye(2))
    X.indices = np.array([0, 9], dtype=np.int32)
    return X


def with_entry(form: str, entry: float) -> Any:
    X = np.eye(3)
    X[2, 1] = entry
    return FORMS[form](X)


Y = np.array([1.0, -1.0])
BAD = [
    (np.ones((2, 1)), Y[:, None], ValueError, r"y must be a vector, got shape \(2, 1\): .*ravel"),
    (np.ones((2, 1)), Y[None], ValueError, r"y must be a vector, got shape \(1, 2\)"),
    (np.ones((2, 1)), [1.0], ValueError, r"a row for each entry of y, got shapes \(2, 1\)"),
    (np.ones((2, 1)), 1.0, ValueError, "a row for each entry of y"),
    (np.ones((2, 1, 1)), Y, ValueError, r"X must be a matrix .* \(2, 1, 1\)"),
    (np.ones(2), Y, ValueError, r"X must be a matrix .* \(2,\)"),
    (3.0, Y, ValueError, r"X must be a matrix .* \(\)"),
    (sparse.coo_array(np.ones(2)), Y, ValueError, r"X must be a matrix .* \(2,\)"),
    (np.ones((0, 3)), [], ValueError, "X has no rows"),
    (sparse.csr_array((0, 3)), [], ValueError, "X has no rows"),
    (np.ones((2, 1), bool), Y, TypeError, "X must be an array of real numbers, got dtype bool"),
    (np.ones((2, 1), complex), Y, TypeError, "real numbers, got dtype complex128"),
    (np.ones((2, 1), object), Y, TypeError, "real numbers, got dtype object"),
    ([["1"], ["2"]], Y, TypeError, "X must be an array of real numbers, got .*'1'"),
    (sparse.csr_array(np.ones((2, 1), bool)), Y, TypeError, "real numbers, got dtype bool"),
    (sparse.csr_array(np.ones((2, 1), complex)), Y, TypeError, "got dtype complex128"),
    (np.ones((2, 1)), [True, False], TypeError, "y must be an array of real numbers, got .*True"),
    (np.ones((2, 1)), ["a", "b"], TypeError, "y must be an array of real numbers, got .*'a'"),
    (np.ma.masked_equal(np.eye(2), 0.0), Y, TypeError, "X is a masked array"),
    (np.eye(2), np.ma.masked_equal(Y, 1.0), TypeError, "y is a masked array"),
    (with_entry("dense", np.nan), [1, 1, 1], ValueError, r"X\[2, 1\] is nan \(1 such entry in all"),
    (with_entry("sparse", np.inf), [1, 1, 1], ValueError, r"X\[2, 1\] is inf \(1 such entry"),
    (np.full((2, 2), -np.inf), Y, ValueError, r"X\[0, 0\] is -inf \(4 such entries in all"),
    (np.eye(2), [1.0, np.nan], ValueError, r"y must be finite, but y\[1\] is nan"),
    (corrupt(), Y, ValueError, "X is not a valid sparse matrix"),
    (None, Y, TypeError, "X must be an array of real numbers, got None"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("X", "y", "error", "message"), BAD)
def test_bad_data(kind: Any, X: Any, y: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        kind(X, y)
    assert "\n" not in str(caught.value)
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 1, 0], r"2 of its 4 entries differ: 0.0; give 2 \* y - 1 instead$"),
        ([2, 1, 3, 2], r"3 of its 4 entries differ: 2.0, 3.0$"),
        ([1, -1, 1, 1.0000001], r"1 of its 4 entries differ: 1.0000001$"),
    ],
)
def test_labels(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r"only the labels -1 and \+1, but " + message):
        cz.problems.LogisticRegression(np.ones((4, 1)), y)


@pytest.mark.parametrize("l2", [-1e-300, math.nan, math.inf])
@pytest.mark.parametrize("kind", KINDS)
def test_l2_out_of_range(kind: Any, l2: float) -> None:
    with pytest.raises(ValueError, match="l2 must be a finite number >= 0, got "):
        kind(np.ones((2, 1)), Y, l2=l2)


@pytest.mark.parametrize("form", FORMS)
def test_large_entries(form: str) -> None:
    p = cz.problems.LeastSquares(FORMS[form](np.full((2, 2), 1.7e308)), Y)  # the sum overflows
    with pytest.raises(ValueError, match="squares of X's entries overflow: rescale X"):
        _ = p.L


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_but_zeros(kind: Any, form: str) -> None:
    p = kind(FORMS[form](np.zeros((3, 2))), [1.0, 1.0, -1.0], l2=0.5)
    assert (p.L, p.mu) == (0.5, 0.5)
    assert p.coordinate_L.tolist() == [0.5, 0.5]
    assert p.row_norms2.tolist() == [0.0, 0.0, 0.0]
    assert p.grad([1.0, 2.0]).tolist() == [0.5, 1.0]
    assert p.columns.shape == (3, 2)
