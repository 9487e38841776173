"""The commands, one module each, with a click command called `command`.

A command module imports click and nothing slow; what it needs more, it imports when run.
"""

from __future__ import annotations

import csv
import io
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from continuized.app.report import Table
from continuized.support import validation as check


class BadInput(click.ClickException):
    """What the user gave cannot be used.  One sentence, exit code 2."""

    exit_code = 2


class Interrupted(click.ClickException):
    """Ctrl-C came, and there is more to say than that.  One sentence, exit code 130."""

    exit_code = 130


@contextmanager
def refuse(*errors: type[Exception], before: str = "", after: str = "") -> Iterator[None]:
    """Turn these errors of the library into BadInput, with words before and after theirs.

    Where an error has advice for those who call Python, only its fact is told.
    """
    try:
        yield
    except errors as error:
        raise BadInput(f"{before}{getattr(error, 'fact', error)}{after}") from error


def within(**bounds: float | bool) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Make the callback of an option: BadInput where `validation.real` refuses its number.

    An option without a default may be left out.
    """

    def callback(context: click.Context, option: click.Parameter, value: Any) -> Any:
        if value is None:
            return None
        with refuse(ValueError):
            return check.real(value, option.opts[0], **bounds)  # type: ignore[arg-type]

    return callback


def combine_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Options that several commands share, as one decorator; --help keeps their order."""

    def with_options(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return with_options


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON, which knows neither NaN nor infinity: null stands for them.

    >>> to_json({"rate": math.nan, "errors": [1.0, math.inf]})
    '{"rate": null, "errors": [1.0, null]}'
    """
    return json.dumps(_finite(value), indent=indent, allow_nan=False)


def to_csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV, its floats to the last bit.

    >>> to_csv(("k", "t"), [(1, 0.1)])
    'k,t\\n1,0.1\\n'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def show(table: Table, gap: bool = True) -> None:
    """Print a table of the report on standard output, and an empty line where there is a gap."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as Printed
    from rich.text import Text

    style = box.Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
    printed = Printed(
        title=Text(table.caption),
        title_justify="left",
        box=style,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for i, name in enumerate(table.header):
        widest = max((len(row[i]) for row in table.rows), default=0)
        heading = textwrap.fill(name, max(widest, *map(len, name.split()), 1))
        printed.add_column(Text(heading), justify="right" if i in table.numeric else "left")
    for row in table.rows:
        printed.add_row(*(Text(cell) for cell in row))
    console = Console()
    console.print(printed)
    if gap:
        console.print()  # print's own `end` does not apply to tables
