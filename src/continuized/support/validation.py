"""The one place where arguments are checked: ten functions, each of which returns what it checked.

`real`, `whole`, `flag`, `one_of`, `function`, `instance`, `sequence`, `array`, `shape` and
`times` raise TypeError for a value of the wrong type and ValueError for a wrong value, in one
sentence on one line: which argument it is, what it must be, and what was given instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # NumPy is imported where it is used: this module is loaded for `--help` too
    from numpy.typing import NDArray

LONGEST = 60
NUMBERS = "fiu"  # the kinds of dtype that are real numbers
WHOLE_NAMES = ("int", "uint")  # of dtypes that are not NumPy's own
NUMBER_NAMES = ("float", "bfloat", *WHOLE_NAMES)
LARGEST = 2**63 - 1  # of the integers: compiled code and arrays count no further
TOO_LARGE = "the largest is 2^63 - 1"
DIMENSIONS = {0: "one number", 1: "a vector", 2: "a matrix"}


class AdvisedError(ValueError):
    """What is wrong, and what to do about it in Python; the command line gives its own advice.

    >>> error = AdvisedError("two rows are missing", "give rows=")
    >>> str(error), error.fact
    ('two rows are missing; give rows=', 'two rows are missing')
    """

    def __init__(self, fact: str, advice: str = "") -> None:
        super().__init__(f"{fact}; {advice}" if advice else fact)
        self.fact, self.advice = fact, advice


def short_repr(value: Any) -> str:
    """Return repr(value) on one line, cut where it would be long: an error is one sentence.

    >>> short_repr("two\\nlines"), short_repr(list(range(100)))[-9:]
    ("'two\\\\nlines'", '15, 16...')
    """
    try:
        text = " ".join(repr(value).split())
    except Exception:  # the user's own class, or an integer of more digits than Python prints
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def is_real(value: Any) -> bool:
    """Whether a value is one real number: arrays of no dimension count, of any library.

    >>> is_real(2), is_real("2"), is_real(True), is_real(2j)
    (True, False, False, False)
    """
    return _is_number(value, Real) or _is_array_of_one(value, NUMBERS, NUMBER_NAMES)


def is_whole(value: Any) -> bool:
    """Whether a value is one integer: arrays of no dimension count, of any library.

    >>> is_whole(2), is_whole(2.0), is_whole(True)
    (True, False, False)
    """
    is_plain = type(value) is int  # the quick way, which most integers take
    return is_plain or _is_number(value, Integral) or _is_array_of_one(value, "iu", WHOLE_NAMES)


def real(
    value: Any,
    name: str,
    *,
    above: float | None = None,
    minimum: float | None = None,
    below: float | None = None,
    maximum: float | None = None,
    finite: bool = True,
    noun: str = "",
    other: str | tuple[str, ...] = "",
    advice: str = "",
) -> float:
    """Return a real number as a float; NaN is never one, infinity only where not `finite`.

    `noun` says what the number is, where "a number" says too little; `other` says what else the
    argument may be, such as None, which the caller has dealt with before.  `advice` ends the
    sentence.

    >>> real(2, "L", above=0.0), real(10**400, "tol", minimum=0.0, finite=False)
    (2.0, inf)
    >>> real(-1, "tol", minimum=0.0, finite=False, other="None")
    Traceback (most recent call last):
    ...
    ValueError: tol must be a number >= 0 or None, got -1
    """
    interval = Interval(above, minimum, below, maximum)
    # Most numbers are floats: a small run checks as many as it has vectors to add.
    if type(value) is float and interval.holds(value) and not (finite and math.isinf(value)):
        return value
    error: type[TypeError] | type[ValueError] = TypeError
    cause = None
    if is_real(value):
        try:
            number = as_float(value)
        except Exception as refused:  # of an array that is traced, or that has no values
            cause = refused
        else:
            if interval.holds(number) and not (finite and math.isinf(number)):
                return number
            error = ValueError
    if not noun:
        noun = "a finite number" if finite and not interval.is_bounded else "a number"
    what = _either([f"{noun}{interval.words}"], other)
    raise refusal(error, name, what, value, advice) from cause


def whole(
    value: Any,
    name: str,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    noun: str = "an integer",
    other: str | tuple[str, ...] = "",
    advice: str = "",
    counts: bool = True,
) -> int:
    """Return an integer as an int; floats are none, even those without a fraction.

    One that counts is at most 2^63 - 1; a seed is none that counts.

    >>> whole(3, "batch", minimum=1)
    3
    >>> whole(0, "port", minimum=1, maximum=65535, other="None")
    Traceback (most recent call last):
    ...
    ValueError: port must be an integer from 1 to 65535 or None, got 0
    """
    interval = Interval(None, minimum, None, maximum)
    is_integer = is_whole(value)
    if is_integer and interval.holds(int(value)):
        if not counts or int(value) <= LARGEST:
            return int(value)
        advice = TOO_LARGE
    words = f" from {minimum} to {maximum}" if interval.is_bounded else interval.words
    what = _either([f"{noun}{words}"], other)
    raise refusal(ValueError if is_integer else TypeError, name, what, value, advice)


def flag(value: Any, name: str) -> bool:
    """Return True or False as a bool: of other values, the truth surprises.

    >>> flag("False", "accelerated")
    Traceback (most recent call last):
    ...
    TypeError: accelerated must be True or False, got 'False'
    """
    if type(value).__name__ not in ("bool", "bool_"):  # the latter is NumPy's
        raise refusal(TypeError, name, "True or False", value)
    return bool(value)


def one_of(
    value: Any, name: str, choices: Iterable[str], *, other: str | tuple[str, ...] = ""
) -> str:
    """Return a string that is one of a few.

    >>> one_of("midle", "side", ("left", "middle", "right"))
    Traceback (most recent call last):
    ...
    ValueError: side must be "left", "middle" or "right", got 'midle'; did you mean "middle"?
    """
    names = list(choices)
    if isinstance(value, str) and value in names:
        return str(value)
    what = _either([f'"{each}"' for each in names], other)
    if not isinstance(value, str):
        raise refusal(TypeError, name, what, value)
    import difflib  # here: --help loads this module, and has no use for it

    near = difflib.get_close_matches(value.lower(), names, n=1, cutoff=0.5)
    advice = f'did you mean "{near[0]}"?' if near else ""
    raise refusal(ValueError, name, what, value, advice)


def function(value: Any, name: str, what: str = "a function of x", advice: str = "") -> Any:
    """Return what can be called.

    >>> function(2.0, "eta", "a function of t")
    Traceback (most recent call last):
    ...
    TypeError: eta must be a function of t, got 2.0
    """
    if not callable(value):
        raise refusal(TypeError, name, what, value, advice)
    return value


def instance(value: Any, name: str, kind: Any, what: str, advice: str = "") -> Any:
    """Return an object of a class, of one of several, or that has the method named `kind`.

    >>> instance("poisson", "clock", "stream", "a clock such as cz.clock.Poisson(rng)")
    Traceback (most recent call last):
    ...
    TypeError: clock must be a clock such as cz.clock.Poisson(rng), got 'poisson'
    """
    if isinstance(kind, str):
        fits = callable(getattr(value, kind, None)) and not isinstance(value, type)
    else:
        fits = isinstance(value, kind)
    if not fits:
        raise refusal(TypeError, name, what, value, advice)
    return value


def sequence(values: Any, name: str, what: str) -> list[Any]:
    """Return the entries of a list, a tuple, an array or another iterable; a string is none.

    >>> sequence(3, "snapshots", "a sequence of times")
    Traceback (most recent call last):
    ...
    TypeError: snapshots must be a sequence of times, got 3
    """
    if not isinstance(values, str | bytes | dict):
        try:
            return list(values)
        except TypeError:  # also of an array of no dimension
            pass
    raise refusal(TypeError, name, what, values)


def array(
    values: Any,
    name: str,
    *,
    dtype: Any = None,
    ndim: int | None = None,
    above: float | None = None,
    minimum: float | None = None,
    finite: bool = False,
    noun: str = "",
) -> NDArray[Any]:
    """Return an array of real numbers: itself where it is one, and a fresh one of a `dtype`.

    A dtype of integers asks for integers; `above` and `minimum` ask for finite numbers too.

    >>> array([1, 2], "x0", dtype=float, finite=True)
    array([1., 2.])
    >>> array([1.0, -2.0], "weights", minimum=0.0)
    Traceback (most recent call last):
    ...
    ValueError: weights must be finite and >= 0, but weights[1] is -2.0
    """
    import numpy as np

    kinds = "iu" if dtype is not None and np.dtype(dtype).kind in "iu" else NUMBERS
    what = noun or ("an array of integers" if kinds == "iu" else "an array of real numbers")
    given = _as_array(values, name, what, kinds)
    if ndim is not None and given.ndim != ndim:
        raise ValueError(f"{name} must be {DIMENSIONS[ndim]}, got shape {given.shape}")
    # In order, for compiled code.  Floats are checked as they come out of it: some are rounded
    # to infinity.  Integers are checked as they were given: some would change their sign.
    if dtype is None or given.dtype == dtype:
        answer = given if dtype is None else given.copy("C")
    else:
        with np.errstate(over="ignore"):
            answer = given.astype(dtype, order="C")
        if kinds == "iu" and np.any(answer != given):
            raise refusal(ValueError, name, what, values, TOO_LARGE)
    if finite or above is not None or minimum is not None:
        interval = Interval(above, minimum, None, None)
        _check_entries(given if kinds == "iu" else answer, name, interval)
    return answer


def shape(value: Any, name: str, wanted: Sequence[int], *, like: str = "", each: str = "") -> Any:
    """Return an array of any library that has the shape of `like`, or an entry for `each`.

    >>> shape(array([1.0], "speeds"), "speeds", (3,), each="node")
    Traceback (most recent call last):
    ...
    ValueError: speeds must have shape (3,), one for each node, got (1,)
    """
    given, wanted = tuple(value.shape), tuple(wanted)
    if given != wanted:
        what = f"the shape of {like}, {wanted}" if like else f"shape {wanted}, one for each {each}"
        raise ValueError(f"{name} must have {what}, got {given}")
    return value


def times(values: Any, name: str = "times", *, ordered: bool = False) -> NDArray[Any]:
    """Return finite times >= 0 as an array of float64; where `ordered`, none before another.

    >>> times([1.0, 0.5], ordered=True)
    Traceback (most recent call last):
    ...
    ValueError: times must be in increasing order, but times[1] = 0.5 follows 1.0
    """
    import numpy as np

    t = array(values, name, dtype=np.float64, minimum=0.0, noun="real numbers")
    if ordered and t.ndim > 0:
        if t.ndim > 1:
            raise ValueError(f"{name} must be {DIMENSIONS[1]}, got shape {t.shape}")
        back = np.flatnonzero(np.diff(t) < 0.0)
        if back.size:
            k = int(back[0]) + 1
            raise ValueError(
                f"{name} must be in increasing order, but {name}[{k}] = {t[k]} follows {t[k - 1]}"
            )
    return t


def refusal(
    error: type[TypeError] | type[ValueError], name: str, what: str, value: Any, advice: str = ""
) -> TypeError | ValueError:
    """Return the error that says what an argument must be, and what was given.

    >>> refusal(TypeError, "kill", "a number of nodes or pairs (time, node)", "all")
    TypeError("kill must be a number of nodes or pairs (time, node), got 'all'")
    """
    sentence = f"{name} must be {what}, got {short_repr(value)}"
    return error(f"{sentence}; {advice}" if advice else sentence)


class Interval(NamedTuple):
    """Between which numbers an argument must lie; None stands for no bound."""

    above: float | None
    minimum: float | None
    below: float | None
    maximum: float | None

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound on each side."""
        low, high = (self.above, self.minimum), (self.below, self.maximum)
        return low != (None, None) and high != (None, None)

    @property
    def words(self) -> str:
        """The words that follow the noun: " in [0, 1)", " > 0", or none."""
        if self.is_bounded:
            low = f"({_plain(self.above)}" if self.minimum is None else f"[{_plain(self.minimum)}"
            high = f"{_plain(self.below)})" if self.maximum is None else f"{_plain(self.maximum)}]"
            return f" in {low}, {high}"
        for sign, bound in zip((">", ">=", "<", "<="), self, strict=True):
            if bound is not None:
                return f" {sign} {_plain(bound)}"
        return ""

    def holds(self, value: Any) -> Any:
        """Whether a number lies in it, or each of an array; NaN never does."""
        above, minimum, below, maximum = self
        inside = value == value
        if minimum is not None:
            inside &= value >= minimum
        if above is not None:
            inside &= value > above
        if maximum is not None:
            inside &= value <= maximum
        if below is not None:
            inside &= value < below
        return inside


def _plain(bound: float | None) -> str:
    return str(bound).removesuffix(".0")


def _either(what: list[str], other: str | tuple[str, ...]) -> str:
    """Join as in a sentence: a, b or c."""
    *others, last = [*what, *((other,) if isinstance(other, str) else other)]
    if not last:
        *others, last = others
    return f"{', '.join(others)} or {last}" if others else last


def _is_number(value: Any, kind: type) -> bool:
    """Whether a value is of the kind; a bool is none, nor is NumPy's timedelta64, an Integral."""
    if type(value) is float or type(value) is int:  # an abstract class takes a microsecond
        return type(value) is int or kind is Real
    is_one = isinstance(value, kind) and not isinstance(value, bool)
    return is_one and type(value).__name__ != "timedelta64"


def _is_array_of_one(value: Any, kinds: str, names: tuple[str, ...]) -> bool:
    """Whether a value is an array of no dimension, of a dtype of these kinds or names."""
    if not hasattr(value, "dtype") or getattr(value, "shape", None) != ():
        return False
    # By name, too: each library has dtypes of its own, with no other property in common.
    name = str(value.dtype).rpartition(".")[2]
    return getattr(value.dtype, "kind", "") in tuple(kinds) or name.startswith(names)


def as_float(value: Any) -> float:
    """float(value), infinite where a Python integer is too large for it."""
    if hasattr(value, "detach"):  # torch warns where it is still part of a graph
        value = value.detach()
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value > 0 or -1)


def _as_array(values: Any, name: str, noun: str, kinds: str) -> NDArray[Any]:
    import numpy as np

    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: the mask would be lost; drop or fill its rows")
    try:
        given = np.asarray(values)
    except ValueError as error:
        raise refusal(ValueError, name, noun, values, "rows must be equally long") from error
    except Exception as error:  # of another library, about an array that NumPy cannot read
        raise refusal(TypeError, name, noun, values) from error
    listed = not hasattr(values, "dtype")
    if listed and given.dtype == object and kinds == NUMBERS and all(map(is_real, given.flat)):
        # Fractions, and integers of more than 64 bits.
        given = np.array([as_float(each) for each in given.flat]).reshape(given.shape)
    if given.dtype.kind not in kinds and not (given.size == 0 and given.dtype == np.float64):
        if listed and kinds != NUMBERS and all(map(is_whole, np.asarray(values, object).flat)):
            raise refusal(ValueError, name, noun, values, TOO_LARGE)
        if listed:
            raise refusal(TypeError, name, noun, values)
        raise TypeError(f"{name} must be {noun}, got dtype {given.dtype}")
    return given


NO_BOUNDS = Interval(None, None, None, None)


def _check_entries(given: NDArray[Any], name: str, interval: Interval) -> None:
    """Name the first entry that is not finite, or outside the interval."""
    import numpy as np

    right = np.isfinite(given)
    if interval != NO_BOUNDS:
        right &= interval.holds(given)
    if right.all():
        return
    wrong = ~right
    what = f"finite and{interval.words}" if interval.words else "finite"
    if given.dtype.kind != "f":
        what = interval.words.strip()
    if given.ndim == 0:
        raise refusal(ValueError, name, what, given.item())
    first = np.argwhere(wrong)[0]
    index = ", ".join(map(str, first))
    entry = f"{name}[{index}]" if name.isidentifier() else f"entry {index}"
    count = np.count_nonzero(wrong)
    more = f" ({count} such entries in all)" if count > 1 else ""
    raise ValueError(f"{name} must be {what}, but {entry} is {given[tuple(first)]}{more}")
