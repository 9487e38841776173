"""The documentation runs: every code block of every page, and every name in its tables.

- ```` ```python ````: executed, a page's blocks in order, in one namespace and one empty folder;
  what it asserts must hold.
- ```` ```sh ````: the `continuized` commands in it are run there too, and must succeed.
- ```` ```console ````: what a reader types elsewhere (pip, git); not run.
- ```` ```{code-cell} ````: a cell whose output the page shows, run when the documentation is built,
  and here; those of the notebooks only there.
"""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import continuized as cz
from continuized.app.cli import main
from continuized.app.verify.registry import CHECKS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
FENCE = re.compile(r"^```(\{[\w-]+\}|\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SHOWN = {"python", "sh", "console", "text", "bibtex", "{toctree}", "{eval-rst}", "{code-cell}"}
# Their code compiles the engines of the network, which the tests of the network compile as well, or
# takes many runs.
LONG = ("lab.md", "network.md", "shards.md", "solver.md")
ADD_A_METHOD = DOCS / "add-a-method.md"


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS))


def with_needs(page: Path) -> Any:
    """A page as the parameter of a test, with the libraries that its code and its names import."""
    named = re.findall(
        r"^(?:import|from) (\w+)|continuized\.adapters\.(\w+)", page.read_text(), re.MULTILINE
    )
    libraries = {"IPython", "cvxpy", "jax", "optax", "pandas", "ray", "torch"}
    needed = sorted(libraries & {name for pair in named for name in pair})
    marks = [pytest.mark.needs(*needed)] if needed else []
    return pytest.param(page, marks=marks, id=name_of(page))


def with_code(page: Path) -> bool:
    """Whether a page has code that the build of the documentation does not run; the tutorial is
    run here too, where no documentation is built."""
    kinds = {"python", "sh", "{code-cell}"} if page.name == "tutorial.md" else {"python", "sh"}
    return any(kind in kinds for kind, _ in FENCE.findall(page.read_text()))


def as_python(cell: str) -> str:
    """A cell without its options and commands, its lines where they were."""
    return re.sub(r"^(?::|!).*$", "", cell, flags=re.MULTILINE)


def run_commands(block: str) -> None:
    lines = block.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    for program, *arguments in (command for command in commands if command):
        assert program == "continuized", "sh blocks hold our commands; use console for others"
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, (arguments, done.output, done.exception)


def as_long(page: Any) -> Any:
    """The parameter of a page, slow for those that take long."""
    marks = [*page.marks, pytest.mark.slow] if page.id in LONG else page.marks
    return pytest.param(*page.values, marks=marks, id=page.id)


@pytest.mark.parametrize("page", [as_long(with_needs(page)) for page in PAGES if with_code(page)])
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, Any] = {"__name__": page.stem}
    text = page.read_text()
    for fence in FENCE.finditer(text):
        kind, block = fence.groups()
        if kind in ("sh", "{code-cell}"):
            marked = re.findall(r"^!(.*)$", block, re.MULTILINE)
            run_commands(block if kind == "sh" else "\n".join(marked))
        if kind in ("python", "{code-cell}"):
            line = text[: fence.start()].count("\n") + 1
            tree = ast.increment_lineno(ast.parse(as_python(block), str(page)), line)
            exec(compile(tree, str(page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    text = page.read_text()
    assert {kind for kind, _ in FENCE.findall(text)} <= SHOWN
    assert text.count("```") == 2 * len(FENCE.findall(text))  # or a block would go unseen
    assert ">>>" not in text  # doctests would not be run


def found(dotted: str) -> Any:
    """The object of a dotted name: an attribute of cz, or of a module of the package."""
    first, *rest = dotted.split(".")
    value: Any = cz if first == "cz" else importlib.import_module(first)
    for part in rest:
        if not hasattr(value, part):
            importlib.import_module(f"{value.__name__}.{part}")
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("page", [with_needs(page) for page in PAGES])
def test_every_name_of_ours_exists(page: Path) -> None:
    prose = FENCE.sub("", page.read_text())
    for dotted in re.findall(r"`((?:cz|continuized)(?:\.\w+)+)(?:\(.*?\))?`", prose):
        found(dotted)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_test_and_file_named_exists(page: Path) -> None:
    prose = page.read_text()
    for file, name in re.findall(r"`([\w/]*test_\w+\.py)(?:::(test_\w+))?`", prose):
        source = (ROOT / "tests" / file).read_text()
        assert not name or re.search(rf"^def {name}\(", source, re.MULTILINE), (file, name)
    for path in re.findall(r"`((?:src|tests|tools|examples|benchmarks)/[\w/.-]+\.\w+)`", prose):
        assert (ROOT / path).exists(), path


def test_the_table_of_theorems_names_tests_and_claims() -> None:
    table = (DOCS / "theorems.md").read_text()
    rows = [line for line in table.splitlines() if line.startswith("| ") and "/test_" in line]
    assert len(rows) > 15
    for row in rows:
        assert re.search(r"`[\w/]+/test_\w+\.py::test_\w+`", row), row
    said = table.replace("\\|", "|") + (DOCS / "paper-to-code.md").read_text()
    quoted = {" ".join(claim.split()) for claim in re.findall(r"“([^”]+)”", said)}
    assert quoted == {check.claim for check in CHECKS}  # of `continuized verify`: all of them


def test_every_public_name_is_in_the_reference() -> None:
    said = "".join(page.read_text() for page in (DOCS / "api").glob("*.md"))
    named = set(re.findall(r"^\.\. auto\w+:: continuized\.(?:\S+\.)?(\w+)$", said, re.MULTILINE))
    assert [name for name in cz.__all__ if name not in named] == []


def test_the_worked_example_is_short() -> None:
    example = next(
        block for kind, block in FENCE.findall(ADD_A_METHOD.read_text()) if kind == "python"
    )
    assert 10 < len(example.splitlines()) < 40
