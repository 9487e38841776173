"""Imports inside the package go one way: down the list below.

    python tools/check_layers.py [FOLDER]
    python tools/check_layers.py --write      make the tables of the documentation anew

Reads the sources (imports inside functions and under TYPE_CHECKING count too) and prints a
line for each import that goes up; exit code 1 if any does.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "continuized"
FACE = "__init__"  # `import continuized`: the public names
COMMAND = "__main__"  # `python -m continuized`, above everything

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")  # where the table stands
BEGIN = "<!-- layers: made by tools/check_layers.py --write -->"
END = "<!-- end of layers -->"

# From the top: each layer, what it knows, and what it never touches.  A layer may import what
# stands below it, and its own modules.  The tables of the documentation are made from this one.
LAYERS = {
    "app": ("files, terminals, reports; the claims and their checks", "formulas"),
    "adapters": ("one foreign library each", "formulas"),
    "plot": ("pictures of results, paths, ensembles and networks", "runs"),
    "theory": ("parameters, problems, paths: theorems and exact means", "the loop's inside"),
    "network": ("nodes, graphs, messages, processes", "its own copy of flow, step or loop"),
    "solver": ("the loop: draw, advance, record, test, call back, save, finish", "formulas"),
    "marked": ("what one mark touches; how far it is from the end", "when to stop"),
    "process": ("scalars of t, the clock and the seeds, flow, step", "loops, files"),
    "problems": ("functions, constants, data", "methods"),
    "support": ("tools", "everything above"),
}


def violations(folder: Path) -> Iterator[str]:
    """Yield a sentence for each import that does not go down."""
    order = list(LAYERS)
    for path in sorted(folder.rglob("*.py")):
        layer = path.relative_to(folder).with_suffix("").parts[0]
        if layer in (FACE, COMMAND):
            continue
        if layer not in order:
            yield f"{path}: {layer!r} is no layer of tools/check_layers.py: give it a place there"
            continue
        for line, other in _imports(path, folder):
            if other == FACE:
                if layer != "app":
                    yield f"{path}:{line}: {layer} imports the public names, which stand above it"
            elif other not in order:
                yield f"{path}:{line}: imports {other!r}, which is no layer of {PACKAGE}"
            elif order.index(other) < order.index(layer):
                yield f"{path}:{line}: {layer} imports {other}, which stands above it"


def _imports(path: Path, folder: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the layer of every import of the package's own."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, _, rest = alias.name.partition(".")
                if top == PACKAGE:
                    yield node.lineno, rest.partition(".")[0] or FACE
        elif isinstance(node, ast.ImportFrom):
            parts = _absolute(node, path, folder)
            if parts[:1] != [PACKAGE]:
                continue
            if len(parts) > 1:
                yield node.lineno, parts[1]
            else:
                for alias in node.names:
                    yield node.lineno, alias.name if _is_layer(alias.name, folder) else FACE


def _absolute(node: ast.ImportFrom, path: Path, folder: Path) -> list[str]:
    """The module of a `from ... import`, dots resolved."""
    named = node.module.split(".") if node.module else []
    if node.level == 0:
        return named
    here = [PACKAGE, *path.relative_to(folder).parent.parts]
    return here[: len(here) - (node.level - 1)] + named


def _is_layer(name: str, folder: Path) -> bool:
    return (folder / f"{name}.py").exists() or (folder / name).is_dir()


def table() -> str:
    """Return the layers as a Markdown table, from the top."""
    rows = [f"| `{name}` | {knows} | {never} |" for name, (knows, never) in LAYERS.items()]
    return "\n".join(["| package | knows | never touches |", "|---|---|---|", *rows])


def with_table(page: str) -> str:
    """Return the text of a page with the table between its two marks made anew."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} ... {END}: add these two lines")
    return f"{before}{begin}\n\n{table()}\n\n{end}{after}"


def main() -> int:
    """Check the folder given, or this repository's."""
    if sys.argv[1:] == ["--write"]:
        for name in PAGES:
            page = ROOT / name
            page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src" / PACKAGE
    found = list(violations(folder))
    print("\n".join(found) if found else f"layers: every import in {folder.name} goes down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
