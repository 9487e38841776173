"""Mathematics as MathML, made when the pages are built: no script, and nothing is fetched."""

from __future__ import annotations

from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert


def _write_inline(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext(), display="inline"))
    raise SkipNode


def _write_block(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext(), display="block"))
    raise SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (_write_inline, None), (_write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
