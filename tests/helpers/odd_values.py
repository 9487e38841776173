"""Values that nobody should give, and a few that somebody might, to try entry points with."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse


class Unprintable:
    """An object whose repr fails."""

    def __repr__(self) -> str:
        raise ValueError("no repr")


class Full:
    """An object with every attribute, none of which is what it should be."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return 3


def numbers() -> list[Any]:
    special = [0, 1, -1, 2, 3, 0.0, -0.0, 0.5, 1.5, -2.5, 7, 100, 1e-300, 1e300, -1e300, 5e-324]
    special += [math.inf, -math.inf, math.nan, 10**400, -(10**400), 2**63, 2**64, 10**19]
    special += [True, False, 1j, complex(math.nan, 1.0), Fraction(1, 3), Decimal("0.1")]
    special += [np.float32(0.5), np.float64(2.0), np.int8(3), np.uint64(2**63), np.bool_(True)]
    return [*special, np.timedelta64(3, "s"), np.datetime64("2020-01-01"), np.complex64(1j)]


def texts() -> list[Any]:
    names = ["", "abc", "3", "nan", "path:3", "path:3\n", "path:0", "cycle:5", "grid:2x", "auto"]
    names += ["continuized", "sqrt", "a\0b", "\ud800", "x" * 5000, "dual", "\n"]
    return [*names, b"abc", bytearray(b"x")]


def containers() -> list[Any]:
    arrays = [np.zeros(0), np.zeros(3), np.ones((3, 3)), np.array(1.0), np.full(3, np.nan)]
    arrays += [np.full(3, np.inf), np.full(3, 1e200), np.array([1, -1, 1]), np.array(["a", "b"])]
    arrays += [np.array([None, 1.0], object), np.ones(3, complex), np.ones(3, np.float32)]
    arrays += [
        np.ma.masked_array([1.0, 2.0, 3.0], [0, 1, 0]),
        np.ones((2, 2, 2)),
        np.arange(5)[::2],
    ]
    arrays += [np.zeros(3, "m8[s]"), np.zeros(3, [("a", float)]), np.ones(3, bool)]
    lists = [[], [1.0], [1.0, 2.0], [1.0, 2.0, 3.0], [[1.0], [2.0, 3.0]], [[1, 2], [3, 4]], ["a"]]
    lists += [(), (1.0, 2.0, 3.0), [None], [[]], [math.nan], {}, {"a": 1}, set(), {1, 2}, range(3)]
    lists += [[10**400], [True, False], [(0, 1)], [(0, 1), (1, 2)], [(0, 10**8)], [(-1, 0)]]
    return [*arrays, *lists, sparse.csr_array(np.eye(3)), iter([1.0, 2.0]), slice(3), ...]


def functions() -> list[Any]:
    def nothing(*given: Any) -> None:
        return None

    def text(*given: Any) -> str:
        return "text"

    def not_a_number(*given: Any) -> float:
        return math.nan

    def too_large(*given: Any) -> int:
        return 10**400

    def array(*given: Any) -> Any:
        return np.ones(7)

    return [nothing, text, not_a_number, too_large, array, int, float, np.sin, print, type, object]


def odd_values() -> list[Callable[[], Any]]:
    """Each made anew when it is asked for: some may be used up."""
    makers: list[Callable[[], Any]] = [lambda: None, object, Unprintable, Full, NotImplementedError]
    for kind in (numbers, texts, containers, functions):
        makers += [lambda kind=kind, i=i: kind()[i] for i in range(len(kind()))]  # type: ignore[misc]
    makers += [lambda: np.random.default_rng(0), lambda: np.random.SeedSequence(3)]
    return makers
