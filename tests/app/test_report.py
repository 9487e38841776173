"""The report: one self-contained, well-formed, escaped page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from continuized.app import report
from continuized.app.cli import main

VOID = {"meta", "img", "br", "link"}
LOADS = {"src", "href", "data", "action", "poster", "srcset", "background"}


class Reader(HTMLParser):
    """Collects what a browser would load, and the text; checks that tags are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in LOADS]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    out: Path = tmp_path_factory.mktemp("out")
    result = CliRunner().invoke(main, ["reproduce", "--steps", "20", "--out", str(out)])
    assert result.exit_code == 0, result.output
    return (out / "index.html").read_text()


def test_the_page_loads_nothing(page: str) -> None:
    reader = read(page)
    assert len(reader.loads) == 2  # the two figures
    assert all(load.startswith("data:image/svg+xml;base64,") for load in reader.loads)
    assert not {"script", "link", "iframe", "object", "embed"} & set(reader.tags)
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in page


def test_the_pictures_inside_load_nothing(page: str) -> None:
    import base64
    import re

    for load in read(page).loads:
        svg = base64.b64decode(load.partition(",")[2]).decode()
        links = re.findall(r'(?:href|src)="([^"]*)"', svg)
        assert links  # glyphs are drawn by reference
        assert all(link.startswith("#") for link in links)


def test_the_page_has_figures_tables_versions_and_seed(page: str) -> None:
    text = read(page).text
    for words in ("Figure 1", "Figure 2", "bound, Theorem 3", "Seed: 0", "numpy", "Python"):
        assert words in text


def test_text_is_escaped() -> None:
    nasty = "<script>alert('&\"')</script>"
    parts = (
        nasty,
        report.Table((nasty,), ((nasty,),), nasty, numeric=(0,), marks=((0, nasty),)),
        report.Picture(b"<svg></svg>", nasty, nasty),
    )
    made = report.page(nasty, {nasty: parts})
    reader = read(made)
    assert "script" not in reader.tags
    assert reader.text.count(nasty) == 8  # title, h1, h2, p, caption, th, td, figcaption
