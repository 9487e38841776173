"""Pictures of gossip: the error against messages, and the network with its values at a few times.

In the style of `plot`, and like there the same data give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.plot.figures import STYLES, Line, draw_curve, label_ends, mask, settings, to_bytes
from continuized.plot.graph_layout import place_nodes
from continuized.problems.base import Array

FORMATS = ("png", "svg")
METHOD_STYLES = {"plain": STYLES["gradient-descent"], "accelerated": STYLES["continuized"]}
LOWEST = 1e-16  # relative errors below are rounding
PANEL = 1.9  # inches
MOST_DRAWN = 20_000  # nodes
MOST_VECTORS = 2_000  # nodes of an SVG as shapes; beyond, as pixels inside it
COLORS = "RdBu_r"  # white in the middle, where nodes agree


@dataclass(frozen=True)
class ErrorCurve:
    """A run: the squared error relative to the start against messages; the bound on its mean,
    and of what it is one."""

    method: str
    messages: Array
    error: Array
    bound: Array
    bounded: str


@dataclass(frozen=True)
class View:
    """The values of all nodes at one time of a run, as multiples of the mean of the start."""

    method: str
    when: str
    values: Array


def render_errors(curves: Sequence[ErrorCurve], title: str) -> dict[str, bytes]:
    """The error of every run and its bound against messages.

    Both axes are logarithmic, so that a factor in messages is a distance.
    """
    from matplotlib.figure import Figure as Drawing

    with settings():
        drawing = Drawing(figsize=(5.9, 3.3))  # room for the longest label on the right
        axes = drawing.add_axes((0.11, 0.15, 0.57, 0.74))
        last = max(float(curve.messages[-1]) for curve in curves)
        first = min(float(curve.messages[curve.messages > 0].min(initial=last)) for curve in curves)
        lowest = min(float(curve.error[curve.error > 0.0].min(initial=1.0)) for curve in curves)
        axes.set_title(title, fontsize=9.0)
        axes.set(xscale="log", yscale="log", xlabel="messages (exchanges over edges)",
                 ylabel="squared error, relative to the start",
                 xlim=(max(first, 1.0), max(last, 2.0 * first, 2.0)),
                 ylim=(max(0.3 * lowest, LOWEST), 4.0))  # fmt: skip
        label_ends(axes, [line for curve in curves for line in _draw_curve(axes, curve)])
        return {kind: to_bytes(drawing, kind) for kind in FORMATS}


def _draw_curve(axes: Any, curve: ErrorCurve) -> list[Line]:
    style = METHOD_STYLES[curve.method]
    at = np.where(curve.messages > 0, curve.messages, np.nan).astype(float)
    error = mask(curve.error)
    draw_curve(axes, at, error, style, marks=0.12)
    axes.plot(at, curve.bound, color=style.color, linewidth=0.9, linestyle=(0.0, (4.0, 4.0)))
    return [
        Line(curve.method, at, error, style, bold=True),
        Line(f"bound, {curve.bounded}", at, curve.bound, style, bold=False),
    ]


def render_network(graph: Graph, views: Sequence[Sequence[View]], title: str) -> dict[str, bytes]:
    """The network once for each view, a row of them for each run; colours are the nodes' values,
    white the mean.

    Raises ValueError beyond 20,000 nodes.
    """
    from matplotlib.figure import Figure as Drawing

    if graph.nodes > MOST_DRAWN:
        raise ValueError(f"networks are drawn up to {MOST_DRAWN} nodes, not {graph.nodes}")
    rows, columns = len(views), max(len(row) for row in views)
    points = place_nodes(graph)
    with settings():
        size = (PANEL * columns + 0.9, (PANEL + 0.25) * rows + 0.4)
        drawing = Drawing(figsize=size, layout="constrained")
        drawing.suptitle(title, fontsize=10)
        panels = drawing.subplots(rows, columns, squeeze=False)
        shown: Any = None
        for row, line in zip(panels, views, strict=True):
            for axes in row:
                axes.set_axis_off()
            for axes, view in zip(row, line, strict=False):
                shown = _draw_nodes(axes, graph, points, view)
        bar = drawing.colorbar(shown, ax=panels, extend="both", shrink=0.8, aspect=25.0)
        bar.set_label("$x_i$ / mean")
        bar.outline.set_linewidth(0.6)
        return {kind: to_bytes(drawing, kind) for kind in FORMATS}


def _draw_nodes(axes: Any, graph: Graph, points: Array, view: View) -> Any:
    from matplotlib.collections import LineCollection

    pixels = graph.nodes > MOST_VECTORS
    lines = LineCollection(list(points[graph.edges]), colors="#999999", linewidths=0.35, zorder=1,
                           rasterized=pixels)  # fmt: skip
    axes.add_collection(lines)
    width = _width(graph, points)
    axes.set_title(f"{view.method}, {view.when}", fontsize=8.5)
    axes.set_aspect("equal")
    axes.margins(0.06)
    return axes.scatter(
        *points.T, c=view.values, cmap=COLORS, vmin=0.0, vmax=2.0, zorder=2,
        s=width**2, linewidths=min(0.3, 0.06 * width), edgecolors="#555555", rasterized=pixels,
    )  # fmt: skip


def _width(graph: Graph, points: Array) -> float:
    """Of a node, in points of 1/72 inch: a part of the edges' length and of a node's share."""
    ends = points[graph.edges]
    edge = float(np.median(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)))
    side = float(np.ptp(points, axis=0).max()) or 1.0
    share = min(edge / side, 1.0 / math.sqrt(graph.nodes))
    return min(72.0 * PANEL * 0.5 * share, 9.0)
