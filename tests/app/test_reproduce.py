"""The paper's figures: their data, and how they are written and drawn."""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path

import numpy as np
import pytest

import continuized as cz
from continuized.app import figures as reproduce
from continuized.plot import figures as plot
from continuized.plot import style
from continuized.plot.lines import spread_labels
from continuized.support import files

SEED, STEPS = 5, 60


@pytest.fixture(scope="module")
def figures() -> tuple[reproduce.Figure, reproduce.Figure]:
    return reproduce.figures(SEED, STEPS)


PANELS = {
    "convex": cz.problems.paper_convex,
    "strongly convex": cz.problems.paper_strongly_convex,
}
METHODS = ("gradient-descent", "nesterov", "continuized")


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("method", METHODS)
def test_a_curve_is_what_minimize_gives(
    figures: tuple[reproduce.Figure, ...], noisy: bool, panel: str, method: str
) -> None:
    p = PANELS[panel]()
    r = cz.minimize(
        p,
        p.x_star if noisy else np.zeros(p.dim),
        method=method,
        noise=cz.noise.Gaussian(1e-4) if noisy else None,
        rng=SEED,
        maxiter=STEPS,
    )
    shown = next(shown for shown in figures[noisy].panels if shown.name == panel)
    curve = next(curve for curve in shown.curves if curve.method == method)
    np.testing.assert_array_equal(curve.k, np.arange(STEPS + 1))
    np.testing.assert_array_equal(curve.t, r.trace.t)
    np.testing.assert_array_equal(curve.excess, r.trace.fun)


def test_the_bounds_are_the_formulas_of_the_paper(figures: tuple[reproduce.Figure, ...]) -> None:
    """The theorems typed anew: both functions have L = 1, and R^2 = |x_0 - x*|^2."""
    (left, right), (noisy_left, noisy_right) = (figure.panels for figure in figures)
    k = np.arange(1, STEPS + 1)
    R2 = sum(1.0 / i**2 for i in range(1, 101))
    f0 = sum(1.0 / i**4 for i in range(1, 101)) / 2
    gradient, nesterov, continuized = left.curves
    t = continuized.t[1:]
    assert math.isclose(gradient.excess[0], f0)
    np.testing.assert_allclose(gradient.bound[1:], 2 * R2 / (k + 4))
    np.testing.assert_allclose(nesterov.bound[1:], 2 * R2 / k**2)
    np.testing.assert_allclose(continuized.bound[1:], 2 * R2 / t**2)

    mu, f0 = 0.01, (0.01 + 0.03 + 1.0) / 2
    phi_0 = f0 + mu / 2 * 3
    gradient, nesterov, continuized = right.curves
    np.testing.assert_allclose(gradient.bound[1:], 0.5 * 0.99**k * 3)
    np.testing.assert_allclose(nesterov.bound[1:], phi_0 * 0.9**k)
    np.testing.assert_allclose(continuized.bound[1:], phi_0 * np.exp(-0.1 * t))

    for panel in (noisy_left, noisy_right):
        for curve in panel.curves[:2]:
            assert curve.theorem == ""
            assert np.all(np.isnan(curve.bound))
    np.testing.assert_allclose(noisy_left.curves[2].bound[1:], 100 * 1e-4 * t / 3)
    np.testing.assert_allclose(noisy_right.curves[2].bound[1:], 3 * 1e-4 / math.sqrt(mu))


def test_the_curve_of_the_whole_run_is_drawn_without_noise() -> None:
    """It is at most twenty times the bound on the mean, and the run of the figure is below it."""
    for figure in reproduce.figures(0):
        for panel in figure.panels:
            *others, continuized = panel.curves
            assert all(curve.path_bound is None for curve in others)
            if figure.number == 2:
                assert continuized.path_bound is None
                continue
            ratio = continuized.path_bound[1:] / continuized.bound[1:]
            assert np.all(ratio <= 20.0 * (1.0 + 1e-12))
            assert np.all(continuized.excess[1:] <= continuized.path_bound[1:])
            assert np.all(ratio[:5] >= 9.99)
    assert "may lie above" not in figure.note


def test_deterministic_methods_stay_below_their_bounds() -> None:
    for panel in reproduce.figures(0)[0].panels:
        for curve in panel.curves[:2]:
            assert np.all(curve.excess <= curve.bound)


def test_the_picture_of_the_paper() -> None:
    """Acceleration wins without noise; with noise it pays: the message of figures 1 and 2."""
    clean, noisy = reproduce.figures(0)
    for panel in clean.panels:
        gradient, nesterov, continuized = (curve.excess[-1] for curve in panel.curves)
        assert max(nesterov, continuized) < gradient / 100
    gradient, nesterov, continuized = (curve.excess[-1] for curve in noisy.panels[0].curves)
    assert min(nesterov, continuized) > 10 * gradient


def test_csv_holds_every_number_to_the_last_bit(figures: tuple[reproduce.Figure, ...]) -> None:
    for figure in figures:
        rows = list(csv.DictReader(io.StringIO(reproduce.csv_text(figure))))
        assert len(rows) == 2 * 3 * (STEPS + 1)
        for panel in figure.panels:
            for curve in panel.curves:
                mine = [r for r in rows if (r["panel"], r["method"]) == (panel.name, curve.method)]
                np.testing.assert_array_equal([int(r["k"]) for r in mine], curve.k)
                np.testing.assert_array_equal([float(r["t"]) for r in mine], curve.t)
                np.testing.assert_array_equal([float(r["excess"]) for r in mine], curve.excess)
                finite = np.isfinite(curve.bound)
                bounds = [float(r["bound"] or "nan") for r in mine]
                np.testing.assert_array_equal(np.array(bounds)[finite], curve.bound[finite])
                assert {r["theorem"] for r in mine} == {curve.theorem}


# Pictures


def test_pictures_are_png_and_svg_and_repeat(figures: tuple[reproduce.Figure, ...]) -> None:
    first, again = plot.render(figures[0]), plot.render(figures[0])
    assert first == again
    assert first["png"].startswith(b"\x89PNG")
    assert b"<svg" in first["svg"]
    assert b"<dc:date>" not in first["svg"]
    width, height = (int.from_bytes(first["png"][i : i + 4], "big") for i in (16, 20))
    assert width >= 200 * plot.SIZE[0]
    assert height >= 200 * plot.SIZE[1]


def test_the_users_matplotlib_is_left_alone(figures: tuple[reproduce.Figure, ...]) -> None:
    import matplotlib

    matplotlib.rcParams["axes.facecolor"] = "red"
    try:
        before = dict(matplotlib.rcParams)
        mine = plot.render(figures[0])
        assert dict(matplotlib.rcParams) == before
    finally:
        matplotlib.rcdefaults()
    assert mine == plot.render(figures[0])  # nor does the user's style change our pictures


@pytest.mark.parametrize("steps", [1, 5000])
def test_any_number_of_steps_can_be_drawn(steps: int) -> None:
    # 5000: on the right, f(x_k) - f* falls to rounding, and to exactly 0.
    for figure in reproduce.figures(0, steps):
        plot.render(figure)


def test_no_text_overlaps_or_leaves_the_picture() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    for seed in range(3):
        for figure in reproduce.figures(seed):
            with style.settings():
                drawing = plot.draw_figure(figure)
                renderer = FigureCanvasAgg(drawing).get_renderer()
                drawing.draw(renderer)
                boxes = [
                    Text.get_window_extent(text, renderer)  # without an annotation's line
                    for axes in drawing.axes
                    for text in (*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label)
                ]
                frame = drawing.bbox
                for i, box in enumerate(boxes):
                    assert frame.x0 <= box.x0
                    assert box.x1 <= frame.x1
                    assert frame.y0 <= box.y0
                    assert box.y1 <= frame.y1
                    assert not any(box.overlaps(other) for other in boxes[:i])


def test_spread_keeps_order_and_distance() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        wanted = rng.uniform(0.0, 100.0, size=6).tolist()
        places = np.array(spread_labels(wanted, gap=10.0, height=100.0))
        assert np.all(np.diff(np.sort(places)) >= 10.0 - 1e-9)
        assert np.all(np.argsort(places) == np.argsort(wanted))
        assert places.min() >= -1e-9
        assert places.max() <= 100.0 + 1e-9


# Files: whole or not at all


def test_write_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write(path, "old")
    assert files.write(path, b"new") == path
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    path = tmp_path / "file"
    files.write(path, "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(OSError, match="disk full"):
        files.write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_files_get_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    files.write(tmp_path / "ours", "")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
