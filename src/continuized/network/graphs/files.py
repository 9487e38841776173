"""Edges as users have them: in files, in graphs of networkx, and as pairs of nodes."""

from __future__ import annotations

import ast
import csv
import io
import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array
from continuized.support import validation as check
from continuized.support.validation import short_repr

FORM = "a line must be `i j`, `i j rate` or `i j {'weight': rate}`"
# What networkx reads, by the endings of names.
FOREIGN = {".graphml": "graphml", ".gml": "gml"}
# What networkx writes, and would be taken for lines of edges.
NOT_READ = (".gexf", ".net", ".pajek", ".g6", ".graph6", ".s6", ".sparse6", ".dot")
NamedEdge = tuple[str, str, float | None]


class Edges(NamedTuple):
    """Edges by number; where known, positions to draw, rates, and names of nodes."""

    nodes: int
    edges: Array
    positions: Array | None = None
    rates: Array | None = None
    labels: tuple[Any, ...] | None = None

    def label_of(self, node: Any) -> Any:
        """Return the name that the user has for a node."""
        return int(node) if self.labels is None else self.labels[int(node)]


def read_edges(path: Path) -> Edges:
    """Read the edges in a file, of the kind that the ending of its name tells.

    - .csv: a line to an edge, `i,j` or `i,j,rate`; a first line whose rate is no number, or
      `source,target`, is a heading.
    - .json: a list of [i, j] or [i, j, rate], or an object that has it under "edges"; or what
      `networkx.node_link_data` makes, edges {"source": i, "target": j, "weight": rate} under
      "edges" or "links".
    - .adjlist: a line to a node, `i j k ...`, its name and its neighbours'.  An edge may stand at
      one of its ends, as networkx writes it, or at both.
    - .graphml, .gml: as networkx reads them, which must be installed (the extra `network`); the
      attribute "weight" of an edge is its rate.
    - Any other: text, a line to an edge, `i j`, `i j rate` or, as networkx writes it,
      `i j {'weight': rate}`, separated by spaces or tabs.

    In text, what stands behind a # is a comment, and so are empty lines.  Nodes are integers or
    names; either all edges have a rate, or none.  Integers that leave no gap from 0 on stay as they
    are; other integers are numbered in their order, and names in that of their appearance.
    """
    kind = path.suffix.lower()
    edges: list[Any]
    if kind in NOT_READ:
        raise ValueError(f"{path}: {kind} files are not read; write it as .graphml, or as edges")
    if kind in FOREIGN:
        edges, names = _read_foreign(path, FOREIGN[kind])
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError(f"{path} is no text file of edges") from None
        edges, names = _parse(path, text, kind)
    if all(name.isascii() and name.isdigit() for name in names):
        edges = [(int(i), int(j), rate) for i, j, rate in edges]
        names = sorted(set(map(int, names)))
    return _number(edges, names, f"{path}: ")


def _parse(path: Path, text: str, kind: str) -> tuple[list[NamedEdge], list[Any]]:
    """Find the edges in a text, and the names of all nodes in order."""
    alone: list[str] = []
    if kind == ".json":
        rows = _parse_json(path, text)
    elif kind == ".csv":
        listed = enumerate(csv.reader(io.StringIO(text)), 1)
        rows = [(k, [cell.strip() for cell in row]) for k, row in listed if any(row)]
        rows = [(k, row) for k, row in rows if not (k == 1 and _is_heading(row))]
    elif kind == ".adjlist":
        lines = [line.partition("#")[0].split() for line in text.splitlines()]
        rows, alone = _find_pairs(lines), [line[0] for line in lines if line]
    else:
        found = ((k, _split_line(path, k, line)) for k, line in enumerate(text.splitlines(), 1))
        rows = [(k, row) for k, row in found if row]
    edges = [_check_edge(path, k, row) for k, row in rows]
    ends = (end for i, j, _ in edges for end in (i, j))
    return edges, list(dict.fromkeys(itertools.chain(ends, alone)))


def _find_pairs(lines: Sequence[Sequence[str]]) -> list[tuple[int, list[str]]]:
    """List the edges of an adjacency list, those that stand at both ends once."""
    rows: list[tuple[int, list[str]]] = []
    seen: set[tuple[str, str]] = set()
    for k, (node, *neighbours) in ((k, line) for k, line in enumerate(lines, 1) if line):
        for other in neighbours:
            if (other, node) not in seen:
                rows.append((k, [node, other]))
        seen.update((node, other) for other in neighbours if other != node)
    return rows


def _split_line(path: Path, k: int, line: str) -> list[str]:
    """Split a line of text; of data in braces, the weight is the third word."""
    words, brace, data = line.partition("{")
    if not brace or "#" in words:
        return line.partition("#")[0].split()
    try:
        found = ast.literal_eval(f"{{{data.strip()}")
        if not isinstance(found, dict):
            raise TypeError
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"{path}, line {k}: {FORM}, got {short_repr(line)}") from None
    return [*words.split(), *([str(found["weight"])] if "weight" in found else [])]


def _read_foreign(path: Path, kind: str) -> tuple[list[Any], list[Any]]:
    """Read a file as networkx does."""
    try:
        import networkx
    except ImportError as error:
        raise ImportError(
            f"{path}: {path.suffix} files need networkx, which is not installed: "
            'pip install "continuized[network]"',
            name="networkx",
        ) from error
    with open(path, "rb"):  # what cannot be opened is said as of any other file
        pass
    try:
        graph = networkx.read_graphml(path) if kind == "graphml" else _read_gml(networkx, path)
    except Exception as error:  # of the parser, of many kinds
        why = short_repr(" ".join(str(error).split()) or type(error).__name__)
        raise ValueError(f"{path} cannot be read as {path.suffix[1:]}: {why}") from error
    if graph.is_directed() or graph.is_multigraph():
        raise ValueError(f"{path}: its edges must have no direction, and no two the same ends")
    edges = [
        (str(i), str(j), _check_weight(path, data.get("weight")))
        for i, j, data in graph.edges(data=True)
    ]
    return edges, [str(name) for name in graph.nodes]


def _read_gml(networkx: Any, path: Path) -> Any:
    try:
        return networkx.read_gml(path)
    except networkx.NetworkXError as error:
        if "label" not in str(error):
            raise
        return networkx.read_gml(path, label="id")  # nodes without names


def _check_weight(path: Path, weight: Any) -> float | None:
    return None if weight is None else check.real(weight, f"{path}: a weight", above=0.0)


def _is_heading(row: Sequence[str]) -> bool:
    if len(row) == 3:
        return math.isnan(_read_rate(row[2])) and row[2].lower() != "nan"
    return [cell.lower() for cell in row] in (["source", "target"], ["i", "j"], ["from", "to"])


def _check_edge(path: Path, line: int, row: Sequence[str]) -> tuple[str, str, float | None]:
    if len(row) not in (2, 3):
        raise ValueError(f"{path}, line {line}: {FORM}, got {short_repr(' '.join(row))}")
    rate = _read_rate(row[2]) if len(row) == 3 else None
    if rate is not None and not (math.isfinite(rate) and rate > 0.0):
        is_word = math.isnan(rate) and row[2].casefold() != "nan"
        what = f"a number > 0{' (and names are without spaces)' if is_word else ''}"
        raise check.refusal(ValueError, f"{path}, line {line}: a rate", what, row[2])
    return row[0], row[1], rate


def _read_rate(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _parse_json(path: Path, text: str) -> list[tuple[int, list[str]]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if isinstance(found, dict):
        found = _unlink(found)
    if not isinstance(found, list):
        raise ValueError(f'{path} must hold a list of [i, j] or [i, j, rate], or {{"edges": it}}')
    for k, row in enumerate(found, 1):
        if not (isinstance(row, list) and all(isinstance(end, int | str) for end in row[:2])):
            what = "[i, j] or [i, j, rate]"
            raise check.refusal(ValueError, f"{path}, edge {k}", what, row)
    return [(k, [str(cell) for cell in row]) for k, row in enumerate(found, 1)]


def _unlink(found: dict[str, Any]) -> Any:
    """Take the edges out of an object, as lists."""
    edges = found.get("edges", found.get("links"))
    if not isinstance(edges, list) or not all(isinstance(edge, dict) for edge in edges):
        return edges
    keys = ("source", "target", "weight")
    return [[edge.get(key) for key in keys if key != "weight" or key in edge] for edge in edges]


def read_networkx(graph: Any) -> Edges:
    """Read the edges of a networkx graph, in its own order."""
    if graph.is_directed() or graph.is_multigraph():
        raise TypeError(
            f"a graph must be a plain networkx.Graph, got {type(graph).__name__}; "
            "convert it with networkx.Graph(graph)"
        )
    edges = [(i, j, data.get("weight")) for i, j, data in graph.edges(data=True)]
    return _number(edges, list(graph.nodes), "", 'the attribute "weight"')


def _number(edges: Sequence[Any], names: list[Any], where: str, rate: str = "a rate") -> Edges:
    """Number nodes in the order of their names; either all edges have a rate, or none."""
    rates = [own for *_, own in edges if own is not None]
    if len(rates) not in (0, len(edges)):
        raise ValueError(f"{where}{len(rates)} of {len(edges)} edges have {rate}; give all or none")
    number = {name: k for k, name in enumerate(names)}
    pairs = np.array([(number[i], number[j]) for i, j, _ in edges], dtype=np.int64).reshape(-1, 2)
    return Edges(
        len(names),
        pairs,
        rates=check.array(rates, rate, dtype=np.float64) if rates else None,
        labels=None if names == list(range(len(names))) else tuple(names),
    )


def read_pairs(graph: Any) -> Edges:
    """Read pairs of nodes, an array or a sequence of them."""
    what = "a spec, a file, a networkx graph or pairs (i, j) of nodes"
    listed = graph if isinstance(graph, np.ndarray) else check.sequence(graph, "a graph", what)
    pairs = check.array(listed, "a graph", noun=what)
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise check.refusal(TypeError, "a graph", what, graph)
    # Among integers NumPy takes True for 1.
    given = itertools.chain.from_iterable(listed) if isinstance(listed, list) else ()
    if any(isinstance(node, bool | np.bool_) for node in given):
        raise check.refusal(TypeError, "a graph", what, graph, "True and False are no nodes")
    if pairs.dtype.kind == "f" and not np.array_equal(pairs, np.floor(pairs)):
        raise ValueError("nodes must be integers >= 0, but some are fractions, NaN or infinite")
    if pairs.min(initial=0) < 0 or pairs.max(initial=0) >= 2**31:
        raise ValueError("nodes must be numbered 0, 1, ..., at most 2^31 - 1")
    return Edges(int(pairs.max(initial=-1)) + 1, pairs.astype(np.int64))
