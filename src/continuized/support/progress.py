"""What the user is told on the way: a progress bar with the step, f and the rate, and warnings."""

from __future__ import annotations

import contextlib
import html
import importlib
import random
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Protocol

from continuized.support import validation as check

PLAIN_EVERY = 10.0  # seconds between two lines where there is no terminal
NOTEBOOK_EVERY = 0.2  # and between two states of a bar in a notebook
PACKAGE = str(Path(__file__).parents[1])
_TO_BE_TOLD: ContextVar[tuple[str, ...] | list[str]] = ContextVar("_TO_BE_TOLD", default=())
IMPORTING = "<frozen importlib._bootstrap"
# A `with` of ours is left through a frame of contextlib, and modules are run by Python's importing.
OURS = (PACKAGE, contextlib.__file__, importlib.__file__, IMPORTING)


class Bar(Protocol):
    """Told how far the work is, and a few words on its state."""

    def __call__(self, done: int, words: str = "") -> None: ...


def silent(done: int, words: str = "") -> None:
    """The bar that shows nothing."""


@contextmanager
def bar(title: str, total: int | None, show: bool = True, unit: str = "step") -> Iterator[Bar]:
    """Show progress on standard error while the block runs.

    A terminal or a notebook gets a live bar; anything else one line now and then.
    """
    if not check.flag(show, "progress"):
        yield silent
        return
    console = _console()
    if console.is_jupyter:
        kind = _in_notebook(title, total, unit)
    elif console.is_terminal:
        kind = _live(console, title, total, unit)
    else:
        kind = _plain(title, total, unit)
    with kind as shown:
        yield shown


def _console() -> Any:
    """Standard error as rich sees it.  Importing rich draws from Python's `random`: its state is
    the user's, and is put back."""
    state = random.getstate()
    try:
        import rich.progress  # noqa: F401  (it imports all that is used below)
        from rich.console import Console
    finally:
        random.setstate(state)
    return Console(stderr=True)


def _rate(done: int, started: float, unit: str) -> str:
    rate = done / max(time.perf_counter() - started, 1e-9)
    return f"{rate:,.0f} {unit}s/s" if rate >= 1.0 else ""


@contextmanager
def _live(console: object, title: str, total: int | None, unit: str) -> Iterator[Bar]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=40 if total else 10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}"),
        TimeElapsedColumn(),
    )
    started = time.perf_counter()
    with Progress(*columns, console=console) as progress:  # type: ignore[arg-type]
        task = progress.add_task(title, total=total, words="")

        def update(done: int, words: str = "") -> None:
            text = f"{words}  {_rate(done, started, unit)}".strip()
            progress.update(task, completed=done, words=text)

        yield update


class Shown:
    """The state of a bar in a notebook, as text and as HTML; no widgets are needed."""

    def __init__(self, title: str, total: int | None) -> None:
        self.title, self.total, self.done, self.words = title, total, 0, ""

    def __repr__(self) -> str:
        of = "" if self.total is None else f"/{self.total}"
        return f"{self.title} {self.done}{of}  {self.words}".rstrip()

    def _repr_html_(self) -> str:
        known = (
            "" if not self.total else f' value="{min(self.done, self.total)}" max="{self.total}"'
        )
        return f"<progress{known}></progress> {html.escape(repr(self))}"


@contextmanager
def _in_notebook(title: str, total: int | None, unit: str) -> Iterator[Bar]:
    from IPython.display import display

    state = Shown(title, total)
    handle: Any = display(state, display_id=True)  # type: ignore[no-untyped-call]
    started = last = time.perf_counter()

    def update(done: int, words: str = "") -> None:
        nonlocal last
        state.done, state.words = done, f"{words}  {_rate(done, started, unit)}".strip()
        if time.perf_counter() - last >= NOTEBOOK_EVERY:
            last = time.perf_counter()
            handle.update(state)

    yield update
    handle.update(state)


@contextmanager
def _plain(title: str, total: int | None, unit: str) -> Iterator[Bar]:
    started = last = time.perf_counter()
    of = "" if total is None else f"/{total}"
    line = ""

    def update(done: int, words: str = "") -> None:
        nonlocal last, line
        line = f"{title} {done}{of}  {words}  {_rate(done, started, unit)}"
        if time.perf_counter() - last >= PLAIN_EVERY:
            last = time.perf_counter()
            print(line, file=sys.stderr, flush=True)

    yield update
    if line:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def announce_compilation(show: bool, seconds: str) -> Iterator[None]:
    """Let a line on standard error say so where Numba compiles in the block, for so many seconds.

    They are what `benchmarks.studies.first_calls` measures, less what is read from the disk.
    """
    line = f"compiling, for about {seconds} s; from then on it is read from the disk"
    token = _TO_BE_TOLD.set([line] if check.flag(show, "progress") else ())
    try:
        yield
    finally:
        _TO_BE_TOLD.reset(token)


def tell_compilation() -> None:
    """Say that Numba compiles, where that was announced: once."""
    lines = _TO_BE_TOLD.get()
    if isinstance(lines, list) and lines:  # one list for all threads of a run
        print(lines.pop(), file=sys.stderr, flush=True)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the first frame outside the package, however deep within it this is called."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        is_counted = not frame.f_code.co_filename.startswith(IMPORTING)  # as Python counts
        level, frame = level + is_counted, frame.f_back
    warnings.warn(message, category, stacklevel=level)
