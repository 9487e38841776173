"""The look of all pictures: settings, styles of methods, axes to draw on, and files.

matplotlib is imported only when a picture is drawn.  Nothing of the user's own matplotlib is
touched: no pyplot, no backend, and settings that hold for one drawing.  The same data give the same
bytes.  In print without colour the curves still differ, by their grey, their markers and dashes,
and the words beside them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from continuized.support import validation as check

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
DPI, NOTEBOOK_DPI = 300, 140
SIZE = (4.6, 3.2)  # inches, of a picture with one panel
INK, GREY = "#111111", "#8c8c8c"


class Style(NamedTuple):
    """How a line is drawn.  The greys of the colours differ too."""

    color: str
    marker: str
    width: float = 1.0


STYLES = {
    "gradient-descent": Style("#e08a1e", "^", 0.9),
    "nesterov": Style("#1f78b4", "s", 0.9),
    "continuized": Style(INK, "o", 1.1),
    "sharp": Style("#7b3294", "D", 1.1),
    "plain": Style("#e08a1e", "^", 0.9),
    "accelerated": Style(INK, "o", 1.1),
    "dual": Style(INK, "o", 1.2),
    "plain-dual": Style(GREY, "v", 0.9),
    "dadao": Style("#1f78b4", "s", 1.0),
    "a2cid2": Style("#b3367a", "D", 0.9),
    "plain-sgd": Style("#d98cb3", "d", 0.9),
    "synchronous-dual": Style("#e08a1e", "^", 1.0),
    "all-reduce": Style("#2e8b57", "P", 0.9),
}
# For further lines of one picture, and for methods that have no style of their own.
SPARE = (
    Style("#5a3a8a", "h"), Style("#33a02c", "v"), Style("#b3261e", "P"), Style("#7a4a2a", "X"),
    Style(GREY, "d"), Style("#17a2b8", "<"), Style("#a6439c", ">"), Style("#4d5a1f", "*"),
)  # fmt: skip
# Of bounds: two may coincide, and each shows in the gaps of the other.
DASHES = ((4.0, 4.0), (1.2, 2.4), (7.0, 2.0, 1.2, 2.0))


def choose_styles(methods: list[str]) -> list[Style]:
    """Choose a style for each line: its method's own, or a spare one where that is taken.

    >>> [style.marker for style in choose_styles(["continuized", "nesterov", "continuized"])]
    ['o', 's', 'h']
    """
    chosen: list[Style] = []
    own = {STYLES[name] for name in methods if name in STYLES}
    taken = {(style.color, style.marker) for style in own}
    spare = [style for style in SPARE if (style.color, style.marker) not in taken]
    for name in methods:
        style = STYLES.get(name)
        if style is None or style in chosen:
            style = spare[0]
            spare = [*spare[1:], spare[0]]
        chosen.append(style)
    return chosen


def require_matplotlib() -> None:
    """Raise ImportError, with the remedy, where matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            'the figures need matplotlib: run pip install "continuized[plot]"', name="matplotlib"
        ) from error


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


@contextmanager
def open_axes(ax: Any, size: tuple[float, float] = SIZE) -> Iterator[Any]:
    """Give the axes to draw on: those of the user, in their own style, or those of a new figure.

    A new figure is in our style, and pyplot does not know it.
    """
    require_matplotlib()
    if ax is not None:
        from matplotlib.axes import Axes

        check.instance(ax, "ax", Axes, "axes of matplotlib or None")
        yield ax
        return
    with settings():
        drawing = _make_drawing(figsize=size, layout="constrained")
        axes = drawing.add_subplot()
        yield axes
        # Ticks are made when they are first needed, in the style of that moment.
        for each in (axes, *axes.child_axes):
            each.tick_params(which="both", labelfontfamily=SETTINGS["font.family"])
        drawing.draw_without_rendering()


def _make_drawing(**how: Any) -> Any:
    """Make a figure that a notebook shows, though pyplot does not know it."""
    from matplotlib.figure import Figure

    class Drawing(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            with settings():
                self.savefig(buffer, format="png", dpi=NOTEBOOK_DPI)
            return buffer.getvalue()

    return Drawing(**how)


def to_bytes(drawing: Any, format: str) -> bytes:
    """A drawing as a file of this format; the same drawing gives the same bytes."""
    buffer = io.BytesIO()
    drawing.savefig(buffer, format=format, dpi=DPI, metadata=FORMATS[format])
    return buffer.getvalue()


def to_png_and_svg(drawing: Any) -> dict[str, bytes]:
    """A drawing as the files that commands write: for a screen, and for print."""
    return {format: to_bytes(drawing, format) for format in ("png", "svg")}
