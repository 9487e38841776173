"""Imports go one way, and the slow ones wait until they are needed."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "continuized"
SLOW = {"matplotlib", "numba", "numpy", "rich", "scipy", "sklearn"}


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "check_layers.py"), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_every_import_goes_down() -> None:
    result = check(SOURCES)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("process/flow.py", "from continuized.solver.loop import Loop", "process imports solver"),
        ("process/flow.py", "from continuized import theory", "process imports theory"),
        ("problems/base.py", "def f():\n    import continuized.theory", "problems imports theory"),
        ("solver/kernels/loop.py", "from continuized import minimize", "imports the public names"),
        ("marked/kernels/events.py", "from ...solver.loop import Loop", "marked imports solver"),
        ("support/jit.py", "from ..process import clock", "support imports process"),
        ("solver/minimize.py", "import continuized.adapters.sklearn", "solver imports adapters"),
        ("attic.py", "", "'attic' is no layer"),
        ("plot/figures.py", "from continuized.nowhere import x", "no layer"),
    ],
)
def test_a_planted_upward_import_is_found(
    tmp_path: Path, file: str, line: str, complaint: str
) -> None:
    copy = tmp_path / "continuized"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("__pycache__"))
    with open(copy / file, "a") as source:
        source.write(f"\n{line}\n")
    result = check(copy)
    assert result.returncode == 1
    assert complaint in result.stdout


def test_every_package_is_a_layer() -> None:
    layers = runpy.run_path(str(ROOT / "tools" / "check_layers.py"))["LAYERS"]
    assert set(layers) == {path.parent.name for path in SOURCES.glob("*/__init__.py")}
    assert sorted(path.stem for path in SOURCES.glob("*.py")) == ["__init__", "__main__"]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_tables_of_layers_are_the_one_table(page: str) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "check_layers.py"))
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tool["with_table"](text) == text
    wrong = text.replace("| `marked` |", "| `marked`, `process` |")
    assert tool["with_table"](wrong) != wrong


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import continuized", set()),
        ("import continuized.app.cli", set()),
        ("import continuized.adapters", set()),
        ("import continuized.app.commands.reproduce", set()),
        ("import continuized as cz; cz.clock.Poisson(0)", {"numpy"}),
        ("import continuized as cz; cz.problems.read", {"numpy"}),
        ("import continuized as cz; cz.minimize", {"numpy", "scipy", "numba"}),
        ("import continuized.app.figures, continuized.plot.figures", {"numpy", "scipy", "numba"}),
    ],
)
def test_slow_imports_wait(statement: str, allowed: set[str]) -> None:
    code = f"{statement}\nimport sys; print(*(name for name in sys.modules if '.' not in name))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert set(output.split()) & SLOW <= allowed
