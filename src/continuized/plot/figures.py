"""The figures as pictures.  matplotlib is imported here only when a picture is drawn.

Nothing of the user's own matplotlib is touched: no pyplot, no backend, and settings that
hold for one drawing.  The same data give the same bytes.  In print without colour the
curves still differ, by their grey, their markers, and the words beside them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from continuized.problems.base import Array

SETTINGS = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "continuized",
    "path.simplify": True,
}
# The formats of pictures, and what to leave out of each, so that the same data give the same bytes.
FORMATS = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
DPI = 300
SIZE = (8.4, 3.2)  # inches
LABEL_GAP = 10.5  # points between two labels beside a panel
DECADES = 16  # what is smaller than the largest value by more is rounding, and not shown


class Curve(NamedTuple):
    """f(x_k) - f* of one run, row by row, and the theorem's bound (NaN where there is none).

    path_bound: where a whole run stays below a curve with a stated probability, that curve.
    """

    method: str
    theorem: str
    k: Array
    t: Array
    excess: Array
    bound: Array
    path_bound: Array | None = None

    @property
    def label(self) -> str:
        """The method's name in print."""
        return {"nesterov": "Nesterov"}.get(self.method, self.method.replace("-", " "))


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


class Style(NamedTuple):
    """How a method is drawn.  The greys of the colours differ too."""

    color: str
    marker: str
    width: float


STYLES = {
    "gradient-descent": Style("#e08a1e", "^", 0.9),
    "nesterov": Style("#1f78b4", "s", 0.9),
    "continuized": Style("#111111", "o", 1.1),
}


class Line(NamedTuple):
    """A line, NaN where it has a gap, and its name.

    marks: matplotlib's markevery; a line without them is a bound, which is dashed, or dotted.
    offset: of the dashes; two bounds may coincide, and each shows in the gaps of the other.
    """

    label: str
    t: Array
    values: Array
    style: Style
    marks: list[int] | float | None = None
    offset: float = 0.0
    is_dotted: bool = False


def require_matplotlib() -> None:
    """Raise ImportError, with the remedy, where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'the figures need matplotlib: run pip install "continuized[plot]"', name="matplotlib"
        ) from error


def render(figure: Figure) -> dict[str, bytes]:
    """Draw a figure, as PNG and as SVG."""
    with settings():
        return to_png_and_svg(_draw(figure))


@contextmanager
def settings() -> Iterator[None]:
    """Our settings of matplotlib, while the block runs."""
    require_matplotlib()
    import matplotlib

    # The defaults of matplotlib first, or the user's own style would show.
    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, **SETTINGS}
    settings = {name: v for name, v in settings.items() if not name.startswith("backend")}
    with matplotlib.rc_context(settings):
        yield


def to_bytes(drawing: Any, format: str) -> bytes:
    """A drawing as a file of this format; the same drawing gives the same bytes."""
    buffer = io.BytesIO()
    drawing.savefig(buffer, format=format, dpi=DPI, metadata=FORMATS[format])
    return buffer.getvalue()


def to_png_and_svg(drawing: Any) -> dict[str, bytes]:
    """A drawing as the files that commands write: for a screen, and for print."""
    return {format: to_bytes(drawing, format) for format in ("png", "svg")}


def render_objective(trace: Any, title: str, format: str) -> bytes:
    """The objective of a run above its lowest value, against passes over the data."""
    from matplotlib.figure import Figure as Drawing

    with settings():
        drawing = Drawing(figsize=(4.2, 2.9), layout="constrained")
        axes = drawing.add_subplot()
        above, style = mask(trace.fun - trace.fun.min()), STYLES["continuized"]
        axes.plot(trace.passes, above, color=style.color, linewidth=style.width)
        axes.set(yscale="log", title=title, xlabel="passes over the data",
                 ylabel="objective above the lowest seen")  # fmt: skip
        return to_bytes(drawing, format)


def _draw(figure: Figure) -> Any:
    drawing, panels = make_two_panels([panel.name for panel in figure.panels])
    # Log-log on the left, where a power of k is a straight line; a rate is one on the right.
    for axes, panel, scale in zip(panels, figure.panels, ("log", "linear"), strict=True):
        _panel(axes, panel, scale)
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
        axes.set_title(title, fontsize=10)
    return drawing, panels


def _panel(axes: Any, panel: Panel, scale: str) -> None:
    last = max(2.0, *(float(curve.k[-1]) for curve in panel.curves))
    axes.set(xscale=scale, xlim=(1.0 if scale == "log" else 0.0, last), ylim=_limits(panel),
             xlabel="gradient steps $k$  (continuized: time $t$)",
             ylabel=r"$f(x_k) - f(x_{\star})$")  # fmt: skip
    lines = []
    for order, curve in enumerate(panel.curves):
        style = STYLES[curve.method]
        t = curve.t if scale == "linear" else mask(curve.t)
        if curve.theorem:
            name, bound = f"bound, {curve.theorem}", mask(curve.bound)
            lines.append(Line(name, t, bound, style, offset=4.0 * order))
        if curve.path_bound is not None:
            lines.append(Line("whole run, 90 %", t, mask(curve.path_bound), style, is_dotted=True))
        marks = choose_markers(curve.t, scale, order)
        lines.append(Line(curve.label, t, mask(curve.excess), style, marks))
    draw_lines(axes, lines)


def draw_lines(axes: Any, lines: Sequence[Line]) -> None:
    """Draw lines, and write their names beside the panel."""
    for line in lines:
        color, width, marker = line.style.color, line.style.width, line.style.marker
        if line.marks is None:
            dashes = line.offset, (1.0, 2.0) if line.is_dotted else (4.0, 4.0)
            axes.plot(line.t, line.values, color=color, linewidth=0.9, linestyle=dashes)
        else:
            axes.plot(line.t, line.values, color=color, linewidth=width, marker=marker,
                      markersize=3.6, markevery=line.marks, markerfacecolor="white",
                      markeredgewidth=0.9)  # fmt: skip
    _label_ends(axes, lines)


def mask(values: Array) -> Array:
    """Put gaps where values are 0 or infinite: these have no place on a logarithmic axis."""
    return np.where(np.isfinite(values) & (values > 0.0), values, np.nan)


def _limits(panel: Panel) -> tuple[float, float]:
    parts = [v for c in panel.curves for v in (c.excess[1:], c.bound[c.t >= 1.0])]
    values = mask(np.concatenate(parts))
    if np.isnan(values).all():
        return 1e-1, 1e1
    top = 10.0 ** np.ceil(np.log10(np.nanmax(values)))
    bottom = 10.0 ** np.floor(np.log10(np.nanmin(values)))
    return max(bottom, top * 10.0**-DECADES), top


def choose_markers(t: Array, scale: str, order: int, first: float = 1.0) -> list[int]:
    """Choose about eight markers, evenly along the axis, not at the same places for each curve.

    A linear axis begins at 0, a logarithmic one at `first`.
    """
    last = max(float(t[-1]), 2.0 * first)
    along = (np.arange(8) + 0.25 + 0.25 * (order % 4)) / 8
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
