"""`continuized explore`: the page as a file, and in a browser."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from click.testing import CliRunner, Result

from continuized.app.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["explore", *map(str, arguments)])


class Asked(HTMLParser):
    """Collects what a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href")]


def test_one_file_that_asks_for_nothing(tmp_path: Path) -> None:
    result = run("--out", tmp_path / "page.html")
    assert (result.exit_code, result.output) == (0, f"wrote {tmp_path / 'page.html'}\n")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    asked = Asked()
    asked.feed(text)
    assert asked.found == ["data:,"]
    assert "http://" not in text
    assert "https://" not in text


def test_without_a_name_a_browser_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    result = run()
    path = Path(unquote(urlparse(opened[0]).path))
    assert (result.exit_code, result.output) == (0, f"opened {path}\n")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    assert run().output.startswith("no browser could be opened; the page is ")


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    for bad in (tmp_path, tmp_path / "absent" / "page.html"):
        result = run("--out", bad)
        assert result.exit_code == 2
        assert result.stderr.startswith("continuized: ")
        assert result.stderr.count("\n") == 1
