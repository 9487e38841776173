"""Regressions cut into parts, shards without processes, and questions that go wrong."""

from __future__ import annotations

import itertools
import os
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.network.sharded import pool
from continuized.network.sharded.shard import Shard
from continuized.network.workers import records


def cut(p: Any, *cuts: int) -> list[Any]:
    """Cut a regression into parts at these rows."""
    bounds = [0, *cuts, p.row_count]
    options: dict[str, Any] = {"l2": p.l2, "intercept": p.intercept}
    if isinstance(p, cz.problems.HuberRegression):
        options["delta"] = p.delta
    parts = []
    for first, last in itertools.pairwise(bounds):
        rows = slice(first, last)
        weights = None if p.weights is None else p.weights[rows]
        parts.append(type(p)(p.X[rows], p.y[rows], weights=weights, **options))
    return parts


class HereLink:
    """Stands for a worker: it answers in this process, of records that went through bytes."""

    def __init__(self) -> None:
        self._shard, self._answer = Shard(), b""

    def send(self, request: records.Record, dataset: Any = None) -> None:
        given = records.unpack(records.pack(*request))
        if "open" in given[0]:
            given[0]["open"]["threads"] = None  # those of this process stay as they are
        self._answer = records.pack(*self._shard.answer(given, dataset))

    def receive(self) -> records.Record:
        return records.unpack(self._answer)

    def end(self) -> None:
        pass


def without_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let shards be in this process: their sums are the same, and starting them takes no time."""
    monkeypatch.setattr(pool, "LocalLink", HereLink)


def pids(p: Any) -> list[int]:
    """The numbers of the processes of a sharded problem."""
    return [link.process.pid for link in p._pool._links if link is not None]


class Batches:
    """Stands for a Ray dataset: columns by name, some rows at a time."""

    def __init__(self, X: np.ndarray, y: Any) -> None:
        self.X, self.y = X, y

    def iter_batches(self, batch_format: str) -> Any:
        assert batch_format == "numpy"
        for a in range(0, len(self.X), 7):
            some = slice(a, a + 7)
            yield {"a": self.X[some, 0], "y": self.y[some], "more": self.X[some, 1:]}


# Questions


def exit_now(p: Any, index: Any) -> np.ndarray:
    os._exit(3)


def fail(p: Any, index: Any) -> np.ndarray:
    raise KeyError("what is not there")
