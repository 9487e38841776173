"""The picture of `continuized decentralized`: errors against messages, and against time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from continuized.network import Decentralized, Racer
from continuized.plot.figures import (
    Line,
    Style,
    choose_markers,
    draw_curve,
    label_ends,
    make_two_panels,
    mask,
    settings,
    to_bytes,
)
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


def render_decentralized(
    runs: Sequence[Decentralized],
    racers: Sequence[Racer],
    slow: float,
    faults: str = "",
    formats: tuple[str, ...] = ("png", "svg"),
) -> dict[str, bytes]:
    """The error of each run against exchanges, and of each racer against time, in each format.

    faults: those of the runs, in words.
    """
    with settings():
        drawing, (left, right) = make_two_panels()
        # Counts of exchanges that differ by orders of magnitude: a logarithmic axis.
        counts = [(r.method, r.trace.messages, r.trace.error) for r in runs]
        _panel(left, counts, "log", "exchanges", faults or "nodes that are alike")
        if any(r.deaths for r in runs):  # the error is the distance to `Decentralized.agreed`
            left.set_ylabel(r"mean$_i\,|x_i - \mathrm{agreed}|^2\,/\,|x_{\star}|^2$")
        times = [(r.method, r.t, r.error) for r in racers]
        words = "time (a usual node's step = 1)", f"one node {slow:g} times slower"
        _panel(right, times, "linear", *words)
        return {format: to_bytes(drawing, format) for format in formats}


def _panel(
    axes: Any, curves: Sequence[tuple[str, Array, Array]], scale: str, label: str, title: str
) -> None:
    axes.set(xscale=scale, yscale="log", xlabel=label,
             ylabel=r"mean$_i\,|x_i - x_{\star}|^2\,/\,|x_{\star}|^2$")  # fmt: skip
    axes.set_title(title, fontsize=10)
    lines = []
    for order, (name, at, error) in enumerate(curves):
        seen = (at > 0) if scale == "log" else (at >= 0)
        x, y, style = at[seen].astype(np.float64), mask(error[seen]), STYLES[name]
        if x.size:
            draw_curve(axes, x, y, style, choose_markers(x, scale, order, first=x[0]))
        lines.append(Line(name, x, y, style, bold=True))
    if scale == "linear":  # a method that takes far longer would leave no room for the others
        ends = sorted(float(line.t[-1]) for line in lines if line.t.size)
        axes.set_xlim(0.0, min(ends[-1], 4.0 * ends[0]) if ends else 1.0)
    label_ends(axes, lines)
