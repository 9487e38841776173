"""Fixtures of the tests of checkpoints, and coverage without Numba's compiler.

The compiler is Python of another library, where no line is counted, but a trace function is called
at each of its lines all the same; compiling, a large part of the time of all tests, would take half
as long again.  Of this package, only what says how to compile is lost to the count: the inside of
the intrinsics in `jit`, and of the choice of a kind in `engine_kinds`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a run keeps its state."""
    return tmp_path / "run.npz"


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that lets a coming block fail; see `interruptions`."""
    from tests.helpers.interrupted import interruptions

    return interruptions(monkeypatch)


def untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with the trace function of this thread set aside while it runs."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        trace = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(trace)

    return called


Dispatcher.compile = untraced(Dispatcher.compile)
