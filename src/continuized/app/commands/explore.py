"""`continuized explore`: the process in a browser, as one page that needs no network."""

from __future__ import annotations

import tempfile
import webbrowser
from pathlib import Path

import click

from continuized.support import files


@click.command()
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the page here instead."
)
def command(out: Path | None) -> None:
    """Open the explorer: paths, many runs and networks, live in a browser.

    The page holds all that it needs: it asks nothing of any host, and can be sent to others.
    """
    from continuized.app.explorer.page import build

    page = build()
    if out is not None:
        click.echo(f"wrote {files.write(out, page)}")
        return
    folder = Path(tempfile.mkdtemp(prefix="continuized-"))  # kept: the browser reads it later
    path = files.write(folder / "explorer.html", page)
    if not webbrowser.open(path.as_uri()):
        click.echo(f"no browser could be opened; the page is {path}")
        return
    click.echo(f"opened {path}")
