"""The operators of `cz.prox`: each against a solver that knows nothing of its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from continuized.process import prox
from continuized.process.prox import L1, Box, ElasticNet, NonNegative, Separable
from continuized.support.jit import compile_formulas, jit

WEIGHTS = np.array([0.0, 0.3, 1.0, 2.5, 0.7, 0.1])
SEPARABLE: dict[str, tuple[Any, tuple[Any, Any, Any, Any]]] = {
    "L1": (L1(0.7), (0.7, 0.0, -math.inf, math.inf)),
    "L1, weights": (L1(WEIGHTS), (WEIGHTS, 0.0, -math.inf, math.inf)),
    "ElasticNet": (ElasticNet(0.7, 1.3), (0.7, 1.3, -math.inf, math.inf)),
    "ElasticNet, weights": (
        ElasticNet(WEIGHTS, WEIGHTS[::-1]), (WEIGHTS, WEIGHTS[::-1], -math.inf, math.inf)
    ),
    "Box": (Box(-0.5, 0.25), (0.0, 0.0, -0.5, 0.25)),
    "NonNegative": (NonNegative(), (0.0, 0.0, 0.0, math.inf)),
    "NonNegative, weights": (NonNegative(WEIGHTS), (WEIGHTS, 0.0, 0.0, math.inf)),
    "Separable": (Separable(WEIGHTS, 0.4, -1.0, WEIGHTS), (WEIGHTS, 0.4, -1.0, WEIGHTS)),
}  # fmt: skip


def find_zero(slope: Any, low: float, high: float) -> float:
    """By bisection, where an increasing function goes from negative to positive."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if slope(middle) > 0.0 else (middle, high)
    return 0.5 * (low + high)


def minimise_entry(v: float, step: float, l1: float, l2: float, low: float, high: float) -> float:
    """The zero of the slope of l1 |x| + l2/2 x^2 + (x - v)^2 / (2 step), looked for in [low, high].

    The slope jumps at 0, from negative to positive where 0 is the minimiser.
    """

    def slope(x: float) -> float:
        return math.copysign(l1, x) + l2 * x + (x - v) / step

    reach = abs(v) + 1.0
    return find_zero(slope, max(low, -reach), min(high, reach))


@pytest.mark.parametrize("name", SEPARABLE)
@pytest.mark.parametrize("step", [0.1, 1.0, 7.0])
def test_separable_steps(name: str, step: float) -> None:
    operator, constants = SEPARABLE[name]
    each = np.broadcast_arrays(*constants, np.zeros(6))[:4]
    rng = np.random.default_rng(0)
    for v in 3.0 * rng.standard_normal((20, 6)):
        expected = [minimise_entry(*entry) for entry in zip(v, [step] * 6, *each, strict=True)]
        np.testing.assert_allclose(operator(v, step), expected, rtol=0.0, atol=1e-14)


def test_values_of_separable_operators() -> None:
    x = np.array([1.0, -2.0, 3.0])
    weights = np.array([1.0, 0.5, 0.0])
    assert L1(weights).value(x) == 2.0
    assert ElasticNet(weights, 2.0).value(x) == 2.0 + 14.0
    assert NonNegative(weights).value(np.abs(x)) == 2.0
    assert NonNegative(weights).value(x) == math.inf
    assert Separable(1.0, 2.0, -2.0, 3.0).value(x) == 6.0 + 14.0
    assert Separable(1.0, 2.0, -2.0, 2.9).value(x) == math.inf
    assert ElasticNet(0.0, 1.0).value(np.array([1e200])) == math.inf  # too large, and no warning


def test_one_entry_is_compiled_from_the_same_formulas() -> None:
    compile_formulas(*prox.FORMULAS)
    step_of, value_of = jit(lambda *a: prox.entry_step(*a)), jit(lambda *a: prox.entry_value(*a))
    rng = np.random.default_rng(0)
    for operator, constants in SEPARABLE.values():
        v = 3.0 * rng.standard_normal(6)
        each = list(zip(*np.broadcast_arrays(*constants, v)[:4], strict=True))
        x = operator(v, 0.3)
        alone = [float(step_of(v[i], 0.3, *each[i])) for i in range(6)]
        np.testing.assert_allclose(alone, x, rtol=1e-14)  # products may be fused there
        total = sum(float(value_of(x[i], *each[i])) for i in range(6))
        assert operator.value(x) == pytest.approx(total, rel=1e-14)
