"""tools/make_gallery.py: whole pictures or none, and every failure said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPTS = {
    "good": 'open(sys.argv[1] + "/good.png", "wb").write(b"new")',
    "digits_torch": 'open(sys.argv[1] + "/digits_torch.png", "wb").write(b"apart")',
    "bad": 'open(sys.argv[1] + "/bad.png", "wb").write(b"half"); raise ValueError("no luck")',
    "none": "pass",
    "two": '[open(f"{sys.argv[1]}/{n}.png", "wb").write(b"n") for n in ("two", "three")]',
}


def made(tmp_path: Path, *names: str) -> tuple[subprocess.CompletedProcess[str], dict[str, bytes]]:
    examples, folder = tmp_path / "examples", tmp_path / "gallery"
    for path in (examples, folder):
        path.mkdir()
    for name, line in SCRIPTS.items():
        (examples / f"{name}.py").write_text(f"import sys\n{line}\n", encoding="utf-8")
        (folder / f"{name}.png").write_bytes(b"old")
    tool = str(ROOT / "tools" / "make_gallery.py")
    command = [sys.executable, tool, "--from", str(examples), "--to", str(folder), *names]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return result, {path.name: path.read_bytes() for path in folder.iterdir()}


def test_failures_are_said_and_leave_the_old_pictures(tmp_path: Path) -> None:
    result, pictures = made(tmp_path)
    assert result.returncode == 1, result.stderr
    assert result.stdout.splitlines()[:-1] == [
        "bad: FAILED, exit code 1: ValueError: no luck",
        "good: made",
        "none: FAILED, made nothing, not none.png",
        "two: FAILED, made three.png, two.png, not two.png",
    ]
    assert result.stdout.splitlines()[-1].startswith("1 of 4 pictures are in ")
    assert pictures == {f"{name}.png": b"old" for name in SCRIPTS} | {"good.png": b"new"}


def test_some_only(tmp_path: Path) -> None:
    result, pictures = made(tmp_path, "good")
    assert result.returncode == 0, result.stdout
    assert pictures["good.png"] == b"new"


def test_a_name_that_is_no_example(tmp_path: Path) -> None:
    result, pictures = made(tmp_path, "god")
    assert result.returncode == 2
    assert "no example is called 'god', only bad, good, none, two" in result.stderr
    assert set(pictures.values()) == {b"old"}
