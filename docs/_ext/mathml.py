"""Mathematics as MathML, made when the pages are built: no script, and nothing is fetched.

Browsers need a font with a table of mathematical measures; not every system has one, so the pages
bring theirs: STIX Two Math, reduced to the signs that formulas have, from the package ziamath.
Where that is not installed, formulas are in the font of the reader's system.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

# Bars are as high as a letter, and a slash stands between its sides without space, as in LaTeX.
_TIGHT = re.compile(r"<mo>(&#x0007C;|&#x02016;|&#x0002F;)</mo>")
_TOKEN = re.compile(r"\\left\S|\\right\S|\\[A-Za-z]+\s*|\\.|[_^]?\{|\S|\s+")
_OPEN = {"(", "[", "{", "_{", "^{", r"\lvert", r"\lVert", r"\langle"}
_CLOSE = {")", "]", "}", r"\rvert", r"\rVert", r"\rangle"}
_BREAKS = {"=", "<", ">", "+", "-", r"\le", r"\ge", r"\ne", r"\approx", r"\to", r"\in"}
SHORTEST = 10  # characters of a piece
_FONT = "ziamath", "fonts/STIXTwoMath-Regular.ttf"
# Latin and Greek letters, punctuation, arrows, operators, brackets, letters of mathematics.
_SIGNS = (
    (0x20, 0x17F), (0x2B0, 0x36F), (0x370, 0x3FF), (0x2010, 0x206F), (0x2070, 0x209F),
    (0x2100, 0x214F), (0x2190, 0x22FF), (0x2308, 0x230B), (0x27E6, 0x27EF), (0x2A00, 0x2AFF),
    (0x1D400, 0x1D7FF),
)  # fmt: skip
_STYLE = """@font-face {
  font-family: "Formulas"; src: url("formulas.woff") format("woff"); font-display: swap;
}
math { font-family: "Formulas", math; }
"""


def to_mathml(latex: str, display: str) -> str:
    """Return a formula as MathML, "inline" or as a "block"."""
    tight = r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'
    return _TIGHT.sub(tight, convert(latex, display=display))


def split_line(latex: str) -> list[str]:
    """Return a formula in pieces between which a line may end: a browser breaks none by itself.

    A long one is split before its relations and sums, outside of all brackets.

    >>> split_line("x_{t} = y")
    ['x_{t} = y']
    """
    pieces, depth, start, after = [], 0, 0, False
    for token in _TOKEN.finditer(latex):
        sign = token[0].rstrip()
        if sign in _OPEN or sign.startswith(r"\left"):
            depth += 1
        elif sign in _CLOSE or sign.startswith(r"\right"):
            depth -= 1
        is_break = depth == 0 and sign in _BREAKS and after  # not after another sign: -x, = -x
        if is_break and token.start() - start >= SHORTEST:
            pieces.append(latex[start : token.start()])
            start = token.start()
        if sign:
            after = sign not in _BREAKS
    whole = [*pieces, latex[start:]]
    # What comes before a sign makes it one between two sides, with space around it.
    return [whole[0], *(f"{{}} {piece}" for piece in whole[1:])]


def _write_inline(translator: Any, node: Any) -> None:
    pieces = [to_mathml(piece, "inline") for piece in split_line(node.astext())]
    translator.body.append("&#8203;".join(pieces))
    raise SkipNode


def _write_block(translator: Any, node: Any) -> None:
    translator.body.append(to_mathml(node.astext(), "block"))
    raise SkipNode


def find_font() -> Path | None:
    """Return the font that formulas are set in, or None where it is not installed."""
    found = importlib.util.find_spec(_FONT[0])
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / _FONT[1]
    return path if path.exists() else None


def write_font(source: Path, folder: Path) -> None:
    """Write the font with the signs of formulas only, and the style sheet that names it."""
    from fontTools import subset

    options = subset.Options(flavor="woff", layout_features=["*"], notdef_outline=True)
    font = subset.load_font(str(source), options)
    reduce = subset.Subsetter(options)
    reduce.populate(unicodes=[sign for first, last in _SIGNS for sign in range(first, last + 1)])
    reduce.subset(font)
    subset.save_font(font, str(folder / "formulas.woff"), options)
    (folder / "formulas.css").write_text(_STYLE, encoding="utf-8")


def _add_font(app: Any, config: Any, source: Path) -> None:
    folder = tempfile.TemporaryDirectory()
    app.connect("build-finished", lambda _app, _error: folder.cleanup())
    write_font(source, Path(folder.name))
    config.html_static_path.append(folder.name)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_html_math_renderer("mathml", (_write_inline, None), (_write_block, None))
    font = find_font()
    if font is not None:
        app.add_css_file("formulas.css")
        app.connect("config-inited", lambda app, config: _add_font(app, config, font))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
