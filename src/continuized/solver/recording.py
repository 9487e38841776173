"""What is kept of a run: rows of named columns, and the trace and the path made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from continuized.problems.base import Array
from continuized.solver.array_api import namespace
from continuized.support.checkpoints.state import Checkpointed, GrowingRows

if TYPE_CHECKING:
    from continuized.solver.result import Path, Trace


class Recorder(Checkpointed):
    """Rows of a run, an entry to each of its columns, such as ("k", "t", "fun").

    most: where there are more rows than this, every second one is kept, the first among them.

    >>> import numpy as np
    >>> recorder = Recorder(("k", "fun"))
    >>> recorder.add((0, 8.0))
    >>> recorder.add((np.array([1, 2]), np.array([4.0, 2.0])))
    >>> recorder["k"].tolist(), recorder["fun"].tolist()
    ([0, 1, 2], [8.0, 4.0, 2.0])
    """

    changing = ("columns",)

    def __init__(self, columns: Sequence[str], most: int | None = None) -> None:
        self.columns = {name: GrowingRows() for name in columns}
        self.most, self.length = math.inf if most is None else most, 0

    def add(self, rows: Sequence[Any]) -> None:
        """A row, or several: for each column a number, an array of rows, or a list of them."""
        for column, part in zip(self.columns.values(), rows, strict=True):
            if type(part) is list:
                column.parts.extend(part)
            else:
                column.parts.append(part)
        first = rows[0]  # always of numbers, such as k or t
        self.length += len(first) if hasattr(first, "__len__") else 1
        while self.length > self.most:
            for column in self.columns.values():
                column.replace(column.join()[::2])
            self.length = (self.length + 1) // 2

    def after_restoring(self) -> None:
        self.length = len(next(iter(self.columns.values())).join())

    def __getitem__(self, name: str) -> Any:
        """Return a column as one array."""
        column = self.columns[name]
        first = column.parts[0]
        xp = None if type(first) in (int, float) else namespace(first)
        return column.join() if xp is None else xp.stack(column.parts)

    def trace(self) -> Trace:
        """What `minimize` shows of a run."""
        from continuized.solver.result import Trace

        k, t, fun = (self[name] for name in ("k", "t", "fun"))
        passes: Array | None = self["passes"] if "passes" in self.columns else None
        return Trace(k, t, fun, passes)

    def path(self) -> Path | None:
        """The states at all events, where they were recorded."""
        if "x" not in self.columns:
            return None
        from continuized.solver.result import Path

        return Path(*(self[name] for name in Path._fields))
