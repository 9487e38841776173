"""What is kept of a run: its values, and its states where the path is wanted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from continuized.problems.base import Array, Problem
from continuized.solver.result import Path, Trace
from continuized.support.checkpoints.checkpointer import Rows


@dataclass
class Recorder:
    """Collects one row per event, block by block."""

    problem: Problem
    shape: tuple[int, ...]
    values: bool
    path: bool
    k: list[Array] = field(default_factory=list)
    t: list[Array] = field(default_factory=list)
    dt: list[Array] = field(default_factory=list)
    fun: list[Array] = field(default_factory=list)
    x: list[Array] = field(default_factory=list)
    z: list[Array] = field(default_factory=list)
    nfev: int = 0

    @property
    def on(self) -> bool:
        return self.values or self.path

    def add(self, k0: int, t: Array, dt: Array, x: Array, z: Array) -> int:
        """Events k0 + 1, ... at times t, with the states after them as rows of x and z.

        Returns how many were added: all, or those before the first f that is not finite.
        """
        points = x.reshape(len(t), *self.shape)
        fun = self.problem.values(points)
        self.nfev += len(t)
        finite = np.isfinite(fun)
        n = len(t) if finite.all() else int(np.argmin(finite))
        if n:
            self._append(np.arange(k0 + 1, k0 + 1 + n), t[:n], dt[:n], fun[:n], points[:n], z[:n])
        return n

    def add_end(self, k: int, t: float, x: Array) -> bool:
        """The start or the end of a run, whatever f is there; says whether it is finite."""
        point = x.reshape(1, *self.shape)
        fun = self.problem.values(point)
        self.nfev += 1
        self._append(np.array([k]), np.array([t]), np.zeros(1), fun, point, point)
        return bool(np.isfinite(fun[0]))

    def drop_end(self) -> None:
        """Undo `add_end`, where no path is kept."""
        for rows in (self.k, self.t, self.dt, self.fun):
            rows.pop()

    def _append(self, k: Array, t: Array, dt: Array, fun: Array, x: Array, z: Array) -> None:
        self.k.append(k)
        self.t.append(t)
        self.dt.append(dt)
        self.fun.append(fun)
        if self.path:
            self.x.append(x.copy())
            self.z.append(z.reshape(x.shape).copy())

    def _columns(self) -> dict[str, list[Array]]:
        columns = {"k": self.k, "t": self.t, "dt": self.dt, "fun": self.fun}
        return columns | ({"x": self.x, "z": self.z} if self.path else {})

    def state(self) -> dict[str, Rows]:
        """The rows so far."""
        return {f"row_{name}": Rows(rows, len(rows)) for name, rows in self._columns().items()}

    def restore(self, arrays: dict[str, Array]) -> None:
        """Put the rows back."""
        for name, rows in self._columns().items():
            rows[:] = [arrays[f"row_{name}"]]

    def trace(self) -> Trace:
        return Trace(np.concatenate(self.k), np.concatenate(self.t), np.concatenate(self.fun))

    def recorded_path(self) -> Path | None:
        if not self.path:
            return None
        return Path(*(np.concatenate(rows) for rows in (self.t, self.dt, self.x, self.z)))
