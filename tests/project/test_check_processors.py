"""tools/check_processors.py: what it runs, and that it says which kernels a test fails with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.repository_tools import load_tool

PLANTED = """
import os
import pytest

@pytest.mark.blas
def test_planted():
    assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool as a module, on a processor and with a BLAS of the test's own making."""
    module = load_tool("check_processors")
    monkeypatch.setattr(module, "flags", set)
    monkeypatch.setattr(module, "kernels_of", str)
    return module


def test_every_kind_of_kernels_that_can_run_is_run_once(
    tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "flags", lambda: {"sse4_2", "avx2", "fma"})
    # The same kernels for Zen as for Haswell, as in the wheels of NumPy and SciPy.
    monkeypatch.setattr(tool, "kernels_of", lambda added: str(added).replace("Zen", "Haswell"))
    passes = tool.settings()
    assert [*passes] == ["Haswell, 1 thread", "Nehalem, 2 threads"]
    assert passes["Nehalem, 2 threads"] == {
        "OPENBLAS_NUM_THREADS": "2", "OPENBLAS_CORETYPE": "Nehalem",
    }  # fmt: skip
    told = capsys.readouterr().out
    assert "Zen: the same kernels as Haswell\n" in told
    assert told.endswith("this processor does not execute: SkylakeX\n")


def test_a_failure_with_some_kernels_is_a_failure(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tests" / "below"
    folder.mkdir(parents=True)
    (folder / "test_planted.py").write_text(PLANTED, encoding="utf-8")
    (folder / "test_other.py").write_text("raise ValueError\n", encoding="utf-8")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.main(["-n", "0"]) == 1
    told = capsys.readouterr()
    assert "this processor, 2 threads: FAILED in " in told.out
    assert "AssertionError" in told.out
    assert told.err == "the tests of linear algebra fail with: this processor, 2 threads\n"


def test_there_are_marked_tests(tool: Any) -> None:
    assert len(tool.marked_files()) > 10
