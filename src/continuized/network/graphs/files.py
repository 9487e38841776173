"""Edges from files: a line `i j [rate]` to an edge; also .csv and .json."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.validation import short_repr

FORM = "a line must be `i j` or `i j rate`"


class Edges(NamedTuple):
    """Edges by number, their rates where given, and the names of nodes not numbered 0, 1, ..."""

    nodes: int
    edges: Array
    rates: Array | None
    labels: tuple[Any, ...] | None


def read_edges(path: Path) -> Edges:
    """Read the edges in a file.

    - Text: a line to an edge, `i j` or `i j rate`, separated by spaces or tabs; what stands
      behind a # is a comment, and so are empty lines.
    - .csv: the same with commas; a first line whose rate is no number, or `source,target`, is a
      heading.
    - .json: a list of [i, j] or [i, j, rate], or an object that has it under "edges".

    Nodes are integers or names; either all edges have a rate, or none.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text file of edges") from None
    kind = path.suffix.lower()
    if kind == ".json":
        return number_nodes(_parse_json(path, text), str(path))
    rows: Iterable[tuple[int, list[str]]]
    if kind == ".csv":
        rows = ((k, row) for k, row in enumerate(csv.reader(io.StringIO(text)), 1))
        rows = ((k, [cell.strip() for cell in row]) for k, row in rows if any(row))
        rows = (row for row in rows if not (row[0] == 1 and _is_heading(row[1])))
    else:
        lines = (line.partition("#")[0].split() for line in text.splitlines())
        rows = ((k, row) for k, row in enumerate(lines, 1) if row)
    return number_nodes([_check_edge(path, k, row) for k, row in rows], str(path))


def _is_heading(row: Sequence[str]) -> bool:
    if len(row) == 3:
        return math.isnan(_read_rate(row[2])) and row[2].lower() != "nan"
    return [cell.lower() for cell in row] in (["source", "target"], ["i", "j"], ["from", "to"])


def _check_edge(path: Path, line: int, row: Sequence[str]) -> tuple[Any, Any, float | None]:
    if len(row) not in (2, 3):
        raise ValueError(f"{path}, line {line}: {FORM}, got {short_repr(' '.join(row))}")
    rate = _read_rate(row[2]) if len(row) == 3 else None
    if rate is not None and not (math.isfinite(rate) and rate > 0.0):
        raise check.refusal(ValueError, f"{path}, line {line}: a rate", "a number > 0", row[2])
    return row[0], row[1], rate


def _read_rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _parse_json(path: Path, text: str) -> list[tuple[Any, Any, float | None]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    found = found.get("edges") if isinstance(found, dict) else found
    if not isinstance(found, list):
        raise ValueError(f'{path} must hold a list of [i, j] or [i, j, rate], or {{"edges": it}}')
    edges = []
    for k, row in enumerate(found, 1):
        if not (isinstance(row, list) and all(isinstance(end, int | str) for end in row[:2])):
            what = "[i, j] or [i, j, rate]"
            raise check.refusal(ValueError, f"{path}, edge {k}", what, row)
        edges.append(_check_edge(path, k, [str(cell) for cell in row]))
    return edges


def number_nodes(edges: Sequence[tuple[Any, Any, float | None]], where: str) -> Edges:
    """Number the nodes of edges, whatever their names.

    Integers that leave no gap from 0 on stay as they are; other integers are numbered in their
    order, and names in that of their appearance.
    """
    with_rate = sum(rate is not None for *_, rate in edges)
    if with_rate not in (0, len(edges)):
        raise ValueError(
            f"{where}: {with_rate} of {len(edges)} edges have a rate; give all or none"
        )
    ends = [end for i, j, _ in edges for end in (i, j)]
    names: list[Any]
    if all(str(end).isascii() and str(end).isdigit() for end in ends):
        ends = [int(end) for end in ends]
        names = sorted(set(ends))
    else:
        names = list(dict.fromkeys(ends))
    number = {name: k for k, name in enumerate(names)}
    pairs = np.array([number[end] for end in ends], dtype=np.int64).reshape(-1, 2)
    plain = names == list(range(len(names)))
    rates = np.array([rate for *_, rate in edges], dtype=np.float64) if with_rate else None
    return Edges(len(names), pairs, rates, None if plain else tuple(names))
