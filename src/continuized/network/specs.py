"""Graphs by name: `path:100`, `grid:30x30`, ..."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from continuized.problems.base import Array


class Made(NamedTuple):
    """Nodes, edges and, where the graph has a natural drawing, positions."""

    nodes: int
    edges: Array
    positions: Array | None = None


def parse(spec: str) -> Made:
    """The graph that a spec names."""
    kind, _, rest = spec.partition(":")
    return KINDS[kind](rest)


def path(size: str) -> Made:
    """A line of nodes."""
    n = int(size)
    i = np.arange(n)
    return Made(n, np.column_stack([i[:-1], i[1:]]), np.column_stack([i, 0 * i]).astype(float))


def cycle(size: str) -> Made:
    """A ring."""
    n = int(size)
    i = np.arange(n)
    turn = 2.0 * np.pi * i / n
    return Made(n, np.column_stack([i, (i + 1) % n]), np.column_stack([np.cos(turn), np.sin(turn)]))


def grid(size: str) -> Made:
    """Rows x columns, each node joined to those beside it."""
    rows, columns = (int(part) for part in size.split("x"))
    at = np.arange(rows * columns).reshape(rows, columns)
    across = np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()])
    down = np.column_stack([at[:-1].ravel(), at[1:].ravel()])
    y, x = np.divmod(at.ravel(), columns)
    return Made(rows * columns, np.vstack([across, down]), np.column_stack([x, -y]).astype(float))


def complete(size: str) -> Made:
    """Every pair."""
    n = int(size)
    i, j = np.triu_indices(n, 1)
    return Made(n, np.column_stack([i, j]))


def star(size: str) -> Made:
    """Node 0 joined to all others."""
    n = int(size)
    return Made(n, np.column_stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)]))


KINDS = {"path": path, "cycle": cycle, "grid": grid, "complete": complete, "star": star}
