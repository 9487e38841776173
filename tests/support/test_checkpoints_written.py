"""Checkpoints: when one is written, when it cannot be, and runs that are killed meanwhile."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import continuized as cz
from continuized.solver.steppers import fixed
from continuized.support import files
from continuized.support.checkpoints import checkpointer as checkpoints
from tests.helpers.interrupted_runs import same
from tests.invariants.registry import problem


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The events done at each write; every block is one event, which takes one second."""
    done: list[int] = []
    real, seconds = checkpoints.save, iter(range(10**6))

    def save(path: Path, header: Any, arrays: Any, keep: bool = True) -> None:
        done.append(header["state"]["stepper"]["k"])
        real(path, header, arrays, keep)

    class Time:
        monotonic = staticmethod(lambda: next(seconds))

    monkeypatch.setattr(checkpoints, "save", save)
    monkeypatch.setattr(checkpoints, "time", Time)
    monkeypatch.setattr(fixed, "BLOCK_SECONDS", -1.0)
    return done


def test_it_is_written_every_so_often(path: Path, writes: list[int]) -> None:
    for every, expected in ((0.0, [0, 1, 2, 3, 4, 5, 6, 7, 8]), (3.0, [0, 3, 6, 8]), (1e9, [0, 8])):
        cz.minimize(problem("user"), np.zeros(3), rng=0, maxiter=8, checkpoint=path, every=every)
        assert writes == expected
        writes.clear()


def test_a_full_disk_later_is_warned_of_once(
    path: Path, writes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"x0": np.zeros(3), "rng": 0, "maxiter": 20}
    real = os.fsync

    def fsync(file: int) -> None:
        if len(writes) > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(file)

    whole = cz.minimize(problem("user"), **given)
    monkeypatch.setattr(files.os, "fsync", fsync)
    with pytest.warns(cz.CheckpointWarning, match="No space left") as warned:
        r = cz.minimize(problem("user"), **given, checkpoint=path, every=0.0)
    assert len(warned) == 1
    assert warned[0].filename == __file__
    assert same(whole, r)
    monkeypatch.setattr(files.os, "fsync", real)
    assert checkpoints.load(path)[0]["state"]["stepper"]["k"] == 4
    assert sorted(p.name for p in path.parent.iterdir()) == ["run.npz", "run.npz.previous"]
    assert same(whole, cz.minimize(problem("user"), **given, checkpoint=path, resume=True))


LIMITED = """
import resource, sys, warnings
import numpy as np
import continuized as cz
cz.minimize(cz.problems.paper_convex(), np.zeros(100), maxiter=3)  # machine code goes to files, too
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    r = cz.minimize(cz.problems.paper_convex(), np.zeros(100), maxiter=3000, rng=0, every=0.0,
                    checkpoint=sys.argv[1])
print(r.nit, [w.category.__name__ for w in warned])
"""


def test_a_file_that_may_not_grow(path: Path) -> None:
    """The operating system's own refusal: too large a file, at the start and later."""
    p = cz.problems.paper_convex()
    for limit in (100, 30_000):
        child = subprocess.run(
            [sys.executable, "-c", LIMITED, str(path), str(limit)], capture_output=True, text=True
        )
        if limit == 100:
            last = child.stderr.strip().splitlines()[-1]
            assert last.startswith("OSError: [Errno 27] the checkpoint cannot be written"), last
            assert not path.exists()
    assert child.stdout.strip() == "3000 ['CheckpointWarning']", child.stderr
    assert 0 < checkpoints.load(path)[0]["state"]["stepper"]["k"] < 3000
    given = {"x0": np.zeros(p.dim), "maxiter": 3000, "rng": 0}
    assert same(cz.minimize(p, **given), cz.minimize(p, **given, checkpoint=path, resume=True))


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("where", ["missing/run.npz", "file/run.npz"])
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, where: str, resume: bool) -> None:
    (tmp_path / "file").write_text("a file, not a folder")
    with pytest.raises(OSError, match="the checkpoint cannot be written") as caught:
        cz.minimize(problem("user"), np.zeros(3), maxiter=5, checkpoint=tmp_path / where,
                    resume=resume)  # fmt: skip
    assert "\n" not in str(caught.value)
    assert where in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.slow
@pytest.mark.parametrize("what", ["run", "save"])
def test_sixty_kills(what: str, tmp_path: Path) -> None:
    script = Path(__file__).parents[1] / "helpers" / "killed_runs.py"
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    child = subprocess.run(
        [sys.executable, str(script), what, str(tmp_path)],
        env=os.environ | one_thread, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
