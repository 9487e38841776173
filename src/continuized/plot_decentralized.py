"""The picture of `continuized decentralized`: errors against messages, and against time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from continuized.network import Decentralized, Racer
from continuized.plot import Line, Style, label_ends, settings, to_bytes
from continuized.problems.base import Array

STYLES = {
    "dual": Style("#111111", "o", 1.2),
    "plain-dual": Style("#8c8c8c", "v", 0.9),
    "dadao": Style("#1f78b4", "s", 1.0),
    "a2cid2": Style("#b3367a", "D", 0.9),
    "plain-sgd": Style("#d98cb3", "d", 0.9),
    "synchronous-dual": Style("#e08a1e", "^", 1.0),
    "all-reduce": Style("#2e8b57", "P", 0.9),
}
MARKS = 7


def render_decentralized(
    runs: Sequence[Decentralized],
    racers: Sequence[Racer],
    slow: float,
    formats: tuple[str, ...] = ("png", "svg"),
) -> dict[str, bytes]:
    """The error of each run against exchanges, and of each racer against time, in each format."""
    from matplotlib.figure import Figure as Drawing

    with settings():
        drawing = Drawing(figsize=(8.4, 3.2))
        # Counts of exchanges that differ by orders of magnitude: a logarithmic axis.
        left = drawing.add_axes((0.074, 0.15, 0.286, 0.76))
        counts = [(r.method, r.trace.messages, r.trace.error) for r in runs]
        _panel(left, counts, "log", "exchanges", "nodes that are alike")
        right = drawing.add_axes((0.574, 0.15, 0.286, 0.76))
        times = [(r.method, r.t, r.error) for r in racers]
        _panel(
            right,
            times,
            "linear",
            "time (a usual node's step = 1)",
            f"one node {slow:g} times slower",
        )
        return {format: to_bytes(drawing, format) for format in formats}


def _panel(
    axes: Any, curves: Sequence[tuple[str, Array, Array]], scale: str, label: str, title: str
) -> None:
    axes.set_xscale(scale)
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel(r"mean$_i\,|x_i - x_{\star}|^2\,/\,|x_{\star}|^2$")
    axes.set_title(title, fontsize=10)
    lines = []
    for order, (name, at, error) in enumerate(curves):
        shown = (at > 0 if scale == "log" else at >= 0) & (error > 0.0) & np.isfinite(error)
        x, y, style = at[shown].astype(np.float64), error[shown], STYLES[name]
        axes.plot(
            x,
            y,
            color=style.color,
            linewidth=style.width,
            marker=style.marker,
            markersize=3.4,
            markevery=_marked(x, scale, order),
            markerfacecolor="white",
            markeredgewidth=0.8,
        )
        lines.append(Line(name, x, y, style, bold=True))
    if scale == "linear":  # a method that takes far longer would leave no room for the others
        ends = sorted(float(line.t[-1]) for line in lines if line.t.size)
        axes.set_xlim(0.0, min(ends[-1], 4.0 * ends[0]) if ends else 1.0)
    label_ends(axes, lines)


def _marked(x: Array, scale: str, order: int) -> list[int]:
    """A few markers, evenly along the axis, not at the same places for each curve."""
    if x.size < 2:
        return list(range(x.size))
    along = (np.arange(MARKS) + 0.3 + 0.2 * (order % 4)) / MARKS
    at = x[0] * (x[-1] / x[0]) ** along if scale == "log" else x[0] + (x[-1] - x[0]) * along
    return sorted(set(np.searchsorted(x, at).clip(0, x.size - 1).tolist()))
