"""`cz.plot`: what is on the axes is what was run, and nothing else of matplotlib is touched."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import continuized as cz
from continuized.plot import figures, lines, style
from continuized.plot.paths import make_film

METHODS = ("gradient-descent", "nesterov", "continuized")
P = cz.problems.paper_strongly_convex()
X0 = np.zeros(3)
H = np.array([[0.35, -0.25], [-0.25, 0.9]])
PLANE = cz.Problem(lambda x: 0.5 * x @ H @ x, lambda x: H @ x, L=2.0, mu=0.25, x_star=[0.0, 0.0])


def runs(p: Any = P, x0: Any = X0, steps: int = 40, **how: Any) -> list[Any]:
    return [cz.minimize(p, x0, method=m, maxiter=steps, rng=0, **how) for m in METHODS]


def line_of(ax: Any, label: str) -> Any:
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return line


def data_of(ax: Any, label: str) -> tuple[np.ndarray, np.ndarray]:
    line = line_of(ax, label)
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


# Convergence


def test_curves_are_the_traces_and_bounds_are_the_theorems() -> None:
    made = runs()
    ax = cz.plot.convergence(made, P)
    labels = ["gradient descent", "Nesterov", "continuized"]
    for number, (r, label) in enumerate(zip(made, labels, strict=True), start=1):
        t, excess = data_of(ax, label)
        np.testing.assert_array_equal(t, r.trace.t)
        np.testing.assert_array_equal(excess, r.trace.fun - P.f_star)
        at = {"t": r.trace.t} if label == "continuized" else {"k": r.trace.k}
        x, bound = data_of(ax, f"bound, Theorem {number}")
        np.testing.assert_array_equal(x, r.trace.t)
        np.testing.assert_allclose(bound, cz.theory.bound(r.method, P, X0, **at), rtol=1e-12)
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "log")
    assert ax.get_xlim() == (0.0, max(r.trace.t[-1] for r in made))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        line.get_label() for line in ax.lines
    ]


def test_a_newcomers_figure_is_three_lines() -> None:
    """Three methods on one's own function, whose minimum nobody was told, with bounds."""

    def fun(x: np.ndarray) -> float:
        return float(np.sum(np.log(np.cosh(x - 1.0))) + 0.05 * x @ x)

    def jac(x: np.ndarray) -> np.ndarray:
        return np.tanh(x - 1.0) + 0.1 * x

    x0 = np.full(5, 4.0)

    p = cz.Problem(fun, jac, L=1.1, mu=0.1)
    made = [cz.minimize(p, x0, method=m, maxiter=30, rng=0) for m in METHODS]
    ax = cz.plot.convergence(made, p)

    assert p.x_star is None  # what was found is not written into the user's object
    assert len(ax.lines) == 6
    import scipy.optimize

    best = scipy.optimize.minimize(fun, x0, jac=jac, method="BFGS", options={"gtol": 1e-12})
    for r, label in zip(made, ("gradient descent", "Nesterov", "continuized"), strict=True):
        _, excess = data_of(ax, label)
        far = r.trace.fun - best.fun > 1e-6
        np.testing.assert_allclose(excess[far], (r.trace.fun - best.fun)[far], rtol=1e-6)
    _, bound = data_of(ax, "bound, Theorem 1")
    first = 0.55 * np.sum((x0 - best.x) ** 2)  # L/2 |x_0 - x*|^2, and mu / L = 1/11
    np.testing.assert_allclose(bound, first * (10 / 11) ** np.arange(31), rtol=1e-5)


def test_names_are_those_given_and_lines_of_one_method_differ() -> None:
    made = {
        f"L = {L:g}": cz.minimize(P, X0, method=cz.Continuized(L, P.mu), maxiter=20, rng=0)
        for L in (1.0, 2.0, 4.0)
    }
    ax = cz.plot.convergence(made, P)
    shown = [line_of(ax, name) for name in made]
    assert len({line.get_marker() for line in shown}) == 3
    assert len({line.get_color() for line in shown}) == 3


def test_without_a_problem_f_is_above_the_lowest_seen() -> None:
    made = runs()
    lowest = min(r.trace.fun.min() for r in made)
    ax = cz.plot.convergence(made)
    assert [line.get_label() for line in ax.lines] == [
        "gradient descent",
        "Nesterov",
        "continuized",
    ]
    for r, line in zip(made, ax.lines, strict=True):
        above = r.trace.fun - lowest
        np.testing.assert_array_equal(line.get_ydata(), np.where(above > 0.0, above, np.nan))
    assert "lowest seen" in ax.get_ylabel()


def test_with_noise_only_theorem_6_is_drawn() -> None:
    noise = cz.noise.Gaussian(1e-4)
    made = runs(noise=noise)
    ax = cz.plot.convergence(made, P)
    _, bound = data_of(ax, "bound, Theorem 6")
    wanted = cz.theory.bound(made[2].method, P, X0, t=made[2].trace.t, sigma2=noise.sigma2(3))
    np.testing.assert_allclose(bound, wanted, rtol=1e-12)
    assert len(ax.lines) == 4


def test_no_bound_is_drawn_where_no_theorem_speaks() -> None:
    """Constants found on the way, constants that do not hold, and methods of one's own."""
    adaptive = cz.minimize(PLANE.fun, [1.0, 1.0], PLANE.grad, maxiter=20, rng=0)
    with pytest.warns(cz.ConstantsWarning):
        wrong = cz.minimize(P, X0, method=cz.Nesterov(1.0, 0.5), maxiter=20)
    own = cz.CustomContinuized(*[lambda t: 0.3] * 2, lambda t: 1.0, lambda t: 1.0)
    custom = cz.minimize(P, X0, method=own, maxiter=20, rng=0)
    for r, problem in ((adaptive, PLANE), (wrong, P), (custom, P)):
        assert len(cz.plot.convergence(r, problem).lines) == 1


def test_with_a_prox_the_minimum_is_that_of_the_sum() -> None:
    prox, p = cz.prox.L1(0.1), cz.problems.Quadratic([1.0, 0.1], [1.0, 1.0])
    r = cz.minimize(p, [0.0, 0.0], L=1.0, mu=0.1, prox=prox, maxiter=60, rng=0)
    ax = cz.plot.convergence(r, p)
    # By hand: x1 = 0.9, x2 = 0, and F there.
    least = 0.5 * 0.1**2 + 0.05 * 1.0 + 0.1 * 0.9
    far = r.trace.fun - least > 1e-8
    np.testing.assert_allclose(data_of(ax, "continuized")[1][far], (r.trace.fun - least)[far],
                               rtol=1e-3, atol=1e-10)  # fmt: skip
    wanted = cz.theory.bound(r.method, p, [0.0, 0.0], t=r.trace.t, prox=prox)
    np.testing.assert_allclose(data_of(ax, "bound, Theorem 3")[1], wanted, rtol=1e-9)


@pytest.mark.slow  # it compiles
def test_marked_methods_are_drawn_against_passes() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5))
    p = cz.problems.LeastSquares(X, X @ np.ones(5) + 0.1, l2=0.1)
    marked = cz.minimize(p, np.zeros(5), method=cz.CoordinateDescent(), maxiter=100, rng=0)
    full = cz.minimize(p, np.zeros(5), maxiter=20, rng=0)
    ax = cz.plot.convergence({"marked": marked, "full": full}, p)
    np.testing.assert_array_equal(data_of(ax, "marked")[0], marked.trace.passes)
    np.testing.assert_array_equal(data_of(ax, "full")[0], full.trace.passes)
    assert ax.get_xlabel() == "passes over the data"
    wanted = cz.theory.bound(full.method, p, np.zeros(5), t=full.trace.t)
    np.testing.assert_allclose(data_of(ax, "bound, Theorem 3")[1], wanted, rtol=1e-9)


def test_the_axis_is_logarithmic_where_no_mu_is_known() -> None:
    p = cz.problems.paper_convex()
    r = cz.minimize(p, np.zeros(100), maxiter=30, rng=0)
    assert cz.plot.convergence(r, p).get_xscale() == "log"
    assert cz.plot.convergence(r, p, scale="linear").get_xscale() == "linear"


def test_the_start_of_z_is_in_the_bound() -> None:
    z0 = np.array([2.0, -1.0, 0.5])
    r = cz.minimize(P, X0, z0=z0, maxiter=20, rng=0)
    wanted = cz.theory.bound(r.method, P, X0, t=r.trace.t, z0=z0)
    bound = data_of(cz.plot.convergence(r, P), "bound, Theorem 3")[1]
    np.testing.assert_allclose(bound, wanted, rtol=1e-12)
    assert not np.allclose(bound, cz.theory.bound(r.method, P, X0, t=r.trace.t))
    e = cz.ensemble(P, r.method, X0, z0=z0, runs=4, times=TIMES, rng=0)
    bound = data_of(cz.plot.convergence(e, P), "bound, Theorem 3")[1]
    np.testing.assert_allclose(bound, cz.theory.bound(r.method, P, X0, t=TIMES, z0=z0), rtol=1e-12)


def test_the_sharp_constants_have_theorem_B() -> None:
    r = cz.minimize(P, X0, method="sharp", maxiter=20, rng=0)
    bound = data_of(cz.plot.convergence(r, P), "bound, Theorem B")[1]
    np.testing.assert_allclose(bound, cz.theory.bound(r.method, P, X0, t=r.trace.t), rtol=1e-12)
    near = cz.problems.Quadratic([1.0, 0.5], [1.0, 1.0])  # L / mu = 2: it says nothing
    assert len(cz.plot.convergence(cz.minimize(near, [0.0, 0.0], method="sharp", maxiter=9, rng=0),
                                   near).lines) == 1  # fmt: skip


# Many runs


TIMES = np.linspace(0.0, 30.0, 31)
ENSEMBLE = cz.ensemble(P, cz.Continuized(P.L, P.mu), X0, runs=64, times=TIMES, rng=0)


def test_the_mean_of_an_ensemble_and_its_bound() -> None:
    for draw in (cz.plot.ensemble, cz.plot.convergence):
        ax = draw(ENSEMBLE, P)
        run, limit = ax.lines[:2]
        np.testing.assert_array_equal(run.get_xdata(), TIMES)
        np.testing.assert_array_equal(run.get_ydata(), ENSEMBLE.mean() - P.f_star)
        wanted = cz.theory.bound(cz.Continuized(P.L, P.mu), P, X0, t=TIMES)
        np.testing.assert_allclose(limit.get_ydata(), wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("problem", "least"),
    [(P, P.f_star), (None, np.min(ENSEMBLE.fun))],
    ids=["above the minimum", "above the lowest seen"],
)
def test_an_ensemble_shows_its_quantiles(problem: Any, least: float) -> None:
    ax = cz.plot.ensemble(ENSEMBLE, problem)
    np.testing.assert_allclose(data_of(ax, "median")[1], ENSEMBLE.quantile(0.5) - least)
    bands = {part.get_label(): part.get_paths()[0].vertices for part in ax.collections}
    for label, low, high in (("90 % of the runs", 0.05, 0.95), ("50 % of the runs", 0.25, 0.75)):
        at = bands[label][:, 0] == TIMES[10]
        ends = ENSEMBLE.quantile([low, high])[:, 10] - least
        np.testing.assert_allclose(np.sort(np.unique(bands[label][at, 1])), ends)


def test_an_ensemble_of_events_has_no_bound_on_its_mean() -> None:
    """Theorem 5 bounds a weighted mean."""
    e = cz.ensemble(P, cz.Continuized(P.L, P.mu), X0, runs=8, steps=10, rng=0)
    ax = cz.plot.ensemble(e, P)
    assert [line.get_label() for line in ax.lines] == ["mean of 8 runs", "median"]
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), np.arange(11))
    means = cz.ensemble(P, cz.Continuized(P.L, P.mu), X0, runs=8, times=TIMES, rng=0, keep="mean")
    np.testing.assert_array_equal(cz.plot.convergence(means, P).lines[0].get_xdata(), TIMES)


# Phi, rates and paths


@pytest.fixture(scope="module")
def recorded() -> Any:
    return cz.minimize(PLANE, [-3.0, 0.6], maxiter=12, rng=3, record="path")


def test_phi_is_drawn_on_both_sides_of_every_jump(recorded: Any) -> None:
    phi = cz.theory.lyapunov(recorded, PLANE)
    ax = cz.plot.lyapunov(recorded, PLANE)
    t, values = data_of(ax, r"$\varphi_t\,/\,\varphi_0$")
    there = ~np.isnan(t)
    inner = np.isin(t, recorded.trace.t, invert=True) & there
    np.testing.assert_allclose(values[inner], phi.at(t[inner]) / phi.phi[0], rtol=1e-12)
    at, jumps = data_of(ax, "jumps")
    before, after = jumps[0::3], jumps[1::3]
    np.testing.assert_array_equal(at[0::3], recorded.trace.t[1:])
    np.testing.assert_allclose(before, phi.at(recorded.trace.t[1:], side="left") / phi.phi[0])
    np.testing.assert_allclose(after, phi.phi[1:] / phi.phi[0])


def test_rates_are_those_of_the_theorems() -> None:
    kappas = np.geomspace(2.0, 1e6, 7)
    ax = cz.plot.rates(kappas)
    wanted = {
        "gradient descent": -np.log1p(-1.0 / kappas),
        "Nesterov": -np.log1p(-(kappas**-0.5)),
        "continuized": kappas**-0.5,
        "sharp": np.where(kappas >= 6.5, np.sqrt(2.0 / kappas), np.nan),
    }
    for label, rate in wanted.items():
        at, drawn = data_of(ax, label)
        np.testing.assert_array_equal(at, kappas)
        np.testing.assert_allclose(drawn, rate, rtol=1e-9)


def test_a_path_is_drawn_where_it_is_before_and_after_every_event(recorded: Any) -> None:
    ax = cz.plot.path(recorded, PLANE)
    t = recorded.trace.t
    for name, i in (("x", 0), ("z", 1)):
        before = np.array(recorded.at(t[1:], side="left")[i])
        after = recorded.path[2 + i]
        drift = np.column_stack(data_of(ax, f"${name}_t$ between events"))
        jump = np.column_stack(data_of(ax, f"${name}_t$ at an event"))
        np.testing.assert_array_equal(drift[0::3], after[:-1])
        np.testing.assert_array_equal(drift[1::3], before)
        np.testing.assert_array_equal(jump[0::3], before)
        np.testing.assert_array_equal(jump[1::3], after[1:])
        assert np.isnan(drift[2::3]).all()
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    for part in (recorded.path.x, recorded.path.z):
        assert np.all((part[:, 0] > low) & (part[:, 0] < high))
        assert np.all((part[:, 1] > bottom) & (part[:, 1] < top))
    np.testing.assert_array_equal(np.column_stack(data_of(ax, r"$x_{\star}$")), [[0.0, 0.0]])


@pytest.mark.parametrize("kind", ["picture", "film"])
def test_names_do_not_lie_on_a_flat_path(kind: str) -> None:
    flat = cz.problems.Quadratic([1.0, 0.1], [1.3, 1.0])
    r = cz.minimize(flat, [0.0, 0.0], maxiter=20, rng=0, record="path")
    if kind == "picture":
        figure = cz.plot.path(r, flat).figure
    else:
        figure = make_film(r, flat, (0, 1), 1.0, 5.0).figure
    (ax,) = figure.axes
    left, right, bottom, top = *ax.get_xlim(), *ax.get_ylim()
    assert right - left > 3.5 * (top - bottom)  # it is flat
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} >= {"start", r"$x_{\star}$"}
    within = legend.get_window_extent()
    assert not within.overlaps(ax.get_window_extent())
    assert within.y0 >= 0.0


def test_contours_are_level_lines_of_the_problem(recorded: Any) -> None:
    ax = cz.plot.path(recorded, PLANE)
    (contours,) = [part for part in ax.collections if hasattr(part, "levels")]
    for path in contours.get_paths():
        if len(path.vertices) > 20:
            values = PLANE.values(path.vertices)
            assert np.ptp(values) < 0.05 * values.max()  # to the size of the grid


def test_other_coordinates_and_discrete_methods() -> None:
    r = cz.minimize(P, X0, maxiter=10, rng=0, record="path")
    ax = cz.plot.path(r, P, coordinates=(2, 0))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("coordinate 2", "coordinate 0")
    drift = np.column_stack(data_of(ax, "$x_t$ between events"))
    np.testing.assert_array_equal(drift[0::3], r.path.x[:-1, [2, 0]])
    plain = cz.minimize(P, X0, method="gradient-descent", maxiter=10, record="path")
    ax = cz.plot.path(plain)
    assert [line.get_label() for line in ax.lines] == ["$x_k$", "start"]
    np.testing.assert_array_equal(np.column_stack(data_of(ax, "$x_k$")), plain.path.x[:, :2])


def test_a_frame_shows_where_the_process_is(recorded: Any) -> None:
    film = make_film(recorded, PLANE, (0, 1), 1.0, 5.0)
    (ax,) = film.figure.axes
    times = np.linspace(0.0, recorded.trace.t[-1], 5)
    for frame in (0, 3, 4):
        film.move(frame)
        for name, state in zip("xz", recorded.at(times[frame]), strict=True):
            np.testing.assert_array_equal(np.ravel(data_of(ax, f"${name}_t$")), state)
        past = int(np.sum(recorded.trace.t[1:] <= times[frame]))
        assert ax.get_title().endswith(f"{past} gradient{'' if past == 1 else 's'}")
        trail = np.column_stack([ax.lines[0].get_xdata(), ax.lines[0].get_ydata()])
        assert len(trail) == 2 + 2 * past
        np.testing.assert_array_equal(trail[-1], recorded.at(times[frame])[0])


def test_a_frame_is_the_figure_drawn_anew(recorded: Any) -> None:
    """What stands still is drawn once; the pixels are those of a figure drawn as a whole."""
    film = make_film(recorded, PLANE, (0, 1), 1.0, 5.0)
    frames = []
    for frame in (4, 2):
        film.move(frame)
        pixels = io.BytesIO()
        film.savefig(pixels, format="rgba", dpi=100)
        frames.append(np.frombuffer(pixels.getvalue(), np.uint8).astype(float))
    for artist in film.moving:
        artist.set_animated(False)
    film.canvas.draw()
    whole = np.asarray(film.canvas.buffer_rgba(), float).ravel()
    # But for edges of what lies above the moving parts in the one and below them in the other.
    assert np.mean(np.abs(frames[1] - whole) > 8) < 2e-3 < np.mean(np.abs(frames[0] - whole) > 8)


@pytest.mark.parametrize("ending", ["gif", "html"])
def test_an_animation_is_a_whole_file(recorded: Any, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"run.{ending}"
    assert cz.plot.animate(recorded, path, PLANE, seconds=0.3, fps=10.0) == path
    assert list(tmp_path.iterdir()) == [path]
    if ending == "gif":
        from PIL import Image

        with Image.open(path) as picture:
            assert picture.n_frames == 3
        return
    page = path.read_text(encoding="utf-8")
    assert page.count("data:image/png;base64") == 3
    assert not re.search(r"https?://|<link|class=\"fa|<i ", page)  # it fetches nothing


STAND_IN = """#!/bin/sh
# Reads frames as ffmpeg does, and writes their pixels and how it was called.
for last; do true; done
cat > "$last"
echo "$@" > "$(dirname "$0")/called"
"""


def test_mp4_gets_all_frames_of_an_even_size(
    recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program in the place of ffmpeg that keeps what it is given."""
    import matplotlib

    program = tmp_path / "ffmpeg"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    monkeypatch.setitem(matplotlib.rcParamsDefault, "animation.ffmpeg_path", str(program))
    monkeypatch.setitem(matplotlib.rcParams, "animation.ffmpeg_path", str(program))
    path = cz.plot.animate(recorded, tmp_path / "run.mp4", PLANE, seconds=0.3, fps=10.0)
    called = (tmp_path / "called").read_text().split()
    width, height = map(int, called[called.index("-s") + 1].split("x"))
    assert width % 2 == height % 2 == 0  # or players do not show it
    assert path.stat().st_size == 3 * width * height * 4


def test_mp4_is_written_or_the_program_is_named(
    recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.animation import FFMpegWriter

    if FFMpegWriter.isAvailable():
        path = cz.plot.animate(recorded, tmp_path / "run.mp4", seconds=0.3, fps=10.0)
        assert path.read_bytes()[4:8] == b"ftyp"  # as every MP4 begins
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    with pytest.raises(ValueError, match=r"an \.mp4 needs the program ffmpeg"):
        cz.plot.animate(recorded, tmp_path / "run.mp4")


# Networks


def test_the_scale_of_colours_holds_the_nodes_and_shows_who_is_beyond() -> None:
    """All mass at one node: at the start the others are no blot, in the end all look alike."""
    x0 = np.zeros(36)
    x0[0] = 36.0
    r = cz.network.simulate("grid:6x6", x0, tol=1e-10, rng=0, snapshots=[0.0, 60.0])
    ends = {}
    for t in (0.0, 60.0, None):
        ax = cz.plot.network(r, t=t)
        ends[t] = ax.collections[-1].get_clim()[1] - 1.0
        extend = ax.child_axes[0]._colorbar.extend
        assert extend == ("neither" if t is None else "max")
    assert ends[0.0] == 1.0
    assert ends[60.0] == pytest.approx(np.quantile(np.abs(r.snapshots[60.0] - 1.0), 0.95))
    assert ends[None] == pytest.approx(0.02 * np.std(x0))


def test_the_error_of_networks_is_drawn_against_exchanges() -> None:
    x0 = np.arange(9.0)
    names = ("plain", "accelerated")
    found = {m: cz.network.simulate("grid:3x3", x0, method=m, rng=0) for m in names}
    ax = cz.plot.convergence({"one": found["plain"], "two": found["accelerated"]})
    for name, run in zip(("one", "two"), found.values(), strict=True):
        messages, error = data_of(ax, name)
        np.testing.assert_array_equal(messages, run.trace.messages[1:])
        np.testing.assert_array_equal(error, run.trace.error[1:])
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_xlabel()) == ("log", "log", "exchanges")
    ax = cz.plot.convergence(found["plain"], scale="linear")
    assert [line.get_label() for line in ax.lines] == ["plain"]
    assert ax.get_xscale() == "linear"


def test_a_network_is_drawn_with_its_values_and_its_dead() -> None:
    faults = cz.network.Faults(deaths=((5.0, 3), (50.0, 7)))
    x0 = np.arange(9.0)
    r = cz.network.simulate("grid:3x3", x0, rng=0, snapshots=[20.0], faults=faults, tol=1e-12)
    for t, dead in ((20.0, [3]), (None, [3, 7])):
        ax = cz.plot.network(r, t=t)
        crosses, nodes = ax.collections[-2:]
        x = r.x if t is None else r.snapshots[t]
        living = np.setdiff1d(np.arange(9), dead)
        np.testing.assert_array_equal(nodes.get_array(), x[living])
        assert len(crosses.get_offsets()) == len(dead)
        low, high = nodes.get_clim()
        assert low + high == pytest.approx(8.0)  # the mean of the start is the middle
        reach = np.quantile(np.abs(x[living] - 4.0), 0.95)
        assert high - 4.0 == pytest.approx(max(reach, 0.02 * np.std(x0)))
        edges = sum(len(part.get_segments()) for part in ax.collections[:2])
        assert edges == len(r.graph.edges)
        at_dead = np.isin(r.graph.edges, dead).any(axis=1).sum()
        assert len(ax.collections[1].get_segments()) == at_dead


def test_vectors_are_drawn_by_distances() -> None:
    rng = np.random.default_rng(0)
    r = cz.network.simulate("path:4", rng.normal(size=(4, 2)), rng=0, events=3)
    nodes = cz.plot.network(r).collections[-1]
    wanted = np.linalg.norm(r.x - r.x0.mean(axis=0), axis=1)
    np.testing.assert_allclose(nodes.get_array(), wanted)


@pytest.mark.slow  # it compiles
def test_optimisation_is_drawn_by_distances() -> None:
    parts = cz.network.split(cz.problems.LeastSquares(np.eye(3), [1.0, 2.0, 3.0], l2=0.1), 3)
    made = cz.network.minimize("path:3", parts, method=cz.network.Dual(), events=5, rng=0)
    nodes = cz.plot.network(made).collections[-1]
    wanted = np.linalg.norm(made.x - made.agreed, axis=1)
    np.testing.assert_allclose(nodes.get_array(), wanted)


# What all pictures have in common


def pictures() -> dict[str, Any]:
    r = cz.minimize(PLANE, [-3.0, 0.6], maxiter=5, rng=3, record="path")
    outcome = cz.network.simulate("path:3", [1.0, 0.0, 0.0], rng=0)
    return {
        "convergence": lambda **on: cz.plot.convergence(runs(steps=5), P, **on),
        "path": lambda **on: cz.plot.path(r, PLANE, **on),
        "lyapunov": lambda **on: cz.plot.lyapunov(r, PLANE, **on),
        "ensemble": lambda **on: cz.plot.ensemble(ENSEMBLE, P, **on),
        "network": lambda **on: cz.plot.network(outcome, **on),
        "rates": lambda **on: cz.plot.rates([2.0, 10.0], **on),
    }


PICTURES = pictures()


@pytest.mark.parametrize("name", PICTURES)
def test_on_axes_that_are_given_nothing_else_changes(name: str) -> None:
    figure = Figure(figsize=(7.0, 3.0))
    left, right = figure.subplots(1, 2)
    right.plot([1, 2], [3, 4])
    size, place = figure.get_size_inches().tolist(), right.get_position().bounds
    before = (figure.texts[:], figure.get_layout_engine(), right.get_xlim(), len(right.lines))
    assert PICTURES[name](ax=left) is left
    assert figure.axes == [left, right]
    assert figure.get_size_inches().tolist() == size
    assert right.get_position().bounds == place
    assert (
        figure.texts[:],
        figure.get_layout_engine(),
        right.get_xlim(),
        len(right.lines),
    ) == before
    assert left.has_data()


@pytest.mark.parametrize("name", PICTURES)
def test_settings_and_figures_of_pyplot_are_left_alone(name: str) -> None:
    import matplotlib.pyplot as plt

    matplotlib.use("Agg")
    plt.close("all")
    mine = plt.figure()
    with matplotlib.rc_context({"font.size": 17.0, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        ax = PICTURES[name]()
        assert dict(matplotlib.rcParams) == before
        assert ax.figure is not mine
        assert ax.get_facecolor()[:3] == (1.0, 1.0, 1.0)  # our style, not theirs
        ax.figure.canvas.draw()
        for text in (*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label):
            assert text.get_size() < 10.0
            assert text.get_family() == ["STIXGeneral"]
    assert plt.get_fignums() == [mine.number]
    assert plt.gcf() is mine
    plt.close("all")


def test_matplotlib_waits_until_a_picture_is_drawn() -> None:
    code = (
        "import sys, continuized as cz; cz.plot.convergence, cz.plot.path, cz.plot.network; "
        "print('matplotlib' in sys.modules); cz.plot.rates([2.0]); "
        "print('matplotlib' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False", "True", "False"]


def test_a_notebook_shows_a_picture_without_pyplot(recorded: Any) -> None:
    shown = cz.plot.path(recorded, PLANE).figure._repr_png_()
    assert shown.startswith(b"\x89PNG")
    own = Figure()
    assert cz.plot.path(recorded, ax=own.subplots()).figure is own  # as the user's figures are


@pytest.mark.parametrize("name", [*PICTURES, "animate"])
def test_without_matplotlib_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    r = cz.minimize(PLANE, [-3.0, 0.6], maxiter=3, rng=3, record="path")
    with pytest.raises(ImportError, match=r'pip install "continuized\[plot\]"'):
        PICTURES.get(name, lambda: cz.plot.animate(r, "run.gif"))()


def test_lines_differ_in_print_without_colour() -> None:
    """By their markers, or of bounds by their dashes; and the greys of a picture differ."""
    ax = cz.plot.convergence(runs(), P)
    drawn = [line for line in ax.lines if not line.get_label().startswith("bound")]
    bounds = [line for line in ax.lines if line.get_label().startswith("bound")]
    assert len({line.get_marker() for line in drawn}) == 3
    assert {line.get_marker() for line in bounds} == {"None"}
    assert len({str(line._unscaled_dash_pattern) for line in bounds}) == 3
    greys = sorted(float(np.dot(to_rgb(s.color), [0.299, 0.587, 0.114])) for s in
                   (style.STYLES[name] for name in METHODS))  # fmt: skip
    assert np.diff(greys).min() > 0.1
    markers = [each.marker for each in style.SPARE]
    assert len(set(markers)) == len(markers)
    from matplotlib import colormaps

    light = colormaps["cividis"](np.linspace(0.0, 1.0, 50))[:, :3] @ [0.299, 0.587, 0.114]
    assert np.all(np.diff(light) > 0.0)


def test_no_marker_is_cut_by_the_border() -> None:
    axes = Figure().add_subplot()
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    t = np.linspace(0.0, 1.0, 11)
    line = lines.Line(
        "a", t, np.where(t < 0.35, 0.0, 0.5), style.STYLES["nesterov"], list(range(11))
    )
    lines.draw_lines(axes, [line])
    assert axes.lines[0].get_markevery() == [4, 5, 6, 7, 8, 9]


# Bad input, in one sentence each


NOT_RECORDED = cz.minimize(P, X0, maxiter=5, rng=0, record=False)
TRACE_ONLY = cz.minimize(P, X0, maxiter=5, rng=0)
MEANS = cz.ensemble(P, cz.Continuized(P.L, P.mu), X0, runs=4, times=TIMES, rng=0, keep="mean")
OUTCOME = cz.network.simulate("path:3", [1.0, 0.0, 0.0], rng=0)
PATH = cz.minimize(P, X0, maxiter=5, rng=0, record="path")
LINE = cz.minimize(cz.problems.Quadratic([1.0]), [1.0], L=2.0, maxiter=3, rng=0, record="path")
BAD = {
    "convergence of a number": (
        lambda: cz.plot.convergence(3.0), TypeError,
        "results must be results of cz.minimize, ensembles, or outcomes of networks, got 3.0"),
    "convergence of nothing": (
        lambda: cz.plot.convergence([]), ValueError, "results must be one or more, got none"),
    "convergence of points": (
        lambda: cz.plot.convergence([np.zeros(3)]), TypeError,
        "results must be results of cz.minimize, ensembles, or outcomes of networks, got "),
    "no trace": (
        lambda: cz.plot.convergence(NOT_RECORDED, P), ValueError,
        "the run was not recorded; call minimize with record=True"),
    "a bad scale": (
        lambda: cz.plot.convergence(TRACE_ONLY, P, scale="lin"), ValueError,
        'scale must be "log", "linear" or None, got \'lin\'; did you mean "linear"?'),
    "a problem that is none": (
        lambda: cz.plot.convergence(TRACE_ONLY, "P"), TypeError,
        "problem must be a Problem, got 'P'"),
    "bounds that are no flag": (
        lambda: cz.plot.convergence(TRACE_ONLY, P, bounds="no"), TypeError,
        "bounds must be True or False, got 'no'"),
    "axes that are none": (
        lambda: cz.plot.convergence(TRACE_ONLY, P, ax="left"), TypeError,
        "ax must be axes of matplotlib or None, got 'left'"),
    "no path": (
        lambda: cz.plot.path(TRACE_ONLY), ValueError,
        'the path was not recorded; call minimize with record="path"'),
    "no path of phi": (
        lambda: cz.plot.lyapunov(TRACE_ONLY, P), ValueError,
        'the path was not recorded; call minimize with record="path"'),
    "coordinates out of range": (
        lambda: cz.plot.path(PATH, coordinates=(0, 3)), ValueError,
        "coordinates must be a coordinate of x from 0 to 2, got 3"),
    "one coordinate": (
        lambda: cz.plot.path(PATH, coordinates=(0,)), ValueError,
        "coordinates must be two integers, got (0,)"),
    "the same twice": (
        lambda: cz.plot.path(PATH, coordinates=(1, 1)), ValueError,
        "coordinates must be two different integers, got (1, 1)"),
    "a line": (
        lambda: cz.plot.path(LINE), ValueError,
        "a path is drawn in two coordinates, but x has one entry only"),
    "only means": (
        lambda: cz.plot.ensemble(MEANS, P), ValueError,
        'quantiles need every run; call ensemble with keep="all"'),
    "no ensemble": (
        lambda: cz.plot.ensemble(PATH, P), TypeError,
        "e must be an ensemble, what cz.ensemble gives, got "),
    "an unknown format": (
        lambda: cz.plot.animate(PATH, "run.avi"), ValueError,
        "out must end in .gif, .html or .mp4, got 'run.avi'"),
    "a format that is none": (
        lambda: cz.plot.animate(PATH, 3), TypeError,
        "out must be the path of a file, got 3"),
    "too long": (
        lambda: cz.plot.animate(PATH, "run.gif", seconds=1e6), ValueError,
        "seconds = 1e+06 at fps = 20 are 20000000 frames; ask for 5000 at most"),
    "no snapshot": (
        lambda: cz.plot.network(OUTCOME, t=3.0), ValueError,
        "there is no snapshot at t = 3, nor any other; call simulate with snapshots="),
    "networks and others": (
        lambda: cz.plot.convergence([PATH, OUTCOME]), ValueError,
        "runs on networks and others have no common axes: draw them apart"),
    "a network with a problem": (
        lambda: cz.plot.convergence(OUTCOME, P), ValueError,
        "the error of a run on a network needs no problem: drop problem="),
    "no outcome": (
        lambda: cz.plot.network(PATH), TypeError,
        "outcome must be what cz.network.simulate, run or minimize gives, got "),
    "a condition number below 1": (
        lambda: cz.plot.rates([0.5]), ValueError,
        "kappas must be finite and > 1, but kappas[0] is 0.5"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(name: str) -> None:
    call, kind, sentence = BAD[name]
    with pytest.raises(kind) as caught:
        call()
    told = str(caught.value)
    assert told.startswith(sentence)
    assert "\n" not in told


def test_an_objective_that_falls_at_once_is_seen_to_fall(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(figures, "to_bytes", lambda drawing, _: kept.append(drawing) or b"")
    trace = SimpleNamespace(fun=np.array([5.0, 5.0, 1.0]), passes=np.array([0.0, 1.0, 2.0]))
    figures.render_objective(trace, "title", "png")
    (line,) = kept[0].axes[0].lines
    assert line.get_ydata().tolist() == [4.0, 4.0, 0.4]
    assert line.get_marker() == "o"


def test_the_bound_of_a_quasar_convex_function_has_its_name() -> None:
    p = cz.problems.Charbonnier(0.5, [0.0, 0.0])
    r = cz.minimize(p, [1.0, 1.0], method=cz.Continuized(p.L, tau=0.5), maxiter=20, rng=0)
    labels = [text.get_text() for text in cz.plot.convergence([r], p).get_legend().get_texts()]
    assert any("quasar-convex" in label for label in labels)
