"""Mathematics in running text: formulas of a page or a docstring that are written as text are set.

Code, headings, links and words stay as they are; what a formula is, `text_math` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from text_math import set_formulas

_FENCE = re.compile(r"^(```+|~~~+|\$\$).*?^\1\s*?$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+[^`]*`+|\$[^$\n]+\$|\]\([^)]*\)|</?[a-z][\w-]*(?:\s[^>\n]*)?>)")
_MARKER = re.compile(r"\s*(?:[-*+]\s+|\d+\.\s+)?")
_CELL = re.compile(r"((?<!\\)\|)")


def set_symbols(text: str, write: Callable[[str], str]) -> str:
    """Return the text with its formulas written, outside of code and links.

    A formula may go on in the next line, but not in the next item, paragraph or parameter.
    """
    blocks: list[list[str]] = []
    margin = -1
    for line in text.split("\n"):
        start = _MARKER.match(line)
        assert start is not None
        is_new = not line.strip() or start[0].strip() or start.end() != margin
        margin = start.end() if line.strip() else -1
        if is_new:
            blocks.append([start[0], line[start.end() :]])
        else:
            blocks[-1][1] += "\n" + line
    return "\n".join(marker + _set_block(block, write) for marker, block in blocks)


def _set_block(text: str, write: Callable[[str], str]) -> str:
    parts = _CODE.split(text)
    return "".join(p if _CODE.fullmatch(p) else set_formulas(p, write) for p in parts)


def in_page(text: str) -> str:
    """Return a page of Markdown with formulas."""
    done, end = [], 0
    for fence in _FENCE.finditer(text):
        done += [_in_text(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*done, _in_text(text[end:])])


def _in_text(text: str) -> str:
    """Return text between fences; headings, pictures and what is indented stay."""
    done: list[str] = []
    waiting: list[str] = []

    def flush() -> None:
        if waiting:
            done.append(set_symbols("\n".join(waiting), _write))
            waiting.clear()

    for line in text.split("\n"):
        if line.startswith(("    ", "#", "![")):
            flush()
            done.append(line)
        elif line.startswith("|") and line.rstrip().endswith("|"):
            flush()
            done.append("".join(_in_cell(part) for part in _CELL.split(line)))
        else:
            waiting.append(line)
    flush()
    return "\n".join(done)


def _in_cell(cell: str) -> str:
    """Return a cell of a table, in which a bar is escaped."""
    if cell == "|":
        return cell
    return set_symbols(cell.replace("\\|", "|"), _write).replace("|", "\\|")


def _write(tex: str) -> str:
    return f"${tex.strip()}$"


def _read(_app: Any, _name: str, source: list[str]) -> None:
    source[0] = in_page(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
