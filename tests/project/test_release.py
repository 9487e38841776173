"""The citation, the changelog and the archives; tools/check_package.py finds what is planted."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import continuized as cz
from tests.helpers.repository_tools import load_tool

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")

# The keys of the Citation File Format 1.2.0 that may stand at its top, and for a reference.
TOP = {"abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi",
       "identifiers", "keywords", "license", "license-url", "message", "preferred-citation",
       "references", "repository", "repository-artifact", "repository-code", "title", "type",
       "url", "version"}  # fmt: skip
REFERENCE = {"authors", "doi", "journal", "title", "type", "url", "year"}


check = load_tool("check_package")


@pytest.fixture
def citation() -> dict[str, Any]:
    import yaml

    read: dict[str, Any] = yaml.safe_load(CITATION)
    return read


@pytest.mark.needs("yaml")
def test_the_citation_follows_its_format(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert {"cff-version", "message", "title", "authors"} <= set(citation) <= TOP
    assert citation["title"] == PROJECT["project"]["name"]
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["keywords"] == PROJECT["project"]["keywords"]
    assert " ".join(citation["abstract"].split()) == f"{PROJECT['project']['description']}."
    assert citation["preferred-citation"]["url"] == PROJECT["project"]["urls"]["Paper"]
    assert set(citation["preferred-citation"]) == REFERENCE


@pytest.mark.needs("yaml")
def test_the_citation_is_of_the_paper_in_the_readme(citation: dict[str, Any]) -> None:
    paper, readme = citation["preferred-citation"], (ROOT / "README.md").read_text("utf-8")
    bibtex = readme.partition("```bibtex")[2].partition("```")[0]
    plain = bibtex.replace('{\\"e}', "ë").replace("{N}", "N")
    assert paper["title"] in plain
    assert paper["journal"] in plain
    assert f"{{{paper['year']}}}" in plain
    names = [f"{a['family-names']}, {a['given-names']}" for a in paper["authors"]]
    assert f"{{{' and '.join(names)}}}" in " ".join(plain.split())
    assert paper["url"] in readme
    number = paper["url"].removeprefix("https://arxiv.org/abs/")
    assert paper["doi"] == f"10.48550/arXiv.{number}"


def test_the_version_stands_in_one_place() -> None:
    """The package's own; the changelog begins with it, and nothing else repeats it."""
    assert check.version() == cz.__version__
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert re.search(r"^version:", CITATION, re.MULTILINE) is None
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert headings[0] == cz.__version__


INFO = f"continuized-{cz.__version__}.dist-info"


@pytest.fixture
def wheel() -> dict[str, bytes]:
    """The files of a wheel as it should be."""
    fields = {
        "Name": "continuized",
        "Version": cz.__version__,
        "Summary": "s",
        "License-Expression": "BSD-3-Clause",
        "Keywords": "k",
        "Classifier": "c",
        "Provides-Extra": "plot",
        "Requires-Python": ">=3.11",
        "Description-Content-Type": "text/markdown",
    }
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    metadata = f"{head}\n".encode() + (ROOT / "README.md").read_bytes()
    info = {"METADATA": metadata, "entry_points.txt": b"", "licenses/LICENSE": b""}
    return dict.fromkeys(check.sources(), b"") | {f"{INFO}/{k}": v for k, v in info.items()}


def test_a_good_wheel_passes(wheel: dict[str, bytes]) -> None:
    assert list(check.in_wheel(wheel)) == []


@pytest.mark.parametrize(
    "name",
    [
        "continuized/py.typed",
        "continuized/process/flow.py",
        f"{INFO}/METADATA",
        f"{INFO}/licenses/LICENSE",
    ],
)
def test_what_is_missing_from_a_wheel_is_found(wheel: dict[str, bytes], name: str) -> None:
    del wheel[name]
    assert list(check.in_wheel(wheel)) == [f"wheel: {name} is missing"]


@pytest.mark.parametrize(
    "name",
    [
        "tests/process/test_flow.py",
        "continuized/__pycache__/flow.cpython-311.pyc",
        "continuized/notes.txt",
    ],
)
def test_what_does_not_belong_in_a_wheel_is_found(wheel: dict[str, bytes], name: str) -> None:
    wheel[name] = b""
    assert list(check.in_wheel(wheel)) == [f"wheel: {name} does not belong there"]


@pytest.mark.parametrize(
    ("right", "wrong", "field"),
    [
        (b"text/markdown", b"text/plain", "Description-Content-Type"),
        (f"Version: {cz.__version__}".encode(), b"Version: 0", "Version"),
        (b"Classifier: c\n", b"", "Classifier"),
        (b"# continuized", b"# Continuized", "the description"),
    ],
)
def test_what_is_wrong_in_the_metadata_is_found(
    wheel: dict[str, bytes], right: bytes, wrong: bytes, field: str
) -> None:
    metadata = wheel[f"{INFO}/METADATA"]
    assert metadata.count(right) >= 1
    (sentence,) = check.in_metadata(metadata.replace(right, wrong, 1))
    assert sentence.startswith(f"metadata: {field} is ")


def good_sdist() -> set[str]:
    tests = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("*.py")}
    return check.FILES | check.ADDED | tests | {f"src/{name}" for name in check.sources()}


def test_a_good_sdist_passes() -> None:
    assert list(check.in_sdist(good_sdist() | {"docs/index.md", ".ci/run"})) == []


@pytest.mark.parametrize(
    "name",
    [
        "pytest.log",
        ".venv/bin/python",
        "site/index.html",
        "tests/.hypothesis/unicode_data/a",
        "src/continuized/__pycache__/flow.no_flow-42.py311.nbi",
    ],
)
def test_what_does_not_belong_in_a_sdist_is_found(name: str) -> None:
    assert list(check.in_sdist(good_sdist() | {name})) == [f"sdist: {name} does not belong there"]


@pytest.mark.parametrize(
    "name", ["CITATION.cff", "tests/process/test_flow.py", "src/continuized/py.typed"]
)
def test_what_is_missing_from_a_sdist_is_found(name: str) -> None:
    assert list(check.in_sdist(good_sdist() - {name})) == [f"sdist: {name} is missing"]


@pytest.mark.parametrize(
    ("library", "module", "extra"),
    [
        ("jax", "adapters.jax", "jax"),
        ("jax", "adapters.optax", "jax"),
        ("optax", "adapters.optax", "jax"),
        ("sklearn", "adapters.sklearn", "sklearn"),
        ("torch", "adapters.torch", "torch"),
    ],
)
def test_an_adapter_says_what_to_install(library: str, module: str, extra: str) -> None:
    lines = f"import sys\nsys.modules[{library!r}] = None\nimport continuized.{module}"
    command = [sys.executable, "-c", lines]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: the ")
    assert done.stderr.endswith(f'run pip install "continuized[{extra}]"\n')
