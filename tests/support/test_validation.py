"""The ten checks: what each takes and refuses, with the exact type and in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuized.support import validation as check
from tests.helpers.refused_input import quick

HUGE = 10**400


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("this object cannot be shown")


class Foreign:
    """An array of no dimension of a library that is not NumPy."""

    shape = ()

    def __init__(self, value: Any, dtype: str) -> None:
        self.value, self.dtype = value, dtype

    def __float__(self) -> float:
        if self.value is None:
            raise RuntimeError("this array has no values")
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)


# Values that users give by mistake, or that come out of other libraries.
HOSTILE: dict[str, Any] = {
    "None": None,
    "True": True,
    "NumPy's True": np.True_,
    "text": "1",
    "bytes": b"1",
    "two lines": "a\nb",
    "long text": "x" * 1000,
    "complex": 1j,
    "nan": math.nan,
    "NumPy's nan": np.float64("nan"),
    "inf": math.inf,
    "-inf": -math.inf,
    "huge": HUGE,
    "-huge": -HUGE,
    "more digits than Python prints": 10**5000,
    "a huge fraction": Fraction(HUGE, 3),
    "decimal": Decimal(1),
    "-1": -1,
    "-0.5": -0.5,
    "0": 0,
    "1": 1,
    "one half": Fraction(1, 2),
    "float32": np.float32(0.5),
    "int8": np.int8(1),
    "0-d floats": np.array(0.5),
    "0-d floats of the other byte order": np.array(0.5, ">f8"),
    "0-d integers": np.array(1),
    "0-d truth": np.array(True),
    "0-d text": np.array("1"),
    "0-d record": np.zeros((), [("point", "f8")]),
    "date": np.array("2020-01-01", "datetime64[D]"),
    "foreign float": Foreign(0.5, "lib.bfloat16"),
    "foreign integer": Foreign(1, "lib.int64"),
    "foreign truth": Foreign(True, "lib.bool"),
    "foreign without values": Foreign(None, "lib.float32"),
    "list": [1.0],
    "vector": np.ones(3),
    "NaN in a vector": np.array([1.0, math.nan]),
    "negative in a vector": [2.0, -1.0],
    "huge in a list": [1, HUGE],
    "ragged": [[1.0], [1.0, 2.0]],
    "masked": np.ma.masked_array([1.0], [True]),
    "empty": [],
    "dict": {},
    "class": float,
    "function": len,
    "unprintable": Unprintable(),
}  # fmt: skip


class Case(NamedTuple):
    """A check, what it takes of the hostile values with the result, and of which it refuses the
    value; all others it refuses for their type."""

    call: Callable[[Any], Any]
    sentence: str
    taken: dict[str, Any]
    wrong_value: tuple[str, ...] = ()


HALVES = dict.fromkeys(
    ("one half", "float32", "0-d floats", "0-d floats of the other byte order", "foreign float"),
    0.5,
)
ONES = dict.fromkeys(("1", "int8", "0-d integers", "foreign integer"), 1)
NANS = ("nan", "NumPy's nan")
TOO_LARGE = ("inf", "huge", "more digits than Python prints", "a huge fraction")
TOO_SMALL = ("-inf", "-huge")

CASES = {
    "real": Case(
        lambda v: check.real(v, "x"),
        "x must be a finite number, got ",
        HALVES | ONES | {"0": 0.0, "-1": -1.0, "-0.5": -0.5},
        (*NANS, *TOO_LARGE, *TOO_SMALL),
    ),
    "real, minimum=0": Case(
        lambda v: check.real(v, "mu", minimum=0.0),
        "mu must be a finite number >= 0, got ",
        HALVES | ONES | {"0": 0.0},
        (*NANS, *TOO_LARGE, *TOO_SMALL, "-1", "-0.5"),
    ),
    "real, above=0": Case(
        lambda v: check.real(v, "L", above=0.0),
        "L must be a finite number > 0, got ",
        HALVES | ONES,
        (*NANS, *TOO_LARGE, *TOO_SMALL, "-1", "-0.5", "0"),
    ),
    "real, infinite": Case(
        lambda v: check.real(v, "tol", minimum=0.0, finite=False, other="None"),
        "tol must be a number >= 0 or None, got ",
        HALVES | ONES | {"0": 0.0} | dict.fromkeys(TOO_LARGE, math.inf),
        (*NANS, *TOO_SMALL, "-1", "-0.5"),
    ),
    "real in [0, 1)": Case(
        lambda v: check.real(v, "loss", minimum=0.0, below=1.0, noun="a probability"),
        "loss must be a probability in [0, 1), got ",
        HALVES | {"0": 0.0},
        (*NANS, *TOO_LARGE, *TOO_SMALL, "-1", "-0.5", *ONES),
    ),
    "real in (0, 1]": Case(
        lambda v: check.real(v, "damping", above=0.0, maximum=1.0),
        "damping must be a number in (0, 1], got ",
        HALVES | ONES,
        (*NANS, *TOO_LARGE, *TOO_SMALL, "-1", "-0.5", "0"),
    ),
    "whole": Case(
        lambda v: check.whole(v, "k"),
        "k must be an integer, got ",
        ONES | {"0": 0, "-1": -1, "-huge": -HUGE},
        ("huge", "more digits than Python prints"),
    ),
    "whole, of a seed": Case(
        lambda v: check.whole(v, "rng", minimum=0, counts=False),
        "rng must be an integer >= 0, got ",
        ONES | {"0": 0, "huge": HUGE, "more digits than Python prints": 10**5000},
        ("-1", "-huge"),
    ),
    "whole, minimum=1": Case(
        lambda v: check.whole(v, "batch", minimum=1),
        "batch must be an integer >= 1, got ",
        ONES,
        ("0", "-1", "huge", "-huge", "more digits than Python prints"),
    ),
    "whole from 0 to 1": Case(
        lambda v: check.whole(v, "i", minimum=0, maximum=1, other=("a name", "None")),
        "i must be an integer from 0 to 1, a name or None, got ",
        ONES | {"0": 0},
        ("-1", "huge", "-huge", "more digits than Python prints"),
    ),
    "flag": Case(
        lambda v: check.flag(v, "accelerated"),
        "accelerated must be True or False, got ",
        {"True": True, "NumPy's True": True},
    ),
    "one_of": Case(
        lambda v: check.one_of(v, "side", ("left", "1"), other="None"),
        'side must be "left", "1" or None, got ',
        {"text": "1"},
        ("two lines", "long text"),
    ),
    "function": Case(
        lambda v: check.function(v, "fun"),
        "fun must be a function of x, got ",
        {"class": float, "function": len},
    ),
    "instance": Case(
        lambda v: check.instance(v, "path", (str, bytes), "a path"),
        "path must be a path, got ",
        {name: HOSTILE[name] for name in ("text", "bytes", "two lines", "long text")},
    ),
    "instance with a method": Case(
        lambda v: check.instance(v, "clock", "stream", "a clock", "give cz.clock.Poisson()"),
        "clock must be a clock, got ",
        {},
    ),
    "sequence": Case(
        lambda v: check.sequence(v, "snapshots", "a sequence of times"),
        "snapshots must be a sequence of times, got ",
        {
            name: list(HOSTILE[name])
            for name in ("list", "vector", "NaN in a vector", "negative in a vector",
                         "huge in a list", "ragged", "masked", "empty")
        },
    ),
}  # fmt: skip


def sentence(error: BaseException) -> str:
    """The message, after what holds for every refusal."""
    message = str(error)
    assert type(error) in (TypeError, ValueError), repr(error)
    assert "\n" not in message
    assert 10 < len(message) < 250
    return message


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("case", CASES)
def test_each_value_is_taken_or_refused_in_one_sentence(case: str, value: str) -> None:
    call, start, taken, wrong_value = CASES[case]
    given = HOSTILE[value]
    if value in taken:
        answer, wanted = call(given), taken[value]
        if case.startswith(("real", "whole", "flag", "one_of")):
            kind = {"real": float, "whol": int, "flag": bool, "one_": str}[case[:4]]
            assert type(answer) is kind
        assert answer is wanted or answer == wanted or np.array_equal(answer, wanted, True)
        return
    with pytest.raises((TypeError, ValueError)) as caught:
        call(given)
    assert type(caught.value) is (ValueError if value in wrong_value else TypeError)
    assert sentence(caught.value).startswith(start + check.short_repr(given))


def test_every_case_names_hostile_values_only() -> None:
    for case in CASES.values():
        assert set(case.taken) | set(case.wrong_value) <= set(HOSTILE)
        assert not set(case.taken) & set(case.wrong_value)


# Arrays: what they are taken as, or the words and the type of the refusal.
ARRAYS: list[tuple[Any, dict[str, Any], Any]] = [
    ([1, 2], {}, np.array([1, 2])),
    ([1, 2], {"dtype": np.float64}, np.array([1.0, 2.0])),
    ([Fraction(1, 2), 10**20], {"dtype": np.float64}, np.array([0.5, 1e20])),
    (3, {"minimum": 0}, np.array(3)),
    (np.float32(0.5), {}, np.array(0.5, np.float32)),
    ([], {"dtype": np.int64}, np.zeros(0, np.int64)),
    (np.uint8([1, 2]), {"dtype": np.int64, "minimum": 1}, np.array([1, 2])),
    (["a"], {}, (TypeError, "w must be an array of real numbers, got ['a']")),
    (None, {}, (TypeError, "w must be an array of real numbers, got None")),
    ([True, False], {}, (TypeError, "w must be an array of real numbers, got [True, False]")),
    (np.ones(2, bool), {}, (TypeError, "w must be an array of real numbers, got dtype bool")),
    (np.ones(2, complex), {}, (TypeError, "w must be an array of real numbers, got dtype complex")),
    (np.ones(2, object), {}, (TypeError, "w must be an array of real numbers, got dtype object")),
    ([1, True, HUGE], {}, (TypeError, "w must be an array of real numbers, got [1, True, 1000")),
    ([1.5], {"dtype": int}, (TypeError, "w must be an array of integers, got [1.5]")),
    ([1.0], {"dtype": int, "noun": "counts"}, (TypeError, "w must be counts, got [1.0]")),
    ([HUGE], {"dtype": int}, (ValueError, "w must be an array of integers, got [1000")),
    ([1, 2**63], {"dtype": int}, (ValueError, "808]; the largest is 2^63 - 1")),
    (10**19, {"dtype": int, "minimum": 0}, (ValueError, "000; the largest is 2^63 - 1")),
    (np.ma.masked_array([1.0], [True]), {}, (TypeError, "w is a masked array: the mask would be")),
    ([[1.0], [1.0, 2.0]], {}, (ValueError, "got [[1.0], [1.0, 2.0]]; rows must be equally long")),
    ([[1.0]], {"ndim": 1}, (ValueError, "w must be a vector, got shape (1, 1)")),
    (1.0, {"ndim": 2}, (ValueError, "w must be a matrix, got shape ()")),
    ([1.0, math.nan], {"finite": True}, (ValueError, "w must be finite, but w[1] is nan")),
    ([1, HUGE], {"finite": True}, (ValueError, "w must be finite, but w[1] is inf")),
    (math.inf, {"finite": True}, (ValueError, "w must be finite, got inf")),
    ([math.nan], {"minimum": 0.0}, (ValueError, "w must be finite and >= 0, but w[0] is nan")),
    ([0.0, math.inf], {"minimum": 0.0}, (ValueError, "w must be finite and >= 0, but w[1] is inf")),
    ([[1.0, -1.0], [-2.0, 1.0]], {"minimum": 0.0},
     (ValueError, "w must be finite and >= 0, but w[0, 1] is -1.0 (2 such entries in all)")),
    ([1.0, 0.0], {"above": 0.0}, (ValueError, "w must be finite and > 0, but w[1] is 0.0")),
    ([3, -1], {"dtype": int, "minimum": 0}, (ValueError, "w must be >= 0, but w[1] is -1")),
    (np.array([np.longdouble("1e4000")]), {"dtype": np.float64, "finite": True},
     (ValueError, "w must be finite, but w[0] is inf")),
]  # fmt: skip


@pytest.mark.parametrize(("values", "options", "wanted"), ARRAYS)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_arrays(values: Any, options: dict[str, Any], wanted: Any) -> None:
    if isinstance(wanted, np.ndarray):
        answer = check.array(values, "w", **options)
        assert answer.dtype == wanted.dtype
        np.testing.assert_array_equal(answer, wanted)
        return
    with pytest.raises(wanted[0]) as caught:
        check.array(values, "w", **options)
    assert wanted[1] in sentence(caught.value)


def test_arrays_are_given_back_themselves_or_as_new_ones() -> None:
    x = np.ones(3)
    assert check.array(x, "x", finite=True, minimum=0.0) is x
    fresh = check.array(x, "x", dtype=np.float64)
    assert fresh is not x
    assert not np.shares_memory(fresh, x)
    assert check.array(np.ones((3, 2)).T, "x", dtype=np.float64).flags.c_contiguous


class Unreadable:
    """An array on a device that NumPy cannot read."""

    dtype = "lib.float32"

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("copy it to the host first")


def test_arrays_that_numpy_cannot_read() -> None:
    with pytest.raises(TypeError, match="w must be an array of real numbers, got ") as caught:
        check.array(Unreadable(), "w")
    assert "host" in str(caught.value.__cause__)
    sentence(caught.value)


def test_names_that_are_several_words() -> None:
    with pytest.raises(ValueError, match=r"^the gradient must be finite, but entry 1 is nan$"):
        check.array([1.0, math.nan], "the gradient", finite=True)


def test_what_is_counted_has_a_largest_number() -> None:
    assert check.whole(2**63 - 1, "maxiter") == 2**63 - 1
    with pytest.raises(
        ValueError, match=r"^maxiter must be an integer >= 0, .*; the largest is 2\^63 - 1$"
    ):
        check.whole(2**63, "maxiter", minimum=0)


def test_times() -> None:
    assert check.times([0, 1, 1], ordered=True).tolist() == [0.0, 1.0, 1.0]
    assert check.times(3).shape == ()
    for values, error, words in (
        ([1.0, 0.5], ValueError, "t must be in increasing order, but t[1] = 0.5 follows 1.0"),
        ([[0.0], [1.0]], ValueError, "t must be a vector, got shape (2, 1)"),
        ([-1.0], ValueError, "t must be finite and >= 0, but t[0] is -1.0"),
        ([math.nan], ValueError, "t must be finite and >= 0, but t[0] is nan"),
        ([0.0, math.inf], ValueError, "t must be finite and >= 0, but t[1] is inf"),
        ([HUGE], ValueError, "t must be finite and >= 0, but t[0] is inf"),
        ("now", TypeError, "t must be real numbers, got 'now'"),
    ):
        with pytest.raises(error) as caught:
            check.times(values, "t", ordered=True)
        assert sentence(caught.value) == words


def test_shapes_of_arrays_of_any_library() -> None:
    x = Foreign(1.0, "lib.float32")
    assert check.shape(x, "x", ()) is x
    with pytest.raises(ValueError, match=r"^g must have the shape of x, \(2,\), got \(\)$"):
        check.shape(x, "g", [2], like="x")
    with pytest.raises(
        ValueError, match=r"^s must have shape \(2,\), one for each node, got \(\)$"
    ):
        check.shape(x, "s", (2,), each="node")


def test_advice_comes_last() -> None:
    for call in (
        lambda: check.real("a", "mu", advice="drop mu="),
        lambda: check.real(math.nan, "mu", advice="drop mu="),
        lambda: check.whole(1.5, "mu", advice="drop mu="),
        lambda: check.whole(-1, "mu", minimum=0, advice="drop mu="),
        lambda: check.function(3, "mu", advice="drop mu="),
        lambda: check.instance(3, "mu", str, "a name", "drop mu="),
    ):
        with pytest.raises((TypeError, ValueError), match=r"^mu must be .*, got .*; drop mu=$"):
            call()


@pytest.mark.parametrize(
    ("given", "near"),
    [("continuised", "continuized"), ("Nesterov acceleration", "nesterov"), ("zzz", None)],
)
def test_near_names_are_suggested(given: str, near: str | None) -> None:
    with pytest.raises(ValueError, match="method must be") as caught:
        check.one_of(given, "method", ("continuized", "nesterov"))
    hint = f'; did you mean "{near}"?' if near else ""
    assert sentence(caught.value).endswith(f"got {given!r}{hint}")


@quick
@given(st.floats() | st.integers() | st.fractions(), st.floats(-10, 10), st.floats(0, 10))
def test_bounds_hold_as_they_are_written(value: Any, low: float, width: float) -> None:
    high = low + width
    for options, inside in (
        ({"minimum": low, "maximum": high}, low <= value <= high),
        ({"minimum": low, "below": high}, low <= value < high),
        ({"above": low, "maximum": high}, low < value <= high),
        ({"above": low, "below": high}, low < value < high),
    ):
        rounded = math.isfinite(value) and low <= float(value) <= high
        try:
            answer = check.real(value, "x", **options)
        except ValueError:
            assert not inside or float(value) in (low, high)
        else:
            assert rounded
            assert answer == float(value)


def test_what_is_shown_is_short_and_on_one_line() -> None:
    for value in HOSTILE.values():
        text = check.short_repr(value)
        assert 0 < len(text) <= check.LONGEST
        assert "\n" not in text
    assert check.short_repr(10**5000) == "a value of type int"
    assert check.short_repr(Unprintable()) == "a value of type Unprintable"


# Planted mistakes: each is caught by a row of the table above.


def planted_bool(value: Any) -> float:
    """A check that takes True for a number."""
    if isinstance(value, int | float):
        return float(value)
    return check.real(value, "x")


def planted_nan(value: Any) -> float:
    """A check that compares the wrong way round, which NaN passes."""
    if isinstance(value, float) and not value < 0.0 and not math.isinf(value):
        return value
    return check.real(value, "mu", minimum=0.0)


def planted_bound(value: Any) -> float:
    """A check that takes the end of an open interval."""
    return check.real(value, "L", minimum=0.0)


def planted_overflow(value: Any) -> float:
    """A check that lets OverflowError through."""
    if check.is_real(value):
        float(value)
    return check.real(value, "x")


def planted_rounding(value: Any) -> int:
    """A check of integers that takes floats."""
    return check.whole(int(value) if isinstance(value, float) else value, "k")


@pytest.mark.parametrize(
    ("case", "planted"),
    [
        ("real", planted_bool),
        ("real, minimum=0", planted_nan),
        ("real, above=0", planted_bound),
        ("real", planted_overflow),
        ("whole", planted_rounding),
    ],
)
def test_the_table_catches_planted_mistakes(
    case: str, planted: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CASES, case, CASES[case]._replace(call=planted))
    caught = 0
    for value in HOSTILE:
        try:
            test_each_value_is_taken_or_refused_in_one_sentence(case, value)
        except BaseException:  # pytest's own Failed is no Exception
            caught += 1
    assert caught > 0
