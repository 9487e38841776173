"""What stands in two files for the sake of two tools says the same in both."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import continuized as cz
from tests.helpers.repository_tools import load_tool

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))

lowest_versions = load_tool("lowest_versions")


def yaml_of(path: Path) -> Any:
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))


def required(extras: list[str], groups: list[str]) -> set[str]:
    """The requirements of extras and groups, without those of the core."""
    lines = set(lowest_versions.requirements(PROJECT, extras, groups))
    return lines - set(PROJECT["project"]["dependencies"])


def sessions() -> set[str]:
    """The names of the sessions in noxfile.py."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(d).startswith("nox.session") for d in node.decorator_list)
    }


def pins() -> dict[str, str]:
    """The versions that are tested, by name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}


# The tests themselves


def test_no_test_is_left_out_in_silence() -> None:
    """`needs` counts and names what does not run; no check would run what pytest leaves out."""
    silent = "import" + "orskip"
    files = [p for p in (ROOT / "tests").rglob("*.py") if silent in p.read_text(encoding="utf-8")]
    assert not files


# Requirements


def test_the_group_test_is_the_extra_test() -> None:
    assert required([], ["test"]) == required(["test"], [])


def test_every_requirement_has_a_lowest_version_and_a_tested_one() -> None:
    extras, groups = PROJECT["project"]["optional-dependencies"], PROJECT["dependency-groups"]
    lines = lowest_versions.requirements(PROJECT, extras, set(groups) - {"release"})
    tested = pins()
    for name, version in lowest_versions.lowest(lines).items():
        pin = tested[re.sub(r"[-_.]+", "-", name).lower()]
        assert numbers(version) <= numbers(pin), name


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


@pytest.mark.parametrize("lines", [["numpy"], ["numpy>=1,<2"], ["numpy>=1", "numpy>=2"]])
def test_a_requirement_without_one_lowest_version_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="lowest version"):
        lowest_versions.lowest(lines)


@pytest.mark.needs("yaml")
def test_the_recipe_is_of_this_package() -> None:
    recipe = yaml_of(ROOT / "tools" / "conda" / "recipe.yaml")
    assert recipe["context"]["version"] == cz.__version__
    python, *run = (line.replace(" ", "") for line in recipe["requirements"]["run"])
    assert python == f"python{PROJECT['project']['requires-python']}"
    core = [line.partition(";")[0] for line in PROJECT["project"]["dependencies"]]
    assert sorted(run) == sorted(core)
    assert recipe["about"]["summary"] == PROJECT["project"]["description"]
    name, target = next(iter(PROJECT["project"]["scripts"].items()))
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {target}"]


# One way to run each check


@pytest.mark.skipif(shutil.which("bash") is None, reason="the checks are run by bash")
def test_bash_reads_the_checks_to_their_end() -> None:
    """A slip in their last lines would be seen after all the others have run."""
    read = subprocess.run(["bash", "-n", ROOT / ".ci" / "run"], capture_output=True, text=True)
    assert (read.returncode, read.stderr) == (0, "")


def test_ci_calls_sessions_that_exist() -> None:
    looped = re.findall(r"^ *for session in (.+); do$", CI, re.MULTILINE)
    assert len(looped) == 2  # one beside the tests, and one after them
    called = {*" ".join(looped).split(), *re.findall(r"^check (\w+)", CI, re.MULTILINE)}
    assert called <= sessions()
    # What it does not call: the README's tests, which it runs as the README says, the tests with
    # other versions, and the archives for an index.
    assert sessions() - called == {"lowest", "release", "tests"}


@pytest.mark.needs("yaml")
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_sessions_that_exist(path: Path) -> None:
    given = yaml_of(path)
    assert given["permissions"] == {"contents": "read"}
    versions = set(re.findall(r"Python :: (3\.\d+)", str(PROJECT["project"]["classifiers"])))
    for job in given["jobs"].values():
        assert job["timeout-minutes"] <= 60
        matrix = job.get("strategy", {}).get("matrix", {})
        named = [entry["session"] for entry in matrix.get("include", [])]
        named += re.findall(r"nox -s ([\w.-]+)", str(job["steps"]))
        for session in named:
            name, _, python = session.partition("-")
            assert name in sessions()
            assert not python or python in versions


@pytest.mark.needs("yaml")
def test_every_python_that_is_named_is_tested() -> None:
    named = set(re.findall(r"Python :: (3\.\d+)", str(PROJECT["project"]["classifiers"])))
    jobs = yaml_of(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    tested = {entry["python"] for entry in jobs["tests"]["strategy"]["matrix"]["include"]}
    assert named <= tested
    assert PROJECT["project"]["requires-python"] == f">={min(named, key=numbers)}"


@pytest.mark.needs("yaml")
@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_is_read(path: Path) -> None:
    form = yaml_of(path)
    if path.stem != "config":
        assert {"name", "description", "body"} <= set(form)
        ids = [field["id"] for field in form["body"]]
        assert len(ids) == len(set(ids))


@pytest.mark.needs("yaml")
def test_the_hooks_lint_with_the_tested_version() -> None:
    repos = yaml_of(ROOT / ".pre-commit-config.yaml")["repos"]
    (ruff,) = (repo for repo in repos if repo["repo"].endswith("/ruff-pre-commit"))
    assert ruff["rev"] == f"v{pins()['ruff']}"


# The paper about the software


def test_the_paper_cites_what_its_bibliography_has() -> None:
    folder = ROOT / "docs" / "paper"
    cited = set(re.findall(r"@(\w+)", (folder / "paper.md").read_text(encoding="utf-8")))
    listed = re.findall(
        r"^@\w+\{(\w+),$", (folder / "paper.bib").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(cited) == sorted(listed)
