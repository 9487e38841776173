"""Imports inside the package go one way: down the list below.

    python tools/check_layers.py [FOLDER]

Reads the sources (imports inside functions and under TYPE_CHECKING count too) and prints a
line for each import that goes up, or sideways between two rooms; exit code 1 if any does.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "continuized"
FACE = "__init__"  # `import continuized`: the public names

# From the top.  A room may import what stands below it, and its own modules.
ROOMS = (
    "cli",
    "commands",
    "verify",
    "bench",
    "plot_decentralized",
    "plot_network",
    "plot",
    "report",
    "reproduce",
    "model",
    FACE,
    "adapters",
    "theory",
    "network",
    "ensembles",
    "chunks",
    "minimizer",
    "arguments",
    "choice",
    "identity",
    "marked",
    "marked_clock",
    "adaptive",
    "setting",
    "measure",
    "points",
    "pace",
    "foreign",
    "driver",
    "watching",
    "dual",
    "coordinate",
    "blocks",
    "forms",
    "rows",
    "row_constants",
    "curvature",
    "metric",
    "prox",
    "kernels",
    "stopping",
    "recording",
    "result",
    "custom",
    "methods",
    "rules",
    "oracle",
    "witness",
    "flow",
    "noise",
    "parameters",
    "clock",
    "seeds",
    "marks",
    "arrays",
    "problems",
    "statistics",
    "progress",
    "checkpoints",
    "checkpoint_files",
    "files",
    "memory",
    "words",
    "jit",
)


def violations(folder: Path) -> Iterator[str]:
    """A sentence for each import that does not go down."""
    for path in sorted(folder.rglob("*.py")):
        room = path.relative_to(folder).with_suffix("").parts[0]
        if room not in ROOMS:
            yield f"{path}: the room {room!r} has no place in tools/check_layers.py: give it one"
            continue
        for line, other in _imports(path, folder):
            if other not in ROOMS:
                yield f"{path}:{line}: imports {other!r}, which is no room of {PACKAGE}"
            elif other != room and ROOMS.index(other) < ROOMS.index(room):
                yield f"{path}:{line}: {room} imports {other}, which stands above it"


def _imports(path: Path, folder: Path) -> Iterator[tuple[int, str]]:
    """The line and the room of every import of the package's own."""
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
                    yield node.lineno, alias.name if _is_room(alias.name, folder) else FACE


def _absolute(node: ast.ImportFrom, path: Path, folder: Path) -> list[str]:
    """The module of a `from ... import`, dots resolved."""
    named = node.module.split(".") if node.module else []
    if node.level == 0:
        return named
    here = [PACKAGE, *path.relative_to(folder).parent.parts]
    return here[: len(here) - (node.level - 1)] + named


def _is_room(name: str, folder: Path) -> bool:
    return (folder / f"{name}.py").exists() or (folder / name).is_dir()


def main() -> int:
    """Check the folder given, or this repository's."""
    default = Path(__file__).parents[1] / "src" / PACKAGE
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    found = list(violations(folder))
    print("\n".join(found) if found else f"layers: every import in {folder.name} goes down")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
