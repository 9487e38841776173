"""Fixtures of the tests of checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a run keeps its state."""
    return tmp_path / "run.npz"


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that lets a coming block fail; see `interruptions`."""
    from interrupted import interruptions

    return interruptions(monkeypatch)
