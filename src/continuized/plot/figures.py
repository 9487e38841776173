"""Pictures that commands write: the paper's figures, and the objective of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from continuized.plot.curves import EXCESS, STEPS, Curve, draw_curves
from continuized.plot.lines import mask
from continuized.plot.style import STYLES, settings, to_bytes, to_png_and_svg

SIZE = (8.4, 3.2)  # inches, of two panels
FEW_POINTS = 30  # of an objective, so few that each is marked


class Panel(NamedTuple):
    """One function and the three methods on it."""

    name: str
    formula: str
    curves: tuple[Curve, ...]


class Figure(NamedTuple):
    """One of the paper's figures: the convex panel, then the strongly convex one."""

    number: int
    title: str
    caption: str
    note: str
    panels: tuple[Panel, ...]


def render(figure: Figure) -> dict[str, bytes]:
    """Draw a figure, as PNG and as SVG."""
    with settings():
        return to_png_and_svg(draw_figure(figure))


def render_objective(trace: Any, title: str, format: str) -> bytes:
    """The objective of a run above its lowest value, against passes over the data."""
    from matplotlib.figure import Figure as Drawing

    with settings():
        drawing = Drawing(figsize=(4.2, 2.9), layout="constrained")
        axes = drawing.add_subplot()
        axes.set(yscale="log", title=title, xlabel="passes over the data",
                 ylabel="objective above the lowest seen (bottom)")  # fmt: skip
        above = mask(trace.fun - trace.fun.min())
        # The lowest itself has no place on a logarithmic axis: it stands below all others.
        lowest = 0.1 * np.nanmin(above) if np.any(above > 0.0) else 1.0
        above = np.where(trace.fun == trace.fun.min(), lowest, above)
        marker = "o" if len(above) <= FEW_POINTS else ""
        axes.plot(trace.passes, above, marker=marker, markersize=3.0, linewidth=1.1,
                  color=STYLES["continuized"].color)  # fmt: skip
        return to_bytes(drawing, format)


def draw_figure(figure: Figure) -> Any:
    """Draw a figure; inside `settings`."""
    drawing, panels = make_two_panels([panel.name for panel in figure.panels])
    # Log-log on the left, where a power of k is a straight line; a rate is one on the right.
    for axes, panel, scale in zip(panels, figure.panels, ("log", "linear"), strict=True):
        axes.set(xlabel=STEPS, ylabel=EXCESS)
        draw_curves(axes, panel.curves, scale, beside=True)
    return drawing


def make_two_panels(
    titles: Sequence[str], left: float = 0.074, width: float = 0.286, height: float = 0.76
) -> tuple[Any, list[Any]]:
    """Make a drawing of two panels with logarithmic values.

    By default there is room for names to the right of each of them.
    """
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=SIZE)
    panels = [drawing.add_axes((x, 0.15, width, height)) for x in (left, left + 0.5)]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_yscale("log")
        axes.set_title(title, fontsize=10, y=1.0)  # else its place is sought, slowly
    return drawing, panels
