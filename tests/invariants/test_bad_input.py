"""Bad input: the right exception, one sentence that names what was given, nothing half done."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import continuized as cz
from continuized.process.methods import METHODS
from tests.helpers.refused_input import X0, not_numbers, one_sentence, quick, refuses, untouched


def square(x: np.ndarray) -> float:
    return 0.5 * float(np.sum(x * x))


@pytest.mark.parametrize(
    "x0",
    [
        None,
        "abc",
        b"abc",
        ["a", "b"],
        [None],
        [1.0, 2j],
        1 + 2j,
        [True, False],
        object(),
        {},
        np.array(["2020-01-01"], "datetime64[D]"),
    ],
)
def test_x0_without_real_numbers(x0: Any) -> None:
    refuses(TypeError, "x0 must be an array of real numbers, got ", x0=x0)


@quick
@given(st.lists(st.floats(), max_size=5), st.sampled_from([math.nan, math.inf, -math.inf]))
def test_x0_that_is_not_finite(values: list[float], bad: float) -> None:
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            x0 = np.array([*values, bad]).astype(dtype)
        refuses(ValueError, "x0 must be finite, but x0[", x0=x0)


def test_x0_that_no_float_holds() -> None:
    refuses(ValueError, "x0 must be finite, but x0[1] is inf", x0=[1, 10**400])


def test_x0_that_is_ragged() -> None:
    words = ("x0 must be an array of real numbers, got [[1.0], [1.0, 2.0]]", "equally long")
    refuses(ValueError, *words, x0=[[1.0], [1.0, 2.0]])


def test_x0_of_the_wrong_dimension() -> None:
    p = cz.problems.paper_strongly_convex()
    options = {"fun": p, "jac": None, "L": None}
    refuses(ValueError, "x0 has 2 entries", "dimension 3", **options)


@pytest.mark.parametrize("fun", [None, 3, "f", X0])
def test_fun_is_no_function(fun: Any) -> None:
    refuses(TypeError, "fun must be a Problem or a function of x, got ", fun=fun)


@pytest.mark.parametrize("jac", [None, False])
def test_fun_without_jac(jac: Any) -> None:
    refuses(ValueError, "the gradient is missing", "jac=", "jac=True", jac=jac)


@pytest.mark.parametrize("jac", ["2-point", 3, X0])
def test_jac_is_no_function(jac: Any) -> None:
    refuses(TypeError, "jac must be a function of x or True, got ", jac=jac)


def test_jac_with_a_problem() -> None:
    p = cz.Problem(untouched, untouched)
    refuses(ValueError, "drop jac=", fun=p)


def returns(value: Any) -> Any:
    return lambda x: value


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize(
    ("g", "error", "words"),
    [
        (np.zeros(3), ValueError, ("the shape of x, (2,), got (3,)",)),
        (np.zeros((2, 1)), ValueError, ("the shape of x, (2,), got (2, 1)",)),
        (1.0, ValueError, ("the shape of x, (2,), got ()",)),
        (np.zeros(2, complex), TypeError, ("real numbers, got dtype complex128",)),
        (np.array(["a", "b"]), TypeError, ("real numbers, got dtype <U1",)),
        (np.array([True, False]), TypeError, ("real numbers, got dtype bool",)),
        (None, TypeError, ("real numbers, got None",)),
        ([[1.0], [1.0, 2.0]], ValueError, ("the gradient must",)),
    ],
)
def test_a_gradient_of_the_wrong_shape_or_dtype(
    g: Any, error: type[Exception], words: tuple[str, ...], record: bool
) -> None:
    for options in (
        {"fun": square, "jac": returns(g)},
        {"fun": lambda x: (square(x), g), "jac": True},
    ):
        refuses(error, "the gradient must", *words, record=record, **options)


@pytest.mark.parametrize("value", [None, "x", np.zeros(2), np.zeros((50, 50)), 1j, [1.0]])
def test_fun_that_returns_no_number(value: Any) -> None:
    refuses(TypeError, "fun must return one real number, got ", fun=returns(value))


@pytest.mark.parametrize("value", [1.0, (1.0,), (1.0, X0, X0), None, X0])
def test_jac_true_without_a_pair(value: Any) -> None:
    words = "fun must return the pair (value, gradient), got "
    refuses(TypeError, words, fun=returns(value), jac=True)


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("continuised", "continuized"),
        ("Continuized", "continuized"),
        ("nestrov", "nesterov"),
        ("Nesterov acceleration", "nesterov"),
        ("gradient descent", "gradient-descent"),
        ("GradientDescent", "gradient-descent"),
    ],
)
def test_a_method_that_does_not_exist(given: str, near: str) -> None:
    refuses(ValueError, repr(given), f'did you mean "{near}"?', method=given)


@quick
@given(st.text())
def test_any_other_method_name(name: str) -> None:
    if name not in ("auto", *METHODS):
        refuses(ValueError, 'method must be "auto", "continuized", "sh', "got", method=name)


@pytest.mark.parametrize("method", [None, 3, cz.Nesterov, ["nesterov"] * 99])
def test_a_method_of_the_wrong_type(method: Any) -> None:
    refuses(TypeError, f'"{list(METHODS)[-1]}" or a method object, got ', method=method)


def test_constants_beside_a_method_object() -> None:
    refuses(ValueError, "drop L= and mu=", method=cz.Nesterov(1.0))
    refuses(ValueError, "drop L= and mu=", method=cz.Nesterov(1.0), L=None, mu=0.1)


@quick
@given(st.integers(max_value=-1))
def test_maxiter_negative(maxiter: int) -> None:
    refuses(ValueError, "maxiter must be an integer >= 0 or None, got -", maxiter=maxiter)


@pytest.mark.parametrize("maxiter", [1.0, 1.5, "9", math.nan, True, [1], np.ones((50, 50))])
def test_maxiter_of_the_wrong_type(maxiter: Any) -> None:
    refuses(TypeError, "maxiter must be an integer >= 0 or None, got ", maxiter=maxiter)


@pytest.mark.parametrize("tol", [-1.0, -1e-300, math.nan, -math.inf, -1, -(10**400)])
def test_tol_out_of_range(tol: Any) -> None:
    refuses(ValueError, "tol must be a number >= 0 or None, got ", tol=tol)


@quick
@given(not_numbers)
def test_tol_of_the_wrong_type(tol: Any) -> None:
    refuses(TypeError, "tol must be a number >= 0 or None, got ", tol=tol)


@quick
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=9))
def test_times_that_do_not_increase(times: list[float]) -> None:
    before = [0.0, *times[:-1]]
    if all(t > b for t, b in zip(times, before, strict=True)):
        times = [*times, times[-1]]
    with pytest.raises(ValueError, match="times must be positive and strictly inc") as caught:
        cz.clock.Recorded(times)
    one_sentence(caught, "but times[", " follows ")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0, math.nan],), ValueError, r"times must be finite, but times\[1\] is nan"),
        (([1.0, math.inf],), ValueError, r"times must be finite, but times\[1\] is inf"),
        (([[1.0]],), ValueError, r"times must be a vector, got shape \(1, 1\)"),
        ((3.0,), ValueError, r"times must be a vector, got shape \(\)"),
        (("abc",), TypeError, "times must be a sequence of numbers, got 'abc'"),
        (([1j],), TypeError, "times must be a sequence of numbers"),
        ((["1", "2"],), TypeError, "times must be a sequence of numbers"),
        (([1.0, [2.0]],), ValueError, "times must be a sequence of numbers"),
        ((None,), TypeError, "times must be a sequence of numbers, got None"),
        (([1.0, 2.0], [1.0]), ValueError, "gaps has 1 entries, but times has 2"),
        (([1.0, 2.0], [1.0, 1.1]), ValueError, "gaps must be the differences of times"),
        (([1.0, 1e9], [1.0, -1.0]), ValueError, "gaps must be the differences of times"),
    ],
)
def test_recorded_clocks(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        cz.clock.Recorded(*arguments)
    one_sentence(caught)


@pytest.mark.parametrize(
    "clock", [3, [1.0, 2.0] * 99, np.arange(9999.0), "poisson", cz.clock.Poisson]
)
def test_a_clock_of_the_wrong_type(clock: Any) -> None:
    refuses(TypeError, "clock must be a clock such as cz.clock.Poisson(rng), got ", clock=clock)


def test_a_seed_that_is_none() -> None:
    refuses(TypeError, "rng must be an integer >= 0", "got 'zero'", rng="zero")
    refuses(ValueError, "rng must be an integer >= 0", "got -3", rng=-3)


@pytest.mark.parametrize("callback", [3, "print", [print]])
def test_a_callback_of_the_wrong_type(callback: Any) -> None:
    refuses(TypeError, "callback must be callable, got ", callback=callback)


@pytest.mark.parametrize("record", ["all", None, 1, 0, X0, ["path"]])
def test_record_that_is_none_of_the_three(record: Any) -> None:
    error = ValueError if isinstance(record, str) else TypeError
    refuses(error, 'record must be "path", True or False, got ', record=record)


@pytest.mark.parametrize("noise", [0.1, "gaussian", cz.noise, cz.noise.Gaussian])
def test_noise_of_the_wrong_type(noise: Any) -> None:
    refuses(TypeError, "noise must be a noise model such as cz.noise.Gaussian", noise=noise)


@pytest.mark.parametrize("t", [["1.0"], "1.0", None, 1j])
def test_a_time_that_is_no_number(t: Any) -> None:
    r = cz.minimize(square, X0, lambda x: x, L=1.0, rng=0, maxiter=5, record="path")
    with pytest.raises(TypeError) as caught:
        r.at(t)
    one_sentence(caught, repr(t))


def test_a_theorem_about_a_name() -> None:
    with pytest.raises(TypeError) as caught:
        cz.theory.bound("continuized", cz.problems.paper_convex(), np.zeros(100), t=1.0)  # type: ignore[arg-type]
    one_sentence(caught, "'continuized'", "cz.Continuized")


def test_an_attribute_that_does_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'minimise'"):
        _ = cz.minimise


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("bounds", "use prox=cz.prox.Box(low, high)"),
        ("args", "lambda x: fun(x, *args)"),
        ("seed", "use rng="),
        ("max_iter", "did you mean maxiter=?"),
        ("zzz", "its docstring names those that it has"),
    ],
)
def test_an_option_that_there_is_not(option: str, words: str) -> None:
    refuses(TypeError, f"minimize has no option {option}=; ", words, **{option: 1})


@pytest.mark.parametrize("who", ["fun", "jac", "prox"])
def test_stop_iteration_is_for_callbacks(who: str) -> None:
    def stop(*given: Any) -> Any:
        raise StopIteration

    own: dict[str, Any] = {"fun": square, "jac": lambda x: x, "prox": lambda v, step: v}
    with pytest.raises(RuntimeError, match="raised StopIteration; only callback may"):
        cz.minimize(x0=X0, maxiter=5, rng=0, **(own | {who: stop}))


@pytest.mark.parametrize("value", [np.timedelta64(3, "s"), np.array(3, "m8[s]")])
def test_a_span_of_time_is_no_number(value: Any) -> None:
    refuses(TypeError, "L must be a finite number > 0, got", L=value)
    refuses(TypeError, "maxiter must be an integer >= 0 or None, got", maxiter=value)
