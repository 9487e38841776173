"""`cz.minimize` on arrays of other libraries: what cannot be done is said in a sentence."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
import pytest
import torch

import continuized as cz


@numba.njit
def compiled(x, out):  # type: ignore[no-untyped-def]
    out[:] = x


def quadratic(x: Any) -> Any:
    return 0.5 * (x @ x)


REFUSED: dict[str, tuple[type[Exception], str, dict[str, Any]]] = {
    "metric": (ValueError, "metric= is for NumPy arrays only", {"metric": np.ones(3)}),
    "prox": (ValueError, "prox= is for NumPy arrays only", {"prox": cz.prox.L1(0.1)}),
    "noise": (ValueError, "noise= is for NumPy arrays only", {"noise": cz.noise.Gaussian(1.0)}),
    "checkpoint": (ValueError, "checkpoint= is for NumPy arrays only", {"checkpoint": "x.npz"}),
    "marked": (
        ValueError,
        "CoordinateDescent.* is for NumPy arrays only",
        {"method": cz.CoordinateDescent()},
    ),
    "compiled": (TypeError, "jac is compiled for NumPy's", {"jac": compiled}),
    "problem": (
        TypeError,
        "x0 is an array of torch, but Quadratic computes in NumPy",
        {"fun": cz.problems.Quadratic([1.0] * 3), "jac": None},
    ),
    "integers": (
        TypeError,
        "float32 or float64, got torch.int64",
        {"x0": torch.zeros(3, dtype=torch.int64)},
    ),
    "halves": (
        TypeError,
        "float32 or float64, got torch.float16",
        {"x0": torch.zeros(3, dtype=torch.float16)},
    ),
    "complex": (
        TypeError,
        "float32 or float64, got torch.complex64",
        {"x0": torch.zeros(3, dtype=torch.complex64)},
    ),
    "infinite": (ValueError, "x0 must be finite", {"x0": torch.full((3,), math.inf)}),
    "dimension": (
        ValueError,
        "x0 has 3 entries, but the problem has dimension 2",
        {"fun": cz.Problem(quadratic, lambda x: x, L=1.0, x_star=[0.0, 0.0]), "jac": None},
    ),
    "a gradient in NumPy": (
        TypeError,
        "must be an array of torch, got array",
        {"jac": lambda x: np.zeros(3)},
    ),
    "a gradient of another shape": (
        ValueError,
        r"the shape of x, \(3,\), got \(2,\)",
        {"jac": lambda x: x[:2]},
    ),
    "a gradient of another dtype": (
        TypeError,
        "the dtype of x, torch.float64, got torch.float32",
        {"jac": lambda x: x.float()},
    ),
    "no gradient": (ValueError, "the gradient is missing", {"jac": None}),
    "no number": (TypeError, "fun must return one real number", {"fun": lambda x: x}),
    "a complex number": (
        TypeError,
        "fun must return one real number",
        {"fun": lambda x: torch.tensor(1j)},
    ),
    "a sparse x0": (
        TypeError,
        "x0 must be a dense array, got one of layout torch.sparse_coo; convert it",
        {"x0": torch.zeros(3, dtype=torch.float64).to_sparse()},
    ),
    "a sparse gradient": (
        TypeError,
        "the gradient must be a dense array, got one of layout torch.sparse_coo",
        {"jac": lambda x: x.to_sparse()},
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_said(name: str) -> None:
    error, sentence, changed = REFUSED[name]
    x0 = torch.zeros(3, dtype=torch.float64)
    given = {"fun": quadratic, "x0": x0, "jac": lambda x: x, **changed}
    with pytest.raises(error, match=sentence) as caught:
        cz.minimize(**given, maxiter=3)
    assert "\n" not in str(caught.value)
