"""Pictures of networks: of gossip, and of decentralised optimisation.

Of gossip, the error against messages, and the network with its values at a few times; of
optimisation, the error against exchanges, and against time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from continuized.network.graphs.graph import Graph
from continuized.plot.figures import make_two_panels
from continuized.plot.graph_layout import place_nodes
from continuized.plot.lines import Line, choose_markers, draw_lines, mask, thin_labels
from continuized.plot.style import (
    DASHES,
    INK,
    STYLES,
    choose_styles,
    open_axes,
    settings,
    to_png_and_svg,
)
from continuized.problems.base import Array
from continuized.support import validation as check

if TYPE_CHECKING:
    from continuized.network import Decentralized, Outcome, Racer

LOWEST_ERROR = 1e-16  # relative errors below are rounding
PANEL = 1.9  # inches
FLATTEST = 0.3  # height over width of a panel: nodes of a long grid are drawn with room around
MOST_DRAWN = 20_000  # nodes
MOST_VECTORS = 2_000  # nodes of an SVG as shapes; beyond, as pixels inside it
COLORS = "cividis"  # the larger the lighter, in print without colour too
WIDEST_NODE = 9.0  # points
MOST_NAMED, LONGEST_NAME = 30, 10  # nodes whose names are written, and letters of a name
NAME_POINTS = 8.0  # of 1/72 inch, the height of a name
EDGE_COLOR = "#8f8f8f"
WITHIN, LEAST_SCALE = 0.95, 0.02  # of the nodes; of the spread at the start
RELATIVE = "squared error, relative to the start"


class View(NamedTuple):
    """The values of all nodes at one time of a run, and which of them are dead by then."""

    method: str
    when: str
    values: Array
    dead: Sequence[int] = ()


def network(outcome: Outcome | Decentralized, t: float | None = None, *, ax: Any = None) -> Any:
    """Draw a network with the values of its nodes, at the end of a run or at a snapshot.

    Of averaging, colours are the values, and the middle of the scale is the mean of the start; it
    reaches as far as 95 % of the living nodes do, and arrows at its ends say where some are beyond.
    Where the values are vectors, and of optimisation, colours are distances to where nodes shall
    agree.  A cross is a dead node.

    Parameters
    ----------
    outcome : what `network.simulate`, `network.run` or `network.minimize` gives
    t : float
        One of the times of `outcome.snapshots`; by default the end.
    ax
        As for `convergence`, and so is what is returned.

    Raises
    ------
    TypeError, ValueError, ImportError
        As `convergence` does; for a time without a snapshot, and for more than 20,000 nodes.

    >>> import continuized as cz
    >>> r = cz.network.simulate("grid:4x4", [1.0] + 15 * [0.0], rng=0, snapshots=[20.0])
    >>> cz.plot.network(r, t=20.0).get_title()
    'accelerated, t = 20'
    """
    from continuized.network.result import NetworkResult

    what = "what cz.network.simulate, run or minimize gives"
    check.instance(outcome, "outcome", NetworkResult, what)
    if outcome.graph is None:
        raise ValueError("the outcome does not know its graph: set outcome.graph")
    check_drawn(outcome.graph)
    x, end = outcome.x, outcome.t
    if t is not None:
        t = check.real(t, "t", minimum=0.0, other="None")
        kept = getattr(outcome, "snapshots", {})
        if t not in kept:
            those = "but at " + ", ".join(f"{each:g}" for each in kept) if kept else "nor any other"
            raise ValueError(
                f"there is no snapshot at t = {t:g}, {those}; call simulate with snapshots= of "
                "times before the end of the run"
            )
        x, end = kept[t], t
    dead = find_dead(outcome, end)
    living = np.setdiff1d(np.arange(outcome.graph.nodes), dead)
    values, limits, label = _color_by(outcome, np.asarray(x), living)
    view = View(outcome.method, f"t = {end:,.4g}", values, dead)
    with open_axes(ax, (4.4, 3.6)) as axes:
        shown = draw_nodes(axes, outcome.graph, place_nodes(outcome.graph), view, limits)
        beside = axes.inset_axes((1.03, 0.1, 0.04, 0.8))
        extend = _find_extend(values[living], limits)
        _label_colors(axes.figure.colorbar(shown, cax=beside, extend=extend), label)
        if view.dead:
            axes.legend(frameon=False, fontsize="small", loc="lower left",
                        bbox_to_anchor=(0.0, -0.06))  # fmt: skip
    return axes


def _color_by(outcome: Any, x: Array, living: Array) -> tuple[Array, tuple[float, float], str]:
    """Return a number for each node, the ends of the scale, and what they are."""
    start = getattr(outcome, "x0", None)
    if x.ndim == 1 and not hasattr(outcome, "x_star"):
        start = np.asarray(x if start is None else start, np.float64)
        mean, spread = float(start.mean()), float(start.std())
        apart = np.abs(x[living] - mean)
        # Nodes that agree shall look alike, and not show their last differences.
        half = max(float(np.quantile(apart, WITHIN)) if apart.size else 0.0, LEAST_SCALE * spread)
        return x, (mean - (half or 1.0), mean + (half or 1.0)), "$x_i$"
    agreed, label = x.reshape(len(x), -1).mean(axis=0), r"$|x_i - \mathrm{mean}|$"
    if hasattr(outcome, "x_star"):
        agreed, label = outcome.agreed, r"$|x_i - \mathrm{agreed}|$"
    elif start is not None:
        agreed = np.asarray(start).reshape(len(x), -1).mean(axis=0)
    distances = np.linalg.norm(x.reshape(len(x), -1) - np.asarray(agreed).ravel(), axis=1)
    return distances, (0.0, float(distances.max()) or 1.0), label


def _find_extend(values: Array, limits: tuple[float, float]) -> str:
    """Return at which ends of the scale there are values beyond."""
    ends = values.size and values.min() < limits[0], values.size and values.max() > limits[1]
    return {(False, False): "neither", (True, False): "min", (False, True): "max"}.get(
        (bool(ends[0]), bool(ends[1])), "both"
    )


def find_scale(start: Array) -> tuple[float, float]:
    """Return the ends of the scale of colours: around the mean, by how far the start is from it.

    The median of the distances: where all mass is at one node, most of them are the mean itself.

    >>> find_scale(np.array([4.0, 0.0, 0.0, 0.0]))
    (0.0, 2.0)
    """
    mean = float(np.mean(start))
    apart = np.abs(np.asarray(start, np.float64) - mean)
    half = float(np.median(apart)) or float(apart.max()) or 1.0
    return mean - half, mean + half


def find_dead(outcome: Any, t: float) -> list[int]:
    """List the nodes that are dead at a time of a run."""
    changes = [(death[0], death[1], True) for death in outcome.deaths]
    changes += [(when, node, False) for when, node in outcome.joins]
    last = {node: died for when, node, died in sorted(changes) if when <= t}
    return sorted(node for node, died in last.items() if died)


def check_drawn(graph: Graph) -> None:
    """Raise ValueError for a network of more nodes than can be seen."""
    if graph.nodes > MOST_DRAWN:
        raise ValueError(f"networks are drawn up to {MOST_DRAWN} nodes, not {graph.nodes}")


def draw_nodes(
    axes: Any, graph: Graph, points: Array, view: View, limits: tuple[float, float]
) -> Any:
    """Draw a network on axes of its own, and return what has the colours."""
    from matplotlib.collections import LineCollection

    axes.set_axis_off()
    axes.set_title(f"{view.method}, {view.when}" if view.method else view.when, fontsize="medium")
    size = axes.get_position().size * axes.figure.get_size_inches()
    extent = np.maximum(np.ptp(points, axis=0), 1e-9 * (np.ptp(points) or 1.0))
    inches = float(np.min(size / (extent / extent.max())))  # of the longer side
    width = _find_width(graph, points, inches)
    # Room for half a node and its border at each side.
    room = (0.5 * width + 2.0) / max(72.0 * inches - width - 4.0, 1.0) * float(extent.max())
    low, high = points.min(axis=0) - room, points.max(axis=0) + room
    if _has_names(graph):
        high[1] += NAME_POINTS / (72.0 * inches) * float(extent.max())
    axes.set(xscale="linear", yscale="linear")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_aspect("equal")
    dead = np.zeros(graph.nodes, dtype=bool)
    dead[list(view.dead)] = True
    pixels = graph.nodes > MOST_VECTORS
    idle = dead[graph.edges].any(axis=1)
    for edges, style in ((graph.edges[~idle], "-"), (graph.edges[idle], (0, (1.0, 2.0)))):
        lines = LineCollection(list(points[edges]), colors=EDGE_COLOR, linewidths=0.35, zorder=1,
                               linestyles=[style], rasterized=pixels, clip_on=False)  # fmt: skip
        axes.add_collection(lines, autolim=False)
    _write_names(axes, graph, points, width)
    if dead.any():
        axes.scatter(
            *points[dead].T, marker="x", color=INK, s=max(0.8 * width, 3.0) ** 2, zorder=3,
            linewidths=max(0.6, 0.13 * width), clip_on=False, rasterized=pixels, label="dead",
        )  # fmt: skip
    return axes.scatter(
        *points[~dead].T, c=view.values[~dead], cmap=COLORS, vmin=limits[0], vmax=limits[1],
        s=width**2, linewidths=min(0.3, 0.06 * width), edgecolors="#333333", zorder=2,
        clip_on=False, rasterized=pixels,
    )  # fmt: skip


def _has_names(graph: Graph) -> bool:
    return graph.labels is not None and graph.nodes <= MOST_NAMED


def _write_names(axes: Any, graph: Graph, points: Array, width: float) -> None:
    """Write the names of nodes above them, where they have some that are few and short."""
    for label, point in zip(graph.labels or (), points, strict=True) if _has_names(graph) else ():
        name = str(label)
        axes.annotate(
            name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…", point,
            xytext=(0.0, 0.5 * width + 1.0), textcoords="offset points", ha="center", va="bottom",
            fontsize="x-small", zorder=4, annotation_clip=False, parse_math=False,
        )  # fmt: skip


def _find_width(graph: Graph, points: Array, inches: float) -> float:
    """Return the width of a node, in points of 1/72 inch: a part of the edges' length and of a
    node's share."""
    ends = points[graph.edges]
    edge = float(np.median(np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)))
    side = float(np.ptp(points, axis=0).max()) or 1.0
    share = min(edge / side, 1.0 / math.sqrt(graph.nodes))
    return min(72.0 * inches * 0.5 * share, WIDEST_NODE)


def _label_colors(bar: Any, label: str) -> None:
    bar.set_label(label)
    bar.outline.set_linewidth(0.6)


def render_network(
    graph: Graph, views: Sequence[Sequence[View]], title: str, limits: tuple[float, float],
    label: str = "$x_i$",
) -> dict[str, bytes]:  # fmt: skip
    """The network once for each view, a row of them for each run.

    limits: of the scale of colours, whose middle is the mean; label: what it shows.
    Raises ValueError beyond 20,000 nodes.
    """
    check_drawn(graph)
    with settings():
        return to_png_and_svg(draw_views(graph, views, title, limits, label))


def draw_views(
    graph: Graph, views: Sequence[Sequence[View]], title: str, limits: tuple[float, float],
    label: str = "$x_i$",
) -> Any:  # fmt: skip
    """Draw what `render_network` renders; inside `settings`."""
    from matplotlib.figure import Figure as Drawing

    rows, columns = len(views), max(len(row) for row in views)
    points = place_nodes(graph)
    across, up = np.ptp(points, axis=0)
    # Panels as high as the network is, or rows would be far apart.
    height = PANEL * float(np.clip(up / (across or 1.0), FLATTEST, 1.0))
    top, between, beside = 0.35, 0.3, 0.85  # inches: above all, above a row, for the scale
    size = PANEL * columns + 0.15 * (columns + 1) + beside, (height + between) * rows + top + 0.12
    drawing = Drawing(figsize=size)
    dead = any(view.dead for row in views for view in row)
    drawing.suptitle(f"{title} (crosses)" if dead else title, fontsize=10, y=1.0 - 0.1 / size[1],
                     va="top")  # fmt: skip
    shown: Any = None
    for i, row in enumerate(views):
        bottom = size[1] - top - (i + 1) * (height + between)
        for j, view in enumerate(row):
            left = 0.15 + j * (PANEL + 0.15)
            place = left / size[0], bottom / size[1], PANEL / size[0], height / size[1]
            shown = draw_nodes(drawing.add_axes(place), graph, points, view, limits)
    place = 1.0 - (beside - 0.1) / size[0], 0.15, 0.13 / size[0], 0.65
    _label_colors(drawing.colorbar(shown, cax=drawing.add_axes(place), extend="both"), label)
    return drawing


def render_errors(
    runs: Sequence[Outcome], bounds: Sequence[tuple[str, Array]], title: str
) -> dict[str, bytes]:
    """The error of every run against messages, and the bound on its mean with what it bounds.

    Both axes are logarithmic, so that a factor in messages is a distance.
    """
    with settings():
        return to_png_and_svg(draw_errors(runs, bounds, title))


def draw_errors(runs: Sequence[Outcome], bounds: Sequence[tuple[str, Array]], title: str) -> Any:
    """Draw what `render_errors` renders; inside `settings`."""
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(5.9, 3.3))  # room for the longest label on the right
    axes = drawing.add_axes((0.11, 0.15, 0.57, 0.74))
    messages = np.concatenate([run.trace.messages for run in runs])
    errors = np.concatenate([run.trace.error for run in runs])
    last = float(messages.max())
    first = max(float(messages[messages > 0].min(initial=last)), 1.0)
    lowest = float(errors[errors > 0.0].min(initial=1.0))
    axes.set_title(title, fontsize=9.0)
    axes.set(xscale="log", yscale="log", xlabel="exchanges over edges",
             ylabel=RELATIVE,
             xlim=(first, max(last, 2.0 * first)),
             ylim=(max(0.3 * lowest, LOWEST_ERROR), 4.0))  # fmt: skip
    thin_labels(axes.xaxis)
    lines = []
    for order, (run, (bounded, limit)) in enumerate(zip(runs, bounds, strict=True)):
        at, style = mask(run.trace.messages), STYLES[run.method]
        marks = choose_markers(run.trace.messages, "log", order, first)
        lines.append(Line(run.method, at, mask(run.trace.error), style, marks))
        lines.append(Line(f"bound, {bounded}", at, limit, style, dashes=DASHES[order]))
    draw_lines(axes, lines, beside=True)
    return drawing


def render_decentralized(
    runs: Sequence[Decentralized], racers: Sequence[Racer], slow: float, faults: str
) -> dict[str, bytes]:
    """The error of each run against exchanges, and of each racer against time.

    faults: those of the runs, in words.
    """
    titles = faults or "nodes that are alike", f"one node {slow:g} times slower"
    with settings():
        drawing, (left, right) = make_two_panels(titles)
        # Counts of exchanges that differ by orders of magnitude: a logarithmic axis.
        counts = [(r.method, r.trace.messages, r.trace.error) for r in runs]
        _draw_curves(left, counts, "log", "exchanges")
        if any(r.deaths for r in runs):  # the error is the distance to `Decentralized.agreed`
            left.set_ylabel(r"mean$_i\,|x_i - \mathrm{agreed}|^2\,/\,|x_{\star}|^2$")
        times = [(r.method, r.t, r.error) for r in racers]
        _draw_curves(right, times, "linear", "time (a usual node's step = 1)")
        return to_png_and_svg(drawing)


def draw_convergence(axes: Any, named: Sequence[tuple[str, Any]], scale: str) -> None:
    """Draw the error of runs on networks against exchanges, as `cz.plot.convergence` does."""
    curves = [(run.method, run.trace.messages, run.trace.error) for _, run in named]
    _draw_curves(axes, curves, scale, "exchanges", [name or run.method for name, run in named])
    if not any(hasattr(run, "x_star") for _, run in named):
        axes.set_ylabel(RELATIVE)


def _draw_curves(
    axes: Any, curves: Sequence[tuple[str, Array, Array]], scale: str, label: str,
    names: Sequence[str] = (),
) -> None:  # fmt: skip
    """Draw curves (method, where, error) with their names in a legend, or beside the panel."""
    ylabel = r"mean$_i\,|x_i - x_{\star}|^2\,/\,|x_{\star}|^2$"
    axes.set(xscale=scale, yscale="log", xlabel=label, ylabel=ylabel)
    lines = []
    styles = choose_styles([method for method, _, _ in curves])
    for order, ((method, at, error), style) in enumerate(zip(curves, styles, strict=True)):
        seen = (at > 0) if scale == "log" else (at >= 0)
        x = at[seen].astype(np.float64)
        marks = choose_markers(x, scale, order, first=x[0]) if x.size else []
        lines.append(Line(names[order] if names else method, x, mask(error[seen]), style, marks))
    drawn = [line for line in lines if line.t.size]
    if scale == "linear":  # a method that takes far longer would leave no room for the others
        ends = sorted(float(line.t[-1]) for line in drawn)
        axes.set_xlim(0.0, min(ends[-1], 4.0 * ends[0]) if ends else 1.0)
    elif drawn:
        first, last = min(line.t[0] for line in drawn), max(line.t[-1] for line in drawn)
        axes.set_xlim(0.9 * first, max(1.1 * last, 2.0 * first))
    values = np.concatenate([line.values for line in lines]) if lines else np.empty(0)
    if np.isfinite(values).any():
        axes.set_ylim(0.5 * np.nanmin(values), 2.0 * np.nanmax(values))
    draw_lines(axes, lines, beside=not names)
