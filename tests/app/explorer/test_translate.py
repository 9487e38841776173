"""Formulas in JavaScript: what is translated, and what is refused."""

from __future__ import annotations

import math

import pytest

from continuized.app.explorer.translate import translate

LIMITS = (0.5, 2.0)
TABLE = {"a": 1.0}


def choose(x: float, low: float = 1.0) -> float:
    """Chained targets, branches, a loop and a constant of the module."""
    total = last = 0.0
    for limit in LIMITS:
        if x > limit and not x < low:
            total += limit
        else:
            total -= limit**2
    while last < 3.0:
        last += 1.0
    return total if abs(x) < math.inf else -last


def test_statements_and_constants() -> None:
    text = translate([choose])
    assert "function choose(x, low = 1.0) {" in text
    assert "for (limit of [0.5, 2.0]) {" in text
    assert "((x > limit) && (!(x < low)))" in text
    assert "(Math.abs(x) < Infinity)" in text


def look_up(x: float) -> float:
    return TABLE["a"] * x


def bend(x: float) -> float:
    return math.gamma(x)


def count(x: float) -> float:
    return sum(i for i in range(3)) * x


def new(x: float) -> float:
    return x


def cut(x: float) -> float:
    return x // 2.0


@pytest.mark.parametrize("formula", [look_up, bend, count, new, cut, math.sqrt])
def test_what_has_no_translation_is_refused(formula: object) -> None:
    with pytest.raises(NotImplementedError):
        translate([formula])  # type: ignore[list-item]


def test_two_formulas_of_one_name() -> None:
    def mix(x: float) -> float:
        return x

    from continuized.process import flow

    with pytest.raises(ValueError, match="two formulas are called mix"):
        translate([mix, flow.mix])
