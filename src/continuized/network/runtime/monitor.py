"""What a run knows of its nodes: their last reports, who lives, the books."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from continuized.network.protocol.node import Counts
from continuized.network.result import Staleness, Trace, rounding_of_mean
from continuized.network.runtime.wire_format import Record

Array = NDArray[np.float64]
_COUNTS = {name: k for k, name in enumerate(Counts.__dataclass_fields__)}
_LARGEST = _COUNTS["age_largest"]  # of which the largest is taken, not the sum


class Board:
    """The nodes of a run as their last reports show them.

    `averaging`: nodes agree on the mean of (x + z) / 2, as in gossip; else on the mean of
    their answers.
    """

    def __init__(self, places: Sequence[Sequence[int]], dim: int, averaging: bool) -> None:
        nodes = sum(map(len, places))
        self.places = places
        self.averaging = averaging
        self.x, self.z, self.answer = (np.full((nodes, dim), np.nan) for _ in range(3))
        self.start = np.full((nodes, dim), np.nan)  # the share each living node began with
        self.of_dead = np.zeros((nodes, dim))
        self.living = np.zeros(nodes, dtype=bool)
        self.deaths: list[tuple[float, int, str]] = []
        self.joins: list[tuple[float, int]] = []
        self.rows: list[tuple[float, int, float]] = []
        self.t = 0.0  # the mean of the clocks of the places where nodes live
        self._times = np.zeros(len(places))
        self._since = np.zeros(len(places))  # t when the clock of a place started
        self.dropped = np.zeros(len(places), dtype=np.int64)
        self.idle = np.zeros(len(places), dtype=bool)
        self.final = np.zeros(len(places), dtype=bool)
        self.heard = np.full(len(places), time.monotonic())
        self._counts = np.zeros((nodes, len(_COUNTS)))
        self._past = np.zeros(len(_COUNTS))  # of lives that ended
        self._fresh: set[int] = set()
        self._books: list[dict[str, NDArray[Any]]] = []
        self.error = 1.0  # of the last row
        self._began: tuple[Array, float] | None = None

    def complete(self) -> bool:
        """Whether every node was heard of, or is dead."""
        dead = {node for _, node, _ in self.deaths}
        return all(self.living[node] or node in dead for nodes in self.places for node in nodes)

    def take(self, place: int, record: Record) -> list[tuple[int, str]]:
        """A report; returns the nodes that fell since the last, and why."""
        header, arrays = record
        self.heard[place] = time.monotonic()
        if "t" not in header:
            return []
        at = arrays["number"]
        for name in ("x", "z", "answer", "start", "of_dead"):
            getattr(self, name)[at] = arrays[name]
        if len(at):
            self._counts[at] = arrays["counts"]
        for node in at[~self.living[at]].tolist():
            self.living[node] = True
            if self._began is not None:
                self.joins.append((self.t, node))
        self._tell_time(place, header["t"])
        self.dropped[place] = header["dropped"]
        self.idle[place], self.final[place] = header["idle"], header["final"]
        if header["final"]:
            self._books.append(arrays)
        self._fresh.add(place)
        return [(int(node), why) for node, why in header["fell"]]

    def restart(self, place: int) -> None:
        """The process of a place starts again, and with it its clock."""
        self._since[place] = self.t
        self.heard[place] = time.monotonic()

    def _tell_time(self, place: int, t: float) -> None:
        self._times[place] = self._since[place] + t
        there = [k for k, nodes in enumerate(self.places) if self.living[list(nodes)].any()]
        if there:  # a death may take the quickest clock away; time does not go back for it
            self.t = max(self.t, float(self._times[there].mean()))

    def bury(self, node: int, why: str) -> None:
        """A node died; its last values stay on the board."""
        self.living[node] = False
        self.deaths.append((self.t, node, why))
        largest = max(self._past[_LARGEST], self._counts[node, _LARGEST])
        self._past += self._counts[node]
        self._past[_LARGEST] = largest
        self._counts[node] = 0.0

    def begin(self) -> None:
        """All nodes have told their start."""
        centre = self.centre()
        self._began = (centre, self._squares(centre))
        self.rows.append((0.0, 0, 1.0))

    def round(self, places: set[int]) -> bool:
        """Add a row to the trace if all these places have reported since the last."""
        if not places <= self._fresh:
            return False
        self._fresh.clear()
        self.row()
        return True

    def row(self) -> None:
        """Add a row to the trace."""
        assert self._began is not None
        if self.living.any():
            self.error = self._squares(self.centre()) / (self._began[1] or 1.0)
        self.rows.append((self.t, self.messages, self.error))

    @property
    def messages(self) -> int:
        """Exchanges that were paid, each counted once."""
        return int(self.total("exchanges"))

    @property
    def trace(self) -> Trace:
        t, messages, error = zip(*self.rows, strict=True)
        return Trace(np.array(t), np.array(messages), np.array(error))

    def total(self, name: str) -> float:
        """A count over all nodes, the dead included."""
        k = _COUNTS[name]
        if k == _LARGEST:
            return float(max(self._counts[:, k].max(), self._past[k]))
        return float(self._counts[:, k].sum() + self._past[k])

    def staleness(self) -> Staleness | None:
        """The ages of answers so far."""
        count = int(self.total("ages"))
        if count == 0:
            return None
        return Staleness(self.total("age_sum") / count, self.total("age_largest"), count)

    def centre(self) -> Array:
        """The value that the living nodes would agree on, from their last reports."""
        alive = self.living
        if not self.averaging:
            return np.asarray(self.answer[alive].mean(axis=0))
        share = (self.x[alive] + self.z[alive]).sum(axis=0) + self.in_flight()
        return np.asarray(share / (2.0 * max(1, int(alive.sum()))))

    def in_flight(self) -> Array:
        """Paid and not applied, between living nodes, in shares; known from the last reports."""
        applied: dict[tuple[int, int], int] = {}
        for arrays in self._books:
            for node, peer, seq in arrays["applied"].tolist():
                applied[node, peer] = seq
        flying = np.zeros(self.x.shape[1])
        for arrays in self._books:
            for (node, peer, seq), worth in zip(
                arrays["owed"].tolist(), arrays["worth"], strict=True
            ):
                if self.living[node] and self.living[peer] and applied.get((peer, node), -1) < seq:
                    flying += worth
        return flying

    def ledger_error(self) -> float:
        """How far the books are from closing.

        Living nodes' shares, less those they began with, less what they had from nodes now
        dead, and what is on its way between them, sum to zero; relative to the sizes of these.
        """
        alive = self.living
        shares = self.x[alive] + self.z[alive]
        parts = [shares, -self.start[alive], -self.of_dead[alive]]
        sizes = sum(float(np.abs(part).sum()) for part in parts)
        left = sum(part.sum(axis=0) for part in parts) + self.in_flight()
        return float(np.abs(left).sum() / sizes) if sizes > 0.0 else 0.0

    def drift(self) -> float:
        """How far the value to agree on has moved, in root mean square deviations of the start."""
        assert self._began is not None
        centre, squares = self._began
        deviation = np.sqrt(squares / len(self.x))
        moved = float(np.linalg.norm(self.centre() - centre))
        return moved / float(deviation) if deviation > 0.0 else moved

    def rounding(self) -> float:
        """What rounding may make of the error."""
        assert self._began is not None
        return rounding_of_mean(self._values(), self._began[1])

    def _values(self) -> Array:
        return np.asarray((self.x if self.averaging else self.answer)[self.living])

    def _squares(self, centre: Array) -> float:
        return float(((self._values() - centre) ** 2).sum())


def entries(records: list[NDArray[Any]]) -> NDArray[Any]:
    """All entries of a log, in the order they came."""
    from continuized.network.runtime.node_process import ENTRY

    return np.concatenate([np.zeros(0, ENTRY), *records])
