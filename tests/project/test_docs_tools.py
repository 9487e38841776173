"""The tools of the documentation: what a browser would fetch is found; docstrings are text."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
TOOL = TOOLS / "check_docs.py"
EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"

# What may stand on a page: links to click on, and what is of the site's own.
CLEAN = """<html><head>
<link rel="canonical" href="https://example.org/"><link rel="stylesheet" href="style.css">
<style>p { background: url(data:image/png;base64,AA//BB) }</style></head>
<body style="color: red"><a href="https://example.org/paper">the paper</a>
<svg xmlns="http://www.w3.org/2000/svg"><use href="#arrow"></use></svg>
<img src="figure.png" srcset="a.png 1x, b.png 2x" alt="see https://example.org">
<code>fetch("https://example.org")</code>
<script src="own.js"></script><script>const words = "see https://example.org"</script>
</body></html>"""


def checked(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name, text in {"index_html": CLEAN, **files}.items():
        (folder / name.replace("_", ".")).write_text(text)
    command = [sys.executable, str(TOOL), str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_site_of_its_own_is_clean(tmp_path: Path) -> None:
    done = checked(
        tmp_path,
        style_css="@import 'more.css'; p { background: url('images/a.png') } /* https://a.org */",
        own_js="// https://a.org\nfetch('search/index.json'); const mark = '//';",
    )
    assert (done.returncode, done.stdout) == (0, "docs: nothing is fetched from another host\n")


@pytest.mark.parametrize(
    "markup",
    [
        '<script src="https://cdn.example.org/a.js"></script>',
        '<script src=" //cdn.example.org/a.js"></script>',
        "<script>import('https://cdn.example.org/a.js')</script>",
        '<link rel="stylesheet" href="https://fonts.example.org/css">',
        '<link rel="preconnect" href="https://fonts.example.org">',
        '<img src="HTTP://example.org/a.png">',
        '<img srcset="a.png 1x, https://example.org/b.png 2x">',
        '<video poster="https://example.org/a.png"></video>',
        '<object data="https://example.org/a.svg"></object>',
        '<iframe srcdoc="&lt;img src=&quot;https://example.org/a.png&quot;&gt;"></iframe>',
        '<svg><image xlink:href="https://example.org/a.png"/></svg>',
        '<p style="background: url(https://example.org/a.png)">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<meta http-equiv="refresh" content="0; url=https://example.org/">',
        '<base href="https://example.org/">',
    ],
)
def test_what_a_page_fetches_is_found(tmp_path: Path, markup: str) -> None:
    done = checked(tmp_path, page_html=CLEAN.replace("</body>", f"{markup}</body>"))
    assert done.returncode == 1
    assert done.stdout.startswith("page.html: ")
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize(
    "files",
    [
        {"style_css": "p { background: url(//example.org/a.png) }"},
        {"style_css": '@import "https://example.org/a.css";'},
        {"own_js": "fetch('https://example.org/data.json')"},
        {"own_js": "new WebSocket(`wss://example.org`)"},
    ],
)
def test_what_styles_and_scripts_fetch_is_found(tmp_path: Path, files: dict[str, str]) -> None:
    done = checked(tmp_path, **files)
    assert done.returncode == 1
    assert "example.org" in done.stdout


def test_names_of_vocabularies_are_no_addresses(tmp_path: Path) -> None:
    assert checked(tmp_path, own_js='make("http://www.w3.org/2000/svg")').returncode == 0


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    command = [sys.executable, str(TOOL), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "no page here" in done.stdout) == (1, True)


WIDE = '<!doctype html><p style="width: 500px">wide</p>'
SCROLLS = f'<!doctype html><div style="overflow-x: auto">{WIDE[15:]}</div>'
CUT = SCROLLS.replace("auto", "hidden")


@pytest.mark.slow
def test_a_page_that_is_too_wide_for_a_phone_is_found(tmp_path: Path) -> None:
    done = checked(tmp_path, "--narrow", wide_html=WIDE, scrolls_html=SCROLLS, cut_html=CUT)
    if "no Chromium" in done.stdout:
        pytest.skip("for want of chromium: 1 tests")
    assert done.returncode == 1
    cut, wide = done.stdout.splitlines()[1:]
    rest = r": <p style=.*wide</p>"
    assert re.fullmatch(r"cut\.html: does not fit 400 pixels \(400\)" + rest, cut)
    assert re.fullmatch(r"wide\.html: does not fit 400 pixels \(5\d\d\)" + rest, wide)


WRITTEN = """The mean of <a, x_i> - b, as in `f(x_i)`,
of *all* rows;
|u|^2 is f* or T_{k+1}.

    |u| = <u, u> + qA_k

In code::

    u = thing(u)

Parameters
----------
a : array
    With names_ and x*.

Attributes: none of them.

>>> f"<{1}>"
'<1>'
"""

READ = r"""The mean of \ :math:`\left\langle a, x_{i}\right\rangle  - b`\ , as in ``f(x_i)``,
of *all* rows;
\ :math:`\lvert u\rvert ^{2}`\  is \ :math:`f_{*}`\  or \ :math:`T_{k+1}`\ .

.. math::

    \begin{align*}
    & \lvert u\rvert  = \left\langle u, u\right\rangle  + qA_{k}
    \end{align*}

In code:

::

    u = thing(u)

Parameters
----------
a : array
    With names\_ and \ :math:`x_{*}`\ .

Notes
-----

Attributes: none of them.

Examples
--------

>>> f"<{1}>"
'<1>'"""


def load(name: str) -> Any:
    """A module of the extensions of Sphinx, which stand beside the pages."""
    sys.path.insert(0, str(EXTENSIONS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXTENSIONS))


def test_docstrings_are_text() -> None:
    assert load("docstrings").convert(WRITTEN) == READ


def test_formulas_of_a_page_are_set() -> None:
    page = (
        "# x_t\n\nE f(x_t) -\nf* is `f(x_t)`, [x_t](x_t.md) or T_{k+1}/A_ij.\n\n"
        "- a\n- x_t\n\n| |x_t| \\| |\n\n```text\nx_t\n```\n    x_t\n"
    )
    assert load("inline_math").in_page(page) == (
        "# x_t\n\n$\\mathbb{E} f(x_{t}) - f_{*}$ is `f(x_t)`, [$x_{t}$](x_t.md) or "
        "$T_{k+1}/A_{ij}$.\n\n- a\n- $x_{t}$\n\n| |$x_{t}$| \\| |\n\n```text\nx_t\n```\n    x_t\n"
    )


def test_names_are_no_formulas() -> None:
    for text in (
        "x_star",
        "max_iter_",
        "a2_b",
        "2*x*y",
        "f*g",
        "`x_t`",
        "d_3x",
        "in_x",
        "the k-th",
    ):
        assert load("inline_math").in_page(text) == text


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("φ_0/√(2L) ≤ ½|z − x*|²", r"φ_{0}/\sqrt{2L} \le \tfrac12 \lvert z - x_{*}\rvert^{2}"),
        ("sqrt(mu/L) <g, x_i+> = 0", r"\sqrt{μ/L} \left\langle g, x_{i}+\right\rangle = 0"),
        ("z⁺ − γ'²ψ^", r"z^{+} - γ'^{2}\hat{ψ}"),
        ("z̃_k = Σ_j f_j*(x*_j)", r"\tilde{z}_{k} = \sum_{j} f_{j}^{*}(x_{*,j})"),
        ("∫_0^T A_s ds ≠ u^T Λ^+ u", r"\int_{0}^{T} A_{s} \,\mathrm d s \ne u^{\top} Λ^{+} u"),
        ("E[e^{−qT_k} l2] -> 10⁻³", r"\mathbb{E}[e^{-qT_{k}} \mathtt{l2}] \to 10^{-3}"),
    ],
)
def test_formulas_in_text_as_latex(text: str, latex: str) -> None:
    tight = re.compile(r"\s+|(?<=\\mathrm) d ")
    assert tight.sub("", load("text_math").to_latex(text)) == tight.sub("", latex)


def test_words_around_a_formula_stay() -> None:
    found: list[str] = []
    text = "a mean E f(x_t), of a run's x_t (or z_t) and µ > 0: L = 1, with b. A φ e.g. of 3 s."
    set_formulas = load("text_math").set_formulas
    kept = set_formulas(text, lambda latex: found.append(latex) or f"<{len(found)}>")
    assert kept == "a mean <1>, of a run's <2> (or <3>) and <4>: <5>, with b. A <6> e.g. of 3 s."
    assert [latex.strip() for latex in found[3:]] == ["μ > 0", "L = 1", "φ"]


def test_brackets_around_words_stay_as_well() -> None:
    text = "B (η = p, in words)"
    assert load("inline_math").in_page(text) == "B ($η$ = p, in words)"


@pytest.mark.needs("docutils", "latex2mathml")
@pytest.mark.parametrize(
    ("latex", "pieces"),
    [
        ("x_{t} = y", ["x_{t} = y"]),
        (r"-2 \lvert a - b\rvert = -(c + d) f(x + y)",
         [r"-2 \lvert a - b\rvert ", "{} = -(c + d) f(x + y)"]),
        (r"\mathbb{E} f(x_{t}) - f_{*} \le φ_{0}/A_{t}",
         [r"\mathbb{E} f(x_{t}) ", r"{} - f_{*} \le φ_{0}/A_{t}"]),
        (r"\left( a + b \right) c^{k + 1} + \left\langle u, v - w\right\rangle",
         [r"\left( a + b \right) c^{k + 1} ", r"{} + \left\langle u, v - w\right\rangle"]),
    ],
)  # fmt: skip
def test_a_long_formula_has_places_where_a_line_may_end(latex: str, pieces: list[str]) -> None:
    assert load("mathml").split_line(latex) == pieces


@pytest.mark.needs("docutils", "latex2mathml")
def test_bars_and_slashes_stand_close() -> None:
    written = load("mathml").to_mathml(r"\lvert x \rvert / L", "inline")
    assert written.count('<mo stretchy="false" lspace="0" rspace="0">') == 3


@pytest.mark.needs("sphinx")
def test_links_to_other_libraries_are_made_without_asking_them() -> None:
    from sphinx.util.inventory import InventoryFile

    links = load("links")
    for library, site in links.SITES.items():
        found = InventoryFile.loads(links.make_inventory(library), uri=site).data["py:class"]
        assert len(found) == sum(len(names.split()) for names in links.PAGES[library].values())
    names = InventoryFile.loads(links.make_inventory("numpy"), uri=links.SITES["numpy"])
    page = names.data["py:class"]["numpy.random.Generator"].uri
    assert page.endswith("/reference/random/generator.html#numpy.random.Generator")
