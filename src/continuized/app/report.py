"""One self-contained page: text, tables, pictures, versions.

    page("Title", {"Heading": ("A paragraph.", Table(...), Picture(...), versions())})

The page asks the network for nothing: its style stands inside it, and pictures are data.
It follows the reader's light or dark setting, and prints in black on white.
"""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple

from continuized import __version__

HERE = Path(__file__).parent


class Table(NamedTuple):
    """Cells of text.  `numeric` are the columns set to the right; `marks` name a class of a
    row ("pass" or "fail"), by its number."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    numeric: tuple[int, ...] = ()
    marks: tuple[tuple[int, str], ...] = ()


class Picture(NamedTuple):
    """An SVG picture.  `alt` says in words what it shows."""

    svg: bytes
    alt: str
    caption: str = ""


Part = str | Table | Picture


def page(title: str, sections: Mapping[str, Iterable[Part]]) -> str:
    """The whole page as HTML, by headings; a string is a paragraph.  All text is escaped."""
    body = ""
    for heading, parts in sections.items():
        shown = "\n".join(map(_part, parts))
        body += f"<section>\n<h2>{escape(heading)}</h2>\n{shown}\n</section>\n"
    template = Template((HERE / "report.html").read_text(encoding="utf-8"))
    style = (HERE / "report.css").read_text(encoding="utf-8")
    return template.substitute(title=escape(title), style=style, body=body, version=__version__)


def versions() -> Table:
    """What a result may depend on: Python, the system, and the libraries with their versions."""
    from importlib import metadata  # slow

    rows = [("continuized", __version__), ("Python", platform.python_version())]
    for name in ("numpy", "scipy", "numba", "matplotlib"):
        try:
            rows.append((name, metadata.version(name)))
        except metadata.PackageNotFoundError:
            rows.append((name, "not installed"))
    rows.append(("system", f"{platform.system()} {platform.machine()}"))
    return Table(("", "version"), tuple(rows))


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    if isinstance(part, Table):
        return _table(part)
    data = base64.b64encode(part.svg).decode()
    caption = f"<figcaption>{escape(part.caption)}</figcaption>" if part.caption else ""
    image = f'<img alt="{escape(part.alt)}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{image}{caption}</figure>"


def _table(table: Table) -> str:
    marks = dict(table.marks)
    lines = ['<div class="wide"><table>']
    if table.caption:
        lines.append(f"<caption>{escape(table.caption)}</caption>")
    head = "".join(_cell("th", cell, i, table) for i, cell in enumerate(table.header))
    lines.append(f"<thead><tr>{head}</tr></thead>\n<tbody>")
    for n, row in enumerate(table.rows):
        cells = "".join(_cell("td", cell, i, table) for i, cell in enumerate(row))
        kind = f' class="{escape(marks[n])}"' if n in marks else ""
        lines.append(f"<tr{kind}>{cells}</tr>")
    lines.append("</tbody></table></div>")
    return "\n".join(lines)


def _cell(tag: str, text: str, column: int, table: Table) -> str:
    number = ' class="number"' if column in table.numeric else ""
    scope = ' scope="col"' if tag == "th" else ""
    return f"<{tag}{scope}{number}>{escape(text)}</{tag}>"
