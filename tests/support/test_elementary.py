"""exp, expm1 and log1p in plain arithmetic, alone and in compiled loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from continuized.support.elementary import (
    compile_elementary,
    exp,
    expm1,
    log1p_fraction,
    negative_expm1,
)
from continuized.support.jit import jit

UNITS = 1.5  # in the last place

SPECIAL = [0.0, -0.0, 5e-324, -5e-324, math.inf, -math.inf, math.nan, 1e300, -1e300]
ENDS = [709.78, 709.79, 710.0, -708.4, -744.4, -745.13, -745.14, -746.0, -750.0]


def compiled(formula: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    """A loop over the formula, where sums may be reordered as in the loops over rows."""
    compile_elementary()

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


@WAYS
def test_expm1_below_0(way: Any) -> None:
    rng = np.random.default_rng(2)
    ranges = ((-800.0, 0.0), (-40.0, 0.0), (-1.0, 0.0), (-0.36, -0.33))
    x = np.concatenate([rng.uniform(*ends, 700) for ends in ranges])
    x = np.append(x, -(10.0 ** rng.uniform(-300.0, 0.0, 500)))
    x = np.append(x, (np.arange(-60, 0) + 0.5) * math.log(2.0))  # where k steps
    assert units_off(way(negative_expm1)(x), x, mpmath.expm1) < 2.0
    ends = way(negative_expm1)(np.array([0.0, -0.0, -math.inf, math.nan]))
    assert ends[:3].tolist() == [0.0, 0.0, -1.0]
    assert math.isnan(ends[3])


def test_compiled_code_takes_expm1_for_the_one_in_arithmetic() -> None:
    x = -np.random.default_rng(3).standard_exponential(1000)
    assert compiled(expm1)(x).tolist() == compiled(negative_expm1)(x).tolist()
    np.testing.assert_allclose(in_python(expm1)(x), compiled(expm1)(x), rtol=1e-15)
