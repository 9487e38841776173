"""Graphs as the commands about networks take them: --graph, and --nodes beside it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from continuized.app.commands import BadInput, together

if TYPE_CHECKING:
    from continuized.network import Graph

# Families that a number of nodes names, and what else gives their size.
BY_NODES = {"path": "N", "cycle": "N", "grid": "RxC", "complete": "N", "star": "N"}
MOST_NODES = 2**31 - 1  # that can be numbered


def graph_options(default: str) -> Callable[[Any], Any]:
    """--graph and --nodes, as the parameters `spec` and `nodes` of a command."""
    families = ", ".join(BY_NODES)
    return together(
        click.option("--graph", "spec", help="A spec such as path:100, regular:3x500 or "
                     f"geometric:200:0.15, or a file of edges.  [default: {default}]"),
        click.option("--nodes", type=click.IntRange(min=2, max=MOST_NODES),
                     help=f"How many, for a --graph named without: {families}; alone, of a grid."),
    )  # fmt: skip


def graph_of(spec: str | None, nodes: int | None, default: str) -> Graph:
    """The graph that the two options name; BadInput where they name none."""
    from continuized.network import Graph

    name = spec if spec is not None else default if nodes is None else "grid"
    if name in BY_NODES:
        if nodes is None:
            raise BadInput(
                f"--graph {name} needs a size: give --nodes N, or --graph {name}:{BY_NODES[name]}"
            )
        name = _grid(nodes) if name == "grid" else f"{name}:{nodes}"
    try:
        graph = Graph.of(name)
    except (ValueError, TypeError) as error:
        raise BadInput(str(error)) from error
    except (MemoryError, OverflowError) as error:
        raise BadInput(f"--graph {name} does not fit into memory; take a smaller one") from error
    if nodes is not None and graph.nodes != nodes:
        raise BadInput(f"--graph {name} has {graph.nodes} nodes: leave out --nodes {nodes}")
    return graph


def _grid(nodes: int) -> str:
    """The grid nearest to a square, where its sides differ by a factor of at most 2."""
    rows, columns = _sides(nodes)
    if not _is_grid(nodes):
        fewer = next(n for n in range(nodes, 1, -1) if _is_grid(n))
        more = next(n for n in itertools.count(nodes) if _is_grid(n))
        near = " or ".join("{} ({}x{})".format(n, *_sides(n)) for n in (fewer, more))
        raise BadInput(
            f"--nodes {nodes} makes no grid near a square: give {near}, or, if it is to be so "
            f"long, --graph grid:{rows}x{columns}; --graph cycle takes any number"
        )
    return f"grid:{rows}x{columns}"


def _sides(nodes: int) -> tuple[int, int]:
    """Rows and columns, as near to a square as the number allows."""
    rows = next(r for r in range(math.isqrt(nodes), 0, -1) if nodes % r == 0)
    return rows, nodes // rows


def _is_grid(nodes: int) -> bool:
    rows, columns = _sides(nodes)
    return columns <= 2 * rows
