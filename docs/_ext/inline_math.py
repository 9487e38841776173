"""Mathematics in running text: x_t and f* in a page or a docstring become formulas.

Pages and docstrings are read as text as well, where `x_t` is as clear as it gets; here it is one
letter with an index or a star that is set as mathematics.  Code, headings and words stay as they
are: an index has one or two characters, or braces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_LETTER = r"[A-Za-zα-ωΓΔΘΛΞΠΣΦΨΩ]"
_INDEX = r"(?:\{[^}\s]+\}|(?:[A-Za-z0-9]|[a-z]{2})(?![A-Za-z0-9]))"
_SYMBOL = re.compile(
    rf"(?<![\w`$\\'’])({_LETTER}'?)_({_INDEX})(?![\w('])|(?<![\w`$*])([fuwxzF])\*(?![\w*])"
)
_FENCE = re.compile(r"^(```+|~~~+|\$\$).*?^\1\s*?$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+[^`]*`+|\$[^$\n]+\$|\]\([^)]*\)|</?[a-z][\w-]*(?:\s[^>\n]*)?>)")


def set_symbols(text: str, write: Callable[[str], str]) -> str:
    """Return the text with its symbols written as formulas, outside of code and links."""

    def one(found: re.Match[str]) -> str:
        letter, index, starred = found.groups()
        return write(f"{starred}_*" if starred else f"{letter}_{{{index.strip('{}')}}}")

    parts = _CODE.split(text)
    return "".join(p if _CODE.fullmatch(p) else _SYMBOL.sub(one, p) for p in parts)


def in_page(text: str) -> str:
    """Return a page of Markdown with formulas."""
    done, end = [], 0
    for fence in _FENCE.finditer(text):
        done += [_in_lines(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*done, _in_lines(text[end:])])


def _in_lines(text: str) -> str:
    lines = text.split("\n")
    plain = ("    ", "#", "![")
    return "\n".join(
        line if line.startswith(plain) else set_symbols(line, lambda tex: f"${tex}$")
        for line in lines
    )


def _read(_app: Any, _name: str, source: list[str]) -> None:
    source[0] = in_page(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
