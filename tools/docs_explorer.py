"""A hook of the documentation: writes the explorer beside the page that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from continuized.app.explorer.page import build


def on_post_build(config: Any, **_: Any) -> None:
    """Write the page into the built folder; `docs/explorer.md` embeds it."""
    (Path(config["site_dir"]) / "explorer-page.html").write_text(build(), encoding="utf-8")
