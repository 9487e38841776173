"""Rows along a run, in named columns."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any, ClassVar

from continuized.support.display import LEFT, make_table, show

SHOWN = 3  # rows, at each end


class Table:
    """Columns of one length, each under its name; it goes over its rows, named tuples.

    So `pandas.DataFrame(table)` is a frame with these columns, `table[-1]` the last row, and
    `table.columns` the arrays by their names.

    >>> import numpy as np
    >>> class Squares(Table):
    ...     names = ("n", "square")
    >>> table = Squares(np.arange(3), np.arange(3) ** 2)
    >>> table, table[-1], [row.square for row in table]
    (Squares(3 rows: n, square), Row(n=2, square=4), [0, 1, 4])
    """

    names: ClassVar[tuple[str, ...]]

    def __init__(self, *columns: Any) -> None:
        for name, column in zip(self.names, columns, strict=True):
            setattr(self, name, column)

    @property
    def columns(self) -> dict[str, Any]:
        """The arrays by their names."""
        return {name: getattr(self, name) for name in self.names}

    def __len__(self) -> int:
        return len(getattr(self, self.names[0]))

    def __iter__(self) -> Iterator[Any]:
        columns = (column.tolist() for column in self.columns.values())
        return map(_make_kind(self.names)._make, zip(*columns, strict=True))

    def __getitem__(self, k: int) -> Any:
        return _make_kind(self.names)._make(column[k].item() for column in self.columns.values())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} rows: {', '.join(self.names)})"

    def _repr_html_(self) -> str:
        n = len(self)
        ends = list(range(n)) if n <= 2 * SHOWN else [*range(SHOWN), *range(n - SHOWN, n)]
        rows = [tuple(map(show, self[k])) for k in ends]
        if n > len(ends):
            rows.insert(SHOWN, ("...",) * len(self.names))
        lines = [_make_row("th", self.names), *(_make_row("td", row) for row in rows)]
        return make_table(f"{type(self).__name__}, {n} rows", lines)


@cache
def _make_kind(names: tuple[str, ...]) -> Any:
    """Make the class of the rows of a table."""
    return namedtuple("Row", names)


def _make_row(tag: str, texts: tuple[str, ...]) -> str:
    return f"<tr>{''.join(f'<{tag}{LEFT}>{escape(text)}</{tag}>' for text in texts)}</tr>"
