"""Checkpoint files: what is not as it was written is refused, and the one before it is used."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.support.checkpoints import checkpointer as checkpoints
from tests.invariants.registry import problem

GIVEN: dict[str, Any] = {"x0": np.zeros(3), "rng": 0}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.npz"


def minimize(path: Path, maxiter: int = 60, resume: bool = True) -> Any:
    return cz.minimize(problem("user"), **GIVEN, maxiter=maxiter, checkpoint=path, resume=resume)


@pytest.fixture
def pair(path: Path) -> Path:
    """A checkpoint at 20 events, and the one before it at 10."""
    minimize(path, 10)
    ten = path.read_bytes()
    minimize(path, 20)
    checkpoints.previous(path).write_bytes(ten)
    return path


def events(path: Path) -> int:
    return int(checkpoints.load(path)[0]["state"]["stepper"]["k"])


def test_a_checkpoint_is_read_as_it_was_written(path: Path) -> None:
    header = {"number": 2**100, "nan": [0.1, float("inf")], "text": "µ"}
    arrays = {
        "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "float32": np.array([1.5], np.float32),
        "empty": np.zeros((0, 4)),
        "scalar": np.array(3),
    }
    checkpoints.save(path, header, arrays)
    found, read = checkpoints.load(path)
    assert found == header
    assert read.keys() == arrays.keys()
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert np.array_equal(read[name], array)
    with np.load(path, allow_pickle=False) as plain:  # an npz for everybody else, too
        assert set(plain.files) == {"header", *arrays}
        assert json.loads(plain["header"].tobytes())["format"] == checkpoints.FORMAT


def test_the_old_one_is_kept(path: Path) -> None:
    for number in (1, 2, 3):
        checkpoints.save(path, {"number": number}, {})
        assert checkpoints.load(path)[0] == {"number": number}
        if number > 1:
            assert checkpoints.load(checkpoints.previous(path))[0] == {"number": number - 1}
    assert sorted(os.listdir(path.parent)) == ["run.npz", "run.npz.previous"]


def test_objects_are_never_written(path: Path) -> None:
    with pytest.raises(TypeError, match="holds numbers"):
        checkpoints.save(path, {}, {"a": np.array([{}])})
    assert not path.exists()


@pytest.fixture
def small(path: Path) -> Path:
    """A checkpoint of some 800 bytes: the places of a larger one, once each."""
    checkpoints.save(path, {"state": {"k": 3}}, {"a": np.arange(4.0)})
    return path


def test_every_byte_counts(small: Path) -> None:
    data = small.read_bytes()
    for i in range(len(data)):
        small.write_bytes(data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :])
        with pytest.raises(cz.CheckpointError, match="checksum does not fit"):
            checkpoints.load(small)


def test_every_length_counts(small: Path) -> None:
    data = small.read_bytes()
    for wrong in (*(data[:i] for i in range(len(data))), data + b"\0"):
        small.write_bytes(wrong)
        with pytest.raises(cz.CheckpointError, match="damaged, or is no checkpoint"):
            checkpoints.load(small)


def another_npz(path: Path) -> None:
    np.savez(path, a=np.zeros(3))


def with_checksum(content: bytes) -> bytes:
    return content + hashlib.sha256(content).hexdigest().encode()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


DAMAGE = {
    "empty": lambda p: p.write_bytes(b""),
    "cut": lambda p: p.write_bytes(p.read_bytes()[:-700]),
    "flipped": lambda p: p.write_bytes(p.read_bytes()[:300] + b"?" + p.read_bytes()[301:]),
    "zeros": lambda p: p.write_bytes(bytes(p.stat().st_size)),
    "text": lambda p: p.write_text("not a checkpoint\n" * 9),
    "another npz": another_npz,
    "a checksum of nothing": lambda p: p.write_bytes(with_checksum(b"")),
    "a checksum of no zip": lambda p: p.write_bytes(with_checksum(b"PK" + bytes(99))),
    "a checksum of another npz": lambda p: p.write_bytes(with_checksum(npz(a=np.zeros(3)))),
    "pickled": lambda p: p.write_bytes(with_checksum(npz(header=np.array([{}])))),
    "a folder": lambda p: (p.unlink(), p.mkdir(), (p / "mine").write_text("")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_the_previous_one_is_used(pair: Path, damage: str) -> None:
    whole = cz.minimize(problem("user"), **GIVEN, maxiter=60)
    DAMAGE[damage](pair)
    if damage == "a folder":  # it is warned of and left alone: nothing can be written there
        with (
            pytest.warns(cz.CheckpointWarning, match="is a folder"),
            pytest.raises(OSError, match="cannot be written"),
        ):
            minimize(pair)
        assert [p.name for p in pair.iterdir()] == ["mine"]
        return
    with pytest.warns(cz.CheckpointWarning, match="run.npz is .*; the one before") as warned:
        r = minimize(pair)
    assert warned[0].filename == __file__
    assert r.x.tobytes() == whole.x.tobytes()
    assert r.trace.fun.tobytes() == whole.trace.fun.tobytes()
    assert events(pair) == 60


@pytest.mark.parametrize("damage", [d for d in DAMAGE if d != "a folder"])
def test_a_damaged_file_never_becomes_the_previous_one(pair: Path, damage: str) -> None:
    DAMAGE[damage](pair)
    with pytest.warns(cz.CheckpointWarning):
        minimize(pair, 10)  # one write: the state of the previous one
    assert events(pair) == events(checkpoints.previous(pair)) == 10


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("resume", [True, False])
def test_two_damaged_files_are_refused_and_left_alone(
    pair: Path, damage: str, resume: bool
) -> None:
    DAMAGE["cut"](checkpoints.previous(pair))
    DAMAGE[damage](pair)
    before = sorted(os.listdir(pair.parent))
    content = pair.read_bytes() if pair.is_file() else None
    with pytest.raises(cz.CheckpointError, match="checkpoint") as caught:
        minimize(pair, resume=resume)
    assert "\n" not in str(caught.value)
    assert sorted(os.listdir(pair.parent)) == before
    assert content is None or pair.read_bytes() == content


def test_the_previous_one_alone_is_enough(pair: Path) -> None:
    """What a kill between the two renames leaves."""
    pair.unlink()
    assert minimize(pair, 10).nit == 10
    assert events(pair) == events(checkpoints.previous(pair)) == 10


def test_neither_is_a_fresh_start(path: Path) -> None:
    assert minimize(path, 10).nit == 10
    assert events(path) == 10


def test_without_resume_the_run_starts_anew(pair: Path) -> None:
    assert minimize(pair, 5, resume=False).nit == 5
    assert events(pair) == 5


@pytest.mark.parametrize("number", [1, checkpoints.FORMAT - 1, checkpoints.FORMAT + 1])
def test_another_format_is_refused(
    number: int, pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Format 1 is that of the first checkpoints, which named other parts."""
    own = checkpoints.FORMAT
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "FORMAT", number)
        checkpoints.save(pair, {"state": {"k": 10}}, {"work": np.zeros((6, 3))}, keep=False)
    checkpoints.previous(pair).unlink()
    said = f"is a checkpoint of format {number}, but this version reads format {own}: "
    for resume in (True, False):
        with pytest.raises(cz.CheckpointError, match=said):
            minimize(pair, 20, resume=resume)


def test_a_link_is_kept(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    path.symlink_to(path.parent / "elsewhere" / "run.npz")
    for maxiter in (10, 20):
        minimize(path, maxiter)
        assert path.is_symlink()
        assert events(path) == maxiter


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    minimize(Path("run.npz"), 10)
    shutil.copy(tmp_path / "a" / "run.npz", tmp_path / "b" / "copy.npz")
    p = cz.Problem(problem("user").fun, lambda x: (os.chdir(tmp_path / "b"), p0.grad(x))[1])
    p0 = problem("user")
    cz.minimize(p, **GIVEN, L=1.5, mu=0.5, maxiter=20, checkpoint="run.npz", resume=True)
    assert events(tmp_path / "a" / "run.npz") == 20
    assert os.listdir(tmp_path / "b") == ["copy.npz"]


def test_a_failed_save_lets_go_of_its_buffer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[memoryview] = []

    def full(path: Path, content: memoryview, previous: Path | None) -> None:
        seen.append(content)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoints.files, "write", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save(path, {}, {"x": np.zeros(3)})
    with pytest.raises(ValueError, match="released"):
        seen[0].tobytes()
