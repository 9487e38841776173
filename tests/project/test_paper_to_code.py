"""docs/paper-to-code.md lists the numbered statements of the paper, with function, test, picture.

That the functions and tests exist which a page names is checked for all pages (`test_docs.py`), and
that the pictures and headings exist which it links to when the pages are built.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "paper-to-code.md"
# How many of each kind the paper numbers.
NUMBERED = {
    "Theorem": 7, "Definition": 6, "Proposition": 2, "Remark": 1, "Figure": 2, "Equation": 33,
}  # fmt: skip
HEADING = re.compile(
    r"### (?:(?P<kind>Theorem|Definition|Proposition|Remark|Figure) (?P<number>\d+)"
    r"|Equations? \((?P<first>\d+)\)(?: (?:to|and) \((?P<last>\d+)\))?): \S.*"
)


def read_sections() -> dict[str, str]:
    """The statements of the page, by their headings."""
    parts = re.split(r"^(#{2,3} .*)$", PAGE.read_text(), flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {heading: text for heading, text in found.items() if heading.startswith("### ")}


SECTIONS = read_sections()


def list_statements(heading: str) -> list[tuple[str, int]]:
    match = HEADING.fullmatch(heading)
    assert match, heading
    if match["kind"]:
        return [(match["kind"], int(match["number"]))]
    first, last = int(match["first"]), int(match["last"] or match["first"])
    return [("Equation", number) for number in range(first, last + 1)]


def test_every_numbered_statement_is_listed_once() -> None:
    listed = Counter(statement for heading in SECTIONS for statement in list_statements(heading))
    expected = [(kind, n) for kind, last in NUMBERED.items() for n in range(1, last + 1)]
    assert listed == Counter(expected)


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_statement_has_a_function_a_test_and_a_picture(heading: str) -> None:
    text = SECTIONS[heading]
    items = re.findall(
        r"^- \*\*(\w+)\*\*:\s+(.*?)(?=^- \*\*|^$|\Z)", text, re.DOTALL | re.MULTILINE
    )
    assert [kind for kind, _ in items] == ["Function", "Test", "Picture"]
    function, test, picture = (said for _, said in items)
    assert re.search(r"`(?:cz|continuized)\.[\w.]+", function)
    assert re.search(r"`[\w/]+/test_\w+\.py::test_\w+`", test)
    # A link, a picture below, the one above (which the page has shown), or a cell that draws.
    drawn = "```{code-cell}" if "made here" in picture else "]("
    refers = re.search(r"\b(above|same)\b", picture) is not None
    assert drawn in text or refers


def test_what_is_drawn_here_is_said_to_be() -> None:
    for heading, text in SECTIONS.items():
        assert ("```{code-cell}" in text) == ("made here" in text), heading
