"""What a value is, and how it is shown in a sentence about it."""

from __future__ import annotations

from numbers import Real
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
    """Whether a value is one real number."""
    # Numbers of NumPy and zero-dimensional arrays count; strings that float() would read do not.
    return not isinstance(value, str | bytes | bool) and (
        isinstance(value, Real)
        or (hasattr(value, "shape") and value.shape == () and value.dtype.kind in "iuf")
    )
