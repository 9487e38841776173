"""Files on a machine with other people and other processes: links, pipes, devices and locks."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.support import files
from continuized.support.checkpoints import checkpointer as checkpoints
from continuized.support.checkpoints.checkpointer import FORMAT

P = cz.problems.Quadratic([1.0, 4.0], [1.0, 1.0])


def run(path: Path, **options: Any) -> Any:
    return cz.minimize(P, [3.0, 3.0], maxiter=20, rng=0, checkpoint=path, **options)


@pytest.mark.parametrize("name", ["run.part", "run.previous", ".run.lock"])
def test_no_link_is_written_through(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / name).symlink_to(victim)
    if name == "run.previous":
        with pytest.raises(cz.CheckpointError, match="previous is no checkpoint"):
            run(tmp_path / "run")
    else:
        run(tmp_path / "run")
    assert victim.read_text() == "precious"
    assert (tmp_path / name).is_symlink()


def test_no_link_is_written_through_whose_name_was_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda n: "00" * n)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".run.00000000.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        files.write(tmp_path / "run", "new")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["run.part", "run.previous", ".run.part", ".run.0123.part"])
def test_a_file_of_the_users_own_stays(name: str, tmp_path: Path) -> None:
    own = tmp_path / name
    own.write_text("precious")
    if name == "run.previous":
        with pytest.raises(cz.CheckpointError, match="move it, or give another path"):
            run(tmp_path / "run")
    else:
        run(tmp_path / "run")
        run(tmp_path / "run", resume=True)
    assert own.read_text() == "precious"


def test_what_a_kill_left_is_removed_by_the_next_run(tmp_path: Path) -> None:
    left = tmp_path / ".run.0123abcd.part"
    left.write_bytes(b"half")
    run(tmp_path / "run")
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]


def test_a_path_is_for_one_run_at_a_time(tmp_path: Path) -> None:
    """The second is refused by name, the first goes on, and the lock goes with it."""
    seen: list[str] = []

    def callback(x: Any) -> None:
        if not seen:
            with pytest.raises(cz.CheckpointError) as refused:
                run(tmp_path / "run", resume=True)
            seen.append(str(refused.value))

    r = run(tmp_path / "run", callback=callback)
    assert r.nit == 20
    assert f"is in use by process {os.getpid()}; wait for it to end" in seen[0]
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]
    run(tmp_path / "run", resume=True)


HOLD = """
import sys, time
from pathlib import Path
from continuized.support.files import Lock
lock = Lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(cz.CheckpointError, match=f"in use by process {holder.pid};"):
                run(path)
        finally:
            holder.kill()
    assert run(path).nit == 20
    assert sorted(os.listdir(tmp_path)) == ["run", "run.previous"]


def test_many_that_want_a_lock_have_it_one_at_a_time(tmp_path: Path) -> None:
    path, inside, most, taken = tmp_path / "run", [0], [0], [0]
    guard = threading.Lock()

    def want() -> None:
        for _ in range(200):
            try:
                lock = files.Lock(path)
            except BlockingIOError:
                continue
            with guard:
                inside[0] += 1
                taken[0] += 1
                most[0] = max(most[0], inside[0])
            with guard:
                inside[0] -= 1
            lock.release()

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert taken[0] > 0


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_a_path_is_free_again_while_the_error_of_its_run_is_kept(
    calls: int, tmp_path: Path
) -> None:
    """As an interactive session keeps it: a function is mended, and the run started again."""
    left = [calls]

    def fun(x: Any) -> float:
        left[0] -= 1
        if left[0] == 0:
            raise ZeroDivisionError
        return float(x @ x)

    path = tmp_path / "run"
    with pytest.raises(ZeroDivisionError) as kept:
        cz.minimize(fun, [3.0, 3.0], lambda x: 2.0 * x, tol=0.0, checkpoint=path)
    again = cz.minimize(fun, [3.0, 3.0], lambda x: 2.0 * x, maxiter=9, checkpoint=path)
    assert kept.tb is not None
    assert again.nit == 9


def test_a_path_is_free_again_after_a_state_that_could_not_be_put_back(tmp_path: Path) -> None:
    path = tmp_path / "run"
    run(path)
    header, arrays = checkpoints.load(path)
    checkpoints.save(path, header | {"state": {}}, arrays, keep=False)
    with pytest.raises(cz.CheckpointError) as kept:
        run(path, resume=True)
    assert kept.tb is not None
    assert run(path).nit == 20


@pytest.mark.parametrize("kind", ["text", "another name", "pipe", "folder"])
def test_what_has_the_name_of_the_lock_stays(kind: str, tmp_path: Path) -> None:
    taken, victim = tmp_path / ".run.lock", tmp_path / "victim"
    victim.write_text("123\n" if kind == "another name" else "precious")
    if kind == "another name":
        os.link(victim, taken)
    elif kind == "pipe":
        os.mkfifo(taken)
    elif kind == "folder":
        taken.mkdir()
    else:
        victim.rename(taken)
    mode = taken.lstat().st_mode
    assert run(tmp_path / "run").nit == 20
    assert taken.lstat().st_mode == mode
    if kind == "text":
        assert taken.read_text() == "precious"
    if kind == "another name":
        assert victim.read_text() == "123\n"


FORKED = """
import os, sys
from pathlib import Path
from continuized.support.files import Lock
path = Path(sys.argv[1])
lock = Lock(path)
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(path.with_name(f".{path.name}.lock").exists())
"""


def test_a_forked_process_does_not_take_the_lock_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKED, tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


FULL = """
import resource, signal, sys
from pathlib import Path
from continuized.support.files import Lock
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
lock = Lock(Path(sys.argv[1]))
try:
    Lock(Path(sys.argv[1]))
except BlockingIOError as error:
    sys.stderr.write(str(error))
"""


def test_a_lock_is_held_where_the_disk_is_full(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL, tmp_path / "run"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "process unknown"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("resume", [False, True])
def test_a_pipe_is_not_waited_for(resume: bool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run")
    with pytest.raises(cz.CheckpointError, match="a pipe or a device, not a file"):
        run(tmp_path / "run", resume=resume)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_device_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to("/dev/zero")
    with pytest.raises(cz.CheckpointError, match="a pipe or a device, not a file"):
        run(tmp_path / "run", resume=True)


def test_a_file_larger_than_memory_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").write_bytes(bytes(2000))
    monkeypatch.setattr(files, "memory", lambda: 3000.0)
    with pytest.raises(cz.CheckpointError, match=r"more than the .* GB that fit here"):
        run(tmp_path / "run", resume=True)


def forge(path: Path, header: Any, compression: int = zipfile.ZIP_STORED, **raw: bytes) -> None:
    """A file with a checksum that fits, and anything inside."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.comment = bytes(checkpoints.DIGEST)
        text = json.dumps(header).encode()
        for name, array in {"header": np.frombuffer(text, np.uint8)}.items():
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array)
        for name, content in raw.items():
            archive.writestr(f"{name}.npy", content)
    data = bytearray(buffer.getvalue())
    n = checkpoints.DIGEST
    data[-n:] = hashlib.sha256(data[:-n]).hexdigest().encode()
    path.write_bytes(data)


HUGE = b"\x93NUMPY\x01\x00v\x00" + (
    b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
)


@pytest.mark.parametrize(
    "header",
    [[], 3, None, "text", {}, {"format": FORMAT}, {"format": FORMAT, "identity": []},
     {"format": FORMAT, "identity": {}, "state": 5}, {"format": FORMAT, "identity": {}}],
)  # fmt: skip
def test_a_forged_header_is_refused(header: Any, tmp_path: Path) -> None:
    forge(tmp_path / "run", header)
    with pytest.raises(cz.CheckpointError):
        run(tmp_path / "run", resume=True)


def test_a_forged_state_is_refused(tmp_path: Path) -> None:
    """Parts that are missing, of another kind, or arrays of another shape or dtype."""
    path = tmp_path / "run"
    run(path)
    header, arrays = checkpoints.load(path)
    states: list[tuple[Any, dict[str, Any]]] = [({}, arrays)]
    for part in header["state"]:
        states.append(({k: v for k, v in header["state"].items() if k != part}, arrays))
        states.extend((header["state"] | {part: other}, arrays) for other in (None, 3, [], {}))
    for name, array in arrays.items():
        states.append((header["state"], {k: v for k, v in arrays.items() if k != name}))
        others = [np.zeros(array.shape, dtype) for dtype in (np.int8, np.complex128, "U3")]
        others += [array[:1], array[:0], np.zeros((*array.shape, 2))]
        states.extend(
            (header["state"], arrays | {name: other})
            for other in others
            if (other.shape, other.dtype) != (array.shape, array.dtype)
        )
    refused = 0
    for state, data in states:
        checkpoints.save(path, header | {"state": state}, data, keep=False)
        try:
            r = run(path, resume=True)
        except cz.CheckpointError:
            refused += 1
        else:  # what was changed is not looked at, and the run is none the worse
            assert r.nit == 20
            assert np.all(np.isfinite(r.x))
    assert refused > 0.5 * len(states)


@pytest.mark.parametrize(
    ("compression", "content"),
    [(zipfile.ZIP_DEFLATED, HUGE), (zipfile.ZIP_STORED, HUGE), (zipfile.ZIP_STORED, b"no array")],
)
def test_a_forged_array_is_refused(compression: int, content: bytes, tmp_path: Path) -> None:
    forge(
        tmp_path / "run",
        {"format": FORMAT, "identity": {}, "state": {}},
        compression,
        x=content,
    )
    with pytest.raises(cz.CheckpointError, match="no checkpoint"):
        run(tmp_path / "run", resume=True)


def test_a_lock_whose_file_was_just_removed_is_taken_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last holder removes it between our opening and our locking it."""
    path, flock, taken = tmp_path / "run", files.fcntl.flock, []

    def take(descriptor: int, how: int) -> None:
        taken.append(descriptor)
        if len(taken) == 1:
            (tmp_path / ".run.lock").unlink()
        flock(descriptor, how)

    monkeypatch.setattr(files.fcntl, "flock", take)
    lock = files.Lock(path)
    assert len(taken) == 2
    with pytest.raises(BlockingIOError, match=f"process {os.getpid()}"):
        files.Lock(path)
    lock.release()
