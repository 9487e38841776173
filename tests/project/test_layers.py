"""Imports go one way, and the slow ones wait until they are needed."""

from __future__ import annotations

import re
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
        ("flow.py", "from continuized.process.methods import Method", "flow imports methods"),
        ("clock.py", "from continuized import driver", "clock imports driver"),
        ("problems/base.py", "def f():\n    import continuized.theory", "problems imports theory"),
        ("kernels/loop.py", "from continuized import minimize", "kernels imports __init__"),
        ("kernels/loop.py", "from ..driver import run", "kernels imports driver"),
        ("jit.py", "from . import clock", "jit imports clock"),
        ("minimizer.py", "import continuized.adapters.sklearn", "minimizer imports adapters"),
        ("attic.py", "", "'attic' has no place"),
        ("plot.py", "from continuized.nowhere import x", "no room"),
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


def tabled(page: str) -> list[str]:
    """The rooms in a page's table, from the top."""
    cells = re.findall(r"^\| (`.*?) \|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return [room for cell in cells for room in re.findall(r"`(\w+)`", cell)]


def test_the_tables_of_rooms_are_in_the_order_of_the_imports() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "check_layers.py"))
    rooms = [room for room in tool["ROOMS"] if room != tool["FACE"]]
    there = {path.stem for path in SOURCES.glob("*.py") if path.stem != tool["FACE"]}
    there |= {path.parent.name for path in SOURCES.glob("*/__init__.py")}
    assert set(rooms) == there
    assert tabled("CONTRIBUTING.md") == rooms
    some = tabled("docs/architecture.md")
    assert some == [room for room in rooms if room in some]


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
