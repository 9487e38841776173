"""`solve` with a checkpoint: Ctrl-C, going on, and checkpoints of something else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continuized.app import model_file as model
from tests.helpers.solve_command import rows, run, write_svmlight

# A shell lets what it starts in the background ignore SIGINT, and its children inherit that.
LISTENING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("continuized.app.cli", run_name="__main__")
"""
# Ctrl-C comes as soon as a checkpoint is written, however quick the machine is.
AFTER_WRITING = """
import os, signal
from continuized.support import files

write = files.write

def write_and_interrupt(*given):
    files.write = write
    written = write(*given)
    os.kill(os.getpid(), signal.SIGINT)
    return written

files.write = write_and_interrupt
"""
# Ctrl-C comes while LLVM takes over a module, which llvmlite has not noted yet.
WHILE_LINKING = """
import os, signal
from llvmlite.binding import ffi

link = ffi.lib.LLVMPY_LinkModules

def link_and_interrupt(*modules):
    failed = link(*modules)
    os.kill(os.getpid(), signal.SIGINT)
    return failed

ffi.lib._fntab["LLVMPY_LinkModules"] = link_and_interrupt
"""


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--seed", 1), "with another DATA, another --seed or other options of the fit"),
        (("--method", "dual"), "with another DATA, another --seed or other options of the fit"),
        (("--l2", 0.5), "with another DATA, another --seed or other options of the fit"),
        (("--loss", "ridge"), "with another DATA, another --seed or other options of the fit"),
        (("--maxiter", 1), "more than maxiter = 1"),
    ],
)
def test_a_checkpoint_of_another_run_is_told_in_options(
    tmp_path: Path, options: tuple[Any, ...], sentence: str
) -> None:
    X, y = rows()
    data, kept = write_svmlight(tmp_path / "data", X, np.sign(y)), tmp_path / "kept"
    given = ("solve", data, "--checkpoint", kept, "--every", 0)
    assert run(*given).exit_code == 0
    result = run(*given, *options)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.endswith("; give another --checkpoint, or remove it\n")
    assert not any(word in result.stderr for word in ("resume", "None", "("))


def test_a_damaged_checkpoint_is_told_in_options(tmp_path: Path) -> None:
    X, y = rows()
    data, kept = write_svmlight(tmp_path / "data", X, np.sign(y)), tmp_path / "kept"
    kept.write_bytes(b"something else")
    result = run("solve", data, "--checkpoint", kept)
    assert result.exit_code == 2
    assert "its checksum does not fit; give another --checkpoint, or remove it" in result.stderr
    assert kept.read_bytes() == b"something else"


@pytest.mark.parametrize("options", [[], ["--checkpoint", "absent"], ["--checkpoint", "other"]])
def test_control_c_with_nothing_kept_promises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    X, scores = rows()
    data = write_svmlight(tmp_path / "data", X, np.sign(scores))
    (tmp_path / "other").write_text("not written by this run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("continuized.minimize", interrupted)
    result = run("solve", data, *options)
    assert (result.exit_code, result.stderr.strip()) == (130, "continuized: interrupted")


def test_control_c_keeps_the_checkpoint_and_a_second_run_goes_on(tmp_path: Path) -> None:
    X, scores = rows(2, n=200, d=40)
    data = write_svmlight(tmp_path / "data", X, np.sign(scores))
    kept, whole, out = tmp_path / "run.ckpt", tmp_path / "whole.npz", tmp_path / "model.npz"
    base = ["solve", data, "--method", "coordinate", "--l2", "1e-9", "--tol", "0"]
    first = run(*base, "--maxiter", 6_000, "--out", whole)
    assert first.exit_code == 1
    arguments = [*base, "--maxiter", 6_000, "--checkpoint", kept, "--every", 0, "--out", out]
    done = subprocess.run(
        [sys.executable, "-c", AFTER_WRITING + LISTENING, *map(str, arguments)],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.strip().splitlines()[-1]) == (
        130,
        f"continuized: interrupted; the run so far is in {kept}: the same command goes on from it",
    )
    assert kept.exists()
    assert not out.exists()
    assert run(*arguments).exit_code == 1
    assert np.array_equal(model.load(out).w, model.load(whole).w)


def test_control_c_while_llvm_links_ends_the_process_in_order(tmp_path: Path) -> None:
    X, scores = rows()
    data = write_svmlight(tmp_path / "data", X, np.sign(scores))
    done = subprocess.run(
        [sys.executable, "-c", WHILE_LINKING + LISTENING, "solve", str(data)],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr.strip()) == (130, "continuized: interrupted")
