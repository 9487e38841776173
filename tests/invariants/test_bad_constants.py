"""Bad constants: L, mu, start and variances, and parameters that are no functions of t."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import continuized as cz
from tests.helpers.refused_input import not_numbers, one_sentence, quick, refuses, untouched

METHODS = [cz.Continuized, cz.Nesterov, lambda L, mu=0.0: cz.GradientDescent(L)]
not_positive = st.one_of(
    st.floats(max_value=0.0),
    st.sampled_from([math.nan, math.inf, np.float32(-1.0), np.int64(0), Fraction(-1, 3)]),
    st.just(-(10**400)),
)


@quick
@given(not_positive)
def test_L_out_of_range(L: Any) -> None:
    for method in METHODS:
        with pytest.raises(ValueError, match="L must be a finite number > 0, got ") as caught:
            method(L)
        one_sentence(caught)
    refuses(ValueError, "L must be a finite number > 0, got ", L=L)


@quick
@given(not_numbers)
def test_L_is_no_number(L: Any) -> None:
    for method in METHODS:
        with pytest.raises(TypeError, match="L must be a finite number > 0, got ") as caught:
            method(L)
        one_sentence(caught)
    refuses(TypeError, "L must be a finite number > 0, got ", L=L)


def test_L_is_too_large_for_a_float() -> None:
    refuses(ValueError, "L must be a finite number > 0, got 1000", L=10**400)


@pytest.mark.parametrize("method", ["nesterov", "gradient-descent"])
def test_L_is_absent(method: str) -> None:
    """The continuized method finds it; these do not."""
    refuses(ValueError, "L=", L=None, method=method)
    refuses(ValueError, "L=", fun=cz.Problem(untouched, untouched), jac=None, L=None, method=method)


@quick
@given(
    st.one_of(
        st.floats(max_value=0.0, exclude_max=True),
        st.sampled_from([math.nan, math.inf, Fraction(-1, 2), 10**400]),
    )
)
def test_mu_out_of_range(mu: Any) -> None:
    for method in ("continuized", "nesterov", "gradient-descent"):
        refuses(ValueError, "mu must be a finite number >= 0, got ", mu=mu, method=method)


@quick
@given(st.floats(1e-300, 1e300), st.floats(1.0000001, 1e5))
def test_mu_larger_than_L(L: float, factor: float) -> None:
    for method in ("continuized", "nesterov", "gradient-descent"):
        refuses(ValueError, "mu must not exceed L, got mu = ", L=L, mu=factor * L, method=method)


@quick
@given(not_numbers)
def test_mu_is_no_number(mu: Any) -> None:
    refuses(TypeError, "mu must be a finite number >= 0, got ", mu=mu)


def test_numbers_of_every_kind_are_numbers() -> None:
    for L in (2, 2.0, np.float32(2.0), np.int8(2), np.array(2.0), Fraction(2)):
        assert cz.Continuized(L, L).constants == (2.0, 2.0, math.inf)
        assert type(cz.Continuized(L).L) is float


@quick
@given(st.one_of(st.floats(max_value=0.0, exclude_max=True), st.just(math.nan)))
def test_start_out_of_range(start: float) -> None:
    for mu in (0.0, 0.5):
        with pytest.raises(ValueError, match="start must be a number >= 0") as caught:
            cz.Continuized(1.0, mu, start)
        one_sentence(caught, repr(start))


@quick
@given(not_numbers)
def test_start_is_no_number(start: Any) -> None:
    with pytest.raises(TypeError, match="start must be a number >= 0") as caught:
        cz.Continuized(1.0, 0.5, start)
    one_sentence(caught)


def test_an_infinite_start_needs_mu() -> None:
    with pytest.raises(ValueError, match="start = inf needs mu > 0") as caught:
        cz.Continuized(1.0, start=math.inf)
    one_sentence(caught)


@pytest.mark.parametrize("variance", [-1.0, math.nan, math.inf])
def test_a_variance_out_of_range(variance: float) -> None:
    with pytest.raises(ValueError, match=f"variance .* >= 0, got {variance}") as caught:
        cz.noise.Gaussian(variance)
    one_sentence(caught)


@quick
@given(not_numbers)
def test_a_variance_of_the_wrong_type(variance: Any) -> None:
    with pytest.raises(TypeError, match="variance must be a finite number >= 0, got ") as caught:
        cz.noise.Gaussian(variance)
    one_sentence(caught)


def test_custom_parameters_that_are_neither_functions_nor_numbers() -> None:
    good = dict.fromkeys(("eta", "eta_prime", "gamma", "gamma_prime"), lambda t: 1.0)
    for name in good:
        words = f"{name} must be a function of t, or a number, got '2'"
        with pytest.raises(TypeError, match=words) as caught:
            cz.CustomContinuized(**good | {name: "2"})
        one_sentence(caught)
        with pytest.raises(ValueError, match=f"{name} must be .*, got nan") as caught:
            cz.CustomContinuized(**good | {name: math.nan})
        one_sentence(caught)
    with pytest.raises(ValueError, match="mu must not exceed L"):
        cz.CustomContinuized(**good, L=1.0, mu=2.0)


def test_custom_constants_that_are_no_numbers() -> None:
    with pytest.raises(TypeError) as caught:
        cz.CustomContinuized(*(lambda t: 1.0,) * 4, L="one")  # type: ignore[arg-type]
    one_sentence(caught, "L", "'one'")
