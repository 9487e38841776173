"""exp and log1p in plain arithmetic, and the loops over them and over rows, as LLVM makes them."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from continuized.problems.kernels import mean_dense
from continuized.problems.losses import compile_losses, exp, log1p_fraction
from continuized.support.jit import UNCOUNTED, jit

UNITS = 1.5  # in the last place

SPECIAL = [0.0, -0.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan, 1e300, -1e300]
ENDS = [709.78, 709.79, 710.0, -708.4, -744.4, -745.13, -745.14, -746.0, -750.0]


def compiled(formula: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A loop over the formula, where sums may be reordered as in the loops over rows."""
    compile_losses()

    def loop(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = formula(x[i])

    made = jit(loop, cached=False)

    def each(x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        made(x, out)
        return out

    return each


def in_python(formula: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([formula(v) for v in x.tolist()])


def units_off(found: np.ndarray, x: np.ndarray, exact: Callable[[Any], Any]) -> float:
    """The largest error, in units of the last place of the exact value, by 40 digits."""
    with mpmath.workdps(40):
        values = [exact(mpmath.mpf(v)) for v in x.tolist()]
        return max(
            abs(float((mpmath.mpf(f) - v) / math.ulp(float(v))))
            for f, v in zip(found.tolist(), values, strict=True)
        )


WAYS = pytest.mark.parametrize("way", [in_python, compiled])


@WAYS
def test_exp_over_its_whole_range(way: Any) -> None:
    rng = np.random.default_rng(0)
    ranges = ((-745.1, 709.7), (-40.0, 40.0), (-1.0, 1.0), (-745.1, -700.0))
    x = np.concatenate([rng.uniform(*ends, 700) for ends in ranges])
    x = np.append(x, 10.0 ** rng.uniform(-320.0, 0.0, 500))
    x = np.append(x, (np.arange(-1074, 1024) + 0.5) * math.log(2.0))  # where k steps
    assert units_off(way(exp)(x), x, mpmath.exp) < UNITS


@WAYS
def test_exp_where_it_is_special(way: Any) -> None:
    x = np.array(SPECIAL + ENDS)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(way(exp)(x), np.exp(x), rtol=1e-15, atol=5e-324)


@WAYS
def test_log1p_from_0_to_1(way: Any) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(1500), 10.0 ** rng.uniform(-323.0, 0.0, 700)])
    x = np.append(x, [1.0, 5e-324, 1e-310, 2.0**-53, 1.0 - 2.0**-53])
    assert units_off(way(log1p_fraction)(x), x, mpmath.log1p) < UNITS
    assert way(log1p_fraction)(np.array([0.0, math.nan])).tolist()[0] == 0.0
    assert math.isnan(way(log1p_fraction)(np.array([math.nan]))[0])


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
