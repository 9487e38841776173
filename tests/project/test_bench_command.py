"""`python -m benchmarks`: what it prints and writes, and what it refuses."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import SUITES, pictures
from benchmarks.__main__ import command
from benchmarks.outcome import (
    ABSENT,
    AT_LEAST,
    FAILED,
    TIMED,
    Contest,
    Curve,
    Entry,
    Panel,
    Suite,
)
from continuized.plot import style as plot

CONTEST = Contest(
    "some work",
    "s",
    (
        Entry("continuized", TIMED, 2e-3),
        Entry("quicker", TIMED, 1e-3),
        Entry("slower", AT_LEAST, 1.0, "given up at 1e-2"),
        Entry("missing", ABSENT, words="missing is not installed"),
        Entry("broken", FAILED, words="TypeError: no"),
    ),
    "A note.",
)
CURVES = tuple(
    Curve(name, np.arange(1.0, 1000.0), np.exp(-np.arange(1.0, 1000.0) / scale))
    for name, scale in (("continuized", 10.0), ("quicker", 5.0))
)


@pytest.fixture
def canned(monkeypatch):
    """Every suite gives the contest above; returns the sizes they were asked for."""
    asked = []
    for name in SUITES:
        module = importlib.import_module(f"benchmarks.{name}")

        def run(size, say, name=name):
            asked.append((name, size))
            say("at work")
            return Suite([CONTEST], [Panel(name, "gradients", CURVES)])

        monkeypatch.setattr(module, "run", run)
    return asked


def invoke(*arguments):
    return CliRunner().invoke(command, list(map(str, arguments)))


def test_our_losses_stand_in_the_table_like_our_wins(canned):
    result = invoke("--suite", "loop", "--quick")
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line.split()}
    assert "0.50" in rows["quicker"]
    assert "1.00 ms" in rows["quicker"]
    assert "> 500" in rows["slower"]
    assert "missing is not installed" in rows["missing"]
    assert "failed: TypeError: no" in rows["broken"]
    assert "Less than ours in 1 of 2 comparisons:\n- some work: quicker" in result.stdout
    assert "numpy" in result.stdout


def test_all_suites_by_default_and_quick_ones_with_quick(canned):
    assert invoke().exit_code == 0
    assert [name for name, _ in canned] == list(SUITES)
    full = dict(canned)
    canned.clear()
    assert invoke("--quick").exit_code == 0
    assert all(size != full[name] for name, size in canned)


def test_json_is_one_object(canned):
    result = invoke("--suite", "ensemble", "--json")
    answer = json.loads(result.stdout, parse_constant=pytest.fail)
    (contest,) = answer["suites"]["ensemble"]
    assert [e["times_ours"] for e in contest["entries"]] == [1.0, 0.5, 500.0, None, None]
    assert [e["status"] for e in contest["entries"]][2:] == [AT_LEAST, ABSENT, FAILED]
    assert answer["machine"]["versions"]["continuized"]
    assert result.stderr == ""


def test_markdown_is_a_table(canned):
    lines = invoke("--suite", "gossip", "--markdown").stdout.splitlines()
    assert lines[1] == "|---|---|---:|---|"
    assert "| some work | continuized | 1.00 | |" in lines
    assert "| | quicker | 0.50 | |" in lines
    assert "| | slower | > 500 | given up at 1e-2 |" in lines
    assert lines.count("- A note.") == 1


@pytest.mark.parametrize(
    "low", [0.37, *[pytest.param(a, marks=pytest.mark.slow) for a in (0.11, 0.92)]]
)
@pytest.mark.parametrize("factor", [1.5, 2.0, 3.0, 6.0, 12.0, 40.0, 1e4])
def test_the_numbers_on_the_axes_do_not_overlap(low, factor):
    along = np.geomspace(low, factor * low, 9)
    panel = Panel("title", "seconds", (Curve("ours", along, 1.0 / along),))
    with plot.settings():
        drawing = pictures.draw([panel, panel])
        drawing.draw_without_rendering()
        for axis in (drawing.axes[0].xaxis, drawing.axes[0].yaxis):
            low_end, high_end = axis.get_view_interval()
            ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
            boxes = [
                tick.label1.get_window_extent()
                for tick in ticks
                if tick.label1.get_text() and low_end <= tick.get_loc() <= high_end
            ]
            assert len(boxes) >= 2
            for i, box in enumerate(boxes):
                assert not any(box.overlaps(other) for other in boxes[:i])


def test_out_has_the_report_the_tables_and_the_pictures(canned, tmp_path):
    assert invoke("--suite", "loop", "--out", tmp_path / "new").exit_code == 0
    written = {path.name: path for path in (tmp_path / "new").iterdir()}
    assert set(written) == {"bench.md", "bench.json", "index.html", "loop.png", "loop.svg"}
    assert written["index.html"].read_text().count("data:image/svg+xml") == 1
    assert json.loads(written["bench.json"].read_text())["suites"]["loop"]
    assert written["loop.png"].read_bytes().startswith(b"\x89PNG")


def test_the_same_curves_give_the_same_picture():
    panels = [Panel("one", "gradients", CURVES), Panel("two", "seconds", CURVES[1:])]
    assert pictures.render(panels, ("svg",)) == pictures.render(panels, ("svg",))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--json", "--markdown"], "exclude each other"),
        (["--suite", "loop", "--data", "two.svm"], "--data is for the suite logistic"),
        (["--suite", "logistic", "--data", "three.svm"], "needs two labels, got 3"),
        (["--suite", "logistic", "--data", "none.svm"], "none.svm"),
        (["--suite", "logistic", "--data", "bad.svm"], "bad.svm"),
        (["--suite", "all", "--out", "two.svm"], "two.svm"),
        (["--suite", "everything"], "everything"),
    ],
)
def test_bad_input_is_refused_before_the_work(canned, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("two.svm").write_text("1 1:2\n-1 1:3\n")
    Path("three.svm").write_text("1 1:2\n2 1:3\n3 1:1\n")
    Path("bad.svm").write_text("not a number\n")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert canned == []
