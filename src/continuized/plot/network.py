"""Pictures of networks: of gossip, and of decentralised optimisation.

Of gossip, the error against messages, and the network with its values at a few times; of
optimisation, the error against exchanges, and against time.  In the style of `plot.figures`, and
like there the same data give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.network import Decentralized, Graph, Outcome, Racer
from continuized.plot import figures as plot
from continuized.plot.figures import Line, Style, draw_lines, mask
from continuized.plot.graph_layout import place_nodes
from continuized.problems.base import Array

STYLES = {
    "plain": plot.STYLES["gradient-descent"],
    "accelerated": plot.STYLES["continuized"],
    "dual": Style("#111111", "o", 1.2),
    "plain-dual": Style("#8c8c8c", "v", 0.9),
    "dadao": Style("#1f78b4", "s", 1.0),
    "a2cid2": Style("#b3367a", "D", 0.9),
    "plain-sgd": Style("#d98cb3", "d", 0.9),
    "synchronous-dual": Style("#e08a1e", "^", 1.0),
    "all-reduce": Style("#2e8b57", "P", 0.9),
}
LOWEST = 1e-16  # relative errors below are rounding
PANEL = 1.9  # inches
MOST_DRAWN = 20_000  # nodes
MOST_VECTORS = 2_000  # nodes of an SVG as shapes; beyond, as pixels inside it
COLORS = "RdBu_r"  # white in the middle, where nodes agree


class View(NamedTuple):
    """The values of all nodes at one time of a run, as multiples of the mean of the start."""

    method: str
    when: str
    values: Array


def render_errors(
    runs: Sequence[Outcome], bounds: Sequence[tuple[str, Array]], title: str
) -> dict[str, bytes]:
    """The error of every run against messages, and the bound on its mean with what it bounds.

    Both axes are logarithmic, so that a factor in messages is a distance.
    """
    from matplotlib.figure import Figure as Drawing

    with plot.settings():
        drawing = Drawing(figsize=(5.9, 3.3))  # room for the longest label on the right
        axes = drawing.add_axes((0.11, 0.15, 0.57, 0.74))
        messages = np.concatenate([run.trace.messages for run in runs])
        errors = np.concatenate([run.trace.error for run in runs])
        last = float(messages.max())
        first = float(messages[messages > 0].min(initial=last))
        lowest = float(errors[errors > 0.0].min(initial=1.0))
        axes.set_title(title, fontsize=9.0)
        axes.set(xscale="log", yscale="log", xlabel="messages (exchanges over edges)",
                 ylabel="squared error, relative to the start",
                 xlim=(max(first, 1.0), max(last, 2.0 * first, 2.0)),
                 ylim=(max(0.3 * lowest, LOWEST), 4.0))  # fmt: skip
        lines = []
        for run, (bounded, limit) in zip(runs, bounds, strict=True):
            at, style = mask(run.trace.messages), STYLES[run.method]
            lines.append(Line(run.method, at, mask(run.trace.error), style, marks=0.12))
            lines.append(Line(f"bound, {bounded}", at, limit, style))
        draw_lines(axes, lines)
        return plot.to_png_and_svg(drawing)


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
    with plot.settings():
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
        return plot.to_png_and_svg(drawing)


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
    """Return the width of a node, in points of 1/72 inch: a part of the edges' length and of a
    node's share."""
    ends = points[graph.edges]
    edge = float(np.median(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)))
    side = float(np.ptp(points, axis=0).max()) or 1.0
    share = min(edge / side, 1.0 / math.sqrt(graph.nodes))
    return min(72.0 * PANEL * 0.5 * share, 9.0)


def render_decentralized(
    runs: Sequence[Decentralized], racers: Sequence[Racer], slow: float, faults: str
) -> dict[str, bytes]:
    """The error of each run against exchanges, and of each racer against time.

    faults: those of the runs, in words.
    """
    titles = faults or "nodes that are alike", f"one node {slow:g} times slower"
    with plot.settings():
        drawing, (left, right) = plot.make_two_panels(titles)
        # Counts of exchanges that differ by orders of magnitude: a logarithmic axis.
        counts = [(r.method, r.trace.messages, r.trace.error) for r in runs]
        _draw_errors(left, counts, "log", "exchanges")
        if any(r.deaths for r in runs):  # the error is the distance to `Decentralized.agreed`
            left.set_ylabel(r"mean$_i\,|x_i - \mathrm{agreed}|^2\,/\,|x_{\star}|^2$")
        times = [(r.method, r.t, r.error) for r in racers]
        _draw_errors(right, times, "linear", "time (a usual node's step = 1)")
        return plot.to_png_and_svg(drawing)


def _draw_errors(
    axes: Any, curves: Sequence[tuple[str, Array, Array]], scale: str, label: str
) -> None:
    ylabel = r"mean$_i\,|x_i - x_{\star}|^2\,/\,|x_{\star}|^2$"
    axes.set(xscale=scale, xlabel=label, ylabel=ylabel)
    lines = []
    for order, (name, at, error) in enumerate(curves):
        seen = (at > 0) if scale == "log" else (at >= 0)
        x = at[seen].astype(np.float64)
        marks = plot.choose_markers(x, scale, order, first=x[0]) if x.size else []
        lines.append(Line(name, x, mask(error[seen]), STYLES[name], marks))
    if scale == "linear":  # a method that takes far longer would leave no room for the others
        ends = sorted(float(line.t[-1]) for line in lines if line.t.size)
        axes.set_xlim(0.0, min(ends[-1], 4.0 * ends[0]) if ends else 1.0)
    draw_lines(axes, lines)
