#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox"]
# ///
"""Every check of this repository is a session: `nox --list` names them, `nox -s lint` runs one.

A session makes a virtual environment of its own, with the tested versions of what it needs.
.ci/run has one environment for all, and calls them with --no-venv; then nothing is installed.
What follows `--` is given to pytest, or to the tool that a session runs.
"""

from __future__ import annotations

import os
import sys

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|virtualenv"

PROJECT = nox.project.load_toml("pyproject.toml")
PYTHONS = nox.project.python_versions(PROJECT)
OLDEST = PYTHONS[0]


def group(name: str) -> list[str]:
    """The requirements of a dependency group."""
    return list(nox.project.dependency_groups(PROJECT, name))


def prepare(session: nox.Session, *what: str) -> None:
    """Install the tested versions into the session's environment, if it has one of its own."""
    if session.virtualenv.is_sandboxed:
        session.install("-c", "constraints.txt", *what)


def python(session: nox.Session, *arguments: str) -> None:
    """Run the Python of the session's environment."""
    name = "python" if session.virtualenv.is_sandboxed else sys.executable
    session.run(name, *arguments, external=not session.virtualenv.is_sandboxed)


# Tests


@nox.session(python=PYTHONS, default=False)
def tests(session: nox.Session) -> None:
    """The tests of the README's command."""
    prepare(session, ".[test]")
    python(session, "-m", "pytest", *session.posargs)


@nox.session(default=False)
def rest(session: nox.Session) -> None:
    """The tests that the README's command leaves out: slow ones, and those of other libraries."""
    prepare(session, ".[all]", *group("dev"))
    # Some files take minutes: whole files to a core would leave one at work long after the others.
    chosen = "-m", "slow or needs", "--all-libraries", "--dist", "worksteal"
    python(session, "-m", "pytest", *chosen, *session.posargs)


@nox.session(default=False)
def bad_input(session: nox.Session) -> None:
    """What nobody should give, to every public function."""
    prepare(session, ".[all]", *group("dev"))
    file = "tests/invariants/test_entry_points.py"
    python(session, "-m", "pytest", file, *(session.posargs or ["--cases", "300"]))


@nox.session(default=False)
def doctests(session: nox.Session) -> None:
    """The examples in docstrings and in the README."""
    prepare(session, ".[all]", *group("dev"))
    python(session, "-m", "pytest", "--doctest-modules", "--pyargs", "continuized")
    python(session, "-W", "error", "-m", "doctest", "README.md")


@nox.session(default=False)
def processors(session: nox.Session) -> None:
    """The tests of linear algebra, with the kernels of other processors."""
    prepare(session, ".[test]")
    python(session, "tools/check_processors.py", *session.posargs)


@nox.session(default=False)
def without_numba(session: nox.Session) -> None:
    """Tests of all kinds where Numba cannot be imported."""
    prepare(session, ".[test]")
    python(session, "tools/check_without_numba.py", *session.posargs)


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """The lines that tests run with --cov have covered: 95 % of the core."""
    prepare(session, *group("dev"))
    python(session, "-m", "coverage", "report")
    # Not the adapters, which other libraries run, nor real nodes, partly in other processes.
    omitted = "--omit=*/adapters/*,*/network/runtime/*,*/network/workers/*"
    python(session, "-m", "coverage", "report", "--fail-under=95", "--format=total", omitted)


@nox.session(python=OLDEST, default=False)
def lowest(session: nox.Session) -> None:
    """The tests of the README's command, and those of all libraries, with the lowest versions that
    pyproject.toml admits."""
    if not session.virtualenv.is_sandboxed:
        session.error("the lowest versions need an environment of their own: leave --no-venv out")
    versions = os.path.join(session.create_tmp(), "lowest.txt")
    extras = "--extra", "test", "--extra", "all", "--group", "dev"
    python(session, "tools/lowest_versions.py", *extras, "--out", versions)
    # Of the group `dev` and what it brings, what tests use.
    others = ["array-api-strict", "expecttest", "ipykernel", "latex2mathml", "nbclient", "pandas"]
    others += ["PEPit", "pyyaml", "selenium", "sphinx"]
    # What old versions warn of is mended in newer ones, such as what Ray leaves open; old
    # matplotlibs do not know this pyparsing.
    session.install("-c", versions, ".[test,all]", *others, "pyparsing<3.3")
    ignored = "DeprecationWarning", "pytest.PytestUnraisableExceptionWarning"
    quiet = [option for kind in ignored for option in ("-W", f"ignore::{kind}")]
    chosen = "-m", "not slow or needs", "--all-libraries"
    python(session, "-m", "pytest", *chosen, *quiet, *session.posargs)


# The sources, the pages, the package


@nox.session
def lint(session: nox.Session) -> None:
    """Run the linter."""
    prepare(session, "ruff")
    python(session, "-m", "ruff", "check", ".")
    python(session, "-m", "ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types."""
    prepare(session, ".[all]", *group("dev"))
    python(session, "-m", "mypy")


@nox.session
def layers(session: nox.Session) -> None:
    """Imports go down the layers, and no other way."""
    python(session, "tools/check_layers.py")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The pages, with their notebooks run; they fetch nothing from elsewhere."""
    prepare(session, ".[all]", *group("docs"))
    options = "-j", "auto", "-W", "--keep-going", "-q", "-b", "html"
    python(session, "-m", "sphinx", *options, "docs", "site")
    python(session, "tools/check_docs.py", "site", "--narrow")


@nox.session(default=False)
def package(session: nox.Session) -> None:
    """The archives: built, looked into, and installed where nothing else is."""
    prepare(session, "hatchling")
    python(session, "tools/check_package.py", *session.posargs)


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """The archives as they are published, in dist/: also checked by the tools of others."""
    prepare(session, *group("release"))
    options = "--sdist", "--readme", "--release", "dist"
    python(session, "tools/check_package.py", *options, *session.posargs)


if __name__ == "__main__":
    nox.main()
