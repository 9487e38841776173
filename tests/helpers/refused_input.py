"""What is refused: the right exception, one sentence, and nothing called before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st

import continuized as cz

X0 = np.array([1.0, 2.0])
quick = settings(max_examples=60, deadline=None)


class Touched(AssertionError):
    """The function was called, though the input is bad."""


def untouched(x: np.ndarray) -> Any:
    raise Touched


def refuses(error: type[Exception], *words: str, **options: Any) -> None:
    """minimize raises this error, in one line with these words, before calling anything."""
    arguments = {"fun": untouched, "x0": X0, "jac": untouched, "L": 1.0} | options
    with pytest.raises(error) as caught:
        cz.minimize(**arguments)
    one_sentence(caught, *words)
    assert type(caught.value) is error


def one_sentence(caught: Any, *words: str) -> None:
    message = str(caught.value)
    assert "\n" not in message
    assert 10 < len(message) < 250
    for word in words:
        assert word in message


not_numbers = st.one_of(
    st.text(),
    st.binary(),
    st.complex_numbers(),
    st.booleans(),
    st.lists(st.floats(), max_size=99),
    st.sampled_from([object(), np.ones(1), np.ones((50, 50)), {}, np.array("1"), np.True_]),
)
