"""The loops over losses and rows, as LLVM makes them."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest

from continuized.problems.kernels import mean_dense
from continuized.support.jit import UNCOUNTED, jit


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"),
    reason="x86's names",
)
@pytest.mark.parametrize(("dtype", "packed"), [(np.float64, "pd"), (np.float32, "ps")])
def test_a_pass_over_dense_rows_runs_in_vector_registers(dtype: Any, packed: str) -> None:
    """One call of a library, or one test for 0, would keep exp, log1p and slopes out of them."""
    made = jit(mean_dense, cached=False, **UNCOUNTED)  # what comes from disk has no assembly
    w = np.ones(20, dtype)
    made(np.ones((9, 20), dtype), np.ones(3 + 18), w, w.copy(), 0, 9, True, True)
    (text,) = made.inspect_asm().values()
    assert len(re.findall(rf"\tv?(mul|fmadd\d+){packed}\t", text)) >= 5  # a row by w, and four
    assert re.search(r"\tv?psllq\t", text)  # the exponents of exp
    assert re.search(r"\tv?divpd\t", text)
    assert not re.search(r"\t(callq?|jmp)\t.*\b(exp|log1p)\b", text)
