"""Writes the explorer beside the page that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def _write(app: Any, error: Exception | None) -> None:
    from continuized.app.explorer.page import build

    if error is None and app.builder.format == "html":
        (Path(app.outdir) / "explorer-page.html").write_text(build(), encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
