"""Docstrings are text: `<a, x>` in a formula is an inner product, not a tag.

Used by the API reference (mkdocs.yml).  Code in a docstring is left as it is: doctests,
indented paragraphs, and what stands between backticks.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_CODE_SPAN = re.compile(r"(`[^`]*`)")
_TAG = re.compile(r"<(?=[A-Za-z/!])")


def text(docstring: str) -> str:
    """The docstring with every `<` that Markdown could take for a tag written as `&lt;`."""
    paragraphs = re.split(r"(\n\s*\n)", docstring)
    return "".join(p if _is_code(p) else _outside_code(p) for p in paragraphs)


def _is_code(paragraph: str) -> bool:
    return paragraph.startswith("    ") or paragraph.lstrip().startswith(">>>")


def _outside_code(paragraph: str) -> str:
    parts = _CODE_SPAN.split(paragraph)
    return "".join(p if p.startswith("`") else _TAG.sub("&lt;", p) for p in parts)


class DocstringText(griffe.Extension):
    """Applies `text` to every docstring that is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for each object."""
        if obj.docstring is not None:
            obj.docstring.value = text(obj.docstring.value)
