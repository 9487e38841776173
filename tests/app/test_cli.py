"""The command line: exit codes, sentences, JSON, files."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import continuized
from continuized.app.cli import COMMANDS, main

FILES = {f"figure{n}.{kind}" for n in (1, 2) for kind in ("png", "svg", "csv")} | {"index.html"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def assert_one_sentence(result: Result, *words: str) -> None:
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)  # no traceback
    assert result.stdout == ""
    assert result.stderr.startswith("continuized: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


def test_help_names_the_commands_and_version_the_version() -> None:
    result = run("--help")
    assert result.exit_code == 0
    assert "reproduce" in result.stdout
    assert run("reproduce", "--help").exit_code == 0
    assert run("--version").stdout == f"continuized, version {continuized.__version__}\n"


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "continuized", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"continuized, version {continuized.__version__}\n"


def test_help_imports_nothing_slow() -> None:
    code = (
        "import contextlib, sys; from continuized.app.cli import COMMANDS, main\n"
        "for command in ([], *([name] for name in COMMANDS)):\n"
        "    with contextlib.suppress(SystemExit): main([*command, '--help'])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.count("Usage:") == 1 + len(COMMANDS)
    imported = set(done.stderr.split())
    assert "continuized.app.cli" in imported
    assert not imported & {"numpy", "scipy", "numba", "matplotlib", "rich", "importlib.metadata"}


def test_no_arguments_shows_the_help() -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", 0], ["--steps", "0"]),
        (["--steps", -3], ["--steps", "-3"]),
        (["--steps", "many"], ["--steps", "many"]),
        (["--steps", 10**9], ["--steps", "1000000000"]),
        (["--seed", -1], ["--seed", "-1"]),
        (["--seed", 1.5], ["--seed", "1.5"]),
        (["--nonsense"], ["--nonsense"]),
        (["extra"], ["extra"]),
    ],
)
def test_bad_options(tmp_path: Path, arguments: list[object], words: list[str]) -> None:
    out = tmp_path / "out"
    assert_one_sentence(run("reproduce", "--out", out, *arguments), *words)
    assert not out.exists()


def test_an_unknown_command() -> None:
    known = [f'"{name}"' for name in COMMANDS]
    assert_one_sentence(run("reprodice"), *known, "'reprodice'; did you mean \"reproduce\"?")
    assert_one_sentence(run("--reproduce"), "No such option", "--reproduce")


def test_a_file_instead_of_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    assert_one_sentence(run("reproduce", "--out", file), str(file), "folder")
    assert_one_sentence(run("reproduce", "--out", file / "below"), str(file))
    assert file.read_text() == "kept"


def test_an_unwritable_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulated: the superuser, whom tests may run as, can write to any real folder.
    def refuse(self: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "touch", refuse)
    result = run("reproduce", "--out", tmp_path)
    assert_one_sentence(result, f"{tmp_path}: Permission denied")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("reproduce", "--out", tmp_path / "out")
    assert_one_sentence(result, 'pip install "continuized[plot]"')
    assert not (tmp_path / "out").exists()


def test_a_bug_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("continuized.app.figures.figures", broken)
    result = run("reproduce", "--out", tmp_path)
    assert isinstance(result.exception, ValueError)


def test_reproduce_writes_files_and_prints_tables(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    result = run("reproduce", "--out", out, "--steps", 12)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert {path.name for path in out.iterdir()} == FILES
    assert "Figure 1, convex" in result.stdout
    assert "\n\nFigure 1, strongly convex" in result.stdout  # a blank line before each table
    assert "Figure 2, strongly convex" in result.stdout
    assert "…" not in result.stdout  # nothing cut off at 80 columns
    assert max(map(len, result.stdout.splitlines()[:-1])) <= 80


@pytest.fixture(scope="module")
def reproduced(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """A folder, and what was said: 10 steps and the seed 3, with --json."""
    out = tmp_path_factory.mktemp("reproduced")
    return out, run("reproduce", "--out", out, "--steps", 10, "--seed", 3, "--json")


def test_json_is_one_object_and_nothing_else(reproduced: tuple[Path, Result]) -> None:
    _, result = reproduced
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert (answer["seed"], answer["version"]) == (3, continuized.__version__)
    assert {Path(name).name for name in answer["files"]} == FILES
    rows = answer["rows"]
    assert len(rows) == 2 * 2 * 3 * 2  # figures, panels, methods, and k = 1 and 10
    assert {row["k"] for row in rows} == {1, 10}
    row = next(r for r in rows if r["figure"] == 1 and r["method"] == "nesterov" and r["k"] == 10)
    assert 0.0 < row["excess"] < row["bound"]


def test_the_same_seed_gives_the_same_files(
    tmp_path: Path, reproduced: tuple[Path, Result]
) -> None:
    same, other = tmp_path / "same", tmp_path / "other"
    for out, seed in ((same, 3), (other, 4)):
        assert run("reproduce", "--out", out, "--steps", 10, "--seed", seed).exit_code == 0
    for file in FILES:
        first, again, changed = ((out / file).read_bytes() for out in (reproduced[0], same, other))
        assert first == again
        assert first != changed


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    code = (
        "from continuized.app.cli import main; main(['reproduce', '--steps', '3', '--out', 'out'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    os.close(write)
    assert "Traceback" not in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES


def test_what_standard_output_cannot_encode_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,y\n1,größer\n2,kleiner\n", encoding="utf-8")
    code = "from continuized.app.cli import main; main(['solve', 'data.csv'])"
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ascii_only)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert r"classes    2: gr\xf6\xdfer (1), kleiner (1)" in done.stdout
