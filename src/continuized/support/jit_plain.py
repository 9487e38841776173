"""The names of `jit_numba` where there is no Numba: what it would compile is run as it is.

As in compiled code, nothing is said of numbers that overflow or are not defined.  Types are not
looked at.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

__all__ = [
    "FASTMATH", "UNCOUNTED", "array_at", "byte_at", "call_flow", "call_gradient",
    "call_value", "choose_by_types", "class_of", "compile_formulas",
    "compile_high_word", "compile_power_of_two", "data_type",
    "fetch", "find_address", "flow_type", "gradient_type", "in_numpy", "in_short_vectors",
    "is_ours", "jit", "jit_uncounted", "make_call", "matrix", "njit", "read_apart", "scratch",
    "subtract_pair", "types", "uncounted", "value_type", "vector",
]  # fmt: skip

FASTMATH: set[str] = set()
UNCOUNTED: dict[str, Any] = {}


class _AnyType:
    """Every type, and every signature that is made of types."""

    def __getattr__(self, name: str) -> _AnyType:
        return self

    def __call__(self, *arguments: Any, **named: Any) -> _AnyType:
        return self


types: Any = _AnyType()
vector = matrix = flow_type = data_type = gradient_type = value_type = types


def is_ours(thing: Any) -> bool:
    """Nothing is kept on the disk, whoever wrote it."""
    return False


def jit(function: Callable[..., Any], signature: Any = None, **options: Any) -> Any:
    """Return the function, in which NumPy does not warn, and which gives Python's numbers."""

    @wraps(function)
    def run(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):
            return _as_python(function(*arguments))

    return run


def _as_python(answer: Any) -> Any:
    """Return a number of NumPy's as Python's, or several: NumPy's would turn float32 to float64."""
    if isinstance(answer, tuple):
        return tuple(map(_as_python, answer))
    return answer.item() if isinstance(answer, np.generic) else answer


def jit_uncounted(function: Callable[..., Any]) -> Any:
    """Return the function, in which NumPy does not warn."""
    return jit(function)


njit: Any = lambda function: function  # noqa: E731


def uncounted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return the function itself, which other functions here call."""
    return function


def compile_formulas(*formulas: Callable[..., Any], **options: Any) -> None:
    """Do nothing: plain functions call each other."""


def compile_power_of_two(function: Callable[[float], float]) -> None:
    """Do nothing: the function is right as it is."""


def compile_high_word(function: Callable[[Any, Any], Any]) -> None:
    """Do nothing: the function is right as it is."""


def choose_by_types(
    function: Callable[..., Any], choose: Callable[..., Callable[..., Any]], **options: Any
) -> Callable[..., Any]:
    """Return a function that chooses by the arguments at every call."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        return choose(*arguments)(*arguments)

    return call


def class_of(kind: Any) -> Any:
    """Return the class of a NamedTuple: `choose_by_types` is told the arguments themselves."""
    return type(kind)


def in_numpy(version: Callable[..., Any]) -> Callable[[Any], Any]:
    """Put a function that works on whole arrays in the place of a loop."""
    return lambda function: version


def fetch(array: Any, index: Any) -> None:
    """Do nothing: nobody waits for memory here."""


def read_apart(array: Any, index: Any) -> Any:
    """Return the entry: no load is joined with another here."""
    return array[index]


def in_short_vectors() -> None:
    """Do nothing: there are no vector registers here."""


def subtract_pair(pairs: Any, row: Any, factor: Any, first: Any, second: Any) -> None:
    """pairs[row] -= factor * (first, second), for a matrix of two columns."""
    pairs[row, 0] -= factor * first
    pairs[row, 1] -= factor * second


def find_address(function: Any) -> Any:
    """Return the function itself, which is called in place of an address."""
    return function


def _call(function: Callable[..., Any], arguments: Any) -> Any:
    return function(*arguments)


call_gradient = call_value = call_flow = _call


def make_call(kind: Any) -> Any:
    """Make the call of a function, by the function itself."""
    return _call


def array_at(address: int, shape: tuple[int, ...], number: Any) -> Any:
    """The C-contiguous array of this shape and class of numbers at an address."""
    size = int(np.prod(shape)) * np.dtype(number).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), number).reshape(shape)


def byte_at(address: int, index: int) -> int:
    """The byte `index` bytes behind an address in memory; nothing is tested."""
    return ctypes.c_uint8.from_address(address + index).value


def scratch(size: int, number: Any) -> Any:
    """A vector of `size` numbers of a class."""
    return np.empty(size, number)
