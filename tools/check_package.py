"""The archives of a release: built, looked into, and installed where nothing else is.

    python tools/check_package.py [--python PYTHON] [--sdist] [--readme] [--release FOLDER]

Builds the sdist and the wheel into a temporary folder, compares their contents with the sources,
and their bytes with those of a second build, from the sdist unpacked.  Installs the wheel with the
core libraries alone into a fresh virtual environment (of PYTHON; with --sdist, the sdist into
another), and runs tools/check_installed.py there, with --readme the README's Python as well.  With
--release, has other tools look at the archives, and leaves them in FOLDER.

Prints how large they are, how long the import takes, and a line for each thing that is wrong; exit
code 1 if anything is.  Needs hatchling; with --release, the group `release`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
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
FILES = {".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE",
         "README.md", "constraints.txt", "noxfile.py", "pyproject.toml"}  # fmt: skip
FOLDERS = {".ci", ".github", "benchmarks", "docs", "examples", "src", "tests", "tools"}
# Hatchling adds these two; without the second, a rebuild would not know what to leave out.
ADDED = {"PKG-INFO", ".gitignore"}
JUNK = re.compile(r"__pycache__|\.(py[co]|nb[ci])$|(^|/)\.(git|hypothesis|venv|\w+_cache)(/|$)")
WITHIN = 600.0  # seconds for a command
EPOCH = "1580601600"  # of all files in the archives, where SOURCE_DATE_EPOCH is not set
IMPORT = "import time; t = time.perf_counter(); import continuized; print(time.perf_counter() - t)"


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


def build(root: Path, folder: Path) -> tuple[Path, Path]:
    """The sdist and the wheel of the sources in `root`."""
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], root)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


def build_again(sdist: Path, folder: Path) -> tuple[Path, Path]:
    """The sdist and the wheel of what a sdist holds."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return build(root, folder / "dist")


def files_of(wheel: Path) -> dict[str, bytes]:
    """The files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def names_of(sdist: Path) -> set[str]:
    """The names of the files in a sdist, below its folder."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if not member.isdir()}


def environment(archive: Path, python: str, folder: Path) -> str:
    """The Python of a fresh virtual environment that holds an archive and its libraries."""
    _run([python, "-m", "venv", str(folder / "venv")], folder)
    here = str(folder / "venv" / "bin" / "python")
    pip = [here, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt")]
    _run([*pip, str(archive)], folder)
    return here


def in_python(here: str, arguments: list[str]) -> Iterator[str]:
    """What a Python prints that fails; -I: neither this folder nor PYTHONPATH lends it a module."""
    command = [here, "-I", "-W", "error", *arguments]
    folder = Path(here).parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN)
    if done.returncode != 0:
        yield from (done.stdout + done.stderr).splitlines()


def import_seconds(here: str) -> float:
    """How long `import continuized` takes: the least of five processes."""
    times = [subprocess.check_output([here, "-I", "-c", IMPORT], timeout=WITHIN) for _ in range(5)]
    return min(map(float, times))


def in_judgement(archives: list[Path]) -> Iterator[str]:
    """What the tools of others find wrong with the archives."""
    wheels = [path for path in archives if path.suffix == ".whl"]
    for tool, given in (
        (["twine", "check", "--strict"], archives),
        (["check_wheel_contents"], wheels),
    ):
        command = [sys.executable, "-m", *tool, *map(str, given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN)
        if done.returncode != 0:
            yield from (f"{tool[0]}: {x}" for x in (done.stdout + done.stderr).splitlines() if x)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def violations(given: argparse.Namespace, work: Path) -> Iterator[str]:
    """A sentence for each thing that is wrong; figures are printed."""
    for name in ("dist", "again", "wheel", "sdist"):
        (work / name).mkdir()
    archives = sdist, wheel = build(ROOT, work / "dist")
    yield from in_wheel(files_of(wheel))
    yield from in_sdist(names_of(sdist))
    for first, second in zip(archives, build_again(sdist, work / "again"), strict=True):
        if first.read_bytes() != second.read_bytes():
            yield f"{first.name}: a second build, from the sdist, gives another"
    for archive in archives:
        code = hashlib.sha256(archive.read_bytes()).hexdigest()
        print(f"{archive.name}: {archive.stat().st_size / 1e3:,.0f} kB, sha256 {code}")
    for archive, name in ((wheel, "wheel"), (sdist, "sdist"))[: 1 + given.sdist]:
        here = environment(archive, given.python, work / name)
        found = list(in_python(here, [str(ROOT / "tools" / "check_installed.py"), version()]))
        yield from (f"{archive.name}: {line}" for line in found)
        print(f"{archive.name}: import continuized takes {import_seconds(here):.3f} s")
        if given.readme:
            yield from in_python(here, ["-m", "doctest", str(ROOT / "README.md")])
    if given.release is not None:
        yield from in_judgement(list(archives))
        given.release.mkdir(parents=True, exist_ok=True)
        for archive in archives:
            shutil.copy(archive, given.release)


def main() -> int:
    """Check this repository's package."""
    parser = argparse.ArgumentParser(description="Build, look into and install the package.")
    parser.add_argument("--python", default=sys.executable, help="of the fresh environments")
    parser.add_argument("--sdist", action="store_true", help="install the sdist as well")
    parser.add_argument("--readme", action="store_true", help="run the README with the wheel")
    parser.add_argument("--release", type=Path, help="have others judge; where to leave them")
    given = parser.parse_args()
    os.environ.pop("PYTHONPATH", None)
    os.environ.setdefault("SOURCE_DATE_EPOCH", EPOCH)
    with tempfile.TemporaryDirectory() as work:
        found = list(violations(given, Path(work)))
    print("\n".join(found) if found else f"package: {PACKAGE} {version()} builds and installs")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
