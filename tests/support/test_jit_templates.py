"""What compiled code is told to try first answers as Python does, for all that it is tried on."""

from __future__ import annotations

import itertools
import math

import numba
import numpy as np
import pytest

from continuized.support import jit_numba
from continuized.support.jit import jit

VALUES = (2, -3, 0.5, 0.0, -0.0, math.inf, math.nan, np.float32(0.1), np.uint8(7))


def smaller_and_larger(a, b):  # type: ignore[no-untyped-def]
    return min(a, b), max(a, b)


def test_min_and_max_of_two_numbers_are_those_of_python() -> None:
    """Of NaN and a number the first is returned, as Python does."""
    compiled = jit(smaller_and_larger, cached=False)
    for a, b in itertools.product(VALUES, repeat=2):
        wanted = smaller_and_larger(a, b)
        assert np.array_equal(compiled(a, b), np.array(wanted, float), equal_nan=True)
        assert [math.copysign(1.0, v) for v in compiled(a, b)] == [
            math.copysign(1.0, v) for v in wanted
        ]


def operate(x, i, a, b):  # type: ignore[no-untyped-def]
    x[i] = a - b
    x[0, 1:] = x[i] * a
    return x[-1, 0], x[i], x[i[0]].size, a < b, a == b, a // b, a % b, -a, a / b


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (2.5, -2), (True, 3)])
def test_operations_and_entries_are_those_of_python(a: float, b: float) -> None:
    compiled = jit(operate, cached=False)
    mine, pythons = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3)
    assert compiled(mine, (1, -1), a, b) == operate(pythons, (1, -1), a, b)
    assert np.array_equal(mine, pythons)


def test_functions_of_users_have_the_types_that_numba_gives_them() -> None:
    """The same code alone, without what is tried first, was compiled to these types."""
    function = numba.njit(lambda a, b: (a + b, a < b, min(a, b)))
    answers = {
        pair: function.compile(pair) and function.overloads[pair].signature.return_type
        for pair in itertools.product((numba.int64, numba.float32, numba.float64), repeat=2)
    }
    for (a, b), found in answers.items():
        wide = numba.typeof(np.result_type(*map(numba.np.numpy_support.as_dtype, (a, b))).type(0))
        assert found == numba.types.Tuple((wide, numba.boolean, wide)), (a, b)


def test_options_of_a_compilation_are_the_same_where_their_values_are() -> None:
    one, same, other = jit_numba._Flags(), jit_numba._Flags(), jit_numba._Flags()
    one.nrt = same.nrt = True
    other.nrt = False
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
