"""The path of a run in the plane, or in two of its coordinates, still and moving."""

from __future__ import annotations

import io
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from continuized.plot.style import INK, Style, open_axes, require_matplotlib, settings
from continuized.problems.base import Array, Problem, check_problem
from continuized.support import files
from continuized.support import validation as check

if TYPE_CHECKING:
    from continuized.solver.result import Result

X_STYLE, Z_STYLE = Style("#0b5fa5", "o"), Style("#d55e00", "s")
DRIFT = {"linestyle": "-", "linewidth": 1.8, "solid_capstyle": "round"}
JUMP = {"linestyle": (0, (3.0, 2.0)), "linewidth": 0.9}
CONTOURS, GRID = 12, 80
AT_ONCE = 2**20  # numbers of the points that are looked at together
MARGIN = 0.08
WIDTH, LEAST_HEIGHT, MOST_HEIGHT = 4.8, 2.2, 3.9  # inches, of a figure and its height
FILM_FORMATS = ("gif", "html", "mp4")
MOST_FRAMES, MOST_FPS = 5_000, 100.0  # a .gif counts time in hundredths of a second
FRAME_DPI = 100
MOST_MEGABYTES = 500.0  # of the frames in a page


class Track(NamedTuple):
    """Where a point of the process is: before and after every event, in two coordinates.

    after[k] is where event k left it, after[0] the start; before[k] where event k found it.
    """

    name: str
    style: Style
    before: Array
    after: Array

    @property
    def drifts(self) -> Array:
        """The ways between events, with a gap (NaN) after each."""
        return _join(self.after[:-1], self.before[1:])

    @property
    def jumps(self) -> Array:
        """The steps at events, with a gap (NaN) after each."""
        return _join(self.before[1:], self.after[1:])

    @property
    def corners(self) -> Array:
        """All the points where it turns, in their order: before and after each event."""
        both = np.stack([self.before[1:], self.after[1:]], axis=1).reshape(-1, 2)
        return np.concatenate([self.after[:1], both])


def _join(starts: Array, ends: Array) -> Array:
    gaps = np.full_like(starts, np.nan)
    return np.stack([starts, ends, gaps], axis=1).reshape(-1, 2)


def path(
    r: Result,
    problem: Problem | None = None,
    *,
    coordinates: Sequence[int] = (0, 1),
    ax: Any = None,
) -> Any:
    """Draw the path of x_t and z_t: solid where they drift, dashed where they jump.

    Between events both move on the straight line between them.  Of a discrete method, the points
    x_k are joined, and z_k where it is another point.

    Parameters
    ----------
    r : a result of `minimize` with record="path"
    problem : Problem
        Whose level lines are drawn, in the plane of the two coordinates through the last x, and
        whose minimiser is marked where it is known.  It is asked for 6,400 values.
    coordinates : two integers
        Which entries of x to draw; of an x with more than one axis, in the order of `x.ravel()`.
    ax
        As for `convergence`, and so is what is returned.

    Raises
    ------
    TypeError, ValueError, ImportError
        As `convergence` does; for a result without a path, and coordinates that x has not.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> r = cz.minimize(p, [0.0, 0.0], maxiter=20, rng=0, record="path")
    >>> ax = cz.plot.path(r, p)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('coordinate 0', 'coordinate 1')
    """
    pair, tracks = _prepare(r, problem, coordinates)
    window = _find_window(problem, pair, tracks)
    with open_axes(ax, window.size) as axes:
        _draw_ground(axes, r, problem, pair, window)
        for order, track in enumerate(tracks):
            color, marker = track.style.color, track.style.marker
            look = {"color": color, "zorder": 3.0 - 0.5 * order}  # x above z
            if np.array_equal(track.before[1:], track.after[:-1]):
                axes.plot(*track.after.T, marker=marker, ms=3.6, mfc="white", lw=1.0,
                          label=f"${track.name}_k$", **look)  # fmt: skip
                continue
            name = f"${track.name}_t$"
            axes.plot(*track.drifts.T, label=f"{name} between events", **DRIFT, **look)
            axes.plot(*track.jumps.T, label=f"{name} at an event", **JUMP, **look)
            axes.plot(*track.after.T, marker, ms=3.6, mfc="white", **look)
        _mark_ends(axes, tracks, problem, pair)
        _name_lines(axes, is_ours=ax is None)
    return axes


def animate(
    r: Result,
    out: str | os.PathLike[str],
    problem: Problem | None = None,
    *,
    coordinates: Sequence[int] = (0, 1),
    seconds: float = 10.0,
    fps: float = 20.0,
) -> Path:
    """Write a path as it moves: x_t and z_t at evenly spaced times, with what they leave behind.

    Parameters
    ----------
    r, problem, coordinates
        As for `path`.
    out : path of a file that ends in .gif, .html or .mp4
        Where to write it.  A page is whole in itself, and fetches nothing; .mp4 needs the program
        ffmpeg.
    seconds, fps : float
        How long it takes, and how many frames there are a second, from 1 to 100.

    Returns
    -------
    pathlib.Path
        Of the file, whole or not written at all.  In a notebook, `IPython.display.Image` shows a
        .gif, and `IPython.display.HTML(path.read_text())` a page.

    Raises
    ------
    TypeError, ValueError, ImportError
        As `path` does; for another ending, and where ffmpeg is wanted and missing.
    OSError
        Where the file cannot be written.

    >>> import continuized as cz
    >>> p = cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    >>> r = cz.minimize(p, [0.0, 0.0], maxiter=20, rng=0, record="path")
    >>> cz.plot.animate(r, "run.avi", p)
    Traceback (most recent call last):
    ...
    ValueError: out must end in .gif, .html or .mp4, got 'run.avi'
    """
    require_matplotlib()
    format = _check_format(out)
    seconds = check.real(seconds, "seconds", above=0.0)
    fps = check.real(fps, "fps", minimum=1.0, maximum=MOST_FPS)
    film = make_film(r, problem, coordinates, seconds, fps)
    return files.write(Path(out), _encode(film, format, fps))


class Film:
    """Frames of one figure, of which only a few parts move.

    The writers of matplotlib take it for a figure, and ask it to save itself for each frame.  What
    stands still is drawn once and kept as pixels; that is most of the work of a frame.
    """

    def __init__(self, figure: Any, moving: list[Any], frames: int, move: Any) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure.set_layout_engine("none")  # it stays where it is
        for artist in moving:
            artist.set_animated(True)  # not drawn with the rest
        self.figure, self.moving, self.frames, self.move = figure, moving, frames, move
        self.canvas: Any = FigureCanvasAgg(figure)
        self._still: Any = None

    @property
    def dpi(self) -> float:
        """The dots per inch of the figure."""
        return float(self.figure.dpi)

    def get_size_inches(self) -> Any:
        """Return the width and the height."""
        return self.figure.get_size_inches()

    def set_size_inches(self, width: float, height: float, forward: bool = True) -> None:
        """Change the size, as some formats ask for."""
        if (width, height) != tuple(self.get_size_inches()):
            self.figure.set_size_inches(width, height, forward=forward)
            self._still = None

    def savefig(self, target: Any, *, format: str, dpi: float, **_ignored: Any) -> None:
        """Write the present frame: its pixels, or a PNG."""
        pixels = self.draw(dpi)
        if format == "rgba":
            target.write(pixels)
        else:
            from matplotlib.image import imsave

            imsave(target, pixels, format=format)

    def draw(self, dpi: float) -> Array:
        """Return the pixels of the present frame, in rows, with four colours each."""
        if self._still is None or dpi != self.dpi:
            self.figure.set_dpi(dpi)
            self.canvas.draw()
            self._still = self.canvas.copy_from_bbox(self.figure.bbox)
        self.canvas.restore_region(self._still)
        for artist in self.moving:
            self.figure.draw_artist(artist)
        return np.asarray(self.canvas.buffer_rgba())


def make_film(
    r: Any, problem: Problem | None, coordinates: Any, seconds: float, fps: float
) -> Film:
    """Make what `animate` writes."""
    pair, tracks = _prepare(r, problem, coordinates)
    frames = max(2, round(seconds * fps))
    if frames > MOST_FRAMES:
        raise ValueError(
            f"seconds = {seconds:g} at fps = {fps:g} are {frames} frames; ask for {MOST_FRAMES} at "
            "most"
        )
    events = np.asarray(r.path.t, np.float64)
    times = np.linspace(0.0, float(events[-1]), frames)
    states = [np.asarray(part, np.float64).reshape(frames, -1)[:, pair] for part in r.at(times)]
    window = _find_window(problem, pair, tracks)
    with open_axes(None, window.size) as axes:
        _draw_ground(axes, r, problem, pair, window)
        trails, heads = [], []
        for track in tracks:
            color, marker = track.style.color, track.style.marker
            trails += axes.plot([], [], color=color, lw=1.0)
            heads += axes.plot([], [], marker, color=color, ms=6.0, label=f"${track.name}_t$")
        _mark_ends(axes, tracks, problem, pair)
        _name_lines(axes, is_ours=True)
        axes.set_title(_describe_frame(times[-1], len(events) - 1), fontsize="medium")

    def move(frame: int) -> None:
        past = int(np.searchsorted(events, times[frame], side="right")) - 1
        for track, state, trail, head in zip(tracks, states, trails, heads, strict=False):
            corners = track.corners[: 1 + 2 * past]
            trail.set_data(*np.concatenate([corners, state[frame : frame + 1]]).T)
            head.set_data(*state[frame : frame + 1].T)
        axes.title.set_text(_describe_frame(times[frame], past))

    return Film(axes.figure, [*trails, *heads, axes.title], frames, move)


def _describe_frame(t: float, events: int) -> str:
    return f"t = {t:.1f}, {events} gradient{'' if events == 1 else 's'}"


def _check_format(out: Any) -> str:
    """Return the format that the name of a file asks for."""
    if not isinstance(out, str | os.PathLike):
        raise check.refusal(TypeError, "out", "the path of a file", out)
    ending = Path(out).suffix[1:].lower()
    if ending not in FILM_FORMATS:
        raise ValueError(f"out must end in .gif, .html or .mp4, got {check.short_repr(str(out))}")
    if ending == "mp4":
        from matplotlib.animation import FFMpegWriter

        if not FFMpegWriter.isAvailable():
            raise ValueError(
                "an .mp4 needs the program ffmpeg, which is not found: install it, or give out= a "
                "name that ends in .gif or .html"
            )
    files.writable_folder(Path(out).absolute().parent)
    return ending


def _encode(film: Film, format: str, fps: float) -> bytes:
    """Return a film as the content of a file."""
    from matplotlib import animation

    if format == "gif":
        return _make_gif(film, fps)
    with settings(), tempfile.TemporaryDirectory() as folder:
        make: Any = animation.HTMLWriter if format == "html" else animation.FFMpegWriter
        whole = {"embed_frames": True, "embed_limit": MOST_MEGABYTES} if format == "html" else {}
        writer = make(fps=fps, **whole)
        name = Path(folder) / f"run.{format}"
        with writer.saving(film, name, FRAME_DPI):
            for frame in range(film.frames):
                film.move(frame)
                writer.grab_frame()
        if format == "html":
            return _make_page(name.read_text(encoding="utf-8")).encode()
        return name.read_bytes()


def _make_gif(film: Film, fps: float) -> bytes:
    """Return a film as a GIF, all its frames in the colours of the last one."""
    from PIL import Image

    def draw(frame: int) -> Any:
        film.move(frame)
        return Image.fromarray(film.draw(FRAME_DPI)).convert("RGB")

    with settings():
        colours = draw(film.frames - 1).quantize()
        every = (draw(frame) for frame in range(film.frames))
        # To look for the nearest of the colours is quick, to choose them anew each time is not.
        first, *others = [each.quantize(palette=colours, dither=0) for each in every]
    content = io.BytesIO()
    first.save(
        content, "gif", save_all=True, append_images=others, duration=int(1000 / fps), loop=0
    )
    return content.getvalue()


# The signs of matplotlib's player are letters of a font that it would fetch; these are everywhere.
SIGNS = {
    "fa-minus": "−", "fa-fast-backward": "⏮", "fa-step-backward": "◂|",
    "fa-play fa-flip-horizontal": "◀", "fa-pause": "❚❚", "fa-play": "▶",
    "fa-step-forward": "|▸", "fa-fast-forward": "⏭", "fa-plus": "+",
}  # fmt: skip


def _make_page(player: str) -> str:
    """Make a page of matplotlib's player that fetches nothing."""
    player = re.sub(r"<link\b[^>]*>", "", player)

    def sign(match: re.Match[str]) -> str:
        return SIGNS.get(" ".join(match[1].split()[1:]), "?")

    player = re.sub(r"<i class=\"([^\"]*)\"></i>", sign, player)
    head = '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
    return f"{head}<title>A run of continuized</title></head>\n<body>{player}</body>\n</html>\n"


def _prepare(r: Any, problem: Any, coordinates: Any) -> tuple[list[int], list[Track]]:
    """Check the arguments, and find where x and z are before and after every event."""
    from continuized.theory.checks import check_path

    recorded = check_path(r)
    if problem is not None:
        check_problem(problem)
    x, z = (np.asarray(part, np.float64) for part in (recorded.x, recorded.z))
    x, z = x.reshape(len(x), -1), z.reshape(len(z), -1)
    pair = _check_coordinates(coordinates, x.shape[1])
    left = r.at(np.asarray(recorded.t, np.float64), side="left")
    before = [np.asarray(part, np.float64).reshape(len(x), -1)[:, pair] for part in left]
    tracks = [Track("x", X_STYLE, before[0], x[:, pair])]
    if not np.array_equal(x, z):
        tracks.append(Track("z", Z_STYLE, before[1], z[:, pair]))
    return pair, tracks


def _check_coordinates(coordinates: Any, dim: int) -> list[int]:
    given = check.sequence(coordinates, "coordinates", "two integers")
    if dim < 2:
        raise ValueError("a path is drawn in two coordinates, but x has one entry only")
    if len(given) != 2:
        raise check.refusal(ValueError, "coordinates", "two integers", coordinates)
    noun = "a coordinate of x"
    pair = [check.whole(i, "coordinates", minimum=0, maximum=dim - 1, noun=noun) for i in given]
    if pair[0] == pair[1]:
        raise check.refusal(ValueError, "coordinates", "two different integers", coordinates)
    return pair


class Window(NamedTuple):
    """What of the plane is shown: its corners, and whether both coordinates have one unit."""

    low: Array
    high: Array
    is_equal: bool

    @property
    def size(self) -> tuple[float, float]:
        """The inches of a new figure: no higher than what is shown, with room for words."""
        width, height = self.high - self.low
        wanted = 0.85 * WIDTH * height / width + 1.2 if self.is_equal else MOST_HEIGHT
        return WIDTH, float(np.clip(wanted, LEAST_HEIGHT, MOST_HEIGHT))


def _find_window(problem: Problem | None, pair: list[int], tracks: list[Track]) -> Window:
    shown = [part for track in tracks for part in (track.before, track.after)]
    star = _find_star(problem, pair)
    if star is not None:
        shown.append(star[np.newaxis])
    points = np.concatenate(shown)
    low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
    span = np.maximum(high - low, 1e-3 * max(float((high - low).max()), 1e-300))
    is_equal = bool(span.max() < 5.0 * span.min())  # otherwise one of the two could not be seen
    return Window(low - MARGIN * span, high + MARGIN * span, is_equal)


def _draw_ground(
    axes: Any, r: Any, problem: Problem | None, pair: list[int], window: Window
) -> None:
    """Set the limits and the labels, and draw the level lines of the problem."""
    low, high = window.low, window.high
    if window.is_equal:
        axes.set_aspect("equal", adjustable="box")
    axes.set(xscale="linear", yscale="linear")
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set(xlabel=f"coordinate {pair[0]}", ylabel=f"coordinate {pair[1]}")
    if problem is None:
        return
    u, v = (np.linspace(a, b, GRID) for a, b in zip(low, high, strict=True))
    values = _find_values(problem, np.asarray(r.x, np.float64), pair, u, v)
    if np.isfinite(values).any():
        # Of a quadratic, level lines at even distances.
        height = np.sqrt(values - np.nanmin(values))
        levels = np.linspace(0.0, float(np.nanmax(height)), CONTOURS + 1)[1:-1]
        if levels.size and levels[-1] > 0.0:
            axes.contour(u, v, np.ma.masked_invalid(height), levels, colors="#c4c4c4",
                         linewidths=0.7, zorder=0.5)  # fmt: skip


def _find_values(problem: Problem, x: Array, pair: list[int], u: Array, v: Array) -> Array:
    """Return f on the plane through x, NaN where it is not finite."""
    points = np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2)
    found, some = [], max(1, AT_ONCE // x.size)
    with np.errstate(all="ignore"):
        for first in range(0, len(points), some):
            part = points[first : first + some]
            on_plane = np.tile(x.ravel(), (len(part), 1))
            on_plane[:, pair] = part
            found.append(problem.values(on_plane.reshape(len(part), *x.shape)))
    values = np.concatenate(found).reshape(GRID, GRID)
    return np.where(np.isfinite(values), values, np.nan)


def _find_star(problem: Problem | None, pair: list[int]) -> Array | None:
    if problem is None or problem.x_star is None:
        return None
    return np.asarray(problem.x_star, np.float64).ravel()[pair]


def _mark_ends(axes: Any, tracks: list[Track], problem: Problem | None, pair: list[int]) -> None:
    axes.plot(*tracks[0].after[0], "D", color=INK, ms=4.5, label="start", zorder=4)
    star = _find_star(problem, pair)
    if star is not None:
        axes.plot(*star, "*", color=INK, ms=9.0, label=r"$x_{\star}$", zorder=4)


def _name_lines(axes: Any, is_ours: bool) -> None:
    """Add a legend: below the panel of a new figure, for on a flat one it would hide the path."""
    if not is_ours:
        axes.legend(frameon=True, framealpha=0.85, edgecolor="none", fontsize="small")
        return
    columns = (len(axes.get_legend_handles_labels()[0]) + 1) // 2
    axes.figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize="small")
