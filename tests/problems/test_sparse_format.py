"""Sparse matrices whose parts do not fit together are refused before anything follows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized.problems.regression.data import CHECKS
from tests.helpers.refused_input import one_sentence

DENSE = np.arange(24.0).reshape(6, 4) + 1.0
Y = DENSE.sum(axis=1)
FAR = 10**7


def put(part: str, at: int, value: int) -> Callable[[Any], None]:
    def change(X: Any) -> None:
        getattr(X, part)[at] = value

    return change


def replace(part: str, make: Callable[[Any], Any]) -> Callable[[Any], None]:
    def change(X: Any) -> None:
        setattr(X, part, make(getattr(X, part)))

    return change


def far_key(X: Any) -> None:
    X._dict[(FAR, 0)] = 1.0


def negative_key(X: Any) -> None:
    X._dict[(0, -1)] = 1.0


def far_in_list(X: Any) -> None:
    X.rows[1][0] = FAR


COMPRESSED = {
    "far": (put("indices", 0, FAR), f"indices[0] is {FAR}, it must be in [0, "),
    "negative": (put("indices", 1, -1), "indices[1] is -1, it must be in [0, "),
    "falling": (put("indptr", 1, FAR), "indptr[2] is less than the entry before it"),
    "too far": (put("indptr", -1, FAR), "indptr must run from 0 to at most "),
    "late": (put("indptr", 0, 1), "indptr must run from 0 to at most "),
    "short indptr": (replace("indptr", lambda v: v[1:]), "indptr has "),
    "short data": (replace("data", lambda v: v[1:]), "indptr must run from 0 to at most "),
    "short indices": (replace("indices", lambda v: v[1:]), "indptr must run from 0 to at most "),
    "real": (replace("indices", lambda v: v + 0.5), "indices must be a vector of integers"),
    "lists": (replace("indptr", lambda v: v.tolist()), "indptr must be a vector of integers"),
    "square data": (replace("data", lambda v: v[None]), "data must be an array of dimension "),
}
OTHERS = {
    "coo": {
        "far": (put("row", 0, FAR), f"row[0] is {FAR}, it must be in [0, 6)"),
        "negative": (put("col", 3, -1), "col[3] is -1, it must be in [0, 4)"),
        "next": (put("col", 3, 4), "col[3] is 4, it must be in [0, 4)"),
        "short": (replace("data", lambda v: v[1:]), "row has 24 entries, but data has 23"),
    },
    "dia": {
        "short": (replace("data", lambda v: v[1:]), "there are 9 offsets, but data has 8 rows"),
        "twice": (put("offsets", 0, 0), "offsets has an entry twice"),
        "real": (replace("offsets", lambda v: v + 0.5), "offsets must be a vector of integers"),
    },
    "lil": {
        "far": (far_in_list, "rows[1] must hold columns in [0, 4)"),
        "short": (lambda X: X.data[2].pop(), "rows[2] has 4 entries, but data[2] has 3"),
        "no list": (put("rows", 0, 3), "rows[0] and data[0] must be lists"),
        "fewer": (replace("rows", lambda v: v[1:]), "there must be 6 lists in rows and in data"),
    },
    "dok": {
        "far": (far_key, f"the entry ({FAR}, 0) is outside the shape (6, 4)"),
        "negative": (negative_key, "the entry (0, -1) is outside the shape (6, 4)"),
    },
}
FLAWS = dict.fromkeys(("csr", "csc", "bsr"), COMPRESSED) | OTHERS
CASES = [(form, *case) for form, flaws in FLAWS.items() for case in flaws.values()]
NAMES = [f"{form}-{name}" for form, flaws in FLAWS.items() for name in flaws]


def made(form: str) -> Any:
    return getattr(sparse, f"{form}_array")(DENSE)


@pytest.mark.parametrize(("form", "change", "words"), CASES, ids=NAMES)
def test_wrong_parts_are_refused(form: str, change: Any, words: str) -> None:
    X = made(form)
    change(X)
    for kind in (cz.problems.LeastSquares, cz.problems.SoftmaxRegression):
        with pytest.raises(ValueError, match="not a valid sparse matrix") as caught:
            kind(X, np.arange(6) % 2)
        one_sentence(caught, words)


@pytest.mark.parametrize("form", CHECKS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_every_format_is_taken_and_left_as_it_is(form: str, kind: str) -> None:
    dense = DENSE * (DENSE % 3 != 0)
    X = getattr(sparse, f"{form}_{kind}")(dense)
    p = cz.problems.LeastSquares(X, Y)
    assert p.X.format == "csr"
    assert p.X.toarray().tolist() == dense.tolist() == X.toarray().tolist()


def test_every_format_of_scipy_is_checked() -> None:
    known = {name.removesuffix("_array") for name in dir(sparse) if name.endswith("_array")}
    assert known - {"sparray", "diags", "block", "random", "eye"} == set(CHECKS) == set(FLAWS)


def test_entries_after_the_last_are_dropped() -> None:
    X = made("csc")
    X.indices = np.append(X.indices, FAR).astype(X.indices.dtype)  # not pruned: no row owns it
    X.data = np.append(X.data, 9.0)
    assert cz.problems.LeastSquares(X, Y).X.toarray().tolist() == DENSE.tolist()


def test_a_csr_array_shares_its_entries_but_nothing_else() -> None:
    X = sparse.csr_array(np.eye(3))
    p = cz.problems.LeastSquares(X, np.ones(3))
    assert np.shares_memory(p.X.data, X.data)
    X.resize((1, 1))
    assert p.X.shape == (3, 3)
    assert p.X.nnz == 3


def test_what_stands_after_the_last_entry_is_dropped_and_stays_with_the_user() -> None:
    X = sparse.csr_array(np.eye(3))
    X.data, X.indices = np.append(X.data, np.nan), np.append(X.indices, np.int32(0))
    p = cz.problems.LeastSquares(X, np.ones(3))
    assert p.X.data.size == p.X.indices.size == 3
    assert X.data.size == X.indices.size == 4


def test_what_was_known_of_entries_that_have_changed_since_is_not_believed() -> None:
    X = sparse.csr_array(np.array([[1.0, 2.0, 0.0], [3.0, 0.0, 4.0]]))
    assert X.has_canonical_format
    assert X.has_sorted_indices
    X.indices[:2], X.indices[2:] = (1, 0), (2, 2)
    p = cz.problems.LeastSquares(X, [1.0, 1.0])
    assert p.X.indices.tolist() == [0, 1, 2]
    assert p.X.toarray().tolist() == [[2.0, 1.0, 0.0], [0.0, 0.0, 7.0]]
    assert X.indices.tolist() == [1, 0, 2, 2]
