"""What a value is, and how it is shown in a sentence about it."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

LONGEST = 60


class AdvisedError(ValueError):
    """What is wrong, and what to do about it in Python; the command line gives its own advice.

    >>> error = AdvisedError("two rows are missing", "give rows=")
    >>> str(error), error.fact
    ('two rows are missing; give rows=', 'two rows are missing')
    """

    def __init__(self, fact: str, advice: str = "") -> None:
        super().__init__(f"{fact}; {advice}" if advice else fact)
        self.fact = fact


def brief(value: Any) -> str:
    """repr on one line, cut where it would be long: an error is one sentence.

    >>> brief("two\\nlines"), brief(list(range(100)))[-9:]
    ("'two\\\\nlines'", '15, 16...')
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def is_real(value: Any) -> bool:
    """Whether a value is one real number: arrays of no dimension count, of any library.

    >>> is_real(2), is_real("2"), is_real(True), is_real(2j)
    (True, False, False, False)
    """
    if isinstance(value, Real):
        return not isinstance(value, bool)
    if not (hasattr(value, "dtype") and hasattr(value, "shape")) or tuple(value.shape) != ():
        return False
    # By name: each library has dtypes of its own, with no other property in common.
    return any(word in str(value.dtype) for word in ("float", "int"))


def is_whole(value: Any) -> bool:
    """Whether a value is one integer, of Python or of NumPy; truth values are none.

    >>> is_whole(2), is_whole(2.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_flag(value: Any, name: str) -> None:
    """Raise TypeError unless a value is True or False: of other values, the truth surprises.

    >>> check_flag("False", "accelerated")
    Traceback (most recent call last):
    ...
    TypeError: accelerated must be True or False, got 'False'
    """
    if type(value).__name__ not in ("bool", "bool_"):  # the latter is NumPy's
        raise TypeError(f"{name} must be True or False, got {brief(value)}")


def as_float(value: Any) -> float:
    """float(value), infinite where a Python integer is too large for it."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value > 0 or -1)
