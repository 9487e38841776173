"""The gallery: every example is short, makes one picture, and shows what its caption says."""

from __future__ import annotations

import doctest
import importlib
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from continuized.app import figures as reproduce
from tests.helpers.repository_tools import load_tool

ROOT = Path(__file__).parents[2]
# Without the studies that make no picture of the gallery, and have tests of their own.
SCRIPTS = {path.stem: path for path in load_tool("make_gallery").scripts(ROOT / "examples")}
PAGE = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
LINES = 60

Made = dict[str, Any]  # the names that a script leaves behind


@pytest.fixture(autouse=True)
def no_windows() -> Iterator[None]:
    matplotlib.use("Agg")
    yield
    plt.close("all")


def made_by(script: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Made:
    monkeypatch.setattr("sys.argv", [str(script), *arguments])
    return runpy.run_path(str(script), run_name="__main__")


def process_in_the_plane(made: Made) -> None:
    """Drifts go along the line between x and z, jumps along the gradient at x."""
    before, after, H = made["before"], made["after"], made["H"]
    for k in range(1, len(after)):
        across = after[k - 1, 1] - after[k - 1, 0]
        for i in (0, 1):
            assert parallel(before[k, i] - after[k - 1, i], across)
            assert parallel(after[k, i] - before[k, i], H @ before[k, 0])


def simplex(made: Made) -> None:
    """All states are on the simplex, x and z reach an edge or come near it, and x comes near x*."""
    for name, path in made["paths"].items():
        assert np.all(path >= -1e-15)
        np.testing.assert_allclose(path.sum(axis=-1), 1.0, rtol=1e-12)
        on_edge = path[1, :, 1].min(axis=-1) == 0.0
        assert np.any(on_edge) == (name == "prox")
        assert np.linalg.norm(path[1, -1, 0] - made["best"]) < 0.2


def parallel(u: Any, v: Any) -> bool:
    return abs(u[0] * v[1] - u[1] * v[0]) <= 1e-12 * (1.0 + np.linalg.norm(u) * np.linalg.norm(v))


def figure1(made: Made) -> None:
    same_as_reproduced(made["found"], number=1)


def figure2(made: Made) -> None:
    same_as_reproduced(made["found"], number=2)


def same_as_reproduced(found: dict[tuple[str, str], Any], number: int) -> None:
    """The data of `continuized reproduce`, bit by bit."""
    panels = reproduce.figures(0)[number - 1].panels
    curves = {(panel.name, c.method): c.excess[1:] for panel in panels for c in panel.curves}
    assert found.keys() == curves.keys()
    for name, excess in curves.items():
        assert np.array_equal(found[name], excess)


def lyapunov(made: Made) -> None:
    """The mean falls; no path always does; most end far below the mean."""
    mean, paths = made["mean"], made["paths"]
    assert np.all(np.diff(mean) < 0.0)
    for t, phi in paths:
        assert mean[0] == pytest.approx(phi[0], rel=1e-12)
        assert np.nanmax(np.diff(phi)) > 0.0
        assert np.nanmax(t) > made["END"]
    ends = [phi[np.nanargmax(np.where(t <= made["END"], t, -1.0))] for t, phi in paths]
    assert np.mean(ends < mean[-1]) > 0.8
    assert np.median(ends) < 0.2 * mean[-1]


def ito_formula(made: Made) -> None:
    """The parts add up, the drift only falls, and most martingales end below their mean, 0."""
    for parts in made["parts"]:
        assert parts.closure < 1e-9
        assert np.all(np.diff(parts.drift) <= 0.0)
    assert sum(parts.martingale[-1] < 0.0 for parts in made["parts"]) > 20


def noise_floor(made: Made) -> None:
    """With its own L the mean rises again; the L for a horizon is better there."""
    own, times = made["own"], made["times"]
    assert own[-1] > 10.0 * own.min()
    for horizon, curve in made["found"].items():
        assert curve[times == horizon] < own[times == horizon]


def scaling_limit(made: Made) -> None:
    assert made["found"].rate == pytest.approx(-0.25, abs=0.01)


def mu_to_zero(made: Made) -> None:
    """start=0 tends to the convex process; the paper's parameters come to a halt, and are better
    where mu is right."""
    found, convex = made["found"], made["convex"]
    for axes in made["both"]:
        start = 0.0 if axes.get_title() == "start = $0$" else np.inf
        assert np.array_equal(axes.lines[0].get_ydata(), found[1e-2, start])
    assert found[1e-2, np.inf][-1] < found[1e-2, 0.0][-1]
    assert found[1e-5, 0.0] == pytest.approx(convex, rel=0.05)
    assert found[1e-5, np.inf][-1] > 1e4 * convex[-1]


def coordinate_descent(made: Made) -> None:
    """Each method ends below the one before it, and none below the minimum of a direct solver."""
    last = [excess[-1] for excess in made["found"].values()]
    assert np.all(np.diff(last) < 0.0)
    assert all(excess.min() > -1e-14 for excess in made["found"].values())


def rates(made: Made) -> None:
    """The exact rates are above the certified ones, these above the theorems'; the exact ones
    cross near L/mu = 60."""
    paper, sharp, ratios = made["found"]["paper"], made["found"]["sharp"], made["ratios"]
    assert np.all(paper[made["A"]] > 4.0 / 3.0)
    assert np.all(sharp[made["B"]] > np.sqrt(2.0))
    assert np.all(paper > 1.0)
    for name, least in (("paper", 4.0 / 3.0), ("sharp", np.sqrt(2.0))):
        exact = np.interp(np.log(made["some"]), np.log(ratios), made["found"][name])
        assert np.all((made["proofs"][name] > least) & (made["proofs"][name] < exact + 1e-3))
    assert 40.0 < ratios[made["B"]][np.argmax((paper > sharp)[made["B"]])] < 70.0


def gossip_grid(made: Made) -> None:
    """Both keep the mean; their errors are those of the caption (the seed is fixed)."""
    plain, accelerated = made["found"]["plain"], made["found"]["accelerated"]
    for outcome in (plain, accelerated):
        assert 0.5 * (outcome.x + outcome.z).mean() == pytest.approx(0.5, rel=1e-12)
    assert plain.error == pytest.approx(0.3, abs=0.01)
    assert accelerated.error < 1e-5


def logistic_regression(made: Made) -> None:
    """In the metric, the median takes less than half the gradients of L-BFGS to 1e-8; without, it
    is Nesterov's within a factor of three."""
    assert made["solved"].success
    bfgs, _, nesterov, median, in_the_metric = made["found"].values()
    reached = [int(np.argmax(excess <= 1e-8)) for excess in (in_the_metric, bfgs)]
    assert 0 < reached[0] < 0.5 * reached[1]
    assert np.all(np.abs(np.log(median / nesterov)) < np.log(3.0))


SHOWN = {
    check.__name__: check
    for check in (
        coordinate_descent, figure1, figure2, gossip_grid, ito_formula, logistic_regression,
        lyapunov, mu_to_zero, noise_floor, process_in_the_plane, rates, scaling_limit, simplex,
    )
}  # fmt: skip


def test_every_example_is_checked() -> None:
    assert SHOWN.keys() == SCRIPTS.keys()


LONG = (
    "ito_formula",
    "logistic_regression",
    "lyapunov",
    "mu_to_zero",
    "noise_floor",
    "rates",
    "scaling_limit",
)
NEEDS = {"rates": ["cvxpy"]}


def marks_of(name: str) -> list[pytest.MarkDecorator]:
    slow = [pytest.mark.slow] if name in LONG else []
    return [*slow, pytest.mark.needs(*NEEDS[name])] if name in NEEDS else slow


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks_of(name)) for name in SHOWN],
)
def test_an_example_makes_its_picture(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = dict(matplotlib.rcParams)
    made = made_by(SCRIPTS[name], monkeypatch, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.png"]
    picture = plt.imread(tmp_path / f"{name}.png")
    assert picture.shape[1] >= 1000
    assert picture[..., :3].std() > 0.05  # not blank
    assert dict(matplotlib.rcParams) == settings
    SHOWN[name](made)


def test_the_folder_is_the_current_one_unless_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made_by(SCRIPTS["scaling_limit"], monkeypatch)
    assert [path.name for path in tmp_path.iterdir()] == ["scaling_limit.png"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_is_short_and_says_what_it_makes(name: str) -> None:
    text = SCRIPTS[name].read_text(encoding="utf-8")
    assert len(text.splitlines()) < LINES
    assert f"`python examples/{name}.py [FOLDER]`; makes FOLDER/{name}.png." in text


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_page_shows_an_example(name: str) -> None:
    assert f"(gallery/{name}.png)" in PAGE
    assert f"`examples/{name}.py`" in PAGE


def test_the_page_shows_nothing_else() -> None:
    shown = set(re.findall(r"\]\(gallery/(\w+)\.png\)", PAGE))
    kept = {path.stem for path in ROOT.glob("docs/gallery/*")}
    assert shown == kept == SCRIPTS.keys()
    for path in re.findall(r"`(examples/\w+\.py)`", PAGE):
        assert (ROOT / path).is_file()


@pytest.mark.parametrize("name", ["delay_study", "stale_gradients"])
def test_the_docstrings_of_a_study_show_what_it_gives(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"examples.{name}"))
    assert found.attempted > 0
    assert found.failed == 0
