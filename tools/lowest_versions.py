"""The lowest versions that pyproject.toml admits, as constraints for pip.

    python tools/lowest_versions.py [--extra NAME]... [--group NAME]... [--out FILE]

Prints a line `name==version` for each requirement of the core and of these extras and groups, or
writes them to FILE.  What they require in turn is left to pip.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REQUIREMENT = re.compile(r"([\w.-]+)>=([\w.]+)(?: *;.*)?")  # a marker may follow


def requirements(
    project: dict[str, Any], extras: Iterable[str], groups: Iterable[str]
) -> Iterator[str]:
    """Those of the core, of extras and of groups; extras and groups that these name as well."""
    name, optional = project["project"]["name"], project["project"]["optional-dependencies"]
    yield from project["project"]["dependencies"]
    pending = [line for extra in extras for line in optional[extra]]
    pending += [line for group in groups for line in project["dependency-groups"][group]]
    while pending:
        line = pending.pop(0)
        if isinstance(line, dict):
            pending += project["dependency-groups"][line["include-group"]]
        elif line.startswith(f"{name}["):
            named = line.removeprefix(f"{name}[").rstrip("]").split(",")
            pending += [below for extra in named for below in optional[extra.strip()]]
        else:
            yield line


def lowest(lines: Iterable[str]) -> dict[str, str]:
    """The least version of each; ValueError where a line is not of the form name>=version, which
    may say behind a semicolon where it is wanted."""
    found: dict[str, str] = {}
    for line in lines:
        match = REQUIREMENT.fullmatch(line)
        if match is None:
            raise ValueError(f"{line!r} has no lowest version: write name>=version")
        name, version = match.groups()
        if found.setdefault(name, version) != version:
            raise ValueError(f"{name} has two lowest versions: {found[name]} and {version}")
    return found


def main() -> int:
    """Print, or write, the constraints."""
    parser = argparse.ArgumentParser(description="The lowest versions that are admitted.")
    parser.add_argument("--extra", action="append", default=[], help="of the package")
    parser.add_argument("--group", action="append", default=[], help="of dependencies")
    parser.add_argument("--out", type=Path, help="the file to write, in place of printing")
    given = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    versions = lowest(requirements(project, given.extra, given.group))
    text = "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))
    if given.out is None:
        sys.stdout.write(text)
    else:
        given.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
