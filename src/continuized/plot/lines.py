"""Lines on logarithmic values, with their markers, their limits and their names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.plot.style import Style
from continuized.problems.base import Array

LABEL_GAP = 10.5  # points between two labels beside a panel
DECADES = 16  # what is smaller than the largest value by more is rounding, and not shown
MARKERS = 8  # of a line
EDGE = 0.015  # of an axis: markers nearer to its ends would be cut


class Line(NamedTuple):
    """A line, NaN where it has a gap, and its name.

    marks: the rows that have a marker.  dashes: of a bound, which has no markers.
    """

    label: str
    t: Array
    values: Array
    style: Style
    marks: list[int] | None = None
    dashes: tuple[float, ...] | None = None


def draw_lines(axes: Any, lines: Sequence[Line], beside: bool = False) -> None:
    """Draw lines, with their names in a legend, or beside the panel."""
    for line in lines:
        color, width, marker = line.style.color, line.style.width, line.style.marker
        if line.dashes is not None:
            look: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0.0, line.dashes)}
        else:
            look = {"linewidth": width, "marker": marker, "markersize": 3.6, "linestyle": "-",
                    "markevery": _inside(axes, line), "markerfacecolor": "white",
                    "markeredgewidth": 0.9}  # fmt: skip
        axes.plot(line.t, line.values, color=color, label=line.label, **look)
    if beside:
        _label_ends(axes, lines)
    else:
        axes.legend(frameon=False, fontsize="small")


def _inside(axes: Any, line: Line) -> list[int]:
    """Choose the markers that are not cut by the border."""
    marks = np.array(line.marks or [], dtype=np.int64)
    if not marks.size:
        return []
    ends = axes.transAxes.inverted()
    with np.errstate(divide="ignore", invalid="ignore"):
        points = np.column_stack([line.t[marks], line.values[marks]]).astype(np.float64)
        at = ends.transform(axes.transData.transform(points))
    inside = np.all((at >= EDGE) & (at <= 1.0 - EDGE), axis=1)
    return [int(k) for k in marks[inside]]


def mask(values: Array) -> Array:
    """Put gaps where values are 0 or infinite: these have no place on a logarithmic axis."""
    return np.where(np.isfinite(values) & (values > 0.0), values, np.nan)


def find_limits(parts: Iterable[Array]) -> tuple[float, float]:
    """Find whole decades that hold all values, but no more than can be told from rounding."""
    values = mask(np.concatenate([np.asarray(part, np.float64).ravel() for part in parts]))
    if np.isnan(values).all():
        return 1e-1, 1e1
    top = 10.0 ** np.ceil(np.log10(np.nanmax(values)))
    bottom = 10.0 ** np.floor(np.log10(np.nanmin(values)))
    return max(min(bottom, 0.1 * top), top * 10.0**-DECADES), top


def thin_labels(axis: Any) -> None:
    """Numbers on a logarithmic axis that leave room for each other, its limits being set.

    On less than a decade or so matplotlib writes one at each of the minor ticks, like 3 x 10^-1.
    """
    from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullFormatter

    axis.set_minor_formatter(NullFormatter())
    low, high = axis.get_view_interval()
    if high < 30.0 * low:
        wide = high > 5.0 * low
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if wide else MaxNLocator(5))
        axis.set_major_formatter(FormatStrFormatter("%g"))


def choose_markers(t: Array, scale: str, order: int, first: float = 1.0) -> list[int]:
    """Choose a few markers, evenly along the axis, not at the same places for each curve.

    A linear axis begins at 0, a logarithmic one at `first`.
    """
    if not len(t):
        return []
    last = max(float(t[-1]), 2.0 * first)
    along = (np.arange(MARKERS) + 0.2 + 0.2 * (order % 4)) / MARKERS
    at = first * (last / first) ** along if scale == "log" else last * along
    return sorted(set(np.searchsorted(t, at).clip(0, len(t) - 1).tolist()))


def _label_ends(axes: Any, lines: Sequence[Line]) -> None:
    """Each line's name to the right of the last of its points that can be seen, moved apart where
    two would overlap."""
    low, high = axes.get_ylim()
    height = axes.figure.get_figheight() * axes.get_position().height * 72.0  # points
    right, ends = axes.get_xlim()[1], []
    for line in lines:
        seen = np.flatnonzero((line.t <= right) & np.isfinite(line.values) & (line.values >= low))
        ends.append((line.t[seen[-1]], line.values[seen[-1]]) if seen.size else (right, low))
    wanted = [height * float(np.log(y / low) / np.log(high / low)) for _, y in ends]
    for line, end, y in zip(lines, ends, spread_labels(wanted, LABEL_GAP, height), strict=True):
        axes.annotate(
            line.label,
            xy=end,
            xytext=(1.085, y / height),
            textcoords="axes fraction",
            va="center",
            fontsize=8.5,
            color=line.style.color,
            fontweight="normal" if line.marks is None else "bold",
            arrowprops={
                "arrowstyle": "-",
                "color": line.style.color,
                "linewidth": 0.5,
                "shrinkA": 1.0,
                "shrinkB": 2.0,
                "relpos": (0.0, 0.5),
            },
            annotation_clip=False,
        )


def spread_labels(wanted: list[float], gap: float, height: float) -> list[float]:
    """Places in [0, height] near the wanted ones, in their order, at least `gap` apart.

    >>> spread_labels([5.0, 4.0, 50.0], gap=10.0, height=100.0)
    [10.0, 0.0, 50.0]
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    # Groups that touch are merged and centred on the mean of what they want.
    groups: list[tuple[list[int], float]] = []
    for i in order:
        members, centre = [i], wanted[i]
        while groups:
            before, middle = groups[-1]
            if centre - middle >= gap * (len(before) + len(members)) / 2:
                break
            groups.pop()
            members = before + members
            centre = sum(wanted[m] for m in members) / len(members)
        half = gap * (len(members) - 1) / 2
        groups.append((members, min(max(centre, half), max(height - half, half))))
    places = [0.0] * len(wanted)
    for members, centre in groups:
        for n, m in enumerate(members):
            places[m] = centre + gap * (n - (len(members) - 1) / 2)
    return places
