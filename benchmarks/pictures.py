"""Pictures of convergence: curves of every contestant, against gradients and against time."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.outcome import Curve, Panel
from continuized.plot import style as plot
from continuized.plot.lines import thin_labels
from continuized.problems.base import Array

# Ours is the black line; the others differ by colour, by grey and by marker.
COLOURS = ("#1f78b4", "#e08a1e", "#33a02c", "#a6439c", "#7a4a2a", "#b3261e", "#5c5c5c", "#17a2b8")
MARKERS = "os^vDPX*<>"
FLOOR = 1e-14  # below it is rounding
SHOWN = 400  # points of a curve


def render(panels: list[Panel], formats: tuple[str, ...] = ("png", "svg")) -> dict[str, bytes]:
    """The panels in one picture, two abreast, in each format.  Needs matplotlib."""
    with plot.settings():
        drawing = draw(panels)
        return {format: plot.to_bytes(drawing, format) for format in formats}


def draw(panels: list[Panel]) -> Any:
    """The drawing itself; inside `plot.settings`."""
    from matplotlib.figure import Figure

    lines = -(-len(panels) // 2)
    drawing = Figure(figsize=(8.4, 3.3 * lines), layout="constrained")
    styles = _styles(panels)
    for i, panel in enumerate(panels):
        _draw(drawing.add_subplot(lines, 2, i + 1), panel, styles)
    # One for all panels, for the styles are the same.
    shown = {label: line for axes in drawing.axes for line, label in _labelled(axes)}
    drawing.legend(
        shown.values(), shown, loc="outside lower center", ncols=4, fontsize=7, frameon=False
    )
    return drawing


def _styles(panels: list[Panel]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each name, the same in all panels."""
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    pairs = zip(cycle(("#111111", *COLOURS)), cycle(MARKERS), strict=False)
    return dict(zip(names, pairs, strict=False))


def _labelled(axes: Any) -> list[tuple[Any, str]]:
    return list(zip(*axes.get_legend_handles_labels(), strict=True))


def _draw(axes: Any, panel: Panel, styles: dict[str, tuple[str, str]]) -> None:
    for number, curve in enumerate(panel.curves):
        colour, marker = styles[curve.name]
        along, above = _thinned(curve)
        axes.plot(
            along, above, color=colour, marker=marker, label=curve.name,
            linewidth=1.6 if number == 0 else 0.9, zorder=3 if number == 0 else 2,
            markevery=max(1, len(along) // 7), markersize=3.4, markerfacecolor="white",
            markeredgewidth=0.8,
        )  # fmt: skip
    axes.set(
        xscale="log", yscale="log", title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel
    )
    for axis in (axes.xaxis, axes.yaxis):
        thin_labels(axis)


def _thinned(curve: Curve) -> tuple[Array, Array]:
    """Points evenly spaced on a logarithmic axis, as far as the curve is above rounding."""
    above = np.asarray(curve.above, dtype=np.float64)
    low = np.flatnonzero(above <= FLOOR)
    last = int(low[0]) if low.size else len(above)
    chosen = np.unique(np.geomspace(1, max(last, 1), SHOWN).astype(np.int64)) - 1
    shown = np.where(above > FLOOR, above, np.nan)
    return np.asarray(curve.along)[chosen], shown[chosen]
