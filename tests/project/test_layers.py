"""Imports go one way, and the slow ones wait until they are needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.repository_tools import load_tool

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "continuized"
SLOW = {"matplotlib", "numba", "numpy", "rich", "scipy", "sklearn"}
TOOL = load_tool("check_layers")


def test_every_import_goes_down() -> None:
    assert list(TOOL.violations(SOURCES)) == []


def test_what_is_found_is_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "process").mkdir()
    for line, code in (("import continuized.support", 0), ("import continuized.theory", 1)):
        (tmp_path / "process" / "flow.py").write_text(line)
        monkeypatch.setattr("sys.argv", ["check_layers.py", str(tmp_path)])
        assert TOOL.main() == code
        assert ("process imports theory" in capsys.readouterr().out) == bool(code)


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
    for layer in TOOL.LAYERS:
        (tmp_path / layer).mkdir()
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(f"import numpy\n\n{line}\n")
    (found,) = TOOL.violations(tmp_path)
    assert complaint in found


def test_every_package_is_a_layer() -> None:
    assert set(TOOL.LAYERS) == {path.parent.name for path in SOURCES.glob("*/__init__.py")}
    assert sorted(path.stem for path in SOURCES.glob("*.py")) == ["__init__", "__main__"]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_the_tables_of_layers_are_the_one_table(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert TOOL.with_table(text) == text
    wrong = text.replace("| `marked` |", "| `marked`, `process` |")
    assert TOOL.with_table(wrong) != wrong


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
