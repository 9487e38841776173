"""Docstrings as they stand in the sources, made ready for the API reference (see mkdocs.yml).

- They are text: `<a, x>` in a formula is an inner product, not a tag.
- Examples stand at their end without a heading, and so may a remark after the parameters; the
  reference needs headings to know them.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_CODE_SPAN = re.compile(r"(`[^`]*`)")
_TAG = re.compile(r"<(?=[A-Za-z/!])")
_HEADING = re.compile(r"(\w[\w ]*)\n-{3,}(?:\n|$)")


def text(docstring: str) -> str:
    """The docstring with headings where they are understood, and no tags outside code."""
    paragraphs, section = [], ""
    for paragraph in re.split(r"\n\s*\n", docstring):
        wanted = _section(paragraph, section)
        if wanted != section and not _HEADING.match(paragraph):
            paragraphs.append(f"{wanted}\n{'-' * len(wanted)}\n{paragraph}")
        else:
            paragraphs.append(paragraph)
        section = wanted
    return "\n\n".join(p if _is_code(p) else _without_tags(p) for p in paragraphs)


def _section(paragraph: str, before: str) -> str:
    """The section that a paragraph belongs to, given that of the paragraph before it."""
    heading = _HEADING.match(paragraph)
    if heading:
        return heading[1]
    if paragraph.startswith(">>>"):
        return "Examples"
    is_remark = before not in ("", "Examples", "Notes") and not paragraph.startswith(" ")
    return "Notes" if is_remark else before


def _is_code(paragraph: str) -> bool:
    return paragraph.startswith("    ") or ">>>" in paragraph


def _without_tags(paragraph: str) -> str:
    parts = _CODE_SPAN.split(paragraph)
    return "".join(p if p.startswith("`") else _TAG.sub("&lt;", p) for p in parts)


class DocstringText(griffe.Extension):
    """Applies `text` to every docstring that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each object."""
        if obj.docstring is not None:
            obj.docstring.value = text(obj.docstring.value)
