"""The archives of a release: built, looked into, and installed where nothing else is.

    python tools/check_package.py [--python PYTHON] [--sdist]

Builds the sdist and the wheel into a temporary folder, compares their contents with the sources,
installs the wheel with the core libraries alone into a fresh virtual environment (of PYTHON; with
--sdist, the sdist into another), and runs tools/check_installed.py there.  Prints a line for each
thing that is wrong; exit code 1 if anything is.  Needs hatchling.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PACKAGE = "continuized"
SOURCES = ROOT / "src" / PACKAGE
# What a sdist holds besides the folders of the sources, tests and documentation.
FILES = {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md",
         "constraints.txt", "pyproject.toml"}  # fmt: skip
FOLDERS = {".ci", "benchmarks", "docs", "examples", "src", "tests", "tools"}
# Hatchling adds these two; without the second, a rebuild would not know what to leave out.
ADDED = {"PKG-INFO", ".gitignore"}
JUNK = re.compile(r"__pycache__|\.(py[co]|nb[ci])$|(^|/)\.(git|hypothesis|venv|\w+_cache)(/|$)")
WITHIN = 600.0  # seconds for a command


def version() -> str:
    """That of the sources, read and not imported."""
    text = (SOURCES / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise SystemExit(f'{SOURCES / "__init__.py"}: no line of the form __version__ = "..."')
    return found[1]


def sources() -> set[str]:
    """The modules, the parts of pages, and the mark that they are typed, as paths below src."""
    files = [
        path for ending in ("*.py", "*.css", "*.html", "*.js") for path in SOURCES.rglob(ending)
    ]
    return {path.relative_to(ROOT / "src").as_posix() for path in files} | {f"{PACKAGE}/py.typed"}


def in_wheel(wheel: dict[str, bytes]) -> Iterator[str]:
    """What is wrong with the files of a wheel."""
    info = f"{PACKAGE}-{version()}.dist-info"
    ours = {name for name in wheel if not name.startswith(f"{info}/")}
    yield from (f"wheel: {name} is missing" for name in sorted(sources() - ours))
    yield from (f"wheel: {name} does not belong there" for name in sorted(ours - sources()))
    for name in ("METADATA", "entry_points.txt", "licenses/LICENSE"):
        if f"{info}/{name}" not in wheel:
            yield f"wheel: {info}/{name} is missing"
            return
    yield from in_metadata(wheel[f"{info}/METADATA"])


def in_metadata(metadata: bytes) -> Iterator[str]:
    """What is wrong with what an index would show of the package."""
    said = message_from_bytes(metadata)
    expected = {
        "Name": PACKAGE,
        "Version": version(),
        "License-Expression": "BSD-3-Clause",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    for field, value in expected.items():
        if said[field] != value:
            yield f"metadata: {field} is {said[field]!r}, not {value!r}"
    for field in ("Summary", "Keywords", "Classifier", "Provides-Extra"):
        if not said[field]:
            yield f"metadata: {field} is missing"
    payload = said.get_payload(decode=True)
    if payload != (ROOT / "README.md").read_bytes():
        yield "metadata: the description is not README.md"


def in_sdist(sdist: set[str]) -> Iterator[str]:
    """What is wrong with the names in a sdist, taken below its folder."""
    needed = FILES | {f"src/{name}" for name in sources()}
    needed |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    yield from (f"sdist: {name} is missing" for name in sorted(needed - sdist))
    for name in sorted(sdist - FILES - ADDED):
        if PurePosixPath(name).parts[0] not in FOLDERS or JUNK.search(name):
            yield f"sdist: {name} does not belong there"


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist and the wheel of the sources."""
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def rebuilt(sdist: Path, folder: Path) -> Path:
    """The wheel that pip makes of a sdist."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    _run([*pip, "--wheel-dir", str(folder), str(sdist)], folder)
    return next(folder.glob("*.whl"))


def files_of(wheel: Path) -> dict[str, bytes]:
    """The files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def names_of(sdist: Path) -> set[str]:
    """The names of the files in a sdist, below its folder."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if not member.isdir()}


def installed(archive: Path, python: str, folder: Path) -> Iterator[str]:
    """What is wrong with an archive in a fresh virtual environment, core libraries alone."""
    _run([python, "-m", "venv", str(folder / "venv")], folder)
    here = str(folder / "venv" / "bin" / "python")
    pip = [here, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
    _run([*pip, str(archive)], folder)
    # -I: neither this folder nor PYTHONPATH may lend it a module.
    check = [here, "-I", "-W", "error", str(ROOT / "tools" / "check_installed.py"), version()]
    done = subprocess.run(check, cwd=folder, capture_output=True, text=True, timeout=WITHIN)
    if done.returncode != 0:
        yield from (f"{archive.name}: {line}" for line in (done.stdout + done.stderr).splitlines())


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def violations(python: str, with_sdist: bool, work: Path) -> Iterator[str]:
    """A sentence for each thing that is wrong."""
    for name in ("dist", "again", *(folders := ("wheel", "sdist"))):
        (work / name).mkdir()
    sdist, wheel = build(work / "dist")
    files = files_of(wheel)
    yield from in_wheel(files)
    yield from in_sdist(names_of(sdist))
    if files_of(rebuilt(sdist, work / "again")) != files:
        yield "sdist: the wheel made of it differs from the one made of the sources"
    for archive, name in zip((wheel, sdist)[: 1 + with_sdist], folders, strict=False):
        yield from installed(archive, python, work / name)


def main() -> int:
    """Check this repository's package."""
    parser = argparse.ArgumentParser(description="Build, look into and install the package.")
    parser.add_argument("--python", default=sys.executable, help="of the fresh environments")
    parser.add_argument("--sdist", action="store_true", help="install the sdist as well")
    given = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as work:
        found = list(violations(given.python, given.sdist, Path(work)))
    print("\n".join(found) if found else f"package: {PACKAGE} {version()} builds and installs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
