"""Docstrings as they stand in the sources, made ready for Sphinx.

They are text: `|x|^2`, x* and x_0 are mathematics and not marks of reStructuredText, single
backticks hold code, and what is indented after a paragraph is a formula or code.
"""

from __future__ import annotations

import re
from typing import Any

from inline_math import set_symbols
from text_math import is_formula, to_latex

_CODE = re.compile(r"(`[^`\n]+(?:\n[^`\n]+)?`)")
_EMPHASIS = re.compile(r"(?<![\w*])\*(\w[^*\n]*\w)\*(?![\w*])")
_ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
_HEADING = re.compile(r"\w[\w ,]*\n-{3,}$", re.MULTILINE)


def convert(docstring: str) -> str:
    """Return a docstring as reStructuredText, with headings where sections begin."""
    paragraphs, section = [], ""
    for paragraph in re.split(r"\n[ \t]*\n", docstring.strip("\n")):
        heading, before = _HEADING.match(paragraph), section
        section = _section_of(paragraph, heading, before)
        end = heading.end() if heading else 0
        is_indented = paragraph.startswith("    ") and section in ("", "Notes")
        if paragraph.lstrip().startswith(">>>"):
            written = paragraph
        elif is_indented:
            written = _display(paragraph)
        else:
            written = paragraph[:end] + _escape(paragraph[end:])
            if section in ("", "Notes"):  # what is indented after it has two colons of its own
                written = re.sub(r"::$", ":", written)
        if section != before and not heading:
            paragraphs.append(f"{section}\n{'-' * len(section)}")
        paragraphs.append(written)
    return "\n\n".join(paragraphs)


def _display(paragraph: str) -> str:
    """Return what is indented as a formula, or as it stands if it is none."""
    lines = [line.strip() for line in paragraph.split("\n")]
    try:
        if not all(is_formula(chunk) for line in lines for chunk in line.split()):
            raise ValueError("words")
        rows = [f"& {to_latex(line)}" for line in lines]
    except ValueError:
        return f"::\n\n{paragraph}"
    body = " \\\\\n    ".join(rows)
    return f".. math::\n\n    \\begin{{align*}}\n    {body}\n    \\end{{align*}}"


def _section_of(paragraph: str, heading: re.Match[str] | None, before: str) -> str:
    """Return the section of a paragraph, after one of the section `before`.

    Examples stand without a heading, and so do remarks after the parameters.
    """
    if heading:
        return heading[0].partition("\n")[0]
    if paragraph.startswith(">>>"):
        return "Examples"
    is_remark = before not in ("", "Examples", "Notes") and not paragraph.startswith(" ")
    return "Notes" if is_remark else before


def _escape(text: str) -> str:
    parts = _CODE.split(text)
    return "".join(_as_code(p) if p.startswith("`") and len(p) > 2 else _plain(p) for p in parts)


def _as_code(part: str) -> str:
    return f"``{' '.join(part[1:-1].split())}``"


def _plain(text: str) -> str:
    formulas: list[str] = []

    def keep(tex: str) -> str:
        formulas.append(tex)
        return f"\1{len(formulas) - 1}\2"

    kept = set_symbols(_EMPHASIS.sub("\0\\1\0", text), keep)
    for mark in "\\*|":
        kept = kept.replace(mark, f"\\{mark}")
    kept = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", kept).replace("\0", "*")
    # The signs around a formula let it stand beside letters, such as in E f(x_t).
    return re.sub("\1(\\d+)\2", lambda m: f"\\ :math:`{formulas[int(m[1])].strip()}`\\ ", kept)


def _process(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = convert("\n".join(lines)).split("\n")


def _name_aliases(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, given: str | None, out: str | None
) -> tuple[str | None, str | None]:
    """Write the names of types as they stand in the source, such as Array."""
    return tuple(text and _ALIAS.sub(r"\1", text) for text in (given, out))  # type: ignore[return-value]


def _skip(_app: Any, _what: str, _name: str, obj: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out what has no words of its own: the fields of named tuples."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx, before the sections of docstrings are read."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _name_aliases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
