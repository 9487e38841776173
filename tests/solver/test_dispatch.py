"""method="auto": what is chosen, and what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import continuized as cz
from continuized import Status
from continuized.solver import dispatch

RNG = np.random.default_rng


def shaped(n: int, d: int, l2: float, filled: float = 1.0, kind: str = "logistic") -> Any:
    X = sparse.random_array((n, d), density=min(filled, 0.5), rng=RNG(0), format="csr")
    y = np.where(RNG(1).random(n) < 0.5, 1.0, -1.0)
    X = X.toarray() + 0.01 if filled == 1.0 else X
    make = cz.problems.LogisticRegression if kind == "logistic" else cz.problems.LeastSquares
    return make(X, y, l2=l2)


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (shaped(60, 5, 0.1), 'metric="gram": the Hessian of 5 variables'),
        (shaped(60, 5, 0.1, kind="squared"), 'metric="gram"'),
        (shaped(200, 3100, 0.1, 0.01), 'metric="diag": only 0.01 of X is not zero'),
        (shaped(20, 500, 0.1), 'metric="rows": the Hessian is cheap to factorise in the space'),
        (shaped(300, 500, 0.1), "cz.DualCoordinate()): 300 rows are fewer than 500 columns."),
        # The dual is well conditioned up to about l2 = 1e-5, of these 300 rows.
        (shaped(300, 500, 1e-6), 'metric="gram"'),
        (shaped(20, 3100, 1e-7), 'metric="nystrom"'),
        (shaped(20, 200, 0.1), 'metric="rows": the Hessian is cheap to factorise in the space'),
        (shaped(20, 200, 1e-9), 'metric="gram": the Hessian of 200 variables'),
        (shaped(20, 3100, 0.1), 'metric="rows"'),
        (shaped(200, 3100, 0.0, 0.01), 'metric="diag": only 0.01 of X is not zero'),
        (cz.problems.Quadratic([1.0, 2.0]), "the constants of the problem"),
        (cz.Problem(lambda x: 0.5 * float(x @ x), lambda x: x), "L is found on the way"),
    ],
)
def test_auto(problem: Any, words: str) -> None:
    r = cz.minimize(problem, np.full(problem.dim or 2, 0.1), method="auto", tol=1e-3, rng=0)
    assert words in r.message
    assert r.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("name", "value"),
    [("noise", cz.noise.Gaussian(1e-8)), ("record", "path"), ("mu", 0.01), ("metric", "diag")],
)
def test_auto_leaves_options_as_they_are(name: str, value: Any) -> None:
    r = cz.minimize(shaped(60, 8, 0.1), np.zeros(8), method="auto", maxiter=5, **{name: value})
    assert "as the options ask" in r.message


def test_a_marked_method_has_a_thousand_passes_or_more() -> None:
    few, many = (dispatch.limits_of(None, None, None, n) for n in (12, 1_000))
    assert few == (1e-6, 100_000)
    assert many == (1e-6, 1_000_000)
